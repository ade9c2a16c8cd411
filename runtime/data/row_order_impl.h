/* The order in which a node's rows are passed on: shuffle, batch and split work on row numbers alone. */
#ifndef ISO_DATA_ROW_ORDER_IMPL_H
#define ISO_DATA_ROW_ORDER_IMPL_H

#include "runtime/base/types.h"
#include "runtime/data/convert_rows_impl.h"

enum { ISO_ORDER_OPS = 16 };

typedef enum iso_order_kind { ISO_ORDER_SHUFFLE, ISO_ORDER_BATCH, ISO_ORDER_TAKE } iso_order_kind;

typedef struct iso_order_op {
    iso_order_kind kind;
    int64_t n;     /* buffer of the shuffle; rows of the batch; first row of the split */
    int64_t count; /* rows of the split */
    int number;    /* of the shuffle, among those of the data set */
    uint64_t key;  /* of the shuffle */
    uint64_t seed; /* from which the key was made, for messages */
    bool once;     /* the shuffle has the order of epoch 0 in every epoch */
    bool drop;     /* leaves out the last batch if it is shorter */
} iso_order_op;

/* The grouping of rows in elements: `batch` rows each, except one that may have fewer. */
typedef struct iso_spans {
    int64_t rows;  /* in all */
    int64_t batch; /* 0: an element is a row */
    int64_t elements;
    int64_t short_at;   /* the number of the shorter element; `elements` if there is none */
    int64_t short_rows; /* its rows */
} iso_spans;

typedef struct iso_order {
    iso_order_op ops[ISO_ORDER_OPS];
    int n_ops;
    iso_spans from;  /* the elements that come in */
    iso_spans spans; /* the elements that go out, in the epoch that was built */
    int64_t begin;   /* row i going out is row begin + i coming in, */
    int64_t *index;  /* or index[i], where this is not NULL */
    int64_t *scratch[2];
    int64_t capacity; /* rows for which index and scratch, if not NULL, are allocated */
} iso_order;

iso_spans iso_spans_of_rows(int64_t rows);
int64_t iso_span_begin(const iso_spans *spans, int64_t element);
int64_t iso_span_rows(const iso_spans *spans, int64_t element);
/* The element that contains a row. */
int64_t iso_span_of_row(const iso_spans *spans, int64_t row);

/* The key of a data set's shuffle `number`. */
uint64_t iso_shuffle_key(uint64_t seed, int number);

/* An order that changes nothing. */
void iso_order_begin(iso_order *order, const iso_spans *from);
void iso_order_free(iso_order *order);
/* ISO_INVALID: too many ops, or an op that is not possible. */
iso_status iso_order_add(iso_order *order, const iso_order_op *op);
/* Whether it changes with the epoch. */
bool iso_order_is_live(const iso_order *order);
/* Every shuffle keeps the order of epoch 0 from now on. */
void iso_order_freeze(iso_order *order);
/* Computes the order of an epoch. from: the elements that come in, in this epoch. */
iso_status iso_order_build(iso_order *order, const iso_spans *from, int64_t epoch);
/* A copy with the same ops, not built. */
void iso_order_copy(const iso_order *order, iso_order *copy);

/* Rows [begin, begin + count) going out, as rows coming in. */
static inline iso_rows iso_order_rows(const iso_order *order, int64_t begin, int64_t count, int64_t epoch)
{
    return (iso_rows){.index = order->index ? order->index + begin : NULL,
                      .begin = order->begin + begin,
                      .count = count,
                      .epoch = epoch};
}

#endif
