#include "runtime/checkpoint/commit_record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/memory.h"
#include "runtime/checkpoint/crc.h"
#include "runtime/checkpoint/file_io_impl.h"

enum { BLOCK = 1 << 20 };

static const char magic[8] = "ISOGRID\n";

static void commit_record_put(unsigned char *to, int bytes, uint64_t value)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (unsigned char)(value >> 8 * i);
}

static uint64_t get(const unsigned char *from, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)from[i] << 8 * i;
    return value;
}

uint64_t iso_commit_record_bytes(int tensors)
{
    return (uint64_t)tensors * ISO_COMMIT_ENTRY + ISO_COMMIT_TAIL;
}

iso_status iso_commit_record_write(int file, const char *name, const iso_commit_record *record)
{
    size_t bytes = (size_t)iso_commit_record_bytes(record->n_tensors);
    unsigned char *all = iso_new(bytes), *entry = all, *tail = all + bytes - ISO_COMMIT_TAIL;
    if (!all)
        return iso_no_memory("the record of '%s'", name);
    for (int t = 0; t < record->n_tensors; t++, entry += ISO_COMMIT_ENTRY) {
        commit_record_put(entry, 8, record->tensors[t].offset);
        commit_record_put(entry + 8, 8, record->tensors[t].bytes);
        commit_record_put(entry + 16, 4, record->tensors[t].crc);
    }
    memcpy(tail, magic, sizeof magic);
    commit_record_put(tail + 8, 4, ISO_COMMIT_VERSION);
    commit_record_put(tail + 12, 4, (uint64_t)record->n_tensors);
    commit_record_put(tail + 16, 8, record->number);
    commit_record_put(tail + 24, 8, record->hdf5_bytes);
    commit_record_put(tail + 32, 4, record->others);
    commit_record_put(tail + 36, 4, iso_crc(0, all, bytes - 4));
    iso_status status = iso_file_write_at(file, name, all, bytes, record->hdf5_bytes);
    iso_free(all);
    return status == ISO_OK ? iso_file_end_at(file, name, record->hdf5_bytes + bytes) : status;
}

/* ---- reading ---- */

static iso_status damaged(const char *name, const char *what)
{
    return iso_error(ISO_INVALID, "'%s' is not a valid checkpoint: its commit record %s", name, what);
}

static int by_offset(const void *a, const void *b)
{
    uint64_t x = (*(const iso_commit_tensor *const *)a)->offset,
             y = (*(const iso_commit_tensor *const *)b)->offset;
    return x < y ? -1 : x > y;
}

/* The tensors that have bytes, in the file's order. Freed by iso_free. */
static iso_status sort_tensors(const iso_commit_record *record, const iso_commit_tensor ***sorted, int *count)
{
    const iso_commit_tensor **all = iso_new(((size_t)record->n_tensors + 1) * sizeof(void *));
    if (!all)
        return iso_no_memory("the offsets of %d tensors", record->n_tensors);
    *count = 0;
    for (int t = 0; t < record->n_tensors; t++)
        if (record->tensors[t].bytes)
            all[(*count)++] = &record->tensors[t];
    qsort(all, (size_t)*count, sizeof *all, by_offset);
    *sorted = all;
    return ISO_OK;
}

static iso_status check_extents(const char *name, const iso_commit_record *record)
{
    const iso_commit_tensor **sorted = NULL;
    int count = 0;
    uint64_t end = 0;
    iso_status status = sort_tensors(record, &sorted, &count);
    if (status != ISO_OK)
        return status;
    for (int i = 0; i < count && status == ISO_OK; i++) {
        const iso_commit_tensor *t = sorted[i];
        if (t->offset < end || t->offset > record->hdf5_bytes || t->bytes > record->hdf5_bytes - t->offset)
            status = damaged(name, "has tensors that overlap or are outside of the file");
        end = t->offset + t->bytes;
    }
    iso_free(sorted);
    return status;
}

/* Accepts the tail's numbers only if they fit the size of the file. */
static iso_status take_tail(const unsigned char *tail, const char *name, uint64_t size,
                            iso_commit_record *record)
{
    uint64_t tensors = get(tail + 12, 4), version = get(tail + 8, 4);
    if (version != ISO_COMMIT_VERSION)
        return iso_error(ISO_INVALID,
                         "'%s' has a commit record of version %" PRIu64 "; this Isogrid reads version %d",
                         name, version, ISO_COMMIT_VERSION);
    if (tensors > ISO_COMMIT_MOST_TENSORS || iso_commit_record_bytes((int)tensors) > size)
        return damaged(name, "has an impossible number of tensors");
    *record = (iso_commit_record){.number = get(tail + 16, 8),
                                  .hdf5_bytes = get(tail + 24, 8),
                                  .others = (uint32_t)get(tail + 32, 4),
                                  .n_tensors = (int)tensors};
    if (record->hdf5_bytes != size - iso_commit_record_bytes((int)tensors))
        return damaged(name, "does not fit the file's size");
    return ISO_OK;
}

static iso_status take_table(const unsigned char *all, const char *name, iso_commit_record *record)
{
    size_t bytes = (size_t)iso_commit_record_bytes(record->n_tensors);
    if (iso_crc(0, all, bytes - 4) != get(all + bytes - 4, 4))
        return damaged(name, "is not what was written (checksum)");
    record->tensors = iso_new(((size_t)record->n_tensors + 1) * sizeof *record->tensors);
    if (!record->tensors)
        return iso_no_memory("the record of '%s'", name);
    for (int t = 0; t < record->n_tensors; t++) {
        const unsigned char *entry = all + (size_t)t * ISO_COMMIT_ENTRY;
        record->tensors[t] =
            (iso_commit_tensor){get(entry, 8), get(entry + 8, 8), (uint32_t)get(entry + 16, 4)};
    }
    return check_extents(name, record);
}

static iso_status read_table(int file, const char *name, iso_commit_record *record)
{
    size_t bytes = (size_t)iso_commit_record_bytes(record->n_tensors);
    unsigned char *all = iso_new(bytes);
    if (!all)
        return iso_no_memory("the record of '%s'", name);
    iso_status status = iso_file_read_at(file, name, all, bytes, record->hdf5_bytes);
    if (status == ISO_OK)
        status = take_table(all, name, record);
    iso_free(all);
    return status;
}

iso_status iso_commit_record_read(int file, const char *name, bool *found, iso_commit_record *record)
{
    unsigned char tail[ISO_COMMIT_TAIL];
    struct stat about;
    iso_commit_record fresh = {0};
    iso_status status = ISO_OK;
    if (fstat(file, &about))
        return iso_error(ISO_IO, "'%s': %s", name, strerror(errno));
    *found = false;
    if (!S_ISREG(about.st_mode) || about.st_size < ISO_COMMIT_TAIL)
        return ISO_OK;
    uint64_t size = (uint64_t)about.st_size;
    ISO_TRY(iso_file_read_at(file, name, tail, sizeof tail, size - sizeof tail));
    if (memcmp(tail, magic, sizeof magic) != 0)
        return ISO_OK;
    *found = true;
    ISO_TRY(take_tail(tail, name, size, &fresh));
    ISO_TRY(read_table(file, name, &fresh));
    *record = fresh;
    return ISO_OK;
done:
    iso_commit_record_free(&fresh);
    return status;
}

void iso_commit_record_free(iso_commit_record *record)
{
    iso_free(record->tensors);
    *record = (iso_commit_record){0};
}

/* ---- bytes that belong to no tensor ---- */

iso_status iso_commit_record_visit_others(const iso_commit_record *record,
                                          iso_status (*visit)(void *data, uint64_t offset, uint64_t bytes),
                                          void *data)
{
    const iso_commit_tensor **sorted = NULL;
    int count = 0;
    uint64_t at = 0;
    iso_status status = sort_tensors(record, &sorted, &count);
    if (status != ISO_OK)
        return status;
    for (int i = 0; i < count && status == ISO_OK; i++) {
        if (sorted[i]->offset > at)
            status = visit(data, at, sorted[i]->offset - at);
        at = sorted[i]->offset + sorted[i]->bytes;
    }
    if (status == ISO_OK && record->hdf5_bytes > at)
        status = visit(data, at, record->hdf5_bytes - at);
    iso_free(sorted);
    return status;
}

typedef struct others {
    int file;
    const char *name;
    char *block;
    uint32_t crc;
} others;

static iso_status add_others(void *data, uint64_t offset, uint64_t bytes)
{
    others *o = data;
    iso_status status = ISO_OK;
    while (bytes > 0 && status == ISO_OK) {
        size_t part = bytes < BLOCK ? (size_t)bytes : BLOCK;
        status = iso_file_read_at(o->file, o->name, o->block, part, offset);
        if (status == ISO_OK)
            o->crc = iso_crc(o->crc, o->block, part);
        offset += part;
        bytes -= part;
    }
    return status;
}

iso_status iso_commit_record_check_others(int file, const char *name, const iso_commit_record *record)
{
    others o = {.file = file, .name = name, .block = iso_new(BLOCK)};
    iso_status status = o.block ? ISO_OK : iso_error(ISO_NO_MEMORY, "no memory to check '%s'", name);
    if (status == ISO_OK)
        status = iso_commit_record_visit_others(record, add_others, &o);
    if (status == ISO_OK && o.crc != record->others)
        status =
            iso_error(ISO_INVALID,
                      "'%s' is not a valid checkpoint: its names, shapes or state are not what was written "
                      "(checksum %08" PRIx32 ", written was %08" PRIx32 ")",
                      name, o.crc, record->others);
    iso_free(o.block);
    return status;
}
