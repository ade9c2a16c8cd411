/* Kernels of softmax along the last axis and of cross-entropy, in float32. */
#include <string.h>

#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/index.h"
#include "runtime/graph/ops/network.h"

typedef struct rows_of_classes {
    int64_t rows, classes;
} rows_of_classes;

static rows_of_classes softmax_rows_of(const iso_array *x)
{
    return (rows_of_classes){iso_cpu_product(x, 0, x->rank - 1), x->dim[x->rank - 1]};
}

static bool fits_softmax(const iso_kernel_call *call)
{
    const iso_softmax_attrs *attrs = call->attrs;
    return iso_cpu_has_type(call, ISO_F32) && attrs->axis == call->in[0].rank - 1;
}

#define SOFTMAX(NAME)                                                                                        \
    static void run_##NAME(const iso_kernel_call *call)                                                      \
    {                                                                                                        \
        rows_of_classes n = softmax_rows_of(&call->in[0]);                                                   \
        iso_cpu_functions()->NAME##_f32(n.rows, n.classes, call->in[0].data, call->out[0].data);             \
    }                                                                                                        \
    const iso_kernel iso_cpu_##NAME = {                                                                      \
        .op = #NAME, .name = "vector", .fits = fits_softmax, .run = run_##NAME, .by_rows = true};
SOFTMAX(softmax)
SOFTMAX(log_softmax)

#define GRADIENT(NAME)                                                                                       \
    static void run_##NAME(const iso_kernel_call *call)                                                      \
    {                                                                                                        \
        rows_of_classes n = softmax_rows_of(&call->in[0]);                                                   \
        iso_cpu_functions()->NAME##_f32(n.rows, n.classes, call->in[0].data, call->in[1].data,               \
                                        call->out[0].data);                                                  \
    }                                                                                                        \
    const iso_kernel iso_cpu_##NAME = {                                                                      \
        .op = #NAME, .name = "vector", .fits = fits_softmax, .run = run_##NAME, .by_rows = true};
GRADIENT(softmax_grad)
GRADIENT(log_softmax_grad)

/* ---- cross-entropy ---- */
enum { LABELS, LOGITS, DLOSS };

static bool fits_sparse(const iso_kernel_call *call)
{
    return call->in[LOGITS].dtype == ISO_F32 && call->out[0].dtype == ISO_F32 &&
           call->in[LOGITS].dim[call->in[LOGITS].rank - 1] > 0;
}

/* The class of a row; -1 if it is not valid, which is reported. */
static int64_t softmax_class_of(const iso_kernel_call *call, int64_t row, int64_t classes)
{
    int64_t class = iso_index_read(&call->in[LABELS], row, classes);
    if (class < 0)
        iso_index_fault(call, LABELS, row, classes);
    return class;
}

static void softmax_run_sparse(const iso_kernel_call *call)
{
    rows_of_classes n = softmax_rows_of(&call->in[LOGITS]);
    const float *x = call->in[LOGITS].data;
    float *loss = call->out[0].data;
    iso_cpu_functions()->log_sum_exp_f32(n.rows, n.classes, x, loss);
    for (int64_t row = 0; row < n.rows; row++) {
        int64_t class = softmax_class_of(call, row, n.classes);
        loss[row] = class < 0 ? 0 : loss[row] - x[row * n.classes + class];
    }
}

/* Writes the probabilities of the rows that begin at `row`, whose gradients are computed next: of many rows if they
 * are short, of one otherwise. */
static void softmax_rows_from(const iso_kernel_call *call, const rows_of_classes *n, int64_t row)
{
    enum { SHORT = 64, ROWS = 64 };
    const int64_t step = n->classes <= SHORT ? ROWS : 1, at = row * n->classes;
    if (row % step == 0)
        iso_cpu_functions()->softmax_f32(n->rows - row < step ? n->rows - row : step, n->classes,
                                         (const float *)call->in[LOGITS].data + at,
                                         (float *)call->out[0].data + at);
}

static void softmax_run_sparse_gradient(const iso_kernel_call *call)
{
    rows_of_classes n = softmax_rows_of(&call->in[LOGITS]);
    const float *dloss = call->in[DLOSS].data;
    float *dx = call->out[0].data;
    for (int64_t row = 0; row < n.rows; row++, dx += n.classes) {
        softmax_rows_from(call, &n, row);
        int64_t class = softmax_class_of(call, row, n.classes);
        if (class >= 0)
            dx[class] -= 1;
        for (int64_t i = 0; i < n.classes; i++)
            dx[i] = class < 0 ? 0 : dx[i] * dloss[row];
    }
}

static bool fits_dense(const iso_kernel_call *call)
{
    return iso_cpu_has_type(call, ISO_F32);
}

static void softmax_run_dense(const iso_kernel_call *call)
{
    rows_of_classes n = softmax_rows_of(&call->in[LOGITS]);
    const float *x = call->in[LOGITS].data, *t = call->in[LABELS].data;
    float *loss = call->out[0].data;
    iso_cpu_functions()->log_sum_exp_f32(n.rows, n.classes, x, loss);
    for (int64_t row = 0; row < n.rows; row++, x += n.classes, t += n.classes) {
        float sum = 0;
        for (int64_t i = 0; i < n.classes; i++)
            sum += t[i] == 0 ? 0 : t[i] * (loss[row] - x[i]);
        loss[row] = sum;
    }
}

static void softmax_run_dense_gradient(const iso_kernel_call *call)
{
    rows_of_classes n = softmax_rows_of(&call->in[LOGITS]);
    const float *t = call->in[LABELS].data, *dloss = call->in[DLOSS].data;
    float *dx = call->out[0].data;
    for (int64_t row = 0; row < n.rows; row++, dx += n.classes, t += n.classes) {
        float sum = 0;
        softmax_rows_from(call, &n, row);
        for (int64_t i = 0; i < n.classes; i++)
            sum += t[i];
        for (int64_t i = 0; i < n.classes; i++)
            dx[i] = (dx[i] * sum - t[i]) * dloss[row];
    }
}

const iso_kernel iso_cpu_sparse_crossentropy = {.op = "sparse_crossentropy",
                                                .name = "vector",
                                                .fits = fits_sparse,
                                                .run = softmax_run_sparse,
                                                .by_rows = true};
const iso_kernel iso_cpu_sparse_crossentropy_grad = {.op = "sparse_crossentropy_grad",
                                                     .name = "vector",
                                                     .fits = fits_sparse,
                                                     .run = softmax_run_sparse_gradient,
                                                     .in_place = true,
                                                     .by_rows = true};
const iso_kernel iso_cpu_crossentropy = {
    .op = "crossentropy", .name = "vector", .fits = fits_dense, .run = softmax_run_dense, .by_rows = true};
const iso_kernel iso_cpu_crossentropy_grad = {.op = "crossentropy_grad",
                                              .name = "vector",
                                              .fits = fits_dense,
                                              .run = softmax_run_dense_gradient,
                                              .in_place = true,
                                              .by_rows = true};
