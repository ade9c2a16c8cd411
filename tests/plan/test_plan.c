/* Memory plans and buckets. Ranks: 1
 * Sanitize: 1 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "models/layers.h"
#include "runtime/base/memory.h"
#include "runtime/base/random.h"
#include "runtime/graph/optimizer.h"
#include "runtime/plan/bucket.h"
#include "runtime/plan/memory_plan.h"
#include "runtime/plan/plan.h"
#include "runtime/session/session.h"
#include "runtime/train/losses.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static uint64_t thrown;

static int dice(int n)
{
    return (int)(iso_random_word(3, 0, thrown++) % (uint32_t)n);
}

/* ---- memory ---- */

enum { MOST_BLOCKS = 60, TIMES = 40 };

/* Blocks that live at the same time lie apart, with a line to spare; the sum is no more than the sum of all
 * and no less than what lives at once. */
static void check_blocks(const iso_block *block, int count, size_t total)
{
    size_t most = 0, all = 0;
    for (int i = 0; i < count; i++) {
        ck_assert(block[i].offset % ISO_ALIGN == 0);
        ck_assert(block[i].offset + block[i].bytes <= total);
        all += block[i].bytes + 2 * ISO_ALIGN;
        for (int k = 0; k < i; k++) {
            bool meet = block[i].begin <= block[k].end && block[k].begin <= block[i].end;
            bool apart = block[i].offset + block[i].bytes + ISO_ALIGN <= block[k].offset ||
                         block[k].offset + block[k].bytes + ISO_ALIGN <= block[i].offset;
            ck_assert_msg(apart || !meet, "blocks %d and %d of %d overlap", k, i, count);
        }
    }
    for (int when = 0; when < TIMES; when++) {
        size_t now = 0;
        for (int i = 0; i < count; i++)
            now += block[i].begin <= when && when <= block[i].end ? block[i].bytes : 0;
        most = now > most ? now : most;
    }
    ck_assert(most <= total && total <= all);
}

/* Blocks from number `placed` on; those without an offset do not count. Returns how many have one. */
static int check_around(const iso_block *block, int placed, int count, size_t total)
{
    int fit = 0;
    for (int i = placed; i < count; i++) {
        if (block[i].offset == ISO_NO_OFFSET)
            continue;
        fit++;
        if (block[i].offset % ISO_ALIGN != 0 || block[i].offset + block[i].bytes + ISO_ALIGN > total)
            ck_abort_msg("block %d of %d is not in %zu bytes", i, count, total);
        for (int k = 0; k < i; k++) {
            bool meet = block[i].begin <= block[k].end && block[k].begin <= block[i].end;
            bool apart = block[k].offset == ISO_NO_OFFSET ||
                         block[i].offset + block[i].bytes + ISO_ALIGN <= block[k].offset ||
                         block[k].offset + block[k].bytes + ISO_ALIGN <= block[i].offset;
            if (meet && !apart)
                ck_abort_msg("blocks %d and %d of %d overlap", k, i, count);
        }
    }
    return fit;
}

START_TEST(blocks_do_not_meet)
{
    iso_block block[MOST_BLOCKS];
    size_t total;
    for (int n = 0; n < 1000; n++) {
        int count = dice(MOST_BLOCKS + 1);
        for (int i = 0; i < count; i++) {
            int begin = dice(TIMES);
            block[i] = (iso_block){.bytes = (size_t)dice(n % 2 ? 5000 : 3) * 7,
                                   .begin = begin,
                                   .end = begin + dice(TIMES - begin)};
        }
        check_ok(iso_memory_plan(block, count, &total));
        check_blocks(block, count, total);
    }
}
END_TEST

/* Thousands of blocks as training has them: activations that live from a layer's forward to its backward
 * pass, and what lives for a moment. */
START_TEST(many_blocks_do_not_meet)
{
    enum { LAYERS = 1500 };
    iso_block *block = calloc(3 * LAYERS, sizeof *block);
    for (int n = 0; n < 6; n++) {
        size_t total, most = 0;
        int ends = 2 * LAYERS;
        int64_t *live = calloc((size_t)ends + 2, sizeof *live);
        for (int i = 0; i < 3 * LAYERS; i++) {
            int layer = i / 3, begin = i % 3 < 2 ? layer : ends - layer;
            int end = i % 3 ? begin + dice(3) : ends - layer;
            block[i] = (iso_block){.bytes = (size_t)(n % 2 ? 64 : 1 + dice(1 << (4 + dice(14)))),
                                   .begin = begin,
                                   .end = end > ends ? ends : end};
            size_t bytes = (block[i].bytes + ISO_ALIGN - 1) / ISO_ALIGN * ISO_ALIGN + ISO_ALIGN;
            live[block[i].begin] += (int64_t)bytes;
            live[block[i].end + 1] -= (int64_t)bytes;
        }
        for (int64_t t = 0, now = 0; t <= ends; t++)
            most = (now += live[t]) > (int64_t)most ? (size_t)now : most;
        check_ok(iso_memory_plan(block, 3 * LAYERS, &total));
        for (int i = 0; i < 3 * LAYERS; i++)
            for (int k = 0; k < i; k++) {
                bool apart = block[i].begin > block[k].end || block[k].begin > block[i].end ||
                             block[i].offset + block[i].bytes + ISO_ALIGN <= block[k].offset ||
                             block[k].offset + block[k].bytes + ISO_ALIGN <= block[i].offset;
                if (!apart) /* millions of assertions take their time, fulfilled or not */
                    ck_abort_msg("blocks %d and %d meet", k, i);
            }
        ck_assert_msg(total <= most * 1.05, "%zu bytes where %zu live at once", total, most);
        free(live);
    }
    free(block);
}
END_TEST

START_TEST(memory_is_used_again)
{
    iso_block block[3] = {{.bytes = 1000, .begin = 0, .end = 1},
                          {.bytes = 800, .begin = 1, .end = 2},
                          {.bytes = 900, .begin = 2, .end = 3}};
    size_t total;
    check_ok(iso_memory_plan(block, 3, &total));
    ck_assert(total < 2100);
    ck_assert(block[0].offset == block[2].offset);
}
END_TEST

/* Around blocks that have an offset, which may be closer than a line to each other; and in a range that is too small
 * for all. */
START_TEST(blocks_are_placed_around_others)
{
    enum { PLACED = 8, LAYERS = 1500 };
    iso_block *block = calloc(PLACED + 3 * LAYERS, sizeof *block);
    for (int n = 0; n < 300; n++) {
        int count = PLACED + (n < 297 ? dice(40) : 3 * LAYERS), begin;
        size_t total, at = 0, within;
        for (int i = 0; i < count; i++) {
            begin = dice(TIMES);
            block[i] = (iso_block){.bytes = (size_t)dice(i < PLACED ? 20 : 100) * ISO_ALIGN / 2,
                                   .begin = begin,
                                   .end = i < PLACED ? TIMES : begin + dice(TIMES - begin)};
            if (i < PLACED) {
                block[i].offset = at;
                at += (block[i].bytes + ISO_ALIGN - 1) / ISO_ALIGN * ISO_ALIGN;
            }
        }
        check_ok(iso_memory_plan_around(block, PLACED, count, &total));
        ck_assert(total >= at);
        check_around(block, PLACED, count, total);
        within = total / 2 > at ? total / 2 : at;
        check_ok(iso_memory_plan_within(block, PLACED, count, within));
        int fit = check_around(block, PLACED, count, within);
        ck_assert_msg(fit > 0 || within < 2000 || count < PLACED + 20, "none of %d blocks is in %zu bytes",
                      count, within);
    }
    free(block);
}
END_TEST

/* ---- buckets ---- */

typedef struct made {
    iso_graph *graph;
    iso_mesh *mesh;
    iso_layout_map *map;
    iso_distribution *distribution;
    iso_program *program;
    iso_bucket_list buckets;
} made;

static iso_tensor *odd_sizes(iso_tensor *x)
{
    return iso_dense(iso_dense(iso_dense(x, 41, .name = "d1"), 7, .name = "d2"), 1, .name = "d3");
}

/* d1 is sharded over the axis "b" where the mesh has it. */
static void make_of(made *m, const char *mesh, iso_tensor *(*network)(iso_tensor *x))
{
    check_ok(iso_mesh_create(ctx, mesh, &m->mesh));
    check_ok(iso_layout_map_create(m->mesh, &m->map));
    if (iso_mesh_axes(m->mesh) > 1) {
        check_ok(iso_layout_map_set(m->map, "d1/kernel", "-, b"));
        check_ok(iso_layout_map_set(m->map, "d1/bias", "b"));
    }
    check_ok(iso_model_parallel_create(m->map, &m->distribution));
    m->graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(m->graph, "x", ISO_F32, ISO_SHAPE(23));
    iso_tensor *loss = iso_mean(iso_square(network(x)));
    iso_update *update = iso_minimize(loss, iso_adam(0.01));
    iso_program_request request = {.training = true,
                                   .n_inputs = 1,
                                   .n_outputs = 1,
                                   .n_updates = 1,
                                   .inputs = &x,
                                   .outputs = &loss,
                                   .updates = &update};
    check_ok(iso_program_create(m->graph, m->distribution, &request, &m->program));
    check_ok(iso_buckets_create(m->program, false, &m->buckets));
}

static void drop(made *m)
{
    iso_buckets_destroy(&m->buckets);
    iso_program_destroy(m->program);
    iso_graph_destroy(m->graph);
    iso_distribution_destroy(m->distribution);
    iso_layout_map_destroy(m->map);
    iso_mesh_destroy(m->mesh);
}

/* Members lie one behind another with room for their largest box. */
static void check_members(const made *m, const iso_bucket *bucket)
{
    int64_t at = 0;
    for (int i = 0; i < bucket->n_members; i++) {
        const iso_bucket_member *member = &bucket->members[i];
        ck_assert_int_eq(member->offset, at);
        ck_assert_int_ge(member->capacity,
                         iso_layout_largest(m->mesh, &m->program->variable_layout[member->variable->id],
                                            &member->variable->shape));
        at += member->capacity;
    }
    ck_assert_int_eq(bucket->total, at);
}

/* The parts of the slots of each group cover the range once, in order. */
static void check_parts(const made *m, const iso_bucket *bucket)
{
    int slots[64];
    for (int s = 0; s < iso_mesh_slots(m->mesh); s++) {
        int group = iso_group_slots(m->mesh, bucket->axes, s, slots), me = -1;
        int64_t at = 0;
        ck_assert_int_eq(group, bucket->group);
        for (int i = 0; i < group; i++) {
            int64_t begin, count;
            ck_assert(i == 0 || slots[i] > slots[i - 1]);
            me = slots[i] == s ? i : me;
            iso_bucket_part(bucket, m->mesh, slots[i], &begin, &count);
            ck_assert_int_eq(begin, at);
            ck_assert_int_ge(count, 0);
            at += count;
        }
        ck_assert_int_eq(at, bucket->total);
        ck_assert_int_ge(me, 0);
    }
}

START_TEST(parts_cover_buckets_once)
{
    static const struct {
        const char *mesh;
        int buckets;
    } cases[] = {{"a=1", 1}, {"a=3", 1}, {"a=8", 1}, {"a=2,b=4", 2}, {"a=3,b=2,c=2", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        made m;
        int members = 0;
        make_of(&m, cases[i].mesh, odd_sizes);
        ck_assert_int_eq(m.buckets.count, cases[i].buckets);
        for (int b = 0; b < m.buckets.count; b++) {
            members += m.buckets.buckets[b].n_members;
            check_members(&m, &m.buckets.buckets[b]);
            check_parts(&m, &m.buckets.buckets[b]);
        }
        ck_assert_int_eq(members, 6); /* kernels and biases */
        drop(&m);
    }
}
END_TEST

/* ---- values and gradients in memory ---- */

/* A range of an area and of the list of instructions. */
typedef struct stored {
    const char *name;
    iso_location_kind area;
    size_t begin, end;
    iso_live_range live;
} stored;

static size_t value_bytes(const iso_plan *plan, int value)
{
    const iso_program_value *v = &plan->program->values[value];
    iso_shape shape = iso_plan_shape(plan, value);
    return (size_t)iso_layout_largest(plan->program->mesh, &v->layout, &shape) *
           iso_dtype_size(v->tensor->dtype);
}

/* All values that own memory, and all gradients in buckets. */
static int list_stored(const iso_plan *plan, stored *list)
{
    int n = 0;
    for (int v = 0; v < plan->program->n_values; v++)
        if (plan->live_range[v].end >= 0)
            list[n++] = (stored){iso_tensor_name(plan->program->values[v].tensor), plan->location[v].kind,
                                 plan->location[v].offset, plan->location[v].offset + value_bytes(plan, v),
                                 plan->live_range[v]};
    for (int b = 0; b < plan->buckets->count; b++)
        for (int m = 0; m < plan->buckets->buckets[b].n_members; m++) {
            const iso_bucket_member *member = &plan->buckets->buckets[b].members[m];
            size_t at = plan->bucket_offset[b] + (size_t)plan->member_stored[b][m] * sizeof(float);
            if (iso_plan_fused_of(plan, b, m) < 0)
                list[n++] = (stored){member->variable->path,
                                     ISO_LOCATION_SHARED,
                                     at,
                                     at + (size_t)member->capacity * sizeof(float),
                                     {plan->member_live[b][m], plan->n_instructions}};
        }
    return n;
}

/* The most bytes that live at once. */
static size_t most_live(const iso_plan *plan, const stored *list, int count)
{
    size_t most = 0;
    for (int when = 0; when <= plan->n_instructions; when++) {
        size_t live = 0;
        for (int i = 0; i < count; i++)
            live += list[i].live.begin <= when && when <= list[i].live.end ? list[i].end - list[i].begin : 0;
        most = live > most ? live : most;
    }
    return most;
}

static void check_stored(const iso_plan *plan, const char *what)
{
    stored *list = calloc((size_t)plan->program->n_values + (size_t)plan->program->n_changes, sizeof *list);
    int count = list_stored(plan, list);
    for (int i = 0; i < count; i++) {
        const stored *a = &list[i];
        ck_assert(a->area == ISO_LOCATION_ARENA || a->area == ISO_LOCATION_SHARED);
        ck_assert(a->end <= (a->area == ISO_LOCATION_ARENA ? plan->arena_bytes : plan->shared_bytes));
        for (int k = 0; k < i; k++) {
            const stored *b = &list[k];
            bool apart = a->area != b->area || a->end <= b->begin || b->end <= a->begin ||
                         a->live.end < b->live.begin || b->live.end < a->live.begin;
            ck_assert_msg(apart, "%s: %s and %s are in the same memory at the same time", what, a->name,
                          b->name);
        }
    }
    size_t least = most_live(plan, list, count), bytes = plan->arena_bytes + plan->shared_bytes;
    ck_assert_msg((double)bytes <= 1.1 * (double)least, "%s: %zu bytes where %zu live at once", what, bytes,
                  least);
    free(list);
}

/* Layers of one size, more activations than gradients at first, and then less. */
static iso_tensor *deep(iso_tensor *x)
{
    for (int i = 0; i < 12; i++)
        x = iso_dense(x, 60, .name = i == 1 ? "d1" : NULL, .activation = ISO_TANH);
    return iso_dense(x, 1);
}

/* Slots 0 to n/2 in memory domain 0, the others in the last one. */
START_TEST(memory_is_what_lives_at_once)
{
    static const struct {
        const char *mesh;
        int domains;
        int64_t rows;
    } cases[] = {{"a=1", 1, 60},   {"a=2", 2, 120},     {"a=3", 2, 200},
                 {"a=3", 1, 1000}, {"a=2,b=2", 1, 300}, {"a=2,b=2", 2, 60}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        made m;
        iso_plan *plan;
        int domain[4] = {0}, n_slots;
        make_of(&m, cases[i].mesh, deep);
        n_slots = iso_mesh_slots(m.mesh);
        for (int s = 0; s < n_slots; s++)
            domain[s] = s * cases[i].domains / n_slots;
        iso_site site = {.backend = iso_backend_cpu(),
                         .host_of_slot = domain,
                         .domain_of_slot = domain,
                         .one_host = cases[i].domains == 1,
                         .one_domain = cases[i].domains == 1};
        check_ok(iso_plan_create(m.program, &m.buckets, &site, cases[i].rows, &plan));
        check_stored(plan, cases[i].mesh);
        iso_plan_destroy(plan);
        drop(&m);
    }
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS("plan", 60, blocks_do_not_meet, many_blocks_do_not_meet, memory_is_used_again,
                  blocks_are_placed_around_others, parts_cover_buckets_once, memory_is_what_lives_at_once))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
