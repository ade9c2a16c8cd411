/* Layers and blocks that are used again with the variables they have, and layers that are frozen. Ranks: 1 */
#include <check.h>
#include <string.h>

#include "runtime/isogrid.h"
#include "runtime/isogrid_extend.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static iso_graph *graph;
static iso_tensor *left, *right;

static void begin(void)
{
    graph = iso_graph_create(ctx);
    left = iso_input(graph, "left", ISO_F32, ISO_SHAPE(3));
    right = iso_input(graph, "right", ISO_F32, ISO_SHAPE(3));
}

static void end(void)
{
    iso_graph_destroy(graph);
}

static iso_tensor *tower(iso_tensor *x)
{
    iso_name_scope_begin(graph, "tower");
    x = iso_dense(x, 4);
    x = iso_dense(x, 4, .kernel_l2 = 0.5, .name = "second");
    x = iso_dense(x, 5);
    return iso_name_scope_end(graph, x);
}

START_TEST(a_block_again)
{
    begin();
    iso_tensor *a = tower(left), *losses = iso_graph_losses(graph);
    int variables = iso_graph_variable_count(graph);
    iso_share_begin(graph);
    iso_tensor *b = tower(right);
    iso_share_end(graph);
    ck_assert_int_eq(iso_graph_error(graph), ISO_OK);
    ck_assert_ptr_ne(a, b);
    ck_assert_int_eq(variables, 6);
    ck_assert_int_eq(iso_graph_variable_count(graph), 6);
    ck_assert_ptr_eq(iso_graph_losses(graph), losses); /* regularisation counts once */
    ck_assert_int_eq(iso_graph_layer_count(graph), 6);
    for (int i = 0; i < 6; i++) {
        const iso_layer_record *record = iso_graph_layer(graph, i);
        ck_assert_int_eq(record->again, i < 3 ? -1 : i - 3);
        ck_assert_str_eq(record->name, iso_graph_layer(graph, i % 3)->name);
    }
    ck_assert_str_eq(iso_tensor_name(b), "tower/dense_1/output");
    ck_assert_int_eq(iso_graph_block(graph, 0)->again, -1);
    ck_assert_int_eq(iso_graph_block(graph, 1)->again, 0);
    iso_tensor *c = iso_dense(left, 2); /* new names go on as if nothing had been shared */
    ck_assert_str_eq(iso_tensor_name(c), "dense/output");
    end();
}
END_TEST

/* The same function on both sides gives the same rows the same result. */
START_TEST(the_same_numbers)
{
    static const double rows[] = {1, -2, 3, 0.5, 0, -1};
    double a[10], b[10], *outputs[] = {a, b};
    memory_batch batch;
    iso_function *function;
    begin();
    iso_tensor *x = tower(left);
    iso_share_begin(graph);
    iso_tensor *y = tower(right);
    iso_share_end(graph);
    check_ok(iso_function_create(graph, &function, .inputs = {left, right}, .outputs = {x, y}));
    memory_batch_begin(&batch, 2);
    memory_batch_add(&batch, ISO_SHAPE(3), rows);
    memory_batch_add(&batch, ISO_SHAPE(3), rows);
    check_ok(iso_function_evaluate(function, &batch.batch, outputs));
    check_near("shared", a, b, 10, 0);
    ck_assert_double_ne(a[0], a[1]);
    iso_function_destroy(function);
    end();
}
END_TEST

static void refused(const char *part)
{
    ck_assert_int_eq(iso_graph_error(graph), ISO_INVALID);
    ck_assert_msg(strstr(iso_error_message(), part) != NULL, "'%s' lacks '%s'", iso_error_message(), part);
    end();
}

START_TEST(what_cannot_be_shared)
{
    begin();
    iso_dense(left, 4, .name = "d");
    iso_share_begin(graph);
    iso_dense(right, 5, .name = "d");
    refused("'d/kernel' is float32 [3, 4], here it would be float32 [3, 5]");
    begin();
    iso_dense(left, 4, .name = "d");
    iso_share_begin(graph);
    iso_dense(right, 4, .name = "e");
    refused("'e' is to be used again, but there is no layer or block of this name");
    begin();
    iso_dense(left, 4, .name = "d");
    iso_share_begin(graph);
    iso_dense(right, 4, .name = "d");
    iso_dense(right, 4, .name = "d");
    refused("two layers are named 'd'");
    begin();
    iso_dense(left, 4, .name = "d");
    iso_share_begin(graph);
    iso_flatten(right, .name = "d");
    refused("it is shared, but it was a Dense");
    begin();
    iso_share_end(graph);
    refused("iso_share_end without iso_share_begin");
    begin();
    iso_freeze_end(graph);
    refused("iso_freeze_end without iso_freeze_begin");
}
END_TEST

/* A step of a function that trains: y1 and y2 into out. */
static void train(iso_tensor *y1, iso_tensor *y2, const double *a, const double *b, double *out1,
                  double *out2)
{
    memory_batch batch;
    iso_function *function;
    double *outputs[] = {out1, out2};
    iso_variable *steps = iso_variable_create(graph, "steps", ISO_F32, ISO_SCALAR,
                                              (iso_initializer){.kind = ISO_INIT_ZEROS}, false);
    check_ok(iso_function_create(graph, &function, .inputs = {left, right}, .outputs = {y1, y2},
                                 .updates = {iso_assign(steps, iso_affine(iso_variable_value(steps), 1, 1))},
                                 .training = true));
    memory_batch_begin(&batch, 2);
    memory_batch_add(&batch, ISO_SHAPE(3), a);
    memory_batch_add(&batch, ISO_SHAPE(3), b);
    check_ok(iso_function_evaluate(function, &batch.batch, outputs));
    iso_function_destroy(function);
}

/* Both calls move the statistics, one after the other. */
START_TEST(shared_batch_normalization)
{
    static const double a[] = {1, 2, 3, 3, 2, 5}, b[] = {0, 10, -4, 2, 10, -8};
    static const double mean_a[] = {2, 2, 4}, mean_b[] = {1, 10, -6};
    double out1[6], out2[6], mean[3], want[3];
    begin();
    iso_tensor *x = iso_batch_norm(left, .momentum = 0.9, .name = "bn");
    iso_share_begin(graph);
    iso_tensor *y = iso_batch_norm(right, .momentum = 0.9, .name = "bn");
    iso_share_end(graph);
    train(x, y, a, b, out1, out2);
    check_ok(iso_variable_read(iso_graph_find_variable(graph, "bn/moving_mean"), mean, 3));
    for (int i = 0; i < 3; i++)
        want[i] = 0.9 * (0.1 * mean_a[i]) + 0.1 * mean_b[i];
    check_near("moving mean", mean, want, 3, 1e-6);
    end();
}
END_TEST

/* Each call of a shared dropout draws its own numbers. */
START_TEST(shared_dropout)
{
    static const double ones[] = {1, 1, 1, 1, 1, 1};
    double out1[48], out2[48];
    begin();
    iso_tensor *wide =
        iso_broadcast_to(iso_reshape_to(left, ISO_SHAPE(ISO_BATCH, 3, 1)), ISO_SHAPE(ISO_BATCH, 3, 8));
    iso_tensor *x = iso_dropout(wide, 0.5, .name = "drop");
    iso_share_begin(graph);
    iso_tensor *y = iso_dropout(wide, 0.5, .name = "drop");
    iso_share_end(graph);
    train(x, y, ones, ones, out1, out2);
    ck_assert_mem_ne(out1, out2, sizeof out1);
    end();
}
END_TEST

START_TEST(frozen)
{
    static const double a[] = {1, 2, 3, 3, 2, 5};
    double out1[6], out2[6], mean[3];
    begin();
    iso_freeze_begin(graph);
    iso_tensor *x = iso_batch_norm(left, .epsilon = 1e-12, .name = "bn");
    iso_dense(left, 2, .kernel_l2 = 0.5, .name = "fixed");
    iso_freeze_end(graph);
    iso_tensor *y = iso_dense(right, 3);
    ck_assert(!iso_variable_trainable(iso_graph_find_variable(graph, "bn/gamma")));
    ck_assert(iso_variable_trainable(iso_graph_find_variable(graph, "dense/kernel")));
    ck_assert_ptr_null(iso_graph_losses(graph));
    train(x, y, a, a, out1, out2);
    check_near("as in inference", out1, a, 6, 1e-6);
    check_ok(iso_variable_read(iso_graph_find_variable(graph, "bn/moving_mean"), mean, 3));
    check_near("moving mean", mean, (const double[]){0, 0, 0}, 3, 0);
    end();
}
END_TEST

int main(void)
{
    iso_status status = iso_init(NULL, NULL, &ctx);
    if (status != ISO_OK)
        return iso_finish(ctx, status);
    int failed = RUN_TESTS("shared and frozen layers", 0, a_block_again, the_same_numbers,
                           what_cannot_be_shared, shared_batch_normalization, shared_dropout, frozen);
    return iso_finish(ctx, ISO_OK) || failed;
}
