#include "runtime/data/row_order_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/base/random.h"

uint64_t iso_shuffle_key(uint64_t seed, int number)
{
    char path[32];
    snprintf(path, sizeof path, "shuffle/%d", number);
    return iso_random_key(seed, path);
}

iso_spans iso_spans_of_rows(int64_t rows)
{
    return (iso_spans){.rows = rows, .elements = rows, .short_at = rows};
}

int64_t iso_span_begin(const iso_spans *spans, int64_t element)
{
    if (spans->batch == 0)
        return element;
    int64_t missing = element > spans->short_at ? spans->batch - spans->short_rows : 0;
    return element * spans->batch - missing;
}

int64_t iso_span_rows(const iso_spans *spans, int64_t element)
{
    if (spans->batch == 0)
        return 1;
    return element == spans->short_at ? spans->short_rows : spans->batch;
}

int64_t iso_span_of_row(const iso_spans *spans, int64_t row)
{
    if (spans->batch == 0)
        return row;
    if (row >= spans->short_at * spans->batch)
        row += spans->batch - spans->short_rows;
    return row / spans->batch;
}

void iso_order_begin(iso_order *order, const iso_spans *from)
{
    *order = (iso_order){.from = *from, .spans = *from};
}

void iso_order_free(iso_order *order)
{
    iso_free(order->index);
    iso_free(order->scratch[0]);
    iso_free(order->scratch[1]);
    order->index = order->scratch[0] = order->scratch[1] = NULL;
    order->capacity = 0;
}

static iso_spans batched(const iso_spans *from, int64_t batch, bool drop)
{
    iso_spans to = {.batch = batch, .elements = from->rows / batch, .rows = from->rows / batch * batch};
    int64_t rest = from->rows - to.rows;
    to.short_at = to.elements;
    if (rest == 0 || drop)
        return to;
    to.short_rows = rest;
    to.elements++;
    to.rows = from->rows;
    return to;
}

static iso_status check_op(const iso_order *order, const iso_order_op *op)
{
    const iso_spans *spans = &order->spans;
    if (order->n_ops == ISO_ORDER_OPS)
        return iso_error(ISO_INVALID, "more than %d stages of shuffle, batch and split in a row",
                         ISO_ORDER_OPS);
    switch (op->kind) {
    case ISO_ORDER_SHUFFLE:
        if (op->n < 0)
            return iso_error(ISO_INVALID, "shuffle: a buffer of %" PRId64 " rows; it must not be negative",
                             op->n);
        break;
    case ISO_ORDER_BATCH:
        if (spans->batch)
            return iso_error(ISO_INVALID, "batch: the data set is in batches of %" PRId64 " rows already",
                             spans->batch);
        if (op->n < 1)
            return iso_error(ISO_INVALID, "batch: a batch of %" PRId64 " rows; at least 1", op->n);
        if (op->drop && op->n > spans->rows)
            return iso_error(ISO_INVALID,
                             "batch: without the remainder, %" PRId64 " rows give no batch of %" PRId64,
                             spans->rows, op->n);
        break;
    case ISO_ORDER_TAKE:
        break;
    }
    return ISO_OK;
}

iso_status iso_order_add(iso_order *order, const iso_order_op *op)
{
    iso_status status = check_op(order, op);
    if (status != ISO_OK)
        return status;
    order->ops[order->n_ops++] = *op;
    if (op->kind == ISO_ORDER_BATCH)
        order->spans = batched(&order->spans, op->n, op->drop);
    if (op->kind == ISO_ORDER_TAKE)
        order->spans = iso_spans_of_rows(op->count);
    return ISO_OK;
}

bool iso_order_is_live(const iso_order *order)
{
    for (int i = 0; i < order->n_ops; i++)
        if (order->ops[i].kind == ISO_ORDER_SHUFFLE && !order->ops[i].once)
            return true;
    return false;
}

void iso_order_freeze(iso_order *order)
{
    for (int i = 0; i < order->n_ops; i++)
        order->ops[i].once = true;
}

void iso_order_copy(const iso_order *order, iso_order *copy)
{
    *copy = *order;
    copy->index = copy->scratch[0] = copy->scratch[1] = NULL;
    copy->capacity = 0;
}

/* The common case, a permutation of all rows in their original order, is computed in place. */
static bool is_plain(const iso_order *order, const iso_order_op *op, bool had)
{
    return !had && order->spans.batch == 0 && (op->n == 0 || op->n >= order->spans.elements);
}

static iso_status order_reserve(int64_t **memory, int64_t rows)
{
    size_t bytes = 0;
    iso_status status = iso_size_mul((size_t)rows, sizeof(int64_t), "the order of the rows", &bytes);
    if (status != ISO_OK || *memory)
        return status;
    return iso_alloc(bytes, "the order of the rows", (void **)memory);
}

static iso_status reserve_scratch(iso_order *order)
{
    iso_status status = order_reserve(&order->scratch[0], order->capacity);
    return status == ISO_OK ? order_reserve(&order->scratch[1], order->capacity) : status;
}

/* A random number below n from the counter i: the 64-bit fraction times n (Lemire 2019); its bias is below n
 * / 2^64. */
static int64_t random_below(uint64_t key, int64_t epoch, int64_t i, int64_t n)
{
    iso_philox words = iso_philox_draw(key, (uint64_t)i, (uint64_t)epoch);
    uint64_t fraction = (uint64_t)words.word[0] << 32 | words.word[1];
    return (int64_t)((unsigned __int128)fraction * (uint64_t)n >> 64);
}

/* tf.data's shuffle: `held` are the elements in the buffer; the one at a random position is given out and
 * replaced by the next. */
static void shuffle_buffered(uint64_t key, int64_t epoch, int64_t buffer, int64_t n, int64_t *held,
                             int64_t *order)
{
    for (int64_t i = 0; i < buffer; i++)
        held[i] = i;
    int64_t next = buffer;
    for (int64_t i = 0; i < n; i++) {
        int64_t full = n - i < buffer ? n - i : buffer;
        int64_t at = random_below(key, epoch, i, full);
        order[i] = held[at];
        held[at] = next < n ? next++ : held[full - 1];
    }
}

static void permutation(const iso_order_op *op, int64_t epoch, int64_t n, int64_t *held, int64_t *order)
{
    if (op->once)
        epoch = 0;
    if (op->n == 0 || op->n >= n)
        iso_random_permutation(op->key, (uint64_t)epoch, n, order);
    else
        shuffle_buffered(op->key, epoch, op->n, n, held, order);
}

static void swap(int64_t **a, int64_t **b)
{
    int64_t *t = *a;
    *a = *b;
    *b = t;
}

static void shuffle_plain(iso_order *order, const iso_order_op *op, int64_t epoch)
{
    permutation(op, epoch, order->spans.elements, NULL, order->index);
    for (int64_t i = 0; order->begin && i < order->spans.elements; i++)
        order->index[i] += order->begin;
}

static void shuffle_elements(iso_order *order, const iso_order_op *op, int64_t epoch, bool had)
{
    iso_spans *spans = &order->spans;
    int64_t *element = order->scratch[0], *to = order->scratch[1], written = 0, short_at = spans->elements;
    permutation(op, epoch, spans->elements, to, element);
    for (int64_t i = 0; i < spans->elements; i++) {
        int64_t begin = iso_span_begin(spans, element[i]), rows = iso_span_rows(spans, element[i]);
        if (element[i] == spans->short_at)
            short_at = i;
        for (int64_t k = begin; k < begin + rows; k++)
            to[written++] = had ? order->index[k] : order->begin + k;
    }
    spans->short_at = short_at;
    swap(&order->index, &order->scratch[1]);
}

/* *had: `index` holds an order; otherwise the rows are in their original order, from `begin` on. */
static iso_status shuffle(iso_order *order, const iso_order_op *op, int64_t epoch, bool *had)
{
    iso_status status = order_reserve(&order->index, order->capacity);
    bool plain = is_plain(order, op, *had);
    if (status == ISO_OK && !plain)
        status = reserve_scratch(order);
    if (status != ISO_OK)
        return status;
    if (plain)
        shuffle_plain(order, op, epoch);
    else
        shuffle_elements(order, op, epoch, *had);
    order->begin = 0;
    *had = true;
    return ISO_OK;
}

static void order_take(iso_order *order, const iso_order_op *op, bool had)
{
    order->spans = iso_spans_of_rows(op->count);
    if (had)
        memmove(order->index, order->index + op->n, (size_t)op->count * sizeof(int64_t));
    else
        order->begin += op->n;
}

iso_status iso_order_build(iso_order *order, const iso_spans *from, int64_t epoch)
{
    bool had = false;
    iso_status status = ISO_OK;
    if (order->capacity != from->rows)
        iso_order_free(order);
    order->capacity = from->rows;
    order->from = order->spans = *from;
    order->begin = 0;
    for (int i = 0; i < order->n_ops && status == ISO_OK; i++) {
        const iso_order_op *op = &order->ops[i];
        if (op->kind == ISO_ORDER_SHUFFLE)
            status = shuffle(order, op, epoch, &had);
        else if (op->kind == ISO_ORDER_BATCH)
            order->spans = batched(&order->spans, op->n, op->drop);
        else
            order_take(order, op, had);
    }
    return status;
}
