#include "tests/support/known_state.h"
#include "runtime/checkpoint/saver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/memory.h"

static const iso_saved_tensor tensors[KNOWN_TENSORS] = {
    {"/layers/dense/vars/0", "rows", ISO_F32, {2, {37, 11}}},
    {"/layers/dense/vars/1", "copies", ISO_F64, {1, {1001}}},
    {"/layers/dense_1/vars/0", "columns", ISO_I32, {2, {7, 30}}},
    {"/optimizer/vars/0", "step", ISO_I64, {0, {0}}},
    {"/layers/dense_1/vars/1", "empty", ISO_F32, {2, {0, 4}}},
    {"/optimizer/vars/1", NULL, ISO_F32, {0, {0}}},
};
enum { ROWS, COPIES, COLUMNS, STEP, EMPTY, CONSTANT };

static const iso_saved_group groups[] = {
    {"/layers/dense/vars", "d1"}, {"/layers/dense_1/vars", "d2"}, {"/layers/flatten/vars", "flat"}};
static const float constant = 0.5F;
static const void *const constants[KNOWN_TENSORS] = {[CONSTANT] = &constant};

/* The element at a place of a tensor's row-major order in the checkpoint of this number. */
static double known(int number, int tensor, int64_t index)
{
    uint64_t x = (uint64_t)number * 1000003 + (uint64_t)tensor * 10007 + (uint64_t)index;
    x = (x ^ (x >> 31)) * 0x9E3779B97F4A7C15u;
    return tensor == CONSTANT ? constant : (double)(x >> 44); /* 20 bits: exact in every type */
}

static int64_t elements(int tensor)
{
    int64_t count = 0;
    return iso_shape_count(&tensors[tensor].shape, &count) == ISO_OK ? count : 0;
}

static void *room(int tensor)
{
    void *memory = NULL;
    if (iso_alloc((size_t)elements(tensor) * 8, "a known tensor", &memory))
        abort();
    return memory;
}

static void add_shard(known_state *k, int tensor, iso_box box, int64_t begin, int64_t count, bool writer)
{
    const iso_saved_tensor *t = &tensors[tensor];
    k->memory[tensor] = room(tensor);
    k->shard[k->shards.count++] = (iso_state_shard){
        .path = t->path,
        .dtype = t->dtype,
        .shape = t->shape,
        .box = box,
        .begin = begin,
        .count = count,
        .data = k->memory[tensor],
        .writer = writer,
    };
}

static void add_part(known_state *k, int tensor, int dimension)
{
    iso_box box = iso_box_whole(&tensors[tensor].shape);
    iso_part_range(tensors[tensor].shape.dim[dimension], iso_ranks(k->ctx), iso_rank(k->ctx),
                   &box.offset[dimension], &box.extent[dimension]);
    add_shard(k, tensor, box, 0, iso_box_count(&box), true);
}

void known_state_begin(known_state *k, iso_context *ctx)
{
    int64_t begin, count;
    int rank = iso_rank(ctx), ranks = iso_ranks(ctx);
    *k = (known_state){.ctx = ctx};
    k->shards.shards = k->shard;
    add_part(k, ROWS, 0);
    iso_part_range(elements(COPIES), ranks, rank, &begin, &count);
    add_shard(k, COPIES, iso_box_whole(&tensors[COPIES].shape), begin, count, true);
    add_part(k, COLUMNS, 1);
    add_shard(k, STEP, iso_box_whole(&tensors[STEP].shape), 0, 1, rank == ranks - 1);
    add_shard(k, EMPTY, iso_box_whole(&tensors[EMPTY].shape), 0, 0, rank == 0);
}

void known_state_end(known_state *k)
{
    for (int t = 0; t < KNOWN_TENSORS; t++)
        iso_free(k->memory[t]);
}

void known_state_fill(known_state *k, int number)
{
    for (int p = 0; p < k->shards.count; p++) {
        iso_state_shard *shard = &k->shard[p]; /* of tensor p: they were added in this order */
        for (int64_t i = 0; i < shard->count; i++) {
            int64_t at = iso_box_global_index(&shard->box, &shard->shape, shard->begin + i);
            iso_element_set(shard->data, shard->dtype, i, known(number, p, at));
        }
    }
}

iso_file_spec known_state_contents(known_state *k, int number)
{
    snprintf(k->text, sizeof k->text, "{\"number\": %d}", number);
    return (iso_file_spec){
        .n_tensors = KNOWN_TENSORS,
        .n_groups = sizeof groups / sizeof *groups,
        .tensors = tensors,
        .constant = constants,
        .groups = groups,
        .state = k->text,
        .number = (uint64_t)number,
    };
}

/* ---- known again ---- */

static iso_status check_tensor(iso_saved_file *file, int number, int t)
{
    iso_status status = ISO_OK;
    iso_box whole = iso_box_whole(&tensors[t].shape);
    const char *path = iso_saved_file_path(file);
    int index = iso_saved_file_at(file, tensors[t].h5_path);
    double *values = room(t);
    if (index < 0)
        ISO_TRY(iso_error(ISO_INVALID, "%s: no tensor at %s", path, tensors[t].h5_path));
    ISO_TRY(iso_saved_file_read(file, index, &whole, ISO_F64, values));
    for (int64_t i = 0; i < elements(t); i++)
        if (values[i] != known(number, t, i))
            ISO_TRY(iso_error(ISO_INVALID, "%s: %s has %g instead of %g at %lld", path, tensors[t].h5_path,
                              values[i], known(number, t, i), (long long)i));
done:
    iso_free(values);
    return status;
}

static iso_status check_file(iso_saved_file *file, int *number)
{
    iso_status status = ISO_OK;
    uint64_t marked = 0;
    char text[64];
    const char *path = iso_saved_file_path(file), *state = iso_saved_file_state(file);
    if (!iso_saved_file_committed(file, &marked))
        return iso_error(ISO_INVALID, "%s is not committed", path);
    snprintf(text, sizeof text, "{\"number\": %d}", (int)marked);
    if (!state || strcmp(state, text))
        return iso_error(ISO_INVALID, "%s: its state is '%s' instead of '%s'", path, state ? state : "none",
                         text);
    for (int t = 0; t < KNOWN_TENSORS; t++)
        ISO_TRY(check_tensor(file, (int)marked, t));
    *number = (int)marked;
done:
    return status;
}

int known_state_of(iso_context *ctx, const char *path)
{
    iso_saved_file *file = NULL;
    int number = -1;
    if (iso_saved_file_open(ctx, path, &file))
        return -1;
    iso_status status = check_file(file, &number);
    iso_saved_file_close(file);
    return status == ISO_OK ? number : -1;
}
