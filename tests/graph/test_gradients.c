/* Ranks: 1. Every gradient against central differences in float64, for every op in the list. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/graph/ops/list.h"
#include "tests/support/run_tests.h"
#include "tests/support/samples.h"

/* A scalar that depends on every output of the op that has a gradient, on each element in its own way (0.3 y^2 +
 * 1.1 y). NULL where no output is of float type. */
static iso_tensor *loss_of(sample_case *c)
{
    iso_tensor *loss = NULL;
    for (int i = 0; i < c->op->n_outputs; i++) {
        iso_tensor *y = c->op->outputs[i];
        if (!iso_dtype_is_float(y->dtype) || c->op->type->kept >> i & 1)
            continue;
        iso_tensor *mixed = iso_multiply(y, iso_affine(y, 0.3, 1.1));
        iso_tensor *term = iso_sum(mixed);
        loss = loss ? iso_add(loss, term) : term;
    }
    return loss;
}

enum { MOST_ELEMENTS = 24 };

/* Element i of the leaf moved by h: the loss. */
static double loss_at(sample_case *c, const iso_tensor *loss, const iso_tensor *leaf, double *values,
                      int64_t i, double h)
{
    double before = values[i];
    values[i] = before + h;
    interpreter_set(c->in, leaf, values);
    values[i] = before;
    return interpreter_number(c->in, loss);
}

static void check_leaf(sample_case *c, const iso_tensor *loss, const iso_tensor *leaf,
                       const iso_tensor *gradient)
{
    const double h = 1e-5;
    const iso_array *x = interpreter_get(c->in, leaf);
    int64_t count = array_count(x), step = count / MOST_ELEMENTS + 1;
    double *values = calloc((size_t)count, sizeof *values), *given = calloc((size_t)count, sizeof *given);
    for (int64_t i = 0; i < count; i++) {
        values[i] = array_get(x, i);
        given[i] = gradient ? array_get(interpreter_get(c->in, gradient), i) : 0;
    }
    for (int64_t i = 0; i < count; i += step) {
        double up = loss_at(c, loss, leaf, values, i, h), down = loss_at(c, loss, leaf, values, i, -h);
        double measured = (up - down) / (2 * h);
        ck_assert_msg(fabs(measured - given[i]) <= 2e-7 * (1 + fabs(measured) + 1e-3 * fabs(up)),
                      "%s: the gradient to %s at %lld is %.12g, differences give %.12g", c->from->op,
                      iso_tensor_name(leaf), (long long)i, given[i], measured);
    }
    interpreter_set(c->in, leaf, values);
    free(values);
    free(given);
}

/* Whether the sample keeps gradients from a leaf: they would be differences that no gradient is to give. */
static bool is_stopped(const sample_case *c, const iso_tensor *leaf)
{
    for (int k = 0; k < c->s.graph->n_ops; k++)
        for (int i = 0; i < c->s.graph->ops[k]->n_inputs; i++)
            if (c->s.graph->ops[k]->inputs[i] == leaf && c->s.graph->ops[k]->type == &iso_op_stop_gradient)
                return c->op->type != &iso_op_stop_gradient;
    return false;
}

static void check_sample(const sample *from)
{
    sample_case c;
    sample_begin(&c, from, iso_backend_reference(), ISO_F64);
    iso_tensor *gradient[SAMPLE_LEAVES], *loss = c.op->type->gradient ? loss_of(&c) : NULL;
    if (loss) {
        iso_gradients(loss, c.s.leaf, c.s.leaves, gradient);
        ck_assert_msg(c.s.graph->status == ISO_OK, "%s: %s", from->op, c.s.graph->message);
        for (int k = 0; k < c.s.leaves; k++)
            if (iso_dtype_is_float(c.s.leaf[k]->dtype) && !is_stopped(&c, c.s.leaf[k]))
                check_leaf(&c, loss, c.s.leaf[k], gradient[k]);
    }
    sample_end(&c);
}

START_TEST(gradients_are_those_of_differences)
{
    for (int i = 0; sample_at(i); i++)
        check_sample(sample_at(i));
}
END_TEST

START_TEST(every_op_has_a_sample)
{
    for (int t = 0; t < iso_op_type_count(); t++) {
        const char *name = iso_op_type_at(t)->name;
        int samples = 0;
        for (int i = 0; sample_at(i); i++)
            samples += strcmp(sample_at(i)->op, name) == 0;
        ck_assert_msg(samples > 0, "op '%s' has no sample in tests/support/samples_*.c", name);
        ck_assert_ptr_eq(iso_op_type_find(name), iso_op_type_at(t));
    }
    ck_assert_ptr_null(iso_op_type_find("no such op"));
}
END_TEST

/* y = x^3 by products: dy/dx = 3 x^2, and its gradient 6 x */
START_TEST(gradients_of_gradients)
{
    iso_graph *graph = iso_graph_create(NULL);
    iso_graph_set_precision(graph, ISO_F64);
    iso_tensor *x = iso_variable_value(
        iso_variable_create(graph, "x", ISO_F32, ISO_SHAPE(3), (iso_initializer){0}, true));
    iso_tensor *first, *second;
    iso_gradients(iso_sum(iso_multiply(x, iso_square(x))), &x, 1, &first);
    iso_gradients(iso_sum(first), &x, 1, &second);
    interpreter *in = interpreter_create(graph, iso_backend_reference(), 1);
    interpreter_set(in, x, (double[]){-1, 0.5, 2});
    for (int i = 0; i < 3; i++) {
        double value = array_get(interpreter_get(in, x), i);
        ck_assert_double_eq_tol(array_get(interpreter_get(in, first), i), 3 * value * value, 1e-14);
        ck_assert_double_eq_tol(array_get(interpreter_get(in, second), i), 6 * value, 1e-14);
    }
    interpreter_destroy(in);
    iso_graph_destroy(graph);
}
END_TEST

/* ---- many slices of one tensor ---- */

enum { ROWS = 40, COLUMNS = 3 };

/* Slice k of x [ROWS, COLUMNS]; false: there is none. */
typedef bool slice_of(int k, int64_t *begin, int64_t *size);

static bool set_slice(int64_t row, int64_t rows, int64_t column, int64_t columns, int64_t *begin,
                      int64_t *size)
{
    begin[0] = row;
    begin[1] = column;
    size[0] = rows;
    size[1] = columns;
    return true;
}

static bool each_row(int k, int64_t *begin, int64_t *size)
{
    return k < ROWS && set_slice(ROWS - 1 - k, 1, 0, COLUMNS, begin, size);
}

/* Runs of rows with a gap of one. */
static bool with_gaps(int k, int64_t *begin, int64_t *size)
{
    return k < 18 && set_slice(k / 6 * 13 + k % 6 * 2, 2, 0, COLUMNS, begin, size);
}

static bool overlapping(int k, int64_t *begin, int64_t *size)
{
    return k < ROWS - 4 && set_slice(k, k % 3 + 2, 0, COLUMNS, begin, size);
}

/* Rows, columns, and parts of both. */
static bool of_both_axes(int k, int64_t *begin, int64_t *size)
{
    switch (k % 3) {
    case 0:
        return k < 24 && set_slice(k, 3, 0, COLUMNS, begin, size);
    case 1:
        return set_slice(0, ROWS, k % COLUMNS, 1, begin, size);
    default:
        return set_slice(k, 2, k % 2, 2, begin, size);
    }
}

static bool few(int k, int64_t *begin, int64_t *size)
{
    return k < 8 && set_slice(5 * k, 5, 0, COLUMNS, begin, size);
}

static double scale_of(int k)
{
    return 1 + k % 7;
}

/* The gradient of sum_k scale_k sum(slice_k(x)) + sum(x), in `want`; returns the loss. */
static iso_tensor *sum_of_slices(iso_tensor *x, slice_of *slice, double *want)
{
    int64_t begin[2], size[2];
    iso_tensor *loss = iso_sum(x);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        want[i] = 1;
    for (int k = 0; slice(k, begin, size); k++) {
        loss = iso_add(loss, iso_affine(iso_sum(iso_slice(x, begin, size)), scale_of(k), 0));
        for (int64_t i = begin[0]; i < begin[0] + size[0]; i++)
            for (int64_t j = begin[1]; j < begin[1] + size[1]; j++)
                want[i * COLUMNS + j] += scale_of(k);
    }
    return loss;
}

static iso_tensor *matrix(iso_graph *graph)
{
    return iso_variable_value(
        iso_variable_create(graph, "x", ISO_F32, ISO_SHAPE(ROWS, COLUMNS), (iso_initializer){0}, true));
}

START_TEST(gradients_of_many_slices)
{
    static slice_of *const cases[] = {each_row, with_gaps, overlapping, of_both_axes, few};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        iso_graph *graph = iso_graph_create(NULL);
        iso_tensor *x = matrix(graph), *gradient;
        double want[ROWS * COLUMNS];
        iso_gradients(sum_of_slices(x, cases[c], want), &x, 1, &gradient);
        interpreter *in = interpreter_create(graph, iso_backend_reference(), 1);
        const iso_array *have = interpreter_get(in, gradient);
        for (int i = 0; i < ROWS * COLUMNS; i++)
            ck_assert_msg(array_get(have, i) == want[i], "case %zu, element %d: %g, not %g", c, i,
                          array_get(have, i), want[i]);
        interpreter_destroy(in);
        iso_graph_destroy(graph);
    }
}
END_TEST

/* The gradients of n slices, one behind the other, are joined: no op of the backward pass adds padded ones. */
START_TEST(many_slices_are_joined)
{
    iso_graph *graph = iso_graph_create(NULL);
    iso_tensor *x = matrix(graph), *gradient;
    double want[ROWS * COLUMNS];
    iso_tensor *loss = sum_of_slices(x, each_row, want);
    int first = graph->n_ops, padded = 0;
    iso_gradients(loss, &x, 1, &gradient);
    for (int k = first; k < graph->n_ops; k++)
        padded += graph->ops[k]->type == &iso_op_pad;
    ck_assert_int_eq(padded, 0);
    iso_graph_destroy(graph);
}
END_TEST

/* A tensor that the loss does not depend on has no gradient. */
START_TEST(no_dependence_no_gradient)
{
    iso_graph *graph = iso_graph_create(NULL);
    iso_initializer zeros = {0};
    iso_tensor *x = iso_variable_value(iso_variable_create(graph, "x", ISO_F32, ISO_SHAPE(3), zeros, true));
    iso_tensor *y = iso_variable_value(iso_variable_create(graph, "y", ISO_F32, ISO_SHAPE(3), zeros, true));
    iso_tensor *gradient[2];
    iso_gradients(iso_sum(iso_add(x, iso_stop_gradient(y))), (iso_tensor *[]){x, y}, 2, gradient);
    ck_assert_ptr_nonnull(gradient[0]);
    ck_assert_ptr_null(gradient[1]);
    iso_graph_destroy(graph);
}
END_TEST

int main(void)
{
    return RUN_TESTS("gradients", 120, gradients_are_those_of_differences, every_op_has_a_sample,
                     gradients_of_gradients, gradients_of_many_slices, many_slices_are_joined,
                     no_dependence_no_gradient);
}
