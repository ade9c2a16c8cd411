/* Conversions of element types: to integers by truncation, saturated, NaN gives 0; to bool: not 0. */
#include "runtime/backend/cpu/reference/list.h"
#include "runtime/backend/cpu/reference/reference.h"
#include "runtime/backend/formulas.h"
#include "runtime/base/bf16.h"
#include "runtime/graph/ops/attrs.h"

#define AS_FLOAT(x) ((float)(x))
#define AS_DOUBLE(x) ((double)(x))
#define AS_I32(x) iso_i32_of_double((double)(x))
#define AS_U8(x) iso_u8_of_double((double)(x))
#define AS_BOOL(x) ((x) != 0)
#define AS_I64_OF_FLOAT(x) iso_i64_of_double((double)(x))
#define AS_I64(x) ((int64_t)(x))

#define CONVERT(FROM, TO, AS)                                                                                \
    {                                                                                                        \
        const FROM *x = call->in[0].data;                                                                    \
        TO *y = call->out[0].data;                                                                           \
        for (int64_t i = 0; i < n; i++)                                                                      \
            y[i] = AS(x[i]);                                                                                 \
    }                                                                                                        \
    break;

#define FROM_TYPE(NAME, FROM, TO_I64, TO_BF16)                                                               \
    static void from_##NAME(const iso_kernel_call *call, int64_t n)                                          \
    {                                                                                                        \
        switch (call->out[0].dtype) {                                                                        \
        case ISO_F32:                                                                                        \
            CONVERT(FROM, float, AS_FLOAT)                                                                   \
        case ISO_F64:                                                                                        \
            CONVERT(FROM, double, AS_DOUBLE)                                                                 \
        case ISO_I32:                                                                                        \
            CONVERT(FROM, int32_t, AS_I32)                                                                   \
        case ISO_I64:                                                                                        \
            CONVERT(FROM, int64_t, TO_I64)                                                                   \
        case ISO_U8:                                                                                         \
            CONVERT(FROM, uint8_t, AS_U8)                                                                    \
        case ISO_BOOL:                                                                                       \
            CONVERT(FROM, uint8_t, AS_BOOL)                                                                  \
        case ISO_BF16:                                                                                       \
            CONVERT(FROM, uint16_t, TO_BF16)                                                                 \
        case ISO_DTYPE_NONE:                                                                                 \
            break;                                                                                           \
        }                                                                                                    \
    }

FROM_TYPE(f32, float, AS_I64_OF_FLOAT, iso_bf16_of_float)
FROM_TYPE(f64, double, AS_I64_OF_FLOAT, iso_bf16_of_double)
FROM_TYPE(i32, int32_t, AS_I64, iso_bf16_of_double)
FROM_TYPE(i64, int64_t, AS_I64, iso_bf16_of_i64)
FROM_TYPE(u8, uint8_t, AS_I64, iso_bf16_of_double)

static void cast_from_bf16(const iso_kernel_call *call, int64_t n)
{
    const uint16_t *x = call->in[0].data;
    float wide[256];
    iso_array part = call->out[0], from = {.dtype = ISO_F32, .data = wide};
    iso_kernel_call block = {.in = &from, .out = &part};
    for (int64_t first = 0; first < n; first += 256) {
        int64_t count = n - first < 256 ? n - first : 256;
        for (int64_t i = 0; i < count; i++)
            wide[i] = iso_bf16_to_float(x[first + i]);
        part.data = (char *)call->out[0].data + (size_t)first * iso_dtype_size(part.dtype);
        from_f32(&block, count);
    }
}

static void run_cast(const iso_kernel_call *call)
{
    static void (*const from[])(const iso_kernel_call *, int64_t) = {
        [ISO_F32] = from_f32, [ISO_F64] = from_f64, [ISO_I32] = from_i32,        [ISO_I64] = from_i64,
        [ISO_U8] = from_u8,   [ISO_BOOL] = from_u8, [ISO_BF16] = cast_from_bf16,
    };
    from[call->in[0].dtype](call, iso_array_count(&call->out[0]));
}

const iso_kernel iso_reference_cast = {.op = "cast", .name = "reference", .run = run_cast};
