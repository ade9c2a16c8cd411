/* Kernels of attention. A head at a time, of it a block of queries, and of the keys a block at a time, so that scores
 * stay in the cache for any number of keys; keys that no query of the block attends to are left out. Softmax is over
 * the blocks of keys one after the other (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018;
 * Dao and others, "FlashAttention", 2022). The gradient computes the weights again.
 *
 * The file that includes this one defines REAL, the type that is computed in, REAL_DTYPE, REAL_MAX, its largest
 * finite number, BLOCK_KEYS, and these functions on it: real_gemm, real_transpose, real_affine, real_softmax_part,
 * real_softmax_part_slopes, real_softmax_part_grad, real_dropout, which functions.h describes under the same names,
 * and real_tanh(n, x, y) and real_tanh_grad(n, y, dy, dx), y being the tanh. It defines STORED, the type of the
 * inputs, and STORED_DTYPE. If STORED is not REAL, it defines STORED_IS_NARROW as 1, and real_load(n, const STORED
 * *x, REAL *y) and real_store(n, const REAL *x, STORED *y). */
#include <string.h>

#include "runtime/backend/attention.h"
#include "runtime/backend/cpu/cpu.h"

#ifndef STORED_IS_NARROW
#define STORED_IS_NARROW 0
#endif

/* Rows of transposed keys are EXTRA elements longer than a power of two, so that they do not compete for the same
 * lines of the L1 cache. */
enum { BLOCK_ROWS = 64, EXTRA = 16 };

/* A fill that is no higher leaves a weight of 0, unless all scores of its query are as low. */
enum { MOST_FILL = -1000000 };

/* Rows of an input, `step` elements apart. */
typedef struct input_rows {
    const REAL *at;
    int64_t step;
} input_rows;

/* The inputs and the scratch memory of a head. Keys [i BLOCK_KEYS, (i + 1) BLOCK_KEYS) are block i. */
typedef struct head {
    iso_attention a;
    int64_t group, number;
    int64_t most_rows, most_columns; /* of a block */
    int64_t key_blocks, key_step;    /* key_step: from a row of transposed keys to the next one */
    REAL *keys;                      /* [block of keys][k, key_step]: transposed */
    REAL *scores;    /* [rows, columns]; for the gradient one such array for each block of keys */
    REAL *queries;   /* [rows, k], scaled */
    REAL *result;    /* [rows, k or v] */
    REAL *max, *sum; /* [rows] of the scores up to now, and of exp(score - max) */
    REAL *decay;     /* [block of keys][rows]: exp(max before this block - max after it) */
    input_rows query, key, value, dy; /* of a block's queries, and of all keys */
    /* Inputs that are not stored as REAL: [rows, k], [keys, k], [keys, v], [rows, v] */
    REAL *query_copy, *key_copy, *value_copy, *dy_copy;
    /* For the gradient alone: */
    REAL *values;          /* [block of keys][v, key_step]: transposed */
    REAL *slopes;          /* [rows]: sums of weights and their gradients */
    REAL *dropped;         /* [rows, columns] */
    REAL *dscores;         /* [block of keys][rows, columns] */
    REAL *bounded;         /* [block of keys][rows, columns]: tanh(scores / cap); NULL: there is no cap */
    REAL *dkeys, *dvalues; /* [keys, k], [keys, v] */
} head;

/* Queries [first, first + rows) and the keys [begin, end) that they attend to. */
typedef struct block {
    int64_t first, rows, begin, end;
    bool open; /* every query attends to a key, so that the weights of what is masked are 0 */
} block;

/* Of a block, the keys [begin, begin + columns) that are in the block `number` of the keys. */
typedef struct part {
    int64_t number, begin, columns;
} part;

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

/* Heads of all groups. */
static int64_t attention_heads(const iso_attention *a)
{
    return a->groups * a->heads;
}

/* Whether the work is enough for several threads. */
static bool attention_is_divided(const iso_attention *a)
{
    static const double least = 1e6; /* multiplications */
    return (double)attention_heads(a) * (double)a->rows * (double)a->keys * (double)(a->k + a->v) >= least &&
           a->v > 0;
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
    h->most_rows = a->rows < BLOCK_ROWS ? a->rows : BLOCK_ROWS;
    h->key_blocks = (a->keys + BLOCK_KEYS - 1) / BLOCK_KEYS;
    h->most_columns = a->keys < BLOCK_KEYS ? a->keys : BLOCK_KEYS;
    h->key_step = h->most_columns < BLOCK_KEYS ? h->most_columns : BLOCK_KEYS + EXTRA;
    const int64_t scores = h->most_rows * h->most_columns, wide = a->k > a->v ? a->k : a->v;
    h->keys = attention_take(memory, &used, h->key_blocks * h->key_step * a->k);
    h->scores = attention_take(memory, &used, gradient ? h->key_blocks * scores : scores);
    h->queries = attention_take(memory, &used, h->most_rows * a->k);
    h->result = attention_take(memory, &used, h->most_rows * wide);
    h->max = attention_take(memory, &used, h->most_rows);
    h->sum = attention_take(memory, &used, h->most_rows);
    h->decay = attention_take(memory, &used, h->key_blocks * h->most_rows);
    h->query_copy = attention_take(memory, &used, STORED_IS_NARROW ? h->most_rows * a->k : 0);
    h->key_copy = attention_take(memory, &used, STORED_IS_NARROW ? a->keys * a->k : 0);
    h->value_copy = attention_take(memory, &used, STORED_IS_NARROW ? a->keys * a->v : 0);
    if (!gradient)
        return used;
    h->dy_copy = attention_take(memory, &used, STORED_IS_NARROW ? h->most_rows * a->v : 0);
    h->values = attention_take(memory, &used, h->key_blocks * h->key_step * a->v);
    h->slopes = attention_take(memory, &used, h->most_rows);
    h->dropped = attention_take(memory, &used, scores);
    h->dscores = attention_take(memory, &used, h->key_blocks * scores);
    if (a->attrs->cap != 0)
        h->bounded = attention_take(memory, &used, h->key_blocks * scores);
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

/* The rows of all keys, transposed block by block. */
static void attention_transpose(const head *h, const input_rows *rows, int64_t features, REAL *to)
{
    for (int64_t i = 0; i < h->a.keys; i += BLOCK_KEYS, to += features * h->key_step)
        real_transpose(h->a.keys - i < BLOCK_KEYS ? h->a.keys - i : BLOCK_KEYS, features,
                       rows->at + i * rows->step, rows->step, to, h->key_step);
}

static void attention_load_keys(head *h)
{
    const iso_attention *a = &h->a;
    h->key = attention_in(h, ISO_ATTENTION_KEY, a->keys, 0, a->keys, a->k, h->key_copy);
    h->value = attention_in(h, ISO_ATTENTION_VALUE, a->keys, 0, a->keys, a->v, h->value_copy);
    attention_transpose(h, &h->key, a->k, h->keys);
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

/* ---- the scores of a block ---- */

static iso_attention_mask_row attention_mask_row_of(const head *h, int64_t row)
{
    return iso_attention_mask_row_of(&h->a, h->group, h->number, row);
}

/* The first and the last key that a query attends to: they are inside the band and not masked. */
static void attention_seen(const head *h, int64_t row, int64_t *from, int64_t *to)
{
    const iso_attention_mask_row mask = attention_mask_row_of(h, row);
    iso_band_columns(&h->a.attrs->band, h->a.first_row + row, h->a.keys, from, to);
    while (*from < *to && !iso_attention_counts(mask, *from))
        *from += 1;
    while (*from < *to && !iso_attention_counts(mask, *to - 1))
        *to -= 1;
}

/* The keys that the block's queries attend to, from the first one to the last one. A query whose keys are all masked
 * weighs all keys, also those outside the band: then the block has all keys. */
static void attention_columns(const head *h, block *b)
{
    const iso_attention *a = &h->a;
    b->begin = a->keys;
    b->end = 0;
    b->open = a->attrs->band.fill <= MOST_FILL;
    for (int64_t row = b->first; row < b->first + b->rows; row++) {
        int64_t from, to;
        attention_seen(h, row, &from, &to);
        b->open = b->open && from < to;
        b->begin = from < b->begin ? from : b->begin;
        b->end = to > b->end ? to : b->end;
    }
    if (!b->open) {
        b->begin = 0;
        b->end = a->keys;
    }
}

/* The queries [first, ...), loaded and scaled. */
static block attention_begin(head *h, int64_t first)
{
    const iso_attention *a = &h->a;
    const REAL scale = (REAL)(a->attrs->cap != 0 ? a->attrs->scale / a->attrs->cap : a->attrs->scale);
    block b = {.first = first, .rows = a->rows - first < h->most_rows ? a->rows - first : h->most_rows};
    h->query = attention_in(h, ISO_ATTENTION_QUERY, a->rows, first, b.rows, a->k, h->query_copy);
    for (int64_t row = 0; row < b.rows; row++) {
        real_affine(a->k, scale, 0, h->query.at + row * h->query.step, h->queries + row * a->k);
        h->max[row] = -REAL_MAX;
        h->sum[row] = 0;
    }
    attention_columns(h, &b);
    return b;
}

/* The blocks of keys [first, last) that a block has keys of. */
static int64_t attention_first_part(const block *b)
{
    return b->begin / BLOCK_KEYS;
}

static int64_t attention_last_part(const block *b)
{
    return (b->end + BLOCK_KEYS - 1) / BLOCK_KEYS;
}

static part attention_part(const block *b, int64_t number)
{
    int64_t begin = number * BLOCK_KEYS, end = begin + BLOCK_KEYS;
    begin = begin < b->begin ? b->begin : begin;
    end = end < b->end ? end : b->end;
    return (part){number, begin, end - begin};
}

/* What becomes of scores that no query sees. */
typedef struct unseen {
    REAL fill;
    bool adds; /* fill is added to them */
} unseen;

static void attention_fill(REAL *score, int64_t count, const unseen *by)
{
    for (int64_t i = 0; i < count; i++)
        score[i] = by->adds ? score[i] + by->fill : by->fill;
}

static void attention_fill_masked(iso_attention_mask_row mask, REAL *score, int64_t count, const unseen *by)
{
    if (mask.at && mask.step)
        for (int64_t i = 0; i < count; i++)
            score[i] = mask.at[i] ? score[i] : by->adds ? score[i] + by->fill : by->fill;
    else if (mask.at && !*mask.at)
        attention_fill(score, count, by);
}

static int64_t attention_within(int64_t i, int64_t most)
{
    return i < 0 ? 0 : i < most ? i : most;
}

/* Fills a row's scores that are outside the band or masked. */
static void attention_mask_row(const head *h, const part *p, int64_t row, REAL *score, const unseen *by)
{
    iso_attention_mask_row mask = attention_mask_row_of(h, row);
    int64_t from, to;
    iso_band_columns(&h->a.attrs->band, h->a.first_row + row, h->a.keys, &from, &to);
    from = attention_within(from - p->begin, p->columns);
    to = attention_within(to - p->begin, p->columns);
    to = to > from ? to : from;
    attention_fill(score, from, by);
    mask.at += mask.at ? (p->begin + from) * mask.step : 0;
    attention_fill_masked(mask, score + from, to - from, by);
    attention_fill(score + to, p->columns - to, by);
}

static bool attention_is_masked(const iso_attention *a)
{
    return iso_attention_has_masks(a) || a->attrs->band.causal || a->attrs->band.window > 0;
}

/* Fills what is masked in all rows. */
static void attention_mask(const head *h, const block *b, const part *p, REAL *scores, unseen by)
{
    for (int64_t row = 0; row < b->rows && attention_is_masked(&h->a); row++)
        attention_mask_row(h, p, b->first + row, scores + row * p->columns, &by);
}

static REAL *attention_scores_of(const head *h, REAL *all, int64_t number)
{
    return all + number * h->most_rows * h->most_columns;
}

/* Scores over the cap become scores. The gradient needs their tanh. */
static void attention_cap(const head *h, const block *b, const part *p, REAL *scores)
{
    const int64_t count = b->rows * p->columns;
    real_tanh(count, scores, scores);
    if (h->bounded)
        memcpy(attention_scores_of(h, h->bounded, p->number), scores, (size_t)count * sizeof(REAL));
    real_affine(count, (REAL)h->a.attrs->cap, 0, scores, scores);
}

/* The part's exp(score - max), with the max up to this part. */
static void attention_weigh(head *h, const block *b, const part *p, REAL *scores)
{
    const iso_attention *a = &h->a;
    const REAL *keys = h->keys + p->number * h->key_step * a->k + p->begin % BLOCK_KEYS;
    real_gemm(b->rows, p->columns, a->k, h->queries, a->k, 1, keys, h->key_step, false, scores);
    if (a->attrs->cap != 0)
        attention_cap(h, b, p, scores);
    attention_mask(h, b, p, scores, (unseen){(REAL)a->attrs->band.fill, a->attrs->adds});
    real_softmax_part(b->rows, p->columns, scores, h->max, h->sum, h->decay + p->number * h->most_rows);
}

static bool attention_drops(const iso_attention *a)
{
    return a->attrs->zero_masked || a->attrs->dropout.threshold > 0;
}

static void attention_zero_row(const head *h, const part *p, int64_t row, REAL *y)
{
    iso_attention_mask_row mask = attention_mask_row_of(h, row);
    mask.at += mask.at ? p->begin * mask.step : 0;
    attention_fill_masked(mask, y, p->columns, &(unseen){0, false});
}

/* y = x [rows, columns] with dropout, and 0 where masked if zero_masked; y may be x. */
static void attention_drop(const head *h, const block *b, const part *p, const REAL *x, REAL *y)
{
    const iso_attention_attrs *attrs = h->a.attrs;
    const iso_dropout_attrs *dropout = &attrs->dropout;
    if (dropout->threshold == 0 && x != y)
        memcpy(y, x, (size_t)(b->rows * p->columns) * sizeof *y);
    for (int64_t row = b->first; row < b->first + b->rows; row++, x += p->columns, y += p->columns) {
        uint64_t first = iso_attention_weight(&h->a, h->group, h->number, row) + (uint64_t)p->begin;
        if (dropout->threshold > 0)
            real_dropout(p->columns, dropout->key, h->a.call->info->step, first, dropout->threshold,
                         (REAL)dropout->scale, x, y);
        if (attrs->zero_masked)
            attention_zero_row(h, p, row, y);
    }
}

/* ---- forward ---- */

static void attention_scale_rows(int64_t rows, int64_t n, const REAL *scale, REAL *x)
{
    for (int64_t row = 0; row < rows; row++, x += n)
        if (scale[row] != 1)
            real_affine(n, scale[row], 0, x, x);
}

/* Adds the part's weights times values to the result. */
static void attention_add_part(head *h, const block *b, const part *p, bool first)
{
    const iso_attention *a = &h->a;
    attention_weigh(h, b, p, h->scores);
    if (attention_drops(a))
        attention_drop(h, b, p, h->scores, h->scores);
    if (!first)
        attention_scale_rows(b->rows, a->v, h->decay + p->number * h->most_rows, h->result);
    real_gemm(b->rows, a->v, p->columns, h->scores, p->columns, 1, h->value.at + p->begin * h->value.step,
              h->value.step, !first, h->result);
}

/* The sums, each replaced by 1 / sum. */
static void attention_invert_sums(head *h, const block *b)
{
    for (int64_t row = 0; row < b->rows; row++)
        h->sum[row] = 1 / h->sum[row];
}

static void attention_block(head *h, int64_t first_row)
{
    const iso_attention *a = &h->a;
    const block b = attention_begin(h, first_row);
    const int64_t first = attention_first_part(&b), last = attention_last_part(&b);
    for (int64_t i = first; i < last; i++) {
        const part p = attention_part(&b, i);
        attention_add_part(h, &b, &p, i == first);
    }
    attention_invert_sums(h, &b);
    attention_scale_rows(b.rows, a->v, h->sum, h->result);
    attention_put(h, 0, a->rows, first_row, b.rows, a->v, h->result, 1);
}

static size_t attention_scratch(const iso_kernel_call *call)
{
    return attention_scratch_of(call, false);
}

/* Queries [begin, end) of head `i` of all groups. */
static void attention_queries(head *h, int64_t i, int64_t begin, int64_t end)
{
    h->group = i / h->a.heads;
    h->number = i % h->a.heads;
    attention_load_keys(h);
    for (int64_t row = begin; row < end; row += h->most_rows)
        attention_block(h, row);
}

static void attention_run(const iso_kernel_call *call)
{
    head h = {.a = iso_attention_of(call)};
    const iso_attention *a = &h.a;
    attention_lay_out(&h, call->scratch, false);
    if (a->keys == 0 || a->v == 0)
        memset(call->out[0].data, 0,
               (size_t)iso_array_count(&call->out[0]) * iso_dtype_size(call->out[0].dtype));
    for (int64_t i = 0; i < attention_heads(a) && a->keys > 0 && a->v > 0; i++)
        attention_queries(&h, i, 0, a->rows);
}

/* Queries of a head that a thread takes at a time: whole blocks of them. Each time the head's keys are transposed
 * again, so there are no more than give work to many threads. */
static int64_t attention_share(const iso_attention *a)
{
    enum { SHARES = 64 };
    const int64_t heads = attention_heads(a), blocks = (a->rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
    const int64_t wanted = (SHARES + heads - 1) / heads, shares = wanted < blocks ? wanted : blocks;
    return (blocks + shares - 1) / shares * BLOCK_ROWS;
}

static int64_t attention_shares(const iso_attention *a)
{
    const int64_t share = attention_share(a);
    return (a->rows + share - 1) / share;
}

static int64_t attention_blocks(const iso_kernel_call *call)
{
    const iso_attention a = iso_attention_of(call);
    return attention_is_divided(&a) ? attention_heads(&a) * attention_shares(&a) : 1;
}

static void attention_run_block(const iso_kernel_call *call, int64_t i)
{
    head h = {.a = iso_attention_of(call)};
    const int64_t shares = attention_shares(&h.a), share = attention_share(&h.a);
    const int64_t begin = i % shares * share, end = begin + share;
    attention_lay_out(&h, call->scratch, false);
    attention_queries(&h, i / shares, begin, end < h.a.rows ? end : h.a.rows);
}

/* ---- gradient ---- */

/* Of a part: exp(score - max), the gradient of the weights, and the sums of their products. */
static void attention_weight_gradient(head *h, const block *b, const part *p)
{
    const iso_attention *a = &h->a;
    REAL *weights = attention_scores_of(h, h->scores, p->number);
    REAL *slopes = attention_scores_of(h, h->dscores, p->number);
    attention_weigh(h, b, p, weights);
    if (a->v > 0)
        real_gemm(b->rows, p->columns, a->v, h->dy.at, h->dy.step, 1,
                  h->values + p->number * h->key_step * a->v + p->begin % BLOCK_KEYS, h->key_step, false,
                  slopes);
    else
        memset(slopes, 0, (size_t)(b->rows * p->columns) * sizeof(REAL));
    if (attention_drops(a))
        attention_drop(h, b, p, slopes, slopes);
    real_softmax_part_slopes(b->rows, p->columns, weights, slopes, h->decay + p->number * h->most_rows,
                             h->slopes);
}

/* Adds the part's gradients of keys, values and queries. h->sum has the factor that makes a weight of
 * exp(score - max of this part). */
static void attention_add_gradients(head *h, const block *b, const part *p, bool first)
{
    const iso_attention *a = &h->a;
    REAL *scores = attention_scores_of(h, h->scores, p->number);
    REAL *dscores = attention_scores_of(h, h->dscores, p->number);
    real_softmax_part_grad(b->rows, p->columns, h->sum, h->slopes, scores, dscores);
    if (!b->open && !a->attrs->adds) /* in an open block, weights of what is masked are 0 */
        attention_mask(h, b, p, dscores, (unseen){0, false});
    if (h->bounded)
        real_tanh_grad(b->rows * p->columns, attention_scores_of(h, h->bounded, p->number), dscores, dscores);
    if (attention_drops(a) && a->v > 0)
        attention_drop(h, b, p, scores, h->dropped);
    if (a->v > 0)
        real_gemm(p->columns, a->v, b->rows, attention_drops(a) ? h->dropped : scores, 1, p->columns,
                  h->dy.at, h->dy.step, true, h->dvalues + p->begin * a->v);
    real_gemm(p->columns, a->k, b->rows, dscores, 1, p->columns, h->query.at, h->query.step, true,
              h->dkeys + p->begin * a->k);
    real_gemm(b->rows, a->k, p->columns, dscores, p->columns, 1, h->key.at + p->begin * h->key.step,
              h->key.step, !first, h->result);
}

static void attention_grad_block(head *h, int64_t first_row)
{
    const iso_attention *a = &h->a;
    const block b = attention_begin(h, first_row);
    const int64_t first = attention_first_part(&b), last = attention_last_part(&b);
    h->dy = attention_in(h, a->call->n_inputs - 1, a->rows, b.first, b.rows, a->v, h->dy_copy);
    memset(h->slopes, 0, (size_t)b.rows * sizeof(REAL));
    for (int64_t i = first; i < last; i++) {
        const part p = attention_part(&b, i);
        attention_weight_gradient(h, &b, &p);
    }
    attention_invert_sums(h, &b);
    for (int64_t row = 0; row < b.rows; row++)
        h->slopes[row] *= h->sum[row];
    for (int64_t i = last - 1; i >= first; i--) {
        const part p = attention_part(&b, i);
        attention_add_gradients(h, &b, &p, i == last - 1);
        for (int64_t row = 0; row < b.rows; row++) /* the max of the parts before was lower */
            h->sum[row] *= h->decay[i * h->most_rows + row];
    }
    attention_put(h, ISO_ATTENTION_QUERY, a->rows, first_row, b.rows, a->k, h->result, (REAL)a->attrs->scale);
}

static size_t attention_grad_scratch(const iso_kernel_call *call)
{
    return attention_scratch_of(call, true);
}

/* Head `i` of all groups. */
static void attention_grad_head(head *h, int64_t i)
{
    const iso_attention *a = &h->a;
    h->group = i / a->heads;
    h->number = i % a->heads;
    attention_load_keys(h);
    attention_transpose(h, &h->value, a->v, h->values);
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
    for (int64_t i = 0; i < attention_heads(&h.a) && h.a.keys > 0; i++)
        attention_grad_head(&h, i);
}

/* A head: its gradients of keys and values are sums over its queries, in their order. */
static int64_t attention_grad_blocks(const iso_kernel_call *call)
{
    const iso_attention a = iso_attention_of(call);
    return attention_is_divided(&a) ? attention_heads(&a) : 1;
}

static void attention_grad_run_block(const iso_kernel_call *call, int64_t i)
{
    head h = {.a = iso_attention_of(call)};
    attention_lay_out(&h, call->scratch, true);
    attention_grad_head(&h, i);
}
