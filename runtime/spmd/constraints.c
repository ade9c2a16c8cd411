/* Constraints: what is known about a tensor's layout before the tensor is made. The terms are GSPMD's (Xu et
 * al. 2021, arXiv 2105.04663).
 *
 * The distribution annotates outputs of layers. Its layouts are hard constraints: the tensor is resharded to
 * them as soon as it is made. They propagate to tensors that the op rules relate to the annotated one:
 *
 * - A layout is expected of the inputs of the layer's ops, and of the gradients of all these tensors (in JAX
 *   a constraint holds for the gradient, too). Strategies are ranked by their violations of expected layouts
 *   before they are ranked by bytes: weights are gathered, activations stay.
 * - A layout is a hint to an op whose inputs are replicated and could be sharded in any way. It is then
 *   sharded as its output is wanted, so that no slot computes elements that it discards.
 *
 * The gradient of a variable whose update is sharded is expected in the layout of the update. It is
 * reduce-scattered to it as soon as it is made. */

#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/spmd/partition_impl.h"

enum { NONE = -1 };

/* Tensors of decomposed ops (decompose.c) have no constraints. */
static iso_constraint *constraint_of(const iso_partitioner *p, const iso_tensor *tensor)
{
    return tensor->id < p->graph->n_tensors ? &p->constraint[tensor->id] : NULL;
}

static const iso_variable *variable_of(const iso_tensor *tensor)
{
    const iso_op *op = tensor ? tensor->producer : NULL;
    return op && op->type == &iso_op_variable ? ((const iso_variable_attrs *)op->attrs)->variable : NULL;
}

/* Appends to the layouts that constraints refer to. */
static iso_status constraints_add(iso_partitioner *p, const char *path, const iso_layout *layout, int *number)
{
    iso_annotation fresh = {.path = path, .layout = *layout};
    if (number)
        *number = p->n_annotations;
    return iso_list_add(p->annotations, p->n_annotations, fresh, "the layouts of outputs");
}

/* ---- annotations ---- */

/* *number (may be NULL): of the layout that the distribution gives to a path; unchanged if it gives none. */
static iso_status query(iso_partitioner *p, const char *path, const iso_shape *shape, int *number)
{
    iso_layout layout;
    bool given;
    iso_status status = ISO_OK;
    ISO_TRY(iso_distribution_output(p->program->distribution, path, shape, &layout, &given));
    if (given)
        ISO_TRY(constraints_add(p, path, &layout, number));
done:
    return status;
}

/* Whether an output is found by its own name: it is computed, or the mode replaces it by another tensor. */
static bool found_by_name(const iso_partitioner *p, const iso_tensor *tensor)
{
    const iso_op *op = tensor->producer;
    return tensor->name && (p->needed[op->id] ? !iso_partition_is_source(op) : op->type == &iso_op_by_mode);
}

/* An output is annotated by its name, then by the names of the layers that pass it on. The layouts apply
 * to the tensor that replaces it in this mode. */
static iso_status annotate(iso_partitioner *p, const iso_tensor *tensor)
{
    iso_status status = ISO_OK;
    const iso_tensor *real = p->resolved[tensor->id];
    if (!real || !p->needed[real->producer->id])
        return ISO_OK;
    iso_constraint *hard = &p->constraint[tensor->id], *soft = &p->constraint[real->id];
    hard->first = p->n_annotations;
    if (found_by_name(p, tensor))
        ISO_TRY(query(p, tensor->name, &real->shape, &soft->hint));
    for (const iso_tensor_path *path = tensor->paths; path; path = path->next)
        ISO_TRY(query(p, path->text, &real->shape, NULL));
    hard->count = p->n_annotations - hard->first;
    if (hard->count > 0)
        soft->expected = p->n_annotations - 1;
done:
    return status;
}

/* ---- propagation from outputs to inputs ---- */

static void count_readers(const iso_partitioner *p, int *readers)
{
    for (int k = 0; k < p->graph->n_ops; k++) {
        const iso_op *op = p->graph->ops[k];
        for (int i = 0; p->needed[k] && !op->backward_of && i < op->n_inputs; i++)
            readers[p->resolved[op->inputs[i]->id]->id]++;
    }
}

/* Whether the op handles the elements of an input one by one. */
static bool is_elementwise(const iso_rule *rule, int input, const iso_shape *from, const iso_shape *to)
{
    bool same = iso_shape_equal(from, to) && !rule->input_windows[input];
    for (int d = 0; same && d < from->rank; d++)
        same = rule->input[input][d] == rule->output[0][d];
    return same;
}

/* The layout of an input that the rule derives from that of an output. */
static iso_layout mapped(const iso_rule *rule, int output, const iso_layout *layout, int input, int rank)
{
    iso_layout result = iso_layout_whole(rank);
    for (int d = 0; d < rank; d++)
        for (int o = 0; o < layout->rank; o++)
            if (rule->input[input][d] != ISO_WHOLE && rule->input[input][d] == rule->output[output][o])
                result.dim[d] = layout->dim[o];
    return result;
}

static iso_status propagate_expected(iso_partitioner *p, const iso_op *op, const iso_rule *rule, int i)
{
    const iso_tensor *x = p->resolved[op->inputs[i]->id];
    iso_constraint *to = &p->constraint[x->id];
    for (int o = 0; o < op->n_outputs && to->expected == NONE; o++) {
        int from = p->constraint[op->outputs[o]->id].expected;
        if (from == NONE)
            continue;
        iso_layout layout = mapped(rule, o, &p->annotations[from].layout, i, x->shape.rank);
        return constraints_add(p, NULL, &layout, &to->expected);
    }
    return ISO_OK;
}

static bool is_constrained(const iso_partitioner *p, const iso_op *op)
{
    bool constrained = false;
    for (int o = 0; p->needed[op->id] && op->n_inputs > 0 && o < op->n_outputs; o++) {
        const iso_constraint *constraint = &p->constraint[op->outputs[o]->id];
        constrained |= constraint->hint != NONE || constraint->expected != NONE;
    }
    return constrained;
}

static iso_status propagate(iso_partitioner *p, const iso_op *op, const int *readers)
{
    iso_status status = ISO_OK;
    iso_rule rule;
    int hint = p->constraint[op->outputs[0]->id].hint;
    iso_op_rule(op, &rule);
    for (int i = 0; i < op->n_inputs; i++) {
        const iso_tensor *x = p->resolved[op->inputs[i]->id];
        iso_constraint *to = &p->constraint[x->id];
        if (to->hint == NONE && readers[x->id] == 1 &&
            is_elementwise(&rule, i, &x->shape, &op->outputs[0]->shape))
            to->hint = hint;
        if (!op->backward_of && !iso_partition_is_source(x->producer))
            ISO_TRY(propagate_expected(p, op, &rule, i));
    }
done:
    return status;
}

/* A tensor that is computed again has the constraints of the first time. */
static void constrain_again(iso_partitioner *p)
{
    for (int k = 0; k < p->graph->n_ops; k++) {
        const iso_op *op = p->graph->ops[k];
        for (int o = 0; op->again && o < op->n_outputs; o++) {
            const iso_constraint *before = &p->constraint[op->again->outputs[o]->id];
            p->constraint[op->outputs[o]->id].hint = before->hint;
            p->constraint[op->outputs[o]->id].expected = before->expected;
        }
    }
}

/* ---- gradients ---- */

static void constrain_gradients(iso_partitioner *p)
{
    for (int t = 0; t < p->graph->n_tensors; t++) {
        const iso_tensor *tensor = p->graph->tensors[t], *of = tensor->gradient_of;
        const iso_tensor *real = of ? p->resolved[of->id] : NULL;
        if (real && p->constraint[t].expected == NONE && !variable_of(real) &&
            iso_shape_equal(&real->shape, &tensor->shape))
            p->constraint[t].expected = p->constraint[real->id].expected;
    }
}

/* The last gradient of a variable is its whole gradient; the earlier ones are terms of it. */
static iso_status constrain_variable_gradients(iso_partitioner *p)
{
    iso_status status = ISO_OK;
    bool *seen = iso_new((size_t)p->graph->n_variables + 1);
    if (!seen)
        ISO_TRY(iso_error(ISO_NO_MEMORY, "no memory to partition %d variables", p->graph->n_variables));
    for (int t = p->graph->n_tensors - 1; t >= 0; t--) {
        const iso_tensor *tensor = p->graph->tensors[t];
        const iso_variable *variable = variable_of(tensor->gradient_of);
        if (!variable || seen[variable->id])
            continue;
        seen[variable->id] = true;
        const iso_layout *layout = &p->program->update_layout[variable->id];
        if (iso_layout_sharded_axes(layout) && iso_shape_equal(&variable->shape, &tensor->shape))
            ISO_TRY(constraints_add(p, NULL, layout, &p->constraint[t].expected));
    }
done:
    iso_free(seen);
    return status;
}

/* ---- the table ---- */

iso_status iso_partition_find_constraints(iso_partitioner *p)
{
    iso_status status = ISO_OK;
    size_t tensors = (size_t)p->graph->n_tensors + 1;
    int *readers = iso_new(tensors * sizeof *readers);
    p->constraint = iso_new(tensors * sizeof *p->constraint);
    if (!readers || !p->constraint)
        ISO_TRY(iso_error(ISO_NO_MEMORY, "no memory to partition %zu tensors", tensors));
    for (size_t t = 0; t < tensors; t++)
        p->constraint[t] = (iso_constraint){.hint = NONE, .expected = NONE};
    for (int t = 0; t < p->graph->n_tensors; t++)
        ISO_TRY(annotate(p, p->graph->tensors[t]));
    if (p->n_annotations > 0) {
        count_readers(p, readers);
        for (int k = p->graph->n_ops - 1; k >= 0; k--)
            if (is_constrained(p, p->graph->ops[k]))
                ISO_TRY(propagate(p, p->graph->ops[k], readers));
        constrain_again(p);
        constrain_gradients(p);
    }
    ISO_TRY(constrain_variable_gradients(p));
done:
    iso_free(readers);
    return status;
}

const iso_layout *iso_partition_hint(const iso_partitioner *p, const iso_tensor *tensor)
{
    const iso_constraint *constraint = constraint_of(p, tensor);
    if (!constraint)
        return NULL;
    if (constraint->hint != NONE)
        return &p->annotations[constraint->hint].layout;
    const iso_tensor *of = tensor->gradient_of ? p->resolved[tensor->gradient_of->id] : NULL;
    if (!of || of->producer->type == &iso_op_variable || p->first_value[of->id] < 0 ||
        !iso_shape_equal(&of->shape, &tensor->shape))
        return NULL;
    return iso_partition_layout(p, of);
}

static const iso_layout *expected(const iso_partitioner *p, const iso_tensor *tensor)
{
    const iso_constraint *constraint = constraint_of(p, tensor);
    return constraint && constraint->expected != NONE ? &p->annotations[constraint->expected].layout : NULL;
}

/* Gradients of variables do not count: computing one in its expected layout would move activations. */
int iso_partition_violations(const iso_partitioner *p, const iso_tensor *tensor, const iso_layout *layout)
{
    const iso_layout *wanted = variable_of(tensor->gradient_of) ? NULL : expected(p, tensor);
    int violations = 0;
    for (int axis = 0; wanted && axis < p->mesh->n_axes; axis++)
        violations += iso_layout_dimension_of(wanted, axis) != iso_layout_dimension_of(layout, axis);
    return violations;
}

/* ---- constraining a tensor that is made ---- */

/* The layout becomes the tensor's own. */
static iso_status constrain_to(iso_partitioner *p, iso_tensor *tensor, const iso_layout *layout)
{
    int value;
    iso_status status = iso_partition_insert_reshard(p, tensor, layout, &value);
    if (status == ISO_OK)
        p->first_value[tensor->id] = value;
    return status;
}

/* Whether `to` splits what `from` splits, and further along some of the axes along which `from` is
 * partial. */
static bool scatters(const iso_layout *from, const iso_layout *to)
{
    for (int d = 0; d < from->rank; d++)
        for (int i = 0; i < from->dim[d].count; i++)
            if (i >= to->dim[d].count || from->dim[d].axis[i] != to->dim[d].axis[i])
                return false;
    return from->partial & iso_layout_sharded_axes(to);
}

static iso_status scatter_gradient(iso_partitioner *p, iso_tensor *tensor)
{
    const iso_layout *made = iso_partition_layout(p, tensor);
    const iso_layout *wanted = variable_of(tensor->gradient_of) ? expected(p, tensor) : NULL;
    if (!wanted || !scatters(made, wanted))
        return ISO_OK;
    iso_layout layout = *wanted;
    layout.partial = made->partial & ~iso_layout_sharded_axes(wanted);
    return constrain_to(p, tensor, &layout);
}

iso_status iso_partition_constrain(iso_partitioner *p, const iso_tensor *named, iso_tensor *tensor)
{
    iso_status status = ISO_OK;
    const iso_constraint *hard = constraint_of(p, named);
    for (int i = 0; hard && i < hard->count; i++) {
        const iso_annotation *annotation = &p->annotations[hard->first + i];
        iso_program_note(p->program, annotation->path, &annotation->layout);
        ISO_TRY(constrain_to(p, tensor, &annotation->layout));
    }
    ISO_TRY(scatter_gradient(p, tensor));
done:
    return status;
}
