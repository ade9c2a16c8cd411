/* Data sets of arrays in memory. */
#include <inttypes.h>
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/data/dataset_impl.h"

static const char *const array_names[] = {"x", "y", "sample_weight"};

/* Splits [rows, ...] into rows and the shape of one. */
static iso_status take_shape(const iso_data_array *array, const char *name, int64_t *rows, iso_shape *shape)
{
    char text[128];
    iso_shape_text(&array->shape, text, sizeof text);
    if (!array->data)
        return iso_error(ISO_INVALID, "arrays: %s of shape %s has no data", name, text);
    if (array->shape.rank < 1 || array->shape.rank > ISO_MAX_RANK)
        return iso_error(ISO_INVALID,
                         "arrays: %s has a shape of %d dimensions; 1 to %d, the first being the rows", name,
                         array->shape.rank, ISO_MAX_RANK);
    *rows = array->shape.dim[0];
    *shape = (iso_shape){.rank = array->shape.rank - 1};
    for (int i = 0; i < shape->rank; i++)
        shape->dim[i] = array->shape.dim[i + 1];
    return ISO_OK;
}

static iso_status copy_component(const iso_spec *spec, int component, int64_t rows, iso_memory_rows *memory)
{
    size_t bytes = (size_t)rows * spec->bytes[component];
    iso_status status = iso_alloc(bytes, "a copy of an array", &memory->owned[component]);
    if (status != ISO_OK)
        return status;
    memcpy(memory->owned[component], memory->data[component], bytes);
    memory->data[component] = memory->owned[component];
    return ISO_OK;
}

static iso_status add_array(const iso_data_array *array, const char *name, int64_t *rows, iso_spec *spec)
{
    int64_t own = 0;
    iso_status status = take_shape(array, name, &own, &spec->shape[spec->components]);
    if (status != ISO_OK)
        return status;
    if (spec->components > 0 && own != *rows)
        return iso_error(ISO_INVALID, "arrays: %s has %" PRId64 " rows, x has %" PRId64, name, own, *rows);
    *rows = own;
    spec->dtype[spec->components++] = array->dtype;
    return ISO_OK;
}

static iso_status open_arrays(iso_context *ctx, const iso_dataset_arrays_options *options,
                              iso_dataset **dataset)
{
    const iso_data_array *arrays[] = {&options->x, &options->y, &options->sample_weight};
    iso_memory_rows memory = {0};
    iso_level *level = NULL;
    iso_spec spec = {0};
    iso_spans spans;
    int64_t rows = 0;
    iso_status status = ISO_OK;
    if (options->sample_weight.data && !options->y.data)
        return iso_error(ISO_INVALID, "arrays: sample_weight without y");
    for (int i = 0; i < 3; i++)
        if (i == 0 || arrays[i]->data) {
            ISO_TRY(add_array(arrays[i], array_names[i], &rows, &spec));
            memory.data[i] = arrays[i]->data;
        }
    ISO_TRY(iso_spec_finish(&spec, rows, "arrays"));
    for (int i = 0; i < spec.components && !options->lend; i++)
        ISO_TRY(copy_component(&spec, i, rows, &memory));
    spans = iso_spans_of_rows(rows);
    ISO_TRY(iso_memory_level("arrays", &spec, &spans, &memory, &level));
    return iso_dataset_create(ctx, level, dataset);
done:
    iso_memory_rows_free(&memory);
    return status;
}

iso_status iso_dataset_arrays_with(iso_context *ctx, const iso_dataset_arrays_options *options, size_t size)
{
    iso_dataset_arrays_options taken = {0};
    iso_dataset *ds = NULL;
    memcpy(&taken, options, size < sizeof taken ? size : sizeof taken);
    iso_status status = iso_dataset_settle(ctx, open_arrays(ctx, &taken, &ds), &ds);
    if (status == ISO_OK)
        *taken.dataset = ds;
    return status;
}
