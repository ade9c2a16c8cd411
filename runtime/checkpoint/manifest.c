#include "runtime/checkpoint/manifest_impl.h"

#include <string.h>

#include "runtime/base/list.h"
#include "runtime/base/memory.h"

static void free_text(const char *text)
{
    iso_free((void *)(uintptr_t)text);
}

void iso_manifest_free(iso_manifest *m)
{
    for (int i = 0; i < m->n_tensors; i++) {
        free_text(m->tensors[i].tensor.h5_path);
        free_text(m->tensors[i].tensor.path);
    }
    for (int i = 0; i < m->n_groups; i++) {
        free_text(m->groups[i].h5_path);
        free_text(m->groups[i].name);
    }
    iso_free(m->tensors);
    iso_free(m->groups);
    iso_free(m->state);
    iso_free(m->index);
    iso_free(m->by_h5_path);
    iso_free(m->by_path);
    iso_free(m->order);
    *m = (iso_manifest){0};
}

static const char TENSORS[] = "the list of a file's tensors";

/* Copies a text; NULL stays NULL. False: out of memory. */
static bool copy_text(const char *text, const char **copy)
{
    *copy = text ? iso_strdup(text) : NULL;
    return *copy || !text;
}

iso_status iso_manifest_add_group(iso_manifest *m, const char *h5_path, const char *name)
{
    iso_status status = iso_list_reserve(m->groups, m->n_groups, 1, TENSORS);
    if (status != ISO_OK)
        return status;
    iso_saved_group *group = &m->groups[m->n_groups++];
    *group = (iso_saved_group){0};
    return copy_text(h5_path, &group->h5_path) && copy_text(name, &group->name) ? ISO_OK
                                                                                : iso_no_memory(TENSORS);
}

iso_status iso_manifest_add_tensor(iso_manifest *m, const iso_manifest_tensor *from)
{
    iso_status status = iso_list_reserve(m->tensors, m->n_tensors, 1, TENSORS);
    if (status != ISO_OK)
        return status;
    iso_manifest_tensor *tensor = &m->tensors[m->n_tensors++];
    *tensor = *from;
    tensor->tensor.h5_path = tensor->tensor.path = NULL;
    return copy_text(from->tensor.h5_path, &tensor->tensor.h5_path) &&
                   copy_text(from->tensor.path, &tensor->tensor.path)
               ? ISO_OK
               : iso_no_memory(TENSORS);
}

size_t iso_manifest_bytes(const iso_manifest_tensor *tensor)
{
    size_t bytes = iso_storage_type_size(tensor->element);
    for (int i = 0; i < tensor->tensor.shape.rank; i++)
        bytes *= (size_t)tensor->tensor.shape.dim[i];
    return bytes;
}

/* ---- packing: two passes; the first only counts ---- */

typedef struct packer {
    char *to; /* NULL: counts only */
    size_t size;
} packer;

static void manifest_put(packer *p, const void *data, size_t bytes)
{
    if (p->to)
        memcpy(p->to + p->size, data, bytes);
    p->size += bytes;
}

static void put_number(packer *p, int64_t number)
{
    manifest_put(p, &number, sizeof number);
}

/* Packs a text: its length with the terminating zero (0 for NULL), then the characters. */
static void put_text(packer *p, const char *text)
{
    size_t length = text ? strlen(text) + 1 : 0;
    put_number(p, (int64_t)length);
    if (text)
        manifest_put(p, text, length);
}

static void put_tensor(packer *p, const iso_manifest_tensor *t)
{
    put_text(p, t->tensor.h5_path);
    put_number(p, t->element);
    put_number(p, t->direct);
    put_number(p, (int64_t)t->offset);
    put_number(p, t->tensor.shape.rank);
    for (int i = 0; i < t->tensor.shape.rank; i++)
        put_number(p, t->tensor.shape.dim[i]);
}

static void put_manifest(packer *p, const iso_manifest *m)
{
    put_number(p, m->n_groups);
    for (int i = 0; i < m->n_groups; i++) {
        put_text(p, m->groups[i].h5_path);
        put_text(p, m->groups[i].name);
    }
    put_number(p, m->n_tensors);
    for (int i = 0; i < m->n_tensors; i++)
        put_tensor(p, &m->tensors[i]);
    put_text(p, m->state);
    put_text(p, m->index);
    put_number(p, m->n_sums);
    put_number(p, (int64_t)m->sums);
}

iso_status iso_manifest_pack(const iso_manifest *m, void **bytes, size_t *size)
{
    packer count = {0}, fill = {0};
    put_manifest(&count, m);
    fill.to = iso_new(count.size);
    if (!fill.to)
        return iso_no_memory(TENSORS);
    put_manifest(&fill, m);
    *bytes = fill.to;
    *size = fill.size;
    return ISO_OK;
}

/* ---- unpacking ---- */

typedef struct unpacker {
    const char *from;
    size_t left;
    uint64_t file_bytes;
} unpacker;

static iso_status broken(const char *what)
{
    return iso_error(ISO_INVALID, "the list of the file's tensors is damaged: %s", what);
}

/* A number in [0, most]. */
static iso_status get_number(unpacker *u, int64_t most, int64_t *number)
{
    if (u->left < sizeof *number)
        return broken("it ends early");
    memcpy(number, u->from, sizeof *number);
    u->from += sizeof *number;
    u->left -= sizeof *number;
    return *number >= 0 && *number <= most ? ISO_OK : broken("an impossible number");
}

/* The text is lent from the packed bytes. */
static iso_status get_text(unpacker *u, size_t most, const char **text)
{
    int64_t length = 0;
    iso_status status = get_number(u, (int64_t)most + 1, &length);
    if (status != ISO_OK)
        return status;
    if ((uint64_t)length > u->left ||
        (length > 0 && memchr(u->from, 0, (size_t)length) != u->from + length - 1))
        return broken("a text without an end");
    *text = length ? u->from : NULL;
    u->from += length;
    u->left -= (size_t)length;
    return ISO_OK;
}

static iso_status get_h5_path(unpacker *u, const char **h5_path)
{
    iso_status status = get_text(u, (size_t)ISO_DEEPEST * ISO_LONGEST_NAME, h5_path);
    return status == ISO_OK && (!*h5_path || **h5_path != '/') ? broken("a tensor without an HDF5 path")
                                                               : status;
}

static iso_status get_group(unpacker *u, iso_manifest *m)
{
    const char *h5_path = NULL, *name = NULL;
    iso_status status = ISO_OK;
    ISO_TRY(get_h5_path(u, &h5_path));
    ISO_TRY(get_text(u, ISO_LONGEST_NAME, &name));
    ISO_TRY(iso_manifest_add_group(m, h5_path, name));
done:
    return status;
}

/* Checks that memory can address the shape's bytes and that a direct tensor's bytes are within the file. */
static iso_status get_shape(unpacker *u, iso_manifest_tensor *t)
{
    int64_t rank = 0, bytes = (int64_t)iso_storage_type_size(t->element);
    bool fits = true, empty = false;
    iso_status status = get_number(u, ISO_MAX_RANK, &rank);
    t->tensor.shape.rank = status == ISO_OK ? (int)rank : 0;
    for (int i = 0; i < t->tensor.shape.rank && status == ISO_OK; i++) {
        int64_t *dim = &t->tensor.shape.dim[i];
        status = get_number(u, INT64_MAX, dim);
        empty = empty || *dim == 0;
        fits = fits && !__builtin_mul_overflow(bytes, *dim > 0 ? *dim : 1, &bytes);
    }
    if (status != ISO_OK)
        return status;
    if (!fits)
        return broken("a tensor that is too large");
    if (t->direct && !empty &&
        ((uint64_t)bytes > u->file_bytes || t->offset > u->file_bytes - (uint64_t)bytes))
        return broken("a tensor beyond the end of the file");
    return ISO_OK;
}

static iso_status get_tensor(unpacker *u, iso_manifest *m)
{
    iso_manifest_tensor t = {0};
    int64_t element = 0, direct = 0, offset = 0;
    iso_status status = ISO_OK;
    ISO_TRY(get_h5_path(u, &t.tensor.h5_path));
    ISO_TRY(get_number(u, ISO_STORAGE_TYPES - 1, &element));
    ISO_TRY(get_number(u, 1, &direct));
    ISO_TRY(get_number(u, INT64_MAX, &offset));
    t.element = (iso_storage_type)element;
    t.direct = direct;
    t.offset = (uint64_t)offset;
    t.tensor.dtype = iso_storage_type_dtype(t.element);
    ISO_TRY(get_shape(u, &t));
    ISO_TRY(iso_manifest_add_tensor(m, &t));
done:
    return status;
}

static iso_status get_long_text(unpacker *u, char **copy)
{
    const char *text = NULL;
    iso_status status = get_text(u, ISO_LONGEST_STATE, &text);
    if (status != ISO_OK || !text)
        return status;
    *copy = iso_strdup(text);
    return *copy ? ISO_OK : iso_no_memory(TENSORS);
}

static iso_status get_sums(unpacker *u, iso_manifest *m)
{
    int64_t count = 0, offset = 0;
    iso_status status = ISO_OK;
    ISO_TRY(get_number(u, ISO_MOST_OBJECTS, &count));
    ISO_TRY(get_number(u, INT64_MAX, &offset));
    uint64_t bytes = (uint64_t)count * sizeof(uint32_t);
    if (count && (bytes > u->file_bytes || (uint64_t)offset > u->file_bytes - bytes))
        return broken("checksums beyond the end of the file");
    m->n_sums = (int)count;
    m->sums = (uint64_t)offset;
done:
    return status;
}

iso_status iso_manifest_unpack(const void *bytes, size_t size, uint64_t file_bytes, iso_manifest *manifest)
{
    unpacker u = {.from = bytes, .left = size, .file_bytes = file_bytes};
    iso_manifest m = {0};
    int64_t count = 0;
    iso_status status = ISO_OK;
    ISO_TRY(get_number(&u, ISO_MOST_OBJECTS, &count));
    for (int64_t i = 0; i < count; i++)
        ISO_TRY(get_group(&u, &m));
    ISO_TRY(get_number(&u, ISO_MOST_OBJECTS, &count));
    for (int64_t i = 0; i < count; i++)
        ISO_TRY(get_tensor(&u, &m));
    ISO_TRY(get_long_text(&u, &m.state));
    ISO_TRY(get_long_text(&u, &m.index));
    ISO_TRY(get_sums(&u, &m));
    if (u.left > 0)
        ISO_TRY(broken("something follows it"));
    *manifest = m;
    return ISO_OK;
done:
    iso_manifest_free(&m);
    return status;
}
