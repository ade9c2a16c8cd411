/* Mixtures of experts, choice by choice; the largest elements of rows. */
#include <math.h>

#include "runtime/backend/cpu/reference/floats.h"
#include "runtime/backend/experts.h"

/* ---- the largest elements ---- */

/* The first element in the order of iso_top_k_before that comes after element `after` (-1: of all). */
static int64_t ref_next_largest(const iso_array *x, int64_t row, int64_t classes, int64_t after)
{
    int64_t best = -1;
    const double last = after < 0 ? 0 : iso_get(x, row + after);
    for (int64_t i = 0; i < classes; i++) {
        const double value = iso_get(x, row + i);
        if (after >= 0 && !iso_top_k_before(last, after, value, i))
            continue;
        if (best < 0 || iso_top_k_before(value, i, iso_get(x, row + best), best))
            best = i;
    }
    return best;
}

static void ref_top_k_run(const iso_kernel_call *call)
{
    const iso_array *x = &call->in[0], *values = &call->out[0];
    int32_t *index = call->out[1].data;
    const int64_t classes = iso_last_dim(x), k = iso_last_dim(values);
    for (int64_t row = 0; row < iso_row_count(values); row++)
        for (int64_t i = 0, found = -1; i < k; i++) {
            found = ref_next_largest(x, row * classes, classes, found);
            iso_put(values, row * k + i, iso_get(x, row * classes + found));
            index[row * k + i] = (int32_t)found;
        }
}

static void ref_top_k_run_gradient(const iso_kernel_call *call)
{
    const iso_array *index = &call->in[0], *dy = &call->in[1], *dx = &call->out[0];
    const int64_t classes = iso_last_dim(dx), k = iso_last_dim(index);
    iso_put_zeros(dx);
    for (int64_t i = 0; i < iso_array_count(index); i++) {
        const int64_t found = iso_index_read(index, i, classes), to = i / k * classes + found;
        if (found < 0)
            iso_index_fault(call, 0, i, classes);
        else
            iso_put(dx, to, iso_get(dx, to) + iso_get(dy, i));
    }
}

/* ---- experts ---- */

/* One choice of a row, and sums over hidden features: [hidden] each. */
typedef struct chosen {
    int64_t row, expert; /* among those of the slot */
    double share;
    double *gate, *up, *a, *da;
} chosen;

static size_t ref_experts_scratch(const iso_kernel_call *call)
{
    return (size_t)(4 * iso_experts_of(call).hidden) * sizeof(double);
}

static bool ref_experts_choose(const iso_kernel_call *call, const iso_experts *e, int64_t choice, chosen *c)
{
    double *sums = call->scratch;
    *c = (chosen){.row = choice / e->k,
                  .expert = iso_experts_local(e, choice),
                  .share = iso_get(e->share, choice),
                  .gate = sums,
                  .up = sums + e->hidden,
                  .a = sums + 2 * e->hidden,
                  .da = sums + 3 * e->hidden};
    if (iso_index_read(e->choice, choice, e->experts) < 0)
        iso_index_fault(call, ISO_EXPERTS_CHOICE, choice, e->experts);
    return c->expert >= 0;
}

/* Element [i, j] of the expert's matrix [rows, columns]. */
static int64_t ref_experts_at(const chosen *c, int64_t rows, int64_t columns, int64_t i, int64_t j)
{
    return (c->expert * rows + i) * columns + j;
}

/* x times a kernel [d, hidden] */
static void ref_experts_multiply(const iso_experts *e, const chosen *c, const iso_array *kernel, double *sums)
{
    for (int64_t j = 0; j < e->hidden; j++) {
        sums[j] = 0;
        for (int64_t i = 0; i < e->d; i++)
            sums[j] +=
                iso_get(e->x, c->row * e->d + i) * iso_get(kernel, ref_experts_at(c, e->d, e->hidden, i, j));
    }
}

static void ref_experts_activate(const iso_experts *e, const chosen *c)
{
    if (e->gate)
        ref_experts_multiply(e, c, e->gate, c->gate);
    ref_experts_multiply(e, c, e->up, c->up);
    for (int64_t j = 0; j < e->hidden; j++)
        c->a[j] = e->gate ? iso_reference_unary(e->activation, c->gate[j]) * c->up[j]
                          : iso_reference_unary(e->activation, c->up[j]);
}

static void ref_experts_add(const iso_array *sum, int64_t i, double term)
{
    iso_put(sum, i, iso_get(sum, i) + term);
}

static void ref_experts_run(const iso_kernel_call *call)
{
    const iso_experts e = iso_experts_of(call);
    const iso_array *y = &call->out[0];
    iso_put_zeros(y);
    for (int64_t choice = 0; choice < e.choice_count; choice++) {
        chosen c;
        if (!ref_experts_choose(call, &e, choice, &c))
            continue;
        ref_experts_activate(&e, &c);
        for (int64_t i = 0; i < e.d; i++) {
            double sum = 0;
            for (int64_t j = 0; j < e.hidden; j++)
                sum += c.a[j] * iso_get(e.down, ref_experts_at(&c, e.hidden, e.d, j, i));
            ref_experts_add(y, c.row * e.d + i, c.share * sum);
        }
    }
}

/* ---- gradient ---- */

/* The gradients of down, and before the share of a; returns that of the share. */
static double ref_experts_down_gradient(const iso_experts *e, const chosen *c)
{
    double share = 0;
    for (int64_t j = 0; j < e->hidden; j++) {
        c->da[j] = 0;
        for (int64_t i = 0; i < e->d; i++) {
            const int64_t at = ref_experts_at(c, e->hidden, e->d, j, i);
            const double dy = iso_get(e->dy, c->row * e->d + i);
            c->da[j] += dy * iso_get(e->down, at);
            ref_experts_add(e->ddown, at, c->share * c->a[j] * dy);
        }
        share += c->a[j] * c->da[j];
    }
    return share;
}

/* From the gradients of a to those of x gate and x up, in their places. */
static void ref_experts_pass_activation(const iso_experts *e, const chosen *c)
{
    for (int64_t j = 0; j < e->hidden; j++) {
        const double da = c->share * c->da[j], gate = c->gate[j], up = c->up[j];
        if (e->gate) {
            c->gate[j] = da * up * iso_reference_slope(e->activation, gate);
            c->up[j] = da * iso_reference_unary(e->activation, gate);
        } else {
            c->up[j] = da * iso_reference_slope(e->activation, up);
        }
    }
}

/* The gradients of a kernel [d, hidden] and what it gives to that of x. */
static void ref_experts_kernel_gradient(const iso_experts *e, const chosen *c, const iso_array *kernel,
                                        const double *dh, const iso_array *dkernel)
{
    for (int64_t i = 0; i < e->d; i++) {
        double dx = 0;
        for (int64_t j = 0; j < e->hidden; j++) {
            const int64_t at = ref_experts_at(c, e->d, e->hidden, i, j);
            ref_experts_add(dkernel, at, iso_get(e->x, c->row * e->d + i) * dh[j]);
            dx += dh[j] * iso_get(kernel, at);
        }
        ref_experts_add(e->dx, c->row * e->d + i, dx);
    }
}

static void ref_experts_run_gradient(const iso_kernel_call *call)
{
    const iso_experts e = iso_experts_of(call);
    for (int i = 0; i < call->n_outputs; i++)
        iso_put_zeros(&call->out[i]);
    for (int64_t choice = 0; choice < e.choice_count; choice++) {
        chosen c;
        if (!ref_experts_choose(call, &e, choice, &c))
            continue;
        ref_experts_activate(&e, &c);
        iso_put(e.dshare, choice, ref_experts_down_gradient(&e, &c));
        ref_experts_pass_activation(&e, &c);
        if (e.gate)
            ref_experts_kernel_gradient(&e, &c, e.gate, c.gate, e.dgate);
        ref_experts_kernel_gradient(&e, &c, e.up, c.up, e.dup);
    }
}

const iso_kernel iso_reference_top_k = {.op = "top_k", .name = "reference", .run = ref_top_k_run};
const iso_kernel iso_reference_top_k_grad = {
    .op = "top_k_grad", .name = "reference", .run = ref_top_k_run_gradient};
const iso_kernel iso_reference_experts = {
    .op = "experts", .name = "reference", .scratch = ref_experts_scratch, .run = ref_experts_run};
const iso_kernel iso_reference_experts_grad = {.op = "experts_grad",
                                               .name = "reference",
                                               .scratch = ref_experts_scratch,
                                               .run = ref_experts_run_gradient};
