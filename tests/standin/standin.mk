# tests/standin: libisogrid_cuda.so with a stand-in for the CUDA runtime and the kernels in the emulator. It is compiled against CUDA's own headers, so it is
# made where they are; its tests say that they are skipped elsewhere.
STANDIN_C := $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(TEST_SOURCES) tests/standin/aware_mpi.c,$(filter tests/standin/%.c,$(SOURCES))))
STANDIN_CC := $(patsubst %.cc,$(BUILD)/%.o,$(filter tests/standin/%.cc,$(SOURCES)))
STANDIN_KERNELS := $(patsubst %.cu,$(BUILD)/emulated/%.o,$(filter tests/standin/%.cu,$(SOURCES)))
STANDIN_TESTS := $(filter $(BUILD)/tests/standin/%,$(TESTS))
STANDIN_RUNTIME := $(STANDIN_C) $(STANDIN_CC) $(EMULATOR)
$(STANDIN_CC): $(BUILD)/tests/standin/%.o: tests/standin/%.cc $(BUILD)/flags
	@mkdir -p $(@D) && echo '  $<'
	$(Q)$(CXX_FOR_TESTS) $(CPPFLAGS) $(EMULATOR_FLAGS) -MMD -MP -c -o $@ $<
ifeq ($(CUDA_HAS_TOOLKIT),1)
$(STANDIN_C) $(BUILD)/tests/standin/aware_mpi.o $(STANDIN_TESTS:%=%.o): CPPFLAGS += $(CUDA_CPPFLAGS) -DTESTS_HAVE_CUDA $(if $(filter 1,$(CUDA_HAS_NCCL)),-DTESTS_HAVE_NCCL)
$(STANDIN_C) $(BUILD)/tests/standin/aware_mpi.o $(STANDIN_TESTS:%=%.o): $(BUILD)/cuda_flags
$(STANDIN_TESTS): $(STANDIN_RUNTIME) $(STANDIN_KERNELS)
$(STANDIN_TESTS): LDLIBS += -lstdc++
$(BUILD)/tests/standin/libisogrid_cuda.so: $(patsubst %.c,$(BUILD)/%.o,$(filter %.c,$(CUDA_SOURCES))) $(EMULATED_KERNELS) $(STANDIN_RUNTIME) $(CUDA_SHARED) $(BUILD)/build_id.o
	$(Q)$(CXX_FOR_TESTS) -shared -Wl,-soname,libisogrid_cuda.so -Wl,--version-script=tests/standin/exported -Wl,-z,defs $(LDFLAGS) -o $@ $(filter %.o,$^) -ldl -lpthread
# It is preloaded, also into programs without AddressSanitizer.
$(BUILD)/tests/standin/aware_mpi.o: CFLAGS := $(filter-out -fsanitize=%,$(CFLAGS))
$(BUILD)/tests/standin/libaware_mpi.so: $(BUILD)/tests/standin/aware_mpi.o
	$(Q)$(MPICC) -shared -o $@ $< -ldl
tests: $(BUILD)/tests/standin/libisogrid_cuda.so $(BUILD)/tests/standin/libaware_mpi.so
endif

# The stand-in's streams, and the emulator below them, with ThreadSanitizer, for tests/standin/test_tsan.
TSAN_FLAGS := -O1 -g -pthread -fsanitize=thread -fno-math-errno -ffp-contract=off -Wall -Wextra -MMD -MP
TSAN_OBJECTS := $(addprefix $(BUILD)/tsan/tests/,standin/memory.o standin/notes.o standin/streams.o standin/graphs.o standin/gpus.o standin/visible.o standin/test_runtime.o standin/launch.o \
	standin/kernels.o emulator/engine.o emulator/fiber.o)
$(BUILD)/tsan/%.o: %.c
	@mkdir -p $(@D) && echo '  $< (ThreadSanitizer)'
	$(Q)$(MPICC) $(CPPFLAGS) $(CUDA_CPPFLAGS) -DTESTS_HAVE_CUDA -std=c11 $(TSAN_FLAGS) -c -o $@ $<
$(BUILD)/tsan/%.o: %.cc
	@mkdir -p $(@D) && echo '  $< (ThreadSanitizer)'
	$(Q)$(CXX_FOR_TESTS) $(CPPFLAGS) -std=c++17 -Itests/emulator $(TSAN_FLAGS) -c -o $@ $<
$(BUILD)/tsan/%.o: %.cu
	@mkdir -p $(@D) && echo '  $< (ThreadSanitizer)'
	$(Q)$(CXX_FOR_TESTS) $(CPPFLAGS) -std=c++17 -Itests/emulator $(TSAN_FLAGS) -x c++ -c -o $@ $<
$(BUILD)/tests/standin/test_runtime_tsan: $(TSAN_OBJECTS) $(BUILD)/tests/support/run_tests.o
	$(Q)$(MPICC) -fsanitize=thread -o $@ $^ $(shell pkg-config --libs check) -lstdc++ -lm
