/* Data sets of arrays in memory. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/data/dataset_impl.h"

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

static iso_status add_array(const iso_data_array *array, const char *name, int64_t *rows, iso_spec *spec,
                            iso_memory_rows *memory)
{
    int64_t own = 0;
    iso_status status = take_shape(array, name, &own, &spec->shape[spec->components]);
    if (status != ISO_OK)
        return status;
    if (spec->components > 0 && own != *rows)
        return iso_error(ISO_INVALID, "arrays: %s has %" PRId64 " rows, x has %" PRId64, name, own, *rows);
    *rows = own;
    memory->data[spec->components] = array->data;
    spec->dtype[spec->components++] = array->dtype;
    return ISO_OK;
}

/* One, or a list that ends where there are no data; returns how many in *count. */
static iso_status add_list(const iso_data_array *one, const iso_data_array *list, int most, const char *name,
                           int64_t *rows, iso_spec *spec, iso_memory_rows *memory, int *count)
{
    char numbered[32];
    iso_status status = ISO_OK;
    *count = 0;
    if (one->data && list[0].data)
        return iso_error(ISO_INVALID, "arrays: %s is given twice, alone and as a list", name);
    if (one->data)
        list = one, most = 1;
    for (; *count < most && list[*count].data && status == ISO_OK; ++*count) {
        snprintf(numbered, sizeof numbered, *count ? "%s %d" : "%s", name, *count);
        status = add_array(&list[*count], numbered, rows, spec, memory);
    }
    return status;
}

static iso_status add_all(const iso_dataset_arrays_options *o, int64_t *rows, iso_spec *spec,
                          iso_memory_rows *memory)
{
    int weights;
    iso_status status = ISO_OK;
    ISO_TRY(add_list(&o->x, o->inputs, ISO_MAX_MODEL_INPUTS, "x", rows, spec, memory, &spec->inputs));
    if (spec->inputs == 0) /* says what is wrong with it */
        return add_array(&o->x, "x", rows, spec, memory);
    ISO_TRY(add_list(&o->y, o->targets, ISO_MAX_MODEL_OUTPUTS, "y", rows, spec, memory, &spec->targets));
    ISO_TRY(add_list(&o->sample_weight, o->weights, ISO_MAX_MODEL_OUTPUTS, "sample_weight", rows, spec,
                     memory, &weights));
    if (weights > 0 && spec->targets == 0)
        return iso_error(ISO_INVALID, "arrays: sample_weight without y");
    if (weights > 1 && weights != spec->targets)
        return iso_error(ISO_INVALID, "arrays: %d sample_weights for %d targets; one, or one for each",
                         weights, spec->targets);
done:
    return status;
}

static iso_status open_arrays(iso_context *ctx, const iso_dataset_arrays_options *options,
                              iso_dataset **dataset)
{
    iso_memory_rows memory = {0};
    iso_level *level = NULL;
    iso_spec spec = {0};
    iso_spans spans;
    int64_t rows = 0;
    iso_status status = ISO_OK;
    ISO_TRY(add_all(options, &rows, &spec, &memory));
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
