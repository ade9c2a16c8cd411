/* Shards of replicated variables: of each host's copy every element is listed by one of its ranks, of all
 * copies one is written, and the ranks that hold a variable share its writing evenly.
 * Ranks: 1, 3, 8 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/exec/function/inspect.h"
#include "runtime/session/session.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"
#include "tests/support/trial.h"

static iso_context *ctx;

enum { IN = 150, HIDDEN = 300, OUT = 211, MOST = 1 << 20 };

static void wide(net *n)
{
    n->input[n->inputs++] = iso_input(n->graph, "x", ISO_F32, ISO_SHAPE(IN));
    iso_tensor *y = iso_dense(n->input[0], HIDDEN, .name = "d1");
    n->loss = iso_mean(iso_square(iso_dense(y, OUT, .name = "d2")));
}

static const net_kind wide_kind = {"wide", wide};

/* How often each element of each variable is listed: on this host, and by writers. One byte each. */
typedef struct tally {
    unsigned char listed[MOST], written[MOST];
    int64_t writes; /* bytes of variables that this rank writes */
} tally;

static int64_t first_of(const iso_graph *graph, const char *path, const iso_variable **variable)
{
    int64_t at = 0, count;
    for (int v = 0; v < iso_graph_variable_count(graph); v++) {
        *variable = iso_graph_variable(graph, v);
        if (!strcmp(iso_variable_path(*variable), path))
            return at;
        check_ok(iso_shape_count(iso_variable_shape(*variable), &count));
        at += count;
    }
    return -1; /* an optimizer's */
}

static void count_shard(const iso_graph *graph, const iso_state_shard *shard, tally *mine)
{
    const iso_variable *variable;
    int64_t first = first_of(graph, shard->path, &variable);
    for (int64_t i = 0; first >= 0 && i < shard->count; i++) {
        int64_t at = first + iso_box_global_index(&shard->box, &shard->shape, shard->begin + i);
        ck_assert_int_lt(at, MOST);
        mine->listed[at]++;
        mine->written[at] += shard->writer;
    }
    if (first >= 0 && shard->writer)
        mine->writes += shard->count * (int64_t)iso_dtype_size(shard->dtype);
}

static const tally *tally_all(const trial *t)
{
    tally *mine = calloc(1, sizeof *mine), *all = malloc((size_t)iso_ranks(ctx) * sizeof *all);
    iso_state_shards shards;
    check_ok(iso_graph_shards(t->net.graph, &shards));
    for (int i = 0; i < shards.count; i++) {
        ck_assert_int_gt(shards.shards[i].count, 0);
        count_shard(t->net.graph, &shards.shards[i], mine);
    }
    iso_state_shards_free(&shards);
    check_ok(iso_gather_all(ctx, mine, sizeof *mine, all));
    free(mine);
    return all;
}

/* Every host holds all elements. */
static void check_element(const trial *t, const tally *all, int64_t i)
{
    int written = 0, host = iso_host_of_rank(ctx, iso_rank(ctx)), listed = 0;
    for (int r = 0; r < iso_ranks(ctx); r++) {
        written += all[r].written[i];
        listed += iso_host_of_rank(ctx, r) == host ? all[r].listed[i] : 0;
    }
    ck_assert_msg(written == 1 && listed == 1,
                  "%s: element %lld is written %d times, listed %d times on host %d", t->what, (long long)i,
                  written, listed, host);
}

static void check(const char *mesh, const char *layout, double tolerance)
{
    trial t;
    int64_t total, sum = 0;
    iso_optimizer sgd = iso_sgd(0.1);
    trial_begin(&t, ctx, &wide_kind, ISO_F32, 16);
    trial_mesh(&t, mesh, NULL);
    if (layout)
        trial_layout(&t, "d1/kernel", layout);
    trial_make(&t, "data", &sgd);
    trial_step(&t, 0);
    const tally *all = tally_all(&t);
    free(trial_weights(&t, &total));
    for (int64_t i = 0; i < total && !layout; i++)
        check_element(&t, all, i);
    for (int r = 0; r < iso_ranks(ctx); r++)
        sum += all[r].writes;
    for (int r = 0; r < iso_ranks(ctx); r++) {
        double share = (double)all[r].writes * iso_ranks(ctx) / (double)sum;
        ck_assert_msg(share > 1 - tolerance && share < 1 + tolerance, "%s: rank %d writes %.3f of its share",
                      mesh, r, share);
    }
    free((void *)(uintptr_t)all);
    trial_end(&t);
}

START_TEST(replicas_share_writing)
{
    check(iso_ranks(ctx) == 3 ? "data=3" : "data=8", NULL, 0.1);
}
END_TEST

START_TEST(replicas_along_one_axis_share_writing)
{
    check(iso_ranks(ctx) == 3 ? "data=3,model=2" : "data=4,model=2", "-, model", 0.15);
    check(iso_ranks(ctx) == 3 ? "data=3,model=1" : "data=2,model=4", "model, -", 0.15);
}
END_TEST

/* What is kept for the first list of shards serves the later ones. */
START_TEST(memory_does_not_grow_with_each_list)
{
    trial t;
    size_t held[2] = {0};
    iso_optimizer adam = iso_adam(0.1);
    trial_begin(&t, ctx, &wide_kind, ISO_F32, 16);
    trial_mesh(&t, "data=8", NULL);
    trial_make(&t, "data", &adam);
    trial_step(&t, 0);
    for (int i = 0; i < 2 * 50; i++) {
        iso_state_shards shards;
        check_ok(iso_graph_shards(t.net.graph, &shards));
        iso_state_shards_free(&shards);
        held[i / 50] = iso_memory_held();
    }
    ck_assert_uint_eq(held[0], held[1]);
    trial_end(&t);
}
END_TEST

int main(int argc, char **argv)
{
    setenv("ISOGRID_RANKS_PER_HOST", "2", 0);
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS("shards", 0, replicas_share_writing, replicas_along_one_axis_share_writing,
                  memory_does_not_grow_with_each_list))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
