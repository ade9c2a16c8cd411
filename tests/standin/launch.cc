/* Kernels: the emulator runs them, on the thread of the stream. */
#include "tests/emulator/cuda_runtime.h"

#include <functional>
#include <mutex>

/* Of standin.h, which is written for CUDA's own header. */
extern "C" {
struct standin_work {
    void (*run)(void *argument);
    void (*drop)(void *argument);
    const char *what;
};
int standin_enqueue(cudaStream_t stream, const standin_work *work, const void *argument, size_t size);
int standin_enter(const char *function);
int standin_ordered(const char *function);
void standin_raise(int error);
void standin_open(int gpu);
int standin_stream_gpu(cudaStream_t stream);
int standin_load(cudaStream_t stream, uint64_t kernel);
int standin_gpu(void);
int standin_error(int error);
}

namespace
{

struct launched {
    cudaLaunchConfig_t config;
    std::function<void()> thread;
};

void run_kernel(void *argument)
{
    const launched *of = *static_cast<launched **>(argument);
    int error = standin_ordered("kernel");
    static std::mutex one_at_a_time;
    std::lock_guard<std::mutex> lock(one_at_a_time);
    standin_open(standin_stream_gpu(of->config.stream));
    if (error == 0)
        error = emulator::run_grid(of->config, of->thread);
    if (error != 0)
        standin_raise(error);
}

void drop_kernel(void *argument)
{
    delete *static_cast<launched **>(argument);
}

cudaError_t enqueue(const cudaLaunchConfig_t &config, const std::function<void()> &thread, uintptr_t kernel)
{
    static const standin_work work = {run_kernel, drop_kernel, "a kernel"};
    if (int error = standin_enter("cudaLaunchKernelExC"))
        return static_cast<cudaError_t>(error);
    if (config.stream && standin_stream_gpu(config.stream) != standin_gpu())
        return static_cast<cudaError_t>(standin_error(400)); /* cudaErrorInvalidResourceHandle */
    if (int error = config.stream ? standin_load(config.stream, kernel) : 0)
        return static_cast<cudaError_t>(standin_error(error));
    launched *fresh = new launched{config, thread};
    return static_cast<cudaError_t>(standin_enqueue(config.stream, &work, &fresh, sizeof fresh));
}

__attribute__((constructor)) void begin()
{
    emulator::launch = enqueue;
}

} // namespace
