# tests/standin: libisogrid_cuda.so with a stand-in for the CUDA runtime. It is compiled against CUDA's own headers, so it is made where they are.
STANDIN_OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(TEST_SOURCES),$(filter tests/standin/%.c,$(SOURCES))))
STANDIN_LIBRARY := $(if $(filter 1,$(CUDA_HAS_TOOLKIT)),$(BUILD)/tests/standin/libisogrid_cuda.so)
$(STANDIN_OBJECTS): CPPFLAGS += $(CUDA_CPPFLAGS)
$(STANDIN_OBJECTS): $(BUILD)/cuda_flags
$(BUILD)/tests/standin/libisogrid_cuda.so: $(patsubst %.c,$(BUILD)/%.o,$(filter %.c,$(CUDA_SOURCES))) $(STANDIN_OBJECTS) $(CUDA_SHARED) $(BUILD)/build_id.o
	$(Q)g++ -shared -Wl,-soname,libisogrid_cuda.so -Wl,--version-script=runtime/backend/cuda/exported -Wl,-z,defs $(LDFLAGS) -o $@ $(filter %.o,$^) -ldl -lpthread
tests: $(STANDIN_LIBRARY)
