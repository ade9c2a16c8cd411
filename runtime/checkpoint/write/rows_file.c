/* The chief lays the file out in memory. Then every rank writes at the offsets of its own rows, without HDF5,
 * so that no rank waits for another and none can make the others hang. */
#include "runtime/checkpoint/rows_file.h"

#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/lock.h"
#include "runtime/base/memory.h"
#include "runtime/checkpoint/file_io_impl.h"
#include "runtime/checkpoint/hdf5/memory_driver_impl.h"
#include "runtime/checkpoint/runs_impl.h"
#include "runtime/checkpoint/write/joint_file_impl.h"

/* The file layout that the chief broadcasts. */
typedef struct laid_out {
    uint64_t bytes;
    uint64_t offset[ISO_MAX_COMPONENTS];
} laid_out;

struct iso_rows_file {
    iso_joint_file joint;
    int count;
    iso_dtype dtype[ISO_MAX_COMPONENTS];
    iso_shape shape[ISO_MAX_COMPONENTS];
    laid_out at;
};

/* ---- the chief lays the file out ---- */

static hid_t type_of(iso_dtype dtype)
{
    switch (dtype) {
    case ISO_F32:
        return H5T_NATIVE_FLOAT;
    case ISO_F64:
        return H5T_NATIVE_DOUBLE;
    case ISO_I32:
        return H5T_NATIVE_INT32;
    case ISO_I64:
        return H5T_NATIVE_INT64;
    default:
        return H5T_NATIVE_UINT8;
    }
}

/* One contiguous dataset with a fixed offset in the file. No times are stored: equal contents give equal
 * bytes. */
static bool add_dataset(hid_t h5, const char *name, iso_dtype dtype, const iso_shape *shape, uint64_t *offset)
{
    hsize_t dims[ISO_MAX_RANK];
    for (int d = 0; d < shape->rank; d++)
        dims[d] = (hsize_t)shape->dim[d];
    hid_t create = H5Pcreate(H5P_DATASET_CREATE), link = H5Pcreate(H5P_LINK_CREATE);
    hid_t space = H5Screate_simple(shape->rank, dims, NULL), dataset = -1;
    if (create >= 0 && link >= 0 && space >= 0 && H5Pset_layout(create, H5D_CONTIGUOUS) >= 0 &&
        H5Pset_alloc_time(create, H5D_ALLOC_TIME_EARLY) >= 0 &&
        H5Pset_fill_time(create, H5D_FILL_TIME_NEVER) >= 0 && H5Pset_obj_track_times(create, false) >= 0 &&
        H5Pset_create_intermediate_group(link, 1) >= 0)
        dataset = H5Dcreate2(h5, name, type_of(dtype), space, link, create, H5P_DEFAULT);
    haddr_t at = dataset >= 0 ? H5Dget_offset(dataset) : HADDR_UNDEF;
    *offset = (uint64_t)at;
    bool good = at != HADDR_UNDEF && H5Dclose(dataset) >= 0;
    H5Sclose(space);
    H5Pclose(link);
    H5Pclose(create);
    return good;
}

static bool add_datasets(iso_rows_file *file, const iso_rows_array *arrays, iso_memory_file *memory)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), h5 = -1;
    bool good = access >= 0 && iso_memory_file_set_driver(access, memory) >= 0 &&
                (h5 = H5Fcreate("layout", H5F_ACC_TRUNC, H5P_DEFAULT, access)) >= 0;
    for (int i = 0; i < file->count && good; i++)
        good = add_dataset(h5, arrays[i].name, arrays[i].dtype, &arrays[i].shape, &file->at.offset[i]);
    if (h5 >= 0)
        good = H5Fclose(h5) >= 0 && good;
    if (access >= 0)
        H5Pclose(access);
    return good;
}

/* HDF5 lays the file out in memory, so it never sees a failing disk. */
static iso_status lay_out(iso_rows_file *file, const iso_rows_array *arrays, iso_memory_file *memory)
{
    H5E_auto2_t print;
    void *print_data;
    iso_hdf5_lock();
    H5Eget_auto2(H5E_DEFAULT, &print, &print_data);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    bool good = add_datasets(file, arrays, memory);
    H5Eset_auto2(H5E_DEFAULT, print, print_data);
    iso_hdf5_unlock();
    file->at.bytes = memory->bytes;
    return good ? ISO_OK
                : iso_error(ISO_INVALID,
                            "'%s': HDF5 cannot create its datasets: the name of an output is no name of HDF5 "
                            "(it must not be empty or have a '/'), or memory is short",
                            file->joint.path.whole);
}

/* Writes HDF5's pages: all bytes except the arrays'. */
static iso_status write_pages(const iso_rows_file *file, const iso_memory_file *memory)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < memory->count && status == ISO_OK; i++) {
        uint64_t begin = memory->pages[i].number * ISO_MEMORY_PAGE, left = memory->bytes - begin;
        if (begin < memory->bytes)
            status = iso_file_write_at(file->joint.fd, file->joint.path.whole, memory->pages[i].data,
                                       left < ISO_MEMORY_PAGE ? left : ISO_MEMORY_PAGE, begin);
    }
    return status;
}

static iso_status rows_file_make(iso_rows_file *file, const iso_rows_array *arrays)
{
    iso_memory_file memory = {0};
    iso_status status;
    ISO_TRY(lay_out(file, arrays, &memory));
    ISO_TRY(iso_joint_file_make(&file->joint));
    ISO_TRY(iso_joint_file_reserve(&file->joint, file->at.bytes));
    ISO_TRY(write_pages(file, &memory));
done:
    iso_memory_file_free(&memory);
    return status;
}

/* ---- creation and end ---- */

static iso_status rows_file_check(const iso_rows_array *arrays, int count, const char *path)
{
    int64_t elements;
    if (!path || !*path || path[strlen(path) - 1] == '/')
        return iso_error(ISO_INVALID, "'%s' is not a file name", path ? path : "");
    if (count < 1 || count > ISO_MAX_COMPONENTS)
        return iso_error(ISO_INVALID, "'%s': %d arrays; 1 to %d", path, count, ISO_MAX_COMPONENTS);
    for (int i = 0; i < count; i++) {
        iso_status status = iso_shape_count(&arrays[i].shape, &elements);
        if (status != ISO_OK || iso_dtype_size(arrays[i].dtype) == 0 || arrays[i].shape.rank < 1 ||
            elements > INT64_MAX / 64)
            return iso_error(ISO_INVALID, "'%s': array '%s' has no element type, no rows or overflows", path,
                             arrays[i].name);
    }
    return ISO_OK;
}

static iso_status rows_file_begin(iso_rows_file *file, const char *path, const iso_rows_array *arrays,
                                  int count)
{
    file->count = count;
    for (int i = 0; i < count; i++) {
        file->dtype[i] = arrays[i].dtype;
        file->shape[i] = arrays[i].shape;
    }
    return iso_joint_file_begin(&file->joint, path);
}

static void rows_file_destroy(iso_rows_file *file)
{
    iso_joint_file_end(&file->joint);
    iso_free(file);
}

iso_status iso_rows_file_create(iso_context *ctx, const char *path, const iso_rows_array *arrays, int count,
                                iso_rows_file **out)
{
    iso_rows_file *file = iso_new(sizeof *file);
    iso_status status = file ? rows_file_check(arrays, count, path) : iso_no_memory("a file");
    if (file)
        *file = (iso_rows_file){.joint = {.ctx = ctx, .fd = -1}};
    ISO_TRY(iso_agree(ctx, status));
    ISO_TRY(iso_agree(ctx, rows_file_begin(file, path, arrays, count)));
    ISO_TRY(iso_agree(ctx, iso_is_chief(ctx) ? rows_file_make(file, arrays) : ISO_OK));
    ISO_TRY(iso_broadcast(ctx, &file->at, sizeof file->at));
    ISO_TRY(iso_agree(ctx, iso_joint_file_join(&file->joint)));
    *out = file;
    return ISO_OK;
done:
    if (file)
        rows_file_destroy(file);
    return status;
}

iso_status iso_rows_file_finish(iso_rows_file *file, iso_status status)
{
    status = iso_joint_file_commit(&file->joint, status);
    rows_file_destroy(file);
    return status;
}

/* ---- writing ---- */

iso_status iso_rows_file_write(iso_rows_file *file, int array, const iso_box *box, const void *data)
{
    size_t element = iso_dtype_size(file->dtype[array]);
    iso_state_shard shard = {.shape = file->shape[array], .box = *box, .count = iso_box_count(box)};
    iso_runs runs = iso_runs_of(&shard);
    int64_t own, global, count;
    iso_status status = ISO_OK;
    while (status == ISO_OK && iso_runs_next(&runs, &own, &global, &count))
        status = iso_file_write_at(file->joint.fd, file->joint.path.whole,
                                   (const char *)data + (size_t)own * element, (size_t)count * element,
                                   file->at.offset[array] + (uint64_t)global * element);
    return status;
}
