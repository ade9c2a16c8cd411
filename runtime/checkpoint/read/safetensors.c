/* Reads the header of a .safetensors file, the format of Hugging Face: its length in 8 bytes, the lowest first, a
 * JSON object {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}, and the tensors' bytes,
 * row-major and little-endian. Offsets count from the header's end. The file is untrusted input. */
#include "runtime/checkpoint/read/safetensors_impl.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/memory.h"
#include "runtime/checkpoint/file_io_impl.h"
#include "runtime/checkpoint/safetensors.h"

enum { LENGTH_BYTES = 8, MOST_HEADER = 100 << 20 /* as in other readers */ };

bool iso_safetensors_has_name(const char *path)
{
    return iso_file_name_ends(path, ".safetensors");
}

/* ---- one tensor ---- */

/* A tensor that is being read. */
typedef struct entry {
    const char *file, *name;
    const json_t *value;
    iso_manifest_tensor tensor;
    uint64_t begin, end; /* in the bytes behind the header */
} entry;

static iso_status check_name(const char *file, const char *name)
{
    size_t length = strlen(name);
    bool good = length > 0 && length < ISO_LONGEST_NAME && !strchr(name, '/');
    for (size_t i = 0; i < length; i++)
        good = good && !iscntrl((unsigned char)name[i]);
    return good ? ISO_OK
                : iso_error(ISO_INVALID,
                            "'%s': the name of a tensor is empty, longer than %d characters or has a "
                            "character that names cannot have: '%.60s'",
                            file, ISO_LONGEST_NAME - 1, name);
}

static iso_status read_type(entry *e)
{
    const char *type = json_string_value(json_object_get(e->value, "dtype"));
    for (int i = 0; type && i < ISO_STORAGE_TYPES; i++)
        if (strcmp(iso_safetensors_type((iso_storage_type)i), type) == 0) {
            e->tensor.element = (iso_storage_type)i;
            e->tensor.tensor.dtype = iso_storage_type_dtype(e->tensor.element);
            return ISO_OK;
        }
    return iso_error(
        ISO_INVALID,
        "'%s': tensor '%s' has the type '%.30s'; F64, F32, F16, BF16, integers and BOOL are read", e->file,
        e->name, type ? type : "none");
}

/* Whether a value is an integer in [0, INT64_MAX]. */
static bool read_count(const json_t *value, int64_t *count)
{
    *count = json_is_integer(value) ? (int64_t)json_integer_value(value) : -1;
    return *count >= 0;
}

/* *bytes: of all elements. */
static iso_status read_shape(entry *e, uint64_t *bytes)
{
    const json_t *dims = json_object_get(e->value, "shape");
    size_t rank = json_array_size(dims);
    int64_t product = (int64_t)iso_storage_type_size(e->tensor.element);
    bool fits = json_is_array(dims) && rank <= ISO_MAX_RANK, empty = false;
    for (size_t i = 0; fits && i < rank; i++) {
        int64_t dim = 0;
        fits = read_count(json_array_get(dims, i), &dim) &&
               !__builtin_mul_overflow(product, dim > 0 ? dim : 1, &product);
        e->tensor.tensor.shape.dim[i] = dim;
        empty = empty || dim == 0;
    }
    e->tensor.tensor.shape.rank = (int)rank;
    *bytes = empty ? 0 : (uint64_t)product;
    return fits ? ISO_OK
                : iso_error(ISO_INVALID,
                            "'%s': the shape of tensor '%s' is no list of at most %d lengths, or too large",
                            e->file, e->name, ISO_MAX_RANK);
}

static iso_status read_offsets(entry *e, uint64_t bytes, uint64_t data_bytes)
{
    const json_t *offsets = json_object_get(e->value, "data_offsets");
    int64_t begin = 0, end = 0;
    if (json_array_size(offsets) != 2 || !read_count(json_array_get(offsets, 0), &begin) ||
        !read_count(json_array_get(offsets, 1), &end))
        return iso_error(ISO_INVALID, "'%s': tensor '%s' has no data_offsets [begin, end]", e->file, e->name);
    e->begin = (uint64_t)begin;
    e->end = (uint64_t)end;
    if (e->begin > e->end || e->end > data_bytes)
        return iso_error(ISO_INVALID,
                         "'%s': tensor '%s' is said to be in bytes %" PRId64 " to %" PRId64
                         " behind the header, where the file has %" PRIu64 " bytes: it is damaged or cut off",
                         e->file, e->name, begin, end, data_bytes);
    if (e->end - e->begin != bytes)
        return iso_error(ISO_INVALID,
                         "'%s': tensor '%s' has %" PRIu64 " bytes, and its type and shape need %" PRIu64,
                         e->file, e->name, e->end - e->begin, bytes);
    return ISO_OK;
}

static iso_status read_entry(entry *e, uint64_t data_bytes)
{
    uint64_t bytes = 0;
    iso_status status;
    ISO_TRY(check_name(e->file, e->name));
    if (!json_is_object(e->value))
        ISO_TRY(iso_error(ISO_INVALID, "'%s': tensor '%s' has no type and shape", e->file, e->name));
    ISO_TRY(read_type(e));
    ISO_TRY(read_shape(e, &bytes));
    ISO_TRY(read_offsets(e, bytes, data_bytes));
done:
    return status;
}

/* ---- all ---- */

static int by_begin(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* The tensors' bytes follow one another, so that none is of two tensors or of none. */
static iso_status check_order(const entry *entries, int count, const char *file, uint64_t data_bytes)
{
    uint64_t end = 0;
    for (int i = 0; i < count; i++) {
        if (entries[i].begin != end)
            return iso_error(ISO_INVALID,
                             "'%s': tensor '%s' begins at byte %" PRIu64
                             " behind the header, and those before it end at %" PRIu64,
                             file, entries[i].name, entries[i].begin, end);
        end = entries[i].end;
    }
    return end == data_bytes ? ISO_OK
                             : iso_error(ISO_INVALID,
                                         "'%s': its tensors have %" PRIu64 " bytes, and %" PRIu64
                                         " bytes are behind the header",
                                         file, end, data_bytes);
}

static iso_status take_entries(entry *entries, int count, uint64_t header_end, iso_manifest *manifest)
{
    char path[ISO_LONGEST_NAME + 2] = "/";
    iso_status status = ISO_OK;
    for (int i = 0; i < count && status == ISO_OK; i++) {
        iso_manifest_tensor *t = &entries[i].tensor;
        snprintf(path + 1, sizeof path - 1, "%s", entries[i].name);
        t->tensor.h5_path = path;
        t->direct = true;
        t->offset = header_end + entries[i].begin;
        status = iso_manifest_add_tensor(manifest, t);
    }
    return status;
}

static iso_status read_entries(json_t *root, entry *entries, int *count, const char *name,
                               uint64_t data_bytes)
{
    const char *key;
    json_t *value;
    iso_status status = ISO_OK;
    *count = 0;
    json_object_foreach(root, key, value)
    {
        if (strcmp(key, "__metadata__") == 0)
            continue;
        entry *e = &entries[(*count)++];
        *e = (entry){.file = name, .name = key, .value = value};
        ISO_TRY(read_entry(e, data_bytes));
    }
done:
    return status;
}

iso_status iso_safetensors_parse(const char *name, const char *header, size_t size, uint64_t data_bytes,
                                 iso_manifest *manifest)
{
    json_t *root = NULL;
    entry *entries = NULL;
    int count = 0;
    iso_status status = iso_json_parse("its header", header, size, &root);
    if (status != ISO_OK)
        return iso_error_prefix(status, "'%s': ", name);
    if (!json_is_object(root) || json_object_size(root) > ISO_MOST_OBJECTS)
        ISO_TRY(iso_error(ISO_INVALID, "'%s': its header is no list of at most %d tensors", name,
                          ISO_MOST_OBJECTS));
    entries = iso_new((json_object_size(root) + 1) * sizeof *entries);
    if (!entries)
        ISO_TRY(iso_no_memory("the list of the tensors of '%s'", name));
    ISO_TRY(read_entries(root, entries, &count, name, data_bytes));
    qsort(entries, (size_t)count, sizeof *entries, by_begin);
    ISO_TRY(check_order(entries, count, name, data_bytes));
    ISO_TRY(take_entries(entries, count, LENGTH_BYTES + size, manifest));
done:
    iso_free(entries);
    json_decref(root);
    return status;
}

/* Reads the length of the header. */
static iso_status read_length(int file, const char *name, uint64_t bytes, uint64_t *length)
{
    uint8_t low_first[LENGTH_BYTES] = {0};
    iso_status status =
        bytes < LENGTH_BYTES
            ? iso_error(ISO_INVALID, "'%s': has %" PRIu64 " bytes: it is cut off", name, bytes)
            : iso_file_read_at(file, name, low_first, sizeof low_first, 0);
    if (status != ISO_OK)
        return status;
    *length = 0;
    for (int i = LENGTH_BYTES - 1; i >= 0; i--)
        *length = *length << 8 | low_first[i];
    if (*length <= MOST_HEADER && *length <= bytes - LENGTH_BYTES)
        return ISO_OK;
    return iso_error(ISO_INVALID,
                     "'%s': its first 8 bytes say that its header has %" PRIu64
                     " bytes, and the file has %" PRIu64
                     " (at most %d are read): it is no .safetensors file, or is cut off",
                     name, *length, bytes, MOST_HEADER);
}

iso_status iso_safetensors_list(int file, const char *name, uint64_t bytes, iso_manifest *manifest)
{
    uint64_t length = 0;
    char *header = NULL;
    iso_status status;
    ISO_TRY(read_length(file, name, bytes, &length));
    header = iso_new((size_t)length + 1);
    if (!header)
        ISO_TRY(iso_no_memory("the header of '%s'", name));
    ISO_TRY(iso_file_read_at(file, name, header, (size_t)length, LENGTH_BYTES));
    ISO_TRY(iso_safetensors_parse(name, header, (size_t)length, bytes - LENGTH_BYTES - length, manifest));
done:
    iso_free(header);
    return status;
}
