/* The functions of runtime/graph/ops/unary.h and their slopes, of one number. */
#ifndef ISO_BACKEND_CUDA_UNARY_H
#define ISO_BACKEND_CUDA_UNARY_H

#include "runtime/backend/cuda/elements.h"
#include "runtime/backend/formulas.h"
#include "runtime/graph/ops/attrs.h"

namespace iso_cuda
{

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

#define ISO_CUDA_RETURN_CASE(KIND, EXPRESSION)                                                               \
    case KIND:                                                                                               \
        return T(EXPRESSION);

template <class T> struct unary_function {
    iso_unary_kind kind;
    T alpha;
    __device__ T operator()(T x) const
    {
        switch (kind) {
            ISO_PLAIN_FUNCTIONS(ISO_CUDA_RETURN_CASE)
            ISO_CUDA_RETURN_CASE(ISO_UNARY_EXP, exp_of(x))
            ISO_CUDA_RETURN_CASE(ISO_UNARY_LOG, log_of(x))
            ISO_CUDA_RETURN_CASE(ISO_UNARY_SQRT, sqrt_of(x))
            ISO_CUDA_RETURN_CASE(ISO_UNARY_RSQRT, 1 / sqrt_of(x))
            ISO_CUDA_RETURN_CASE(ISO_UNARY_ELU, x > 0 ? x : alpha * expm1_of(x))
            ISO_CUDA_RETURN_CASE(ISO_UNARY_SIGMOID, sigmoid(x))
            ISO_CUDA_RETURN_CASE(ISO_UNARY_TANH, tanh_of(x))
            ISO_CUDA_RETURN_CASE(ISO_UNARY_GELU, x * normal(x))
            ISO_CUDA_RETURN_CASE(ISO_UNARY_GELU_APPROXIMATE, x * gelu_share(x))
            ISO_CUDA_RETURN_CASE(ISO_UNARY_SILU, x * sigmoid(x))
            ISO_CUDA_RETURN_CASE(ISO_UNARY_SOFTPLUS, softplus(x))
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
            ISO_PLAIN_SLOPES(ISO_CUDA_RETURN_CASE)
            ISO_CUDA_RETURN_CASE(ISO_UNARY_ELU, s > 0 ? 1 : alpha * exp_of(s))
            ISO_CUDA_RETURN_CASE(ISO_UNARY_GELU, gelu_slope(s))
            ISO_CUDA_RETURN_CASE(ISO_UNARY_GELU_APPROXIMATE, gelu_approximate_slope(s))
            ISO_CUDA_RETURN_CASE(ISO_UNARY_SILU, silu_slope(s))
            ISO_CUDA_RETURN_CASE(ISO_UNARY_SOFTPLUS, sigmoid(s))
        }
        return s;
    }
    __device__ T operator()(T s, T dy) const
    {
        return dy * of(s);
    }
};

#undef ISO_CUDA_RETURN_CASE

} // namespace iso_cuda

#endif
