/* Softmax along one axis, and its logarithm. */
#include <math.h>

#include "runtime/backend/cpu/reference/floats.h"
#include "runtime/graph/ops/network.h"

/* The elements begin + k * step, k < count, along the axis. */
typedef struct line {
    int64_t begin, step, count;
} line;

typedef void visit(const iso_kernel_call *call, line at);

static void for_lines(const iso_kernel_call *call, visit *each)
{
    const iso_array *x = &call->in[0];
    int axis = ((const iso_softmax_attrs *)call->attrs)->axis;
    int64_t outer = 1, inner = 1, count = x->dim[axis];
    for (int d = 0; d < x->rank; d++)
        *(d < axis ? &outer : &inner) *= d == axis ? 1 : x->dim[d];
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++)
            each(call, (line){o * count * inner + i, inner, count});
}

/* The largest element, and the sum of exp(x - largest). */
static double exponentials(const iso_array *x, line at, double *largest)
{
    double sum = 0;
    *largest = -INFINITY;
    for (int64_t k = 0; k < at.count; k++)
        *largest = fmax(*largest, iso_get(x, at.begin + k * at.step));
    for (int64_t k = 0; k < at.count; k++)
        sum += exp(iso_get(x, at.begin + k * at.step) - *largest);
    return sum;
}

static void ref_softmax_softmax(const iso_kernel_call *call, line at)
{
    double largest, sum = exponentials(&call->in[0], at, &largest);
    for (int64_t k = 0, i = at.begin; k < at.count; k++, i += at.step)
        iso_put(&call->out[0], i, exp(iso_get(&call->in[0], i) - largest) / sum);
}

static void ref_softmax_log_softmax(const iso_kernel_call *call, line at)
{
    double largest, sum = exponentials(&call->in[0], at, &largest);
    for (int64_t k = 0, i = at.begin; k < at.count; k++, i += at.step)
        iso_put(&call->out[0], i, iso_get(&call->in[0], i) - largest - log(sum));
}

static void ref_softmax_softmax_gradient(const iso_kernel_call *call, line at)
{
    const iso_array *y = &call->in[0], *dy = &call->in[1];
    double sum = 0;
    for (int64_t k = 0, i = at.begin; k < at.count; k++, i += at.step)
        sum += iso_get(y, i) * iso_get(dy, i);
    for (int64_t k = 0, i = at.begin; k < at.count; k++, i += at.step)
        iso_put(&call->out[0], i, iso_get(y, i) * (iso_get(dy, i) - sum));
}

static void ref_softmax_log_softmax_gradient(const iso_kernel_call *call, line at)
{
    const iso_array *y = &call->in[0], *dy = &call->in[1];
    double sum = 0;
    for (int64_t k = 0, i = at.begin; k < at.count; k++, i += at.step)
        sum += iso_get(dy, i);
    for (int64_t k = 0, i = at.begin; k < at.count; k++, i += at.step)
        iso_put(&call->out[0], i, iso_get(dy, i) - exp(iso_get(y, i)) * sum);
}

static void run_softmax(const iso_kernel_call *call)
{
    for_lines(call, ref_softmax_softmax);
}

static void run_log_softmax(const iso_kernel_call *call)
{
    for_lines(call, ref_softmax_log_softmax);
}

static void run_softmax_gradient(const iso_kernel_call *call)
{
    for_lines(call, ref_softmax_softmax_gradient);
}

static void run_log_softmax_gradient(const iso_kernel_call *call)
{
    for_lines(call, ref_softmax_log_softmax_gradient);
}

const iso_kernel iso_reference_softmax = {.op = "softmax", .name = "reference", .run = run_softmax};
const iso_kernel iso_reference_log_softmax = {
    .op = "log_softmax", .name = "reference", .run = run_log_softmax};
const iso_kernel iso_reference_softmax_grad = {
    .op = "softmax_grad", .name = "reference", .run = run_softmax_gradient};
const iso_kernel iso_reference_log_softmax_grad = {
    .op = "log_softmax_grad", .name = "reference", .run = run_log_softmax_gradient};
