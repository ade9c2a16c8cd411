/* The memory that a plan states for a host is what a run takes there: all that the host's processes hold,
 * accounted, from before the model is built until its first step could begin. Within 2%: for the built-in
 * models, of a few megabytes, in one process; for a large one on any number of processes and hosts.
 * Ranks: 1, 2, 3 */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "models/models.h"
#include "runtime/base/memory.h"
#include "runtime/exec/inspect.h"
#include "runtime/session/session.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { MOST_RANKS = 16 };

static iso_context *ctx;

/* What the processes of the fullest host hold more than before. */
static double taken_since(double before)
{
    double mine = (double)iso_memory_held() - before, all[MOST_RANKS], host[MOST_RANKS] = {0}, most = 0;
    check_ok(iso_gather_all(ctx, &mine, sizeof mine, all));
    for (int r = 0; r < iso_ranks(ctx); r++) {
        double *sum = &host[iso_host_of_rank(ctx, r)];
        *sum += all[r];
        most = *sum > most ? *sum : most;
    }
    return most;
}

static const iso_builtin_model *builtin(const char *name)
{
    const iso_builtin_model *model;
    check_ok(iso_builtin_model_find(name, &model));
    return model;
}

/* 12 million parameters. */
static iso_tensor *large(iso_tensor *x, int outputs, const void *settings)
{
    (void)settings;
    x = iso_flatten(x);
    x = iso_dense(x, 3000, .activation = ISO_RELU);
    x = iso_dense(x, 3001, .activation = ISO_RELU);
    return iso_dense(x, outputs);
}

typedef struct layout {
    const char *key, *text;
} layout;

typedef struct place {
    iso_mesh *mesh;
    iso_layout_map *map;
    iso_distribution *distribution;
} place;

static place make_place(const char *mesh, const layout *layouts)
{
    place p;
    check_ok(iso_mesh_create(ctx, mesh, &p.mesh));
    check_ok(iso_layout_map_create(p.mesh, &p.map));
    for (const layout *l = layouts; l && l->key; l++)
        check_ok(iso_layout_map_set(p.map, l->key, l->text));
    check_ok(layouts ? iso_model_parallel_create(p.map, &p.distribution)
                     : iso_data_parallel_create(p.mesh, &p.distribution));
    return p;
}

static void compare(const iso_builtin_model *kind, const char *mesh, const layout *layouts, int64_t rows)
{
    iso_plan_report *report;
    place p = make_place(mesh, layouts);
    double before = (double)iso_memory_held();
    iso_model *model = iso_builtin_model_create(ctx, kind, ISO_SHAPE(28, 28, 1), 10, ISO_F32, NULL);
    check_ok(iso_compile(model, .optimizer = kind->optimizer(), .loss = kind->loss,
                         .metrics = {kind->metrics[0]}, .distribution = p.distribution));
    check_ok(iso_function_prepare(iso_model_training_function(model), rows));
    double taken = taken_since(before);
    check_ok(iso_function_report(iso_model_training_function(model), rows, &report));
    double stated = (double)report->host.total;
    ck_assert_msg(fabs(taken - stated) <= 0.02 * taken,
                  "%s on %s, %d hosts: the plan states %.0f bytes, %.0f were taken: %+.2f%%", kind->name,
                  mesh, report->n_hosts, stated, taken, 100 * (stated / taken - 1));
    iso_plan_report_destroy(report);
    iso_model_destroy(model);
    iso_distribution_destroy(p.distribution);
    iso_layout_map_destroy(p.map);
    iso_mesh_destroy(p.mesh);
}

START_TEST(built_in_models)
{
    if (iso_ranks(ctx) > 1)
        return;
    compare(builtin("mlp"), "data=1", NULL, 32);
    compare(builtin("mlp"), "data=3", NULL, 32);
    compare(builtin("mlp"), "data=6", NULL, 500);
    compare(builtin("dtensor"), "data=2", NULL, 250);
    compare(builtin("convnet"), "data=1", NULL, 64);
    compare(builtin("convnet"), "data=2", NULL, 64);
    compare(builtin("convnet"), "data=5", NULL, 61);
}
END_TEST

START_TEST(data_parallel)
{
    iso_builtin_model model = *builtin("mlp");
    model.name = "large";
    model.build = large;
    compare(&model, "data=3", NULL, 64);
    compare(&model, "data=6", NULL, 61);
}
END_TEST

START_TEST(model_parallel)
{
    static const layout pair[] = {
        {"dense/kernel", "-, model"}, {"dense/bias", "model"}, {"dense_1/kernel", "model, -"}, {NULL, NULL}};
    static const layout sharded[] = {
        {"dense/kernel", "data, model"}, {"dense_1/kernel", "-, data"}, {NULL, NULL}};
    iso_builtin_model model = *builtin("mlp");
    model.name = "large";
    model.build = large;
    compare(&model, "data=3,model=2", pair, 64);
    compare(&model, "data=1,model=6", pair, 64);
    compare(&model, "data=3,model=2", sharded, 64);
}
END_TEST

/* Halos lie beside what they are taken from. Slots in the middle take most, and so do their hosts. */
START_TEST(spatial)
{
    static const layout rows[] = {{"image/output", "data, h, -, -"}, {NULL, NULL}},
                        both[] = {{"image/output", "data, h, w, -"}, {NULL, NULL}};
    compare(builtin("convnet"), "data=1,h=3", rows, 200);
    compare(builtin("convnet"), "data=2,h=3", rows, 300);
    compare(builtin("convnet"), "data=1,h=2,w=3", both, 300);
}
END_TEST

int main(int argc, char **argv)
{
    setenv("ISOGRID_RANKS_PER_HOST", "1", 0);
    setenv("ISOGRID_THREADS", "6", 0); /* a thread a slot, as plans assume */
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK && RUN_TESTS("memory", 0, built_in_models, data_parallel, model_parallel, spatial))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
