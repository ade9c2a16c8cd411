/* The tree of a file, group by group. */
#include <stdio.h>
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/base/printable.h"
#include "runtime/checkpoint/hdf5/hdf5_impl.h"
#include "runtime/checkpoint/write/file_layout_impl.h"

typedef struct walk {
    const char *path;
    uint64_t file_bytes;
    iso_manifest *manifest;
    haddr_t above[ISO_DEEPEST]; /* addresses of the open groups, outermost first */
    int depth, n_objects;
    char h5_path[ISO_DEEPEST * (ISO_LONGEST_NAME + 1) + 1]; /* HDF5 path of the current group; "" for the
                                                             root */
    iso_status status;
} walk;

static iso_status walk_group(walk *w, hid_t group, haddr_t address);

/* Appends a member's name to w->h5_path; *end: the length before. Names appear in messages and on terminals. */
static iso_status enter(walk *w, const char *name, size_t *end)
{
    *end = strlen(w->h5_path);
    if (!*name || strlen(name) > ISO_LONGEST_NAME || strchr(name, '/') || !iso_text_is_printable(name))
        return iso_error(ISO_INVALID,
                         "'%s': '%s/' has a member whose name is empty, too long, or has unprintable "
                         "characters",
                         w->path, w->h5_path);
    if (w->depth == ISO_DEEPEST)
        return iso_error(ISO_INVALID, "'%s': groups are nested deeper than %d", w->path, ISO_DEEPEST);
    if (++w->n_objects > ISO_MOST_OBJECTS)
        return iso_error(ISO_INVALID, "'%s' has more than %d objects", w->path, ISO_MOST_OBJECTS);
    snprintf(w->h5_path + *end, sizeof w->h5_path - *end, "/%s", name);
    return ISO_OK;
}

static iso_status check_link(const walk *w, const char *name, H5L_type_t type)
{
    const char *kind = type == H5L_TYPE_SOFT       ? "a soft link"
                       : type == H5L_TYPE_EXTERNAL ? "an external link"
                                                   : "a link of unknown kind";
    if (type == H5L_TYPE_HARD)
        return ISO_OK;
    return iso_error(ISO_INVALID, "'%s': '%s/%s' is %s; links are not followed", w->path, w->h5_path,
                     iso_text_is_printable(name) ? name : "?", kind);
}

static iso_status check_cycle(const walk *w, haddr_t address)
{
    for (int i = 0; i < w->depth; i++)
        if (w->above[i] == address)
            return iso_error(ISO_INVALID, "'%s': group '%s' contains itself", w->path, w->h5_path);
    return ISO_OK;
}

/* Notes where the checksums are. A dataset that Isogrid has not written is no error. */
static void take_sums(walk *w, hid_t dataset)
{
    iso_manifest_tensor sums;
    const iso_shape *shape = &sums.tensor.shape;
    if (iso_hdf5_dataset(dataset, w->path, w->h5_path, w->file_bytes, &sums) != ISO_OK || !sums.direct ||
        sums.element != ISO_STORAGE_U32 || shape->rank != 1 || shape->dim[0] > ISO_MOST_OBJECTS)
        return;
    w->manifest->n_sums = (int)shape->dim[0];
    w->manifest->sums = sums.offset;
}

/* Reads what Isogrid needs of /isogrid. */
static iso_status take_own(walk *w, hid_t dataset)
{
    iso_manifest *m = w->manifest;
    char **text = !strcmp(w->h5_path, "/isogrid/state")   ? &m->state
                  : !strcmp(w->h5_path, "/isogrid/index") ? &m->index
                                                          : NULL;
    bool direct;
    iso_status status = iso_hdf5_check_storage(dataset, w->path, w->h5_path, &direct);
    if (status == ISO_OK && !strcmp(w->h5_path, "/isogrid/crc32"))
        take_sums(w, dataset);
    else if (status == ISO_OK && text && !*text)
        status = iso_hdf5_dataset_text(dataset, w->path, w->h5_path, ISO_LONGEST_STATE, text);
    return status;
}

static iso_status take_tensor(walk *w, hid_t dataset, haddr_t address)
{
    iso_manifest_tensor tensor;
    if (iso_h5_path_is_own(w->h5_path))
        return take_own(w, dataset);
    iso_status status = iso_hdf5_dataset(dataset, w->path, w->h5_path, w->file_bytes, &tensor);
    if (status == ISO_OK && !tensor.direct)
        tensor.offset = (uint64_t)address;
    return status == ISO_OK ? iso_manifest_add_tensor(w->manifest, &tensor) : status;
}

static iso_status take_group(walk *w, hid_t group, haddr_t address)
{
    char *name = NULL;
    iso_status status = ISO_OK;
    ISO_TRY(check_cycle(w, address));
    ISO_TRY(iso_hdf5_attribute_text(group, w->path, w->h5_path, "name", ISO_LONGEST_NAME, &name));
    if (name && !iso_text_is_printable(name))
        ISO_TRY(iso_error(ISO_INVALID, "'%s': the name of group '%s' has unprintable characters", w->path,
                          w->h5_path));
    if (!iso_h5_path_is_own(w->h5_path))
        ISO_TRY(iso_manifest_add_group(w->manifest, w->h5_path, name));
    ISO_TRY(walk_group(w, group, address));
done:
    iso_free(name);
    return status;
}

static iso_status take_object(walk *w, hid_t object)
{
    H5O_info_t info;
    if (H5Oget_info2(object, &info, H5O_INFO_BASIC) < 0)
        return iso_hdf5_failed(w->path, "HDF5 cannot read what '%s' is", w->h5_path);
    switch (info.type) {
    case H5O_TYPE_GROUP:
        return take_group(w, object, info.addr);
    case H5O_TYPE_DATASET:
        return take_tensor(w, object, info.addr);
    default:
        return iso_error(ISO_INVALID, "'%s': '%s' is neither group nor dataset", w->path, w->h5_path);
    }
}

/* Opens the object by its address. A damaged file may have two members of one name: opening by name could
 * find the other one, which could be a link. */
static iso_status take_member(walk *w, hid_t group, const char *name, const H5L_info_t *info)
{
    size_t end = strlen(w->h5_path);
    hid_t object = -1;
    iso_status status = ISO_OK;
    ISO_TRY(check_link(w, name, info->type));
    ISO_TRY(enter(w, name, &end));
    object = H5Oopen_by_addr(group, info->u.address);
    if (object < 0)
        ISO_TRY(iso_hdf5_failed(w->path, "HDF5 cannot open '%s'", w->h5_path));
    ISO_TRY(take_object(w, object));
done:
    if (object >= 0)
        H5Oclose(object);
    w->h5_path[end] = 0;
    return status;
}

static herr_t visit(hid_t group, const char *name, const H5L_info_t *info, void *data)
{
    walk *w = data;
    w->status = take_member(w, group, name, info);
    return w->status != ISO_OK;
}

static iso_status walk_group(walk *w, hid_t group, haddr_t address)
{
    w->above[w->depth++] = address;
    herr_t result = H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, NULL, visit, w);
    w->depth--;
    if (result < 0 && w->status == ISO_OK)
        return iso_hdf5_failed(w->path, "HDF5 cannot list the members of '%s/'", w->h5_path);
    return w->status;
}

iso_status iso_hdf5_walk(hid_t file, const char *path, uint64_t file_bytes, iso_manifest *manifest)
{
    walk *w = iso_new(sizeof *w);
    H5O_info_t info;
    iso_status status = ISO_OK;
    hid_t root = -1;
    if (!w)
        return iso_error(ISO_NO_MEMORY, "no memory to read '%s'", path);
    w->path = path;
    w->file_bytes = file_bytes;
    w->manifest = manifest;
    root = H5Gopen2(file, "/", H5P_DEFAULT);
    if (root < 0 || H5Oget_info2(root, &info, H5O_INFO_BASIC) < 0)
        ISO_TRY(iso_hdf5_failed(path, "HDF5 cannot open its root"));
    ISO_TRY(walk_group(w, root, info.addr));
done:
    if (root >= 0)
        H5Gclose(root);
    iso_free(w);
    return status;
}
