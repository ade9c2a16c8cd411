/* A cache in memory: the thread that first asks for an element computes it, and it is kept. */
#include <pthread.h>

#include "runtime/base/memory.h"
#include "runtime/data/node_impl.h"

enum { EMPTY, BUSY, FULL };

typedef struct cache {
    iso_memory_rows memory;
    _Atomic unsigned char *state; /* of each element */
    _Atomic int64_t full;         /* elements */
    pthread_mutex_t lock;
    pthread_cond_t changed;
} cache;

static iso_status cache_node_fill(iso_node *node, int64_t element)
{
    cache *c = node->impl;
    int64_t begin = iso_span_begin(&node->spans, element);
    iso_rows rows = iso_order_rows(&node->in, begin, iso_span_rows(&node->spans, element), 0);
    void *out[ISO_MAX_COMPONENTS];
    for (int i = 0; i < node->spec.n_components; i++)
        out[i] = (char *)c->memory.owned[i] + (size_t)begin * node->spec.bytes[i];
    return iso_node_fetch(node->up, &rows, out);
}

/* True if the caller must fill the element; false if it is full, after waiting for a thread that fills it. */
static bool claim(cache *c, int64_t element)
{
    pthread_mutex_lock(&c->lock);
    while (c->state[element] == BUSY)
        pthread_cond_wait(&c->changed, &c->lock);
    bool mine = c->state[element] == EMPTY;
    if (mine)
        c->state[element] = BUSY;
    pthread_mutex_unlock(&c->lock);
    return mine;
}

static void settle(cache *c, int64_t element, bool filled)
{
    pthread_mutex_lock(&c->lock);
    atomic_store(&c->state[element], filled ? FULL : EMPTY);
    if (filled)
        atomic_fetch_add(&c->full, 1);
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

static iso_status ensure(iso_node *node, const iso_rows *rows)
{
    cache *c = node->impl;
    if (atomic_load_explicit(&c->full, memory_order_acquire) == node->spans.elements)
        return ISO_OK;
    for (int64_t i = 0; i < rows->count; i++) {
        int64_t element = iso_span_of_row(&node->spans, iso_rows_at(rows, i));
        if (atomic_load_explicit(&c->state[element], memory_order_acquire) == FULL || !claim(c, element))
            continue;
        iso_status status = cache_node_fill(node, element);
        settle(c, element, status == ISO_OK);
        if (status != ISO_OK)
            return status;
    }
    return ISO_OK;
}

static iso_status cache_node_gather(iso_node *node, int component, const iso_rows *rows, iso_dtype dtype,
                                    void *out)
{
    cache *c = node->impl;
    const iso_spec *spec = &node->spec;
    iso_dtype from = spec->dtype[component];
    int64_t element = 0;
    iso_status status = ensure(node, rows);
    if (status != ISO_OK)
        return status;
    int64_t row =
        iso_gather(from, c->memory.owned[component], spec->elements[component], rows, dtype, out, &element);
    if (row < 0)
        return ISO_OK;
    const char *bad = (const char *)c->memory.owned[component] + (size_t)row * spec->bytes[component] +
                      (size_t)element * iso_dtype_size(from);
    return iso_bad_element(node, component, row, bad, dtype);
}

static bool is_made(const iso_node *node, int64_t element)
{
    const cache *c = node->impl;
    return atomic_load_explicit(&c->state[element], memory_order_acquire) == FULL;
}

static void cache_free(cache *c)
{
    iso_memory_rows_free(&c->memory);
    iso_free((void *)c->state);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->changed);
    iso_free(c);
}

static void cache_node_destroy(iso_node *node)
{
    cache_free(node->impl);
}

static const iso_node_ops cache_ops = {
    .gather = cache_node_gather, .ensure = ensure, .is_made = is_made, .destroy = cache_node_destroy};

static iso_status cache_create(const iso_spec *spec, const iso_spans *spans, cache **made)
{
    iso_status status = ISO_OK;
    size_t bytes = 0;
    cache *c = iso_new(sizeof *c);
    if (!c)
        return iso_no_memory("a cache");
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    for (int i = 0; i < spec->n_components; i++) {
        ISO_TRY(iso_size_mul((size_t)spans->rows, spec->bytes[i], "the cache", &bytes));
        ISO_TRY(iso_alloc(bytes, "the cache of a data set", &c->memory.owned[i]));
    }
    ISO_TRY(iso_alloc((size_t)spans->elements, "the cache of a data set", (void **)&c->state));
    *made = c;
    return ISO_OK;
done:
    cache_free(c);
    return status;
}

iso_status iso_cache_node(iso_node *up, iso_order *in, iso_node **node)
{
    cache *c = NULL;
    iso_status status = cache_create(&up->spec, &in->spans, &c);
    if (status != ISO_OK)
        return status;
    status = iso_node_create(&cache_ops, up->name, &up->spec, up, in, c, node);
    if (status != ISO_OK)
        cache_free(c);
    return status;
}
