/* Kernels over a slot's part of sharded classes, which are the last dimension, in float32. */
#include <math.h>

#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/index.h"
#include "runtime/graph/ops/network.h"

enum { X, MAX, SUM }; /* inputs; their numbers are one higher if labels come first */

typedef struct part {
    int64_t rows, classes, first; /* number of the first class */
    const float *x;
} part;

static part classes_part_of(const iso_array *x)
{
    int last = x->rank - 1;
    return (part){iso_cpu_product(x, 0, last), x->dim[last], x->offset[last], x->data};
}

static bool classes_is_last(const iso_kernel_call *call, int x)
{
    return ((const iso_class_attrs *)call->attrs)->axis == call->in[x].rank - 1;
}

static bool classes_fits(const iso_kernel_call *call)
{
    return iso_cpu_has_type(call, ISO_F32) && classes_is_last(call, X);
}

static void run_class_max(const iso_kernel_call *call)
{
    part p = classes_part_of(&call->in[X]);
    iso_cpu_functions()->class_max_f32(p.rows, p.classes, p.x, call->out[0].data);
}

static void run_class_sum_exp(const iso_kernel_call *call)
{
    part p = classes_part_of(&call->in[X]);
    iso_cpu_functions()->class_sum_exp_f32(p.rows, p.classes, p.x, call->in[MAX].data, call->out[0].data);
}

static void run_class_softmax(const iso_kernel_call *call)
{
    part p = classes_part_of(&call->in[X]);
    iso_cpu_functions()->class_softmax_f32(p.rows, p.classes, p.x, call->in[MAX].data, call->in[SUM].data,
                                           call->out[0].data);
}

static void run_class_log_softmax(const iso_kernel_call *call)
{
    part p = classes_part_of(&call->in[X]);
    const float *max = call->in[MAX].data, *sum = call->in[SUM].data;
    float *y = call->out[0].data;
    for (int64_t row = 0; row < p.rows; row++, p.x += p.classes, y += p.classes) {
        float largest = max[row], rest = logf(sum[row]);
        for (int64_t i = 0; i < p.classes; i++)
            y[i] = p.x[i] - largest - rest;
    }
}

/* ---- cross-entropy: labels or targets are input 0 ---- */

static bool fits_labelled(const iso_kernel_call *call)
{
    return call->in[1 + X].dtype == ISO_F32 && classes_is_last(call, 1 + X);
}

static void run_class_loss(const iso_kernel_call *call)
{
    part p = classes_part_of(&call->in[1 + X]);
    const float *t = call->in[0].data, *max = call->in[1 + MAX].data, *sum = call->in[1 + SUM].data;
    float *loss = call->out[0].data;
    for (int64_t row = 0; row < p.rows; row++, p.x += p.classes, t += p.classes) {
        float all = max[row] + logf(sum[row]), add = 0;
        for (int64_t i = 0; i < p.classes; i++)
            add += t[i] == 0 ? 0 : t[i] * (all - p.x[i]);
        loss[row] = add;
    }
}

/* Writes the classes' probabilities to the output; the gradients are computed from them. */
static float *put_softmax(const iso_kernel_call *call, const part *p)
{
    float *out = call->out[0].data;
    iso_cpu_functions()->class_softmax_f32(p->rows, p->classes, p->x, call->in[1 + MAX].data,
                                           call->in[1 + SUM].data, out);
    return out;
}

static void run_class_grad(const iso_kernel_call *call)
{
    part p = classes_part_of(&call->in[1 + X]);
    const float *t = call->in[0].data, *targets = call->in[4].data, *dloss = call->in[5].data;
    float *dx = put_softmax(call, &p);
    for (int64_t row = 0; row < p.rows; row++, dx += p.classes, t += p.classes)
        for (int64_t i = 0; i < p.classes; i++)
            dx[i] = (dx[i] * targets[row] - t[i]) * dloss[row];
}

static void run_class_sparse_grad(const iso_kernel_call *call)
{
    part p = classes_part_of(&call->in[1 + X]);
    int64_t classes = call->in[1 + X].global[call->in[1 + X].rank - 1];
    const float *dloss = call->in[4].data;
    float *dx = put_softmax(call, &p);
    for (int64_t row = 0; row < p.rows; row++, dx += p.classes) {
        int64_t label = iso_index_read(&call->in[0], row, classes), own = label - p.first;
        if (label < 0)
            iso_index_fault(call, 0, row, classes);
        if (label >= 0 && own >= 0 && own < p.classes)
            dx[own] -= 1;
        for (int64_t i = 0; i < p.classes; i++)
            dx[i] = label < 0 ? 0 : dx[i] * dloss[row];
    }
}

#define CLASS_KERNEL(NAME, FITS, ...)                                                                        \
    const iso_kernel iso_cpu_##NAME = {                                                                      \
        .op = #NAME, .name = "vector", .fits = FITS, .run = run_##NAME, .by_rows = true, __VA_ARGS__};

CLASS_KERNEL(class_max, classes_fits, )
CLASS_KERNEL(class_sum_exp, classes_fits, )
CLASS_KERNEL(class_softmax, classes_fits, .in_place = true)
CLASS_KERNEL(class_log_softmax, classes_fits, .in_place = true)
CLASS_KERNEL(class_loss, fits_labelled, )
CLASS_KERNEL(class_grad, fits_labelled, .in_place = true)
CLASS_KERNEL(class_sparse_grad, fits_labelled, .in_place = true)
