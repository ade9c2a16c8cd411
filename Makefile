# Isogrid. `make` builds the library and the program, `make test` builds and runs the tests.
#   SANITIZE=1  AddressSanitizer and UBSan       DNNL=0  OpenBLAS alone, without oneDNN (the default except on x86-64)
#   CC=clang    works as well as gcc             BUILD=dir  where objects go
#   LONG=1      also the tests that CI skips       V=1       print the commands
#   CUDA=0|1    without CUDA, or not without it: runtime/backend/cuda/cuda.mk
PREFIX ?= /usr/local
Q := $(if $(V),,@)
MPICC ?= mpicc
export OMPI_CC ?= $(if $(filter default,$(origin CC)),gcc,$(CC))
# Whether the compiler makes code for x86-64. The products of oneDNN 2.6 for other processors are plain loops.
X86 := $(filter x86_64-%,$(shell $(OMPI_CC) -dumpmachine))
DNNL ?= $(if $(X86),1,0)
BUILD ?= build$(if $(SANITIZE),-sanitize)$(if $(X86),$(if $(filter 0,$(DNNL)),-blas),$(if $(filter 1,$(DNNL)),-dnnl))$(if $(findstring clang,$(OMPI_CC)),-clang)
VERSION := $(shell sed -n 's/^\#define ISO_VERSION_[MP][A-Z]* \([0-9]*\)$$/\1/p' runtime/base/build.h | paste -s -d .)

# Asked for once: += would ask pkg-config again for each object.
PACKAGES := hdf5-openmpi libpcre2-8 jansson zlib libdeflate libzip libprotobuf-c libutf8proc
PACKAGE_FLAGS := $(strip $(shell pkg-config --cflags $(PACKAGES))) $(shell pkg-config --cflags openblas)
PACKAGE_LIBS := $(shell pkg-config --libs $(PACKAGES))
CPPFLAGS += -DISO_BUILDING -I. -Iruntime -I$(BUILD) -D_GNU_SOURCE $(PACKAGE_FLAGS) -DISO_WITH_DNNL=$(DNNL)
# -g1: the functions and lines of a backtrace. All of -g takes a tenth more time to compile, and three times as much to link.
CFLAGS += -std=c11 $(if $(SANITIZE),-Og,-O3) -g1 -fPIC -pthread -fno-math-errno -fno-trapping-math -ffp-contract=off -fvisibility=hidden \
	-Wall -Wextra -Werror -Wshadow -Wvla -Wno-psabi
# clang also warns of designated initializers that leave out members of what they hold.
CFLAGS += $(if $(findstring clang,$(OMPI_CC)),-Wno-missing-field-initializers)
LDLIBS += $(PACKAGE_LIBS) $(if $(filter 1,$(DNNL)),-ldnnl) -lm -lpthread -ldl
ifdef SANITIZE
CFLAGS += -fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined
# At -Og gcc suspects more than it can know.
CFLAGS += $(if $(findstring clang,$(OMPI_CC)),,-Wno-maybe-uninitialized)
LDFLAGS += -fsanitize=address,undefined
KEEP_MODULES := $(BUILD)/tests/sanitize/keep_modules.o
endif

SOURCES := $(shell find $(wildcard collectives launch models runtime tests docs) \( -name "*.[ch]" -o -name "*.cc" -o -name "*.cu" \) | LC_ALL=C sort)
LIBRARY_SOURCES := $(filter-out runtime/backend/cuda/% $(if $(X86),,%_avx2.c %_avx512.c),$(filter collectives/%.c models/%.c runtime/%.c,$(SOURCES)))
PROGRAM_SOURCES := $(filter launch/%.c,$(SOURCES))
PROTOCOLS := $(wildcard runtime/train/tensorboard/*.proto)
LIBRARY_OBJECTS := $(LIBRARY_SOURCES:%.c=$(BUILD)/%.o) $(PROTOCOLS:%.proto=$(BUILD)/%.pb-c.o) $(BUILD)/build_id.o
PROGRAM_OBJECTS := $(PROGRAM_SOURCES:%.c=$(BUILD)/%.o)

all: $(BUILD)/libisogrid.a $(BUILD)/isogrid cuda-missing

include runtime/backend/cuda/cuda.mk
all: $(or $(CUDA_LIBRARY),without-cuda-library)

$(BUILD)/libisogrid.a: $(LIBRARY_OBJECTS)
	$(Q)rm -f $@ && ar rcs $@ $^

$(BUILD)/isogrid: $(PROGRAM_OBJECTS) $(BUILD)/libisogrid.a $(KEEP_MODULES)
	$(Q)$(MPICC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# Kernels that are written once in vector types and compiled for each instruction set. Other processors than x86-64 have one, that of *_base.c.
ifdef X86
AVX512 := -mavx512f -mavx512bw -mavx512dq -mavx512vl
$(BUILD)/%_avx512.o: CFLAGS += $(AVX512) -mfma -mprefer-vector-width=512
$(BUILD)/%_avx512bf16.o: CFLAGS += $(AVX512) -mavx512bf16
$(BUILD)/%_amx.o: CFLAGS += $(AVX512) -mavx512bf16 -mamx-tile -mamx-bf16
$(BUILD)/%_avx2.o: CFLAGS += -mavx2 -mfma
endif
ifdef SANITIZE
# In these kernels the checks of pointers take a third of the time to compile; AddressSanitizer reports what is accessed through such pointers.
$(foreach set,base avx2 avx512 avx512bf16 amx,$(BUILD)/%_$(set).o): CFLAGS += -fno-sanitize=null,object-size,pointer-overflow
endif

# Tests compile in half the time, and compute little themselves.
ifndef SANITIZE
$(BUILD)/tests/%.o: CFLAGS += -O1
$(BUILD)/tests/bench/%.o $(BUILD)/tests/standin/%.o: CFLAGS += -O3
endif

# The compiler and its flags: objects that others have made are made again.
FLAGS := $(OMPI_CC) $(CPPFLAGS) $(CFLAGS)
.PHONY: force
$(BUILD)/flags: force
	@mkdir -p $(@D) && echo '$(FLAGS)' | cmp -s - $@ || echo '$(FLAGS)' > $@

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D) && echo '  $<'
	$(Q)$(MPICC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# Protocol buffers of foreign formats: protobuf-c makes C from the .proto files; generated headers are included as if they were in the same folder.
$(BUILD)/%.pb-c.c $(BUILD)/%.pb-c.h &: %.proto
	@mkdir -p $(@D) && echo '  $<'
	$(Q)protoc-c --c_out=$(BUILD) $<
$(BUILD)/%.pb-c.o: $(BUILD)/%.pb-c.c $(BUILD)/flags
	$(Q)$(MPICC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
$(filter $(BUILD)/runtime/train/tensorboard/%,$(LIBRARY_OBJECTS)): | $(PROTOCOLS:%.proto=$(BUILD)/%.pb-c.h)

# The build id, by which ranks detect that they run different builds: a hash of the sources and of the compiler's flags.
$(BUILD)/build_id.c: $(filter collectives/% models/% runtime/%,$(SOURCES)) $(PROTOCOLS) Makefile runtime/backend/cuda/cuda.mk
	@mkdir -p $(@D)
	@id=$$({ cat $^; echo '$(OMPI_CC) $(CPPFLAGS) $(CFLAGS)'; } | sha256sum | cut -c 1-16) && \
	printf '#include "runtime/base/build.h"\nconst char *iso_build_id(void)\n{\n    return "%s";\n}\n' $$id > $@
$(BUILD)/build_id.o: $(BUILD)/build_id.c $(BUILD)/flags
	$(Q)$(MPICC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

demo:
	launch/demo

# ---- tests: every tests/**/test_*.c is a program of its own, using Check; tests/support is linked to all ----
# There are hundreds of programs: gold, which comes with binutils, links each in half the time of the default linker.
TEST_LDFLAGS := $(if $(shell command -v ld.gold),-fuse-ld=gold)
TEST_SOURCES := $(filter tests/%,$(foreach file,$(SOURCES),$(if $(filter test_%.c,$(notdir $(file))),$(file))))
TEST_SUPPORT := $(patsubst %.c,$(BUILD)/%.o,$(filter tests/support/%.c,$(SOURCES)))
TESTS := $(TEST_SOURCES:%.c=$(BUILD)/%)
$(TESTS:%=%.o) $(TEST_SUPPORT): | $(PROTOCOLS:%.proto=$(BUILD)/%.pb-c.h)
SAMPLES := $(patsubst %.c,$(BUILD)/%,$(filter docs/samples/%.c,$(SOURCES)))
FUZZERS := $(patsubst %.c,$(BUILD)/%,$(filter tests/fuzz/%.c,$(SOURCES)))
BENCHES := $(patsubst %.c,$(BUILD)/%,$(filter tests/bench/%.c,$(SOURCES)))

# Programs of the tests of faults (tests/faults), and the library that is preloaded into them.
INJECTOR := $(patsubst %.c,$(BUILD)/%.o,$(filter tests/faults/injector/%.c,$(SOURCES)))
FAULTS := $(patsubst %.c,$(BUILD)/%,$(filter-out tests/faults/injector/% $(TEST_SOURCES),$(filter tests/faults/%.c,$(SOURCES))))
# Programs of the guides, which tests/guide and others run.
GUIDES := $(patsubst %.c,$(BUILD)/%,$(filter-out $(TEST_SOURCES),$(filter tests/guide/%.c,$(SOURCES))))

# The program with the test device in its list of backends, for tests/exec/test_on_device.
ON_DEVICE := $(BUILD)/tests/exec/isogrid_on_device
$(ON_DEVICE): $(BUILD)/launch/isogrid.o $(BUILD)/tests/support/guarded_device.o $(BUILD)/launch.a $(BUILD)/libisogrid.a $(KEEP_MODULES)
	@mkdir -p $(@D)
	$(Q)$(MPICC) $(LDFLAGS) $(TEST_LDFLAGS) -o $@ $^ $(LDLIBS)

tests: $(ON_DEVICE) $(TESTS) $(SAMPLES) $(FUZZERS) $(BENCHES) $(FAULTS) $(GUIDES) $(if $(INJECTOR),$(BUILD)/tests/faults/injector.so)
$(BUILD)/tests/faults/injector.so: $(INJECTOR)
	$(Q)$(OMPI_CC) -shared -o $@ $^ -ldl
$(INJECTOR): CFLAGS := $(filter-out -fsanitize=% -fvisibility=%,$(CFLAGS)) -fvisibility=hidden
$(BUILD)/launch.a: $(filter-out $(BUILD)/launch/isogrid.o,$(PROGRAM_OBJECTS))
	$(Q)rm -f $@ && ar rcs $@ $^
$(BUILD)/tests/%: $(BUILD)/tests/%.o $(TEST_SUPPORT) $(BUILD)/launch.a $(BUILD)/libisogrid.a $(KEEP_MODULES)
	$(Q)$(MPICC) $(LDFLAGS) $(TEST_LDFLAGS) -Wl,--wrap=_mark_point -o $@ $^ $(shell pkg-config --libs check) $(LDLIBS)
include tests/emulator/emulator.mk
include tests/standin/standin.mk
# Benchmarks need no Check.
$(BENCHES): $(BUILD)/tests/bench/%: $(BUILD)/tests/bench/%.o $(BUILD)/launch.a $(BUILD)/libisogrid.a $(KEEP_MODULES)
	$(Q)$(MPICC) $(LDFLAGS) $(TEST_LDFLAGS) -o $@ $^ $(LDLIBS)
$(BUILD)/docs/samples/%: $(BUILD)/docs/samples/%.o $(BUILD)/libisogrid.a $(KEEP_MODULES)
	$(Q)$(MPICC) $(LDFLAGS) $(TEST_LDFLAGS) -o $@ $^ $(LDLIBS)
# Calls of every public function with NULL, made from the headers.
$(BUILD)/tests/api/null_calls.h: tests/api/make_null_calls.py tests/public_headers $(shell tests/public_headers)
	@mkdir -p $(@D)
	$(Q)python3 $< $(filter %.h,$^) > $@.new && mv $@.new $@
$(BUILD)/tests/api/test_null.o: $(BUILD)/tests/api/null_calls.h
$(BUILD)/tests/api/test_null.o: CPPFLAGS += $(shell pkg-config --cflags ompi-c)
# The tests that CI also runs in a build of SANITIZE=1: those with "Sanitize:" in the comment at their head.
sanitized: all $(addprefix $(BUILD)/,$(shell tests/programs --list-sanitized))
test: all tests check-includes check-comments
	tests/programs $(BUILD) $(if $(LONG),--long) $(if $(SANITIZED),--sanitized $(SANITIZED))

# Fuzz targets: code that reads input from outside, as far as they call it, is also compiled by clang with coverage and AddressSanitizer; the rest is linked as
# it is.
# Not optimized: this takes a quarter of the time to compile, and what is fuzzed runs for seconds.
FUZZ_FLAGS := -O0 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -Wno-error
FUZZ_SOURCES := $(filter-out runtime/checkpoint/write/%,$(filter models/huggingface/%.c models/keras/%.c models/layers/%.c runtime/base/%.c runtime/checkpoint/%.c runtime/data/idx.c runtime/data/stream.c runtime/data/tokenizer/%.c runtime/graph/%.c runtime/spmd/layout%.c runtime/spmd/mesh.c runtime/report/calibration.c,$(LIBRARY_SOURCES)) $(filter launch/%_options.c launch/command_line.c launch/lr_schedule.c launch/save_model.c launch/settings.c,$(PROGRAM_SOURCES)))
FUZZ_OBJECTS := $(FUZZ_SOURCES:%.c=$(BUILD)/fuzz/%.o)
$(BUILD)/fuzz/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D) && echo '  $< (fuzz)'
	$(Q)OMPI_CC=clang $(MPICC) $(CPPFLAGS) $(filter-out -O% -fsanitize=%,$(CFLAGS)) $(FUZZ_FLAGS) -MMD -MP -c -o $@ $<
$(BUILD)/fuzz/libfuzzed.a: $(FUZZ_OBJECTS)
	$(Q)rm -f $@ && ar rcs $@ $^
$(BUILD)/tests/fuzz/%: $(BUILD)/fuzz/tests/fuzz/%.o $(BUILD)/fuzz/libfuzzed.a $(BUILD)/libisogrid.a
	@mkdir -p $(@D)
	$(Q)OMPI_CC=clang $(MPICC) -fsanitize=fuzzer,address,undefined -o $@ $^ $(LDLIBS)

check-comments:
	tests/check_comments
check-includes:
	tests/check_includes
format:
	clang-format -i $(SOURCES)
check-format:
	clang-format --dry-run -Werror $(SOURCES)

# ---- installation ----
# The installed headers are those that the headers of the tiers include (runtime/isogrid*.h), in their folders below include/isogrid.
# Both libraries export only what these headers declare with ISO_API; for that, the installed static one is a single object.
$(BUILD)/libisogrid.so: $(LIBRARY_OBJECTS) runtime/exported
	$(Q)$(MPICC) -shared -Wl,-soname,libisogrid.so.0 -Wl,--version-script=runtime/exported $(LDFLAGS) -o $@ $(LIBRARY_OBJECTS) $(LDLIBS)
$(BUILD)/install/libisogrid.a: $(LIBRARY_OBJECTS)
	@mkdir -p $(@D)
	$(Q)ld -r -o $(@D)/isogrid.o $^ && objcopy --localize-hidden $(@D)/isogrid.o
	$(Q)rm -f $@ && ar rcs $@ $(@D)/isogrid.o
$(BUILD)/isogrid.1: launch/man_page $(BUILD)/isogrid
	$(Q)launch/man_page $(BUILD)/isogrid > $@.$$$$ && mv $@.$$$$ $@
# A page with links that hold below $(PREFIX)/share/doc/isogrid: $(call install-page,PAGE,the way up to share).
# Links to what is not installed become plain text.
INSTALLED_HEADERS = $(shell tests/public_headers)
escape-path = $(subst .,\.,$(1))
define install-page
	sed -E -e 's#\]\((docs/)?samples/#](<share>/isogrid/samples/#g' $(foreach h,$(INSTALLED_HEADERS),-e 's#\]\((\.\./)?$(call escape-path,$(h))\)#](<share>/../include/isogrid/$(h))#g') \
		-e 's#\[([^]]*)\]\((\.\./)?(collectives|hostfiles|launch|models|runtime|tests)/[^)]*\)#\1#g' -e 's#<share>#$(2)#g' $(1) > $(DESTDIR)$(PREFIX)/share/doc/isogrid/$(1)
	chmod 644 $(DESTDIR)$(PREFIX)/share/doc/isogrid/$(1)

endef
# The Fortran module (docs/fortran.md), made from the public headers; programs compile it, since compilers do not read each other's modules.
FORTRAN := $(if $(shell command -v python3),$(BUILD)/isogrid.f90)
fortran: $(or $(FORTRAN),without-python)
without-python:
	@echo "make fortran: there is no python3, which makes the Fortran module" >&2; exit 2
$(BUILD)/isogrid.f90: runtime/fortran/make_module.py runtime/fortran/module.f90 $(INSTALLED_HEADERS)
	@mkdir -p $(@D) && echo '  $@'
	$(Q)$(MPICC) -E $(filter-out -DISO_BUILDING,$(CPPFLAGS)) runtime/isogrid_mpi.h | python3 $< runtime/fortran/module.f90 > $@.new && mv $@.new $@
INSTALLED := $(FORTRAN) $(BUILD)/libisogrid.so $(BUILD)/install/libisogrid.a $(BUILD)/isogrid.1
tests: $(INSTALLED) # made before the tests, of which several install
install: check-prefix all $(INSTALLED)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/pkgconfig
	install -m 755 $(BUILD)/isogrid $(DESTDIR)$(PREFIX)/bin
	install -m 644 $(BUILD)/install/libisogrid.a $(DESTDIR)$(PREFIX)/lib
	install -m 755 $(BUILD)/libisogrid.so $(DESTDIR)$(PREFIX)/lib/libisogrid.so.0
	ln -sf libisogrid.so.0 $(DESTDIR)$(PREFIX)/lib/libisogrid.so
	$(if $(CUDA_LIBRARY),install -m 755 $(CUDA_LIBRARY),rm -f) $(DESTDIR)$(PREFIX)/lib/libisogrid_cuda.so
	for h in $$(tests/public_headers); do install -D -m 644 $$h $(DESTDIR)$(PREFIX)/include/isogrid/$$h || exit; done
	$(if $(FORTRAN),install -m 644 $(FORTRAN) $(DESTDIR)$(PREFIX)/include/isogrid,@echo "there is no python3: the Fortran module is not installed")
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' -e 's|@LIBS@|$(LDLIBS)|' -e 's|@CUDA@|$(WITH_CUDA)|' launch/isogrid.pc.in \
		> $(DESTDIR)$(PREFIX)/lib/pkgconfig/isogrid.pc
	install -m 755 launch/mpirun $(DESTDIR)$(PREFIX)/bin/isogrid-mpirun
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/isogrid/hostfiles hostfiles/*
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/isogrid/slurm launch/slurm/*.sbatch
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/isogrid/layouts models/layouts/*.json
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/isogrid/samples docs/samples/*.c docs/samples/*.cpp docs/samples/*.f90
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/isogrid LICENSE
	install -d $(DESTDIR)$(PREFIX)/share/doc/isogrid/docs
	$(call install-page,README.md,../..)
	$(foreach page,$(wildcard docs/*.md),$(call install-page,$(page),../../..))
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/isogrid/docs/scaling docs/scaling/*
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man1 $(BUILD)/isogrid.1
# Removes the files of install, and the folders that only Isogrid uses.
uninstall: check-prefix
	cd $(DESTDIR)$(PREFIX) 2>/dev/null || { echo "nothing is installed in $(DESTDIR)$(PREFIX): there is no such folder"; exit 0; }; rm -f bin/isogrid bin/isogrid-mpirun lib/libisogrid.a lib/libisogrid.so lib/libisogrid.so.0 lib/libisogrid_cuda.so lib/pkgconfig/isogrid.pc share/man/man1/isogrid.1
	rm -rf $(DESTDIR)$(PREFIX)/include/isogrid $(DESTDIR)$(PREFIX)/share/isogrid $(DESTDIR)$(PREFIX)/share/doc/isogrid

# Neither make nor pkg-config handles spaces in paths; programs look for what is installed from any folder.
check-prefix:
	@$(if $(word 2,x$(DESTDIR)$(PREFIX)x),echo "PREFIX '$(DESTDIR)$(PREFIX)': a prefix must not have spaces" >&2; exit 2,:)
	@$(if $(filter /%,$(PREFIX)),:,echo "PREFIX '$(PREFIX)': a prefix must be an absolute path" >&2; exit 2)
	@$(if $(filter-out /%,$(DESTDIR)),echo "DESTDIR '$(DESTDIR)' must be an absolute path" >&2; exit 2,:)

clean:
	rm -rf build build-*

.PHONY: all demo fortran without-python tests sanitized test check-includes check-comments format check-format install uninstall check-prefix clean
.SECONDARY:
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
