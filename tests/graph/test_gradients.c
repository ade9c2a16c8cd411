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
                     gradients_of_gradients, no_dependence_no_gradient);
}
