/* Data sets of arrays in memory. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/data/dataset_impl.h"
#include "runtime/session/session.h"

/* The rank that Fortran's iso_data gives to arrays that are not contiguous. */
enum { ISO_SECTION = -1 };

/* Splits [rows, ...] into rows and the shape of one. */
static iso_status take_shape(const iso_data_array *array, const char *name, bool local, int64_t *rows,
                             iso_shape *shape)
{
    char text[128];
    if (array->shape.rank == ISO_SECTION)
        return iso_error(ISO_INVALID, "arrays: %s is a section of an array: its rows must be contiguous",
                         name);
    iso_shape_text(&array->shape, text, sizeof text);
    if (!array->data && !(local && array->shape.rank > 0 && array->shape.dim[0] == 0))
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
    if (bytes > 0)
        memcpy(memory->owned[component], memory->data[component], bytes);
    memory->data[component] = memory->owned[component];
    return ISO_OK;
}

static iso_status add_array(const iso_data_array *array, const char *name, bool local, int64_t *rows,
                            iso_spec *spec, iso_memory_rows *memory)
{
    int64_t own = 0;
    iso_status status = take_shape(array, name, local, &own, &spec->shape[spec->n_components]);
    if (status != ISO_OK)
        return status;
    if (spec->n_components > 0 && own != *rows)
        return iso_error(ISO_INVALID, "arrays: %s has %" PRId64 " rows, x has %" PRId64, name, own, *rows);
    *rows = own;
    memory->data[spec->n_components] = array->data;
    spec->dtype[spec->n_components++] = array->dtype;
    return ISO_OK;
}

/* A share without rows may have NULL data. */
static bool is_given(const iso_data_array *array, bool local)
{
    return array->data || (local && array->shape.rank > 0);
}

/* Adds one array, or a list that ends at the first array without data. *count: how many. */
static iso_status add_list(const iso_data_array *one, const iso_data_array *list, int most, const char *name,
                           bool local, int64_t *rows, iso_spec *spec, iso_memory_rows *memory, int *count)
{
    char numbered[32];
    iso_status status = ISO_OK;
    *count = 0;
    if (is_given(one, local) && is_given(&list[0], local))
        return iso_error(ISO_INVALID, "arrays: %s is given twice, alone and as a list", name);
    if (is_given(one, local))
        list = one, most = 1;
    for (; *count < most && is_given(&list[*count], local) && status == ISO_OK; ++*count) {
        snprintf(numbered, sizeof numbered, *count ? "%s %d" : "%s", name, *count);
        status = add_array(&list[*count], numbered, local, rows, spec, memory);
    }
    return status;
}

static iso_status add_all(const iso_dataset_arrays_options *o, int64_t *rows, iso_spec *spec,
                          iso_memory_rows *memory)
{
    int weights;
    iso_status status = ISO_OK;
    ISO_TRY(
        add_list(&o->x, o->inputs, ISO_MAX_MODEL_INPUTS, "x", o->local, rows, spec, memory, &spec->n_inputs));
    if (spec->n_inputs == 0) /* add_array reports what is wrong with it */
        return add_array(&o->x, "x", o->local, rows, spec, memory);
    ISO_TRY(add_list(&o->y, o->targets, ISO_MAX_MODEL_OUTPUTS, "y", o->local, rows, spec, memory,
                     &spec->n_targets));
    ISO_TRY(add_list(&o->sample_weight, o->weights, ISO_MAX_MODEL_OUTPUTS, "sample_weight", o->local, rows,
                     spec, memory, &weights));
    if (weights > 0 && spec->n_targets == 0)
        return iso_error(ISO_INVALID, "arrays: sample_weight without y");
    if (weights > 1 && weights != spec->n_targets)
        return iso_error(ISO_INVALID,
                         "arrays: %d sample_weights for %d targets; there may be one, or one for each",
                         weights, spec->n_targets);
done:
    return status;
}

static iso_status copy_all(const iso_spec *spec, int64_t rows, bool lend, iso_memory_rows *memory)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < spec->n_components && !lend && status == ISO_OK; i++)
        status = copy_component(spec, i, rows, memory);
    return status;
}

static iso_status open_arrays(iso_context *ctx, const iso_dataset_arrays_options *options,
                              iso_dataset **dataset)
{
    iso_memory_rows memory = {0};
    iso_node *node = NULL;
    iso_spec spec = {0};
    iso_spans spans;
    int64_t rows = 0;
    iso_status status = ISO_OK;
    ISO_TRY(add_all(options, &rows, &spec, &memory));
    ISO_TRY(iso_spec_finish(&spec, rows, "arrays"));
    ISO_TRY(copy_all(&spec, rows, options->lend, &memory));
    spans = iso_spans_of_rows(rows);
    ISO_TRY(iso_memory_node("arrays", &spec, &spans, &memory, &node));
    return iso_dataset_create(ctx, node, dataset);
done:
    iso_memory_rows_free(&memory);
    return status;
}

/* "x", "x 1", "y": as in the errors of add_list. */
static void name_component(const iso_spec *spec, int component, char *name, size_t size)
{
    static const char *const names[] = {"x", "y", "sample_weight"};
    int first[] = {0, spec->n_inputs, spec->n_inputs + spec->n_targets}, kind = 2;
    while (component < first[kind])
        kind--;
    int number = component - first[kind];
    snprintf(name, size, number ? "%s %d" : "%s", names[kind], number);
}

/* ISO_INVALID unless every rank has the same bytes. Collective. */
static iso_status agree_contents(iso_context *ctx, const iso_dataset *ds)
{
    iso_node *node = ds->top;
    const iso_spec *spec = &node->spec;
    iso_status status = ISO_OK;
    for (int i = 0; i < spec->n_components && status == ISO_OK && iso_ranks(ctx) > 1; i++) {
        char name[32], what[160];
        name_component(spec, i, name, sizeof name);
        snprintf(
            what, sizeof what,
            "the contents of %s, which must be the same on every rank (to give each rank its own rows, set "
            ".local)",
            name);
        uint64_t hash =
            iso_hash_content(node->ops->peek(node, i, 0), (size_t)node->spans.rows * spec->bytes[i]);
        status = iso_agree_same(ctx, what, hash, NULL);
    }
    return status;
}

static iso_status open_same(iso_context *ctx, const iso_dataset_arrays_options *options,
                            iso_dataset **dataset)
{
    iso_status status = iso_dataset_agree(ctx, open_arrays(ctx, options, dataset),
                                          "the arrays (to give each rank its own rows, set .local)", dataset);
    return status == ISO_OK ? agree_contents(ctx, *dataset) : status;
}

/* ---- a share on each rank ---- */

/* The description of a rank's share, which it sends to the others. */
typedef struct share {
    int64_t rows;
    bool shapes; /* this rank passed arrays */
    iso_spec spec;
} share;

static bool has_arrays(const iso_dataset_arrays_options *o)
{
    return o->x.data || o->x.shape.rank > 0 || o->inputs[0].data || o->inputs[0].shape.rank > 0;
}

static iso_status describe_share(const iso_dataset_arrays_options *options, share *mine,
                                 iso_memory_rows *memory)
{
    mine->shapes = has_arrays(options);
    if (!mine->shapes)
        return ISO_OK;
    iso_status status = add_all(options, &mine->rows, &mine->spec, memory);
    if (status == ISO_OK && mine->rows < 0)
        return iso_error(ISO_INVALID, "arrays: a share of %" PRId64 " rows", mine->rows);
    return status == ISO_OK ? iso_spec_finish(&mine->spec, mine->rows ? mine->rows : 1, "arrays") : status;
}

/* Adds up the rows. A rank that passed no arrays takes the shapes of the first rank that did. */
static iso_status complete(const share *all, int ranks, share *mine, int64_t *rows)
{
    const share *first = NULL;
    for (int rank = 0; rank < ranks; rank++) {
        if (__builtin_add_overflow(*rows, all[rank].rows, rows))
            return iso_error(ISO_INVALID, "arrays: the rows of ranks 0 to %d overflow: more than %" PRId64,
                             rank, INT64_MAX);
        if (!first && all[rank].shapes)
            first = &all[rank];
    }
    if (*rows == 0)
        return iso_error(ISO_INVALID, "arrays: .local, and no rank has a row");
    if (!mine->shapes)
        mine->spec = first->spec;
    return iso_spec_finish(&mine->spec, *rows, "arrays");
}

/* Collective. */
static iso_status gather_shares(iso_context *ctx, share *mine, int64_t *rows)
{
    int ranks = iso_ranks(ctx);
    share *all = iso_new((size_t)ranks * sizeof *all);
    iso_status status = iso_agree(ctx, all ? ISO_OK : iso_no_memory("the shares of %d ranks", ranks));
    if (status == ISO_OK)
        status = iso_gather_all(ctx, mine, sizeof *mine, all);
    if (status == ISO_OK)
        status = iso_agree(ctx, complete(all, ranks, mine, rows));
    iso_free(all);
    return status;
}

static iso_status make_local(iso_context *ctx, const iso_dataset_arrays_options *options, const share *mine,
                             int64_t rows, iso_memory_rows *memory, iso_dataset **dataset)
{
    iso_node *node = NULL;
    iso_status status = copy_all(&mine->spec, mine->rows, options->lend, memory);
    if (status == ISO_OK)
        status = iso_local_rows_create("arrays", &mine->spec, mine->rows, rows, memory, &node);
    if (status != ISO_OK)
        return status;
    *memory = (iso_memory_rows){0};
    return iso_dataset_create(ctx, node, dataset);
}

/* Collective. */
static iso_status open_local(iso_context *ctx, const iso_dataset_arrays_options *options,
                             iso_dataset **dataset)
{
    iso_memory_rows memory = {0};
    share mine;
    memset(&mine, 0, sizeof mine); /* sent as raw bytes, padding included */
    int64_t rows = 0;
    iso_status status = iso_agree(ctx, describe_share(options, &mine, &memory));
    if (status == ISO_OK)
        status = gather_shares(ctx, &mine, &rows);
    if (status == ISO_OK) {
        status = make_local(ctx, options, &mine, rows, &memory, dataset);
        status = iso_dataset_agree(ctx, status, "the rows of .local arrays", dataset);
    }
    iso_memory_rows_free(&memory);
    return status == ISO_OK ? iso_local_rows_connect(ctx, (*dataset)->top) : status;
}

iso_status iso_dataset_arrays_with(iso_context *ctx, const iso_dataset_arrays_options *options, size_t size)
{
    ISO_DEFAULT_MODES();
    iso_dataset_arrays_options taken = {0};
    iso_dataset *ds = NULL;
    iso_options_copy(&taken, sizeof taken, options, size);
    ISO_NEED_AGREED_AS(ctx, "dataset", taken.dataset);
    iso_status status =
        iso_agree_same_text(ctx, "what iso_dataset_arrays is given", taken.local ? ".local" : "no .local");
    if (status == ISO_OK)
        status = taken.local ? open_local(ctx, &taken, &ds) : open_same(ctx, &taken, &ds);
    if (status == ISO_OK)
        *taken.dataset = ds;
    else
        iso_dataset_destroy(ds);
    return status;
}
