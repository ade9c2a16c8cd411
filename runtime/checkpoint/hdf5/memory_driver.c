#include "runtime/checkpoint/hdf5/memory_driver_impl.h"

#include <string.h>

#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/checkpoint/hdf5/hdf5_impl.h"

/* ---- pages ---- */

/* The index of the first page whose number is at least `number`. */
static int memory_driver_find(const iso_memory_file *memory, uint64_t number)
{
    int low = 0, high = memory->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (memory->pages[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static char *look_up(const iso_memory_file *memory, uint64_t number)
{
    int at = memory_driver_find(memory, number);
    return at < memory->count && memory->pages[at].number == number ? memory->pages[at].data : NULL;
}

static char *memory_driver_add(iso_memory_file *memory, uint64_t number)
{
    int at = memory_driver_find(memory, number);
    char *data = iso_new(ISO_MEMORY_PAGE);
    if (!data || iso_list_reserve(memory->pages, memory->count, 1, "pages of a file") != ISO_OK) {
        iso_free(data);
        return NULL;
    }
    memmove(memory->pages + at + 1, memory->pages + at, (size_t)(memory->count - at) * sizeof *memory->pages);
    memory->pages[at] = (iso_memory_page){number, data};
    memory->count++;
    return data;
}

bool iso_memory_file_write(iso_memory_file *memory, const void *data, size_t bytes, uint64_t offset)
{
    const char *from = data;
    while (bytes > 0) {
        size_t within = offset % ISO_MEMORY_PAGE,
               now = ISO_MEMORY_PAGE - within < bytes ? ISO_MEMORY_PAGE - within : bytes;
        char *page = look_up(memory, offset / ISO_MEMORY_PAGE);
        if (!page && !(page = memory_driver_add(memory, offset / ISO_MEMORY_PAGE)))
            return false;
        memcpy(page + within, from, now);
        from += now;
        offset += now;
        bytes -= now;
        if (offset > memory->bytes)
            memory->bytes = offset;
    }
    return true;
}

void iso_memory_file_read(const iso_memory_file *memory, void *data, size_t bytes, uint64_t offset)
{
    char *to = data;
    while (bytes > 0) {
        size_t within = offset % ISO_MEMORY_PAGE,
               now = ISO_MEMORY_PAGE - within < bytes ? ISO_MEMORY_PAGE - within : bytes;
        const char *page = look_up(memory, offset / ISO_MEMORY_PAGE);
        if (page)
            memcpy(to, page + within, now);
        else
            memset(to, 0, now);
        to += now;
        offset += now;
        bytes -= now;
    }
}

void iso_memory_file_free(iso_memory_file *memory)
{
    for (int i = 0; i < memory->count; i++)
        iso_free(memory->pages[i].data);
    iso_free(memory->pages);
    *memory = (iso_memory_file){0};
}

/* ---- HDF5's driver ---- */

typedef struct driver_file {
    H5FD_t base; /* must be first: HDF5's own part */
    iso_memory_file *memory;
    haddr_t allocated;
} driver_file;

/* The settings that the property list holds. */
typedef struct settings {
    iso_memory_file *memory;
} settings;

static H5FD_t *memory_driver_open_file(const char *name, unsigned flags, hid_t access, haddr_t most)
{
    (void)name, (void)flags, (void)most;
    const settings *set = H5Pget_driver_info(access);
    driver_file *file = set ? iso_new(sizeof *file) : NULL;
    if (file)
        file->memory = set->memory;
    return file ? &file->base : NULL;
}

static herr_t close_file(H5FD_t *file)
{
    iso_free(file);
    return 0;
}

static int memory_driver_compare(const H5FD_t *a, const H5FD_t *b)
{
    const iso_memory_file *x = ((const driver_file *)a)->memory, *y = ((const driver_file *)b)->memory;
    return x < y ? -1 : x > y;
}

/* Metadata and small data are aggregated; nothing in the file depends on this driver. */
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
    return ((const driver_file *)file)->allocated;
}

static herr_t set_allocated(H5FD_t *file, H5FD_mem_t type, haddr_t end)
{
    (void)type;
    ((driver_file *)file)->allocated = end;
    return 0;
}

static haddr_t get_end(const H5FD_t *file, H5FD_mem_t type)
{
    (void)type;
    return ((const driver_file *)file)->memory->bytes;
}

static herr_t memory_driver_read_file(H5FD_t *file, H5FD_mem_t type, hid_t transfer, haddr_t at, size_t bytes,
                                      void *data)
{
    (void)type, (void)transfer;
    iso_memory_file_read(((driver_file *)file)->memory, data, bytes, at);
    return 0;
}

static herr_t write_file(H5FD_t *file, H5FD_mem_t type, hid_t transfer, haddr_t at, size_t bytes,
                         const void *data)
{
    (void)type, (void)transfer;
    return iso_memory_file_write(((driver_file *)file)->memory, data, bytes, at) ? 0 : -1;
}

/* The file ends at its allocated end. */
static herr_t end_file(H5FD_t *file, hid_t transfer, hbool_t closing)
{
    (void)transfer, (void)closing;
    ((driver_file *)file)->memory->bytes = ((driver_file *)file)->allocated;
    return 0;
}

static const H5FD_class_t driver = {
    .name = "isogrid_sparse",
    .maxaddr = INT64_MAX,
    .fc_degree = H5F_CLOSE_STRONG,
    .fapl_size = sizeof(settings),
    .open = memory_driver_open_file,
    .close = close_file,
    .cmp = memory_driver_compare,
    .query = features,
    .get_eoa = get_allocated,
    .set_eoa = set_allocated,
    .get_eof = get_end,
    .read = memory_driver_read_file,
    .write = write_file,
    .truncate = end_file,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

herr_t iso_memory_file_set_driver(hid_t access, iso_memory_file *memory)
{
    static hid_t registered = -1;
    settings set = {memory};
    return iso_hdf5_set_driver(access, &driver, &registered, &set);
}
