#include <errno.h>
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/checkpoint/hdf5/hdf5_impl.h"

typedef struct mpio_file {
    H5FD_t base; /* must be first: HDF5's own part */
    H5FD_t *parallel;
    char *path;
    haddr_t end, allocated; /* end: the file's size when it was opened; it does not grow */
    iso_status *closed;
} mpio_file;

/* The settings that the property list holds. */
typedef struct settings {
    hid_t parallel;
    iso_status *closed;
} settings;

static H5FD_t *parallel_of(const H5FD_t *file)
{
    return ((const mpio_file *)file)->parallel;
}

static void free_file(mpio_file *file)
{
    iso_free(file->path);
    iso_free(file);
}

static H5FD_t *mpio_driver_open_file(const char *name, unsigned flags, hid_t access, haddr_t most)
{
    const settings *set = H5Pget_driver_info(access);
    mpio_file *file = set ? iso_new(sizeof *file) : NULL;
    if (!file)
        return NULL;
    file->path = iso_strdup(name);
    file->closed = set->closed;
    file->parallel = file->path ? H5FDopen(name, flags, set->parallel, most) : NULL;
    if (!file->parallel) {
        free_file(file);
        return NULL;
    }
    file->end = H5FDget_eof(file->parallel, H5FD_MEM_DEFAULT);
    return &file->base;
}

/* ROMIO reports every failure as an input/output error; the system's message says more. errno is 0 before the
 * call. */
static herr_t tell_system_error(herr_t done, const char *what)
{
    int error = errno;
    if (done < 0 && error) {
        H5Eclear2(H5E_DEFAULT);
        H5Epush2(H5E_DEFAULT, __FILE__, __func__, __LINE__, H5E_ERR_CLS, H5E_IO, H5E_SYSERRSTR, "%s: %s",
                 what, strerror(error));
    }
    return done;
}

/* Always reports success: HDF5 would keep a file that it could not close. Restores HDF5's error stack
 * afterwards: when HDF5 closes the file because opening it failed, the stack holds the reason. */
static herr_t close_file(H5FD_t *closing)
{
    mpio_file *file = (mpio_file *)closing;
    hid_t errors = H5Eget_current_stack();
    iso_status status = ISO_OK;
    errno = 0;
    if (tell_system_error(H5FDflush(file->parallel, H5P_DEFAULT, false), "MPI_File_sync failed") < 0)
        status = iso_hdf5_failed(file->path, "HDF5's parallel driver cannot sync it");
    errno = 0;
    if (tell_system_error(H5FDclose(file->parallel), "MPI_File_close failed") < 0 && status == ISO_OK)
        status = iso_hdf5_failed(file->path, "HDF5's parallel driver cannot close it");
    *file->closed = status;
    free_file(file);
    if (errors >= 0)
        H5Eset_current_stack(errors);
    return 0;
}

/* Disables the buffer in which HDF5 would collect tensors' bytes. */
static herr_t features(const H5FD_t *file, unsigned long *flags)
{
    (void)file;
    *flags = H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
    return 0;
}

static haddr_t get_allocated(const H5FD_t *file, H5FD_mem_t type)
{
    (void)type;
    return ((const mpio_file *)file)->allocated;
}

static herr_t set_allocated(H5FD_t *file, H5FD_mem_t type, haddr_t end)
{
    ((mpio_file *)file)->allocated = end;
    return H5FDset_eoa(parallel_of(file), type, end);
}

static haddr_t get_end(const H5FD_t *file, H5FD_mem_t type)
{
    (void)type;
    return ((const mpio_file *)file)->end;
}

static herr_t mpio_driver_read_file(H5FD_t *file, H5FD_mem_t type, hid_t transfer, haddr_t at, size_t bytes,
                                    void *data)
{
    errno = 0;
    return tell_system_error(H5FDread(parallel_of(file), type, transfer, at, bytes, data),
                             "MPI_File_read_at failed");
}

static herr_t write_file(H5FD_t *file, H5FD_mem_t type, hid_t transfer, haddr_t at, size_t bytes,
                         const void *data)
{
    errno = 0;
    return type == H5FD_MEM_DRAW
               ? tell_system_error(H5FDwrite(parallel_of(file), type, transfer, at, bytes, data),
                                   "MPI_File_write_at failed")
               : 0;
}

static const H5FD_class_t driver = {
    .name = "isogrid_mpio",
    .maxaddr = INT64_MAX,
    .fc_degree = H5F_CLOSE_STRONG,
    .fapl_size = sizeof(settings),
    .open = mpio_driver_open_file,
    .close = close_file,
    .query = features,
    .get_eoa = get_allocated,
    .set_eoa = set_allocated,
    .get_eof = get_end,
    .read = mpio_driver_read_file,
    .write = write_file,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

herr_t iso_mpio_set_driver(hid_t access, hid_t parallel, iso_status *closed)
{
    static hid_t registered = -1;
    settings set = {parallel, closed};
    return iso_hdf5_set_driver(access, &driver, &registered, &set);
}
