/* Rows that are stored in shares on the ranks. A rank reads its own share in place. Rows of other ranks are
 * fetched into windows, between steps, for whole batches at a time, and are read there. */
#include "runtime/data/local_rows_impl.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/control/control.h"
#include "collectives/row_exchange.h"
#include "runtime/base/hash.h"
#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/session/session.h"

/* Rows that were fetched in one round. */
typedef struct fragment {
    int64_t newest; /* needed for batches up to this one; -1: not needed any more */
    int64_t n_rows, room;
    int64_t *rows; /* row numbers, increasing */
    char *data;    /* [rows][row_bytes], as iso_pack_row writes them */
} fragment;

struct iso_row_window {
    iso_row_window *next; /* of the source */
    iso_node *source;
    fragment *fragments;
    int n_fragments;
    int64_t *wanted;
    int64_t count;
    iso_status status; /* of noting the rows */
};

typedef struct local_rows {
    iso_memory_rows memory;
    int64_t rows, begin;                          /* of this rank; number of its first row */
    size_t offset[ISO_MAX_COMPONENTS], row_bytes; /* of a row in a message */
    iso_row_exchange *exchange;
    pthread_rwlock_t lock; /* of the windows and their fragments */
    iso_row_window *windows;
} local_rows;

/* ---- reading ---- */

static bool is_own(const local_rows *s, int64_t row)
{
    return row >= s->begin && row < s->begin + s->rows;
}

static int64_t find_in_fragment(const fragment *p, int64_t row)
{
    int64_t low = 0, high = p->newest < 0 ? 0 : p->n_rows;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (p->rows[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low < p->n_rows && p->newest >= 0 && p->rows[low] == row ? low : -1;
}

static const char *find_in_window(const iso_row_window *w, int64_t row, size_t row_bytes)
{
    for (int i = 0; i < w->n_fragments; i++) {
        int64_t at = find_in_fragment(&w->fragments[i], row);
        if (at >= 0)
            return w->fragments[i].data + (size_t)at * row_bytes;
    }
    return NULL;
}

static const char *own_row(const iso_node *node, int component, int64_t row)
{
    const local_rows *s = node->impl;
    return (const char *)s->memory.data[component] + (size_t)(row - s->begin) * node->spec.bytes[component];
}

/* The address of a row. The lock is held. */
static const char *locate(const iso_node *node, int component, int64_t row)
{
    const local_rows *s = node->impl;
    if (is_own(s, row))
        return own_row(node, component, row);
    for (const iso_row_window *w = s->windows; w; w = w->next) {
        const char *found = find_in_window(w, row, s->row_bytes);
        if (found)
            return found + s->offset[component];
    }
    return NULL;
}

static iso_status not_here(const iso_node *node, int64_t row)
{
    const local_rows *s = node->impl;
    return iso_error(ISO_INVALID,
                     "%s: row %" PRId64 " is in the share of rank %d, and was not fetched: call the batch's "
                     "`prepare` on every rank before its rows are read",
                     node->name, row, iso_row_exchange_rank_of(s->exchange, row));
}

/* Returns the n for which rows [i, i + n) of the list are contiguous in this rank's share. */
static int64_t own_run(const local_rows *s, const iso_rows *rows, int64_t i)
{
    int64_t n = 1, row = iso_rows_at(rows, i);
    if (!is_own(s, row))
        return 1;
    while (i + n < rows->count && iso_rows_at(rows, i + n) == row + n && is_own(s, row + n))
        n++;
    return n;
}

static iso_status gather_locked(iso_node *node, int component, const iso_rows *rows, iso_dtype dtype,
                                char *out)
{
    const local_rows *s = node->impl;
    const iso_spec *spec = &node->spec;
    int64_t elements = spec->elements[component], element = 0;
    size_t bytes = (size_t)(rows->part ? iso_box_count(rows->part->box) : elements) * iso_dtype_size(dtype);
    for (int64_t i = 0, n; i < rows->count; i += n) {
        int64_t row = iso_rows_at(rows, i);
        const char *at = locate(node, component, row);
        n = own_run(s, rows, i);
        if (!at)
            return not_here(node, row);
        iso_rows here = {.count = n, .part = rows->part};
        int64_t bad =
            iso_gather(spec->dtype[component], at, elements, &here, dtype, out + (size_t)i * bytes, &element);
        if (bad >= 0)
            return iso_bad_element(node, component, row + bad,
                                   at + (size_t)bad * spec->bytes[component] +
                                       (size_t)element * iso_dtype_size(spec->dtype[component]),
                                   dtype);
    }
    return ISO_OK;
}

static iso_status local_rows_gather(iso_node *node, int component, const iso_rows *rows, iso_dtype dtype,
                                    void *out)
{
    local_rows *s = node->impl;
    pthread_rwlock_rdlock(&s->lock);
    iso_status status = gather_locked(node, component, rows, dtype, out);
    pthread_rwlock_unlock(&s->lock);
    return status;
}

/* ---- the source ---- */

static void pack(const void *share, int64_t row, void *out)
{
    const iso_node *node = share;
    const local_rows *s = node->impl;
    for (int i = 0; i < node->spec.n_components; i++)
        memcpy((char *)out + s->offset[i], own_row(node, i, s->begin + row), node->spec.bytes[i]);
}

static void local_rows_destroy(iso_node *node)
{
    local_rows *s = node->impl;
    iso_row_exchange_destroy(s->exchange);
    iso_memory_rows_free(&s->memory);
    pthread_rwlock_destroy(&s->lock);
    iso_free(s);
}

static const iso_node_ops local_rows_ops = {.gather = local_rows_gather, .destroy = local_rows_destroy};

iso_status iso_local_rows_create(const char *name, const iso_spec *spec, int64_t rows, int64_t all_rows,
                                 const iso_memory_rows *memory, iso_node **node)
{
    enum { ALIGN = 8 };
    local_rows *s = iso_new(sizeof *s);
    if (!s)
        return iso_no_memory("data set '%s'", name);
    iso_status status = iso_node_create(&local_rows_ops, name, spec, NULL, NULL, s, node);
    if (status != ISO_OK) {
        iso_free(s);
        return status;
    }
    s->memory = *memory;
    s->rows = rows;
    for (int i = 0; i < spec->n_components; i++) {
        s->offset[i] = s->row_bytes;
        s->row_bytes += (spec->bytes[i] + ALIGN - 1) / ALIGN * ALIGN;
    }
    pthread_rwlock_init(&s->lock, NULL);
    (*node)->spans = iso_spans_of_rows(all_rows);
    (*node)->cheap = true;
    return ISO_OK;
}

iso_status iso_local_rows_connect(iso_context *ctx, iso_node *node)
{
    local_rows *s = node->impl;
    iso_status status =
        iso_row_exchange_create(ctx, iso_communicator(ctx), s->rows, s->row_bytes, pack, node, &s->exchange);
    if (status == ISO_OK)
        s->begin = iso_row_exchange_first(s->exchange)[iso_rank(ctx)];
    return status;
}

iso_node *iso_local_rows_below(iso_node *top)
{
    while (top->up)
        top = top->up;
    return top->ops == &local_rows_ops ? top : NULL;
}

/* A sum over rows, so that it does not depend on the shares. */
static uint64_t hash_rows(const iso_node *source)
{
    const local_rows *s = source->impl;
    uint64_t sum = 0;
    for (int64_t row = s->begin; row < s->begin + s->rows; row++) {
        uint64_t hash = (uint64_t)row;
        for (int i = 0; i < source->spec.n_components; i++)
            hash = iso_hash_bytes(hash, own_row(source, i, row), source->spec.bytes[i]);
        sum += iso_hash_mix(hash);
    }
    return sum;
}

iso_status iso_local_rows_identify(iso_context *ctx, iso_node *source)
{
    uint64_t sum = hash_rows(source);
    iso_status status = iso_all_reduce(ctx, ISO_REDUCE_SUM, ISO_I64, &sum, 1);
    if (status == ISO_OK)
        source->identity = sum | 1;
    return status;
}

/* ---- windows ---- */

iso_status iso_row_window_create(iso_node *source, iso_row_window **window)
{
    local_rows *s = source->impl;
    iso_row_window *w = iso_new(sizeof *w);
    if (!w)
        return iso_no_memory("rows of other ranks");
    w->source = iso_node_hold(source);
    pthread_rwlock_wrlock(&s->lock);
    w->next = s->windows;
    s->windows = w;
    pthread_rwlock_unlock(&s->lock);
    *window = w;
    return ISO_OK;
}

void iso_row_window_destroy(iso_row_window *w)
{
    if (!w)
        return;
    local_rows *s = w->source->impl;
    pthread_rwlock_wrlock(&s->lock);
    iso_row_window **at = &s->windows;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    pthread_rwlock_unlock(&s->lock);
    for (int i = 0; i < w->n_fragments; i++) {
        iso_free(w->fragments[i].rows);
        iso_free(w->fragments[i].data);
    }
    iso_free(w->fragments);
    iso_free(w->wanted);
    iso_node_release(w->source);
    iso_free(w);
}

static void forget(iso_row_window *w, int64_t oldest)
{
    local_rows *s = w->source->impl;
    pthread_rwlock_wrlock(&s->lock);
    for (int i = 0; i < w->n_fragments; i++)
        if (w->fragments[i].newest < oldest)
            w->fragments[i].newest = -1;
    pthread_rwlock_unlock(&s->lock);
}

void iso_row_window_clear(iso_row_window *w)
{
    forget(w, INT64_MAX);
}

static void want_row(iso_row_window *w, int64_t row)
{
    const local_rows *s = w->source->impl;
    if (is_own(s, row) || w->status != ISO_OK || find_in_window(w, row, s->row_bytes))
        return;
    w->status = iso_list_reserve(w->wanted, w->count, 1, "rows of other ranks");
    if (w->status == ISO_OK)
        w->wanted[w->count++] = row;
}

void iso_row_window_want(iso_row_window *w, iso_node *top, const iso_rows *rows)
{
    int64_t last = -1;
    for (int64_t i = 0; i < rows->count; i++) {
        int64_t row = iso_rows_at(rows, i);
        if (!top->up) {
            want_row(w, row);
            continue;
        }
        int64_t element = iso_span_of_row(&top->spans, row);
        if (element == last || (top->ops->is_made && top->ops->is_made(top, element)))
            continue;
        last = element;
        iso_rows below = iso_order_rows(&top->in, iso_span_begin(&top->spans, element),
                                        iso_span_rows(&top->spans, element), rows->epoch);
        iso_row_window_want(w, top->up, &below);
    }
}

static int compare_rows(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void sort_wanted(iso_row_window *w)
{
    int64_t kept = 0;
    if (w->count > 0)
        qsort(w->wanted, (size_t)w->count, sizeof *w->wanted, compare_rows);
    for (int64_t i = 0; i < w->count; i++)
        if (kept == 0 || w->wanted[i] != w->wanted[kept - 1])
            w->wanted[kept++] = w->wanted[i];
    w->count = kept;
}

static fragment *idle_fragment(iso_row_window *w)
{
    for (int i = 0; i < w->n_fragments; i++)
        if (w->fragments[i].newest < 0)
            return &w->fragments[i];
    local_rows *s = w->source->impl;
    pthread_rwlock_wrlock(&s->lock);
    fragment fresh = {.newest = -1};
    iso_status status = iso_list_add(w->fragments, w->n_fragments, fresh, "rows of other ranks");
    pthread_rwlock_unlock(&s->lock);
    return status == ISO_OK ? &w->fragments[w->n_fragments - 1] : NULL;
}

static iso_status reserve_fragment(iso_row_window *w, fragment **room)
{
    local_rows *s = w->source->impl;
    size_t bytes = 0;
    fragment *p = idle_fragment(w);
    iso_status status = p ? w->status : ISO_NO_MEMORY;
    if (status == ISO_OK && p->room < w->count) {
        iso_free(p->rows);
        iso_free(p->data);
        *p = (fragment){.newest = -1};
        status = iso_size_mul((size_t)w->count, s->row_bytes, "rows of other ranks", &bytes);
        p->rows = status == ISO_OK ? iso_new((size_t)w->count * sizeof *p->rows) : NULL;
        p->data = p->rows ? iso_new(bytes) : NULL;
        p->room = p->data ? w->count : 0;
        status = status == ISO_OK && !p->data ? ISO_NO_MEMORY : status;
    }
    *room = p;
    return status == ISO_OK ? ISO_OK
                            : iso_error(status, "no memory for %" PRId64 " rows of other ranks", w->count);
}

iso_status iso_row_window_fetch(iso_row_window *w, int64_t oldest, int64_t newest)
{
    local_rows *s = w->source->impl;
    fragment *p = NULL;
    iso_status status = ISO_OK;
    forget(w, oldest);
    sort_wanted(w);
    if (w->count > 0 || w->status != ISO_OK)
        status = reserve_fragment(w, &p);
    bool asks = status == ISO_OK && p;
    if (asks)
        memcpy(p->rows, w->wanted, (size_t)w->count * sizeof *p->rows);
    iso_status fetched = iso_row_exchange_fetch(s->exchange, asks ? p->rows : NULL, asks ? w->count : 0,
                                                asks ? p->data : NULL);
    if (asks && fetched == ISO_OK) {
        pthread_rwlock_wrlock(&s->lock);
        p->n_rows = w->count;
        p->newest = newest;
        pthread_rwlock_unlock(&s->lock);
    }
    w->count = 0;
    w->status = ISO_OK;
    return status == ISO_OK ? fetched : status;
}

iso_status iso_local_rows_serve(iso_node *source)
{
    local_rows *s = source->impl;
    return iso_row_exchange_fetch(s->exchange, NULL, 0, NULL);
}
