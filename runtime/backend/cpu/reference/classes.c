/* Kernels over a slot's part of sharded classes; see runtime/graph/ops/network.h. */
#include <math.h>
#include <string.h>

#include "runtime/backend/cpu/reference/floats.h"
#include "runtime/backend/index.h"
#include "runtime/graph/ops/network.h"

/* One row of x: elements begin + k * step, k < count; the first one is class `first`. row: its number in
 * arrays with one element for each row. */
typedef struct line {
    int64_t begin, step, count, first, row;
} line;

typedef void visit(const iso_kernel_call *call, line at);

/* Visits every row of input x, also if the part has no classes. */
static void for_rows(const iso_kernel_call *call, int x, visit *each)
{
    const iso_array *a = &call->in[x];
    int axis = ((const iso_class_attrs *)call->attrs)->axis;
    int64_t outer = 1, inner = 1, count = a->dim[axis];
    for (int d = 0; d < a->rank; d++)
        *(d < axis ? &outer : &inner) *= d == axis ? 1 : a->dim[d];
    for (int64_t row = 0; row < outer * inner; row++)
        each(call, (line){row / inner * count * inner + row % inner, inner, count, a->offset[axis], row});
}

/* ---- the largest element and its index ---- */

/* The largest element of a row that is not NaN; START if there is none. */
#define LARGEST(T, START)                                                                                    \
    {                                                                                                        \
        const T *x = (const T *)call->in[0].data + at.begin;                                                 \
        T best = START;                                                                                      \
        for (int64_t k = 0; k < at.count; k++)                                                               \
            best = x[k * at.step] > best ? x[k * at.step] : best;                                            \
        ((T *)call->out[0].data)[at.row] = best;                                                             \
    }                                                                                                        \
    break;

static void largest(const iso_kernel_call *call, line at)
{
    switch (call->in[0].dtype) {
    case ISO_F32:
        LARGEST(float, -INFINITY)
    case ISO_F64:
        LARGEST(double, -INFINITY)
    case ISO_I32:
        LARGEST(int32_t, INT32_MIN)
    case ISO_I64:
        LARGEST(int64_t, INT64_MIN)
    default:
        LARGEST(uint8_t, 0)
    }
}

#define FIRST_EQUAL(T)                                                                                       \
    {                                                                                                        \
        const T *x = (const T *)call->in[0].data + at.begin, max = ((const T *)call->in[1].data)[at.row];    \
        found = at.first == 0 && at.count > 0 && x[0] != x[0] ? 0 : -1;                                      \
        for (int64_t k = 0; k < at.count && found < 0; k++)                                                  \
            found = x[k * at.step] == max ? k : -1;                                                          \
    }                                                                                                        \
    break;

static void first(const iso_kernel_call *call, line at)
{
    int64_t found;
    switch (call->in[0].dtype) {
    case ISO_F32:
        FIRST_EQUAL(float)
    case ISO_F64:
        FIRST_EQUAL(double)
    case ISO_I32:
        FIRST_EQUAL(int32_t)
    case ISO_I64:
        FIRST_EQUAL(int64_t)
    default:
        FIRST_EQUAL(uint8_t)
    }
    ((int32_t *)call->out[0].data)[at.row] = found < 0 ? INT32_MIN : (int32_t) - (at.first + found);
}

static void above(const iso_kernel_call *call, line at)
{
    double value = iso_get(&call->in[1], at.row), count = isfinite(value) ? 0 : INFINITY;
    for (int64_t k = 0; k < at.count; k++) {
        double other = iso_get(&call->in[0], at.begin + k * at.step);
        count += isfinite(other) ? other > value : INFINITY;
    }
    ((double *)call->out[0].data)[at.row] = count;
}

/* ---- softmax ---- */

static void sum_exp(const iso_kernel_call *call, line at)
{
    double max = iso_get(&call->in[1], at.row), sum = 0;
    for (int64_t k = 0; k < at.count; k++)
        sum += exp(iso_get(&call->in[0], at.begin + k * at.step) - max);
    iso_put(&call->out[0], at.row, sum);
}

static void ref_classes_softmax(const iso_kernel_call *call, line at)
{
    double max = iso_get(&call->in[1], at.row), sum = iso_get(&call->in[2], at.row);
    for (int64_t k = 0, i = at.begin; k < at.count; k++, i += at.step)
        iso_put(&call->out[0], i, exp(iso_get(&call->in[0], i) - max) / sum);
}

static void ref_classes_log_softmax(const iso_kernel_call *call, line at)
{
    double max = iso_get(&call->in[1], at.row), log_sum = log(iso_get(&call->in[2], at.row));
    for (int64_t k = 0, i = at.begin; k < at.count; k++, i += at.step)
        iso_put(&call->out[0], i, iso_get(&call->in[0], i) - max - log_sum);
}

/* ---- cross-entropy ---- */

/* The row's label relative to the part's first class (it may be outside the part); false if it is not a
 * class. */
static bool label_of(const iso_kernel_call *call, line at, int64_t *label)
{
    const iso_class_attrs *attrs = call->attrs;
    int64_t classes = call->in[1].global[attrs->axis], number = iso_index_read(&call->in[0], at.row, classes);
    *label = number - at.first;
    if (number < 0 && !attrs->lenient)
        iso_index_fault(call, 0, at.row, classes);
    return number >= 0;
}

static void pick(const iso_kernel_call *call, line at)
{
    int64_t label;
    double value = 0;
    if (!label_of(call, at, &label))
        value = ((const iso_class_attrs *)call->attrs)->lenient ? NAN : 0;
    else if (label >= 0 && label < at.count)
        value = iso_get(&call->in[1], at.begin + label * at.step);
    iso_put(&call->out[0], at.row, value);
}

enum { TARGETS, LOGITS, MAX, SUM, SUM_OF_TARGETS, DLOSS, SPARSE_DLOSS = 4 };

static void loss(const iso_kernel_call *call, line at)
{
    double all = iso_get(&call->in[MAX], at.row) + log(iso_get(&call->in[SUM], at.row)), sum = 0;
    for (int64_t k = 0, i = at.begin; k < at.count; k++, i += at.step) {
        double t = iso_get(&call->in[TARGETS], i);
        sum += t == 0 ? 0 : t * (all - iso_get(&call->in[LOGITS], i));
    }
    iso_put(&call->out[0], at.row, sum);
}

static void ref_classes_gradient(const iso_kernel_call *call, line at)
{
    double all = iso_get(&call->in[MAX], at.row) + log(iso_get(&call->in[SUM], at.row)),
           targets = iso_get(&call->in[SUM_OF_TARGETS], at.row), dloss = iso_get(&call->in[DLOSS], at.row);
    for (int64_t k = 0, i = at.begin; k < at.count; k++, i += at.step) {
        double p = exp(iso_get(&call->in[LOGITS], i) - all);
        iso_put(&call->out[0], i, (p * targets - iso_get(&call->in[TARGETS], i)) * dloss);
    }
}

static void ref_classes_sparse_gradient(const iso_kernel_call *call, line at)
{
    int64_t label;
    bool good = label_of(call, at, &label);
    double all = iso_get(&call->in[MAX], at.row) + log(iso_get(&call->in[SUM], at.row)),
           dloss = iso_get(&call->in[SPARSE_DLOSS], at.row);
    for (int64_t k = 0, i = at.begin; k < at.count; k++, i += at.step) {
        double p = exp(iso_get(&call->in[LOGITS], i) - all);
        iso_put(&call->out[0], i, good ? (p - (k == label ? 1 : 0)) * dloss : 0);
    }
}

#define CLASS_KERNEL(NAME, X, EACH, ...)                                                                     \
    static void run_##NAME(const iso_kernel_call *call)                                                      \
    {                                                                                                        \
        for_rows(call, X, EACH);                                                                             \
    }                                                                                                        \
    const iso_kernel iso_reference_##NAME = {                                                                \
        .op = #NAME, .name = "reference", .run = run_##NAME, __VA_ARGS__};

CLASS_KERNEL(class_max, 0, largest, )
CLASS_KERNEL(class_first, 0, first, )
CLASS_KERNEL(class_above, 0, above, )
CLASS_KERNEL(class_pick, 1, pick, )
CLASS_KERNEL(class_sum_exp, 0, sum_exp, )
CLASS_KERNEL(class_softmax, 0, ref_classes_softmax, .in_place = true)
CLASS_KERNEL(class_log_softmax, 0, ref_classes_log_softmax, .in_place = true)
CLASS_KERNEL(class_loss, 1, loss, )
CLASS_KERNEL(class_grad, 1, ref_classes_gradient, .in_place = true)
CLASS_KERNEL(class_sparse_grad, 1, ref_classes_sparse_gradient, .in_place = true)
