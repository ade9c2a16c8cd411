/* Recurrences over time, as one op for all steps: the products of a step with those before it follow one another, and
 * what does not depend on earlier steps is computed by other ops, for all steps at once. */
#include <string.h>

#include "runtime/graph/null_tensor.h"
#include "runtime/graph/ops/attrs.h"
#include "runtime/graph/ops/network_impl.h"

enum { X, KERNEL, BIAS }; /* inputs of the op; then the state, h0 and c0, and the mask */
enum { H, GATES, C };     /* outputs; GRU has no c, SIMPLE only h */
enum { OF_KERNEL };       /* the first input of its gradient */

static const iso_recurrence_attrs *recurrence_attrs_of(const iso_op *op)
{
    return op->attrs;
}

static iso_cell cell_of(const iso_op *op)
{
    return recurrence_attrs_of(op)->form.cell;
}

/* The tensors of a state: h, and c of LSTM. */
static int state_count(const iso_op *op)
{
    return cell_of(op) == ISO_CELL_LSTM ? 2 : 1;
}

static int output_count(const iso_op *op)
{
    return 1 + (cell_of(op) == ISO_CELL_LSTM ? C : cell_of(op) == ISO_CELL_GRU ? GATES : H);
}

/* The input at which the state begins. */
static int first_state(const iso_op *op)
{
    return recurrence_attrs_of(op)->has_bias ? BIAS + 1 : BIAS;
}

/* The tensors of the state before the first step that are given. */
static int given_states(const iso_op *op)
{
    return recurrence_attrs_of(op)->has_state ? state_count(op) : 0;
}

/* ---- shapes ---- */

enum { PRODUCT = 2, CONVOLUTION = 4 }; /* dimensions of a kernel */

/* The convolution of the state: it has as many positions as the state has pixels. */
static iso_conv_attrs convolution_of(const iso_shape *kernel)
{
    return (iso_conv_attrs){.geometry = iso_recurrence_geometry(kernel->dim), .shape = *kernel};
}

/* The last dimension of a shape is another one. */
static iso_shape with_last(iso_shape shape, int64_t last)
{
    shape.dim[shape.rank - 1] = last;
    return shape;
}

/* A state, from x or h: without the time. */
static iso_shape state_shape(const iso_shape *over_time, int64_t units)
{
    iso_shape state = {over_time->rank - 1, {over_time->dim[0]}};
    for (int d = 2; d < over_time->rank; d++)
        state.dim[d - 1] = over_time->dim[d];
    return with_last(state, units);
}

static bool input_fits(iso_op *op, int i, const iso_shape *shape, const char *what)
{
    if (!iso_expect_float(op, i, -1) || !iso_expect_same_type(op, 0, i))
        return false;
    char text[160];
    return iso_shape_equal(&op->inputs[i]->shape, shape) ||
           iso_op_refuse(op, "%s should be %s", what, iso_shape_text(shape, text, sizeof text));
}

static bool states_fit(iso_op *op, int first, const iso_shape *x, int64_t units)
{
    const iso_shape state = state_shape(x, units);
    for (int i = 0; i < state_count(op); i++)
        if (!input_fits(op, first + i, &state, i == 0 ? "h0" : "c0"))
            return false;
    return true;
}

static bool mask_fits(iso_op *op, int i, const iso_shape *x)
{
    const iso_tensor *mask = op->inputs[i];
    return (mask->dtype == ISO_BOOL && iso_shape_equal(&mask->shape, &ISO_SHAPE(x->dim[0], x->dim[1]))) ||
           iso_op_refuse(op, "the mask should be bool, of the batch and the steps");
}

/* The kernel of x [batch, t, g u] is [u, g u], that of x [batch, t, h, w, g u] [r, s, u, g u]. */
static bool kernel_fits(iso_op *op, int64_t gates)
{
    const iso_shape *x = &op->inputs[X]->shape, *kernel = &op->inputs[KERNEL]->shape;
    const bool images = x->rank == 5;
    if (!iso_expect_float(op, X, images ? 5 : 3) ||
        !iso_expect_float(op, KERNEL, images ? CONVOLUTION : PRODUCT))
        return false;
    const int64_t units = kernel->dim[kernel->rank - 2];
    if (x->dim[1] < 1 || units < 1 || (images && (kernel->dim[0] < 1 || kernel->dim[1] < 1)))
        return iso_op_refuse(op, "takes at least one step and one unit%s",
                             images ? ", and windows of a pixel" : "");
    if (x->dim[x->rank - 1] != gates * units)
        return iso_op_refuse(op, "takes [batch, t, %s%lld u] and [%su, %lld u]", images ? "h, w, " : "",
                             (long long)gates, images ? "r, s, " : "", (long long)gates);
    const iso_shape fitting = with_last(*kernel, gates * units);
    return input_fits(op, KERNEL, &fitting, "the kernel");
}

static bool recurrence_infer(iso_op *op)
{
    const iso_recurrence_attrs *attrs = op->attrs;
    const iso_shape *x = &op->inputs[X]->shape, *kernel = &op->inputs[KERNEL]->shape;
    const int64_t gates = iso_cell_gates(attrs->form.cell);
    if (!kernel_fits(op, gates))
        return false;
    const int64_t units = kernel->dim[kernel->rank - 2];
    const iso_shape columns = ISO_SHAPE(gates * units);
    if ((attrs->has_bias && !input_fits(op, BIAS, &columns, "the bias")) ||
        (attrs->has_state && !states_fit(op, first_state(op), x, units)) ||
        (attrs->has_mask && !mask_fits(op, first_state(op) + given_states(op), x)))
        return false;
    const iso_shape h = with_last(*x, units), saved = with_last(*x, 4 * units);
    op->n_outputs = output_count(op);
    for (int i = 0; i < op->n_outputs; i++)
        iso_set_output(op, i, op->inputs[X]->dtype, i == GATES ? &saved : &h);
    return true;
}

/* The inputs are tensors of the op: they fit together. */
static bool recurrence_grad_infer(iso_op *op)
{
    const iso_recurrence_attrs *attrs = op->attrs;
    const int mask = 1 + given_states(op), h = mask + attrs->has_mask, dh = h + output_count(op);
    const iso_shape *kernel = &op->inputs[OF_KERNEL]->shape;
    const iso_shape dx = with_last(op->inputs[h]->shape, kernel->dim[kernel->rank - 1]);
    for (int i = dh; i < op->n_inputs; i++)
        if (!input_fits(op, i, &op->inputs[h]->shape, "a gradient of a state"))
            return false;
    op->n_outputs = 0;
    iso_set_output(op, op->n_outputs++, op->inputs[h]->dtype, &dx);
    if (attrs->form.cell == ISO_CELL_GRU)
        iso_set_output(op, op->n_outputs++, op->inputs[h]->dtype, &dx);
    for (int i = 1; i < mask; i++)
        iso_set_output(op, op->n_outputs++, op->inputs[h]->dtype, &op->inputs[i]->shape);
    return true;
}

/* ---- sharding: the rows ---- */

static void by_rows(const iso_op *op, int kernel, int count, iso_rule *rule)
{
    iso_rule_clear(op, rule);
    int8_t rows = iso_rule_factor(rule);
    for (int i = 0; i < op->n_inputs; i++)
        if (i < kernel || i >= kernel + count)
            rule->input[i][0] = rows;
    for (int i = 0; i < op->n_outputs; i++)
        rule->output[i][0] = rows;
}

static void recurrence_rule_of(const iso_op *op, iso_rule *rule)
{
    by_rows(op, KERNEL, first_state(op) - KERNEL, rule);
}

static void recurrence_grad_rule_of(const iso_op *op, iso_rule *rule)
{
    by_rows(op, OF_KERNEL, 1, rule);
}

/* One product or convolution for each step, and about 30 operations for each unit of it. sequence: an array over
 * time. */
static double flops_of(const iso_box *sequence, const iso_box *kernel)
{
    double pixels = 1;
    for (int d = 0; d < sequence->rank - 1; d++)
        pixels *= (double)sequence->extent[d];
    return pixels * (2 * iso_box_elements(kernel) + 30 * (double)kernel->extent[kernel->rank - 2]);
}

static double recurrence_flops(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    (void)op;
    return flops_of(&outputs[0], &inputs[KERNEL]);
}

static double recurrence_grad_flops(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    (void)op;
    return flops_of(&outputs[0], &inputs[OF_KERNEL]);
}

/* ---- gradient ---- */

/* Steps first .. first + count - 1 of x [batch, t, ...]. */
static iso_tensor *steps_of(iso_tensor *x, int64_t first, int64_t count)
{
    return iso_slice(x, (const int64_t[]){first, 0, 0, 0}, (const int64_t[]){count, -1, -1, -1});
}

/* The gradient of the kernel: the sum over rows and steps of h' dr, where h' is the state before the step. Without a
 * state before the first step, that step has no part in it. */
static iso_tensor *kernel_gradient(const iso_op *op, iso_tensor *dr)
{
    static const iso_matmul_attrs contract = {.contract = true};
    const iso_shape *kernel = &op->inputs[KERNEL]->shape;
    const iso_recurrence_attrs *attrs = op->attrs;
    iso_tensor *h = op->outputs[H];
    const int64_t steps = h->shape.dim[1], later = attrs->form.backwards ? 0 : 1, earlier = 1 - later;
    const int state = first_state(op);
    iso_tensor *before = steps > 1 ? steps_of(h, earlier, steps - 1) : NULL;
    if (attrs->has_state) {
        iso_shape one = h->shape;
        one.dim[1] = 1;
        iso_tensor *h0 = iso_reshape_to(op->inputs[state], one);
        iso_tensor *both[] = {later ? h0 : before, later ? before : h0};
        before = before ? iso_concat(both, 2, 1) : h0;
    } else if (before) {
        dr = steps_of(dr, later, steps - 1);
    } else {
        before = iso_or_zeros(NULL, h);
    }
    const iso_conv_attrs convolution = convolution_of(kernel);
    return kernel->rank == PRODUCT ? iso_op_2(&iso_op_matmul, before, dr, &contract)
                                   : iso_op_2(&iso_op_conv2d_grad_kernel, before, dr, &convolution);
}

static void recurrence_gradient(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    iso_recurrence_attrs attrs = *recurrence_attrs_of(op);
    iso_tensor *inputs[ISO_MAX_INPUTS] = {op->inputs[KERNEL]}, *results[ISO_MAX_OUTPUTS] = {0};
    const int states = given_states(op), state = first_state(op);
    int count = 1;
    attrs.has_dc = dy[C] != NULL;
    for (int i = 0; i < states + attrs.has_mask; i++)
        inputs[count++] = op->inputs[state + i];
    for (int i = 0; i < op->n_outputs; i++)
        inputs[count++] = op->outputs[i];
    inputs[count++] = iso_or_zeros(dy[H], op->outputs[H]);
    if (attrs.has_dc)
        inputs[count++] = dy[C];
    iso_op_create_several(op->graph, &iso_op_recurrence_grad, inputs, count, &attrs, results);
    if (!results[0] || !iso_tensor_good(results[0]))
        return;
    const int after_dr = attrs.form.cell == ISO_CELL_GRU ? 2 : 1;
    iso_tensor *dr = results[after_dr - 1];
    dx[X] = results[0];
    dx[KERNEL] = kernel_gradient(op, dr);
    if (attrs.has_bias)
        dx[BIAS] = iso_sum_to_shape(dr, &op->inputs[BIAS]->shape);
    memcpy(dx + state, results + after_dr, (size_t)states * sizeof *dx);
}

const iso_op_type iso_op_recurrence = {
    .name = "recurrence",
    ISO_OP_ATTRS(recurrence),
    .infer = recurrence_infer,
    .gradient = recurrence_gradient,
    .n_outputs = 3,
    .kept = 1 << GATES,
    .rule_of = recurrence_rule_of,
    .flops = recurrence_flops,
};

const iso_op_type iso_op_recurrence_grad = {
    .name = "recurrence_grad",
    ISO_OP_ATTRS(recurrence),
    .infer = recurrence_grad_infer,
    .n_outputs = 3,
    .rule_of = recurrence_grad_rule_of,
    .flops = recurrence_grad_flops,
    .no_second = true,
};

static bool form_fits(iso_graph *graph, const iso_recurrence_form *form, const iso_tensor *h0,
                      const iso_tensor *c0, iso_tensor **c)
{
    const bool lstm = form->cell == ISO_CELL_LSTM;
    if ((unsigned)form->cell > ISO_CELL_SIMPLE || (unsigned)form->activation > ISO_CELL_LINEAR ||
        (unsigned)form->recurrent > ISO_CELL_LINEAR)
        iso_graph_fail(graph, "recurrence: there is no cell %d with the activations %d and %d",
                       (int)form->cell, (int)form->activation, (int)form->recurrent);
    else if (lstm ? !h0 != !c0 : c0 || c)
        iso_graph_fail(graph, "recurrence: a cell of LSTM has the states h0 and c0 or neither; the other "
                              "cells have no c");
    return graph->status == ISO_OK;
}

iso_tensor *iso_recurrence_op(iso_tensor *x, iso_tensor *kernel, iso_tensor *bias, iso_tensor *h0,
                              iso_tensor *c0, iso_tensor *mask, const iso_recurrence_form *form,
                              iso_tensor **c)
{
    ISO_NEED_TENSORS(x, kernel);
    iso_graph *graph = x->graph;
    iso_tensor *inputs[ISO_MAX_INPUTS] = {x, kernel}, *results[ISO_MAX_OUTPUTS];
    int count = BIAS;
    for (int i = 0; i < ISO_MAX_OUTPUTS; i++)
        results[i] = iso_graph_bad_tensor(graph);
    if (c)
        *c = results[C];
    if (ISO_NULL_IN(graph, form) || !form_fits(graph, form, h0, c0, c))
        return results[H];
    if (bias)
        inputs[count++] = bias;
    if (h0)
        inputs[count++] = h0;
    if (c0)
        inputs[count++] = c0;
    if (mask)
        inputs[count++] = mask;
    iso_recurrence_attrs attrs = {.form = *form, .has_bias = bias, .has_state = h0, .has_mask = mask};
    if (!attrs.form.activation)
        attrs.form.activation = ISO_CELL_TANH;
    if (!attrs.form.recurrent)
        attrs.form.recurrent = ISO_CELL_SIGMOID;
    iso_op_create_several(graph, &iso_op_recurrence, inputs, count, &attrs, results);
    if (c)
        *c = results[C];
    return results[H];
}
