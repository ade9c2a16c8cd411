/* Gradients of kernels that the optimizer makes block by block have the bits of whole gradients that are
 * added between the slots: narrow kernels, wide ones whose slopes are packed, those that are reshaped (attention's),
 * tables of embeddings, those that also make the logits, parts that begin within a row, slots without rows.
 * Ranks: 1, 3   More: 2 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/layers.h"
#include "runtime/exec/function/function.h"
#include "runtime/exec/function/inspect.h"
#include "runtime/graph/optimizer.h"
#include "runtime/session/session.h"
#include "runtime/spmd/spmd.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;

enum { INPUTS = 37, HIDDEN = 400, POSITIONS = 4, HEADS = 4, TOKENS = 331, STEPS = 2 };

/* Tokens occur several times in a batch. */
static void read_tokens(int64_t begin, int64_t count, int32_t *out)
{
    for (int64_t i = 0; i < count * POSITIONS; i++)
        out[i] = (int32_t)((begin * POSITIONS + i) * 7919 % 97 * 10 % TOKENS);
}

static iso_status read_rows(const iso_batch *batch, int component, int64_t begin, int64_t count,
                            iso_dtype dtype, void *out)
{
    (void)batch;
    if (component == 1) {
        ck_assert_int_eq(dtype, ISO_I32);
        read_tokens(begin, count, out);
        return ISO_OK;
    }
    ck_assert_int_eq(dtype, ISO_F32);
    for (int64_t i = 0; i < count * INPUTS; i++)
        ((float *)out)[i] = (float)((begin * INPUTS + i) * 7919 % 1009 - 500) * 0.003f;
    return ISO_OK;
}

static iso_tensor *table(iso_tensor *x, int64_t features, bool reverse)
{
    return iso_reversible_embedding(x, TOKENS, features, .reverse = reverse, .name = "tokens");
}

static iso_tensor *network(iso_tensor *x, iso_tensor *tokens, int64_t columns)
{
    const int64_t features = HIDDEN / POSITIONS;
    iso_tensor *h = iso_dense(x, HIDDEN, .activation = ISO_RELU);
    h = iso_add(iso_reshape_to(h, ISO_SHAPE(ISO_BATCH, POSITIONS, features)), table(tokens, features, false));
    h = iso_add(h, iso_embedding(tokens, TOKENS, features, .name = "other"));
    h = iso_multi_head_attention(h, h, HEADS, features / HEADS, .name = "attention");
    iso_share_begin(iso_tensor_graph(x));
    iso_tensor *logits = table(h, features, true);
    iso_share_end(iso_tensor_graph(x));
    iso_tensor *y = iso_dense(iso_reshape_to(h, ISO_SHAPE(ISO_BATCH, HIDDEN)), columns, .name = "wide");
    return iso_add(iso_mean(iso_square(y)), iso_mean(iso_square(logits)));
}

static int64_t elements_of(const iso_variable *variable)
{
    int64_t count = 0;
    check_ok(iso_shape_count(iso_variable_shape(variable), &count));
    return count;
}

/* All weights, one variable after the other. */
static double *read_weights(const iso_graph *graph, int64_t *count)
{
    *count = 0;
    for (int i = 0; i < iso_graph_variable_count(graph); i++)
        *count += elements_of(iso_graph_variable(graph, i));
    double *weights = malloc((size_t)*count * sizeof *weights), *at = weights;
    ck_assert_ptr_nonnull(weights);
    for (int i = 0; i < iso_graph_variable_count(graph); i++) {
        iso_variable *variable = iso_graph_variable(graph, i);
        check_ok(iso_variable_read(variable, at, elements_of(variable)));
        at += elements_of(variable);
    }
    return weights;
}

/* The number of gradients that the optimizer makes block by block. */
static int count_deferred(iso_function *function, int64_t rows)
{
    iso_plan_report *report;
    int count = 0;
    check_ok(iso_function_report(function, rows, &report));
    for (int i = 0; i < report->n_ops; i++)
        count += report->ops[i].kind == ISO_REPORT_PRODUCT;
    iso_plan_report_destroy(report);
    return count;
}

/* All weights after some steps; not deferred where gradients are clipped at a value that none reaches. */
static double *train(const char *mesh_text, int64_t columns, int64_t rows, bool deferred, int64_t *count)
{
    double loss;
    iso_mesh *mesh;
    iso_distribution *distribution;
    iso_function *function;
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(INPUTS));
    iso_tensor *tokens = iso_input(graph, "tokens", ISO_I32, ISO_SHAPE(POSITIONS));
    iso_tensor *sum = network(x, tokens, columns);
    iso_update *update = iso_minimize(sum, iso_adam(0.01, .clip_value = deferred ? 0 : 1e30));
    check_ok(iso_mesh_create(ctx, mesh_text, &mesh));
    check_ok(iso_data_parallel_create(mesh, &distribution));
    iso_graph_distribute(graph, distribution);
    check_ok(iso_function_create(graph, &function, .inputs = {x, tokens}, .outputs = {sum},
                                 .updates = {update}, .training = true));
    iso_batch batch = {.rows = rows,
                       .n_components = 2,
                       .shape = {ISO_SHAPE(INPUTS), ISO_SHAPE(POSITIONS)},
                       .dtype = {ISO_F32, ISO_I32},
                       .read = read_rows};
    for (int step = 0; step < STEPS; step++)
        check_ok(iso_function_run(function, &batch, &loss));
    int products = count_deferred(function, rows);
    ck_assert_msg(deferred ? products >= 9 * (rows <= 13) : products == 0,
                  "%s, %lld columns, %lld rows: %d gradients are made block by block", mesh_text,
                  (long long)columns, (long long)rows, products);
    double *weights = read_weights(graph, count);
    iso_function_destroy(function);
    iso_graph_destroy(graph);
    iso_distribution_destroy(distribution);
    iso_mesh_destroy(mesh);
    return weights;
}

static void check_case(const char *mesh, int64_t columns, int64_t rows)
{
    int64_t count, others;
    double *want = train(mesh, columns, rows, false, &count),
           *got = train(mesh, columns, rows, true, &others);
    ck_assert_int_eq(count, others);
    for (int64_t i = 0; i < count; i++)
        ck_assert_msg(got[i] == want[i], "%s, %lld columns, %lld rows: weight %lld is %.17g, not %.17g", mesh,
                      (long long)columns, (long long)rows, (long long)i, got[i], want[i]);
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
