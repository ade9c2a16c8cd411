/* Kernels of attention. A head at a time, and of it a block of queries: their scores stay in the cache, and keys
 * that no query of the block attends to are left out. The gradient computes the weights again.
 *
 * The file that includes this one defines REAL, the type of elements, and REAL_DTYPE, and these functions on it:
 * real_gemm, real_transpose, real_affine, real_softmax, real_softmax_grad, real_dropout; functions.h describes
 * them under the same names. */
#include <string.h>

#include "runtime/backend/attention.h"
#include "runtime/backend/cpu/cpu.h"

enum { MOST_ROWS = 64, LEAST_ROWS = 8, MOST_SCORES = 32768 /* elements of a block */ };

/* The scratch memory of a head. */
typedef struct head {
    iso_attention a;
    int64_t group, number;
    int64_t most_rows;     /* of a block */
    REAL *keys;            /* [k, keys]: transposed */
    REAL *scores;          /* [rows, columns] */
    REAL *queries;         /* [rows, k], scaled */
    REAL *result;          /* [rows, k or v] */
    REAL *values;          /* [v, keys], transposed; this and the following for the gradient alone */
    REAL *dropped;         /* [rows, columns] */
    REAL *dscores;         /* [rows, columns] */
    REAL *dkeys, *dvalues; /* [keys, k], [keys, v] */
} head;

/* Queries [first, first + rows) and the keys [begin, begin + columns) that they attend to. */
typedef struct block {
    int64_t first, rows, begin, columns;
    bool open; /* every query attends to a key */
} block;

static bool attention_fits(const iso_kernel_call *call)
{
    for (int i = ISO_ATTENTION_QUERY; i <= ISO_ATTENTION_VALUE; i++)
        if (call->in[i].dtype != REAL_DTYPE)
            return false;
    return true;
}

static int64_t attention_block_rows(const iso_attention *a)
{
    int64_t rows = MOST_SCORES / (a->keys ? a->keys : 1) / LEAST_ROWS * LEAST_ROWS;
    rows = rows < LEAST_ROWS ? LEAST_ROWS : rows > MOST_ROWS ? MOST_ROWS : rows;
    return rows < a->rows ? rows : a->rows;
}

/* The next `count` elements of the scratch memory, with room for reading a vector past them. */
static REAL *attention_take(REAL *memory, size_t *used, int64_t count)
{
    REAL *taken = memory ? memory + *used : NULL;
    *used += ((size_t)count + 31) / 16 * 16;
    return taken;
}

/* Lays out the scratch memory (NULL: only counts); returns its elements. */
static size_t attention_lay_out(head *h, REAL *memory, bool gradient)
{
    const iso_attention *a = &h->a;
    size_t used = 0;
    h->most_rows = attention_block_rows(a);
    int64_t scores = h->most_rows * a->keys, wide = a->k > a->v ? a->k : a->v;
    h->keys = attention_take(memory, &used, a->k * a->keys);
    h->scores = attention_take(memory, &used, scores);
    h->queries = attention_take(memory, &used, h->most_rows * a->k);
    h->result = attention_take(memory, &used, h->most_rows * wide);
    if (!gradient)
        return used;
    h->values = attention_take(memory, &used, a->v * a->keys);
    h->dropped = attention_take(memory, &used, scores);
    h->dscores = attention_take(memory, &used, scores);
    h->dkeys = attention_take(memory, &used, a->keys * a->k);
    h->dvalues = attention_take(memory, &used, a->keys * a->v);
    return used;
}

static size_t attention_scratch_of(const iso_kernel_call *call, bool gradient)
{
    head h = {.a = iso_attention_of(call)};
    return attention_lay_out(&h, NULL, gradient) * sizeof(REAL);
}

/* ---- pieces of memory ---- */

static const REAL *attention_in(const head *h, int input, int64_t n, int64_t row, int64_t features)
{
    return (const REAL *)h->a.call->in[input].data +
           iso_attention_index(&h->a, h->group, n, row, h->number, features);
}

/* Copies rows of a head to the output's, which stand `heads * features` apart. */
static void attention_put(const head *h, int output, int64_t n, int64_t first, int64_t rows, int64_t features,
                          const REAL *from, REAL scale)
{
    REAL *to = (REAL *)h->a.call->out[output].data +
               iso_attention_index(&h->a, h->group, n, first, h->number, features);
    for (int64_t row = 0; row < rows; row++, to += h->a.heads * features, from += features)
        if (scale == 1)
            memcpy(to, from, (size_t)features * sizeof *to);
        else
            real_affine(features, scale, 0, from, to);
}

/* ---- the weights of a block ---- */

/* The keys that the block's queries attend to, by the band alone; all, if one attends to none. */
static void attention_columns(const iso_attention *a, block *b)
{
    int64_t begin = a->keys, end = 0;
    for (int64_t row = b->first; row < b->first + b->rows; row++) {
        int64_t from, to;
        iso_band_columns(&a->attrs->band, a->first_row + row, a->keys, &from, &to);
        if (from == to)
            from = 0, to = a->keys;
        begin = from < begin ? from : begin;
        end = to > end ? to : end;
    }
    b->begin = begin;
    b->columns = end > begin ? end - begin : 0;
}

static void attention_fill(REAL *score, int64_t count, REAL fill)
{
    for (int64_t i = 0; i < count; i++)
        score[i] = fill;
}

/* Fills a row's scores that are masked; returns the number of others. */
static int64_t attention_mask_scores(const uint8_t *mask, int64_t count, REAL *score, REAL fill)
{
    int64_t left = 0;
    for (int64_t i = 0; i < count; i++) {
        left += mask[i] != 0;
        score[i] = mask[i] ? score[i] : fill;
    }
    return left;
}

/* Fills a row's scores that are outside the band or masked; returns whether any other is left. */
static bool attention_mask_row(const head *h, const block *b, int64_t row, REAL *score, REAL fill)
{
    const uint8_t *mask = iso_attention_mask(&h->a, h->group, h->number, b->first + row);
    int64_t from, to;
    iso_band_columns(&h->a.attrs->band, h->a.first_row + b->first + row, h->a.keys, &from, &to);
    if (from == to) {
        attention_fill(score, b->columns, fill);
        return false;
    }
    attention_fill(score, from - b->begin, fill);
    attention_fill(score + (to - b->begin), b->begin + b->columns - to, fill);
    return !mask || attention_mask_scores(mask + from, to - from, score + (from - b->begin), fill) > 0;
}

static bool attention_is_masked(const iso_attention *a)
{
    return a->attrs->has_mask || a->attrs->band.causal || a->attrs->band.window > 0;
}

/* Fills what is masked in all rows. */
static bool attention_mask_block(const head *h, const block *b, REAL *scores, REAL fill)
{
    bool open = true;
    for (int64_t row = 0; row < b->rows && attention_is_masked(&h->a); row++)
        open &= attention_mask_row(h, b, row, scores + row * b->columns, fill);
    return open;
}

static void attention_score_block(const head *h, block *b)
{
    const iso_attention *a = &h->a;
    real_gemm(b->rows, b->columns, a->k, h->queries, a->k, 1, h->keys + b->begin, a->keys, false, h->scores);
    b->open = attention_mask_block(h, b, h->scores, (REAL)a->attrs->band.fill);
}

/* The weights of queries [first, first + rows), in h->scores. A query whose keys are all masked weighs all keys
 * alike, also those outside the band: then the block has all keys. */
static block attention_weigh(const head *h, int64_t first)
{
    const iso_attention *a = &h->a;
    block b = {.first = first, .rows = a->rows - first < h->most_rows ? a->rows - first : h->most_rows};
    const REAL *query = attention_in(h, ISO_ATTENTION_QUERY, a->rows, first, a->k);
    for (int64_t row = 0; row < b.rows; row++)
        real_affine(a->k, (REAL)a->attrs->scale, 0, query + row * a->heads * a->k, h->queries + row * a->k);
    attention_columns(a, &b);
    attention_score_block(h, &b);
    if (!b.open && b.columns < a->keys) {
        b.begin = 0;
        b.columns = a->keys;
        attention_score_block(h, &b);
    }
    real_softmax(b.rows, b.columns, h->scores, h->scores);
    return b;
}

static bool attention_drops(const iso_attention *a)
{
    return a->attrs->zero_masked || a->attrs->dropout.threshold > 0;
}

static void attention_zero_row(const head *h, const block *b, int64_t row, REAL *y)
{
    const uint8_t *mask = iso_attention_mask(&h->a, h->group, h->number, b->first + row);
    for (int64_t i = 0; i < b->columns; i++)
        y[i] = mask[b->begin + i] ? y[i] : 0;
}

/* y = x [rows, columns] with dropout, and 0 where masked if zero_masked; y may be x. */
static void attention_drop(const head *h, const block *b, const REAL *x, REAL *y)
{
    const iso_attention_attrs *attrs = h->a.attrs;
    const iso_dropout_attrs *dropout = &attrs->dropout;
    if (dropout->threshold == 0 && x != y)
        memcpy(y, x, (size_t)(b->rows * b->columns) * sizeof *y);
    for (int64_t row = 0; row < b->rows; row++, x += b->columns, y += b->columns) {
        uint64_t first =
            iso_attention_weight(&h->a, h->group, h->number, b->first + row) + (uint64_t)b->begin;
        if (dropout->threshold > 0)
            real_dropout(b->columns, dropout->key, h->a.call->info->step, first, dropout->threshold,
                         (REAL)dropout->scale, x, y);
        if (attrs->zero_masked)
            attention_zero_row(h, b, row, y);
    }
}

/* ---- forward ---- */

static void attention_block(const head *h, int64_t first)
{
    const iso_attention *a = &h->a;
    block b = attention_weigh(h, first);
    if (attention_drops(a))
        attention_drop(h, &b, h->scores, h->scores);
    real_gemm(b.rows, a->v, b.columns, h->scores, b.columns, 1,
              attention_in(h, ISO_ATTENTION_VALUE, a->keys, b.begin, a->v), a->heads * a->v, false,
              h->result);
    attention_put(h, 0, a->rows, first, b.rows, a->v, h->result, 1);
}

/* x [rows, features] of a head -> [features, rows] */
static void attention_transpose(const head *h, int input, int64_t features, REAL *to)
{
    real_transpose(h->a.keys, features, attention_in(h, input, h->a.keys, 0, features), h->a.heads * features,
                   to, h->a.keys);
}

static size_t attention_scratch(const iso_kernel_call *call)
{
    return attention_scratch_of(call, false);
}

static void attention_run(const iso_kernel_call *call)
{
    head h = {.a = iso_attention_of(call)};
    const iso_attention *a = &h.a;
    attention_lay_out(&h, call->scratch, false);
    if (a->keys == 0 || a->v == 0)
        memset(call->out[0].data, 0, (size_t)iso_array_count(&call->out[0]) * sizeof(REAL));
    for (h.group = 0; h.group < a->groups && a->keys > 0 && a->v > 0; h.group++)
        for (h.number = 0; h.number < a->heads; h.number++) {
            attention_transpose(&h, ISO_ATTENTION_KEY, a->k, h.keys);
            for (int64_t row = 0; row < a->rows; row += h.most_rows)
                attention_block(&h, row);
        }
}

/* ---- gradient ---- */

/* The gradient of the scores, in h->dscores; adds the gradient of the values. */
static void attention_score_gradient(const head *h, const block *b)
{
    const iso_attention *a = &h->a;
    const REAL *dy = attention_in(h, a->call->n_inputs - 1, a->rows, b->first, a->v), *weights = h->scores;
    if (attention_drops(a)) {
        attention_drop(h, b, h->scores, h->dropped);
        weights = h->dropped;
    }
    if (a->v > 0) {
        real_gemm(b->columns, a->v, b->rows, weights, 1, b->columns, dy, a->heads * a->v, true,
                  h->dvalues + b->begin * a->v);
        real_gemm(b->rows, b->columns, a->v, dy, a->heads * a->v, 1, h->values + b->begin, a->keys, false,
                  h->dscores);
    } else {
        memset(h->dscores, 0, (size_t)(b->rows * b->columns) * sizeof(REAL));
    }
    if (attention_drops(a))
        attention_drop(h, b, h->dscores, h->dscores);
    real_softmax_grad(b->rows, b->columns, h->scores, h->dscores, h->dscores);
    if (!b->open) /* elsewhere weights of what is masked are 0 */
        attention_mask_block(h, b, h->dscores, 0);
}

static void attention_grad_block(const head *h, int64_t first)
{
    const iso_attention *a = &h->a;
    block b = attention_weigh(h, first);
    attention_score_gradient(h, &b);
    real_gemm(b.columns, a->k, b.rows, h->dscores, 1, b.columns, h->queries, a->k, true,
              h->dkeys + b.begin * a->k);
    real_gemm(b.rows, a->k, b.columns, h->dscores, b.columns, 1,
              attention_in(h, ISO_ATTENTION_KEY, a->keys, b.begin, a->k), a->heads * a->k, false, h->result);
    attention_put(h, ISO_ATTENTION_QUERY, a->rows, first, b.rows, a->k, h->result, (REAL)a->attrs->scale);
}

static size_t attention_grad_scratch(const iso_kernel_call *call)
{
    return attention_scratch_of(call, true);
}

static void attention_grad_head(head *h)
{
    const iso_attention *a = &h->a;
    attention_transpose(h, ISO_ATTENTION_KEY, a->k, h->keys);
    attention_transpose(h, ISO_ATTENTION_VALUE, a->v, h->values);
    memset(h->dkeys, 0, (size_t)(a->keys * a->k) * sizeof(REAL));
    memset(h->dvalues, 0, (size_t)(a->keys * a->v) * sizeof(REAL));
    for (int64_t row = 0; row < a->rows; row += h->most_rows)
        attention_grad_block(h, row);
    attention_put(h, ISO_ATTENTION_KEY, a->keys, 0, a->keys, a->k, h->dkeys, 1);
    attention_put(h, ISO_ATTENTION_VALUE, a->keys, 0, a->keys, a->v, h->dvalues, 1);
}

static void attention_grad_run(const iso_kernel_call *call)
{
    head h = {.a = iso_attention_of(call)};
    attention_lay_out(&h, call->scratch, true);
    if (h.a.keys == 0)
        memset(call->out[0].data, 0, (size_t)iso_array_count(&call->out[0]) * sizeof(REAL));
    for (h.group = 0; h.group < h.a.groups && h.a.keys > 0; h.group++)
        for (h.number = 0; h.number < h.a.heads; h.number++)
            attention_grad_head(&h);
}
