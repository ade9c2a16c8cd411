/* Launches of kernels. This and mma.h are the only ways in which the kernel files differ from plain CUDA, so that the
 * compiler of CUDA and the emulator of the tests compile the same files. */
#ifndef ISO_BACKEND_CUDA_LAUNCH_H
#define ISO_BACKEND_CUDA_LAUNCH_H

#include <cuda_runtime.h>

#include "runtime/backend/backend.h"

/* A stream of the CUDA device, which begins as every stream does; it goes on as iso_cuda_queue (device.h). */
typedef struct iso_cuda_stream {
    iso_stream base;
    cudaStream_t cuda;
    cudaError_t error; /* the first of what was queued since the last wait */
} iso_cuda_stream;

/* The stream of a launch; NULL is CUDA's default stream. The stream is const for a kernel, which has no part in its
 * error. */
static inline iso_cuda_stream *iso_cuda_stream_of(const iso_stream *stream)
{
    return reinterpret_cast<iso_cuda_stream *>(const_cast<iso_stream *>(stream));
}

/* The dynamic shared memory of a kernel's block as an array, aligned to 16 bytes. */
#ifdef __CUDACC__
#define ISO_DYNAMIC_SHARED(type, name)                                                                       \
    extern __shared__ __align__(16) unsigned char iso_dynamic_shared[];                                      \
    type *name = reinterpret_cast<type *>(iso_dynamic_shared)
#else
#define ISO_DYNAMIC_SHARED(type, name) type *name = reinterpret_cast<type *>(emulator::dynamic_shared())
#endif

/* Before a loop: how often CUDA's compiler unrolls it. */
#ifdef __CUDACC__
#define ISO_PRAGMA(text) _Pragma(#text)
#define ISO_UNROLL(times) ISO_PRAGMA(unroll times)
#else
#define ISO_UNROLL(times)
#endif

/* kernel<<<grid, block, shared, stream>>>(arguments...); nothing if the grid has no blocks. The stream keeps the
 * error, unless it has one: the device's check and wait report it. CUDA's own last error is that of a thread, not of
 * a stream, and is not used. */
template <class... parameters, class... types>
inline cudaError_t launch(void (*kernel)(parameters...), dim3 grid, dim3 block, size_t shared,
                          iso_cuda_stream *stream, types... arguments)
{
    if (grid.x == 0 || grid.y == 0 || grid.z == 0)
        return cudaSuccess;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    config.stream = stream ? stream->cuda : nullptr;
    cudaError_t error = cudaLaunchKernelEx(&config, kernel, static_cast<parameters>(arguments)...);
    if (stream && stream->error == cudaSuccess)
        stream->error = error;
    return error;
}

#endif
