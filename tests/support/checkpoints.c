#include "tests/support/checkpoints.h"

#include "runtime/base/device.h"
#include "runtime/base/hash.h"
#include "tests/support/guarded_device.h"

typedef enum cut { ROWS, COLUMNS, BLOCKS, SHARES, FLAT, LAST_RANK, CONSTANT } cut;

static const struct {
    iso_saved_tensor tensor;
    cut cut;
} made[MADE_TENSORS] = {
    {{"/layers/dense/vars/0", "dense/kernel", ISO_F32, {2, {7, 10}}}, ROWS},
    {{"/layers/dense/vars/1", "dense/bias", ISO_F32, {1, {10}}}, SHARES},
    {{"/layers/dense_1/vars/0", "dense_1/kernel", ISO_F32, {2, {3001, 330}}}, COLUMNS},
    {{"/layers/conv2d/vars/0", "conv/kernel", ISO_F64, {4, {3, 3, 5, 8}}}, COLUMNS},
    {{"/optimizer/vars/0", NULL, ISO_I32, {0, {0}}}, CONSTANT},
    {{"/optimizer/vars/1", NULL, ISO_F32, {0, {0}}}, CONSTANT},
    {{"/optimizer/vars/2", "optimizer/adam/dense/kernel/momentum", ISO_F32, {2, {7, 10}}}, FLAT},
    {{"/isogrids/empty", "empty", ISO_F32, {2, {0, 4}}}, ROWS},
    {{"/isogrids/blocks", "blocks", ISO_I64, {2, {600, 1101}}}, BLOCKS},
    {{"/isogrids/flags", "flags", ISO_BOOL, {1, {13}}}, LAST_RANK},
};

static const iso_saved_group made_group[MADE_GROUPS] = {
    {"/vars", "net"},
    {"/layers", NULL},
    {"/layers/dense/vars", "dense"},
    {"/layers/dense_1/vars", "d\303\251j\303\240 vu"},
    {"/layers/flatten/vars", "flatten"},
    {"/layers/conv2d/vars", "conv"},
    {"/optimizer/vars", "adam"},
};

size_t made_bytes(const iso_saved_tensor *tensor)
{
    int64_t count = 0;
    check_ok(iso_shape_count(&tensor->shape, &count));
    return (size_t)count * iso_dtype_size(tensor->dtype);
}

/* One value an element: small integers, which every type has. */
static double value_of(int number, int version, int64_t i, iso_dtype dtype)
{
    uint64_t hash = iso_hash_mix((uint64_t)i * 64 + (uint64_t)number * 8 + (uint64_t)version);
    return (double)(hash % (dtype == ISO_BOOL ? 2 : 200));
}

/* The elements of a shard. */
static void *shard_values(const iso_state_shard *shard, int number, int version)
{
    char *data = malloc((size_t)shard->count * iso_dtype_size(shard->dtype) + 1);
    for (int64_t i = 0; i < shard->count; i++) {
        int64_t global = iso_box_global_index(&shard->box, &shard->shape, shard->begin + i);
        iso_element_set(data, shard->dtype, i, value_of(number, version, global, shard->dtype));
    }
    return data;
}

void *made_values(const iso_saved_tensor *tensor, int number, int version)
{
    iso_box box = iso_box_whole(&tensor->shape);
    iso_state_shard whole = {.path = tensor->path,
                             .dtype = tensor->dtype,
                             .shape = tensor->shape,
                             .box = box,
                             .count = iso_box_count(&box),
                             .writer = true};
    return shard_values(&whole, number, version);
}

/* ---- cutting ---- */

typedef struct cutter {
    made_state *state;
    int number, version, rank, ranks;
} cutter;

static void add(cutter *c, const iso_box *box, int64_t begin, int64_t count, bool writer)
{
    const iso_saved_tensor *tensor = &c->state->tensor[c->number];
    iso_state_shard *shard = &c->state->shard[c->state->shards.count++];
    ck_assert_int_le(c->state->shards.count, MOST_MADE_PIECES);
    *shard = (iso_state_shard){.path = tensor->path,
                               .dtype = tensor->dtype,
                               .shape = tensor->shape,
                               .box = *box,
                               .begin = begin,
                               .count = count,
                               .writer = writer};
    shard->data = shard_values(shard, c->number, c->version);
    test_shard_place(shard);
}

static void add_box(cutter *c, iso_box box)
{
    add(c, &box, 0, iso_box_count(&box), true);
}

/* A part of one dimension, two parts to every rank. */
static void add_halves(cutter *c, iso_box box, int dim, bool twice)
{
    int64_t n = box.extent[dim];
    for (int half = 0; half <= twice; half++) {
        iso_part_range(n, twice ? 2 * c->ranks : c->ranks, twice ? 2 * c->rank + half : c->rank,
                       &box.offset[dim], &box.extent[dim]);
        add_box(c, box);
    }
}

static void add_blocks(cutter *c, iso_box box)
{
    iso_part_range(box.extent[0], c->ranks, c->rank, &box.offset[0], &box.extent[0]);
    int64_t n = box.extent[1];
    for (int half = 1; half >= 0; half--) {
        iso_part_range(n, 2, half, &box.offset[1], &box.extent[1]);
        add_box(c, box);
    }
}

/* This rank's share to write, and what else it has. */
static void add_shares(cutter *c, iso_box box, bool all)
{
    int64_t begin, count, n = iso_box_count(&box);
    iso_part_range(n, c->ranks, c->rank, &begin, &count);
    if (all)
        add(c, &box, 0, begin, false);
    add(c, &box, begin, count, true);
    if (all)
        add(c, &box, begin + count, n - begin - count, false);
}

static void cut_tensor(cutter *c, cut how)
{
    iso_box box = iso_box_whole(&c->state->tensor[c->number].shape);
    if (how == ROWS)
        add_halves(c, box, 0, false);
    else if (how == COLUMNS)
        add_halves(c, box, box.rank - 1, true);
    else if (how == BLOCKS)
        add_blocks(c, box);
    else if (how == SHARES || how == FLAT)
        add_shares(c, box, how == SHARES);
    else if (how == LAST_RANK && c->rank == c->ranks - 1)
        add_box(c, box);
    else if (how == CONSTANT)
        c->state->constant[c->number] = made_values(&c->state->tensor[c->number], c->number, c->version);
}

void made_state_begin(made_state *state, iso_context *ctx, int version)
{
    cutter c = {state, 0, version, iso_rank(ctx), iso_ranks(ctx)};
    *state = (made_state){
        .contents = {.n_tensors = MADE_TENSORS, .n_groups = MADE_GROUPS, .number = 1000 + (uint64_t)version}};
    state->contents.tensors = state->tensor;
    state->contents.groups = state->group;
    state->contents.constant = state->constant;
    state->contents.state = "{\"step\": 12, \"text\": \"gr\303\274n\"}";
    state->shards.shards = state->shard;
    memcpy(state->group, made_group, sizeof made_group);
    for (c.number = 0; c.number < MADE_TENSORS; c.number++) {
        state->tensor[c.number] = made[c.number].tensor;
        cut_tensor(&c, made[c.number].cut);
    }
    add(&(cutter){state, 0, version, 0, 1}, &(iso_box){2, {0}, {1, 1}}, 0, 1, false);
    state->shard[state->shards.count - 1].path = "none/of/the/file";
}

void made_state_end(made_state *state)
{
    for (int i = 0; i < state->shards.count; i++)
        test_shard_free(&state->shard[i]);
    for (int t = 0; t < MADE_TENSORS; t++)
        free((void *)(uintptr_t)state->constant[t]);
}
