/* Kernels of one operand, element by element. */
#include "runtime/backend/cuda/unary.h"

namespace
{

using namespace iso_cuda;

/* y = f(x), n elements. R is F's result: compute<T>, stored as T. */
template <class T, class F> struct map_one {
    enum { WIDTH = 16 / sizeof(T) };
    const T *x;
    T *y;
    F f;
    __device__ __forceinline__ void one(int64_t i) const
    {
        narrow(&y[i], f(wide(x[i])));
    }
    __device__ __forceinline__ void pack(int64_t i) const
    {
        typedef iso_cuda::pack<T, WIDTH> pack_type;
        pack_type in = *reinterpret_cast<const pack_type *>(x + i), out;
        for (int k = 0; k < WIDTH; k++)
            narrow(&out.at[k], f(wide(in.at[k])));
        *reinterpret_cast<pack_type *>(y + i) = out;
    }
};

/* z = f(x, y) */
template <class T, class F> struct map_two {
    enum { WIDTH = 16 / sizeof(T) };
    const T *x, *y;
    T *z;
    F f;
    __device__ __forceinline__ void one(int64_t i) const
    {
        narrow(&z[i], f(wide(x[i]), wide(y[i])));
    }
    __device__ __forceinline__ void pack(int64_t i) const
    {
        typedef iso_cuda::pack<T, WIDTH> pack_type;
        pack_type a = *reinterpret_cast<const pack_type *>(x + i);
        pack_type b = *reinterpret_cast<const pack_type *>(y + i), out;
        for (int k = 0; k < WIDTH; k++)
            narrow(&out.at[k], f(wide(a.at[k]), wide(b.at[k])));
        *reinterpret_cast<pack_type *>(z + i) = out;
    }
};

/* Runs f, a function of compute<T>, over input 0. */
template <class T, class F> void run_map(const iso_kernel_call *call, F f)
{
    const T *x = static_cast<const T *>(call->in[0].data);
    T *y = static_cast<T *>(call->out[0].data);
    for_packs(call->stream, iso_array_count(&call->out[0]), aligned({x, y}), map_one<T, F>{x, y, f});
}

/* ---- functions ---- */

void run_unary(const iso_kernel_call *call)
{
    const iso_unary_attrs *attrs = static_cast<const iso_unary_attrs *>(call->attrs);
    with_float(call->out[0].dtype, [=](auto zero) {
        typedef compute<decltype(zero)> C;
        run_map<decltype(zero)>(call, unary_function<C>{attrs->kind, static_cast<C>(attrs->alpha)});
    });
}

void run_unary_gradient(const iso_kernel_call *call)
{
    const iso_unary_attrs *attrs = static_cast<const iso_unary_attrs *>(call->attrs);
    with_float(call->out[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        typedef compute<T> C;
        const T *s = static_cast<const T *>(call->in[0].data), *dy = static_cast<const T *>(call->in[1].data);
        T *dx = static_cast<T *>(call->out[0].data);
        unary_slope<C> slope = {attrs->kind, static_cast<C>(attrs->alpha)};
        for_packs(call->stream, iso_array_count(&call->out[0]), aligned({s, dy, dx}),
                  map_two<T, unary_slope<C>>{s, dy, dx, slope});
    });
}

/* ---- numbers that are the same for all elements ---- */

template <class C> struct affine_function {
    C scale, shift;
    __device__ C operator()(C x) const
    {
        return scale * x + shift;
    }
};

void run_affine(const iso_kernel_call *call)
{
    const iso_affine_attrs *attrs = static_cast<const iso_affine_attrs *>(call->attrs);
    with_float(call->out[0].dtype, [=](auto zero) {
        typedef compute<decltype(zero)> C;
        run_map<decltype(zero)>(
            call, affine_function<C>{static_cast<C>(attrs->scale), static_cast<C>(attrs->shift)});
    });
}

template <class C> struct division_by_count {
    double count;
    bool times_rows;
    const iso_step_info *info;
    __device__ C operator()(C x) const
    {
        return static_cast<C>(static_cast<double>(x) /
                              (count * (times_rows ? static_cast<double>(info->rows) : 1)));
    }
};

void run_scale_by_count(const iso_kernel_call *call)
{
    const iso_count_attrs *attrs = static_cast<const iso_count_attrs *>(call->attrs);
    with_float(call->out[0].dtype, [=](auto zero) {
        typedef compute<decltype(zero)> C;
        run_map<decltype(zero)>(call, division_by_count<C>{attrs->count, attrs->batch, call->info});
    });
}

/* ---- copies ---- */

struct identity {
    template <class C> __device__ C operator()(C x) const
    {
        return x;
    }
};

void run_copy(const iso_kernel_call *call)
{
    if (call->in[0].data != call->out[0].data)
        with_size(call->out[0].dtype, [=](auto zero) { run_map<decltype(zero)>(call, identity()); });
}

struct negation {
    __device__ uint8_t operator()(uint8_t x) const
    {
        return !x;
    }
};

void run_logical_not(const iso_kernel_call *call)
{
    run_map<uint8_t>(call, negation());
}

} // namespace

#define UNARY(name, KIND, gradient, linear) ISO_CUDA_KERNEL(name, run_unary, true)
#include "runtime/graph/ops/unary.h"
ISO_CUDA_KERNEL(unary_gradient, run_unary_gradient, true)
ISO_CUDA_KERNEL(affine, run_affine, true)
ISO_CUDA_KERNEL(scale_by_count, run_scale_by_count, true)
ISO_CUDA_KERNEL(stop_gradient, run_copy, true)
ISO_CUDA_KERNEL(logical_not, run_logical_not, true)
