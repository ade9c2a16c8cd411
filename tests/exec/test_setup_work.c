/* The work of making exchanges, counted as the sources that ranks add. On one host all ranks together add what
 * one process adds for all slots, and a slot's share does not grow with the slots once they are many.
 * Ranks: 1, 2, 3, 8 */
#include <check.h>
#include <mpi.h>

#include "models/layers.h"
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

static double sources_on(iso_context *ctx, const kind *k, const char *mesh)
{
    trial t;
    iso_optimizer sgd = iso_sgd(0.1);
    trial_begin(&t, ctx, net_kind_find(k->net), ISO_F64, 24);
    trial_mesh(&t, mesh, NULL);
    if (k->key)
        trial_layout(&t, k->key, k->layout);
    t.zero = k->zero;
    trial_make(&t, "data", &sgd);
    trial_step(&t, 0);
    double count = (double)iso_fabric_sources(t.train->runtime->fabric);
    trial_end(&t);
    return count;
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
    suite_add_tcase(suite, tests);
    if (status == ISO_OK && run_suite(suite))
        status = iso_error(ISO_FAILED, "a test failed");
    if (alone != all)
        status = iso_finish(alone, status) ? ISO_FAILED : status;
    return iso_finish(all, status);
}
