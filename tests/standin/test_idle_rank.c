/* A rank without slots, which only iso_mesh_create_on makes, has no context on a GPU (the stand-in for CUDA): neither
 * where it plans products and convolutions, nor where the others compute them. Ranks: 3 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/models.h"
#include "runtime/exec/function/inspect.h"
#include "runtime/isogrid.h"
#include "tests/support/cuda_library.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { ROWS = 16 };

static iso_context *ctx;
static char contexts[64]; /* the file to which the contexts of this rank are added */

static int count_contexts(void)
{
    char line[200];
    int count = 0;
    FILE *file = fopen(contexts, "r");
    while (file && fgets(line, sizeof line, file))
        count++;
    if (file)
        fclose(file);
    return count;
}

static void train_on(const int ranks[2])
{
    const iso_builtin_model *kind;
    iso_mesh *mesh;
    iso_distribution *two;
    iso_dataset *data;
    iso_plan_report *report;
    check_ok(iso_builtin_model_find("convnet", &kind));
    iso_model *model = iso_builtin_model_create(ctx, kind, ISO_SHAPE(28, 28, 1), 10, ISO_F32, NULL);
    check_ok(iso_mesh_create_on(ctx, "data=2", ranks, 2, &mesh));
    check_ok(iso_data_parallel_create(mesh, &two));
    check_ok(iso_compile(model, .optimizer = kind->optimizer(), .loss = kind->loss, .distribution = two));
    check_ok(iso_function_report(iso_model_training_function(model), ROWS, &report));
    iso_plan_report_destroy(report);
    check_ok(iso_dataset_random(ctx, 2 * ROWS, &data, .shape = ISO_SHAPE(28, 28, 1), .classes = 10));
    check_ok(iso_dataset_batch(data, ROWS));
    check_ok(iso_fit(model, data, .epochs = 1, .verbose = ISO_ZERO));
    iso_dataset_destroy(data);
    iso_model_destroy(model);
    iso_distribution_destroy(two);
    iso_mesh_destroy(mesh);
}

/* Rank 0, which also plans for the report, until it has a slot. */
START_TEST(has_no_context)
{
    static const int without_rank_0[] = {1, 2}, with_rank_0[] = {0, 2};
    train_on(without_rank_0);
    ck_assert_int_eq(count_contexts() > 0, iso_rank(ctx) > 0);
    train_on(with_rank_0);
    ck_assert_int_gt(count_contexts(), 0);
}
END_TEST

int main(int argc, char **argv)
{
    if (!test_cuda_library()) {
        report_skipped("the backend cuda", "this build has no CUDA");
        return 77;
    }
    snprintf(contexts, sizeof contexts, "/tmp/isogrid_contexts_%d", (int)getpid()); /* of each rank */
    setenv("STANDIN_CONTEXTS", contexts, 1);
    setenv("ISOGRID_BACKEND", "cuda", 1);
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK && RUN_TESTS("idle rank", 60, has_no_context))
        status = iso_error(ISO_FAILED, "a test failed");
    unlink(contexts);
    return iso_finish(ctx, status);
}
