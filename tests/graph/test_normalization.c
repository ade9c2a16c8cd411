/* Batch and layer normalisation: values against two-pass loops, gradients against finite differences.
 * Ranks: 1 */
#include <check.h>
#include <math.h>
#include <string.h>

#include "runtime/graph/op.h"
#include "tests/support/probe.h"
#include "tests/support/run_tests.h"

enum { GAMMA = 1, BETA = 2, BOTH = 3 };

/* Every choice of gamma and beta: _i of a loop test. */
static iso_tensor *vector_if(probe *p, int wanted, const char *name, int64_t channels)
{
    return wanted ? probe_variable(p, name, ISO_SHAPE(channels)) : NULL;
}

/* Mean and biased variance of elements begin, begin + step, ... */
static void two_pass(const double *x, int64_t begin, int64_t step, int64_t count, double *mean,
                     double *variance)
{
    *mean = *variance = 0;
    for (int64_t i = 0; i < count; i++)
        *mean += x[begin + i * step] / (double)count;
    for (int64_t i = 0; i < count; i++)
        *variance += pow(x[begin + i * step] - *mean, 2) / (double)count;
}

typedef struct batch_case {
    int64_t rows;
    iso_shape shape; /* of one row */
} batch_case;

static const batch_case batch_cases[] = {{5, {3, {2, 3, 4}}}, {7, {1, {3}}}, {3, {2, {4, 1}}}};
enum { BATCH_CASES = sizeof batch_cases / sizeof *batch_cases };

static iso_tensor *batch_norm(probe *p, const batch_case *k, int vectors, double epsilon)
{
    iso_tensor *x = probe_input(p, "x", k->shape), *mean, *variance;
    int64_t channels = k->shape.dim[k->shape.rank - 1];
    iso_batch_moments(x, &mean, &variance);
    return iso_batch_norm_op(x, mean, variance, vector_if(p, vectors & GAMMA, "gamma", channels),
                             vector_if(p, vectors & BETA, "beta", channels), epsilon);
}

static double fed(const probe *p, const char *name, int64_t c, double otherwise)
{
    for (int i = 0; i < p->feeds; i++)
        if (strcmp(iso_tensor_name(p->tensor[i]), name) == 0)
            return p->values[i][c];
    return otherwise;
}

static void check_batch_norm(const batch_case *k, int vectors, iso_dtype precision, double tolerance)
{
    probe p;
    probe_begin(&p, k->rows, precision);
    iso_tensor *y = batch_norm(&p, k, vectors, 1e-3);
    double *computed = probe_evaluate(&p, y), *x = p.values[0];
    int64_t channels = k->shape.dim[k->shape.rank - 1], count = probe_count(&p, y);
    for (int64_t i = 0; i < count; i++) {
        int64_t c = i % channels;
        double mean, variance;
        two_pass(x, c, channels, count / channels, &mean, &variance);
        double expected =
            (x[i] - mean) / sqrt(variance + 1e-3) * fed(&p, "gamma", c, 1) + fed(&p, "beta", c, 0);
        check_close(&computed[i], &expected, 1, tolerance);
    }
    probe_end(&p);
}

START_TEST(batch_norm_values)
{
    for (int vectors = 0; vectors <= BOTH; vectors++) {
        check_batch_norm(&batch_cases[_i], vectors, ISO_F64, 1e-12);
        check_batch_norm(&batch_cases[_i], vectors, ISO_F32, 1e-5);
    }
}
END_TEST

START_TEST(batch_norm_gradients)
{
    for (int vectors = 0; vectors <= BOTH; vectors++) {
        probe p;
        probe_begin(&p, batch_cases[_i].rows, ISO_F64);
        probe_check_gradients(&p, batch_norm(&p, &batch_cases[_i], vectors, 1e-1));
        probe_end(&p);
    }
}
END_TEST

static bool uses(const iso_tensor *tensor, const char *type)
{
    const iso_op *op = tensor->producer;
    if (strcmp(op->type->name, type) == 0)
        return true;
    for (int i = 0; i < op->n_inputs; i++)
        if (uses(op->inputs[i], type))
            return true;
    return false;
}

/* With the batch's own statistics the gradient is one op over x, and the vectors' gradients are sums that
 * stay partial. */
START_TEST(batch_norm_gradient_is_fused)
{
    probe p;
    iso_tensor *gradients[3];
    probe_begin(&p, 4, ISO_F32);
    iso_tensor *y = batch_norm(&p, &batch_cases[0], BOTH, 1e-3);
    iso_gradients(iso_sum(y), p.tensor, 3, gradients);
    ck_assert_int_eq(iso_graph_error(p.graph), ISO_OK);
    ck_assert_str_eq(gradients[0]->producer->type->name, "batch_norm_grad");
    ck_assert(!uses(gradients[0], "moments_finish_grad"));
    ck_assert_str_eq(gradients[1]->producer->type->name, "cast");
    ck_assert_str_eq(gradients[1]->producer->inputs[0]->producer->type->name, "batch_norm_grad_sums");
    probe_end(&p);
}
END_TEST

/* With statistics of its own: as in inference, and of either float type. */
START_TEST(batch_norm_given_statistics)
{
    for (int vectors = 0; vectors <= BOTH; vectors++) {
        probe p;
        probe_begin(&p, 3, ISO_F64);
        iso_tensor *x = probe_input(&p, "x", ISO_SHAPE(2, 3));
        iso_tensor *mean = probe_variable(&p, "mean", ISO_SHAPE(3));
        iso_tensor *root = probe_variable(&p, "root", ISO_SHAPE(3));
        iso_tensor *variance = iso_affine(iso_square(root), 1, 0.5);
        iso_tensor *y = iso_batch_norm_op(x, mean, variance, vector_if(&p, vectors & GAMMA, "gamma", 3),
                                          vector_if(&p, vectors & BETA, "beta", 3), 1e-1);
        double *computed = probe_evaluate(&p, y);
        for (int64_t i = 0, c = 0; i < probe_count(&p, y); i++, c = i % 3) {
            double deviation = sqrt(pow(fed(&p, "root", c, 0), 2) + 0.5 + 1e-1);
            double xhat = (p.values[0][i] - fed(&p, "mean", c, 0)) / deviation;
            double expected = xhat * fed(&p, "gamma", c, 1) + fed(&p, "beta", c, 0);
            check_close(&computed[i], &expected, 1, 1e-13);
        }
        probe_check_gradients(&p, y);
        probe_end(&p);
    }
}
END_TEST

/* Statistics of another tensor, and swapped ones, are not those of x. */
START_TEST(batch_norm_foreign_statistics)
{
    probe p;
    iso_tensor *mean, *variance;
    probe_begin(&p, 6, ISO_F64);
    iso_tensor *x = probe_input(&p, "x", ISO_SHAPE(2)), *other = probe_input(&p, "other", ISO_SHAPE(3, 2));
    iso_batch_moments(other, &mean, &variance);
    iso_tensor *y = iso_batch_norm_op(x, mean, variance, NULL, NULL, 1e-1);
    probe_check_gradients(&p, iso_add(y, iso_batch_norm_op(x, variance, iso_square(mean), NULL, NULL, 1)));
    probe_end(&p);
}
END_TEST

/* The moments themselves, of a batch and of a variable. */
START_TEST(moments)
{
    probe p;
    iso_tensor *mean, *variance;
    probe_begin(&p, 5, ISO_F64);
    iso_tensor *x = _i ? probe_variable(&p, "x", ISO_SHAPE(6, 2)) : probe_input(&p, "x", ISO_SHAPE(3, 2));
    iso_batch_moments(x, &mean, &variance);
    double *means = probe_evaluate(&p, mean), *variances = probe_evaluate(&p, variance);
    for (int64_t c = 0; c < 2; c++) {
        double expected[2];
        two_pass(p.values[0], c, 2, _i ? 6 : 15, &expected[0], &expected[1]);
        check_close((double[]){means[c], variances[c]}, expected, 2, 1e-14);
    }
    probe_check_gradients(&p, iso_multiply(mean, iso_sqrt(variance)));
    probe_end(&p);
}
END_TEST

/* A channel of equal values has a variance of 0 but for rounding, never a negative one. Some of these would
 * have. */
START_TEST(moments_of_equal_values)
{
    enum { ROWS = 7, CHANNELS = 64 };
    double values[ROWS * CHANNELS];
    for (int i = 0; i < ROWS * CHANNELS; i++)
        values[i] = random_number(3, i % CHANNELS) * 100;
    probe p;
    iso_tensor *mean, *variance;
    probe_begin(&p, ROWS, ISO_F64);
    iso_batch_moments(probe_given(&p, "x", ISO_F32, ISO_SHAPE(CHANNELS), values), &mean, &variance);
    double *computed = probe_evaluate(&p, variance);
    for (int c = 0; c < CHANNELS; c++)
        ck_assert(computed[c] >= 0 && computed[c] < 1e-10);
    probe_end(&p);
}
END_TEST

static iso_tensor *layer_norm(probe *p, int vectors, double epsilon)
{
    iso_tensor *x = probe_input(p, "x", ISO_SHAPE(2, 5));
    return iso_layer_norm_op(x, vector_if(p, vectors & GAMMA, "gamma", 5),
                             vector_if(p, vectors & BETA, "beta", 5), epsilon);
}

START_TEST(layer_norm_values)
{
    probe p;
    probe_begin(&p, 3, ISO_F64);
    double *computed = probe_evaluate(&p, layer_norm(&p, _i, 1e-3));
    for (int64_t i = 0; i < 3 * 2 * 5; i++) {
        double mean, variance;
        two_pass(p.values[0], i / 5 * 5, 1, 5, &mean, &variance);
        double expected = (p.values[0][i] - mean) / sqrt(variance + 1e-3) * fed(&p, "gamma", i % 5, 1) +
                          fed(&p, "beta", i % 5, 0);
        check_close(&computed[i], &expected, 1, 1e-13);
    }
    probe_end(&p);
}
END_TEST

START_TEST(layer_norm_gradients)
{
    probe p;
    probe_begin(&p, 3, ISO_F64);
    probe_check_gradients(&p, layer_norm(&p, _i, 1e-1));
    probe_end(&p);
}
END_TEST

static iso_tensor *rms_norm(probe *p, int vectors, double epsilon)
{
    iso_tensor *x = probe_input(p, "x", ISO_SHAPE(2, 5));
    return iso_rms_norm_op(x, vector_if(p, vectors & GAMMA, "gamma", 5), epsilon);
}

START_TEST(rms_norm_values)
{
    probe p;
    probe_begin(&p, 3, ISO_F64);
    double *computed = probe_evaluate(&p, rms_norm(&p, _i, 1e-3));
    for (int64_t i = 0; i < 3 * 2 * 5; i++) {
        double squares = 0;
        for (int64_t c = i / 5 * 5; c < i / 5 * 5 + 5; c++)
            squares += p.values[0][c] * p.values[0][c] / 5;
        double expected = p.values[0][i] / sqrt(squares + 1e-3) * fed(&p, "gamma", i % 5, 1);
        check_close(&computed[i], &expected, 1, 1e-13);
    }
    probe_end(&p);
}
END_TEST

START_TEST(rms_norm_gradients)
{
    probe p;
    probe_begin(&p, 3, ISO_F64);
    probe_check_gradients(&p, rms_norm(&p, _i, 1e-1));
    probe_end(&p);
}
END_TEST

START_TEST(refused)
{
    iso_graph *graph = iso_graph_create(NULL);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(4, 3)), *mean, *variance;
    iso_tensor *gamma = iso_variable_value(
        iso_variable_create(graph, "gamma", ISO_F32, ISO_SHAPE(4), (iso_initializer){0}, true));
    iso_batch_moments(x, &mean, &variance);
    if (_i)
        iso_layer_norm_op(x, gamma, NULL, 1e-3);
    else
        iso_batch_norm_op(x, mean, variance, gamma, NULL, 1e-3);
    ck_assert_int_eq(iso_graph_error(graph), ISO_INVALID);
    ck_assert(strstr(iso_error_message(), "[batch, 4, 3]") &&
              strstr(iso_error_message(), "gamma: float32 [4]"));
    iso_graph_destroy(graph);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("normalization");
    TCase *tests = tcase_create("values and gradients");
    tcase_add_loop_test(tests, batch_norm_values, 0, BATCH_CASES);
    tcase_add_loop_test(tests, batch_norm_gradients, 0, BATCH_CASES);
    tcase_add_test(tests, batch_norm_gradient_is_fused);
    tcase_add_test(tests, batch_norm_given_statistics);
    tcase_add_test(tests, batch_norm_foreign_statistics);
    tcase_add_loop_test(tests, moments, 0, 2);
    tcase_add_test(tests, moments_of_equal_values);
    tcase_add_loop_test(tests, layer_norm_values, 0, BOTH + 1);
    tcase_add_loop_test(tests, layer_norm_gradients, 0, BOTH + 1);
    tcase_add_loop_test(tests, rms_norm_values, 0, GAMMA + 1);
    tcase_add_loop_test(tests, rms_norm_gradients, 0, GAMMA + 1);
    tcase_add_loop_test(tests, refused, 0, 2);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void)
{
    return run_suite(suite());
}
