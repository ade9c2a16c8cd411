/* Arithmetic and comparisons of two operands with broadcasting, and selection between two. */
#include <math.h>

#include "runtime/backend/cpu/reference/list.h"
#include "runtime/backend/cpu/reference/reference.h"
#include "runtime/backend/cpu/reference/walk.h"
#include "runtime/backend/formulas.h"

/* z[i] = a[i * step_a] op b[i * step_b] for i in 0..n-1 */
typedef void run_of_two(int64_t n, const void *a, int64_t step_a, const void *b, int64_t step_b, void *z);

/* One loop for each common combination of steps, so that the compiler vectorizes them. */
#define LOOP(T, RESULT, EXPRESSION)                                                                          \
    {                                                                                                        \
        const T *a = va, *b = vb;                                                                            \
        RESULT *z = vz;                                                                                      \
        if (step_a == 1 && step_b == 1)                                                                      \
            for (int64_t i = 0; i < n; i++) {                                                                \
                const T x = a[i], y = b[i];                                                                  \
                z[i] = (RESULT)(EXPRESSION);                                                                 \
            }                                                                                                \
        else if (step_a == 1 && step_b == 0) {                                                               \
            const T y = b[0];                                                                                \
            for (int64_t i = 0; i < n; i++) {                                                                \
                const T x = a[i];                                                                            \
                z[i] = (RESULT)(EXPRESSION);                                                                 \
            }                                                                                                \
        } else                                                                                               \
            for (int64_t i = 0; i < n; i++) {                                                                \
                const T x = a[i * step_a], y = b[i * step_b];                                                \
                z[i] = (RESULT)(EXPRESSION);                                                                 \
            }                                                                                                \
    }

#define ONE_TYPE(NAME, SUFFIX, T, RESULT, EXPRESSION)                                                        \
    static void NAME##_##SUFFIX(int64_t n, const void *va, int64_t step_a, const void *vb, int64_t step_b,   \
                                void *vz) LOOP(T, RESULT, EXPRESSION)

/* Runs over every element, with `loops` by element type. The output may overwrite an operand of its shape. */
static void over_runs(const iso_kernel_call *call, run_of_two *const *loops)
{
    const iso_array *a = &call->in[0], *b = &call->in[1], *z = &call->out[0];
    int64_t stride[3][ISO_MAX_RANK];
    iso_broadcast_strides(a, z, stride[0]);
    iso_broadcast_strides(b, z, stride[1]);
    iso_strides(z, stride[2]);
    size_t size = iso_dtype_size(a->dtype), out_size = iso_dtype_size(z->dtype);
    run_of_two *loop = loops[a->dtype];
    iso_walk walk;
    iso_walk_begin(&walk, z->rank, z->dim, 3, stride);
    for (int64_t r = 0; r < walk.n_runs; r++, iso_walk_next(&walk))
        loop(walk.length, (const char *)a->data + (size_t)walk.at[0] * size, walk.step[0],
             (const char *)b->data + (size_t)walk.at[1] * size, walk.step[1],
             (char *)z->data + (size_t)walk.at[2] * out_size);
}

#define KERNEL_OF(NAME, IN_PLACE, ...)                                                                       \
    static void run_##NAME(const iso_kernel_call *call)                                                      \
    {                                                                                                        \
        static run_of_two *const loops[] = {__VA_ARGS__};                                                    \
        over_runs(call, loops);                                                                              \
    }                                                                                                        \
    const iso_kernel iso_reference_##NAME = {                                                                \
        .op = #NAME, .name = "reference", .run = run_##NAME, .in_place = IN_PLACE};

#define FLOATS(NAME, EXPRESSION)                                                                             \
    ONE_TYPE(NAME, f32, float, float, EXPRESSION)                                                            \
    ONE_TYPE(NAME, f64, double, double, EXPRESSION)                                                          \
    KERNEL_OF(NAME, true, [ISO_F32] = NAME##_f32, [ISO_F64] = NAME##_f64)

#define NUMBERS(NAME, EXPRESSION)                                                                            \
    ONE_TYPE(NAME, f32, float, float, EXPRESSION)                                                            \
    ONE_TYPE(NAME, f64, double, double, EXPRESSION)                                                          \
    ONE_TYPE(NAME, i32, int32_t, int32_t, EXPRESSION)                                                        \
    ONE_TYPE(NAME, i64, int64_t, int64_t, EXPRESSION)                                                        \
    ONE_TYPE(NAME, u8, uint8_t, uint8_t, EXPRESSION)                                                         \
    KERNEL_OF(NAME, true, [ISO_F32] = NAME##_f32, [ISO_F64] = NAME##_f64, [ISO_I32] = NAME##_i32,            \
              [ISO_I64] = NAME##_i64, [ISO_U8] = NAME##_u8)

#define COMPARISON(NAME, EXPRESSION)                                                                         \
    ONE_TYPE(NAME, f32, float, uint8_t, EXPRESSION)                                                          \
    ONE_TYPE(NAME, f64, double, uint8_t, EXPRESSION)                                                         \
    ONE_TYPE(NAME, i32, int32_t, uint8_t, EXPRESSION)                                                        \
    ONE_TYPE(NAME, i64, int64_t, uint8_t, EXPRESSION)                                                        \
    ONE_TYPE(NAME, u8, uint8_t, uint8_t, EXPRESSION)                                                         \
    KERNEL_OF(NAME, false, [ISO_F32] = NAME##_f32, [ISO_F64] = NAME##_f64, [ISO_I32] = NAME##_i32,           \
              [ISO_I64] = NAME##_i64, [ISO_U8] = NAME##_u8, [ISO_BOOL] = NAME##_u8)

#define LOGICAL(NAME, EXPRESSION)                                                                            \
    ONE_TYPE(NAME, bool, uint8_t, uint8_t, EXPRESSION)                                                       \
    KERNEL_OF(NAME, true, [ISO_BOOL] = NAME##_bool)

ISO_BINARY_NUMBERS(NUMBERS)
FLOATS(divide, x / y)
FLOATS(power, pow(x, y))
ISO_BINARY_COMPARISONS(COMPARISON)
ISO_BINARY_LOGICAL(LOGICAL)

static void run_logical_not(const iso_kernel_call *call)
{
    const uint8_t *x = call->in[0].data;
    uint8_t *y = call->out[0].data;
    int64_t n = iso_array_count(&call->out[0]);
    for (int64_t i = 0; i < n; i++)
        y[i] = !x[i];
}

const iso_kernel iso_reference_logical_not = {
    .op = "logical_not", .name = "reference", .run = run_logical_not, .in_place = true};

/* z = condition ? a : b over one run; elements are copied by size */
#define CHOOSE(T)                                                                                            \
    {                                                                                                        \
        const T *a = call->in[1].data, *b = call->in[2].data;                                                \
        T *z = call->out[0].data;                                                                            \
        for (int64_t i = 0; i < walk->length; i++)                                                           \
            z[walk->at[3] + i] = condition[walk->at[0] + i * walk->step[0]]                                  \
                                     ? a[walk->at[1] + i * walk->step[1]]                                    \
                                     : b[walk->at[2] + i * walk->step[2]];                                   \
    }

static void ref_binary_choose(const iso_kernel_call *call, const iso_walk *walk)
{
    const uint8_t *condition = call->in[0].data;
    switch (iso_dtype_size(call->out[0].dtype)) {
    case 1:
        CHOOSE(uint8_t)
        break;
    case 4:
        CHOOSE(uint32_t)
        break;
    case 8:
        CHOOSE(uint64_t)
        break;
    }
}

static void run_where(const iso_kernel_call *call)
{
    const iso_array *z = &call->out[0];
    int64_t stride[4][ISO_MAX_RANK];
    for (int k = 0; k < 3; k++)
        iso_broadcast_strides(&call->in[k], z, stride[k]);
    iso_strides(z, stride[3]);
    iso_walk walk;
    iso_walk_begin(&walk, z->rank, z->dim, 4, stride);
    for (int64_t r = 0; r < walk.n_runs; r++, iso_walk_next(&walk))
        ref_binary_choose(call, &walk);
}

const iso_kernel iso_reference_where = {
    .op = "where", .name = "reference", .run = run_where, .in_place = true};
