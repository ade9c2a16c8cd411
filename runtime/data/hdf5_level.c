/* HDF5 files as a source: read once where they are small enough, else by rows as needed. */
#include <inttypes.h>
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/data/hdf5_impl.h"
#include "runtime/data/open_impl.h"

static const size_t default_memory_limit = (size_t)1 << 30;
static const size_t piece_bytes = 256 * 1024;

typedef struct source {
    char *path;
    hid_t file;
    iso_hdf5_array array[ISO_MAX_COMPONENTS];
    int components;
    void *piece[ISO_MAX_COMPONENTS]; /* rows as stored, on their way; used with the lock held */
    int64_t piece_rows[ISO_MAX_COMPONENTS];
} source;

static void source_free(source *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->components; i++) {
        iso_hdf5_array_close(&s->array[i]);
        iso_free(s->piece[i]);
    }
    if (s->file > 0)
        H5Fclose(s->file);
    iso_free(s->path);
    iso_free(s);
}

static void destroy(iso_level *level)
{
    iso_hdf5_scope scope;
    iso_hdf5_enter(&scope);
    source_free(level->impl);
    iso_hdf5_leave(&scope);
}

/* How many of the rows from i on follow each other in the file, at most `most`. */
static int64_t run_length(const iso_rows *rows, int64_t i, int64_t most)
{
    int64_t count = 1;
    while (count < most && i + count < rows->count &&
           iso_rows_at(rows, i + count) == iso_rows_at(rows, i) + count)
        count++;
    return count;
}

/* Elements of a row that are wanted. */
static int64_t wanted(const iso_level *level, int component, const iso_rows *rows)
{
    return rows->part ? iso_box_count(rows->part->box) : level->spec.elements[component];
}

/* `count` rows that follow each other in the file, or their part. */
static iso_status read_run(iso_level *level, int component, int64_t begin, int64_t count,
                           const iso_rows *rows, iso_dtype dtype, void *out)
{
    source *s = level->impl;
    iso_dtype from = level->spec.dtype[component];
    iso_rows here = {.count = count};
    int64_t element = 0, elements = wanted(level, component, rows);
    iso_status status = iso_hdf5_array_read(&s->array[component], s->path, begin, count,
                                            rows->part ? rows->part->box : NULL, s->piece[component]);
    if (status != ISO_OK)
        return status;
    int64_t row = iso_gather(from, s->piece[component], elements, &here, dtype, out, &element);
    if (row < 0)
        return ISO_OK;
    const char *bad =
        (const char *)s->piece[component] + (size_t)(row * elements + element) * iso_dtype_size(from);
    return iso_bad_element(level, component, begin + row, bad, dtype);
}

static iso_status gather(iso_level *level, int component, const iso_rows *rows, iso_dtype dtype, void *out)
{
    source *s = level->impl;
    size_t bytes = (size_t)wanted(level, component, rows) * iso_dtype_size(dtype);
    iso_hdf5_scope scope;
    iso_status status = ISO_OK;
    iso_hdf5_enter(&scope);
    for (int64_t i = 0; i < rows->count && status == ISO_OK;) {
        int64_t count = run_length(rows, i, s->piece_rows[component]);
        status = read_run(level, component, iso_rows_at(rows, i), count, rows, dtype,
                          (char *)out + (size_t)i * bytes);
        i += count;
    }
    iso_hdf5_leave(&scope);
    return status;
}

static const iso_level_ops hdf5_ops = {.gather = gather, .destroy = destroy};

/* ---- opening; the lock is held ---- */

static iso_status open_arrays(source *s, const iso_dataset_open_options *options, size_t limit)
{
    const char *name[] = {options->x ? options->x : "x", options->y ? options->y : "y",
                          options->sample_weight ? options->sample_weight : "sample_weight"};
    int count = options->sample_weight || iso_hdf5_has(s->file, name[2]) ? 3 : 2;
    for (; s->components < count; s->components++) {
        iso_hdf5_array *array = &s->array[s->components];
        iso_status status = iso_hdf5_array_open(s->file, s->path, name[s->components], limit, array);
        if (status != ISO_OK)
            return status;
        if (array->rows != s->array[0].rows) {
            int64_t rows = array->rows;
            iso_hdf5_array_close(array);
            return iso_error(ISO_INVALID, "'%s': '%s' has %" PRId64 " rows, '%s' has %" PRId64, s->path,
                             name[s->components], rows, name[0], s->array[0].rows);
        }
    }
    return ISO_OK;
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
    *spec = (iso_spec){.components = s->components};
    for (int i = 0; i < s->components; i++) {
        spec->shape[i] = s->array[i].row;
        spec->dtype[i] = s->array[i].dtype;
    }
    return iso_spec_finish(spec, s->array[0].rows, s->path);
}

static size_t total_bytes(const source *s)
{
    size_t total = 0;
    for (int i = 0; i < s->components; i++)
        if (__builtin_add_overflow(total, (size_t)s->array[i].rows * s->array[i].row_bytes, &total))
            return SIZE_MAX;
    return total;
}

static iso_status load(const source *s, const iso_spec *spec, iso_level **level)
{
    iso_memory_rows memory = {0};
    int64_t rows = s->array[0].rows;
    iso_spans spans = iso_spans_of_rows(rows);
    iso_status status = ISO_OK;
    for (int i = 0; i < s->components; i++) {
        ISO_TRY(iso_alloc((size_t)rows * spec->bytes[i], s->path, &memory.owned[i]));
        memory.data[i] = memory.owned[i];
        ISO_TRY(iso_hdf5_array_read(&s->array[i], s->path, 0, rows, NULL, memory.owned[i]));
    }
    ISO_TRY(iso_memory_level(s->path, spec, &spans, &memory, level));
    return ISO_OK;
done:
    iso_memory_rows_free(&memory);
    return status;
}

/* The source becomes the level's on success. */
static iso_status make_level(source *s, const iso_spec *spec, iso_level **level)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < s->components; i++) {
        size_t rows = piece_bytes / s->array[i].row_bytes;
        s->piece_rows[i] = rows > 1 ? (int64_t)rows : 1;
        ISO_TRY(iso_alloc((size_t)s->piece_rows[i] * s->array[i].row_bytes, s->path, &s->piece[i]));
    }
    ISO_TRY(iso_level_create(&hdf5_ops, s->path, spec, NULL, NULL, s, level));
    (*level)->spans = iso_spans_of_rows(s->array[0].rows);
done:
    return status;
}

static iso_status open_locked(const char *path, const iso_dataset_open_options *options, iso_level **level)
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
    ISO_TRY(kept ? make_level(s, &spec, level) : load(s, &spec, level));
    (*level)->identity = iso_file_identity(path, 0);
done:
    if (!kept || status != ISO_OK)
        source_free(s);
    return status;
}

iso_status iso_open_hdf5(const char *path, const iso_dataset_open_options *options, iso_level **level)
{
    iso_hdf5_scope scope;
    iso_hdf5_enter(&scope);
    iso_status status = open_locked(path, options, level);
    iso_hdf5_leave(&scope);
    return status;
}
