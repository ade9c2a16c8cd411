#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/file.h"
#include "runtime/base/lock.h"
#include "runtime/base/text.h"
#include "runtime/checkpoint/hdf5/hdf5_impl.h"

void iso_hdf5_quiet_begin(iso_hdf5_quiet *quiet)
{
    iso_hdf5_lock();
    H5open(); /* before a child is made: starting HDF5 calls MPI */
    H5Eget_auto2(H5E_DEFAULT, &quiet->print, &quiet->print_data);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

void iso_hdf5_quiet_end(const iso_hdf5_quiet *quiet)
{
    H5Eset_auto2(H5E_DEFAULT, quiet->print, quiet->print_data);
    iso_hdf5_unlock();
}

/* The message of the innermost function says most. */
static herr_t take_first(unsigned depth, const H5E_error2_t *error, void *text)
{
    (void)depth;
    iso_text_add(text, ": %s", error->desc ? error->desc : "");
    return 1;
}

/* EINVAL comes from impossible numbers in a file. */
static bool is_of_system(int error, bool opening)
{
    return error != 0 && error != EINVAL && !(opening && iso_file_is_of_caller(error));
}

/* HDF5 states the system's error in a text alone: "file read failed: ..., errno = 5, error message = ...". */
static iso_status status_of(const char *why)
{
    const char *stated = strstr(why, "errno = ");
    int error = stated ? atoi(stated + strlen("errno = ")) : 0;
    return is_of_system(error, strstr(why, "unable to open file") != NULL) ? ISO_IO : ISO_INVALID;
}

iso_status iso_hdf5_failed(const char *path, const char *what, ...)
{
    char words[512];
    iso_text why = {0};
    va_list args;
    va_start(args, what);
    vsnprintf(words, sizeof words, what, args);
    va_end(args);
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &why);
    iso_status status =
        iso_error(status_of(iso_text_get(&why)), "'%s': %s%s", path, words, iso_text_get(&why));
    iso_text_free(&why);
    return status;
}

herr_t iso_hdf5_set_driver(hid_t access, const H5FD_class_t *driver, hid_t *registered, const void *settings)
{
    if (*registered < 0 || H5Iis_valid(*registered) <= 0) /* the caller may have closed HDF5 since the last
                                                             call */
        *registered = H5FDregister(driver);
    return *registered < 0 ? -1 : H5Pset_driver(access, *registered, settings);
}

/* HDF5's message does not always contain the system's error. errno is 0 before the call. */
static iso_status open_failed(const char *path)
{
    int error = errno;
    iso_status status = iso_hdf5_failed(path, "HDF5 cannot open it");
    bool reported = !error || strstr(iso_error_message(), strerror(error));
    if (is_of_system(error, true))
        status = ISO_IO;
    char text[1024];
    snprintf(text, sizeof text, "%s", iso_error_message());
    return reported ? status : iso_error(status, "%s: %s", text, strerror(error));
}

iso_status iso_hdf5_open_to_read(const char *path, hid_t *file)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    iso_status status = ISO_OK;
    errno = 0;
    if (access < 0 || H5Pset_fapl_sec2(access) < 0 || H5Pset_file_locking(access, false, true) < 0)
        status = iso_hdf5_failed(path, "HDF5 does not start");
    else if ((*file = H5Fopen(path, H5F_ACC_RDONLY, access)) < 0)
        status = open_failed(path);
    if (access >= 0)
        H5Pclose(access);
    return status;
}

static iso_status check_filters(hid_t create, const char *path, const char *h5_path)
{
    for (int i = 0; i < H5Pget_nfilters(create); i++) {
        char filter[64] = "";
        unsigned flags, config;
        size_t values = 0;
        H5Z_filter_t id =
            H5Pget_filter2(create, (unsigned)i, &flags, &values, NULL, sizeof filter, filter, &config);
        if (id < 0 || H5Zfilter_avail(id) <= 0)
            return iso_error(ISO_INVALID,
                             "'%s': '%s' is compressed with filter %d '%s', which is not installed", path,
                             h5_path, (int)id, filter);
    }
    return ISO_OK;
}

iso_status iso_hdf5_check_chunks(hid_t create, hid_t type, const char *path, const char *h5_path,
                                 uint64_t most)
{
    hsize_t dim[H5S_MAX_RANK];
    uint64_t bytes = H5Tget_size(type);
    int rank = H5Pget_chunk(create, H5S_MAX_RANK, dim);
    for (int i = 0; i < rank; i++)
        if (__builtin_mul_overflow(bytes, (uint64_t)dim[i], &bytes))
            bytes = UINT64_MAX;
    if (rank < 0 || bytes > most)
        return iso_error(ISO_INVALID, "'%s': '%s' has chunks of %" PRIu64 " bytes; at most %" PRIu64, path,
                         h5_path, bytes, most);
    return check_filters(create, path, h5_path);
}

static bool select_box(hid_t space, const iso_box *box)
{
    hsize_t offset[ISO_MAX_RANK], extent[ISO_MAX_RANK];
    for (int i = 0; i < box->rank; i++) {
        offset[i] = (hsize_t)box->offset[i];
        extent[i] = (hsize_t)box->extent[i];
    }
    return box->rank == 0 || H5Sselect_hyperslab(space, H5S_SELECT_SET, offset, NULL, extent, NULL) >= 0;
}

static hid_t memory_space(const iso_box *box)
{
    hsize_t extent[ISO_MAX_RANK];
    for (int i = 0; i < box->rank; i++)
        extent[i] = (hsize_t)box->extent[i];
    return box->rank == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(box->rank, extent, NULL);
}

/* HDF5's own types, not to be closed. H5I_INVALID_HID: use the file's type, which has the same bytes. */
static hid_t memory_type(iso_storage_type element)
{
    switch (element) {
    case ISO_STORAGE_F32:
        return H5T_NATIVE_FLOAT;
    case ISO_STORAGE_F64:
        return H5T_NATIVE_DOUBLE;
    case ISO_STORAGE_I8:
        return H5T_NATIVE_INT8;
    case ISO_STORAGE_I16:
        return H5T_NATIVE_INT16;
    case ISO_STORAGE_I32:
        return H5T_NATIVE_INT32;
    case ISO_STORAGE_I64:
        return H5T_NATIVE_INT64;
    case ISO_STORAGE_U8:
        return H5T_NATIVE_UINT8;
    case ISO_STORAGE_U16:
        return H5T_NATIVE_UINT16;
    case ISO_STORAGE_U32:
        return H5T_NATIVE_UINT32;
    case ISO_STORAGE_U64:
        return H5T_NATIVE_UINT64;
    default:
        return H5I_INVALID_HID;
    }
}

/* Whether the dataset is still as it was when the file was walked: same shape, same size of elements. */
static bool is_same(hid_t space, hid_t type, const iso_manifest_tensor *tensor)
{
    hsize_t dim[H5S_MAX_RANK];
    int rank = H5Sget_simple_extent_dims(space, dim, NULL);
    if (rank != tensor->tensor.shape.rank)
        return false;
    for (int i = 0; i < rank; i++)
        if (dim[i] != (hsize_t)tensor->tensor.shape.dim[i])
            return false;
    return memory_type(tensor->element) >= 0 || H5Tget_size(type) == iso_storage_type_size(tensor->element);
}

iso_status iso_hdf5_read(hid_t file, const char *path, const iso_manifest_tensor *tensor, const iso_box *box,
                         void *out)
{
    const char *h5_path = tensor->tensor.h5_path;
    iso_status status = ISO_OK;
    hid_t dataset = H5Oopen_by_addr(file, (haddr_t)tensor->offset);
    hid_t space = dataset < 0 ? -1 : H5Dget_space(dataset), type = dataset < 0 ? -1 : H5Dget_type(dataset);
    hid_t memory = memory_space(box), as = memory_type(tensor->element);
    if (space < 0 || type < 0 || memory < 0)
        status = iso_hdf5_failed(path, "HDF5 cannot open '%s'", h5_path);
    else if (!is_same(space, type, tensor))
        status = iso_error(ISO_INVALID, "'%s': '%s' has changed since the file was opened", path, h5_path);
    else if (!select_box(space, box) ||
             H5Dread(dataset, as < 0 ? type : as, memory, space, H5P_DEFAULT, out) < 0)
        status = iso_hdf5_failed(path, "HDF5 cannot read '%s'", h5_path);
    if (memory >= 0)
        H5Sclose(memory);
    if (type >= 0)
        H5Tclose(type);
    if (space >= 0)
        H5Sclose(space);
    if (dataset >= 0)
        H5Dclose(dataset);
    return status;
}
