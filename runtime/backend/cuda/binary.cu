/* Arithmetic and comparisons of two operands with broadcasting, and selection between two. */
#include "runtime/backend/cuda/packs.h"
#include "runtime/backend/cuda/walk.h"
#include "runtime/backend/formulas.h"

namespace
{

using namespace iso_cuda;

__device__ float power_of(float x, float y)
{
    return powf(x, y);
}
__device__ double power_of(double x, double y)
{
    return pow(x, y);
}

/* ---- the ops, by number: z of x, y of type T ---- */

#define NUMBER(NAME, EXPRESSION) OP_##NAME,
#define CASE(NAME, EXPRESSION)                                                                               \
    case OP_##NAME:                                                                                          \
        return static_cast<R>(EXPRESSION);

enum op {
    ISO_BINARY_NUMBERS(NUMBER) ISO_BINARY_COMPARISONS(NUMBER) ISO_BINARY_LOGICAL(NUMBER) OP_divide,
    OP_power
};

struct numbers {
    op of;
    template <class R, class T> __device__ __forceinline__ R get(T x, T y) const
    {
        switch (of) {
            ISO_BINARY_NUMBERS(CASE)
        default:
            return 0;
        }
    }
};

struct floats {
    op of;
    template <class R, class T> __device__ __forceinline__ R get(T x, T y) const
    {
        return of == OP_divide ? x / y : power_of(x, y);
    }
};

struct conditions {
    op of;
    template <class R, class T> __device__ __forceinline__ R get(T x, T y) const
    {
        switch (of) {
            ISO_BINARY_COMPARISONS(CASE)
            ISO_BINARY_LOGICAL(CASE)
        default:
            return 0;
        }
    }
};

/* z is T or, of a condition, uint8_t. */
template <class T, class R, class F> struct elementwise {
    enum { WIDTH = 16 / sizeof(T) };
    const T *x, *y;
    R *z;
    F f;
    walk<2> over;
    __device__ __forceinline__ void one(int64_t i) const
    {
        int64_t at[2];
        over.find(i, at);
        narrow(&z[i], f.template get<compute<R>>(wide(x[at[0]]), wide(y[at[1]])));
    }
    __device__ __forceinline__ void pack(int64_t i) const
    {
        int64_t at[2];
        over.find(i, at);
        const auto a = load_strided<WIDTH>(x + at[0], over.inner_step(0)),
                   b = load_strided<WIDTH>(y + at[1], over.inner_step(1));
        iso_cuda::pack<R, WIDTH> out;
        for (int k = 0; k < WIDTH; k++)
            narrow(&out.at[k], f.template get<compute<R>>(wide(a.at[k]), wide(b.at[k])));
        store_pack(z + i, out);
    }
};

template <class T, class R, class F> void run_of_types(const iso_kernel_call *call, F f)
{
    typedef elementwise<T, R, F> all;
    const T *x = static_cast<const T *>(call->in[0].data), *y = static_cast<const T *>(call->in[1].data);
    R *z = static_cast<R *>(call->out[0].data);
    const iso_array *const in[] = {&call->in[0], &call->in[1]};
    walk<2> over = walk_of_broadcast(call->out[0], in);
    for_packs(call->stream, over.count, over.in_packs(all::WIDTH) && aligned({x, y, z}),
              all{x, y, z, f, over});
}

template <op OF> void run_numbers(const iso_kernel_call *call)
{
    with_number(call->in[0].dtype,
                [=](auto zero) { run_of_types<decltype(zero), decltype(zero)>(call, numbers{OF}); });
}

template <op OF> void run_floats(const iso_kernel_call *call)
{
    with_float(call->in[0].dtype,
               [=](auto zero) { run_of_types<decltype(zero), decltype(zero)>(call, floats{OF}); });
}

template <op OF> void run_condition(const iso_kernel_call *call)
{
    with_number(call->in[0].dtype,
                [=](auto zero) { run_of_types<decltype(zero), uint8_t>(call, conditions{OF}); });
}

/* ---- z = condition ? a : b; elements are copied by size ---- */
template <class T> struct choice {
    enum { WIDTH = 16 / sizeof(T) };
    const uint8_t *condition;
    const T *a, *b;
    T *z;
    walk<3> over;
    __device__ __forceinline__ void one(int64_t i) const
    {
        int64_t at[3];
        over.find(i, at);
        z[i] = condition[at[0]] ? a[at[1]] : b[at[2]];
    }
    __device__ __forceinline__ void pack(int64_t i) const
    {
        int64_t at[3];
        over.find(i, at);
        const auto chosen = load_strided<WIDTH>(condition + at[0], over.inner_step(0));
        const auto x = load_strided<WIDTH>(a + at[1], over.inner_step(1)),
                   y = load_strided<WIDTH>(b + at[2], over.inner_step(2));
        iso_cuda::pack<T, WIDTH> out;
        for (int k = 0; k < WIDTH; k++)
            out.at[k] = chosen.at[k] ? x.at[k] : y.at[k];
        store_pack(z + i, out);
    }
};

void run_where(const iso_kernel_call *call)
{
    const iso_array *const in[] = {&call->in[0], &call->in[1], &call->in[2]};
    walk<3> over = walk_of_broadcast(call->out[0], in);
    with_size(call->out[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        const uint8_t *condition = static_cast<const uint8_t *>(call->in[0].data);
        const T *a = static_cast<const T *>(call->in[1].data), *b = static_cast<const T *>(call->in[2].data);
        T *z = static_cast<T *>(call->out[0].data);
        for_packs(call->stream, over.count, over.in_packs(choice<T>::WIDTH) && aligned({condition, a, b, z}),
                  choice<T>{condition, a, b, z, over});
    });
}

} // namespace

#define NUMBER_KERNEL(NAME, EXPRESSION) ISO_CUDA_KERNEL(NAME, run_numbers<OP_##NAME>, true)
#define COMPARISON_KERNEL(NAME, EXPRESSION) ISO_CUDA_KERNEL(NAME, run_condition<OP_##NAME>, false)
#define LOGICAL_KERNEL(NAME, EXPRESSION) ISO_CUDA_KERNEL(NAME, run_condition<OP_##NAME>, true)
ISO_BINARY_NUMBERS(NUMBER_KERNEL)
ISO_CUDA_KERNEL(divide, run_floats<OP_divide>, true)
ISO_CUDA_KERNEL(power, run_floats<OP_power>, true)
ISO_BINARY_COMPARISONS(COMPARISON_KERNEL)
ISO_BINARY_LOGICAL(LOGICAL_KERNEL)
ISO_CUDA_KERNEL(where, run_where, true)
