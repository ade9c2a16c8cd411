/* Reductions. Sums are accumulated in double (or int64) in the order of the input's elements. */
#include <math.h>
#include <string.h>

#include "runtime/backend/cpu/reference/list.h"
#include "runtime/backend/cpu/reference/reference.h"
#include "runtime/backend/cpu/reference/walk.h"
#include "runtime/backend/index.h"
#include "runtime/graph/ops/attrs.h"

/* Operand 0 of the walk is the input, operand 1 the output, whose stride is 0 over reduced dimensions. */
static void walk_reduction(const iso_kernel_call *call, iso_walk *walk)
{
    const iso_reduce_attrs *attrs = call->attrs;
    const iso_array *x = &call->in[0];
    int64_t stride[2][ISO_MAX_RANK], step = 1;
    iso_strides(x, stride[0]);
    for (int d = x->rank - 1; d >= 0; d--) {
        bool reduced = attrs->axes >> d & 1;
        stride[1][d] = reduced ? 0 : step;
        step *= reduced ? 1 : x->dim[d];
    }
    iso_walk_begin(walk, x->rank, x->dim, 2, stride);
}

/* ---- sums ---- */
#define ADD_RUN(NAME, T, SUM, TERM)                                                                          \
    static void NAME(const iso_walk *walk, const void *data, void *sums)                                     \
    {                                                                                                        \
        const T *x = (const T *)data + walk->at[0];                                                          \
        SUM *y = (SUM *)sums + walk->at[1];                                                                  \
        if (walk->step[1] == 0) {                                                                            \
            SUM sum = 0;                                                                                     \
            for (int64_t i = 0; i < walk->length; i++)                                                       \
                sum += TERM((SUM)x[i]);                                                                      \
            y[0] += sum;                                                                                     \
        } else                                                                                               \
            for (int64_t i = 0; i < walk->length; i++)                                                       \
                y[i] += TERM((SUM)x[i]);                                                                     \
    }

#define ITSELF(x) (x)
#define SQUARE(x) ((x) * (x))
ADD_RUN(add_f32, float, double, ITSELF)
ADD_RUN(add_f64, double, double, ITSELF)
ADD_RUN(add_i32, int32_t, int64_t, ITSELF)
ADD_RUN(add_i64, int64_t, int64_t, ITSELF)
ADD_RUN(add_u8, uint8_t, int64_t, ITSELF)
ADD_RUN(add_squares_f32, float, double, SQUARE)
ADD_RUN(add_squares_f64, double, double, SQUARE)

#define STORE(T, SUM, SCALE)                                                                                 \
    {                                                                                                        \
        const SUM *sum = sums;                                                                               \
        T *y = out->data;                                                                                    \
        for (int64_t i = 0; i < n; i++)                                                                      \
            y[i] = (T)(sum[i] SCALE);                                                                        \
    }                                                                                                        \
    break;

static void store_sums(const iso_array *out, int64_t n, const void *sums, double scale)
{
    switch (out->dtype) {
    case ISO_F32:
        STORE(float, double, *scale)
    case ISO_F64:
        STORE(double, double, *scale)
    case ISO_I32:
        STORE(int32_t, int64_t, )
    default:
        STORE(int64_t, int64_t, )
    }
}

static size_t ref_reduce_sum_scratch(const iso_kernel_call *call)
{
    return (size_t)iso_array_count(&call->out[0]) * sizeof(double);
}

static void ref_reduce_run_sum(const iso_kernel_call *call)
{
    static void (*const add[])(const iso_walk *, const void *, void *) = {
        [ISO_F32] = add_f32, [ISO_F64] = add_f64, [ISO_I32] = add_i32,
        [ISO_I64] = add_i64, [ISO_U8] = add_u8,   [ISO_BOOL] = add_u8,
    };
    static void (*const add_squares[])(const iso_walk *, const void *,
                                       void *) = {[ISO_F32] = add_squares_f32, [ISO_F64] = add_squares_f64};
    const iso_reduce_attrs *attrs = call->attrs;
    const iso_dtype from = call->in[0].dtype;
    int64_t n = iso_array_count(&call->out[0]);
    if (n > 0) /* else there is no scratch memory */
        memset(call->scratch, 0, (size_t)n * sizeof(double));
    iso_walk walk;
    walk_reduction(call, &walk);
    for (int64_t r = 0; r < walk.n_runs; r++, iso_walk_next(&walk))
        (attrs->square ? add_squares[from] : add[from])(&walk, call->in[0].data, call->scratch);
    store_sums(&call->out[0], n, call->scratch, attrs->scale);
}

const iso_kernel iso_reference_reduce_sum = {
    .op = "reduce_sum", .name = "reference", .scratch = ref_reduce_sum_scratch, .run = ref_reduce_run_sum};

/* ---- extremes; of no elements: the identity, which is the least or greatest value of the type ---- */
#define EXTREME_RUN(NAME, T, BEATS, START)                                                                   \
    static void NAME(const iso_kernel_call *call)                                                            \
    {                                                                                                        \
        const T *x = call->in[0].data;                                                                       \
        T *y = call->out[0].data;                                                                            \
        int64_t n = iso_array_count(&call->out[0]);                                                          \
        for (int64_t i = 0; i < n; i++)                                                                      \
            y[i] = (T)(START);                                                                               \
        iso_walk walk;                                                                                       \
        walk_reduction(call, &walk);                                                                         \
        for (int64_t r = 0; r < walk.n_runs; r++, iso_walk_next(&walk))                                      \
            for (int64_t i = 0; i < walk.length; i++) {                                                      \
                T value = x[walk.at[0] + i], *best = &y[walk.at[1] + i * walk.step[1]];                      \
                if (value BEATS * best || value != value)                                                    \
                    *best = value;                                                                           \
            }                                                                                                \
    }

EXTREME_RUN(max_f32, float, >, -INFINITY)
EXTREME_RUN(max_f64, double, >, -INFINITY)
EXTREME_RUN(max_i32, int32_t, >, INT32_MIN)
EXTREME_RUN(max_i64, int64_t, >, INT64_MIN)
EXTREME_RUN(max_u8, uint8_t, >, 0)
EXTREME_RUN(min_f32, float, <, INFINITY)
EXTREME_RUN(min_f64, double, <, INFINITY)
EXTREME_RUN(min_i32, int32_t, <, INT32_MAX)
EXTREME_RUN(min_i64, int64_t, <, INT64_MAX)
EXTREME_RUN(min_u8, uint8_t, <, UINT8_MAX)

static void ref_reduce_run_max(const iso_kernel_call *call)
{
    static void (*const run[])(const iso_kernel_call *) = {[ISO_F32] = max_f32,
                                                           [ISO_F64] = max_f64,
                                                           [ISO_I32] = max_i32,
                                                           [ISO_I64] = max_i64,
                                                           [ISO_U8] = max_u8};
    run[call->in[0].dtype](call);
}

static void run_min(const iso_kernel_call *call)
{
    static void (*const run[])(const iso_kernel_call *) = {[ISO_F32] = min_f32,
                                                           [ISO_F64] = min_f64,
                                                           [ISO_I32] = min_i32,
                                                           [ISO_I64] = min_i64,
                                                           [ISO_U8] = min_u8};
    run[call->in[0].dtype](call);
}

const iso_kernel iso_reference_reduce_max = {
    .op = "reduce_max", .name = "reference", .run = ref_reduce_run_max};
const iso_kernel iso_reference_reduce_min = {.op = "reduce_min", .name = "reference", .run = run_min};

/* ---- argmax: the first of equals, along x [outer, count, inner] ---- */
#define FIRST_LARGEST(T)                                                                                     \
    {                                                                                                        \
        const T *at = (const T *)x->data + first;                                                            \
        for (int64_t i = 1; i < count; i++)                                                                  \
            if (at[i * inner] > at[best * inner])                                                            \
                best = i;                                                                                    \
    }                                                                                                        \
    break;

static int64_t first_largest(const iso_array *x, int64_t first, int64_t count, int64_t inner)
{
    int64_t best = 0;
    switch (x->dtype) {
    case ISO_F32:
        FIRST_LARGEST(float)
    case ISO_F64:
        FIRST_LARGEST(double)
    case ISO_I32:
        FIRST_LARGEST(int32_t)
    case ISO_I64:
        FIRST_LARGEST(int64_t)
    default:
        FIRST_LARGEST(uint8_t)
    }
    return best;
}

static void run_argmax(const iso_kernel_call *call)
{
    const iso_axis_attrs *attrs = call->attrs;
    const iso_array *x = &call->in[0];
    int32_t *y = call->out[0].data;
    int64_t count = x->dim[attrs->axis], inner = 1, outputs = iso_array_count(&call->out[0]);
    for (int d = attrs->axis + 1; d < x->rank; d++)
        inner *= x->dim[d];
    for (int64_t i = 0; i < outputs; i++)
        y[i] = (int32_t)first_largest(x, i / inner * inner * count + i % inner, count, inner);
}

const iso_kernel iso_reference_argmax = {.op = "argmax", .name = "reference", .run = run_argmax};

/* ---- top k, as tf.math.in_top_k has it: fewer than k classes are above the target's; a target or a
 * prediction that is not finite, or a target outside the classes, is a miss ---- */
static bool among_largest(const iso_array *predictions, int64_t row, int64_t target, int k)
{
    int64_t classes = predictions->dim[predictions->rank - 1], above = 0;
    const float *x = predictions->data;
    const double *x64 = predictions->data;
    bool f32 = predictions->dtype == ISO_F32;
    double mine = f32 ? x[row * classes + target] : x64[row * classes + target];
    for (int64_t c = 0; c < classes; c++) {
        double other = f32 ? x[row * classes + c] : x64[row * classes + c];
        if (!isfinite(other))
            return false;
        above += other > mine;
    }
    return above < k;
}

static void run_in_top_k(const iso_kernel_call *call)
{
    const iso_top_k_attrs *attrs = call->attrs;
    uint8_t *y = call->out[0].data;
    for (int64_t row = 0; row < iso_array_count(&call->out[0]); row++) {
        int64_t target = iso_index_read(&call->in[1], row, call->in[0].dim[call->in[0].rank - 1]);
        y[row] = target >= 0 && among_largest(&call->in[0], row, target, attrs->k);
    }
}

const iso_kernel iso_reference_in_top_k = {.op = "in_top_k", .name = "reference", .run = run_in_top_k};
