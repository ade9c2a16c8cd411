/* The loops of elementwise ops for one type of elements, which elementwise_body.h defines: ELEMENT; LOAD, STORE,
 * LOAD_N and STORE_N, between memory and vectors of floats; FLOAT, one element as a float; NAME, a function's
 * name. */

/* y[i] = EXPRESSION of v = x[i]: whole vectors, then a partial one. */
#define MAP(EXPRESSION)                                                                                      \
    do {                                                                                                     \
        int64_t i = 0;                                                                                       \
        for (; i + VL <= n; i += VL) {                                                                       \
            vf v = LOAD(x + i);                                                                              \
            STORE(y + i, EXPRESSION);                                                                        \
        }                                                                                                    \
        if (i < n) {                                                                                         \
            vf v = LOAD_N(x + i, n - i);                                                                     \
            STORE_N(y + i, EXPRESSION, n - i);                                                               \
        }                                                                                                    \
        return;                                                                                              \
    } while (0)

void NAME(unary)(iso_unary_kind kind, float alpha, int64_t n, const ELEMENT *x, ELEMENT *y)
{
    const vf zero = vf_zero();
    switch (kind) {
    case ISO_UNARY_NEGATE:
        MAP(-v);
    case ISO_UNARY_ABS:
        MAP(vf_abs(v));
    case ISO_UNARY_SIGN:
        MAP(sign_of(v));
    case ISO_UNARY_EXP:
        MAP(vf_exp(v));
    case ISO_UNARY_LOG:
        MAP(vf_log(v));
    case ISO_UNARY_SQRT:
        MAP(vf_sqrt(v));
    case ISO_UNARY_RSQRT:
        MAP(1.0f / vf_sqrt(v));
    case ISO_UNARY_SQUARE:
        MAP(v * v);
    case ISO_UNARY_RELU:
        MAP(vf_max(zero, v)); /* a NaN stays */
    case ISO_UNARY_CLIPPED_RELU:
        MAP(vf_min(vf_set(alpha), vf_max(zero, v)));
    case ISO_UNARY_LEAKY_RELU:
        MAP(vf_select(vf_gt(zero, v), v * alpha, v));
    case ISO_UNARY_ELU:
        MAP(vf_select(vf_gt(v, zero), v, alpha * vf_expm1_negative(vf_min(zero, v))));
    case ISO_UNARY_SIGMOID:
        MAP(vf_sigmoid(v));
    case ISO_UNARY_TANH:
        MAP(vf_tanh(v));
    case ISO_UNARY_GELU_APPROXIMATE:
        MAP(v * vf_sigmoid(2 * gelu_inner(v)));
    case ISO_UNARY_SILU:
        MAP(v * vf_sigmoid(v));
    case ISO_UNARY_SOFTPLUS:
        MAP(vf_max(zero, v) + vf_log1p(vf_exp(-vf_abs(v))));
    case ISO_UNARY_GELU:
        MAP(gelu(v));
    }
}

#define MAP_GRADIENT(EXPRESSION)                                                                             \
    do {                                                                                                     \
        int64_t i = 0;                                                                                       \
        for (; i + VL <= n; i += VL) {                                                                       \
            vf v = LOAD(s + i), d = LOAD(dy + i);                                                            \
            STORE(dx + i, EXPRESSION);                                                                       \
        }                                                                                                    \
        if (i < n) {                                                                                         \
            vf v = LOAD_N(s + i, n - i), d = LOAD_N(dy + i, n - i);                                          \
            STORE_N(dx + i, EXPRESSION, n - i);                                                              \
        }                                                                                                    \
        return;                                                                                              \
    } while (0)

void NAME(unary_gradient)(iso_unary_kind kind, float alpha, int64_t n, const ELEMENT *s, const ELEMENT *dy,
                          ELEMENT *dx)
{
    const vf zero = vf_zero();
    switch (kind) {
    case ISO_UNARY_NEGATE:
        MAP_GRADIENT(((void)v, -d));
    case ISO_UNARY_ABS:
        MAP_GRADIENT(d * sign_of(v));
    case ISO_UNARY_SIGN:
        MAP_GRADIENT(0.0f * v * d);
    case ISO_UNARY_EXP:
        MAP_GRADIENT(d * v);
    case ISO_UNARY_LOG:
        MAP_GRADIENT(d / v);
    case ISO_UNARY_SQRT:
        MAP_GRADIENT(0.5f * d / v);
    case ISO_UNARY_RSQRT:
        MAP_GRADIENT(-0.5f * d * v * v * v);
    case ISO_UNARY_SQUARE:
        MAP_GRADIENT(2.0f * d * v);
    case ISO_UNARY_RELU:
        MAP_GRADIENT(vf_select(vf_gt(v, zero), d, zero));
    case ISO_UNARY_CLIPPED_RELU:
        MAP_GRADIENT(vf_select(vf_gt(v, zero), vf_select(vf_gt(vf_set(alpha), v), d, zero), zero));
    case ISO_UNARY_LEAKY_RELU:
        MAP_GRADIENT(vf_select(vf_gt(zero, v), d * alpha, d)); /* 1 at 0 */
    case ISO_UNARY_ELU:
        MAP_GRADIENT(vf_select(vf_gt(v, zero), d, d * alpha * vf_exp(v)));
    case ISO_UNARY_SIGMOID:
        MAP_GRADIENT(d * v * (1.0f - v));
    case ISO_UNARY_TANH:
        MAP_GRADIENT(d * (1.0f - v * v));
    case ISO_UNARY_GELU_APPROXIMATE:
        MAP_GRADIENT(d * gelu_tanh_slope(v));
    case ISO_UNARY_SILU:
        MAP_GRADIENT(d * silu_slope(v));
    case ISO_UNARY_SOFTPLUS:
        MAP_GRADIENT(d * vf_sigmoid(v));
    case ISO_UNARY_GELU:
        MAP_GRADIENT(d * gelu_slope(v));
    }
}

void NAME(affine)(int64_t n, float scale, float shift, const ELEMENT *x, ELEMENT *y)
{
    MAP(v * scale + shift);
}

/* One operand may be a single number. */
#define MAP_BINARY(EXPRESSION)                                                                               \
    do {                                                                                                     \
        int64_t i = 0;                                                                                       \
        vf one_a = vf_set(n ? FLOAT(*a) : 0), one_b = vf_set(n ? FLOAT(*b) : 0);                             \
        for (; i + VL <= n; i += VL) {                                                                       \
            vf u = a_step ? LOAD(a + i) : one_a, v = b_step ? LOAD(b + i) : one_b;                           \
            STORE(y + i, EXPRESSION);                                                                        \
        }                                                                                                    \
        if (i < n) {                                                                                         \
            vf u = a_step ? LOAD_N(a + i, n - i) : one_a, v = b_step ? LOAD_N(b + i, n - i) : one_b;         \
            STORE_N(y + i, EXPRESSION, n - i);                                                               \
        }                                                                                                    \
        return;                                                                                              \
    } while (0)

void NAME(binary)(iso_cpu_binary kind, int64_t n, const ELEMENT *a, int a_step, const ELEMENT *b, int b_step,
                  ELEMENT *y)
{
    switch (kind) {
    case ISO_CPU_ADD:
        MAP_BINARY(u + v);
    case ISO_CPU_SUBTRACT:
        MAP_BINARY(u - v);
    case ISO_CPU_MULTIPLY:
        MAP_BINARY(u * v);
    case ISO_CPU_DIVIDE:
        MAP_BINARY(u / v);
    case ISO_CPU_MAXIMUM:
        MAP_BINARY(vf_select(vf_unordered(u, u), u, vf_max(u, v)));
    case ISO_CPU_MINIMUM:
        MAP_BINARY(vf_select(vf_unordered(u, u), u, vf_min(u, v)));
    }
}

#undef MAP
#undef MAP_GRADIENT
#undef MAP_BINARY
#undef ELEMENT
#undef LOAD
#undef STORE
#undef LOAD_N
#undef STORE_N
#undef FLOAT
#undef NAME
