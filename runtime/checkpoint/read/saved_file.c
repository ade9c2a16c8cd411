/* Opening: one rank walks the file and sends the list of its contents to the others. */
#include "runtime/base/arguments.h"
#include "runtime/base/file.h"
#include "runtime/checkpoint/read/safetensors_impl.h"
#include "runtime/checkpoint/read/saved_file_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/checkpoint/file_io_impl.h"
#include "runtime/checkpoint/hdf5/hdf5_impl.h"
#include "runtime/checkpoint/read/sandbox_impl.h"
#include "runtime/session/session.h"

/* ---- walking a file, in this process or in a child ---- */

typedef struct survey {
    const char *path;
    uint64_t file_bytes;
    bool trusted; /* otherwise everything that only HDF5 can read is read, to check that it can be */
} survey;

/* Bytes, roughly, of the elements that are read at once: whole rows. */
enum { PART = 64 << 20 };

static iso_status try_tensor(hid_t file, const char *path, const iso_manifest_tensor *tensor)
{
    const iso_shape *shape = &tensor->tensor.shape;
    iso_box box = iso_box_whole(shape);
    size_t bytes = iso_manifest_bytes(tensor);
    int64_t rows = shape->rank ? shape->dim[0] : 1;
    int64_t step = bytes > PART ? (int64_t)(PART / (bytes / (size_t)rows)) : rows;
    void *out = NULL;
    iso_status status = ISO_OK;
    if (bytes == 0)
        return ISO_OK;
    step = step > 0 ? step : 1;
    ISO_TRY(iso_alloc(bytes / (size_t)rows * (size_t)step, tensor->tensor.h5_path, &out));
    for (int64_t row = 0; row < rows; row += step) {
        box.offset[0] = row;
        box.extent[0] = rows - row < step ? rows - row : step;
        ISO_TRY(iso_hdf5_read(file, path, tensor, &box, out));
    }
done:
    iso_free(out);
    return status;
}

/* The caller holds HDF5's lock. The answer is the packed manifest. */
static iso_status go_through(void *data, void **answer, size_t *bytes)
{
    const survey *s = data;
    iso_manifest manifest = {0};
    hid_t file = -1;
    iso_status status = ISO_OK;
    if (H5Fis_hdf5(s->path) == 0)
        return iso_error(ISO_INVALID, "'%s' is not an HDF5 file", s->path);
    ISO_TRY(iso_hdf5_open_to_read(s->path, &file));
    ISO_TRY(iso_hdf5_walk(file, s->path, s->file_bytes, &manifest));
    for (int i = 0; i < manifest.n_tensors && !s->trusted; i++)
        if (!manifest.tensors[i].direct)
            ISO_TRY(try_tensor(file, s->path, &manifest.tensors[i]));
    ISO_TRY(iso_manifest_pack(&manifest, answer, bytes));
done:
    iso_manifest_free(&manifest);
    if (file >= 0)
        H5Fclose(file);
    return status;
}

static iso_status go_through_here(survey *s, void **packed, size_t *bytes)
{
    iso_hdf5_quiet quiet;
    iso_hdf5_quiet_begin(&quiet);
    iso_status status = go_through(s, packed, bytes);
    iso_hdf5_quiet_end(&quiet);
    return status;
}

/* ---- opening ---- */

iso_status iso_file_open_to_read(const char *path, int *file, uint64_t *bytes)
{
    struct stat about;
    *file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* O_NONBLOCK: does not wait for the other end of a
                                                              pipe */
    if (*file < 0)
        return iso_error(errno == ENOENT || errno == ENOTDIR ? ISO_INVALID : ISO_IO,
                         "'%s' cannot be opened: %s", path, strerror(errno));
    iso_status status = ISO_OK;
    if (fstat(*file, &about))
        status = iso_error(ISO_IO, "'%s' cannot be opened: %s", path, strerror(errno));
    else if (!S_ISREG(about.st_mode))
        status = iso_error(ISO_INVALID, "'%s' is not a regular file", path);
    else
        *bytes = (uint64_t)about.st_size;
    if (status != ISO_OK) {
        close(*file);
        *file = -1;
    }
    return status;
}

/* The contents of a .safetensors file, which this process reads itself. */
static iso_status survey_safetensors(const iso_saved_file *f, void **packed, size_t *bytes)
{
    iso_manifest manifest = {0};
    iso_status status = iso_safetensors_list(f->file, f->path, f->bytes, &manifest);
    if (status == ISO_OK)
        status = iso_manifest_pack(&manifest, packed, bytes);
    iso_manifest_free(&manifest);
    return status;
}

/* The name may have been given to another file in the meantime. */
static iso_status check_same(const iso_saved_file *f)
{
    struct stat by_name, ours;
    bool there = stat(f->path, &by_name) == 0;
    if ((!there && errno != ENOENT) || fstat(f->file, &ours))
        return iso_error(ISO_IO, "'%s': its size and times cannot be read: %s", f->path, strerror(errno));
    if (!there || !iso_file_is_same(&by_name, &ours) || (uint64_t)ours.st_size != f->bytes)
        return iso_error(ISO_IO, "'%s' was changed or replaced while it was opened", f->path);
    return ISO_OK;
}

/* Runs on the chief: lists the contents of the file. */
static iso_status survey_file(iso_saved_file *f, void **packed, size_t *bytes)
{
    survey s = {f->path, f->bytes, f->committed};
    iso_status status = ISO_OK;
    if (iso_safetensors_has_name(f->path)) {
        ISO_TRY(survey_safetensors(f, packed, bytes));
    } else if (f->committed) {
        ISO_TRY(iso_commit_record_check_others(f->file, f->path, &f->record));
        ISO_TRY(go_through_here(&s, packed, bytes));
    } else {
        ISO_TRY(iso_sandbox_run(f->path, f->bytes, go_through, &s, packed, bytes));
    }
    ISO_TRY(check_same(f));
done:
    return status;
}

static bool is_alone(const iso_context *ctx)
{
    return iso_ranks(ctx) == 1;
}

/* Adds what tells two files of one name apart. A commit record has checksums of all that the file holds. A file
 * without one is summed, unless all ranks are on one host, where it is the same file. Collective. */
static iso_status saved_file_describe(iso_saved_file *f, iso_text *text)
{
    int64_t has_record = f->committed;
    uint32_t sum = 0;
    iso_status status = ISO_OK;
    ISO_TRY(iso_all_reduce(f->ctx, ISO_REDUCE_MIN, ISO_I64, &has_record, 1));
    iso_text_add(text, "%" PRIu64 " bytes", f->bytes);
    if (f->committed)
        iso_text_add(text, ", checkpoint %" PRIu64 ", checksum %08" PRIx32, f->record.number,
                     f->record.others);
    if (has_record || iso_hosts(f->ctx) == 1)
        return ISO_OK;
    ISO_TRY(iso_saved_file_sum_on_host(f, &sum));
    iso_text_add(text, ", checksum %08" PRIx32, sum);
done:
    return status;
}

/* Compares the files that the ranks have opened. Collective. */
static iso_status check_equal(iso_saved_file *f)
{
    iso_text name = {0}, text = {0};
    iso_text_add(&name, "the file '%s'", f->path);
    iso_status status = saved_file_describe(f, &text);
    if (status == ISO_OK)
        status = iso_agree_same_composed(f->ctx, name.failed ? "a file" : iso_text_get(&name), &text);
    if (status == ISO_INVALID)
        status = ISO_IO; /* the file is not at fault */
    iso_text_free(&name);
    iso_text_free(&text);
    return status;
}

/* Broadcasts the chief's bytes to every rank. Collective. */
static iso_status saved_file_share(iso_saved_file *f, void **packed, size_t *bytes)
{
    uint64_t packed_bytes = *bytes;
    iso_status status = ISO_OK;
    if (is_alone(f->ctx))
        return ISO_OK;
    ISO_TRY(check_equal(f));
    ISO_TRY(iso_broadcast(f->ctx, &packed_bytes, sizeof packed_bytes));
    *bytes = (size_t)packed_bytes;
    if (!*packed && !(*packed = iso_new(*bytes)))
        status = iso_no_memory("the contents of '%s'", f->path);
    ISO_TRY(iso_agree(f->ctx, status));
    ISO_TRY(iso_broadcast(f->ctx, *packed, *bytes));
done:
    return status;
}

static iso_status disagrees(const iso_saved_file *f, const char *h5_path)
{
    return iso_error(ISO_INVALID, "'%s': the file and its commit record disagree about '%s'", f->path,
                     h5_path);
}

/* A committed file has exactly the tensors that its record lists. */
static iso_status check_mark(const iso_saved_file *f)
{
    const iso_manifest *m = &f->manifest;
    if (m->ordered != f->record.n_tensors || m->n_tensors != f->record.n_tensors)
        return iso_error(ISO_INVALID, "'%s' holds %d tensors, %d in its index and %d in its commit record",
                         f->path, m->n_tensors, m->ordered, f->record.n_tensors);
    for (int i = 0; i < m->ordered; i++) {
        const iso_manifest_tensor *t = &m->tensors[m->order[i]];
        uint64_t bytes = iso_manifest_bytes(t);
        if (!t->direct || bytes != f->record.tensors[i].bytes ||
            (bytes > 0 && t->offset != f->record.tensors[i].offset))
            return disagrees(f, t->tensor.h5_path);
    }
    return ISO_OK;
}

/* Whether the file has a checksum for each tensor of its index, and the tensors' bytes. */
static bool has_sums(const iso_manifest *m)
{
    bool direct = true;
    for (int i = 0; i < m->ordered; i++)
        direct = direct && m->tensors[m->order[i]].direct;
    return direct && m->n_sums > 0 && m->n_sums == m->ordered;
}

/* A checkpoint that has lost its record may still have its checksums. */
static iso_status take_sums(iso_saved_file *f)
{
    const iso_manifest *m = &f->manifest;
    size_t count = (size_t)m->n_sums;
    uint32_t *sums = NULL;
    iso_status status = ISO_OK;
    if (!has_sums(m))
        return ISO_OK;
    sums = iso_new(count * sizeof *sums);
    f->record.tensors = iso_new(count * sizeof *f->record.tensors);
    if (!sums || !f->record.tensors)
        ISO_TRY(iso_no_memory("the checksums of '%s'", f->path));
    ISO_TRY(iso_file_read_at(f->file, f->path, sums, count * sizeof *sums, m->sums));
    f->record.n_tensors = m->n_sums;
    for (int i = 0; i < m->n_sums; i++) {
        const iso_manifest_tensor *t = &m->tensors[m->order[i]];
        f->record.tensors[i] =
            (iso_commit_tensor){.offset = t->offset, .bytes = iso_manifest_bytes(t), .crc = sums[i]};
    }
done:
    iso_free(sums);
    return status;
}

static iso_status take_packed(iso_saved_file *f, const void *packed, size_t bytes)
{
    iso_status status = iso_manifest_unpack(packed, bytes, f->bytes, &f->manifest);
    if (status == ISO_OK)
        status = iso_manifest_index(&f->manifest);
    if (status != ISO_OK)
        return iso_error_prefix(status, "'%s': ", f->path);
    return f->committed ? check_mark(f) : take_sums(f);
}

/* Opens the file on this rank alone. */
static iso_status open_here(iso_saved_file *f, const char *path)
{
    iso_status status = ISO_OK;
    f->path = iso_strdup(path);
    if (!f->path)
        return iso_error(ISO_NO_MEMORY, "no memory to open '%s'", path);
    ISO_TRY(iso_file_open_to_read(path, &f->file, &f->bytes));
    if (!iso_safetensors_has_name(path))
        ISO_TRY(iso_commit_record_read(f->file, path, &f->committed, &f->record));
done:
    return status;
}

/* If rank 0 has opened the file, another rank that cannot does not see the same one: the file is not at fault.
 * Collective. */
static iso_status agree_on_open(iso_context *ctx, iso_status status)
{
    iso_status chiefs = status;
    iso_status sent = iso_broadcast(ctx, &chiefs, sizeof chiefs);
    if (sent != ISO_OK)
        return sent;
    if (chiefs == ISO_OK && status == ISO_INVALID)
        status = iso_error_prefix(ISO_IO, "rank 0 has opened it, but on this rank ");
    return iso_agree(ctx, status);
}

iso_status iso_saved_file_open(iso_context *ctx, const char *path, iso_saved_file **file)
{
    ISO_DEFAULT_MODES();
    ISO_NEED_AGREED(ctx, path, file);
    void *packed = NULL;
    size_t bytes = 0;
    bool chief = iso_is_chief(ctx);
    iso_saved_file *f = iso_new(sizeof *f);
    iso_status status = ISO_OK;
    if (f)
        *f = (iso_saved_file){.ctx = ctx, .file = -1};
    status = f ? open_here(f, path) : iso_error(ISO_NO_MEMORY, "no memory to open '%s'", path);
    ISO_TRY(agree_on_open(ctx, status));
    ISO_TRY(iso_agree(ctx, chief ? survey_file(f, &packed, &bytes) : ISO_OK));
    ISO_TRY(saved_file_share(f, &packed, &bytes));
    ISO_TRY(iso_agree(ctx, take_packed(f, packed, bytes)));
    *file = f;
    f = NULL;
done:
    iso_free(packed);
    iso_saved_file_close(f);
    return status;
}

void iso_saved_file_close(iso_saved_file *f)
{
    if (!f)
        return;
    if (f->file >= 0)
        close(f->file);
    iso_direct_io_end(&f->uncached);
    iso_commit_record_free(&f->record);
    iso_manifest_free(&f->manifest);
    iso_free(f->path);
    iso_free(f->opened);
    iso_free(f);
}

/* ---- contents ---- */

bool iso_saved_file_committed(const iso_saved_file *f, uint64_t *number)
{
    if (ISO_ANY_NULL_AS("file", f))
        return false;
    if (f->committed && number)
        *number = f->record.number;
    return f->committed;
}

bool iso_saved_file_has_checksums(const iso_saved_file *f)
{
    if (ISO_ANY_NULL_AS("file", f))
        return false;
    return f->committed || f->record.n_tensors > 0;
}

const char *iso_saved_file_path(const iso_saved_file *f)
{
    if (ISO_ANY_NULL_AS("file", f))
        return NULL;
    return f->path;
}

iso_status iso_saved_file_set_path(iso_saved_file *f, const char *path)
{
    ISO_NEED_AS("file, path", f, path);
    char *copy = iso_strdup(path);
    if (!copy)
        return iso_no_memory("the name of '%s'", path);
    if (f->opened)
        iso_free(f->path);
    else
        f->opened = f->path;
    f->path = copy;
    return ISO_OK;
}

const char *iso_saved_file_state(const iso_saved_file *f)
{
    if (ISO_ANY_NULL_AS("file", f))
        return NULL;
    return f->manifest.state;
}

int iso_saved_file_tensors(const iso_saved_file *f)
{
    if (ISO_ANY_NULL_AS("file", f))
        return 0;
    return f->manifest.n_tensors;
}

const iso_saved_tensor *iso_saved_file_tensor(const iso_saved_file *f, int index)
{
    if (ISO_ANY_NULL_AS("file", f))
        return NULL;
    return index >= 0 && index < iso_saved_file_tensors(f) ? &f->manifest.tensors[index].tensor : NULL;
}

const char *iso_saved_file_stored(const iso_saved_file *f, int index, uint64_t *bytes)
{
    if (ISO_ANY_NULL_AS("file", f))
        return NULL;
    if (index < 0 || index >= iso_saved_file_tensors(f))
        return NULL;
    iso_storage_type element = f->manifest.tensors[index].element;
    if (bytes)
        *bytes = iso_storage_type_size(element);
    return iso_storage_type_name(element);
}

int iso_saved_file_at(const iso_saved_file *f, const char *h5_path)
{
    if (ISO_ANY_NULL_AS("file, h5_path", f, h5_path))
        return -1;
    return iso_manifest_at(&f->manifest, h5_path);
}

int iso_saved_file_of(const iso_saved_file *f, const char *path)
{
    if (ISO_ANY_NULL_AS("file, path", f, path))
        return -1;
    return iso_manifest_of(&f->manifest, path);
}

const char *iso_saved_file_name(const iso_saved_file *f, const char *group)
{
    if (ISO_ANY_NULL_AS("file, group", f, group))
        return NULL;
    for (int i = 0; i < f->manifest.n_groups; i++)
        if (!strcmp(f->manifest.groups[i].h5_path, group))
            return f->manifest.groups[i].name;
    return NULL;
}

int iso_saved_file_groups(const iso_saved_file *f)
{
    if (ISO_ANY_NULL_AS("file", f))
        return 0;
    return f->manifest.n_groups;
}

const iso_saved_group *iso_saved_file_group(const iso_saved_file *f, int index)
{
    if (ISO_ANY_NULL_AS("file", f))
        return NULL;
    return index >= 0 && index < iso_saved_file_groups(f) ? &f->manifest.groups[index] : NULL;
}
