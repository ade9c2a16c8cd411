/* Kernels of one operand. Transcendental functions are computed in double, so that float32 results are as
 * exact as possible. */
#include <math.h>
#include <string.h>

#include "runtime/backend/cpu/reference/list.h"
#include "runtime/backend/cpu/reference/reference.h"
#include "runtime/backend/formulas.h"
#include "runtime/graph/ops/attrs.h"

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double softplus(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

/* The cumulative normal distribution at x. */
static double ref_unary_normal(double x)
{
    return 0.5 * erfc(-x * 0.70710678118654752440);
}

static double gelu_slope(double x)
{
    return ref_unary_normal(x) + x * exp(-0.5 * x * x) * 0.39894228040143267794;
}

/* gelu by tanh (Hendrycks and Gimpel 2016, arXiv 1606.08415) */
static double ref_unary_gelu_tanh(double x)
{
    return tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x));
}

static double gelu_approximate_slope(double x)
{
    double t = ref_unary_gelu_tanh(x);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.79788456080286535588 * (1 + 3 * 0.044715 * x * x);
}

static double silu_slope(double x)
{
    double s = sigmoid(x);
    return s * (1 + x * (1 - s));
}

/* Besides the plain ones: kind, y of x. NaN gives NaN, so that it reaches the result. */
#define FUNCTIONS(CASE)                                                                                      \
    ISO_PLAIN_FUNCTIONS(CASE)                                                                                \
    CASE(ISO_UNARY_EXP, exp(x))                                                                              \
    CASE(ISO_UNARY_LOG, log(x))                                                                              \
    CASE(ISO_UNARY_SQRT, sqrt(x))                                                                            \
    CASE(ISO_UNARY_RSQRT, 1 / sqrt(x))                                                                       \
    CASE(ISO_UNARY_ELU, x > 0 ? x : alpha * expm1(x))                                                        \
    CASE(ISO_UNARY_SIGMOID, sigmoid(x))                                                                      \
    CASE(ISO_UNARY_TANH, tanh(x))                                                                            \
    CASE(ISO_UNARY_GELU, x *ref_unary_normal(x))                                                             \
    CASE(ISO_UNARY_GELU_APPROXIMATE, 0.5 * x * (1 + ref_unary_gelu_tanh(x)))                                 \
    CASE(ISO_UNARY_SILU, x *sigmoid(x))                                                                      \
    CASE(ISO_UNARY_SOFTPLUS, softplus(x))

/* Besides the plain ones: kind, dy/dx from s, which is y or x (attrs.h says which) */
#define SLOPES(CASE)                                                                                         \
    ISO_PLAIN_SLOPES(CASE)                                                                                   \
    CASE(ISO_UNARY_ELU, s > 0 ? 1 : alpha * exp(s))                                                          \
    CASE(ISO_UNARY_GELU, gelu_slope(s))                                                                      \
    CASE(ISO_UNARY_GELU_APPROXIMATE, gelu_approximate_slope(s))                                              \
    CASE(ISO_UNARY_SILU, silu_slope(s))                                                                      \
    CASE(ISO_UNARY_SOFTPLUS, sigmoid(s))

#define FUNCTION_CASE(KIND, EXPRESSION)                                                                      \
    case KIND:                                                                                               \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            const T x = in[i];                                                                               \
            out[i] = (T)(EXPRESSION);                                                                        \
        }                                                                                                    \
        break;

#define SLOPE_CASE(KIND, EXPRESSION)                                                                         \
    case KIND:                                                                                               \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            const T s = saved[i];                                                                            \
            (void)s;                                                                                         \
            dx[i] = dy[i] * (T)(EXPRESSION);                                                                 \
        }                                                                                                    \
        break;

#define T float
static void function_f32(const iso_unary_attrs *attrs, int64_t n, const T *in, T *out)
{
    const T alpha = (T)attrs->alpha;
    switch (attrs->kind) {
        FUNCTIONS(FUNCTION_CASE)
    }
}

static void slope_f32(const iso_unary_attrs *attrs, int64_t n, const T *saved, const T *dy, T *dx)
{
    const T alpha = (T)attrs->alpha;
    switch (attrs->kind) {
        SLOPES(SLOPE_CASE)
    }
}
#undef T

#define T double
static void function_f64(const iso_unary_attrs *attrs, int64_t n, const T *in, T *out)
{
    const T alpha = attrs->alpha;
    switch (attrs->kind) {
        FUNCTIONS(FUNCTION_CASE)
    }
}

static void slope_f64(const iso_unary_attrs *attrs, int64_t n, const T *saved, const T *dy, T *dx)
{
    const T alpha = attrs->alpha;
    switch (attrs->kind) {
        SLOPES(SLOPE_CASE)
    }
}
#undef T

double iso_reference_unary(iso_unary_kind kind, double x)
{
    double y = 0;
    function_f64(&(iso_unary_attrs){.kind = kind}, 1, &x, &y);
    return y;
}

double iso_reference_slope(iso_unary_kind kind, double s)
{
    double dx = 0, dy = 1;
    slope_f64(&(iso_unary_attrs){.kind = kind}, 1, &s, &dy, &dx);
    return dx;
}

static void run_function(const iso_kernel_call *call)
{
    int64_t n = iso_array_count(&call->out[0]);
    if (call->out[0].dtype == ISO_F32)
        function_f32(call->attrs, n, call->in[0].data, call->out[0].data);
    else
        function_f64(call->attrs, n, call->in[0].data, call->out[0].data);
}

static void run_slope(const iso_kernel_call *call)
{
    int64_t n = iso_array_count(&call->out[0]);
    if (call->out[0].dtype == ISO_F32)
        slope_f32(call->attrs, n, call->in[0].data, call->in[1].data, call->out[0].data);
    else
        slope_f64(call->attrs, n, call->in[0].data, call->in[1].data, call->out[0].data);
}

#define UNARY(OP_NAME, KIND, GRADIENT, LINEAR)                                                               \
    const iso_kernel iso_reference_##OP_NAME = {                                                             \
        .op = #OP_NAME, .name = "reference", .run = run_function, .in_place = true};
#include "runtime/graph/ops/unary.h"

const iso_kernel iso_reference_unary_gradient = {
    .op = "unary_gradient", .name = "reference", .run = run_slope, .in_place = true};

/* y = scale * x + shift in the type of x */
static void ref_unary_run_affine(const iso_kernel_call *call)
{
    const iso_affine_attrs *attrs = call->attrs;
    int64_t n = iso_array_count(&call->out[0]);
    if (call->out[0].dtype == ISO_F32) {
        const float *x = call->in[0].data, scale = (float)attrs->scale, shift = (float)attrs->shift;
        float *y = call->out[0].data;
        for (int64_t i = 0; i < n; i++)
            y[i] = scale * x[i] + shift;
    } else {
        const double *x = call->in[0].data;
        double *y = call->out[0].data;
        for (int64_t i = 0; i < n; i++)
            y[i] = attrs->scale * x[i] + attrs->shift;
    }
}

static void ref_unary_run_scale_by_count(const iso_kernel_call *call)
{
    const iso_count_attrs *attrs = call->attrs;
    double count = attrs->count * (attrs->batch ? (double)call->info->rows : 1);
    int64_t n = iso_array_count(&call->out[0]);
    if (call->out[0].dtype == ISO_F32) {
        const float *x = call->in[0].data;
        float *y = call->out[0].data;
        for (int64_t i = 0; i < n; i++)
            y[i] = (float)(x[i] / count);
    } else {
        const double *x = call->in[0].data;
        double *y = call->out[0].data;
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] / count;
    }
}

static void run_copy(const iso_kernel_call *call)
{
    size_t bytes = (size_t)iso_array_count(&call->out[0]) * iso_dtype_size(call->out[0].dtype);
    if (bytes && call->out[0].data != call->in[0].data)
        memcpy(call->out[0].data, call->in[0].data, bytes);
}

const iso_kernel iso_reference_affine = {
    .op = "affine", .name = "reference", .run = ref_unary_run_affine, .in_place = true};
const iso_kernel iso_reference_scale_by_count = {
    .op = "scale_by_count", .name = "reference", .run = ref_unary_run_scale_by_count, .in_place = true};
const iso_kernel iso_reference_stop_gradient = {
    .op = "stop_gradient", .name = "reference", .run = run_copy, .in_place = true};
