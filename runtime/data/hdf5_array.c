#include <inttypes.h>
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/data/hdf5_impl.h"

enum { CHUNK_CACHE_SLOTS = 1009, CHUNK_CACHE_BYTES = 32 << 20, MOST_NAMES = 64 };

iso_status iso_hdf5_open(const char *path, hid_t *file)
{
    return H5Fis_hdf5(path) == 0 ? iso_error(ISO_INVALID, "'%s' is not an HDF5 file", path)
                                 : iso_hdf5_open_to_read(path, file);
}

bool iso_hdf5_has(hid_t file, const char *name)
{
    return H5Lexists(file, name, H5P_DEFAULT) > 0;
}

typedef struct names {
    const char *name[MOST_NAMES];
    int count;
} names;

static herr_t add_name(hid_t group, const char *name, const H5L_info_t *info, void *data)
{
    names *all = data;
    (void)group;
    (void)info;
    all->name[all->count] = iso_strdup(name);
    all->count += all->name[all->count] != NULL;
    return all->count == MOST_NAMES;
}

static iso_status no_dataset(hid_t file, const char *path, const char *name)
{
    names all = {0};
    iso_text near = {0};
    H5Literate(file, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, add_name, &all);
    iso_text_add_nearest(&near, name, all.name, all.count);
    iso_status status = iso_error(ISO_INVALID, "'%s' has no dataset '%s'%s", path, name, iso_text_get(&near));
    iso_text_free(&near);
    for (int i = 0; i < all.count; i++)
        iso_free((void *)(uintptr_t)all.name[i]);
    return status;
}

static herr_t refuse_link(const char *parent_file, const char *parent_group, const char *child_file,
                          const char *child_object, unsigned *flags, hid_t access, void *met)
{
    (void)parent_file, (void)parent_group, (void)child_file, (void)child_object, (void)flags, (void)access;
    *(bool *)met = true;
    return -1;
}

/* Rows in a random order touch chunks in a random order, so some chunks are cached. */
static iso_status open_dataset(hid_t file, const char *path, const char *name, hid_t *dataset)
{
    bool left_file = false;
    iso_status status = ISO_OK;
    hid_t access = H5Pcreate(H5P_DATASET_ACCESS);
    if (access < 0 || H5Pset_elink_cb(access, refuse_link, &left_file) < 0 ||
        H5Pset_chunk_cache(access, CHUNK_CACHE_SLOTS, CHUNK_CACHE_BYTES, 0) < 0)
        status = iso_hdf5_failed(path, "HDF5 does not start");
    else
        *dataset = H5Dopen2(file, name, access);
    if (access >= 0)
        H5Pclose(access);
    if (status != ISO_OK || *dataset >= 0)
        return status;
    if (left_file)
        return iso_error(ISO_INVALID, "'%s': '%s' is a link to another file, which is not followed", path,
                         name);
    return no_dataset(file, path, name);
}

static iso_status check_storage(hid_t dataset, hid_t type, const char *path, const char *name,
                                size_t chunk_limit)
{
    hid_t create = H5Dget_create_plist(dataset);
    iso_status status = ISO_OK;
    if (create < 0)
        return iso_hdf5_failed(path, "%s", name);
    H5D_layout_t layout = H5Pget_layout(create);
    if (H5Pget_external_count(create) > 0)
        status = iso_error(ISO_INVALID, "'%s': '%s' keeps its values in other files, which are not read",
                           path, name);
    else if (layout == H5D_CHUNKED)
        status = iso_hdf5_check_chunks(create, type, path, name, chunk_limit);
    else if (layout != H5D_CONTIGUOUS && layout != H5D_COMPACT)
        status = iso_error(
            ISO_INVALID, "'%s': '%s' is a virtual dataset; contiguous or chunked ones are read", path, name);
    H5Pclose(create);
    return status;
}

/* The type in memory that holds every value of the file's type. */
static bool choose_type(H5T_class_t class, size_t bytes, bool is_signed, iso_dtype *dtype, hid_t *native)
{
    if (class == H5T_FLOAT && bytes <= 8) {
        *dtype = bytes <= 4 ? ISO_F32 : ISO_F64;
        *native = bytes <= 4 ? H5T_NATIVE_FLOAT : H5T_NATIVE_DOUBLE;
        return true;
    }
    if (class != H5T_INTEGER || bytes > 8 || (bytes == 8 && !is_signed))
        return false;
    *dtype = bytes == 1 && !is_signed ? ISO_U8 : bytes < 4 || (bytes == 4 && is_signed) ? ISO_I32 : ISO_I64;
    *native = *dtype == ISO_U8 ? H5T_NATIVE_UINT8 : *dtype == ISO_I32 ? H5T_NATIVE_INT32 : H5T_NATIVE_INT64;
    return true;
}

static iso_status take_type(iso_hdf5_array *array, hid_t type, const char *path, const char *name)
{
    bool flags = iso_hdf5_is_bool(type); /* HDF5 converts its elements to 0 and 1 */
    H5T_class_t class = flags ? H5T_INTEGER : H5Tget_class(type);
    size_t bytes = H5Tget_size(type);
    bool is_signed = !flags && (class != H5T_INTEGER || H5Tget_sign(type) == H5T_SGN_2);
    if (choose_type(class, bytes, is_signed, &array->dtype, &array->type))
        return ISO_OK;
    return iso_error(
        ISO_INVALID,
        "'%s': '%s' has elements that are not integers or floats of up to 64 bits (%s%s of %zu bytes)", path,
        name, class == H5T_INTEGER && !is_signed ? "unsigned " : "",
        class == H5T_INTEGER ? "integers"
        : class == H5T_FLOAT ? "floats"
                             : "others",
        bytes);
}

static iso_status take_shape(iso_hdf5_array *array, const char *path, const char *name)
{
    hsize_t dim[H5S_MAX_RANK] = {0};
    hid_t space = H5Dget_space(array->dataset);
    int rank = space < 0 ? -1 : H5Sget_simple_extent_dims(space, dim, NULL);
    size_t bytes = iso_dtype_size(array->dtype), all;
    bool fits = true;
    if (space >= 0)
        H5Sclose(space);
    if (rank < 1 || rank > ISO_MAX_RANK)
        return iso_error(ISO_INVALID, "'%s': '%s' has %d dimensions; 1 to %d, the first being the rows", path,
                         name, rank < 0 ? 0 : rank, ISO_MAX_RANK);
    array->row = (iso_shape){.rank = rank - 1};
    for (int i = 0; i < rank; i++) {
        if (dim[i] == 0)
            return iso_error(ISO_INVALID, "'%s': '%s' is empty: dimension %d is 0", path, name, i);
        fits = fits && dim[i] <= INT64_MAX;
        if (i > 0) {
            array->row.dim[i - 1] = (int64_t)dim[i];
            fits = fits && !__builtin_mul_overflow(bytes, (size_t)dim[i], &bytes);
        }
    }
    if (!fits || __builtin_mul_overflow(bytes, (size_t)dim[0], &all) || all > PTRDIFF_MAX)
        return iso_error(ISO_INVALID,
                         "'%s': the size of '%s' overflows: %" PRIu64 " rows of %zu bytes or more", path,
                         name, (uint64_t)dim[0], bytes);
    array->rows = (int64_t)dim[0];
    array->row_bytes = bytes;
    return ISO_OK;
}

iso_status iso_hdf5_array_open(hid_t file, const char *path, const char *name, size_t chunk_limit,
                               iso_hdf5_array *array)
{
    hid_t type = -1;
    iso_status status = ISO_OK;
    *array = (iso_hdf5_array){.dataset = -1};
    ISO_TRY(open_dataset(file, path, name, &array->dataset));
    type = H5Dget_type(array->dataset);
    if (type < 0)
        ISO_TRY(iso_hdf5_failed(path, "%s", name));
    ISO_TRY(check_storage(array->dataset, type, path, name, chunk_limit));
    ISO_TRY(take_type(array, type, path, name));
    ISO_TRY(take_shape(array, path, name));
done:
    if (type >= 0)
        H5Tclose(type);
    if (status != ISO_OK)
        iso_hdf5_array_close(array);
    return status;
}

void iso_hdf5_array_close(iso_hdf5_array *array)
{
    if (array->dataset > 0)
        H5Dclose(array->dataset);
    array->dataset = -1;
}

iso_status iso_hdf5_array_read(const iso_hdf5_array *array, const char *path, int64_t begin, int64_t count,
                               const iso_box *part, void *out)
{
    hsize_t offset[ISO_MAX_RANK] = {(hsize_t)begin}, extent[ISO_MAX_RANK] = {(hsize_t)count};
    hid_t file = H5Dget_space(array->dataset);
    for (int i = 0; i < array->row.rank; i++) {
        offset[i + 1] = part ? (hsize_t)part->offset[i] : 0;
        extent[i + 1] = (hsize_t)(part ? part->extent[i] : array->row.dim[i]);
    }
    hid_t memory = H5Screate_simple(array->row.rank + 1, extent, NULL);
    bool good = file >= 0 && memory >= 0 &&
                H5Sselect_hyperslab(file, H5S_SELECT_SET, offset, NULL, extent, NULL) >= 0 &&
                H5Dread(array->dataset, array->type, memory, file, H5P_DEFAULT, out) >= 0;
    iso_status status = ISO_OK;
    if (!good)
        status = iso_hdf5_failed(path, "cannot read rows [%" PRId64 ", %" PRId64 " + %" PRId64 ")", begin,
                                 begin, count);
    if (memory >= 0)
        H5Sclose(memory);
    if (file >= 0)
        H5Sclose(file);
    return status;
}
