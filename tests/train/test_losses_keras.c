/* Every loss against Keras: values, reduction, sample weights and gradients, in float64 and float32, for all
 * cases of tests/keras/losses.h5; and its gradient against finite differences. Ranks: 1 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/session/session.h"
#include "runtime/train/losses_impl.h"
#include "tests/support/once.h"
#include "tests/support/oracle.h"
#include "tests/support/probe.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static oracle *file;

static iso_shape row_of(iso_shape shape)
{
    iso_shape row = {.rank = shape.rank - 1};
    memcpy(row.dim, shape.dim + 1, (size_t)row.rank * sizeof row.dim[0]);
    return row;
}

static iso_tensor *add_input(iso_graph *graph, memory_batch *batch, const char *name, const char *dataset)
{
    iso_shape shape;
    double *values = oracle_data(file, name, dataset, &shape);
    if (!values)
        return NULL;
    if (batch->batch.n_components == 0)
        memory_batch_begin(batch, shape.dim[0]);
    memory_batch_add(batch, row_of(shape), values);
    return iso_input(graph, dataset, oracle_is_integer(file, name, dataset) ? ISO_I32 : ISO_F32,
                     row_of(shape));
}

/* Of logits where it is the loss of logits. */
static iso_loss loss_of_case(const char *name)
{
    iso_loss loss;
    check_ok(iso_loss_find(oracle_text(file, name, "kind"), &loss));
    return oracle_number(file, name, "from_logits", 0) != 0 ? iso_loss_with_logits(loss) : loss;
}

/* The settings of a case are attributes under Keras's names; a set is its bits. */
static iso_output_options settings_of(const char *name)
{
    iso_output_options options = {0};
    const iso_setting *s = iso_loss_type_of(loss_of_case(name))->row.setting;
    for (; s && s->name; s++) {
        double value = oracle_number(file, name, iso_setting_keras(s), 0);
        bool zero = value == 0 && (s->kind == ISO_SETTING_REAL || s->kind == ISO_SETTING_INDEX);
        if (zero)
            value = oracle_number(file, name, iso_setting_keras(s), 1) == 0 ? ISO_ZERO : 0;
        iso_setting_set(s, &options, value);
    }
    return options;
}

static iso_tensor *loss_of(const char *name, iso_tensor *t, iso_tensor *p)
{
    const iso_output_options settings = settings_of(name);
    return iso_loss_values(loss_of_case(name), t, p, &settings);
}

static iso_tensor *mean_of(const char *name, iso_tensor *t, iso_tensor *p, iso_tensor *w, iso_tensor *values)
{
    const iso_output_options settings = settings_of(name);
    iso_tensor *mask = iso_loss_mask(loss_of_case(name), t, p, &settings);
    return mask ? iso_reduce_masked_loss(values, w, mask) : iso_reduce_loss(values, w);
}

static void compare(const char *name, const char *dataset, const double *values, double tolerance)
{
    char what[200];
    iso_shape shape;
    double *expected = oracle_data(file, name, dataset, &shape);
    snprintf(what, sizeof what, "%s, %s", name, dataset);
    check_near(what, values, expected, oracle_elements(&shape), tolerance);
}

static void check_case(const char *name, iso_dtype precision, double tolerance)
{
    iso_graph *graph = iso_graph_create(ctx);
    iso_function *function = NULL;
    memory_batch batch = {.batch = {.rows = 0}};
    iso_graph_set_precision(graph, precision);
    iso_tensor *t = add_input(graph, &batch, name, "y_true"), *p = add_input(graph, &batch, name, "y_pred");
    iso_tensor *w = add_input(graph, &batch, name, "sample_weight"), *gradient = NULL;
    iso_tensor *values = loss_of(name, t, p), *loss = mean_of(name, t, p, w, values);
    iso_gradients(loss, &p, 1, &gradient);
    check_ok(iso_graph_error(graph));
    ck_assert_msg(gradient, "%s: no gradient", name);
    check_ok(iso_function_create(graph, &function, .inputs = {t, p, w}, .outputs = {loss, gradient, values}));
    int64_t rows = batch.batch.rows;
    double one, *of_p = calloc((size_t)count_elements(p, rows), sizeof(double));
    double *of_rows = calloc((size_t)count_elements(values, rows), sizeof(double));
    check_ok(iso_function_evaluate(function, &batch.batch, (double *[]){&one, of_p, of_rows}));
    compare(name, "loss", &one, tolerance);
    compare(name, "dy_pred", of_p, tolerance);
    compare(name, "values", of_rows, tolerance);
    free(of_p);
    free(of_rows);
    iso_function_destroy(function);
    iso_graph_destroy(graph);
}

START_TEST(in_float64)
{
    for (int i = 0; i < oracle_cases(file); i++)
        check_case(oracle_case(file, i), ISO_F64, 1e-11);
}
END_TEST

/* At the edges of what is clipped float32 has no more digits: 1 - 1e-7 is 1 - 1.2e-7, of which the logarithm
 * is taken. */
START_TEST(in_float32)
{
    for (int i = 0; i < oracle_cases(file); i++) {
        const char *name = oracle_case(file, i);
        bool edge = strstr(name, "clipped") != NULL;
        if (!edge)
            check_case(name, ISO_F32, 1e-5);
    }
}
END_TEST

START_TEST(wrong_shapes_are_named)
{
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *t = iso_input(graph, "t", ISO_F32, ISO_SHAPE(3)),
               *p = iso_input(graph, "p", ISO_F32, ISO_SHAPE(4));
    iso_mean_squared_error(t, p);
    ck_assert_int_eq(iso_graph_error(graph), ISO_INVALID);
    ck_assert_ptr_nonnull(strstr(iso_error_message(), "[batch, 3]"));
    ck_assert_ptr_nonnull(strstr(iso_error_message(), "[batch, 4]"));
    iso_graph_destroy(graph);
}
END_TEST

START_TEST(every_loss_has_a_case)
{
    for (int loss = 1; loss < ISO_LOSS_COUNT; loss++) {
        int found = 0;
        for (int i = 0; i < oracle_cases(file); i++)
            found += loss_of_case(oracle_case(file, i)) == (iso_loss)loss;
        ck_assert_msg(found > 0, "losses.h5 has no case of %s", iso_loss_name((iso_loss)loss));
    }
}
END_TEST

/* Predictions within (0, 1), which are as good as logits; targets as the loss wants them. */
START_TEST(gradients_are_finite_differences)
{
    enum { ROWS = 5, CLASSES = 4 };
    double labels[ROWS];
    for (int row = 0; row < ROWS; row++)
        labels[row] = row % CLASSES;
    for (int loss = 1; loss < ISO_LOSS_COUNT; loss++) {
        probe p;
        probe_begin(&p, ROWS, ISO_F64);
        iso_tensor *predictions = iso_sigmoid(probe_input(&p, "p", ISO_SHAPE(CLASSES)));
        bool classes = iso_loss_targets_of((iso_loss)loss) == ISO_LOSS_OF_CLASSES;
        iso_tensor *targets = classes ? probe_given(&p, "t", ISO_I32, ISO_SCALAR, labels)
                                      : iso_sigmoid(probe_input(&p, "t", ISO_SHAPE(CLASSES)));
        const iso_output_options settings = {.huber_delta = 0.1};
        probe_check_gradients(&p, iso_loss_values((iso_loss)loss, targets, predictions, &settings));
        probe_end(&p);
    }
}
END_TEST

START_TEST(names_are_found)
{
    iso_loss loss;
    for (int i = 1; i < ISO_LOSS_COUNT; i++) {
        check_ok(iso_loss_find(iso_loss_name((iso_loss)i), &loss));
        ck_assert_int_eq(loss, i);
    }
    check_ok(iso_loss_find("kld", &loss));
    ck_assert_int_eq(loss, ISO_LOSS_KL_DIVERGENCE);
    check_ok(iso_loss_find("sparse_categorical_crossentropy", &loss));
    ck_assert_int_eq(loss, ISO_LOSS_SPARSE_CROSSENTROPY);
    ck_assert_int_eq(iso_loss_find("hubr", &loss), ISO_INVALID);
    ck_assert_ptr_nonnull(strstr(iso_error_message(), "huber"));
}
END_TEST

/* Help reads the list, the parser the rows. */
START_TEST(the_list_has_the_names_of_the_rows)
{
#define LOSS(name, NAME, targets) ck_assert_str_eq(iso_loss_name(ISO_LOSS_##NAME), #name);
#define METRIC(name, NAME) ck_assert_str_eq(iso_metric_name(ISO_METRIC_##NAME), #name);
#include "runtime/train/losses/list.h"
}
END_TEST

int main(void)
{
    iso_status status = iso_init(NULL, NULL, &ctx);
    if (status != ISO_OK)
        return iso_finish(ctx, status);
    file = oracle_open("losses.h5");
    int failed = RUN_TESTS("losses against Keras", 0, every_loss_has_a_case, in_float64, in_float32,
                           gradients_are_finite_differences, wrong_shapes_are_named, names_are_found,
                           the_list_has_the_names_of_the_rows);
    oracle_close(file);
    return iso_finish(ctx, ISO_OK) || failed;
}
