#include "runtime/checkpoint/sparse_impl.h"

#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/checkpoint/hdf5_impl.h"

/* ---- pages ---- */

/* The first page whose number is not below. */
static int find(const iso_sparse *sparse, uint64_t number)
{
    int low = 0, high = sparse->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (sparse->page[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static char *look_up(const iso_sparse *sparse, uint64_t number)
{
    int at = find(sparse, number);
    return at < sparse->count && sparse->page[at].number == number ? sparse->page[at].data : NULL;
}

static char *add(iso_sparse *sparse, uint64_t number)
{
    int at = find(sparse, number);
    char *data = iso_new(ISO_SPARSE_PAGE);
    if (data && (sparse->count & (sparse->count - 1)) == 0) {
        size_t wanted = sparse->count ? (size_t)sparse->count * 2 : 1;
        iso_sparse_page *grown = iso_grow(sparse->page, (size_t)sparse->count, wanted, sizeof *grown);
        if (!grown) {
            iso_free(data);
            return NULL;
        }
        sparse->page = grown;
    }
    if (!data)
        return NULL;
    memmove(sparse->page + at + 1, sparse->page + at, (size_t)(sparse->count - at) * sizeof *sparse->page);
    sparse->page[at] = (iso_sparse_page){number, data};
    sparse->count++;
    return data;
}

bool iso_sparse_write(iso_sparse *sparse, const void *data, size_t bytes, uint64_t offset)
{
    const char *from = data;
    while (bytes > 0) {
        size_t within = offset % ISO_SPARSE_PAGE,
               now = ISO_SPARSE_PAGE - within < bytes ? ISO_SPARSE_PAGE - within : bytes;
        char *page = look_up(sparse, offset / ISO_SPARSE_PAGE);
        if (!page && !(page = add(sparse, offset / ISO_SPARSE_PAGE)))
            return false;
        memcpy(page + within, from, now);
        from += now;
        offset += now;
        bytes -= now;
        if (offset > sparse->bytes)
            sparse->bytes = offset;
    }
    return true;
}

void iso_sparse_read(const iso_sparse *sparse, void *data, size_t bytes, uint64_t offset)
{
    char *to = data;
    while (bytes > 0) {
        size_t within = offset % ISO_SPARSE_PAGE,
               now = ISO_SPARSE_PAGE - within < bytes ? ISO_SPARSE_PAGE - within : bytes;
        const char *page = look_up(sparse, offset / ISO_SPARSE_PAGE);
        if (page)
            memcpy(to, page + within, now);
        else
            memset(to, 0, now);
        to += now;
        offset += now;
        bytes -= now;
    }
}

void iso_sparse_free(iso_sparse *sparse)
{
    for (int i = 0; i < sparse->count; i++)
        iso_free(sparse->page[i].data);
    iso_free(sparse->page);
    *sparse = (iso_sparse){0};
}

/* ---- HDF5's driver ---- */

typedef struct sparse_file {
    H5FD_t base; /* first: HDF5's own */
    iso_sparse *sparse;
    haddr_t allocated;
} sparse_file;

/* What the list of properties holds. */
typedef struct settings {
    iso_sparse *sparse;
} settings;

static H5FD_t *open_file(const char *name, unsigned flags, hid_t access, haddr_t most)
{
    (void)name, (void)flags, (void)most;
    const settings *set = H5Pget_driver_info(access);
    sparse_file *file = set ? iso_new(sizeof *file) : NULL;
    if (file)
        file->sparse = set->sparse;
    return file ? &file->base : NULL;
}

static herr_t close_file(H5FD_t *file)
{
    iso_free(file);
    return 0;
}

static int compare(const H5FD_t *a, const H5FD_t *b)
{
    const iso_sparse *x = ((const sparse_file *)a)->sparse, *y = ((const sparse_file *)b)->sparse;
    return x < y ? -1 : x > y;
}

/* Small things lie together; nothing in the file tells of this driver. */
static herr_t features(const H5FD_t *file, unsigned long *flags)
{
    (void)file;
    *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_AGGREGATE_SMALLDATA |
             H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
    return 0;
}

static haddr_t get_allocated(const H5FD_t *file, H5FD_mem_t type)
{
    (void)type;
    return ((const sparse_file *)file)->allocated;
}

static herr_t set_allocated(H5FD_t *file, H5FD_mem_t type, haddr_t end)
{
    (void)type;
    ((sparse_file *)file)->allocated = end;
    return 0;
}

static haddr_t get_end(const H5FD_t *file, H5FD_mem_t type)
{
    (void)type;
    return ((const sparse_file *)file)->sparse->bytes;
}

static herr_t read_file(H5FD_t *file, H5FD_mem_t type, hid_t transfer, haddr_t at, size_t bytes, void *data)
{
    (void)type, (void)transfer;
    iso_sparse_read(((sparse_file *)file)->sparse, data, bytes, at);
    return 0;
}

static herr_t write_file(H5FD_t *file, H5FD_mem_t type, hid_t transfer, haddr_t at, size_t bytes,
                         const void *data)
{
    (void)type, (void)transfer;
    return iso_sparse_write(((sparse_file *)file)->sparse, data, bytes, at) ? 0 : -1;
}

/* The file ends where it is allocated. */
static herr_t end_file(H5FD_t *file, hid_t transfer, hbool_t closing)
{
    (void)transfer, (void)closing;
    ((sparse_file *)file)->sparse->bytes = ((sparse_file *)file)->allocated;
    return 0;
}

static const H5FD_class_t driver = {
    .name = "isogrid_sparse",
    .maxaddr = INT64_MAX,
    .fc_degree = H5F_CLOSE_STRONG,
    .fapl_size = sizeof(settings),
    .open = open_file,
    .close = close_file,
    .cmp = compare,
    .query = features,
    .get_eoa = get_allocated,
    .set_eoa = set_allocated,
    .get_eof = get_end,
    .read = read_file,
    .write = write_file,
    .truncate = end_file,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

herr_t iso_sparse_set_driver(hid_t access, iso_sparse *sparse)
{
    static hid_t registered = -1;
    settings set = {sparse};
    return iso_hdf5_set_driver(access, &driver, &registered, &set);
}
