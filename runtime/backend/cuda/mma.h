/* What a warp does with the tensor cores of compute capability 8.0 and later: products of matrices of bfloat16 with
 * sums in float32, loads of their fragments from shared memory, and copies to it that do not wait. All 32 lanes take
 * part. Here alone kernels have inline PTX; the emulator of the tests has the same functions (tests/emulator, whose
 * cuda_runtime.h declares them).
 *
 * Fragments are those of "mma.m16n8k16" in the PTX manual. With g = lane / 4 and t = lane % 4, each of two elements
 * that are neighbours in their row (a, c) or their column (b), the first one in the lower half:
 *   a [16, 16]: word 0 is row g from column 2t on, word 1 row g + 8; words 2 and 3 the same, 8 columns on
 *   b [16, 8]:  word 0 is column g from row 2t on, word 1 from row 2t + 8 on
 *   c [16, 8]:  elements 0 and 1 are row g from column 2t on, 2 and 3 row g + 8 */
#ifndef ISO_BACKEND_CUDA_MMA_H
#define ISO_BACKEND_CUDA_MMA_H

#include <stdint.h>

#include "runtime/backend/cuda/launch.h"
#ifndef __CUDACC__
#include "runtime/base/bf16.h"
#endif

namespace iso_cuda
{

#ifdef __CUDACC__

__device__ __forceinline__ unsigned address_in_shared(const void *at)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

/* c = a b + c */
__device__ __forceinline__ void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Four matrices [8, 8] of 16-bit elements. Lane 8 m + r gives the address of row r of matrix m, 16 bytes in shared
 * memory; word m of a lane is row g of matrix m from column 2t on. */
__device__ __forceinline__ void load_matrices(uint32_t (&x)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(address_in_shared(row))
                 : "memory");
}

/* The same of the matrices transposed: word m of a lane is column g of matrix m from row 2t on. */
__device__ __forceinline__ void load_transposed(uint32_t (&x)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(address_in_shared(row))
                 : "memory");
}

/* Begins a copy of 16 bytes, or of 4, to shared memory; of zeros, if not `exists`: `from` is not read then. Both
 * addresses are multiples of as many bytes. */
__device__ __forceinline__ void copy_16(void *to, const void *from, bool exists)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address_in_shared(to)), "l"(from),
                 "r"(exists ? 16 : 0)
                 : "memory");
}
__device__ __forceinline__ void copy_4(void *to, const void *from, bool exists)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address_in_shared(to)), "l"(from),
                 "r"(exists ? 4 : 0)
                 : "memory");
}

/* Waits for the copies that the thread has begun. Others see them after a barrier. */
__device__ __forceinline__ void wait_for_copies()
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

/* Two numbers rounded to bfloat16, the first in the lower half. */
__device__ __forceinline__ uint32_t two_of(float first, float second)
{
    uint32_t two;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(second), "f"(first));
    return two;
}

/* 2^x within 2 units in the last place. */
__device__ __forceinline__ float power_of_two(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#else

using emulator::copy_16;
using emulator::copy_4;
using emulator::load_matrices;
using emulator::load_transposed;
using emulator::multiply_add;
using emulator::wait_for_copies;

inline uint32_t two_of(float first, float second)
{
    return iso_bf16_of_float(first) | static_cast<uint32_t>(iso_bf16_of_float(second)) << 16;
}

inline float power_of_two(float x)
{
    return exp2f(x);
}

#endif

} // namespace iso_cuda

#endif
