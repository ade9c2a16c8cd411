/* The results of a user's function on each element. They are not kept here; see prefetch.c and
 * cache_node.c. */
#include <inttypes.h>
#include <pthread.h>

#include "runtime/base/memory.h"
#include "runtime/base/program_call.h"
#include "runtime/data/data.h"
#include "runtime/data/node_impl.h"

/* Memory for one element of the input, for one thread; reused for the next element. */
typedef struct scratch {
    struct scratch *next;
    void *data[ISO_MAX_COMPONENTS];
} scratch;

typedef struct map {
    iso_map_fn function;
    void *user, *owned; /* owned: user, or NULL */
    pthread_mutex_t lock;
    scratch *idle;
} map;

static void scratch_free(scratch *s)
{
    for (int i = 0; s && i < ISO_MAX_COMPONENTS; i++)
        iso_free(s->data[i]);
    iso_free(s);
}

static iso_status scratch_create(const iso_node *node, scratch **made)
{
    const iso_node *up = node->up;
    size_t rows = node->spans.batch ? (size_t)node->spans.batch : 1, bytes = 0;
    iso_status status = ISO_OK;
    scratch *s = iso_new(sizeof *s);
    if (!s)
        return iso_no_memory("the map of data set '%s'", node->name);
    for (int i = 0; i < up->spec.n_components; i++) {
        ISO_TRY(iso_size_mul(rows, up->spec.bytes[i], "an element", &bytes));
        ISO_TRY(iso_alloc(bytes, "an element of a map's input", &s->data[i]));
    }
    *made = s;
    return ISO_OK;
done:
    scratch_free(s);
    return status;
}

static iso_status scratch_get(const iso_node *node, scratch **taken)
{
    map *m = node->impl;
    pthread_mutex_lock(&m->lock);
    scratch *s = m->idle;
    if (s)
        m->idle = s->next;
    pthread_mutex_unlock(&m->lock);
    if (!s)
        return scratch_create(node, taken);
    *taken = s;
    return ISO_OK;
}

static void scratch_put(const iso_node *node, scratch *s)
{
    map *m = node->impl;
    pthread_mutex_lock(&m->lock);
    s->next = m->idle;
    m->idle = s;
    pthread_mutex_unlock(&m->lock);
}

/* Allocates scratch memory for the workers and the caller, so that no step allocates. Slots that read at the same
 * time may need more, once. */
static iso_status prepare_scratch(iso_node *node)
{
    iso_status status = ISO_OK;
    for (int i = 0; i <= node->n_threads && status == ISO_OK; i++) {
        scratch *s = NULL;
        status = scratch_create(node, &s);
        if (status == ISO_OK)
            scratch_put(node, s);
    }
    return status;
}

/* Lends a single row in memory to the function without a copy. */
static bool lend(const iso_node *up, const iso_rows *rows, iso_element *in)
{
    if (!up->ops->peek || (rows->count > 1 && rows->index))
        return false;
    for (int i = 0; i < up->spec.n_components; i++)
        in->data[i] = up->ops->peek(up, i, iso_rows_at(rows, 0));
    return true;
}

static iso_status compute(iso_node *node, int64_t element, int64_t epoch, scratch *s, void *const *out)
{
    map *m = node->impl;
    iso_node *up = node->up;
    int64_t begin = iso_span_begin(&node->spans, element), count = iso_span_rows(&node->spans, element);
    iso_rows rows = iso_order_rows(&node->in, begin, count, epoch);
    iso_element in = {.index = element, .epoch = epoch, .rows = count, .components = up->spec.n_components};
    for (int i = 0; i < in.components; i++) {
        in.data[i] = s->data[i];
        in.shape[i] = up->spec.shape[i];
        in.dtype[i] = up->spec.dtype[i];
    }
    if (!lend(up, &rows, &in)) {
        iso_status status = iso_node_fetch(up, &rows, s->data);
        if (status != ISO_OK)
            return status;
    }
    iso_status status = ISO_PROGRAM_CALL(m->function(&in, out, m->user), "the function");
    return status == ISO_OK
               ? ISO_OK
               : iso_error_prefix(status, "%s: map of element %" PRId64 ": ", node->name, element);
}

static iso_status fetch(iso_node *node, const iso_rows *rows, void *const *out)
{
    scratch *s = NULL;
    iso_status status = scratch_get(node, &s);
    if (status != ISO_OK)
        return status;
    for (int64_t i = 0; i < rows->count && status == ISO_OK;) {
        int64_t element = iso_span_of_row(&node->spans, iso_rows_at(rows, i));
        void *to[ISO_MAX_COMPONENTS];
        for (int c = 0; c < node->spec.n_components; c++)
            to[c] = (char *)out[c] + (size_t)i * node->spec.bytes[c];
        status = compute(node, element, rows->epoch, s, to);
        i += iso_span_rows(&node->spans, element);
    }
    scratch_put(node, s);
    return status;
}

static void map_node_destroy(iso_node *node)
{
    map *m = node->impl;
    while (m->idle) {
        scratch *s = m->idle;
        m->idle = s->next;
        scratch_free(s);
    }
    pthread_mutex_destroy(&m->lock);
    iso_free(m->owned);
    iso_free(m);
}

static const iso_node_ops map_ops = {.fetch = fetch, .destroy = map_node_destroy};

static iso_status output_spec(const iso_node *up, const iso_order *in, const iso_dataset_map_options *options,
                              iso_spec *spec)
{
    spec->n_components = options->components ? options->components : up->spec.n_components;
    if (spec->n_components < 1 || spec->n_components > ISO_MAX_COMPONENTS)
        return iso_error(ISO_INVALID, "map: %d components; 1 to %d", spec->n_components, ISO_MAX_COMPONENTS);
    spec->n_inputs = options->inputs;
    spec->n_targets = options->targets;
    if (spec->n_inputs == 0 && spec->n_components == up->spec.n_components) {
        spec->n_inputs = up->spec.n_inputs;
        spec->n_targets = up->spec.n_targets;
    }
    if (spec->n_inputs < 0 || spec->n_targets < 0 || spec->n_inputs + spec->n_targets > spec->n_components)
        return iso_error(ISO_INVALID, "map: %d inputs and %d targets of %d components", spec->n_inputs,
                         spec->n_targets, spec->n_components);
    for (int i = 0; i < spec->n_components; i++) {
        bool given = options->dtype[i] != ISO_DTYPE_NONE;
        if (!given && i >= up->spec.n_components)
            return iso_error(ISO_INVALID,
                             "map: component %d needs a shape and a type: the input has %d components", i,
                             up->spec.n_components);
        spec->shape[i] = given ? options->shape[i] : up->spec.shape[i];
        spec->dtype[i] = given ? options->dtype[i] : up->spec.dtype[i];
    }
    return iso_spec_finish(spec, in->spans.rows, "map");
}

iso_status iso_map_node(iso_node *up, iso_order *in, const iso_dataset_map_options *options, iso_node **node)
{
    iso_spec spec = {0};
    if (!options->function)
        return iso_error(ISO_INVALID, "iso_dataset_map: function is NULL");
    if (options->threads < 0)
        return iso_error(ISO_INVALID, "map: %d threads; there must be at least 1, or 0 for the default",
                         options->threads);
    iso_status status = output_spec(up, in, options, &spec);
    if (status != ISO_OK)
        return status;
    map *m = iso_new(sizeof *m);
    if (!m)
        return iso_no_memory("a map");
    status = iso_node_create(&map_ops, up->name, &spec, up, in, m, node);
    if (status != ISO_OK) {
        iso_free(m);
        return status;
    }
    m->function = options->function;
    m->user = options->user;
    pthread_mutex_init(&m->lock, NULL);
    if (options->threads > (*node)->n_threads)
        (*node)->n_threads = options->threads;
    status = prepare_scratch(*node);
    if (status != ISO_OK) {
        iso_node_release(*node);
        *node = NULL;
    }
    return status;
}

void iso_map_node_own(iso_node *node, void *user, uint64_t identity)
{
    map *m = node->impl;
    m->owned = user;
    node->identity = identity;
}
