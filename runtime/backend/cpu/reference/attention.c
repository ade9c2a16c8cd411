/* Attention, query by query. */
#include <math.h>

#include "runtime/backend/attention.h"
#include "runtime/backend/cpu/reference/floats.h"
#include "runtime/base/random.h"

/* One query: its weights, before and after dropout. */
typedef struct attended {
    int64_t group, head, row;
    double *weight, *dropped, *slope; /* [keys]; slope: of scores by what they are without a cap */
} attended;

/* The sum of the products of two rows. */
static double ref_attention_product(const iso_array *a, int64_t i, const iso_array *b, int64_t j,
                                    int64_t count)
{
    double sum = 0;
    for (int64_t c = 0; c < count; c++)
        sum += iso_get(a, i + c) * iso_get(b, j + c);
    return sum;
}

/* Adds a row of b times a factor to a row of sums. */
static void ref_attention_add(double *sum, double factor, const iso_array *b, int64_t j, int64_t count)
{
    for (int64_t c = 0; c < count; c++)
        sum[c] += factor * iso_get(b, j + c);
}

static bool ref_attention_sees(const iso_attention *a, const attended *of, int64_t key)
{
    int64_t begin, end;
    const iso_attention_mask_row mask = iso_attention_mask_row_of(a, of->group, of->head, of->row);
    iso_band_columns(&a->attrs->band, a->first_row + of->row, a->keys, &begin, &end);
    return key >= begin && key < end && iso_attention_counts(mask, key);
}

static void ref_attention_drop(const iso_attention *a, const attended *of, const double *x, double *y)
{
    const iso_dropout_attrs *dropout = &a->attrs->dropout;
    const iso_attention_mask_row mask = iso_attention_mask_row_of(a, of->group, of->head, of->row);
    const uint64_t first = iso_attention_weight(a, of->group, of->head, of->row);
    double scale = a->call->in[0].dtype == ISO_F32 ? (float)dropout->scale : dropout->scale;
    for (int64_t key = 0; key < a->keys; key++) {
        bool kept = !a->attrs->zero_masked || iso_attention_counts(mask, key);
        if (dropout->threshold > 0)
            kept &= iso_random_word(dropout->key, a->call->info->step, first + (uint64_t)key) >> 8 >=
                    dropout->threshold;
        y[key] = !kept ? 0 : dropout->threshold > 0 ? x[key] * scale : x[key];
    }
}

static void ref_attention_weights(const iso_attention *a, attended *of)
{
    const iso_array *q = &a->call->in[ISO_ATTENTION_QUERY], *k = &a->call->in[ISO_ATTENTION_KEY];
    double largest = -INFINITY, sum = 0;
    for (int64_t key = 0; key < a->keys; key++) {
        double score =
            a->attrs->scale *
            ref_attention_product(q, iso_attention_index(a, of->group, a->rows, of->row, of->head, a->k), k,
                                  iso_attention_index(a, of->group, a->keys, key, of->head, a->k), a->k);
        const double cap = a->attrs->cap, bounded = cap != 0 ? tanh(score / cap) : 0;
        score = cap != 0 ? cap * bounded : score;
        of->slope[key] = 1 - bounded * bounded;
        of->weight[key] = ref_attention_sees(a, of, key) ? score
                          : a->attrs->adds               ? score + a->attrs->band.fill
                                                         : a->attrs->band.fill;
        largest = fmax(largest, of->weight[key]);
    }
    for (int64_t key = 0; key < a->keys; key++)
        sum += of->weight[key] = exp(of->weight[key] - largest);
    for (int64_t key = 0; key < a->keys; key++)
        of->weight[key] /= sum;
    ref_attention_drop(a, of, of->weight, of->dropped);
}

/* ---- forward ---- */

static size_t ref_attention_scratch(const iso_kernel_call *call)
{
    iso_attention a = iso_attention_of(call);
    return (size_t)(3 * a.keys + a.v) * sizeof(double);
}

static void ref_attention_row(const iso_attention *a, attended *of, double *sum)
{
    const iso_array *v = &a->call->in[ISO_ATTENTION_VALUE];
    int64_t at = iso_attention_index(a, of->group, a->rows, of->row, of->head, a->v);
    ref_attention_weights(a, of);
    for (int64_t c = 0; c < a->v; c++)
        sum[c] = 0;
    for (int64_t key = 0; key < a->keys; key++)
        ref_attention_add(sum, of->dropped[key], v,
                          iso_attention_index(a, of->group, a->keys, key, of->head, a->v), a->v);
    for (int64_t c = 0; c < a->v; c++)
        iso_put(&a->call->out[0], at + c, sum[c]);
}

static void ref_attention_run(const iso_kernel_call *call)
{
    iso_attention a = iso_attention_of(call);
    double *scratch = call->scratch;
    attended of = {.weight = scratch, .dropped = scratch + a.keys, .slope = scratch + 2 * a.keys};
    for (of.group = 0; of.group < a.groups; of.group++)
        for (of.head = 0; of.head < a.heads; of.head++)
            for (of.row = 0; of.row < a.rows; of.row++)
                ref_attention_row(&a, &of, scratch + 3 * a.keys);
}

/* ---- gradient ---- */

/* The sums of one head over its queries. */
typedef struct head_sums {
    double *dq, *dk, *dv; /* [k], [keys, k], [keys, v] */
    double *dweight;      /* [keys] */
} head_sums;

static size_t ref_attention_grad_scratch(const iso_kernel_call *call)
{
    iso_attention a = iso_attention_of(call);
    return (size_t)(4 * a.keys + a.k + a.keys * (a.k + a.v)) * sizeof(double);
}

/* The gradient of the scores before scaling, in s->dweight. */
static void ref_attention_score_gradient(const iso_attention *a, const attended *of, int64_t dy_at,
                                         const head_sums *s)
{
    const iso_array *v = &a->call->in[ISO_ATTENTION_VALUE], *dy = &a->call->in[a->call->n_inputs - 1];
    double mean = 0;
    for (int64_t key = 0; key < a->keys; key++) {
        int64_t at = iso_attention_index(a, of->group, a->keys, key, of->head, a->v);
        s->dweight[key] = ref_attention_product(dy, dy_at, v, at, a->v);
        ref_attention_add(s->dv + key * a->v, of->dropped[key], dy, dy_at, a->v);
    }
    ref_attention_drop(a, of, s->dweight, s->dweight);
    for (int64_t key = 0; key < a->keys; key++)
        mean += of->weight[key] * s->dweight[key];
    for (int64_t key = 0; key < a->keys; key++)
        s->dweight[key] = a->attrs->adds || ref_attention_sees(a, of, key)
                              ? of->weight[key] * (s->dweight[key] - mean) * of->slope[key] * a->attrs->scale
                              : 0;
}

static void ref_attention_grad_row(const iso_attention *a, attended *of, const head_sums *s)
{
    const iso_array *q = &a->call->in[ISO_ATTENTION_QUERY], *k = &a->call->in[ISO_ATTENTION_KEY];
    int64_t at = iso_attention_index(a, of->group, a->rows, of->row, of->head, a->k);
    ref_attention_weights(a, of);
    ref_attention_score_gradient(a, of, iso_attention_index(a, of->group, a->rows, of->row, of->head, a->v),
                                 s);
    for (int64_t c = 0; c < a->k; c++)
        s->dq[c] = 0;
    for (int64_t key = 0; key < a->keys; key++) {
        ref_attention_add(s->dq, s->dweight[key], k,
                          iso_attention_index(a, of->group, a->keys, key, of->head, a->k), a->k);
        ref_attention_add(s->dk + key * a->k, s->dweight[key], q, at, a->k);
    }
    for (int64_t c = 0; c < a->k; c++)
        iso_put(&a->call->out[ISO_ATTENTION_QUERY], at + c, s->dq[c]);
}

/* Writes the sums [keys, features] of a head. */
static void ref_attention_put_head(const iso_attention *a, const attended *of, const double *sum,
                                   int64_t features, const iso_array *out)
{
    for (int64_t key = 0; key < a->keys; key++)
        for (int64_t c = 0; c < features; c++)
            iso_put(out, iso_attention_index(a, of->group, a->keys, key, of->head, features) + c,
                    sum[key * features + c]);
}

static void ref_attention_grad_run(const iso_kernel_call *call)
{
    iso_attention a = iso_attention_of(call);
    double *scratch = call->scratch;
    attended of = {.weight = scratch, .dropped = scratch + a.keys, .slope = scratch + 2 * a.keys};
    head_sums s = {.dweight = scratch + 3 * a.keys, .dq = scratch + 4 * a.keys};
    s.dk = s.dq + a.k;
    s.dv = s.dk + a.keys * a.k;
    for (of.group = 0; of.group < a.groups; of.group++)
        for (of.head = 0; of.head < a.heads; of.head++) {
            for (int64_t i = 0; i < a.keys * (a.k + a.v); i++)
                s.dk[i] = 0;
            for (of.row = 0; of.row < a.rows; of.row++)
                ref_attention_grad_row(&a, &of, &s);
            ref_attention_put_head(&a, &of, s.dk, a.k, &call->out[ISO_ATTENTION_KEY]);
            ref_attention_put_head(&a, &of, s.dv, a.v, &call->out[ISO_ATTENTION_VALUE]);
        }
}

const iso_kernel iso_reference_attention = {
    .op = "attention", .name = "reference", .scratch = ref_attention_scratch, .run = ref_attention_run};
const iso_kernel iso_reference_attention_grad = {.op = "attention_grad",
                                                 .name = "reference",
                                                 .scratch = ref_attention_grad_scratch,
                                                 .run = ref_attention_grad_run};
