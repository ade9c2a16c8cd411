/* File specifications: validity, and hashes that distinguish them. */
#include <inttypes.h>
#include <string.h>

#include "runtime/base/hash.h"
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
        hash = hash_text(hash_text(hash, tensor->place), tensor->path);
        hash = iso_hash_bytes(hash, head, sizeof head);
        hash =
            iso_hash_bytes(hash, tensor->shape.dim, (size_t)tensor->shape.rank * sizeof *tensor->shape.dim);
    }
    for (int g = 0; g < spec->n_groups; g++)
        hash = hash_text(hash_text(hash, spec->groups[g].place), spec->groups[g].name);
    return hash ? hash : 1;
}

bool iso_place_is_own(const char *place)
{
    static const char own[] = "/isogrid", tensors[] = "/isogrid/variables/";
    if (strncmp(place, own, sizeof own - 1) != 0 || strncmp(place, tensors, sizeof tensors - 1) == 0)
        return false;
    return place[sizeof own - 1] == '/' || place[sizeof own - 1] == 0;
}

/* Whether it is "/a/b", with no part that is empty, "." or "..". */
static bool is_place(const char *place)
{
    if (!place || *place != '/')
        return false;
    while (*place == '/') {
        size_t length = strcspn(++place, "/");
        if (length == 0 || (length == 1 && place[0] == '.') ||
            (length == 2 && place[0] == '.' && place[1] == '.'))
            return false;
        place += length;
    }
    return true;
}

static iso_status check_place(const char *place)
{
    if (!is_place(place))
        return iso_error(ISO_INVALID, "'%s' is not an HDF5 path like \"/layers/dense/vars/0\"",
                         place ? place : "");
    if (iso_place_is_own(place))
        return iso_error(ISO_INVALID, "'%s': paths below /isogrid are reserved", place);
    return ISO_OK;
}

static iso_status file_spec_check_tensor(const iso_file_spec *spec, int t)
{
    const iso_saved_tensor *tensor = &spec->tensors[t];
    int64_t count = 0, bytes;
    iso_status status = check_place(tensor->place);
    if (status != ISO_OK)
        return status;
    if (iso_dtype_size(tensor->dtype) == 0)
        return iso_error(ISO_INVALID, "'%s' has no type", tensor->place);
    if ((status = iso_shape_count(&tensor->shape, &count)) != ISO_OK)
        return iso_error_prefix(status, "'%s': ", tensor->place);
    if (__builtin_mul_overflow(count, (int64_t)iso_dtype_size(tensor->dtype), &bytes))
        return iso_error(ISO_INVALID, "'%s' has %" PRId64 " elements: too many", tensor->place, count);
    if (!tensor->path && count > 0 && (!spec->constant || !spec->constant[t]))
        return iso_error(ISO_INVALID, "'%s' has neither a path nor a value", tensor->place);
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
    for (int g = 0; g < spec->n_groups; g++)
        ISO_TRY(check_place(spec->groups[g].place));
done:
    return status;
}
