# libisogrid_cuda.so: the CUDA backend, which the C library opens when it is asked for (runtime/backend/cuda_library.h). Programs link nothing of it.
#   CUDA=0      without it                       CUDA=1      an error if something is missing
#   NVCC=path   the compiler; its folder is that of the toolkit
#   CUDA_FAST=1 compiles the kernels fast, for tests/run; they are slow on a GPU
#   NCCL_HOME=dir, CUDNN_HOME=dir   where include/nccl.h and include/cudnn.h are, unless the toolkit or the system has them
# By default the library is built where nvcc is found: without NCCL or cuDNN if their headers are missing, which `make` then says.
NVCC ?= $(firstword $(shell command -v nvcc) $(wildcard /usr/local/cuda/bin/nvcc))
CUDA_HOME := $(patsubst %/bin/nvcc,%,$(realpath $(shell command -v $(lastword $(NVCC)))))
CUDA_SYSTEM := /usr/local/include /usr/include
CUDA_FOLDERS := $(wildcard $(addsuffix /include,$(CUDA_HOME) $(NCCL_HOME) $(CUDNN_HOME))) $(CUDA_SYSTEM)
CUDA_HAS = $(if $(firstword $(wildcard $(addsuffix /$(1),$(CUDA_FOLDERS)))),1,0)
CUDA_IS_COMPILER := $(if $(CUDA_HOME),$(findstring Cuda compiler,$(shell $(NVCC) --version 2>/dev/null)))
CUDA_HAS_TOOLKIT := $(if $(CUDA_IS_COMPILER),$(if $(filter 0,$(call CUDA_HAS,cuda_runtime_api.h) $(call CUDA_HAS,cublasLt.h)),0,1),0)
CUDA_HAS_NCCL := $(call CUDA_HAS,nccl.h)
CUDA_HAS_CUDNN := $(call CUDA_HAS,cudnn.h)
ifeq ($(CUDA),0)
CUDA_HAS_TOOLKIT := 0
endif
# No test runs the kernels of a build of SANITIZE=1 on a GPU.
WITH_CUDA := $(if $(filter 1,$(CUDA)),$(CUDA_HAS_TOOLKIT),$(if $(SANITIZE),0,$(CUDA_HAS_TOOLKIT)))

CUDA_NOT_COMPILER := $(if $(CUDA_HOME),$(if $(CUDA_IS_COMPILER),,NVCC=$(NVCC) is no CUDA compiler: its --version does not name one))
CUDA_NO_TOOLKIT := $(or $(CUDA_NOT_COMPILER),the CUDA toolkit is missing (nvcc, found by PATH or NVCC=; include/cuda_runtime_api.h and cublasLt.h beside it))
CUDA_NO_NCCL := nccl.h is missing (NCCL_HOME=)
CUDA_NO_CUDNN := cudnn.h is missing (CUDNN_HOME=)
CUDA_NO_LIBRARY := $(if $(filter 0,$(CUDA_HAS_NCCL)),$(CUDA_NO_NCCL)$(if $(filter 0,$(CUDA_HAS_CUDNN)),; ))$(if $(filter 0,$(CUDA_HAS_CUDNN)),$(CUDA_NO_CUDNN))
CUDA_MISSING := $(if $(filter 0,$(CUDA_HAS_TOOLKIT)),$(CUDA_NO_TOOLKIT)$(if $(CUDA_NO_LIBRARY),; ))$(CUDA_NO_LIBRARY)
ifneq ($(filter-out 0 1,$(CUDA)),)
$(error CUDA=$(CUDA): it must be 0 or 1)
endif
ifeq ($(CUDA),1)
ifneq ($(strip $(CUDA_MISSING)),)
$(error CUDA=1: $(strip $(CUDA_MISSING)))
endif
endif

# One line about what is left out.
cuda-missing:
ifneq ($(CUDA),0)
ifeq ($(CUDA_HAS_TOOLKIT),0)
	@echo '  without CUDA: $(CUDA_NO_TOOLKIT)'
else ifneq ($(strip $(CUDA_MISSING)),)
	@echo '  CUDA without a library: $(strip $(CUDA_MISSING))'
endif
endif
.PHONY: cuda-missing

# Kernels: machine code for sm_80 and sm_90, and PTX for what comes later, all from one PTX: no kernel uses what only sm_90 has, and this takes a third less
# time. -O is for the host's part, which only launches kernels. Without fused multiply-adds, as on the CPU: formulas that both share have one rounding.
CUDA_TARGETS := -gencode arch=compute_80,code=[compute_80,sm_80,sm_90]
# For tests alone, which run no kernel on a GPU: machine code for sm_90, hardly optimized (by an nvcc that can), in less than a third of the time.
ifdef CUDA_FAST
CUDA_TARGETS := -gencode arch=compute_80,code=[compute_80,sm_90] $(if $(shell $(NVCC) --help 2>/dev/null | grep -m 1 -e -Ofc),-Ofc max)
endif
NVCC_FLAGS := -std=c++17 -O1 -fmad=false $(CUDA_TARGETS) -I. -DISO_BUILDING -Werror all-warnings -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra,-ffp-contract=off
CUDA_CPPFLAGS := $(addprefix -isystem ,$(filter-out $(CUDA_SYSTEM),$(CUDA_FOLDERS))) -DISO_WITH_NCCL=$(CUDA_HAS_NCCL) -DISO_WITH_CUDNN=$(CUDA_HAS_CUDNN)
CUDA_SOURCES := $(filter runtime/backend/cuda/%.c runtime/backend/cuda/%.cu,$(SOURCES))
CUDA_OBJECTS := $(patsubst %,$(BUILD)/%.o,$(basename $(CUDA_SOURCES)))
# What these share with the C library and has no state (thread_modes: only what a thread has set itself); all else they reach through runtime/backend/cuda/host.c.
CUDA_SHARED := $(patsubst %,$(BUILD)/runtime/%.o,base/arguments base/build base/convert base/list base/text base/thread_modes base/types)

# nvcc and its flags: objects that others have made are made again.
$(BUILD)/cuda_flags: force
	@mkdir -p $(@D) && echo '$(NVCC) $(NVCC_FLAGS) $(CUDA_CPPFLAGS)' | cmp -s - $@ || echo '$(NVCC) $(NVCC_FLAGS) $(CUDA_CPPFLAGS)' > $@
$(BUILD)/runtime/backend/cuda/%.o: runtime/backend/cuda/%.cu $(BUILD)/cuda_flags
	@mkdir -p $(@D) && echo '  $<'
	$(Q)$(NVCC) $(NVCC_FLAGS) $(CUDA_CPPFLAGS) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<
$(filter $(patsubst %.c,$(BUILD)/%.o,$(filter %.c,$(CUDA_SOURCES))),$(CUDA_OBJECTS)): $(BUILD)/cuda_flags
$(BUILD)/runtime/backend/cuda/%.o: CPPFLAGS += $(CUDA_CPPFLAGS)
$(BUILD)/libisogrid_cuda.so: $(CUDA_OBJECTS) $(CUDA_SHARED) $(BUILD)/build_id.o runtime/backend/cuda/exported
	$(Q)g++ -shared -Wl,-soname,libisogrid_cuda.so -Wl,--version-script=runtime/backend/cuda/exported -Wl,-z,defs $(LDFLAGS) \
		-o $@ $(filter %.o,$^) -L$(firstword $(wildcard $(CUDA_HOME)/lib64 $(CUDA_HOME)/lib)) -lcudart_static -ldl -lrt -lpthread
CUDA_LIBRARY := $(if $(filter 1,$(WITH_CUDA)),$(BUILD)/libisogrid_cuda.so)

# A library of an earlier build would still be opened.
without-cuda-library:
	@rm -f $(BUILD)/libisogrid_cuda.so $(BUILD)/tests/standin/libisogrid_cuda.so
.PHONY: without-cuda-library
