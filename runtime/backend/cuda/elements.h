/* Declarations that the kernels share: types of elements and their loads and stores, functions of numbers, and
 * loops over elements. */
#ifndef ISO_BACKEND_CUDA_ELEMENTS_H
#define ISO_BACKEND_CUDA_ELEMENTS_H

#include <math.h>
#include <stdint.h>

#include "runtime/backend/cuda/launch.h"
#include "runtime/backend/cuda/list.h"
#include "runtime/base/bf16.h"

namespace iso_cuda
{

enum { BLOCK = 256 /* threads */, WARP = 32 };
const int64_t MOST_BLOCKS = 1 << 20; /* of a loop over elements: threads then take several */

inline int64_t ceil_of(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* ---- kernels of ops ---- */

typedef void run_function(const iso_kernel_call *call);
typedef size_t scratch_function(const iso_kernel_call *call);

constexpr iso_kernel make_kernel(const char *op, run_function *run, bool in_place, scratch_function *scratch)
{
    iso_kernel kernel = {};
    kernel.op = op;
    kernel.name = "own";
    kernel.run = run;
    kernel.in_place = in_place;
    kernel.scratch = scratch;
    return kernel;
}

/* Defines the kernel of the op NAME: its function, whether it works in place, and its scratch memory. */
#define ISO_CUDA_KERNEL(NAME, RUN, IN_PLACE) ISO_CUDA_KERNEL_WITH(NAME, RUN, IN_PLACE, nullptr)
#define ISO_CUDA_KERNEL_WITH(NAME, RUN, IN_PLACE, SCRATCH)                                                   \
    const iso_kernel iso_cuda_##NAME = iso_cuda::make_kernel(#NAME, RUN, IN_PLACE, SCRATCH);

/* ---- types: bfloat16 is stored, and computed as float ---- */

struct bf16 {
    uint16_t bits;
};

template <class T> struct compute_type {
    typedef T type;
};
template <> struct compute_type<bf16> {
    typedef float type;
};
template <class T> using compute = typename compute_type<T>::type;

template <class T> __device__ __forceinline__ T wide(T x)
{
    return x;
}
__device__ __forceinline__ float wide(bf16 x)
{
    return iso_bf16_to_float(x.bits);
}
/* Stores x in the type of `to`. */
template <class T, class C> __device__ __forceinline__ void narrow(T *to, C x)
{
    *to = static_cast<T>(x);
}
__device__ __forceinline__ void narrow(bf16 *to, float x)
{
    to->bits = iso_bf16_of_float(x);
}
__device__ __forceinline__ void narrow(bf16 *to, double x) /* as on the CPU, whose kernels give float32 */
{
    to->bits = iso_bf16_of_float(static_cast<float>(x));
}

/* An array of floating-point elements whose type is known when the kernel runs. data NULL: absent, see
 * `or_else`. */
struct reals {
    void *data;
    iso_dtype dtype;

    template <class C> __device__ __forceinline__ C get(int64_t i) const
    {
        switch (dtype) {
        case ISO_F32:
            return static_cast<C>(static_cast<const float *>(data)[i]);
        case ISO_F64:
            return static_cast<C>(static_cast<const double *>(data)[i]);
        default:
            return static_cast<C>(iso_bf16_to_float(static_cast<const uint16_t *>(data)[i]));
        }
    }
    template <class C> __device__ __forceinline__ C or_else(C absent, int64_t i) const
    {
        return data ? get<C>(i) : absent;
    }
    template <class C> __device__ __forceinline__ void put(int64_t i, C value) const
    {
        switch (dtype) {
        case ISO_F32:
            static_cast<float *>(data)[i] = static_cast<float>(value);
            break;
        case ISO_F64:
            static_cast<double *>(data)[i] = static_cast<double>(value);
            break;
        default:
            narrow(&static_cast<bf16 *>(data)[i], value);
        }
    }
};

inline reals reals_of(const iso_array &array)
{
    return {array.data, array.dtype};
}
/* Input `at` if the call has it; else absent. */
inline reals optional_input(const iso_kernel_call *call, bool has, int at)
{
    return has ? reals_of(call->in[at]) : reals{nullptr, ISO_F32};
}

/* Calls f with a zero of the type; of floating-point types, or of all types of numbers (bool is uint8_t). */
template <class F> void with_float(iso_dtype dtype, F f)
{
    if (dtype == ISO_F32)
        f(0.0f);
    else if (dtype == ISO_F64)
        f(0.0);
    else if (dtype == ISO_BF16)
        f(bf16());
}
template <class F> void with_number(iso_dtype dtype, F f)
{
    if (dtype == ISO_I32)
        f(static_cast<int32_t>(0));
    else if (dtype == ISO_I64)
        f(static_cast<int64_t>(0));
    else if (dtype == ISO_U8 || dtype == ISO_BOOL)
        f(static_cast<uint8_t>(0));
    else
        with_float(dtype, f);
}
/* Calls f with a zero of the type in which kernels compute with such elements: float or double. */
template <class F> void with_compute(iso_dtype dtype, F f)
{
    if (dtype == ISO_F64)
        f(0.0);
    else
        f(0.0f);
}
/* Calls f with an unsigned zero that has as many bytes. */
template <class F> void with_size(iso_dtype dtype, F f)
{
    switch (iso_dtype_size(dtype)) {
    case 1:
        return f(static_cast<uint8_t>(0));
    case 2:
        return f(static_cast<uint16_t>(0));
    case 4:
        return f(static_cast<uint32_t>(0));
    case 8:
        return f(static_cast<uint64_t>(0));
    }
}

/* ---- functions of float and double ---- */

#define ISO_CUDA_FUNCTION(NAME, C_NAME)                                                                      \
    __device__ __forceinline__ float NAME(float x)                                                           \
    {                                                                                                        \
        return C_NAME##f(x);                                                                                 \
    }                                                                                                        \
    __device__ __forceinline__ double NAME(double x)                                                         \
    {                                                                                                        \
        return C_NAME(x);                                                                                    \
    }
ISO_CUDA_FUNCTION(exp_of, exp)
ISO_CUDA_FUNCTION(expm1_of, expm1)
ISO_CUDA_FUNCTION(log_of, log)
ISO_CUDA_FUNCTION(log1p_of, log1p)
ISO_CUDA_FUNCTION(sqrt_of, sqrt)
ISO_CUDA_FUNCTION(tanh_of, tanh)
ISO_CUDA_FUNCTION(erfc_of, erfc)
#undef ISO_CUDA_FUNCTION

__device__ __forceinline__ float fused(float a, float b, float c) /* a b + c, rounded once */
{
    return fmaf(a, b, c);
}
__device__ __forceinline__ double fused(double a, double b, double c)
{
    return fma(a, b, c);
}

/* i / n and i % n of numbers that are not negative; divisions of 32 bits take a quarter of the time. */
__device__ __forceinline__ int64_t quotient_of(int64_t i, int64_t n)
{
    return (i | n) <= INT32_MAX ? static_cast<uint32_t>(i) / static_cast<uint32_t>(n) : i / n;
}
__device__ __forceinline__ int64_t remainder_of(int64_t i, int64_t n)
{
    return (i | n) <= INT32_MAX ? static_cast<uint32_t>(i) % static_cast<uint32_t>(n) : i % n;
}

template <class T> __device__ __forceinline__ bool is_finite(T x)
{
    return x - x == 0;
}

/* ---- a thread for each of n elements: f(i) ----
 * The loop is not unrolled: nearly always a thread has one element, and an unrolled loop begins with a division. */

template <class F> __global__ void __launch_bounds__(BLOCK) each_kernel(int64_t n, F f)
{
    const int64_t step = static_cast<int64_t>(gridDim.x) * BLOCK;
    ISO_UNROLL(1)
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x; i < n; i += step)
        f(i);
}

inline unsigned blocks_of(int64_t threads)
{
    int64_t blocks = ceil_of(threads, BLOCK);
    return static_cast<unsigned>(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS);
}

template <class F> void for_each(const iso_stream *stream, int64_t n, F f)
{
    launch(each_kernel<F>, blocks_of(n), BLOCK, 0, iso_cuda_stream_of(stream), n, f);
}

/* ---- the same in packs of 16 bytes where all addresses allow ---- */

template <class T, int N> struct alignas(N * sizeof(T)) pack {
    T at[N];
};

/* F has the constant WIDTH, the elements of a pack, and functions pack(i), of elements i to i + WIDTH - 1,
 * and one(i). */
template <class F> __global__ void __launch_bounds__(BLOCK) packs_kernel(int64_t n, F f)
{
    const int64_t step = static_cast<int64_t>(gridDim.x) * BLOCK * F::WIDTH;
    int64_t i = (static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x) * F::WIDTH;
    for (; i + F::WIDTH <= n; i += step)
        f.pack(i);
    ISO_UNROLL(1)
    for (int64_t k = i; k < n; k++)
        f.one(k);
}

inline bool aligned(std::initializer_list<const void *> addresses)
{
    uintptr_t all = 0;
    for (const void *address : addresses)
        all |= reinterpret_cast<uintptr_t>(address);
    return all % 16 == 0;
}

template <class F> struct one_by_one {
    F f;
    __device__ __forceinline__ void operator()(int64_t i) const
    {
        f.one(i);
    }
};

template <class F> void for_packs(const iso_stream *stream, int64_t n, bool packs, F f)
{
    if (packs)
        launch(packs_kernel<F>, blocks_of(ceil_of(n, F::WIDTH)), BLOCK, 0, iso_cuda_stream_of(stream), n, f);
    else
        for_each(stream, n, one_by_one<F>{f});
}

} // namespace iso_cuda

#endif
