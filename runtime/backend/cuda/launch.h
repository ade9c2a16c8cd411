/* Launches of kernels. This and mma.h are the only ways in which the kernel files differ from plain CUDA, so that the
 * compiler of CUDA and the emulator of the tests compile the same files. */
#ifndef ISO_BACKEND_CUDA_LAUNCH_H
#define ISO_BACKEND_CUDA_LAUNCH_H

#include <cuda_runtime.h>

#include "runtime/backend/backend.h"

/* A stream of the CUDA device, which begins as every stream does. */
typedef struct iso_cuda_stream {
    iso_stream base;
    cudaStream_t cuda;
} iso_cuda_stream;

/* NULL is CUDA's default stream. */
static inline cudaStream_t iso_cuda_stream_of(const iso_stream *stream)
{
    return stream ? reinterpret_cast<const iso_cuda_stream *>(stream)->cuda : nullptr;
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

/* kernel<<<grid, block, shared, stream>>>(arguments...); nothing if the grid has no blocks. CUDA also keeps
 * the error of a launch (cudaGetLastError). */
template <class... parameters, class... types>
inline cudaError_t launch(void (*kernel)(parameters...), dim3 grid, dim3 block, size_t shared,
                          cudaStream_t stream, types... arguments)
{
    if (grid.x == 0 || grid.y == 0 || grid.z == 0)
        return cudaSuccess;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    return cudaLaunchKernelEx(&config, kernel, static_cast<parameters>(arguments)...);
}

#endif
