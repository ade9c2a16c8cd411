/* In place of CUDA's header of this name: what the kernels of the project use of it, run by the emulator (see
 * emulator.h). Functions that meet other threads know the place of their call. */
#ifndef ISO_TESTS_EMULATOR_CUDA_RUNTIME_H
#define ISO_TESTS_EMULATOR_CUDA_RUNTIME_H

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>
#include <vector>

/* ---- the language ---- */
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#ifndef __restrict__
#define __restrict__ __restrict
#endif
/* One block runs at a time: its shared variables are static, in a section that is filled when a block
 * begins. */
#define __shared__ static __attribute__((section("emulator_shared")))

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c)
    {
    }
};
struct uint3 {
    unsigned x, y, z;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

extern __thread dim3 gridDim, blockDim;
extern __thread uint3 blockIdx, threadIdx;
constexpr int warpSize = 32;

/* ---- errors and launches ---- */
typedef struct CUstream_st *cudaStream_t;

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorLaunchFailure = 719,
};

struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    void *attrs;
    unsigned numAttrs;
};

namespace emulator
{

/* A place in a kernel file. */
struct place {
    const char *file, *function;
    int line;
};

/* Runs a grid, of which each thread calls `thread`, at once. */
cudaError_t run_grid(const cudaLaunchConfig_t &config, const std::function<void()> &thread);
/* What cudaLaunchKernelEx does with a grid of a kernel, which its address names: run_grid, unless a test that has
 * streams of its own sets another. */
typedef cudaError_t launcher(const cudaLaunchConfig_t &config, const std::function<void()> &thread,
                             uintptr_t kernel);
extern launcher *launch;

unsigned char *dynamic_shared();
int lane();
/* Ends the run of the grid. It does not return, which the compiler is not told: AddressSanitizer would look
 * for the thread's own stack. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Waits for all threads of the block. Returns how many of them gave a predicate that is not 0. */
int barrier(place at, int predicate);

enum warp_operation { WARP_SYNC, WARP_SHUFFLE, WARP_VOTE, WARP_PRODUCT, WARP_MATRICES };
/* Waits for the lanes of `mask`. Returns what each of them gave, by lane. */
const uint64_t *meet(place at, unsigned mask, warp_operation operation, uint64_t value);

/* A copy to shared memory that a thread has begun, and not waited for. from NULL: of zeros. */
struct copy {
    void *to;
    const void *from;
    int bytes;
};
std::vector<copy> &copies_of_thread();

/* What a thread gives to a product of its warp. */
struct fragments {
    uint32_t a[4], b[2];
};
/* Of a thread: those of its last product, and those of the one before, which slower lanes may still read. */
struct operands {
    fragments of[2];
    unsigned turn;
};
operands &operands_of_thread();

template <class T> uint64_t bits_of(T value)
{
    static_assert(sizeof(T) <= sizeof(uint64_t), "a shuffle moves up to 8 bytes");
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    return bits;
}

template <class T> T shuffle(place at, unsigned mask, T value, int source)
{
    const uint64_t *all = meet(at, mask, WARP_SHUFFLE, bits_of(value));
    if (!(mask >> source & 1))
        fail("a shuffle from lane %d, which is not in the mask %08x", source, mask);
    T result;
    std::memcpy(&result, &all[source], sizeof result);
    return result;
}

template <class T, class F> T atomic(T *at, F change)
{
    T before, after;
    __atomic_load(at, &before, __ATOMIC_RELAXED);
    do
        after = change(before);
    while (!__atomic_compare_exchange(at, &before, &after, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    return before;
}

} // namespace emulator

template <class... parameters, class... arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(parameters...),
                               arguments... values)
{
    return emulator::launch(
        *config, [=] { kernel(static_cast<parameters>(values)...); }, reinterpret_cast<uintptr_t>(kernel));
}

/* ---- threads that meet ---- */
#define EMULATOR_PLACE                                                                                       \
    const char *file = __builtin_FILE(), const char *function = __builtin_FUNCTION(),                        \
               int line = __builtin_LINE()
#define EMULATOR_HERE                                                                                        \
    emulator::place                                                                                          \
    {                                                                                                        \
        file, function, line                                                                                 \
    }

inline void __syncthreads(EMULATOR_PLACE)
{
    emulator::barrier(EMULATOR_HERE, 0);
}

inline int __syncthreads_or(int predicate, EMULATOR_PLACE)
{
    return emulator::barrier(EMULATOR_HERE, predicate) > 0;
}

inline void __syncwarp(unsigned mask = 0xffffffffu, EMULATOR_PLACE)
{
    emulator::meet(EMULATOR_HERE, mask, emulator::WARP_SYNC, 0);
}

template <class T> T __shfl_sync(unsigned mask, T value, int source, EMULATOR_PLACE)
{
    return emulator::shuffle(EMULATOR_HERE, mask, value, source & 31);
}

template <class T> T __shfl_xor_sync(unsigned mask, T value, int bits, EMULATOR_PLACE)
{
    return emulator::shuffle(EMULATOR_HERE, mask, value, emulator::lane() ^ (bits & 31));
}

template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned delta, EMULATOR_PLACE)
{
    int own = emulator::lane(), source = own + static_cast<int>(delta);
    return emulator::shuffle(EMULATOR_HERE, mask, value, source > 31 ? own : source);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, EMULATOR_PLACE)
{
    const uint64_t *all = emulator::meet(EMULATOR_HERE, mask, emulator::WARP_VOTE, predicate != 0);
    unsigned votes = 0;
    for (int i = 0; i < 32; i++)
        votes |= mask >> i & 1 ? static_cast<unsigned>(all[i]) << i : 0;
    return votes;
}

/* ---- atomics ---- */
template <class T> T atomicAdd(T *at, std::common_type_t<T> value)
{
    return emulator::atomic(at, [=](T old) { return static_cast<T>(old + value); });
}

template <class T> T atomicMin(T *at, std::common_type_t<T> value)
{
    return emulator::atomic(at, [=](T old) { return old < value ? old : value; });
}

template <class T> T atomicMax(T *at, std::common_type_t<T> value)
{
    return emulator::atomic(at, [=](T old) { return old > value ? old : value; });
}

template <class T> T atomicCAS(T *at, std::common_type_t<T> compare, std::common_type_t<T> value)
{
    return emulator::atomic(at, [=](T old) { return old == compare ? value : old; });
}

template <class T> T atomicExch(T *at, std::common_type_t<T> value)
{
    return emulator::atomic(at, [=](T) { return value; });
}

inline void __threadfence()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* ---- memory ---- */
template <class T> void __stwb(T *to, T value)
{
    std::memcpy(to, &value, sizeof value);
}

/* ---- arithmetic that the C library does not have ---- */
inline float rsqrtf(float x)
{
    return 1 / sqrtf(x);
}

/* ---- tensor cores and asynchronous copies ---- */
#include "tests/emulator/tensor_cores.h"

#endif
