/* The stand-in for the CUDA runtime: functions with CUDA's names and types, which do on the CPU what the manual of
 * the CUDA runtime API (13.0) says. libisogrid_cuda.so is linked with it in place of the runtime, as
 * tests/standin/libisogrid_cuda.so of the build folder: a program that opens that file (ISOGRID_CUDA_LIBRARY) runs
 * the whole device path without a GPU. Nothing that it measures says anything about a GPU.
 *
 * Variables of the environment make the machine, and its faults:
 *   STANDIN_GPUS=N         the number of GPUs (1); STANDIN_FIRST_GPU=N: that of the first among the host's (0)
 *   STANDIN_MEGABYTES=N    the memory of each (256)
 *   STANDIN_DRIVER=N       the driver's version (13000); 0: there is no driver
 *   STANDIN_FAIL=F:E[:N]   the function F gives error E at its Nth call in the process (1) and at all later ones */
#ifndef ISO_TESTS_STANDIN_H
#define ISO_TESTS_STANDIN_H

#include <cuda_runtime_api.h>
#include <stdint.h>

enum { STANDIN_MOST_GPUS = 8 };

/* A number from the environment. */
long standin_number(const char *variable, long otherwise);

/* Ends the process with a report: the caller did what CUDA leaves undefined. */
_Noreturn void standin_stop(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Keeps an error for cudaGetLastError, and returns it. */
cudaError_t standin_error(cudaError_t error);
/* What STANDIN_FAIL says of this call of a function; cudaSuccess if nothing. Also: without a driver every call
 * fails. */
cudaError_t standin_enter(const char *function);
#define STANDIN_ENTER()                                                                                      \
    do {                                                                                                     \
        cudaError_t injected_ = standin_enter(__func__);                                                     \
        if (injected_ != cudaSuccess)                                                                        \
            return injected_;                                                                                \
    } while (0)

/* The GPU that this thread uses. */
int standin_gpu(void);
/* The memory of a GPU. */
size_t standin_total_bytes(void);

#endif
