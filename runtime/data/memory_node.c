/* Rows in memory, in the stored type. */
#include <sys/mman.h>

#include "runtime/base/memory.h"
#include "runtime/data/node_impl.h"

void iso_memory_rows_free(iso_memory_rows *memory)
{
    for (int i = 0; i < ISO_MAX_COMPONENTS; i++)
        iso_free(memory->owned[i]);
    if (memory->mapping)
        munmap(memory->mapping, memory->mapping_bytes);
    *memory = (iso_memory_rows){0};
}

static const char *row_at(const iso_node *node, int component, int64_t row)
{
    const iso_memory_rows *memory = node->impl;
    return (const char *)memory->data[component] + (size_t)row * node->spec.bytes[component];
}

static iso_status memory_node_gather(iso_node *node, int component, const iso_rows *rows, iso_dtype dtype,
                                     void *out)
{
    const iso_memory_rows *memory = node->impl;
    const iso_spec *spec = &node->spec;
    int64_t element = 0;
    int64_t row = iso_gather(spec->dtype[component], memory->data[component], spec->elements[component], rows,
                             dtype, out, &element);
    if (row < 0)
        return ISO_OK;
    const char *bad = row_at(node, component, row) + (size_t)element * iso_dtype_size(spec->dtype[component]);
    return iso_bad_element(node, component, row, bad, dtype);
}

static const void *peek(const iso_node *node, int component, int64_t row)
{
    return row_at(node, component, row);
}

static void memory_node_destroy(iso_node *node)
{
    iso_memory_rows_free(node->impl);
    iso_free(node->impl);
}

static const iso_node_ops memory_ops = {
    .gather = memory_node_gather, .peek = peek, .destroy = memory_node_destroy};

const iso_memory_rows *iso_memory_node_rows(const iso_node *node)
{
    return node->ops == &memory_ops ? node->impl : NULL;
}

void iso_memory_rows_give_back(const iso_memory_rows *memory, const void *begin, size_t bytes)
{
    for (int i = 0; i < ISO_MAX_COMPONENTS; i++) {
        const size_t room = iso_memory_room(memory->owned[i]),
                     at = (size_t)((uintptr_t)begin - (uintptr_t)memory->owned[i]);
        if (at < room)
            iso_memory_give_back(memory->owned[i], at, bytes < room - at ? bytes : room - at);
    }
}

iso_status iso_memory_node(const char *name, const iso_spec *spec, const iso_spans *spans,
                           const iso_memory_rows *memory, iso_node **node)
{
    iso_memory_rows *copy = iso_new(sizeof *copy);
    if (!copy)
        return iso_no_memory("data set '%s'", name);
    iso_status status = iso_node_create(&memory_ops, name, spec, NULL, NULL, copy, node);
    if (status != ISO_OK) {
        iso_free(copy);
        return status;
    }
    *copy = *memory;
    (*node)->spans = *spans;
    (*node)->cheap = true;
    return ISO_OK;
}
