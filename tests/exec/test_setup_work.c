/* The work of making exchanges, counted as the sources that ranks add. On one host all ranks together add what
 * one process adds for all slots, and a slot's share does not grow with the slots once they are many. Between domains
 * the same holds for the slots that are looked at to find new weights. A layer's share of the pulls that are looked
 * at to set addresses does not grow with the layers, and which slots share copies is found once for all layers.
 * Ranks: 1, 3, 8   More: 2 */
#include <check.h>
#include <mpi.h>
#include <stdlib.h>

#include "models/layers.h"
#include "runtime/exec/function/bind_impl.h"
#include "runtime/exec/function/function_impl.h"
#include "runtime/exec/memory/runtime_impl.h"
#include "runtime/session/session.h"
#include "runtime/session/session_mpi.h"
#include "tests/support/run_tests.h"
#include "tests/support/trial.h"

static iso_context *all, *alone;

/* A network on a mesh, whose first axis is the batch's. */
typedef struct kind {
    const char *name, *net, *few, *some, *many; /* meshes of 16, 100 and 400 slots */
    const char *key, *layout;
    int zero;
} kind;

static const kind kinds[] = {
    {"data parallel", "mlp", "data=16", "data=100", "data=400", NULL, NULL, 0},
    {"batch norm over all rows", "convnet", "data=16", "data=100", "data=400", NULL, NULL, 0},
    {"data and model", "mlp", "data=4,model=4", "data=25,model=4", "data=100,model=4", ".*kernel", "-, model",
     0},
    {"embedding by rows", "words", "data=8,model=2", "data=50,model=2", "data=200,model=2", ".*embeddings",
     "model, -", 0},
    {"ZeRO 2", "mlp", "data=16", "data=100", "data=400", NULL, NULL, 2},
    {"ZeRO 3", "convnet", "data=16", "data=100", "data=400", NULL, NULL, 3},
    {"halos", "convnet", "data=8,space=2", "data=50,space=2", "data=200,space=2", "x/output",
     "data, space, -, -", 0},
    {"another axis", "attention", "data=8,model=2", "data=50,model=2", "data=200,model=2", ".*kernel",
     "model, -", 0},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* What one step counts. */
typedef struct work {
    double sources, bound, owners, copy_maps;
} work;

static work work_of(iso_context *ctx, const net_kind *what, const kind *k, const char *mesh)
{
    trial t;
    iso_optimizer sgd = iso_sgd(0.1);
    trial_begin(&t, ctx, what, ISO_F64, 24);
    trial_mesh(&t, mesh, NULL);
    if (k->key)
        trial_layout(&t, k->key, k->layout);
    t.zero = k->zero;
    trial_make(&t, "data", &sgd);
    trial_step(&t, 0);
    const iso_fabric *fabric = t.train->runtime->fabric;
    work counted = {.sources = (double)iso_fabric_sources(fabric),
                    .bound = (double)iso_fabric_bound(fabric),
                    .owners = (double)t.train->plans->plan->owners_visited,
                    .copy_maps = t.train->runtime->n_copy_maps};
    trial_end(&t);
    return counted;
}

static double sources_on(iso_context *ctx, const kind *k, const char *mesh)
{
    return work_of(ctx, net_kind_find(k->net), k, mesh).sources;
}

static double sum_over_ranks(double mine)
{
    double each[64], sum = 0;
    ck_assert(iso_gather_all(all, &mine, sizeof mine, each) == ISO_OK);
    for (int r = 0; r < iso_ranks(all); r++)
        sum += each[r];
    return sum;
}

START_TEST(ranks_share_the_work)
{
    const kind *k = &kinds[_i];
    double together = sum_over_ranks(sources_on(all, k, k->few)), one = sources_on(alone, k, k->few);
    ck_assert_msg(together == one, "%s: %d ranks add %.0f sources, one process %.0f", k->name, iso_ranks(all),
                  together, one);
}
END_TEST

START_TEST(a_slot_adds_no_more_among_many)
{
    const kind *k = &kinds[_i];
    if (iso_ranks(all) > 1)
        return;
    double some = sources_on(alone, k, k->some) / 100, many = sources_on(alone, k, k->many) / 400;
    ck_assert_msg(many <= 1.5 * some, "%s: a slot of 100 adds %.1f sources, one of 400 %.1f", k->name, some,
                  many);
}
END_TEST

/* Of one process, whose slots are in domains of 20. */
static work work_in_domains(const net_kind *what, const kind *k, const char *mesh)
{
    setenv("ISOGRID_SLOTS_PER_DOMAIN", "20", 1);
    work counted = work_of(alone, what, k, mesh);
    unsetenv("ISOGRID_SLOTS_PER_DOMAIN");
    return counted;
}

START_TEST(a_slot_finds_new_weights_as_fast_among_many)
{
    const kind *k = &kinds[_i];
    const net_kind *what = net_kind_find(k->net);
    if (iso_ranks(all) > 1)
        return;
    double some = work_in_domains(what, k, k->some).owners / 100,
           many = work_in_domains(what, k, k->many).owners / 400;
    ck_assert_msg(some > 0, "%s: no slot has looked for new weights", k->name);
    ck_assert_msg(many <= 1.5 * some,
                  "%s: a slot of 100 looks at %.1f others for new weights, one of 400 at %.1f", k->name, some,
                  many);
}
END_TEST

static int depth; /* layers of `tower` */

static void tower(net *n)
{
    iso_tensor *x = n->input[n->inputs++] = iso_input(n->graph, "x", ISO_F32, ISO_SHAPE(7));
    for (int i = 0; i < depth; i++)
        x = iso_dense(x, 8, .activation = ISO_RELU);
    n->loss = iso_mean(iso_square(x));
}

static work work_of_layers(const kind *k, const char *mesh, int layers)
{
    depth = layers;
    return work_in_domains(&(net_kind){"tower", tower}, k, mesh);
}

START_TEST(a_layer_adds_no_more_among_many)
{
    static const kind each[] = {
        {"data parallel", .few = "data=40"},
        {"data and model", .few = "data=10,model=4", .key = ".*kernel", .layout = "-, model"},
        {"ZeRO 2", .few = "data=40", .zero = 2},
        {"ZeRO 3", .few = "data=40", .zero = 3}};
    if (iso_ranks(all) > 1)
        return;
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        work few_layers = work_of_layers(&each[i], each[i].few, 5),
             many_layers = work_of_layers(&each[i], each[i].few, 40);
        double some = few_layers.bound / 5, many = many_layers.bound / 40;
        ck_assert_msg(
            many_layers.copy_maps == few_layers.copy_maps,
            "%s: the slots' copies of variables are found %.0f times with 5 layers, %.0f times with 40",
            each[i].name, few_layers.copy_maps, many_layers.copy_maps);
        ck_assert_msg(some > 0, "%s: no pull was bound", each[i].name);
        ck_assert_msg(many <= 1.5 * some,
                      "%s: a layer of 5 looks at %.1f pulls to bind them, one of 40 at %.1f", each[i].name,
                      some, many);
    }
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &all);
    alone = all; /* without mpirun there is no MPI */
    if (status == ISO_OK && iso_ranks(all) > 1)
        status = iso_init_on(MPI_COMM_SELF, NULL, NULL, &alone);
    Suite *suite = suite_create("set-up work");
    TCase *tests = tcase_create("set-up work");
    tcase_set_timeout(tests, 0);
    tcase_add_loop_test(tests, ranks_share_the_work, 0, KINDS);
    tcase_add_loop_test(tests, a_slot_adds_no_more_among_many, 0, KINDS);
    tcase_add_loop_test(tests, a_slot_finds_new_weights_as_fast_among_many, 0, KINDS);
    tcase_add_test(tests, a_layer_adds_no_more_among_many);
    suite_add_tcase(suite, tests);
    if (status == ISO_OK && run_suite(suite))
        status = iso_error(ISO_FAILED, "a test failed");
    if (alone != all)
        status = iso_finish(alone, status) ? ISO_FAILED : status;
    return iso_finish(all, status);
}
