#include "runtime/data/node_impl.h"

#include <inttypes.h>

#include "runtime/base/hash.h"
#include "runtime/base/memory.h"

static iso_status finish_component(iso_spec *spec, int component, int64_t rows, const char *what)
{
    const iso_shape *shape = &spec->shape[component];
    char text[128];
    size_t all;
    iso_shape_text(shape, text, sizeof text);
    if (shape->rank < 0 || shape->rank >= ISO_MAX_RANK)
        return iso_error(ISO_INVALID, "%s: a row of %d dimensions; at most %d", what, shape->rank,
                         ISO_MAX_RANK - 1);
    for (int i = 0; i < shape->rank; i++)
        if (shape->dim[i] < 1)
            return iso_error(ISO_INVALID, "%s: rows of shape %s: dimension %d is %" PRId64, what, text, i,
                             shape->dim[i]);
    if (iso_dtype_size(spec->dtype[component]) == 0)
        return iso_error(ISO_INVALID, "%s: component %d has no element type (%d)", what, component,
                         spec->dtype[component]);
    if (iso_shape_count(shape, &spec->elements[component]) != ISO_OK ||
        __builtin_mul_overflow((size_t)spec->elements[component], iso_dtype_size(spec->dtype[component]),
                               &spec->bytes[component]) ||
        __builtin_mul_overflow(spec->bytes[component], (size_t)rows, &all) || all > PTRDIFF_MAX)
        return iso_error(ISO_INVALID, "%s: %" PRId64 " rows of shape %s overflow", what, rows, text);
    return ISO_OK;
}

iso_status iso_spec_finish(iso_spec *spec, int64_t rows, const char *what)
{
    if (rows < 1)
        return iso_error(ISO_INVALID, "%s: %" PRId64 " rows; at least 1", what, rows);
    if (spec->n_components < 1 || spec->n_components > ISO_MAX_COMPONENTS)
        return iso_error(ISO_INVALID, "%s: %d components; 1 to %d", what, spec->n_components,
                         ISO_MAX_COMPONENTS);
    if (spec->n_inputs == 0) {
        spec->n_inputs = 1;
        spec->n_targets = spec->n_components > 1;
    }
    for (int i = 0; i < spec->n_components; i++) {
        iso_status status = finish_component(spec, i, rows, what);
        if (status != ISO_OK)
            return status;
    }
    return ISO_OK;
}

iso_status iso_node_create(const iso_node_ops *ops, const char *name, const iso_spec *spec, iso_node *up,
                           iso_order *in, void *impl, iso_node **node)
{
    iso_status status = ISO_OK;
    iso_node *fresh = iso_new(sizeof *fresh);
    char *copy = iso_strdup(name);
    if (!fresh || !copy) {
        iso_free(fresh);
        iso_free(copy);
        return iso_no_memory("a stage of data set '%s'", name);
    }
    *fresh = (iso_node){.ops = ops, .references = 1, .name = copy, .spec = *spec};
    if (up) {
        fresh->n_threads = up->n_threads;
        fresh->in = *in;
        ISO_TRY(iso_order_build(&fresh->in, &up->spans, up->epoch));
        fresh->spans = fresh->in.spans;
        fresh->epoch = up->epoch;
        fresh->up = iso_node_hold(up);
        *in = (iso_order){0};
    }
    fresh->impl = impl;
    *node = fresh;
    return ISO_OK;
done:
    *in = fresh->in;
    iso_free(copy);
    iso_free(fresh);
    return status;
}

iso_node *iso_node_hold(iso_node *node)
{
    atomic_fetch_add(&node->references, 1);
    return node;
}

void iso_node_release(iso_node *node)
{
    if (!node || atomic_fetch_sub(&node->references, 1) > 1)
        return;
    if (node->ops->destroy)
        node->ops->destroy(node);
    iso_order_free(&node->in);
    iso_node_release(node->up);
    iso_free(node->name);
    iso_free(node);
}

iso_status iso_node_fetch(iso_node *node, const iso_rows *rows, void *const *out)
{
    iso_status status = ISO_OK;
    if (node->ops->fetch)
        return node->ops->fetch(node, rows, out);
    for (int i = 0; i < node->spec.n_components && status == ISO_OK; i++)
        status = node->ops->gather(node, i, rows, node->spec.dtype[i], out[i]);
    return status;
}

bool iso_node_is_live(const iso_node *node)
{
    for (; node && node->up; node = node->up)
        if (iso_order_is_live(&node->in))
            return true;
    return false;
}

/* Nodes whose order is fixed may be shared with another data set, so they are not changed. */
iso_status iso_node_rewind(iso_node *node, int64_t epoch)
{
    iso_status status = ISO_OK;
    if (!iso_node_is_live(node) || node->epoch == epoch)
        return ISO_OK;
    ISO_TRY(iso_node_rewind(node->up, epoch));
    ISO_TRY(iso_order_build(&node->in, &node->up->spans, epoch));
    node->spans = node->in.spans;
    node->epoch = epoch;
done:
    return status;
}

iso_status iso_node_freeze(iso_node *node)
{
    iso_status status = ISO_OK;
    if (!iso_node_is_live(node))
        return ISO_OK;
    ISO_TRY(iso_node_freeze(node->up));
    iso_order_freeze(&node->in);
    ISO_TRY(iso_order_build(&node->in, &node->up->spans, 0));
    node->spans = node->in.spans;
    node->epoch = 0;
done:
    return status;
}

uint64_t iso_order_hash_with_seed(const iso_order *order, uint64_t from, uint64_t to, uint64_t hash)
{
    for (int i = 0; i < order->n_ops; i++) {
        const iso_order_op *op = &order->ops[i];
        const bool shuffle = op->kind == ISO_ORDER_SHUFFLE;
        uint64_t flags = (op->drop ? 1 : 0) | (shuffle && op->once ? 2 : 0),
                 key = shuffle && op->seed == from ? iso_shuffle_key(to, op->number) : op->key,
                 words[] = {op->kind, (uint64_t)op->n, (uint64_t)op->count, key, flags};
        hash = iso_hash_bytes(hash, words, sizeof words);
    }
    return hash;
}

uint64_t iso_order_hash(const iso_order *order, uint64_t hash)
{
    return iso_order_hash_with_seed(order, 0, 0, hash);
}

/* A source in memory that does not come from a file is identified by its bytes. */
static uint64_t hash_content(const iso_node *node, uint64_t hash)
{
    for (int i = 0; i < node->spec.n_components; i++)
        hash =
            iso_hash_bytes(hash, node->ops->peek(node, i, 0), (size_t)node->spans.rows * node->spec.bytes[i]);
    return hash;
}

uint64_t iso_node_hash(const iso_node *node, uint64_t hash)
{
    if (node->up) {
        hash = iso_node_hash(node->up, hash);
        hash = iso_order_hash(&node->in, hash);
    }
    if (!node->up && node->identity == 0 && node->ops->peek)
        hash = hash_content(node, hash);
    hash = iso_hash_bytes(hash, &node->identity, sizeof node->identity);
    hash = iso_hash_bytes(hash, &node->spans.rows, sizeof node->spans.rows);
    for (int i = 0; i < node->spec.n_components; i++) {
        const iso_shape *shape = &node->spec.shape[i];
        uint64_t type = node->spec.dtype[i];
        hash = iso_hash_bytes(hash, &type, sizeof type);
        hash = iso_hash_bytes(hash, shape->dim, (size_t)shape->rank * sizeof shape->dim[0]);
    }
    return hash;
}

iso_status iso_bad_element(const iso_node *node, int component, int64_t row, const void *element,
                           iso_dtype dtype)
{
    char value[64];
    const char *name = node->spec.name[component];
    iso_element_text(node->spec.dtype[component], element, value, sizeof value);
    return iso_error(ISO_INVALID, "%s: component %d%s%s%s, row %" PRId64 ": %s is not a value of %s",
                     node->name, component, *name ? " (" : "", name, *name ? ")" : "", row, value,
                     iso_dtype_name(dtype));
}
