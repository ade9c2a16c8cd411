/* A dataset as a tensor: what is accepted, and what is refused. */
#include <inttypes.h>

#include "runtime/checkpoint/hdf5/hdf5_impl.h"

static const uint64_t largest_chunk = (uint64_t)1 << 30; /* bytes */
/* Deflate expands a byte to at most 1032 bytes; a dataset that claims more is an attack. */
static const uint64_t most_expansion = 1032, small_file = (uint64_t)64 << 20;

static iso_status check_layout(hid_t create, hid_t type, const char *path, const char *h5_path, bool *direct)
{
    H5D_layout_t layout = H5Pget_layout(create);
    *direct = layout == H5D_CONTIGUOUS;
    if (H5Pget_external_count(create) != 0)
        return iso_error(ISO_INVALID,
                         "'%s': '%s' is an external dataset: its values are in other files, which are "
                         "not read",
                         path, h5_path);
    if (layout == H5D_CHUNKED)
        return iso_hdf5_check_chunks(create, type, path, h5_path, largest_chunk);
    if (layout == H5D_VIRTUAL)
        return iso_error(ISO_INVALID, "'%s': '%s' is a virtual dataset, made of others, which are not read",
                         path, h5_path);
    if (layout != H5D_CONTIGUOUS && layout != H5D_COMPACT)
        return iso_error(ISO_INVALID, "'%s': '%s' is stored in an unknown way", path, h5_path);
    return ISO_OK;
}

/* Must be called before any call that could make HDF5 open another file. */
iso_status iso_hdf5_check_storage(hid_t dataset, const char *path, const char *h5_path, bool *direct)
{
    hid_t create = H5Dget_create_plist(dataset), type = H5Dget_type(dataset);
    iso_status status = create < 0 || type < 0
                            ? iso_hdf5_failed(path, "HDF5 cannot read how '%s' is stored", h5_path)
                            : check_layout(create, type, path, h5_path, direct);
    if (type >= 0)
        H5Tclose(type);
    if (create >= 0)
        H5Pclose(create);
    return status;
}

/* Reads the shape and computes the bytes of its elements. */
static iso_status take_shape(hid_t space, const char *path, iso_manifest_tensor *t, uint64_t *bytes)
{
    const char *h5_path = t->tensor.h5_path;
    hsize_t dim[H5S_MAX_RANK] = {0};
    H5S_class_t class = H5Sget_simple_extent_type(space);
    int rank = H5Sget_simple_extent_dims(space, dim, NULL);
    int64_t all = (int64_t)iso_storage_type_size(t->element);
    bool fits = true, empty = false;
    if (rank < 0 || (class != H5S_SCALAR && class != H5S_SIMPLE))
        return iso_error(ISO_INVALID, "'%s': '%s' has no shape", path, h5_path);
    if (rank > ISO_MAX_RANK)
        return iso_error(ISO_INVALID, "'%s': '%s' has %d dimensions; at most %d", path, h5_path, rank,
                         ISO_MAX_RANK);
    t->tensor.shape = (iso_shape){.rank = rank};
    for (int i = 0; i < rank; i++) {
        fits =
            fits && dim[i] <= INT64_MAX && !__builtin_mul_overflow(all, dim[i] ? (int64_t)dim[i] : 1, &all);
        empty = empty || dim[i] == 0;
        t->tensor.shape.dim[i] = (int64_t)dim[i];
    }
    if (!fits)
        return iso_error(ISO_INVALID, "'%s': the size of '%s' overflows", path, h5_path);
    *bytes = empty ? 0 : (uint64_t)all;
    return ISO_OK;
}

/* Finds the offset of the elements if they can be read from the file as they are. Otherwise HDF5 will read
 * them, and their size must not exceed what the file can hold. */
static iso_status take_offset(hid_t dataset, const char *path, uint64_t bytes, uint64_t file_bytes,
                              iso_manifest_tensor *t)
{
    const char *h5_path = t->tensor.h5_path;
    haddr_t offset = t->direct && bytes > 0 ? H5Dget_offset(dataset) : 0;
    uint64_t most =
        file_bytes > UINT64_MAX / 2 / most_expansion ? UINT64_MAX / 2 : file_bytes * most_expansion;
    if (offset == HADDR_UNDEF)
        t->direct = false; /* no element was ever written */
    if (!t->direct && bytes > most + small_file)
        return iso_error(ISO_INVALID,
                         "'%s': '%s' claims %" PRIu64 " bytes, more than a file of %" PRIu64 " can hold",
                         path, h5_path, bytes, file_bytes);
    if (!t->direct || bytes == 0)
        return ISO_OK;
    t->offset = (uint64_t)offset;
    if (H5Dget_storage_size(dataset) != bytes || bytes > file_bytes || t->offset > file_bytes - bytes)
        return iso_error(ISO_INVALID, "'%s': '%s' has %" PRIu64 " bytes, which are not all within the file",
                         path, h5_path, bytes);
    return ISO_OK;
}

iso_status iso_hdf5_dataset(hid_t dataset, const char *path, const char *h5_path, uint64_t file_bytes,
                            iso_manifest_tensor *t)
{
    uint64_t bytes = 0;
    iso_status status = ISO_OK;
    hid_t space = -1, type = H5Dget_type(dataset);
    *t = (iso_manifest_tensor){.tensor.h5_path = h5_path};
    ISO_TRY(iso_hdf5_check_storage(dataset, path, h5_path, &t->direct));
    space = H5Dget_space(dataset);
    if (type < 0 || space < 0)
        ISO_TRY(iso_hdf5_failed(path, "HDF5 cannot read type and shape of '%s'", h5_path));
    ISO_TRY(iso_hdf5_storage_type(dataset, type, path, h5_path, &t->element, &t->direct));
    t->tensor.dtype = iso_storage_type_dtype(t->element);
    ISO_TRY(take_shape(space, path, t, &bytes));
    ISO_TRY(take_offset(dataset, path, bytes, file_bytes, t));
done:
    if (space >= 0)
        H5Sclose(space);
    if (type >= 0)
        H5Tclose(type);
    return status;
}
