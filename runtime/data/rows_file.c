/* The chief lays the file out with HDF5 and closes it; then every rank writes at the places of its own rows,
 * without HDF5, so that no rank waits for another and none can hang the others. */
#include "runtime/data/rows_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/data/dataset_impl.h"
#include "runtime/data/hdf5_impl.h"
#include "runtime/session/session.h"

/* What the chief tells the others. */
typedef struct laid_out {
    uint64_t bytes;
    uint64_t offset[ISO_MAX_COMPONENTS];
} laid_out;

struct iso_rows_file {
    iso_context *ctx;
    char *path, *beside; /* the final name; the one until then */
    int fd, count;
    bool made; /* by this rank, the chief */
    iso_dtype dtype[ISO_MAX_COMPONENTS];
    iso_shape shape[ISO_MAX_COMPONENTS];
    laid_out at;
};

/* ---- names ---- */

/* "out/y.h5": "out/.y.h5.part" */
static char *name_beside(const char *path)
{
    iso_text text = {0};
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash + 1 - path) : 0;
    iso_text_add(&text, "%.*s.%s.part", folder, path, path + folder);
    char *name = text.failed ? NULL : iso_strdup(iso_text_get(&text));
    iso_text_free(&text);
    return name;
}

static iso_status failed(const iso_rows_file *file, const char *what)
{
    return iso_error(ISO_IO, "'%s': %s: %s", file->path, what, strerror(errno));
}

/* ---- laying out: the chief, with the lock held ---- */

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

/* One contiguous dataset whose place in the file is fixed at once. Without times: equal content, equal bytes.
 */
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

static bool add_datasets(iso_rows_file *file, hid_t h5, const iso_rows_array *arrays)
{
    bool good = true;
    for (int i = 0; i < file->count && good; i++)
        good = add_dataset(h5, arrays[i].name, arrays[i].dtype, &arrays[i].shape, &file->at.offset[i]);
    return good;
}

static iso_status lay_out(iso_rows_file *file, const iso_rows_array *arrays)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), h5 = -1;
    iso_status status = ISO_OK;
    if (access < 0 || H5Pset_fapl_sec2(access) < 0 ||
        (h5 = H5Fcreate(file->beside, H5F_ACC_TRUNC, H5P_DEFAULT, access)) < 0 ||
        !add_datasets(file, h5, arrays))
        status = iso_hdf5_error(ISO_IO, file->path, "it cannot be laid out");
    if (h5 >= 0 && H5Fclose(h5) < 0 && status == ISO_OK)
        status = iso_hdf5_error(ISO_IO, file->path, "it cannot be laid out");
    if (access >= 0)
        H5Pclose(access);
    return status;
}

/* The bytes of an array; those of all must fit into a file. */
static uint64_t bytes_of(const iso_rows_file *file, int array)
{
    int64_t count = 0;
    iso_shape_count(&file->shape[array], &count); /* checked when the file was made */
    return (uint64_t)count * iso_dtype_size(file->dtype[array]);
}

/* Space that is reserved now cannot be lacking later. File systems that cannot do it are left alone. */
static iso_status reserve(iso_rows_file *file)
{
    for (int i = 0; i < file->count; i++) {
        uint64_t end = file->at.offset[i] + bytes_of(file, i);
        file->at.bytes = end > file->at.bytes ? end : file->at.bytes;
    }
    if (TEMP_FAILURE_RETRY(fallocate(file->fd, 0, 0, (off_t)file->at.bytes)) == 0)
        return ISO_OK;
    if (errno == EOPNOTSUPP || errno == ENOSYS)
        return TEMP_FAILURE_RETRY(ftruncate(file->fd, (off_t)file->at.bytes)) == 0
                   ? ISO_OK
                   : failed(file, "its space cannot be had");
    return failed(file, "its space cannot be had");
}

static iso_status make(iso_rows_file *file, const iso_rows_array *arrays)
{
    iso_hdf5_scope scope;
    struct stat there;
    if (stat(file->path, &there) == 0 && !S_ISREG(there.st_mode))
        return iso_error(ISO_IO, "'%s' is there and not a file", file->path);
    /* HDF5 would say less of a folder that is missing or not to be written. */
    file->fd = TEMP_FAILURE_RETRY(open(file->beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (file->fd < 0)
        return failed(file, "it cannot be written");
    file->made = true;
    iso_hdf5_enter(&scope);
    iso_status status = lay_out(file, arrays);
    iso_hdf5_leave(&scope);
    return status == ISO_OK ? reserve(file) : status;
}

/* ---- making and ending ---- */

static iso_status check(const iso_rows_array *arrays, int count, const char *path)
{
    int64_t elements;
    if (!path || !*path)
        return iso_error(ISO_INVALID, "a file without a name");
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

static iso_status begin(iso_rows_file *file, const char *path, const iso_rows_array *arrays, int count)
{
    file->fd = -1;
    file->path = iso_strdup(path);
    file->beside = name_beside(path);
    if (!file->path || !file->beside)
        return iso_error(ISO_NO_MEMORY, "no memory for the name of '%s'", path);
    file->count = count;
    for (int i = 0; i < count; i++) {
        file->dtype[i] = arrays[i].dtype;
        file->shape[i] = arrays[i].shape;
    }
    return ISO_OK;
}

/* The others write into what the chief has made. */
static iso_status join(iso_rows_file *file)
{
    if (file->made)
        return ISO_OK;
    file->fd = TEMP_FAILURE_RETRY(open(file->beside, O_WRONLY | O_CLOEXEC));
    if (file->fd >= 0)
        return ISO_OK;
    if (errno == ENOENT)
        return iso_error(ISO_IO,
                         "'%s': this rank does not see the file that rank 0 has made; the folder must "
                         "be one that all hosts share",
                         file->path);
    return failed(file, "it cannot be written");
}

static void destroy(iso_rows_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    if (file->made)
        unlink(file->beside);
    iso_free(file->path);
    iso_free(file->beside);
    iso_free(file);
}

iso_status iso_rows_file_create(iso_context *ctx, const char *path, const iso_rows_array *arrays, int count,
                                iso_rows_file **out)
{
    iso_rows_file *file = iso_new(sizeof *file);
    iso_status status = file ? check(arrays, count, path) : iso_error(ISO_NO_MEMORY, "no memory for a file");
    if (status == ISO_OK)
        status = begin(file, path, arrays, count);
    else if (file)
        file->fd = -1;
    ISO_TRY(iso_data_agree(ctx, status));
    file->ctx = ctx;
    ISO_TRY(iso_data_agree(ctx, iso_data_rank(ctx) == 0 ? make(file, arrays) : ISO_OK));
    if (ctx)
        ISO_TRY(iso_broadcast(ctx, &file->at, sizeof file->at));
    ISO_TRY(iso_data_agree(ctx, join(file)));
    *out = file;
    return ISO_OK;
done:
    if (file)
        destroy(file);
    return status;
}

/* The name is given when every byte is on the disk; then the folder, which has the name, is synced too. */
static iso_status commit(iso_rows_file *file)
{
    if (TEMP_FAILURE_RETRY(rename(file->beside, file->path)) != 0)
        return failed(file, "it cannot be given its name");
    file->made = false;
    char *slash = strrchr(file->beside, '/');
    if (slash)
        slash[1] = '\0';
    int folder = TEMP_FAILURE_RETRY(open(slash ? file->beside : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder < 0)
        return failed(file, "its folder cannot be synced");
    iso_status status =
        TEMP_FAILURE_RETRY(fsync(folder)) == 0 ? ISO_OK : failed(file, "its folder cannot be synced");
    close(folder);
    return status;
}

iso_status iso_rows_file_finish(iso_rows_file *file, iso_status status)
{
    iso_context *ctx = file->ctx;
    if (status == ISO_OK && TEMP_FAILURE_RETRY(fsync(file->fd)) != 0)
        status = failed(file, "writing failed");
    status = iso_data_agree(ctx, status);
    if (status == ISO_OK)
        status = iso_data_agree(ctx, file->made ? commit(file) : ISO_OK);
    destroy(file);
    return status;
}

/* ---- writing ---- */

static iso_status write_run(const iso_rows_file *file, const char *data, size_t bytes, uint64_t offset)
{
    while (bytes > 0) {
        size_t most = bytes < 1 << 30 ? bytes : 1 << 30; /* Linux takes less than 2 GiB in a call */
        ssize_t written = TEMP_FAILURE_RETRY(pwrite(file->fd, data, most, (off_t)offset));
        if (written == 0)
            errno = ENOSPC;
        if (written <= 0)
            return failed(file, "writing failed");
        data += written;
        bytes -= (size_t)written;
        offset += (uint64_t)written;
    }
    return ISO_OK;
}

/* Elements that lie side by side in the file: those of the box's last dimensions, up to the first that it
 * does not hold whole. */
static int64_t run_length(const iso_box *box, const iso_shape *shape)
{
    int64_t run = 1;
    for (int d = shape->rank - 1; d >= 0; d--) {
        run *= box->extent[d];
        if (box->extent[d] != shape->dim[d])
            break;
    }
    return run;
}

iso_status iso_rows_file_write(iso_rows_file *file, int array, const iso_box *box, const void *data)
{
    const iso_shape *shape = &file->shape[array];
    size_t element = iso_dtype_size(file->dtype[array]);
    int64_t count = iso_box_count(box), run = count ? run_length(box, shape) : 0;
    iso_status status = ISO_OK;
    for (int64_t i = 0; i < count && status == ISO_OK; i += run) {
        uint64_t at = (uint64_t)iso_box_global_index(box, shape, i) * element;
        status = write_run(file, (const char *)data + (size_t)i * element, (size_t)run * element,
                           file->at.offset[array] + at);
    }
    return status;
}
