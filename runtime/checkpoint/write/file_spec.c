/* File specifications: validity, and hashes that distinguish them. */
#include <inttypes.h>
#include <string.h>

#include "runtime/base/hash.h"
#include "runtime/base/printable.h"
#include "runtime/checkpoint/saver.h"
#include "runtime/checkpoint/write/file_layout_impl.h"

/* Hashes a text so that NULL, "" and adjacent texts are distinguished. */
static uint64_t hash_text(uint64_t hash, const char *text)
{
    return iso_hash_bytes(hash, text ? text : "\1", text ? strlen(text) + 1 : 2);
}

uint64_t iso_file_spec_structure(const iso_file_spec *spec)
{
    uint64_t hash = iso_hash_mix((uint64_t)spec->n_tensors + 1);
    for (int t = 0; t < spec->n_tensors; t++) {
        const iso_saved_tensor *tensor = &spec->tensors[t];
        int head[2] = {(int)tensor->dtype, tensor->shape.rank};
        hash = hash_text(hash_text(hash, tensor->h5_path), tensor->path);
        hash = iso_hash_bytes(hash, head, sizeof head);
        hash =
            iso_hash_bytes(hash, tensor->shape.dim, (size_t)tensor->shape.rank * sizeof *tensor->shape.dim);
    }
    for (int g = 0; g < spec->n_groups; g++)
        hash = hash_text(hash_text(hash, spec->groups[g].h5_path), spec->groups[g].name);
    return hash ? hash : 1;
}

bool iso_h5_path_is_own(const char *h5_path)
{
    static const char own[] = "/isogrid", tensors[] = "/isogrid/variables/";
    if (strncmp(h5_path, own, sizeof own - 1) != 0 || strncmp(h5_path, tensors, sizeof tensors - 1) == 0)
        return false;
    return h5_path[sizeof own - 1] == '/' || h5_path[sizeof own - 1] == 0;
}

/* Whether it is "/a/b", with no part that is empty, "." or "..". */
static bool is_h5_path(const char *h5_path)
{
    if (!h5_path || *h5_path != '/')
        return false;
    while (*h5_path == '/') {
        size_t length = strcspn(++h5_path, "/");
        if (length == 0 || (length == 1 && h5_path[0] == '.') ||
            (length == 2 && h5_path[0] == '.' && h5_path[1] == '.'))
            return false;
        h5_path += length;
    }
    return true;
}

/* Files with other names are written, but no reader of this library accepts them. `of`: whose name it is. */
static iso_status check_printable(const char *name, const char *of)
{
    char text[200];
    if (!name || iso_text_is_printable(name))
        return ISO_OK;
    return iso_error(ISO_INVALID, "%s '%s': the name is not UTF-8 without control characters", of,
                     iso_text_printable(name, text, sizeof text));
}

static iso_status check_h5_path(const char *h5_path)
{
    iso_status status = check_printable(h5_path, "HDF5 path");
    if (status != ISO_OK)
        return status;
    if (!is_h5_path(h5_path))
        return iso_error(ISO_INVALID, "'%s' is not an HDF5 path like \"/layers/dense/vars/0\"",
                         h5_path ? h5_path : "");
    if (iso_h5_path_is_own(h5_path))
        return iso_error(ISO_INVALID, "'%s': paths below /isogrid are reserved", h5_path);
    return ISO_OK;
}

static iso_status file_spec_check_tensor(const iso_file_spec *spec, int t)
{
    const iso_saved_tensor *tensor = &spec->tensors[t];
    int64_t count = 0, bytes;
    iso_status status = check_h5_path(tensor->h5_path);
    if (status == ISO_OK)
        status = check_printable(tensor->path, "tensor");
    if (status != ISO_OK)
        return status;
    if (iso_dtype_size(tensor->dtype) == 0)
        return iso_error(ISO_INVALID, "'%s' has no type", tensor->h5_path);
    if ((status = iso_shape_count(&tensor->shape, &count)) != ISO_OK)
        return iso_error_prefix(status, "'%s': ", tensor->h5_path);
    if (__builtin_mul_overflow(count, (int64_t)iso_dtype_size(tensor->dtype), &bytes))
        return iso_error(ISO_INVALID, "'%s' has %" PRId64 " elements: too many", tensor->h5_path, count);
    if (!tensor->path && count > 0 && (!spec->constant || !spec->constant[t]))
        return iso_error(ISO_INVALID, "'%s' has neither a path nor a value", tensor->h5_path);
    return ISO_OK;
}

iso_status iso_file_spec_check(const iso_file_spec *spec)
{
    iso_status status = ISO_OK;
    if (spec->n_tensors < 0 || spec->n_tensors > ISO_COMMIT_MOST_TENSORS)
        return iso_error(ISO_INVALID, "a checkpoint holds 0 to %d tensors, not %d", ISO_COMMIT_MOST_TENSORS,
                         spec->n_tensors);
    if (!spec->state)
        return iso_error(ISO_INVALID, "a checkpoint's state is a JSON text, not NULL");
    for (int t = 0; t < spec->n_tensors; t++)
        ISO_TRY(file_spec_check_tensor(spec, t));
    for (int g = 0; g < spec->n_groups; g++) {
        ISO_TRY(check_h5_path(spec->groups[g].h5_path));
        ISO_TRY(check_printable(spec->groups[g].name, "group"));
    }
done:
    return status;
}
