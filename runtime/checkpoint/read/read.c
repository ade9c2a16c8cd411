/* Reads boxes of tensors: directly into the caller's memory if the file stores them as the caller wants
 * them. */
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/base/device.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/checkpoint/file_io_impl.h"
#include "runtime/checkpoint/hdf5/hdf5_impl.h"
#include "runtime/checkpoint/read/sandbox_impl.h"
#include "runtime/checkpoint/read/saved_file_impl.h"

enum {
    WINDOW = 1 << 20,   /* bytes per read that goes through a buffer: they stay in the cache */
    NEAR = 4096,        /* runs that begin this close to each other are read together: copying the bytes
                           between them takes no longer than another call */
    STRIDE = 128 << 10, /* if runs begin this close, the kernel is asked to read the whole range */
    AHEAD = 32,         /* windows that are requested before they are needed */
};
static const size_t sandbox_bytes = (size_t)256 << 20; /* bytes per call */

/* Reads elements of a box, in its row-major order. A run is a sequence that is contiguous in the file too. */
typedef struct reader {
    iso_saved_file *file;
    const iso_manifest_tensor *tensor;
    const iso_box *box;
    iso_dtype dtype;
    char *out; /* destination of the next element */
    size_t size;
    int64_t run, gap;           /* elements */
    int64_t next, end;          /* of the box's elements: those still to be read */
    char *window;               /* NULL until needed */
    uint64_t window_at, filled; /* bytes [window_at, window_at + filled) of the file are in the window */
} reader;

static iso_status check_box(const iso_saved_file *f, const iso_manifest_tensor *t, const iso_box *box)
{
    const iso_shape *shape = &t->tensor.shape;
    bool inside = box->rank == shape->rank;
    char text[160];
    for (int i = 0; i < box->rank && inside; i++)
        inside = box->offset[i] >= 0 && box->extent[i] >= 0 && box->offset[i] <= shape->dim[i] &&
                 box->extent[i] <= shape->dim[i] - box->offset[i];
    if (inside)
        return ISO_OK;
    return iso_error(ISO_INVALID, "'%s': a box that is not within '%s', which is %s", f->path,
                     t->tensor.h5_path, iso_shape_text(shape, text, sizeof text));
}

static void find_runs(reader *r)
{
    const iso_shape *shape = &r->tensor->tensor.shape;
    int d = shape->rank;
    r->run = 1;
    while (d > 0 && r->box->extent[d - 1] == shape->dim[d - 1])
        r->run *= shape->dim[--d];
    r->gap = 0;
    if (d == 0)
        return;
    r->gap = (shape->dim[d - 1] - r->box->extent[d - 1]) * r->run;
    r->run *= r->box->extent[d - 1];
}

/* The offset in the file of element i of the box. */
static uint64_t offset_of(const reader *r, int64_t i)
{
    const iso_manifest_tensor *t = r->tensor;
    return t->offset + (uint64_t)iso_box_global_index(r->box, &t->tensor.shape, i) * r->size;
}

/* i: the element's number in the box. */
static iso_status does_not_fit(const reader *r, int64_t i, const void *element)
{
    const iso_manifest_tensor *t = r->tensor;
    char shape[160], value[40];
    bool beyond = iso_storage_type_beyond(t->element, element);
    return iso_error(ISO_INVALID, "'%s': element %" PRId64 " of '%s', %s of %s, is %s, %s%s", r->file->path,
                     iso_box_global_index(r->box, &t->tensor.shape, i), t->tensor.h5_path,
                     iso_shape_text(&t->tensor.shape, shape, sizeof shape), iso_storage_type_name(t->element),
                     iso_storage_type_text(t->element, element, value, sizeof value),
                     beyond ? "and integers are read below 2^63" : "which does not fit into ",
                     beyond ? "" : iso_dtype_name(r->dtype));
}

/* Converts or copies the next n elements from `from`. */
static iso_status read_take(reader *r, const void *from, int64_t n)
{
    int64_t bad = iso_storage_type_convert(r->tensor->element, from, n, r->dtype, r->out);
    if (bad >= 0)
        return does_not_fit(r, r->next + bad, (const char *)from + (size_t)bad * r->size);
    r->next += n;
    r->out += (size_t)n * iso_dtype_size(r->dtype);
    return ISO_OK;
}

static bool are_near(const reader *r)
{
    return (size_t)(r->run + r->gap) * r->size <= NEAR;
}

/* Fills the window from `at` on: with `bytes` bytes or, if the bytes after them are wanted soon, with a whole
 * window. It is made for the first bytes that are read, so a small tensor has a small one. */
static iso_status read_fill(reader *r, uint64_t at, size_t bytes)
{
    uint64_t end = offset_of(r, r->end - 1) + r->size;
    size_t more = are_near(r) ? WINDOW : bytes;
    r->window_at = at;
    r->filled = end - at < more ? end - at : more;
    if (!r->window) {
        const size_t room =
            end - at < WINDOW ? (size_t)(end - at) : WINDOW; /* later parts are nearer to the end */
        iso_status status = iso_alloc(room, "a part of a checkpoint", (void **)&r->window);
        if (status != ISO_OK)
            return status;
    }
    return iso_file_read_at(r->file->file, r->file->path, r->window, (size_t)r->filled, at);
}

/* Reads the next n elements, which are contiguous in the file, through the window. */
static iso_status read_through(reader *r, uint64_t at, int64_t n)
{
    iso_status status = ISO_OK;
    while (n > 0) {
        int64_t part = n < WINDOW / (int64_t)r->size ? n : WINDOW / (int64_t)r->size;
        size_t bytes = (size_t)part * r->size;
        if (at < r->window_at || at + bytes > r->window_at + r->filled)
            ISO_TRY(read_fill(r, at, bytes));
        ISO_TRY(read_take(r, r->window + (at - r->window_at), part));
        at += bytes;
        n -= part;
    }
done:
    return status;
}

/* Whether the reader announces its reads to the kernel. For columns of a matrix every rank reads a little of every
 * row. The kernel cannot predict this pattern, so it is told which bytes come next and not to guess. */
static bool asks_ahead(const reader *r)
{
    return r->gap > 0 && (size_t)(r->run + r->gap) * r->size <= STRIDE;
}

/* Asks beyond the end of the tensor too: the next tensor is usually read next. */
static void ask_ahead(iso_saved_file *f, uint64_t at)
{
    const uint64_t ahead = (uint64_t)AHEAD * WINDOW;
    if (f->asked < at || f->asked - at > ahead + WINDOW)
        f->asked = at;
    while (f->asked < f->bytes && f->asked - at < ahead) {
        posix_fadvise(f->file, (off_t)f->asked, WINDOW, POSIX_FADV_WILLNEED);
        f->asked += WINDOW;
    }
}

static iso_status read_to_caller(reader *r, uint64_t at, int64_t n)
{
    size_t bytes = (size_t)n * r->size;
    iso_status status =
        iso_direct_io_read(&r->file->uncached, r->file->file, r->file->path, r->out, bytes, at);
    r->next += n;
    r->out += bytes;
    return status;
}

static iso_status read_direct(reader *r)
{
    bool as_wanted = r->tensor->element == iso_storage_type_of(r->dtype) && r->dtype != ISO_BOOL;
    iso_status status = ISO_OK;
    find_runs(r);
    bool ahead = asks_ahead(r);
    if (ahead)
        posix_fadvise(r->file->file, 0, 0, POSIX_FADV_RANDOM);
    while (r->next < r->end && status == ISO_OK) {
        int64_t left = r->run - r->next % r->run, n = r->end - r->next < left ? r->end - r->next : left;
        bool whole = n == r->end - r->next || !are_near(r);
        uint64_t at = offset_of(r, r->next);
        if (ahead)
            ask_ahead(r->file, at);
        status = as_wanted && whole ? read_to_caller(r, at, n) : read_through(r, at, n);
    }
    if (ahead)
        posix_fadvise(r->file->file, 0, 0, POSIX_FADV_NORMAL);
    iso_free(r->window);
    return status;
}

/* ---- elements that only HDF5 can read ---- */

typedef struct errand {
    const reader *reader;
    iso_box box;
} errand;

static iso_status fetch(void *data, void **answer, size_t *bytes)
{
    const errand *e = data;
    const iso_saved_file *f = e->reader->file;
    const char *path = f->path;
    hid_t file = -1;
    iso_status status = ISO_OK;
    *bytes = (size_t)iso_box_count(&e->box) * e->reader->size;
    ISO_TRY(iso_hdf5_open_to_read(f->opened ? f->opened : path, &file));
    *answer = iso_new(*bytes);
    if (!*answer)
        ISO_TRY(
            iso_error(ISO_NO_MEMORY, "'%s': no memory for '%s'", path, e->reader->tensor->tensor.h5_path));
    ISO_TRY(iso_hdf5_read(file, path, e->reader->tensor, &e->box, *answer));
done:
    if (file >= 0)
        H5Fclose(file);
    return status;
}

/* Reads the elements of the errand's box, which is [begin, begin + count) of the reader's box, and keeps
 * those still wanted. */
static iso_status fetch_part(reader *r, errand *e, int64_t begin, int64_t count)
{
    void *answer = NULL;
    size_t bytes = 0;
    int64_t end = begin + count < r->end ? begin + count : r->end;
    iso_status status = ISO_OK;
    ISO_TRY(iso_sandbox_run(r->file->path, r->file->bytes, fetch, e, &answer, &bytes));
    if (bytes != (size_t)count * r->size)
        ISO_TRY(iso_error(ISO_INVALID, "'%s': HDF5 gave %zu bytes of '%s', not %zu", r->file->path, bytes,
                          r->tensor->tensor.h5_path, (size_t)count * r->size));
    ISO_TRY(read_take(r, (char *)answer + (size_t)(r->next - begin) * r->size, end - r->next));
done:
    iso_free(answer);
    return status;
}

/* Reads rows of the box's first dimension, as many at once as fit well into memory. */
static iso_status read_by_hdf5(reader *r)
{
    int64_t all = iso_box_count(r->box), rows = r->box->rank ? r->box->extent[0] : 1, row = all / rows;
    int64_t step = (int64_t)(sandbox_bytes / ((size_t)row * r->size));
    iso_status status = ISO_OK;
    step = step < 1 ? 1 : step;
    while (r->next < r->end && status == ISO_OK) {
        errand e = {r, *r->box};
        int64_t first = r->next / row, last = (r->end - 1) / row + 1;
        int64_t count = last - first < step ? last - first : step;
        if (e.box.rank) {
            e.box.offset[0] += first;
            e.box.extent[0] = count;
        }
        status = fetch_part(r, &e, first * row, count * row);
    }
    return status;
}

/* ---- public ---- */

/* Elements [begin, begin + count) of the box. */
static iso_status read_range(iso_saved_file *f, int tensor, const iso_box *box, int64_t begin, int64_t count,
                             iso_dtype dtype, void *out)
{
    const iso_manifest_tensor *t = &f->manifest.tensors[tensor];
    reader r = {
        .file = f, .tensor = t, .box = box, .dtype = dtype, .out = out, .next = begin, .end = begin + count};
    iso_status status = check_box(f, t, box);
    if (status != ISO_OK)
        return status;
    if (iso_dtype_size(dtype) == 0 || begin < 0 || count < 0 || count > iso_box_count(box) - begin)
        return iso_error(ISO_INVALID,
                         "'%s': elements [%" PRId64 ", %" PRId64 ") of a box of '%s', which has %" PRId64
                         " elements, cannot be read as %s",
                         f->path, begin, begin + count, t->tensor.h5_path, iso_box_count(box),
                         iso_dtype_name(dtype));
    r.size = iso_storage_type_size(t->element);
    if (count == 0)
        return ISO_OK;
    return t->direct ? read_direct(&r) : read_by_hdf5(&r);
}

static iso_status read_check_tensor(const iso_saved_file *f, int tensor)
{
    if (tensor >= 0 && tensor < f->manifest.n_tensors)
        return ISO_OK;
    return iso_error(ISO_INVALID, "'%s' has no tensor %d; it has %d", f->path, tensor, f->manifest.n_tensors);
}

iso_status iso_saved_file_read(iso_saved_file *f, int tensor, const iso_box *box, iso_dtype dtype, void *out)
{
    ISO_DEFAULT_MODES();
    ISO_NEED_AS("file, box, out", f, box, out);
    iso_status status = read_check_tensor(f, tensor);
    return status == ISO_OK ? read_range(f, tensor, box, 0, iso_box_count(box), dtype, out) : status;
}

iso_status iso_saved_file_read_shard(iso_saved_file *f, int tensor, const iso_state_shard *shard)
{
    ISO_DEFAULT_MODES();
    ISO_NEED_AS("file, shard", f, shard);
    char theirs[160], ours[160];
    iso_status status = read_check_tensor(f, tensor);
    if (status != ISO_OK)
        return status;
    const iso_saved_tensor *t = &f->manifest.tensors[tensor].tensor;
    if (!iso_shape_equal(&t->shape, &shard->shape))
        return iso_error(ISO_INVALID, "'%s': '%s' is %s, but '%s' is %s", f->path, t->h5_path,
                         iso_shape_text(&t->shape, theirs, sizeof theirs), shard->path ? shard->path : "?",
                         iso_shape_text(&shard->shape, ours, sizeof ours));
    iso_mapping mapping;
    status = iso_map_to_write(shard->stream, shard->data, iso_shard_bytes(shard), &mapping);
    if (status != ISO_OK)
        return status;
    return iso_unmap(
        read_range(f, tensor, &shard->box, shard->begin, shard->count, shard->dtype, mapping.data), &mapping);
}
