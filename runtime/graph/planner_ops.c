/* Ops without kernels, which the planner handles: inputs, variables, constants, choices by mode,
 * optimizers' updates. */
#include "runtime/graph/graph_impl.h"
#include "runtime/graph/null_tensor.h"

static void all_whole(const iso_op *op, iso_rule *rule)
{
    *rule = (iso_rule){0};
    for (int i = 0; i < ISO_MAX_INPUTS; i++)
        for (int d = 0; d < ISO_MAX_RANK; d++)
            rule->input[i][d] = ISO_WHOLE;
    for (int i = 0; i < ISO_MAX_OUTPUTS; i++)
        for (int d = 0; d < ISO_MAX_RANK; d++)
            rule->output[i][d] = ISO_WHOLE;
    (void)op;
}

static bool infer_input(iso_op *op)
{
    const iso_input_attrs *attrs = op->attrs;
    op->outputs[0]->dtype = attrs->dtype;
    op->outputs[0]->shape = attrs->shape;
    return true;
}

static bool infer_variable(iso_op *op)
{
    const iso_variable_attrs *attrs = op->attrs;
    op->outputs[0]->dtype = attrs->variable->dtype;
    op->outputs[0]->shape = attrs->variable->shape;
    return true;
}

static bool infer_constant(iso_op *op)
{
    const iso_constant_attrs *attrs = op->attrs;
    op->outputs[0]->dtype = attrs->dtype;
    op->outputs[0]->shape = attrs->shape;
    return true;
}

static bool infer_same(iso_op *op)
{
    op->outputs[0]->dtype = op->inputs[0]->dtype;
    op->outputs[0]->shape = op->inputs[0]->shape;
    return true;
}

static bool infer_by_mode(iso_op *op)
{
    char a[160], b[160];
    const iso_tensor *training = op->inputs[0], *inference = op->inputs[1];
    if (!iso_shape_equal(&training->shape, &inference->shape) || training->dtype != inference->dtype) {
        iso_graph_fail(op->graph, "by_mode: %s of %s in training, %s of %s in inference",
                       iso_shape_text(&training->shape, a, sizeof a), iso_dtype_name(training->dtype),
                       iso_shape_text(&inference->shape, b, sizeof b), iso_dtype_name(inference->dtype));
        return false;
    }
    return infer_same(op);
}

static iso_tensor *gate(iso_tensor *x, const iso_variable *variable, bool training)
{
    iso_gate_attrs attrs = {.training = training, .variable = variable};
    return iso_op_create(x->graph, &iso_op_gate, &x, 1, &attrs);
}

static void by_mode_gradient(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    const iso_mode_attrs *attrs = op->attrs;
    dx[0] = gate(dy[0], attrs->variable, true);
    dx[1] = gate(dy[0], attrs->variable, false);
}

static void gate_gradient(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    const iso_gate_attrs *attrs = op->attrs;
    dx[0] = gate(dy[0], attrs->variable, attrs->training);
}

static bool infer_apply(iso_op *op)
{
    char a[160], b[160];
    const iso_tensor *value = op->inputs[0], *gradient = op->inputs[1];
    if (!iso_shape_equal(&value->shape, &gradient->shape) || value->dtype != gradient->dtype) {
        iso_graph_fail(op->graph, "the update of a variable %s of %s has a gradient %s of %s",
                       iso_shape_text(&value->shape, a, sizeof a), iso_dtype_name(value->dtype),
                       iso_shape_text(&gradient->shape, b, sizeof b), iso_dtype_name(gradient->dtype));
        return false;
    }
    return infer_same(op);
}

iso_tensor *iso_by_mode(iso_tensor *training, iso_tensor *inference)
{
    return iso_by_mode_unless_frozen(NULL, training, inference);
}

iso_tensor *iso_by_mode_unless_frozen(const iso_variable *variable, iso_tensor *training,
                                      iso_tensor *inference)
{
    ISO_NEED_TENSORS(training, inference);
    iso_tensor *inputs[] = {training, inference};
    return iso_op_create(training->graph, &iso_op_by_mode, inputs, 2, &(iso_mode_attrs){variable});
}

const iso_op_type iso_op_input = {.name = "input",
                                  .attr_size = sizeof(iso_input_attrs),
                                  .infer = infer_input,
                                  .rule_of = all_whole,
                                  .no_kernel = true};
const iso_op_type iso_op_variable = {.name = "variable",
                                     .attr_size = sizeof(iso_variable_attrs),
                                     .infer = infer_variable,
                                     .rule_of = all_whole,
                                     .no_kernel = true};
const iso_op_type iso_op_constant = {.name = "constant",
                                     .attr_size = sizeof(iso_constant_attrs),
                                     .infer = infer_constant,
                                     .rule_of = all_whole,
                                     .no_kernel = true};
const iso_op_type iso_op_by_mode = {.name = "by_mode",
                                    .attr_size = sizeof(iso_mode_attrs),
                                    .infer = infer_by_mode,
                                    .gradient = by_mode_gradient,
                                    .rule = "...,...->...",
                                    .no_kernel = true};
const iso_op_type iso_op_gate = {.name = "gate",
                                 .attr_size = sizeof(iso_gate_attrs),
                                 .infer = infer_same,
                                 .gradient = gate_gradient,
                                 .rule = "...->...",
                                 .no_kernel = true};
const iso_op_type iso_op_apply_optimizer = {.name = "apply_optimizer",
                                            .attr_size = sizeof(iso_apply_attrs),
                                            .infer = infer_apply,
                                            .rule_of = all_whole,
                                            .no_kernel = true};
