#include "runtime/data/level_impl.h"

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
    if (spec->components < 1 || spec->components > ISO_MAX_COMPONENTS)
        return iso_error(ISO_INVALID, "%s: %d components; 1 to %d", what, spec->components,
                         ISO_MAX_COMPONENTS);
    if (spec->inputs == 0) {
        spec->inputs = 1;
        spec->targets = spec->components > 1;
    }
    for (int i = 0; i < spec->components; i++) {
        iso_status status = finish_component(spec, i, rows, what);
        if (status != ISO_OK)
            return status;
    }
    return ISO_OK;
}

iso_status iso_level_create(const iso_level_ops *ops, const char *name, const iso_spec *spec, iso_level *up,
                            iso_order *in, void *impl, iso_level **level)
{
    iso_status status = ISO_OK;
    iso_level *fresh = iso_new(sizeof *fresh);
    char *copy = iso_strdup(name);
    if (!fresh || !copy) {
        iso_free(fresh);
        iso_free(copy);
        return iso_error(ISO_NO_MEMORY, "no memory for a stage of data set '%s'", name);
    }
    *fresh = (iso_level){.ops = ops, .references = 1, .name = copy, .spec = *spec};
    if (up) {
        fresh->threads = up->threads;
        fresh->in = *in;
        ISO_TRY(iso_order_build(&fresh->in, &up->spans, up->epoch));
        fresh->spans = fresh->in.spans;
        fresh->epoch = up->epoch;
        fresh->up = iso_level_hold(up);
        *in = (iso_order){0};
    }
    fresh->impl = impl;
    *level = fresh;
    return ISO_OK;
done:
    *in = fresh->in;
    iso_free(copy);
    iso_free(fresh);
    return status;
}

iso_level *iso_level_hold(iso_level *level)
{
    atomic_fetch_add(&level->references, 1);
    return level;
}

void iso_level_release(iso_level *level)
{
    if (!level || atomic_fetch_sub(&level->references, 1) > 1)
        return;
    if (level->ops->destroy)
        level->ops->destroy(level);
    iso_order_free(&level->in);
    iso_level_release(level->up);
    iso_free(level->name);
    iso_free(level);
}

iso_status iso_level_fetch(iso_level *level, const iso_rows *rows, void *const *out)
{
    iso_status status = ISO_OK;
    if (level->ops->fetch)
        return level->ops->fetch(level, rows, out);
    for (int i = 0; i < level->spec.components && status == ISO_OK; i++)
        status = level->ops->gather(level, i, rows, level->spec.dtype[i], out[i]);
    return status;
}

bool iso_level_is_live(const iso_level *level)
{
    for (; level && level->up; level = level->up)
        if (iso_order_is_live(&level->in))
            return true;
    return false;
}

/* Levels whose order is fixed may be shared with another data set, so they are left alone. */
iso_status iso_level_rewind(iso_level *level, int64_t epoch)
{
    iso_status status = ISO_OK;
    if (!iso_level_is_live(level) || level->epoch == epoch)
        return ISO_OK;
    ISO_TRY(iso_level_rewind(level->up, epoch));
    ISO_TRY(iso_order_build(&level->in, &level->up->spans, epoch));
    level->spans = level->in.spans;
    level->epoch = epoch;
done:
    return status;
}

iso_status iso_level_freeze(iso_level *level)
{
    iso_status status = ISO_OK;
    if (!iso_level_is_live(level))
        return ISO_OK;
    ISO_TRY(iso_level_freeze(level->up));
    iso_order_freeze(&level->in);
    ISO_TRY(iso_order_build(&level->in, &level->up->spans, 0));
    level->spans = level->in.spans;
    level->epoch = 0;
done:
    return status;
}

uint64_t iso_order_hash(const iso_order *order, uint64_t hash)
{
    for (int i = 0; i < order->ops; i++) {
        const iso_order_op *op = &order->op[i];
        uint64_t words[] = {op->kind, (uint64_t)op->n, (uint64_t)op->count, op->key, op->drop};
        hash = iso_hash_bytes(hash, words, sizeof words);
    }
    return hash;
}

/* A source in memory that came from no file is what its bytes are. */
static uint64_t hash_content(const iso_level *level, uint64_t hash)
{
    for (int i = 0; i < level->spec.components; i++)
        hash = iso_hash_bytes(hash, level->ops->peek(level, i, 0),
                              (size_t)level->spans.rows * level->spec.bytes[i]);
    return hash;
}

uint64_t iso_level_hash(const iso_level *level, uint64_t hash)
{
    if (level->up) {
        hash = iso_level_hash(level->up, hash);
        hash = iso_order_hash(&level->in, hash);
    }
    if (!level->up && level->identity == 0 && level->ops->peek)
        hash = hash_content(level, hash);
    hash = iso_hash_bytes(hash, &level->identity, sizeof level->identity);
    hash = iso_hash_bytes(hash, &level->spans.rows, sizeof level->spans.rows);
    for (int i = 0; i < level->spec.components; i++) {
        const iso_shape *shape = &level->spec.shape[i];
        uint64_t type = level->spec.dtype[i];
        hash = iso_hash_bytes(hash, &type, sizeof type);
        hash = iso_hash_bytes(hash, shape->dim, (size_t)shape->rank * sizeof shape->dim[0]);
    }
    return hash;
}

iso_status iso_bad_element(const iso_level *level, int component, int64_t row, const void *element,
                           iso_dtype dtype)
{
    char value[64];
    iso_element_text(level->spec.dtype[component], element, value, sizeof value);
    return iso_error(ISO_INVALID, "%s: component %d, row %" PRId64 ": %s is no %s", level->name, component,
                     row, value, iso_dtype_name(dtype));
}
