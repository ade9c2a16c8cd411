#include "runtime/base/convert.h"

#include "runtime/base/bf16.h"

typedef int64_t (*convert_fn)(const void *source, void *target, int64_t count);

/* Every value of the source has a value, or a nearest one, in the target. */
#define TOTAL(name, from, to)                                                                                \
    static int64_t name(const void *source, void *target, int64_t count)                                     \
    {                                                                                                        \
        const from *restrict a = source;                                                                     \
        to *restrict b = target;                                                                             \
        for (int64_t i = 0; i < count; i++)                                                                  \
            b[i] = (to)a[i];                                                                                 \
        return -1;                                                                                           \
    }

/* Only whole values in [low, high] have one; the bounds are exact in the source's type. */
#define CHECKED(name, from, to, inside)                                                                      \
    static int64_t name(const void *source, void *target, int64_t count)                                     \
    {                                                                                                        \
        const from *restrict a = source;                                                                     \
        to *restrict b = target;                                                                             \
        for (int64_t i = 0; i < count; i++) {                                                                \
            from v = a[i];                                                                                   \
            if (!(inside) || (from)(to)v != v)                                                               \
                return i;                                                                                    \
            b[i] = (to)v;                                                                                    \
        }                                                                                                    \
        return -1;                                                                                           \
    }

#define IN_I32 v >= -0x1p31 && v < 0x1p31
#define IN_I64 v >= -0x1p63 && v < 0x1p63
#define IN_U8 v >= 0 && v <= 255
#define IN_BOOL v == 0 || v == 1

TOTAL(f32_f32, float, float)
TOTAL(f32_f64, float, double)
CHECKED(f32_i32, float, int32_t, IN_I32)
CHECKED(f32_i64, float, int64_t, IN_I64)
CHECKED(f32_u8, float, uint8_t, IN_U8)
CHECKED(f32_bool, float, uint8_t, IN_BOOL)
TOTAL(f64_f32, double, float)
TOTAL(f64_f64, double, double)
CHECKED(f64_i32, double, int32_t, IN_I32)
CHECKED(f64_i64, double, int64_t, IN_I64)
CHECKED(f64_u8, double, uint8_t, IN_U8)
CHECKED(f64_bool, double, uint8_t, IN_BOOL)
TOTAL(i32_f32, int32_t, float)
TOTAL(i32_f64, int32_t, double)
TOTAL(i32_i32, int32_t, int32_t)
TOTAL(i32_i64, int32_t, int64_t)
CHECKED(i32_u8, int32_t, uint8_t, IN_U8)
CHECKED(i32_bool, int32_t, uint8_t, IN_BOOL)
TOTAL(i64_f32, int64_t, float)
TOTAL(i64_f64, int64_t, double)
CHECKED(i64_i32, int64_t, int32_t, v >= INT32_MIN && v <= INT32_MAX)
TOTAL(i64_i64, int64_t, int64_t)
CHECKED(i64_u8, int64_t, uint8_t, IN_U8)
CHECKED(i64_bool, int64_t, uint8_t, IN_BOOL)
TOTAL(u8_f32, uint8_t, float)
TOTAL(u8_f64, uint8_t, double)
TOTAL(u8_i32, uint8_t, int32_t)
TOTAL(u8_i64, uint8_t, int64_t)
TOTAL(u8_u8, uint8_t, uint8_t)
CHECKED(u8_bool, uint8_t, uint8_t, IN_BOOL)

/* By way of float32, which has every bfloat16. */
#define FROM_BF16(name, to, through)                                                                         \
    static int64_t name(const void *source, void *target, int64_t count)                                     \
    {                                                                                                        \
        const uint16_t *a = source;                                                                          \
        to *b = target;                                                                                      \
        for (int64_t i = 0; i < count; i++) {                                                                \
            float v = iso_bf16_to_float(a[i]);                                                               \
            if (through(&v, b + i, 1) >= 0)                                                                  \
                return i;                                                                                    \
        }                                                                                                    \
        return -1;                                                                                           \
    }

#define TO_BF16(name, from, as)                                                                              \
    static int64_t name(const void *source, void *target, int64_t count)                                     \
    {                                                                                                        \
        const from *a = source;                                                                              \
        uint16_t *b = target;                                                                                \
        for (int64_t i = 0; i < count; i++)                                                                  \
            b[i] = as(a[i]);                                                                                 \
        return -1;                                                                                           \
    }

FROM_BF16(bf16_f32, float, f32_f32)
FROM_BF16(bf16_f64, double, f32_f64)
FROM_BF16(bf16_i32, int32_t, f32_i32)
FROM_BF16(bf16_i64, int64_t, f32_i64)
FROM_BF16(bf16_u8, uint8_t, f32_u8)
FROM_BF16(bf16_bool, uint8_t, f32_bool)
TOTAL(bf16_bf16, uint16_t, uint16_t)
TO_BF16(f32_bf16, float, iso_bf16_of_float)
TO_BF16(f64_bf16, double, iso_bf16_of_double)
TO_BF16(i32_bf16, int32_t, iso_bf16_of_double)
TO_BF16(i64_bf16, int64_t, iso_bf16_of_i64)
TO_BF16(u8_bf16, uint8_t, iso_bf16_of_double)

/* [from][to], in the order of iso_dtype. A bool is a byte that is 0 or 1. */
static const convert_fn table[ISO_BF16 + 1][ISO_BF16 + 1] = {
    [ISO_F32] = {NULL, f32_f32, f32_f64, f32_i32, f32_i64, f32_u8, f32_bool, f32_bf16},
    [ISO_F64] = {NULL, f64_f32, f64_f64, f64_i32, f64_i64, f64_u8, f64_bool, f64_bf16},
    [ISO_I32] = {NULL, i32_f32, i32_f64, i32_i32, i32_i64, i32_u8, i32_bool, i32_bf16},
    [ISO_I64] = {NULL, i64_f32, i64_f64, i64_i32, i64_i64, i64_u8, i64_bool, i64_bf16},
    [ISO_U8] = {NULL, u8_f32, u8_f64, u8_i32, u8_i64, u8_u8, u8_bool, u8_bf16},
    [ISO_BOOL] = {NULL, u8_f32, u8_f64, u8_i32, u8_i64, u8_u8, u8_bool, u8_bf16},
    [ISO_BF16] = {NULL, bf16_f32, bf16_f64, bf16_i32, bf16_i64, bf16_u8, bf16_bool, bf16_bf16},
};

int64_t iso_convert(iso_dtype from, const void *source, iso_dtype to, void *target, int64_t count)
{
    return table[from][to](source, target, count);
}
