/* A mixture of experts (Shazeer et al. 2017, arXiv 1701.06538): perceptrons of which each row of x takes a few, as
 * one op: kernels compute the rows that chose an expert together, and only these. */
#include <string.h>

#include "runtime/graph/null_tensor.h"
#include "runtime/graph/ops/network_impl.h"

static const iso_experts_attrs *experts_attrs_of(const iso_op *op)
{
    return op->attrs;
}

static bool is_gradient_of_experts(const iso_op *op)
{
    return op->type == &iso_op_experts_grad;
}

/* The places of the inputs. */
enum { X, CHOICE, SHARE, FIRST_KERNEL };
static int up_of(const iso_op *op)
{
    return FIRST_KERNEL + experts_attrs_of(op)->gated;
}

/* ---- shapes ---- */

static bool experts_rows_fit(iso_op *op)
{
    const iso_shape *x = &op->inputs[X]->shape, *choice = &op->inputs[CHOICE]->shape;
    const int last = x->rank - 1;
    bool fits = last >= 1 && choice->rank == x->rank && x->dim[last] != ISO_BATCH &&
                choice->dim[last] != ISO_BATCH && iso_shape_equal(choice, &op->inputs[SHARE]->shape);
    for (int d = 0; fits && d < last; d++)
        fits = x->dim[d] == choice->dim[d];
    return fits ||
           iso_op_refuse(op, "takes x [batch, ..., d], indices [batch, ..., k] and shares of their shape");
}

static bool experts_kernels_fit(iso_op *op)
{
    const iso_shape *x = &op->inputs[X]->shape, *up = &op->inputs[up_of(op)]->shape,
                    *down = &op->inputs[up_of(op) + 1]->shape;
    bool fits = up->rank == 3 && down->rank == 3 && up->dim[1] == x->dim[x->rank - 1] &&
                down->dim[0] == up->dim[0] && down->dim[1] == up->dim[2] && down->dim[2] == up->dim[1] &&
                iso_shape_equal(up, &op->inputs[FIRST_KERNEL]->shape);
    return fits || iso_op_refuse(op, "takes kernels [experts, d, hidden] and [experts, hidden, d]");
}

static bool experts_inputs_fit(iso_op *op)
{
    if (op->n_inputs != up_of(op) + 2 + is_gradient_of_experts(op))
        return iso_op_refuse(op, "takes %d inputs", up_of(op) + 2 + is_gradient_of_experts(op));
    for (int i = 0; i < op->n_inputs; i++)
        if (i == CHOICE ? !iso_expect_index(op, i)
                        : !iso_expect_float(op, i, -1) || !iso_expect_same_type(op, X, i))
            return false;
    return experts_rows_fit(op) && experts_kernels_fit(op);
}

static bool experts_infer(iso_op *op)
{
    return experts_inputs_fit(op) && iso_op_set_output(op, op->inputs[X]->dtype, &op->inputs[X]->shape);
}

/* Gradients of x, the shares and the kernels. */
static bool experts_infer_gradient(iso_op *op)
{
    const int kernels = up_of(op) + 2 - FIRST_KERNEL;
    if (!experts_inputs_fit(op))
        return false;
    if (!iso_expect_same_shape(op, X, op->n_inputs - 1))
        return false;
    op->n_outputs = 2 + kernels;
    iso_set_output(op, 0, op->inputs[X]->dtype, &op->inputs[X]->shape);
    iso_set_output(op, 1, op->inputs[X]->dtype, &op->inputs[SHARE]->shape);
    for (int i = 0; i < kernels; i++)
        iso_set_output(op, 2 + i, op->inputs[X]->dtype, &op->inputs[FIRST_KERNEL + i]->shape);
    return true;
}

/* ---- sharding: factors are the rows' dimensions, the experts, the hidden features. Slots with other experts, or
 * with other hidden features, have parts of the sums. ---- */

static void experts_kernel_rule(int8_t *dims, int experts, bool is_down)
{
    dims[0] = (int8_t)experts;
    dims[is_down ? 1 : 2] = (int8_t)(experts + 1);
}

static void experts_rule_of(const iso_op *op, iso_rule *rule)
{
    const int rows = op->inputs[X]->shape.rank - 1, down = up_of(op) + 1;
    iso_rule_clear(op, rule);
    rule->n_factors = rows + 2;
    rule->linear = 1u << (op->n_inputs - 1); /* down, or dy */
    for (int i = X; i <= SHARE; i++)
        iso_rule_run_over(rule->input[i], 0, rows);
    for (int i = FIRST_KERNEL; i <= down; i++)
        experts_kernel_rule(rule->input[i], rows, i == down);
    iso_rule_run_over(rule->output[0], 0, rows);
    if (!is_gradient_of_experts(op))
        return;
    iso_rule_run_over(rule->input[down + 1], 0, rows);
    iso_rule_run_over(rule->output[1], 0, rows);
    for (int i = FIRST_KERNEL; i <= down; i++)
        experts_kernel_rule(rule->output[2 + i - FIRST_KERNEL], rows, i == down);
}

/* ---- gradient ---- */

static void experts_gradient(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    iso_tensor *inputs[ISO_MAX_INPUTS], *results[ISO_MAX_OUTPUTS];
    memcpy(inputs, op->inputs, (size_t)op->n_inputs * sizeof *inputs);
    inputs[op->n_inputs] = dy[0];
    iso_op_create_several(op->graph, &iso_op_experts_grad, inputs, op->n_inputs + 1, op->attrs, results);
    dx[X] = results[0];
    for (int i = SHARE; i < op->n_inputs; i++)
        dx[i] = results[i - SHARE + 1];
}

/* Of a row's choices, the part's share of all experts. Each takes a product forward for every kernel; the gradient
 * computes all but the last again, and has two for every kernel. */
static double experts_flops(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    (void)outputs;
    const iso_box *up = &inputs[up_of(op)];
    const double experts = (double)op->inputs[up_of(op)]->shape.dim[0];
    const double kernels = up_of(op) + 2 - FIRST_KERNEL;
    const double products = is_gradient_of_experts(op) ? 3 * kernels - 1 : kernels;
    return experts > 0 ? 2 * products * iso_box_elements(&inputs[CHOICE]) * iso_box_elements(up) / experts
                       : 0;
}

const iso_op_type iso_op_experts = {
    .name = "experts",
    ISO_OP_ATTRS(experts),
    .infer = experts_infer,
    .gradient = experts_gradient,
    .rule_of = experts_rule_of,
    .flops = experts_flops,
    .index = {"index", "experts"},
};

const iso_op_type iso_op_experts_grad = {
    .name = "experts_grad",
    ISO_OP_ATTRS(experts),
    .infer = experts_infer_gradient,
    .n_outputs = 5,
    .rule_of = experts_rule_of,
    .flops = experts_flops,
    .no_second = true,
    .index = {"index", "experts"},
};

iso_tensor *iso_experts_op(iso_tensor *x, iso_tensor *choice, iso_tensor *share, const iso_experts_form *form)
{
    ISO_NEED_TENSORS(x, choice, share);
    iso_graph *graph = x->graph;
    static const iso_unary_kind kinds[] = {[ISO_EXPERTS_SILU] = ISO_UNARY_SILU,
                                           [ISO_EXPERTS_GELU] = ISO_UNARY_GELU,
                                           [ISO_EXPERTS_GELU_TANH] = ISO_UNARY_GELU_APPROXIMATE,
                                           [ISO_EXPERTS_RELU] = ISO_UNARY_RELU};
    if (ISO_NULL_IN(graph, form) || ISO_NULL_IN(graph, form->up) || ISO_NULL_IN(graph, form->down))
        return iso_graph_bad_tensor(graph);
    if ((unsigned)form->activation >= sizeof kinds / sizeof *kinds) {
        iso_graph_fail(graph, "experts: there is no activation %d", (int)form->activation);
        return iso_graph_bad_tensor(graph);
    }
    const iso_experts_attrs attrs = {.activation = kinds[form->activation], .gated = form->gate != NULL};
    iso_tensor *inputs[6] = {x, choice, share};
    int count = FIRST_KERNEL;
    if (form->gate)
        inputs[count++] = form->gate;
    inputs[count++] = form->up;
    inputs[count++] = form->down;
    return iso_op_create(graph, &iso_op_experts, inputs, count, &attrs);
}
