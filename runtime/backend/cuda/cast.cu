/* Conversions of element types. */
#include "runtime/backend/cuda/elements.h"
#include "runtime/backend/formulas.h"

namespace
{

using namespace iso_cuda;

/* Stores an element of a wide type as one of another type. */
template <class T> __device__ __forceinline__ void convert(T x, float *y)
{
    *y = static_cast<float>(x);
}
template <class T> __device__ __forceinline__ void convert(T x, double *y)
{
    *y = static_cast<double>(x);
}
template <class T> __device__ __forceinline__ void convert(T x, int32_t *y)
{
    *y = iso_i32_of_double(static_cast<double>(x));
}
template <class T> __device__ __forceinline__ void convert(T x, uint8_t *y)
{
    *y = iso_u8_of_double(static_cast<double>(x));
}
template <class T> __device__ __forceinline__ void convert(T x, int64_t *y)
{
    *y = static_cast<int64_t>(x);
}
__device__ __forceinline__ void convert(float x, int64_t *y)
{
    *y = iso_i64_of_double(static_cast<double>(x));
}
__device__ __forceinline__ void convert(double x, int64_t *y)
{
    *y = iso_i64_of_double(x);
}
template <class T> __device__ __forceinline__ void convert(T x, bf16 *y)
{
    y->bits = iso_bf16_of_double(static_cast<double>(x));
}
__device__ __forceinline__ void convert(float x, bf16 *y)
{
    y->bits = iso_bf16_of_float(x);
}
__device__ __forceinline__ void convert(int64_t x, bf16 *y)
{
    y->bits = iso_bf16_of_i64(x);
}
struct boolean {
    uint8_t value;
};
template <class T> __device__ __forceinline__ void convert(T x, boolean *y)
{
    y->value = x != 0;
}

template <class FROM, class TO> struct conversion {
    const FROM *x;
    TO *y;
    __device__ void operator()(int64_t i) const
    {
        convert(wide(x[i]), &y[i]);
    }
};

template <class F> void with_target(iso_dtype dtype, F f)
{
    if (dtype == ISO_BOOL)
        f(boolean());
    else
        with_number(dtype, f);
}

void run_cast(const iso_kernel_call *call)
{
    int64_t n = iso_array_count(&call->out[0]);
    with_number(call->in[0].dtype, [=](auto from) {
        typedef decltype(from) FROM;
        with_target(call->out[0].dtype, [=](auto to) {
            typedef decltype(to) TO;
            for_each(call->stream, n,
                     conversion<FROM, TO>{static_cast<const FROM *>(call->in[0].data),
                                          static_cast<TO *>(call->out[0].data)});
        });
    });
}

} // namespace

ISO_CUDA_KERNEL(cast, run_cast, false)
