/* Gradients of kernels that the optimizer makes block by block have the bits of whole gradients that are
 * added between the slots: narrow kernels, wide ones whose slopes are packed, parts that begin within a row,
 * slots without rows. Ranks: 1, 2, 3 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/layers.h"
#include "runtime/exec/function.h"
#include "runtime/graph/optimizer.h"
#include "runtime/session/session.h"
#include "runtime/spmd/spmd.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;

enum { INPUTS = 37, HIDDEN = 400, STEPS = 2 };

static iso_status read_rows(const iso_batch *batch, int component, int64_t begin, int64_t count,
                            iso_dtype dtype, void *out)
{
    (void)batch, (void)component;
    ck_assert_int_eq(dtype, ISO_F32);
    for (int64_t i = 0; i < count * INPUTS; i++)
        ((float *)out)[i] = (float)((begin * INPUTS + i) * 7919 % 1009 - 500) * 0.003f;
    return ISO_OK;
}

/* The kernel of the wide layer after some steps; not deferred where its gradient is clipped at a value that
 * none reaches. */
static double *train(const char *mesh_text, int64_t columns, int64_t rows, bool deferred, int64_t *count)
{
    double loss;
    iso_mesh *mesh;
    iso_distribution *distribution;
    iso_function *function;
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(INPUTS));
    iso_tensor *y = iso_dense(iso_dense(x, HIDDEN, .activation = ISO_RELU), columns, .name = "wide");
    iso_tensor *sum = iso_mean(iso_square(y));
    iso_update *update = iso_minimize(sum, iso_adam(0.01, .clip_value = deferred ? 0 : 1e30));
    check_ok(iso_mesh_create(ctx, mesh_text, &mesh));
    check_ok(iso_data_parallel_create(mesh, &distribution));
    iso_graph_distribute(graph, distribution);
    check_ok(iso_function_create(graph, &function, .inputs = {x}, .outputs = {sum}, .updates = {update},
                                 .training = true));
    iso_batch batch = {
        .rows = rows, .n_components = 1, .shape = {ISO_SHAPE(INPUTS)}, .dtype = {ISO_F32}, .read = read_rows};
    for (int step = 0; step < STEPS; step++)
        check_ok(iso_function_run(function, &batch, &loss));
    *count = HIDDEN * columns;
    double *weights = malloc((size_t)*count * sizeof *weights);
    ck_assert_ptr_nonnull(weights);
    check_ok(iso_variable_read(iso_graph_find_variable(graph, "wide/kernel"), weights, *count));
    iso_function_destroy(function);
    iso_graph_destroy(graph);
    iso_distribution_destroy(distribution);
    iso_mesh_destroy(mesh);
    return weights;
}

static void check_case(const char *mesh, int64_t columns, int64_t rows)
{
    int64_t count;
    double *want = train(mesh, columns, rows, false, &count), *got = train(mesh, columns, rows, true, &count);
    for (int64_t i = 0; i < count; i++)
        ck_assert_msg(got[i] == want[i], "%s, %lld columns, %lld rows: element %lld is %.17g, not %.17g",
                      mesh, (long long)columns, (long long)rows, (long long)i, got[i], want[i]);
    free(want);
    free(got);
}

START_TEST(blocks_have_the_bits_of_the_whole)
{
    static const char *const meshes[] = {"data=3", "data=4", "data=7"};
    static const int64_t columns[] = {19, 300, 700, 1025}, rows[] = {1, 13, 100, 300};
    for (size_t m = 0; m < sizeof meshes / sizeof *meshes; m++)
        for (size_t c = 0; c < sizeof columns / sizeof *columns; c++)
            if (takes_case(iso_ranks(ctx), (int)(m + c)))
                check_case(meshes[m], columns[c], rows[(m + c) % 4]);
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK && RUN_TESTS("deferred", 0, blocks_have_the_bits_of_the_whole))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
