#include "runtime/checkpoint/write/parts_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/device.h"
#include "runtime/base/hash.h"
#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/checkpoint/crc.h"
#include "runtime/checkpoint/file_io_impl.h"
#include "runtime/checkpoint/runs_impl.h"

enum { AT_ONCE = 1 << 20 }; /* bytes that are summed while they are in the cache, then written */

uint64_t iso_shards_structure(const iso_state_shards *shards)
{
    uint64_t hash = iso_hash_mix((uint64_t)shards->count + 1);
    for (int i = 0; i < shards->count; i++) {
        const iso_state_shard *p = &shards->shards[i];
        int64_t head[5] = {p->dtype, p->shape.rank, p->begin, p->count, p->writer};
        size_t dims = (size_t)p->shape.rank * sizeof *p->shape.dim;
        hash = iso_hash_bytes(iso_hash_text(hash, p->path), head, sizeof head);
        hash = iso_hash_bytes(hash, p->shape.dim, dims);
        hash = iso_hash_bytes(iso_hash_bytes(hash, p->box.offset, dims), p->box.extent, dims);
    }
    return hash ? hash : 1;
}

/* ---- matching shards and tensors ---- */

static int by_path(const void *a, const void *b)
{
    return strcmp((*(const iso_saved_tensor *const *)a)->path, (*(const iso_saved_tensor *const *)b)->path);
}

/* The tensors with a path, sorted by it; iso_free. */
static iso_status sort_paths(const iso_file_spec *spec, const iso_saved_tensor ***sorted, int *count)
{
    const iso_saved_tensor **all = iso_new(((size_t)spec->n_tensors + 1) * sizeof(void *));
    if (!all)
        return iso_no_memory("the paths of %d tensors", spec->n_tensors);
    *count = 0;
    for (int t = 0; t < spec->n_tensors; t++)
        if (spec->tensors[t].path)
            all[(*count)++] = &spec->tensors[t];
    qsort(all, (size_t)*count, sizeof *all, by_path);
    for (int i = 1; i < *count; i++)
        if (!strcmp(all[i]->path, all[i - 1]->path)) {
            iso_status status =
                iso_error(ISO_INVALID, "'%s' is to be saved under two HDF5 paths, '%s' and '%s'",
                          all[i]->path, all[i - 1]->h5_path, all[i]->h5_path);
            iso_free(all);
            return status;
        }
    *sorted = all;
    return ISO_OK;
}

static iso_status check_shard(const iso_state_shard *shard, const iso_saved_tensor *tensor)
{
    char of_shard[128], of_tensor[128];
    bool fits = iso_shape_equal(&shard->shape, &tensor->shape) && shard->box.rank == shard->shape.rank;
    if (shard->dtype != tensor->dtype || !fits)
        return iso_error(
            ISO_INVALID, "'%s' is to be saved as %s %s, but is %s %s", shard->path,
            iso_dtype_name(tensor->dtype), iso_shape_text(&tensor->shape, of_tensor, sizeof of_tensor),
            iso_dtype_name(shard->dtype), iso_shape_text(&shard->shape, of_shard, sizeof of_shard));
    for (int d = 0; d < shard->box.rank; d++)
        fits = fits && shard->box.offset[d] >= 0 && shard->box.extent[d] >= 0 &&
               shard->box.offset[d] <= shard->shape.dim[d] - shard->box.extent[d];
    if (!fits || shard->begin < 0 || shard->count < 0 ||
        shard->begin > iso_box_count(&shard->box) - shard->count)
        return iso_error(ISO_INVALID,
                         "a shard of '%s', %" PRId64 " elements from %" PRId64 " of its box, lies "
                         "outside of it",
                         shard->path, shard->count, shard->begin);
    return ISO_OK;
}

static iso_status parts_add(iso_save_parts *parts, iso_save_part fresh)
{
    fresh.bytes = (size_t)fresh.shard.count * iso_dtype_size(fresh.shard.dtype);
    return iso_list_add(parts->parts, parts->count, fresh, "shards");
}

static iso_status add_shards(const iso_file_spec *spec, const iso_state_shards *shards, iso_save_parts *parts)
{
    const iso_saved_tensor **sorted = NULL;
    int count = 0;
    iso_status status = sort_paths(spec, &sorted, &count);
    for (int i = 0; i < shards->count && status == ISO_OK; i++) {
        iso_saved_tensor wanted = {.path = shards->shards[i].path}, *key = &wanted;
        const iso_saved_tensor **found = bsearch(&key, sorted, (size_t)count, sizeof *sorted, by_path);
        if (!found)
            continue;
        status = check_shard(&shards->shards[i], *found);
        if (status == ISO_OK && shards->shards[i].writer && shards->shards[i].count > 0)
            status = parts_add(parts, (iso_save_part){.tensor = (int)(*found - spec->tensors),
                                                      .source = i,
                                                      .shard = shards->shards[i]});
    }
    iso_free(sorted);
    return status;
}

static iso_status add_constants(const iso_file_spec *spec, iso_save_parts *parts)
{
    iso_status status = ISO_OK;
    for (int t = 0; t < spec->n_tensors && status == ISO_OK; t++) {
        const iso_saved_tensor *tensor = &spec->tensors[t];
        iso_box box = iso_box_whole(&tensor->shape);
        iso_state_shard whole = {.path = tensor->path,
                                 .dtype = tensor->dtype,
                                 .shape = tensor->shape,
                                 .box = box,
                                 .count = iso_box_count(&box),
                                 .writer = true};
        if (!tensor->path && whole.count > 0)
            status =
                parts_add(parts, (iso_save_part){.tensor = t, .source = ISO_SAVE_CONSTANT, .shard = whole});
    }
    return status;
}

/* Orders by offset in the file. */
static int by_offset(const void *a, const void *b)
{
    const iso_save_part *x = a, *y = b;
    if (x->tensor != y->tensor)
        return x->tensor - y->tensor;
    int64_t p = iso_box_global_index(&x->shard.box, &x->shard.shape, x->shard.begin),
            q = iso_box_global_index(&y->shard.box, &y->shard.shape, y->shard.begin);
    return p < q ? -1 : p > q;
}

static void sort(iso_save_parts *parts)
{
    if (parts->count)
        qsort(parts->parts, (size_t)parts->count, sizeof *parts->parts, by_offset);
}

iso_status iso_save_parts_make(const iso_file_spec *spec, const iso_state_shards *shards, bool constants,
                               iso_save_parts *parts, int64_t *covered)
{
    iso_save_parts fresh = {.made_for = iso_shards_structure(shards)};
    iso_status status = add_shards(spec, shards, &fresh);
    if (status == ISO_OK && constants)
        status = add_constants(spec, &fresh);
    if (status != ISO_OK) {
        iso_save_parts_free(&fresh);
        return status;
    }
    sort(&fresh);
    memset(covered, 0, (size_t)spec->n_tensors * sizeof *covered);
    for (int i = 0; i < fresh.count; i++)
        covered[fresh.parts[i].tensor] += fresh.parts[i].shard.count;
    *parts = fresh;
    return ISO_OK;
}

void iso_save_parts_free(iso_save_parts *parts)
{
    iso_free(parts->parts);
    *parts = (iso_save_parts){0};
}

/* ---- copying ---- */

size_t iso_save_parts_bytes(const iso_save_parts *parts)
{
    size_t bytes = 0;
    for (int i = 0; i < parts->count; i++)
        bytes += parts->parts[i].bytes;
    return bytes;
}

bool iso_save_parts_may_stay(const iso_state_shards *shards)
{
    for (int i = 0; i < shards->count; i++)
        if (shards->shards[i].stream)
            return false;
    return true;
}

static const void *data_of(const iso_save_part *part, const iso_file_spec *spec,
                           const iso_state_shards *shards)
{
    return part->source == ISO_SAVE_CONSTANT ? spec->constant[part->tensor]
                                             : shards->shards[part->source].data;
}

/* Copies a part's data to the host's memory. */
static iso_status copy_part(const iso_save_part *part, const iso_state_shards *shards, const void *data,
                            void *to)
{
    const iso_state_shard *shard = part->source == ISO_SAVE_CONSTANT ? NULL : &shards->shards[part->source];
    if (shard && shard->stream)
        return iso_shard_read(shard, to);
    iso_copy_nontemporal(to, data, part->bytes);
    return ISO_OK;
}

iso_status iso_save_parts_take(iso_save_parts *parts, const iso_file_spec *spec,
                               const iso_state_shards *shards, void *room)
{
    char *to = room;
    iso_status status = ISO_OK;
    for (int i = 0; i < parts->count && status == ISO_OK; i++) {
        iso_save_part *part = &parts->parts[i];
        const void *data = data_of(part, spec, shards);
        part->shard.data = to ? to : (void *)(uintptr_t)data;
        if (!to)
            continue;
        status = copy_part(part, shards, data, to);
        to += part->bytes;
    }
    return status;
}

/* ---- writing ---- */

/* file -1: only sums. */
static iso_status put_run(iso_crc_sum *sum, const char *data, size_t bytes, uint64_t at, uint64_t tensor,
                          int file, const char *name)
{
    iso_status status = ISO_OK;
    while (bytes > 0 && status == ISO_OK) {
        size_t now = bytes < AT_ONCE ? bytes : AT_ONCE;
        iso_crc_sum_add(sum, at, data, now);
        if (file >= 0)
            status = iso_file_write_at(file, name, data, now, tensor + at);
        data += now;
        at += now;
        bytes -= now;
    }
    return status;
}

iso_status iso_save_part_write(const iso_save_part *part, const iso_commit_record *record, int file,
                               const char *name, uint32_t *crc)
{
    const iso_commit_tensor *tensor = &record->tensors[part->tensor];
    size_t element = iso_dtype_size(part->shard.dtype);
    const char *data = part->shard.data;
    int64_t own, global, count;
    iso_crc_sum sum = {0};
    iso_runs runs = iso_runs_of(&part->shard);
    iso_status status = ISO_OK;
    while (status == ISO_OK && iso_runs_next(&runs, &own, &global, &count))
        status = put_run(&sum, data + (size_t)own * element, (size_t)count * element,
                         (uint64_t)global * element, tensor->offset, file, name);
    crc[part->tensor] ^= iso_crc_sum_get(&sum, tensor->bytes);
    return status;
}
