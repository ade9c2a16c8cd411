/* Cross-entropy of rows of logits. */
#include <math.h>

#include "runtime/backend/cpu/reference/floats.h"
#include "runtime/backend/index.h"

enum { LABELS, LOGITS, DLOSS };

/* log(sum(exp(x))) of a row that begins at `first`. For aarch64, gcc 12 does not compile this loop with fmax: it
 * stops with an internal error. */
static double log_sum(const iso_array *logits, int64_t first)
{
    double largest = -INFINITY, sum = 0;
    for (int64_t k = 0; k < iso_last_dim(logits); k++) {
        double x = iso_get(logits, first + k);
        largest = x > largest ? x : largest;
    }
    for (int64_t k = 0; k < iso_last_dim(logits); k++)
        sum += exp(iso_get(logits, first + k) - largest);
    return log(sum) + largest;
}

/* The class of a row; -1 if it is not valid, which is reported. */
static int64_t ref_crossentropy_class_of(const iso_kernel_call *call, int64_t row)
{
    int64_t classes = iso_last_dim(&call->in[LOGITS]);
    int64_t class = iso_index_read(&call->in[LABELS], row, classes);
    if (class < 0)
        iso_index_fault(call, LABELS, row, classes);
    return class;
}

static void ref_crossentropy_run_sparse(const iso_kernel_call *call)
{
    const iso_array *logits = &call->in[LOGITS];
    for (int64_t row = 0; row < iso_row_count(logits); row++) {
        int64_t class = ref_crossentropy_class_of(call, row), first = row * iso_last_dim(logits);
        iso_put(&call->out[0], row, class < 0 ? 0 : log_sum(logits, first) - iso_get(logits, first + class));
    }
}

static void ref_crossentropy_run_sparse_gradient(const iso_kernel_call *call)
{
    const iso_array *logits = &call->in[LOGITS];
    int64_t classes = iso_last_dim(logits);
    for (int64_t row = 0; row < iso_row_count(logits); row++) {
        int64_t class = ref_crossentropy_class_of(call, row), first = row * classes;
        double all = log_sum(logits, first), dloss = iso_get(&call->in[DLOSS], row);
        for (int64_t k = 0; k < classes; k++) {
            double dx = (exp(iso_get(logits, first + k) - all) - (k == class ? 1 : 0)) * dloss;
            iso_put(&call->out[0], first + k, class < 0 ? 0 : dx);
        }
    }
}

static void ref_crossentropy_run_dense(const iso_kernel_call *call)
{
    const iso_array *labels = &call->in[LABELS], *logits = &call->in[LOGITS];
    for (int64_t row = 0; row < iso_row_count(logits); row++) {
        int64_t first = row * iso_last_dim(logits);
        double all = log_sum(logits, first), loss = 0;
        for (int64_t i = first; i < first + iso_last_dim(logits); i++) {
            double t = iso_get(labels, i);
            loss += t == 0 ? 0 : t * (all - iso_get(logits, i));
        }
        iso_put(&call->out[0], row, loss);
    }
}

static void ref_crossentropy_run_dense_gradient(const iso_kernel_call *call)
{
    const iso_array *labels = &call->in[LABELS], *logits = &call->in[LOGITS];
    int64_t classes = iso_last_dim(logits);
    for (int64_t row = 0; row < iso_row_count(logits); row++) {
        int64_t first = row * classes;
        double all = log_sum(logits, first), dloss = iso_get(&call->in[DLOSS], row), sum = 0;
        for (int64_t i = first; i < first + classes; i++)
            sum += iso_get(labels, i);
        for (int64_t i = first; i < first + classes; i++)
            iso_put(&call->out[0], i, (exp(iso_get(logits, i) - all) * sum - iso_get(labels, i)) * dloss);
    }
}

const iso_kernel iso_reference_sparse_crossentropy = {
    .op = "sparse_crossentropy", .name = "reference", .run = ref_crossentropy_run_sparse};
const iso_kernel iso_reference_sparse_crossentropy_grad = {
    .op = "sparse_crossentropy_grad", .name = "reference", .run = ref_crossentropy_run_sparse_gradient};
const iso_kernel iso_reference_crossentropy = {
    .op = "crossentropy", .name = "reference", .run = ref_crossentropy_run_dense};
const iso_kernel iso_reference_crossentropy_grad = {
    .op = "crossentropy_grad", .name = "reference", .run = ref_crossentropy_run_dense_gradient};
