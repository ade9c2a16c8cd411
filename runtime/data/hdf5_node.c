/* HDF5 files as a source: read once if they are small enough, else by rows as needed. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/data/hdf5_impl.h"
#include "runtime/data/open_impl.h"

static const size_t default_memory_limit = (size_t)1 << 30;
static const size_t slab_bytes = 256 * 1024;

enum { ISO_HDF5_NAME = 256 };

typedef struct source {
    char *path;
    hid_t file;
    iso_hdf5_array array[ISO_MAX_COMPONENTS];
    int n_components, n_inputs, n_targets;
    char name[ISO_MAX_COMPONENTS][ISO_COMPONENT_NAME];
    uint64_t names;                  /* a hash of the names of the components */
    char first[ISO_HDF5_NAME];       /* of component 0 */
    void *chunk[ISO_MAX_COMPONENTS]; /* buffer for rows in the stored type; used with the lock held */
    int64_t chunk_rows[ISO_MAX_COMPONENTS];
} source;

static void source_free(source *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->n_components; i++) {
        iso_hdf5_array_close(&s->array[i]);
        iso_free(s->chunk[i]);
    }
    if (s->file > 0)
        H5Fclose(s->file);
    iso_free(s->path);
    iso_free(s);
}

static void hdf5_node_destroy(iso_node *node)
{
    iso_hdf5_quiet quiet;
    iso_hdf5_quiet_begin(&quiet);
    source_free(node->impl);
    iso_hdf5_quiet_end(&quiet);
}

/* The number of elements that are read of a row. */
static int64_t wanted(const iso_node *node, int component, const iso_rows *rows)
{
    return rows->part ? iso_box_count(rows->part->box) : node->spec.elements[component];
}

/* Reads `count` consecutive rows of the file, or a part of each. */
static iso_status read_run(iso_node *node, int component, int64_t begin, int64_t count, const iso_rows *rows,
                           iso_dtype dtype, void *out)
{
    source *s = node->impl;
    iso_dtype from = node->spec.dtype[component];
    iso_rows here = {.count = count};
    int64_t element = 0, elements = wanted(node, component, rows);
    iso_status status = iso_hdf5_array_read(&s->array[component], s->path, begin, count,
                                            rows->part ? rows->part->box : NULL, s->chunk[component]);
    if (status != ISO_OK)
        return status;
    int64_t row = iso_gather(from, s->chunk[component], elements, &here, dtype, out, &element);
    if (row < 0)
        return ISO_OK;
    const char *bad =
        (const char *)s->chunk[component] + (size_t)(row * elements + element) * iso_dtype_size(from);
    return iso_bad_element(node, component, begin + row, bad, dtype);
}

static iso_status hdf5_node_gather(iso_node *node, int component, const iso_rows *rows, iso_dtype dtype,
                                   void *out)
{
    source *s = node->impl;
    size_t bytes = (size_t)wanted(node, component, rows) * iso_dtype_size(dtype);
    iso_hdf5_quiet quiet;
    iso_status status = ISO_OK;
    iso_hdf5_quiet_begin(&quiet);
    for (int64_t i = 0; i < rows->count && status == ISO_OK;) {
        int64_t count = iso_rows_consecutive(rows, i, s->chunk_rows[component]);
        status = read_run(node, component, iso_rows_at(rows, i), count, rows, dtype,
                          (char *)out + (size_t)i * bytes);
        i += count;
    }
    iso_hdf5_quiet_end(&quiet);
    return status;
}

static const iso_node_ops hdf5_ops = {.gather = hdf5_node_gather, .destroy = hdf5_node_destroy};

/* ---- opening; the lock is held ---- */

static iso_status open_array(source *s, const char *name, size_t limit)
{
    iso_hdf5_array *array = &s->array[s->n_components];
    iso_status status = iso_hdf5_array_open(s->file, s->path, name, limit, array);
    if (status != ISO_OK)
        return status;
    int64_t rows = array->rows;
    s->names = iso_hash_text(s->names, name);
    if (s->n_components == 0)
        snprintf(s->first, sizeof s->first, "%s", name);
    if (strlen(name) < sizeof s->name[0])
        snprintf(s->name[s->n_components], sizeof s->name[0], "%s", name);
    if (rows == s->array[0].rows) {
        s->n_components++;
        return ISO_OK;
    }
    iso_hdf5_array_close(array);
    return iso_error(ISO_INVALID, "'%s': '%s' has %" PRId64 " rows, '%s' has %" PRId64, s->path, name, rows,
                     s->first, s->array[0].rows);
}

/* Opens the datasets that `names` lists, joined by ','. *count: their number. */
static iso_status open_list(source *s, const char *names, int most, size_t limit, int *count)
{
    char name[ISO_HDF5_NAME];
    iso_status status = ISO_OK;
    *count = 0;
    if (!strchr(names, ',') || iso_hdf5_has(s->file, names)) { /* a single dataset with a comma in its name */
        *count = 1;
        return open_array(s, names, limit);
    }
    for (const char *at = names; status == ISO_OK; ++*count) {
        size_t length = strcspn(at, ",");
        if (*count == most || length == 0 || length >= sizeof name)
            return iso_error(ISO_INVALID, "'%s': '%s' is not a list of at most %d names joined by ','",
                             s->path, names, most);
        snprintf(name, sizeof name, "%.*s", (int)length, at);
        status = open_array(s, name, limit);
        at += length;
        if (!*at++) {
            ++*count;
            break;
        }
    }
    return status;
}

static iso_status open_arrays(source *s, const iso_dataset_open_options *options, size_t limit)
{
    const char *weights = options->sample_weight;
    bool unused = weights && strcmp(weights, "none") == 0;
    int count = 0;
    iso_status status = ISO_OK;
    ISO_TRY(open_list(s, options->x ? options->x : "x", ISO_MAX_MODEL_INPUTS, limit, &s->n_inputs));
    if (options->no_targets)
        return ISO_OK;
    ISO_TRY(open_list(s, options->y ? options->y : "y", ISO_MAX_MODEL_OUTPUTS, limit, &s->n_targets));
    if (!weights && iso_hdf5_has(s->file, "sample_weight"))
        weights = "sample_weight";
    if (weights && !unused)
        ISO_TRY(open_list(s, weights, ISO_MAX_MODEL_OUTPUTS, limit, &count));
    if (count > 1 && count != s->n_targets)
        return iso_error(ISO_INVALID,
                         "'%s': %d sample weights for %d targets; there may be one, or one for each", s->path,
                         count, s->n_targets);
done:
    return status;
}

static iso_status source_open(const char *path, const iso_dataset_open_options *options, size_t limit,
                              source **opened)
{
    iso_status status = ISO_OK;
    source *s = iso_new(sizeof *s);
    if (!s)
        return iso_error(ISO_NO_MEMORY, "no memory to open '%s'", path);
    s->path = iso_strdup(path);
    if (!s->path)
        ISO_TRY(iso_error(ISO_NO_MEMORY, "no memory to open '%s'", path));
    ISO_TRY(iso_hdf5_open(path, &s->file));
    ISO_TRY(open_arrays(s, options, limit));
    *opened = s;
    return ISO_OK;
done:
    source_free(s);
    return status;
}

static iso_status make_spec(const source *s, iso_spec *spec)
{
    *spec = (iso_spec){.n_components = s->n_components, .n_inputs = s->n_inputs, .n_targets = s->n_targets};
    for (int i = 0; i < s->n_components; i++) {
        spec->shape[i] = s->array[i].row;
        spec->dtype[i] = s->array[i].dtype;
        memcpy(spec->name[i], s->name[i], sizeof spec->name[i]);
    }
    return iso_spec_finish(spec, s->array[0].rows, s->path);
}

static size_t total_bytes(const source *s)
{
    size_t total = 0;
    for (int i = 0; i < s->n_components; i++)
        if (__builtin_add_overflow(total, (size_t)s->array[i].rows * s->array[i].row_bytes, &total))
            return SIZE_MAX;
    return total;
}

static iso_status load(const source *s, const iso_spec *spec, iso_node **node)
{
    iso_memory_rows memory = {0};
    int64_t rows = s->array[0].rows;
    iso_spans spans = iso_spans_of_rows(rows);
    iso_status status = ISO_OK;
    for (int i = 0; i < s->n_components; i++) {
        ISO_TRY(iso_alloc((size_t)rows * spec->bytes[i], s->path, &memory.owned[i]));
        memory.data[i] = memory.owned[i];
        ISO_TRY(iso_hdf5_array_read(&s->array[i], s->path, 0, rows, NULL, memory.owned[i]));
    }
    ISO_TRY(iso_memory_node(s->path, spec, &spans, &memory, node));
    return ISO_OK;
done:
    iso_memory_rows_free(&memory);
    return status;
}

/* On success the node owns the source. */
static iso_status make_node(source *s, const iso_spec *spec, iso_node **node)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < s->n_components; i++) {
        size_t rows = slab_bytes / s->array[i].row_bytes;
        s->chunk_rows[i] = rows > 1 ? (int64_t)rows : 1;
        ISO_TRY(iso_alloc((size_t)s->chunk_rows[i] * s->array[i].row_bytes, s->path, &s->chunk[i]));
    }
    ISO_TRY(iso_node_create(&hdf5_ops, s->path, spec, NULL, NULL, s, node));
    (*node)->spans = iso_spans_of_rows(s->array[0].rows);
done:
    return status;
}

static iso_status open_locked(const char *path, const iso_dataset_open_options *options, iso_node **node)
{
    size_t limit = options->memory_limit ? options->memory_limit : default_memory_limit;
    source *s = NULL;
    iso_spec spec;
    bool kept = false;
    iso_status status = source_open(path, options, default_memory_limit, &s);
    if (status != ISO_OK)
        return status;
    ISO_TRY(make_spec(s, &spec));
    kept = total_bytes(s) > limit;
    ISO_TRY(kept ? make_node(s, &spec, node) : load(s, &spec, node));
    (*node)->identity = iso_file_identity(path, s->names);
done:
    if (!kept || status != ISO_OK)
        source_free(s);
    return status;
}

iso_status iso_open_hdf5(const char *path, const iso_dataset_open_options *options, iso_node **node)
{
    iso_hdf5_quiet quiet;
    iso_hdf5_quiet_begin(&quiet);
    iso_status status = open_locked(path, options, node);
    iso_hdf5_quiet_end(&quiet);
    return status;
}

bool iso_is_hdf5(const char *path)
{
    iso_hdf5_quiet quiet;
    iso_hdf5_quiet_begin(&quiet);
    bool is = H5Fis_hdf5(path) > 0;
    iso_hdf5_quiet_end(&quiet);
    return is;
}
