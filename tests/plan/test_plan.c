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

/* ---- buckets ---- */

typedef struct made {
    iso_graph *graph;
    iso_mesh *mesh;
    iso_layout_map *map;
    iso_distribution *distribution;
    iso_program *program;
    iso_bucket_list buckets;
} made;

/* Layers of odd sizes; d1 sharded over the axis "b" where the mesh has it. */
static void make(made *m, const char *mesh)
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
    iso_tensor *y = iso_dense(iso_dense(iso_dense(x, 41, .name = "d1"), 7, .name = "d2"), 1, .name = "d3");
    iso_tensor *loss = iso_mean(iso_square(y));
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
        make(&m, cases[i].mesh);
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

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK && RUN_TESTS("plan", 60, blocks_do_not_meet, many_blocks_do_not_meet,
                                      memory_is_used_again, parts_cover_buckets_once))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
