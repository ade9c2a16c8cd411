/* Kernels of attention. A head at a time, and of it a block of queries: their scores stay in the cache, and keys
 * that no query of the block attends to are left out. The gradient computes the weights again.
 *
 * The file that includes this one defines REAL, the type that is computed in, REAL_DTYPE, and these functions on it:
 * real_gemm, real_transpose, real_affine, real_softmax, real_softmax_grad, real_dropout; functions.h describes them
 * under the same names. It defines STORED, the type of the inputs, and STORED_DTYPE. If STORED is not REAL, it
 * defines STORED_IS_NARROW as 1, and real_load(n, const STORED *x, REAL *y) and real_store(n, const REAL *x,
 * STORED *y). */
#include <string.h>

#include "runtime/backend/attention.h"
#include "runtime/backend/cpu/cpu.h"

#ifndef STORED_IS_NARROW
#define STORED_IS_NARROW 0
#endif

enum { MOST_ROWS = 64, LEAST_ROWS = 8, MOST_SCORES = 32768 /* elements of a block */ };

/* Rows of an input, `step` elements apart. */
typedef struct input_rows {
    const REAL *at;
    int64_t step;
} input_rows;

/* The inputs and the scratch memory of a head. */
typedef struct head {
    iso_attention a;
    int64_t group, number;
    int64_t most_rows;                /* of a block */
    REAL *keys;                       /* [k, keys]: transposed */
    REAL *scores;                     /* [rows, columns] */
    REAL *queries;                    /* [rows, k], scaled */
    REAL *result;                     /* [rows, k or v] */
    input_rows query, key, value, dy; /* of a block's queries, and of all keys */
    /* Inputs that are not stored as REAL: [rows, k], [keys, k], [keys, v], [rows, v] */
    REAL *query_copy, *key_copy, *value_copy, *dy_copy;
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

/* Whether the inputs but the mask are stored as STORED, and the outputs so or as REAL. */
static bool attention_fits(const iso_kernel_call *call)
{
    for (int i = 0; i < call->n_inputs; i++)
        if (call->in[i].dtype != STORED_DTYPE && call->in[i].dtype != ISO_BOOL)
            return false;
    for (int i = 0; i < call->n_outputs; i++)
        if (call->out[i].dtype != STORED_DTYPE && call->out[i].dtype != REAL_DTYPE)
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
    h->query_copy = attention_take(memory, &used, STORED_IS_NARROW ? h->most_rows * a->k : 0);
    h->key_copy = attention_take(memory, &used, STORED_IS_NARROW ? a->keys * a->k : 0);
    h->value_copy = attention_take(memory, &used, STORED_IS_NARROW ? a->keys * a->v : 0);
    if (!gradient)
        return used;
    h->dy_copy = attention_take(memory, &used, STORED_IS_NARROW ? h->most_rows * a->v : 0);
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

/* Rows [first, first + rows) of a head, of an input of n rows; in `copy` if they must be converted. */
static input_rows attention_in(const head *h, int input, int64_t n, int64_t first, int64_t rows,
                               int64_t features, REAL *copy)
{
    const STORED *from = (const STORED *)h->a.call->in[input].data +
                         iso_attention_index(&h->a, h->group, n, first, h->number, features);
#if STORED_IS_NARROW
    for (int64_t row = 0; row < rows; row++, from += h->a.heads * features)
        real_load(features, from, copy + row * features);
    return (input_rows){copy, features};
#else
    (void)rows, (void)copy;
    return (input_rows){from, h->a.heads * features};
#endif
}

static void attention_load_keys(head *h)
{
    const iso_attention *a = &h->a;
    h->key = attention_in(h, ISO_ATTENTION_KEY, a->keys, 0, a->keys, a->k, h->key_copy);
    h->value = attention_in(h, ISO_ATTENTION_VALUE, a->keys, 0, a->keys, a->v, h->value_copy);
    real_transpose(a->keys, a->k, h->key.at, h->key.step, h->keys, a->keys);
}

static void attention_put_row(const iso_array *output, int64_t index, int64_t count, const REAL *from)
{
#if STORED_IS_NARROW
    if (output->dtype == STORED_DTYPE) {
        real_store(count, from, (STORED *)output->data + index);
        return;
    }
#endif
    memcpy((REAL *)output->data + index, from, (size_t)count * sizeof *from);
}

/* Copies rows of a head, times scale, to the output's, which stand `heads * features` apart. Changes `from`. */
static void attention_put(const head *h, int output, int64_t n, int64_t first, int64_t rows, int64_t features,
                          REAL *from, REAL scale)
{
    int64_t index = iso_attention_index(&h->a, h->group, n, first, h->number, features);
    if (scale != 1)
        real_affine(rows * features, scale, 0, from, from);
    for (int64_t row = 0; row < rows; row++, index += h->a.heads * features, from += features)
        attention_put_row(&h->a.call->out[output], index, features, from);
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
static block attention_weigh(head *h, int64_t first)
{
    const iso_attention *a = &h->a;
    block b = {.first = first, .rows = a->rows - first < h->most_rows ? a->rows - first : h->most_rows};
    h->query = attention_in(h, ISO_ATTENTION_QUERY, a->rows, first, b.rows, a->k, h->query_copy);
    for (int64_t row = 0; row < b.rows; row++)
        real_affine(a->k, (REAL)a->attrs->scale, 0, h->query.at + row * h->query.step,
                    h->queries + row * a->k);
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

static void attention_block(head *h, int64_t first)
{
    const iso_attention *a = &h->a;
    block b = attention_weigh(h, first);
    if (attention_drops(a))
        attention_drop(h, &b, h->scores, h->scores);
    real_gemm(b.rows, a->v, b.columns, h->scores, b.columns, 1, h->value.at + b.begin * h->value.step,
              h->value.step, false, h->result);
    attention_put(h, 0, a->rows, first, b.rows, a->v, h->result, 1);
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
        memset(call->out[0].data, 0,
               (size_t)iso_array_count(&call->out[0]) * iso_dtype_size(call->out[0].dtype));
    for (h.group = 0; h.group < a->groups && a->keys > 0 && a->v > 0; h.group++)
        for (h.number = 0; h.number < a->heads; h.number++) {
            attention_load_keys(&h);
            for (int64_t row = 0; row < a->rows; row += h.most_rows)
                attention_block(&h, row);
        }
}

/* ---- gradient ---- */

/* The gradient of the scores, in h->dscores; adds the gradient of the values. */
static void attention_score_gradient(head *h, const block *b)
{
    const iso_attention *a = &h->a;
    const REAL *weights = h->scores;
    h->dy = attention_in(h, a->call->n_inputs - 1, a->rows, b->first, b->rows, a->v, h->dy_copy);
    if (attention_drops(a)) {
        attention_drop(h, b, h->scores, h->dropped);
        weights = h->dropped;
    }
    if (a->v > 0) {
        real_gemm(b->columns, a->v, b->rows, weights, 1, b->columns, h->dy.at, h->dy.step, true,
                  h->dvalues + b->begin * a->v);
        real_gemm(b->rows, b->columns, a->v, h->dy.at, h->dy.step, 1, h->values + b->begin, a->keys, false,
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

static void attention_grad_block(head *h, int64_t first)
{
    const iso_attention *a = &h->a;
    block b = attention_weigh(h, first);
    attention_score_gradient(h, &b);
    real_gemm(b.columns, a->k, b.rows, h->dscores, 1, b.columns, h->query.at, h->query.step, true,
              h->dkeys + b.begin * a->k);
    real_gemm(b.rows, a->k, b.columns, h->dscores, b.columns, 1, h->key.at + b.begin * h->key.step,
              h->key.step, false, h->result);
    attention_put(h, ISO_ATTENTION_QUERY, a->rows, first, b.rows, a->k, h->result, (REAL)a->attrs->scale);
}

static size_t attention_grad_scratch(const iso_kernel_call *call)
{
    return attention_scratch_of(call, true);
}

static void attention_grad_head(head *h)
{
    const iso_attention *a = &h->a;
    attention_load_keys(h);
    real_transpose(a->keys, a->v, h->value.at, h->value.step, h->values, a->keys);
    memset(h->dkeys, 0, (size_t)(a->keys * a->k) * sizeof(REAL));
    memset(h->dvalues, 0, (size_t)(a->keys * a->v) * sizeof(REAL));
    for (int64_t row = 0; row < a->rows; row += h->most_rows)
        attention_grad_block(h, row);
    attention_put(h, ISO_ATTENTION_KEY, a->keys, 0, a->keys, a->k, h->dkeys, (REAL)a->attrs->scale);
    attention_put(h, ISO_ATTENTION_VALUE, a->keys, 0, a->keys, a->v, h->dvalues, 1);
}

static void attention_grad_run(const iso_kernel_call *call)
{
    head h = {.a = iso_attention_of(call)};
    attention_lay_out(&h, call->scratch, true);
    if (h.a.keys == 0)
        memset(call->out[0].data, 0,
               (size_t)iso_array_count(&call->out[0]) * iso_dtype_size(call->out[0].dtype));
    for (h.group = 0; h.group < h.a.groups && h.a.keys > 0; h.group++)
        for (h.number = 0; h.number < h.a.heads; h.number++)
            attention_grad_head(&h);
}
