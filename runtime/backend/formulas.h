/* Formulas of elementwise ops, as lists of expressions of C: written once for the kernels of every backend,
 * so that their bits are the same. Here are the formulas that are computed in the type of the elements, T;
 * functions such as exp are the backends' own. */
#ifndef ISO_BACKEND_FORMULAS_H
#define ISO_BACKEND_FORMULAS_H

#include <stdint.h>

#include "runtime/base/host_device.h"

// clang-format off

/* CASE(kind, y of x, alpha). NaN gives NaN, so that it reaches the result. */
#define ISO_PLAIN_FUNCTIONS(CASE)                          \
    CASE(ISO_UNARY_NEGATE, -x)                             \
    CASE(ISO_UNARY_ABS, x < 0 ? -x : x)                    \
    CASE(ISO_UNARY_SIGN, x > 0 ? 1 : x < 0 ? -1 : x)       \
    CASE(ISO_UNARY_SQUARE, x * x)                          \
    CASE(ISO_UNARY_RELU, x < 0 ? 0 : x)                    \
    CASE(ISO_UNARY_CLIPPED_RELU, x < 0 ? 0 : x > alpha ? alpha : x) \
    CASE(ISO_UNARY_LEAKY_RELU, x < 0 ? alpha * x : x)

/* CASE(kind, dy/dx of s, alpha), where s is y or x (runtime/graph/ops/attrs.h says which) */
#define ISO_PLAIN_SLOPES(CASE)                             \
    CASE(ISO_UNARY_NEGATE, -1)                             \
    CASE(ISO_UNARY_ABS, s > 0 ? 1 : s < 0 ? -1 : s)        \
    CASE(ISO_UNARY_SIGN, 0)                                \
    CASE(ISO_UNARY_EXP, s)                                 \
    CASE(ISO_UNARY_LOG, 1 / s)                             \
    CASE(ISO_UNARY_SQRT, (T)0.5 / s)                       \
    CASE(ISO_UNARY_RSQRT, (T)-0.5 * s * s * s)             \
    CASE(ISO_UNARY_SQUARE, 2 * s)                          \
    CASE(ISO_UNARY_RELU, s > 0 ? 1 : 0)                    \
    CASE(ISO_UNARY_CLIPPED_RELU, s > 0 && s < alpha ? 1 : 0) \
    CASE(ISO_UNARY_LEAKY_RELU, s < 0 ? alpha : 1)          \
    CASE(ISO_UNARY_SIGMOID, s * (1 - s))                   \
    CASE(ISO_UNARY_TANH, 1 - s * s)

/* OP(name, z of x, y): of numbers of any type. NaN in either operand of an extreme gives NaN. */
#define ISO_BINARY_NUMBERS(OP)                             \
    OP(add, x + y)                                         \
    OP(subtract, x - y)                                    \
    OP(multiply, x * y)                                    \
    OP(maximum, x > y || x != x ? x : y)                   \
    OP(minimum, x < y || x != x ? x : y)
/* The same with z of type bool. */
#define ISO_BINARY_COMPARISONS(OP)                         \
    OP(equal, x == y)                                      \
    OP(not_equal, x != y)                                  \
    OP(less, x < y)                                        \
    OP(less_equal, x <= y)                                 \
    OP(greater, x > y)                                     \
    OP(greater_equal, x >= y)
/* Of bools. */
#define ISO_BINARY_LOGICAL(OP)                             \
    OP(logical_and, x && y)                                \
    OP(logical_or, x || y)

// clang-format on

/* ---- conversions of element types: to integers by truncation, saturated, NaN gives 0 ---- */

ISO_HOST_DEVICE static inline double iso_clamp(double x, double low, double high)
{
    return x != x ? 0 : x < low ? low : x > high ? high : x;
}
ISO_HOST_DEVICE static inline int32_t iso_i32_of_double(double x)
{
    return (int32_t)iso_clamp(x, INT32_MIN, INT32_MAX);
}
ISO_HOST_DEVICE static inline uint8_t iso_u8_of_double(double x)
{
    return (uint8_t)iso_clamp(x, 0, UINT8_MAX);
}
/* 2^63 itself does not fit. There is no double between it and the largest one that fits. */
ISO_HOST_DEVICE static inline int64_t iso_i64_of_double(double x)
{
    return x >= 0x1p63 ? INT64_MAX : (int64_t)iso_clamp(x, -0x1p63, 0x1p63);
}

#endif
