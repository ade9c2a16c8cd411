# CUDA kernels compiled for the host, for tests: the emulator (tests/emulator/emulator.h) in place of CUDA. Neither a GPU nor CUDA is needed.
CXX_FOR_TESTS := $(if $(findstring clang,$(OMPI_CC)),clang++,g++)
# Fused multiply-adds of kernels (fma) are then instructions, not calls; on other processors they are already.
EMULATOR_FMA := $(if $(and $(X86),$(shell grep -m 1 -w fma /proc/cpuinfo 2>/dev/null)),-mfma)
# Kernels read threadIdx and its like often: without a call, also in the stand-in's shared library (tests/standin).
EMULATOR_FLAGS := -std=c++17 $(EMULATOR_FMA) -O$(if $(SANITIZE),1,2) $(filter -g% -fPIC -pthread -W% -fsanitize=% -fno-% -ffp-contract=off,$(CFLAGS)) -ftls-model=initial-exec -Itests/emulator
EMULATOR := $(patsubst %.cc,$(BUILD)/%.o,$(filter tests/emulator/%.cc,$(SOURCES)))
EMULATED_KERNELS := $(patsubst %.cu,$(BUILD)/emulated/%.o,$(filter runtime/backend/cuda/%.cu,$(SOURCES)))
$(BUILD)/tests/emulator/%.o: tests/emulator/%.cc $(BUILD)/flags
	@mkdir -p $(@D) && echo '  $<'
	$(Q)$(CXX_FOR_TESTS) $(CPPFLAGS) $(EMULATOR_FLAGS) -MMD -MP -c -o $@ $<
$(BUILD)/emulated/%.o: %.cu $(BUILD)/flags
	@mkdir -p $(@D) && echo '  $< (emulated)'
	$(Q)$(CXX_FOR_TESTS) $(CPPFLAGS) $(EMULATOR_FLAGS) -x c++ -MMD -MP -c -o $@ $<
$(BUILD)/tests/emulator/test_emulator: $(EMULATOR) $(BUILD)/emulated/tests/emulator/samples.o
$(BUILD)/tests/emulator/test_emulator: LDLIBS += -lstdc++
EMULATED_TESTS := $(addprefix $(BUILD)/tests/backend/,test_cuda_kernels test_cuda_updates test_cuda_chain test_layer_norm_bf16)
$(EMULATED_TESTS): $(EMULATOR) $(EMULATED_KERNELS) $(BUILD)/runtime/backend/cuda/kernels.o
$(EMULATED_TESTS): LDLIBS += -lstdc++
