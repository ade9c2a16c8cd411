/* Conversions of element types. */
#include "runtime/backend/cuda/packs.h"
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
    enum { WIDTH = 16 / (sizeof(FROM) > sizeof(TO) ? sizeof(FROM) : sizeof(TO)) };
    const FROM *x;
    TO *y;
    __device__ __forceinline__ void one(int64_t i) const
    {
        convert(wide(x[i]), &y[i]);
    }
    __device__ __forceinline__ void pack(int64_t i) const
    {
        const auto in = load_pack<WIDTH>(x + i);
        iso_cuda::pack<TO, WIDTH> out;
        for (int k = 0; k < WIDTH; k++)
            convert(wide(in.at[k]), &out.at[k]);
        store_pack(y + i, out);
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
            const FROM *x = static_cast<const FROM *>(call->in[0].data);
            TO *y = static_cast<TO *>(call->out[0].data);
            for_packs(call->stream, n, aligned({x, y}), conversion<FROM, TO>{x, y});
        });
    });
}

} // namespace

ISO_CUDA_KERNEL(cast, run_cast, false)
