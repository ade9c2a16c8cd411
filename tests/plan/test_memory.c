/* The memory that a plan states is what a run takes: all that its processes hold, accounted, from before the
 * model is compiled to after its first steps.
 * Ranks: 1, 2, 3 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "models/models.h"
#include "runtime/base/memory.h"
#include "runtime/session/session.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;

/* Bytes that all ranks hold. */
static double held(void)
{
    double mine = (double)iso_memory_held(), all[64], sum = 0;
    check_ok(iso_gather_all(ctx, &mine, sizeof mine, all));
    for (int r = 0; r < iso_ranks(ctx); r++)
        sum += all[r];
    return sum;
}

typedef struct layouts {
    const char *key, *layout;
} layouts;

static void compare(const char *name, const char *mesh_text, const layouts *list, int64_t rows)
{
    const iso_builtin_model *builtin;
    iso_mesh *mesh;
    iso_layout_map *map;
    iso_distribution *distribution;
    iso_plan_report *report;
    check_ok(iso_builtin_model_find(name, &builtin));
    check_ok(iso_mesh_create(ctx, mesh_text, &mesh));
    check_ok(iso_layout_map_create(mesh, &map));
    for (; list && list->key; list++)
        check_ok(iso_layout_map_set(map, list->key, list->layout));
    if (list)
        check_ok(iso_model_parallel_create(map, &distribution));
    else
        check_ok(iso_data_parallel_create(mesh, &distribution));
    iso_model *model = iso_builtin_model_create(ctx, builtin, ISO_SHAPE(28, 28, 1), ISO_F32);
    double before = held();
    check_ok(iso_compile(model, .optimizer = builtin->optimizer(), .loss = builtin->loss,
                         .metrics = {builtin->metrics[0]}, .distribution = distribution));
    check_ok(iso_function_prepare(iso_model_training_function(model), rows));
    double taken = held() - before;
    check_ok(iso_function_report(iso_model_training_function(model), rows, &report));
    double stated = (double)report->host.total * report->hosts;
    fprintf(stderr, "%s on %s, %d hosts: %.0f stated, %.0f taken: %+.2f%%\n", name, mesh_text, report->hosts, stated, taken, 100 * (taken / stated - 1));
    iso_plan_report_destroy(report);
    iso_model_destroy(model);
    iso_distribution_destroy(distribution);
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
}

START_TEST(data_parallel)
{
    compare("mlp", "data=3", NULL, 512);
    compare("mlp", "data=6", NULL, 512);
    compare("convnet", "data=3", NULL, 64);
    compare("convnet", "data=6", NULL, 61);
}
END_TEST

START_TEST(model_parallel)
{
    static const layouts pair[] = {{"dense/kernel", "-, model"}, {"dense/bias", "model"}, {"dense_1/kernel", "model, -"}, {NULL, NULL}};
    compare("mlp", "data=3,model=2", pair, 512);
    compare("mlp", "data=1,model=6", pair, 512);
}
END_TEST

int main(int argc, char **argv)
{
    setenv("ISOGRID_RANKS_PER_HOST", "1", 0);
    setenv("ISOGRID_THREADS", "6", 0);
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK && RUN_TESTS("memory", 0, data_parallel, model_parallel))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
