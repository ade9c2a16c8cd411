/* Kernels of one operand, element by element. */
#include "runtime/backend/cuda/elements.h"
#include "runtime/backend/formulas.h"
#include "runtime/graph/ops/attrs.h"

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

template <class C> __device__ C sigmoid(C x)
{
    return 1 / (1 + exp_of(-x));
}

template <class C> __device__ C softplus(C x)
{
    return x > 0 ? x + log1p_of(exp_of(-x)) : log1p_of(exp_of(x));
}

/* The cumulative normal distribution at x. */
template <class C> __device__ C normal(C x)
{
    return C(0.5) * erfc_of(-x * C(0.70710678118654752440));
}

/* gelu by tanh (Hendrycks and Gimpel 2016, arXiv 1606.08415) is x times this: (1 + tanh u) / 2 = sigmoid(2
 * u), which does not cancel. */
template <class C> __device__ C gelu_share(C x)
{
    return sigmoid(2 * C(0.79788456080286535588) * (x + C(0.044715) * x * x * x));
}

template <class C> __device__ C gelu_slope(C x)
{
    return normal(x) + x * exp_of(C(-0.5) * x * x) * C(0.39894228040143267794);
}

template <class C> __device__ C gelu_approximate_slope(C x)
{
    C s = gelu_share(x);
    return s + 2 * x * s * (1 - s) * C(0.79788456080286535588) * (1 + 3 * C(0.044715) * x * x);
}

template <class C> __device__ C silu_slope(C x)
{
    C s = sigmoid(x);
    return s * (1 + x * (1 - s));
}

#define RETURN_CASE(KIND, EXPRESSION)                                                                        \
    case KIND:                                                                                               \
        return T(EXPRESSION);

template <class T> struct unary_function {
    iso_unary_kind kind;
    T alpha;
    __device__ T operator()(T x) const
    {
        switch (kind) {
            ISO_PLAIN_FUNCTIONS(RETURN_CASE)
            RETURN_CASE(ISO_UNARY_EXP, exp_of(x))
            RETURN_CASE(ISO_UNARY_LOG, log_of(x))
            RETURN_CASE(ISO_UNARY_SQRT, sqrt_of(x))
            RETURN_CASE(ISO_UNARY_RSQRT, 1 / sqrt_of(x))
            RETURN_CASE(ISO_UNARY_ELU, x > 0 ? x : alpha * expm1_of(x))
            RETURN_CASE(ISO_UNARY_SIGMOID, sigmoid(x))
            RETURN_CASE(ISO_UNARY_TANH, tanh_of(x))
            RETURN_CASE(ISO_UNARY_GELU, x * normal(x))
            RETURN_CASE(ISO_UNARY_GELU_APPROXIMATE, x * gelu_share(x))
            RETURN_CASE(ISO_UNARY_SILU, x * sigmoid(x))
            RETURN_CASE(ISO_UNARY_SOFTPLUS, softplus(x))
        }
        return x;
    }
};

template <class T> struct unary_slope {
    iso_unary_kind kind;
    T alpha;
    __device__ T of(T s) const
    {
        switch (kind) {
            ISO_PLAIN_SLOPES(RETURN_CASE)
            RETURN_CASE(ISO_UNARY_ELU, s > 0 ? 1 : alpha * exp_of(s))
            RETURN_CASE(ISO_UNARY_GELU, gelu_slope(s))
            RETURN_CASE(ISO_UNARY_GELU_APPROXIMATE, gelu_approximate_slope(s))
            RETURN_CASE(ISO_UNARY_SILU, silu_slope(s))
            RETURN_CASE(ISO_UNARY_SOFTPLUS, sigmoid(s))
        }
        return s;
    }
    __device__ T operator()(T s, T dy) const
    {
        return dy * of(s);
    }
};

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
