# Isogrid. `make` builds the library and the program, `make test` builds and runs the tests.
#   SANITIZE=1  AddressSanitizer and UBSan       DNNL=0  OpenBLAS alone, without oneDNN
#   BUILD=dir   where objects go                 CC=clang works as well as gcc
BUILD ?= build$(if $(SANITIZE),-sanitize)$(if $(filter 0,$(DNNL)),-blas)
PREFIX ?= /usr/local
DNNL ?= 1
MPICC ?= mpicc
export OMPI_CC ?= $(if $(filter default,$(origin CC)),gcc,$(CC))

PACKAGES := hdf5-openmpi libpcre2-8 zlib openblas
CPPFLAGS += -I. -Iruntime -D_GNU_SOURCE $(shell pkg-config --cflags $(PACKAGES)) -DISO_WITH_DNNL=$(DNNL)
CFLAGS += -std=c11 -O3 -g -fPIC -pthread -fno-math-errno -fno-trapping-math -ffp-contract=off -fvisibility=hidden \
	-Wall -Wextra -Werror -Wshadow -Wvla -Wno-psabi
LDLIBS += $(shell pkg-config --libs $(PACKAGES)) $(if $(filter 1,$(DNNL)),-ldnnl) -lm -lpthread
ifdef SANITIZE
CFLAGS += -fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined
LDFLAGS += -fsanitize=address,undefined
endif

LIBRARY_SOURCES := $(shell find runtime collectives models -name '*.c' | LC_ALL=C sort)
PROGRAM_SOURCES := $(wildcard launch/*.c)
LIBRARY_OBJECTS := $(LIBRARY_SOURCES:%.c=$(BUILD)/%.o)
PROGRAM_OBJECTS := $(PROGRAM_SOURCES:%.c=$(BUILD)/%.o)

all: $(BUILD)/libisogrid.a $(if $(PROGRAM_SOURCES),$(BUILD)/isogrid)

$(BUILD)/libisogrid.a: $(LIBRARY_OBJECTS)
	rm -f $@ && ar rcs $@ $^

$(BUILD)/isogrid: $(PROGRAM_OBJECTS) $(BUILD)/libisogrid.a
	$(MPICC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# Kernels that are written once in vector types and compiled for each instruction set.
$(BUILD)/%_avx512.o: CFLAGS += -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512
$(BUILD)/%_avx2.o: CFLAGS += -mavx2 -mfma

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(MPICC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# ---- tests: every tests/**/test_*.c is a program of its own, using Check; tests/support is linked to all ----
TEST_SOURCES := $(shell find tests -name 'test_*.c' 2>/dev/null | LC_ALL=C sort)
TEST_SUPPORT := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/support/*.c))
TESTS := $(TEST_SOURCES:%.c=$(BUILD)/%)
tests: $(TESTS)
$(BUILD)/tests/%: $(BUILD)/tests/%.o $(TEST_SUPPORT) $(BUILD)/libisogrid.a
	$(MPICC) $(LDFLAGS) -o $@ $^ $(shell pkg-config --libs check) $(LDLIBS)

clean:
	rm -rf build build-*

.PHONY: all tests clean
.SECONDARY:
-include $(LIBRARY_OBJECTS:.o=.d) $(PROGRAM_OBJECTS:.o=.d) $(TESTS:=.d) $(TEST_SUPPORT:.o=.d)
