/* Homes: where tensors stay. An output that the user laid out has its home there; so that nothing need be
 * moved for it, what it is computed from within the layer has the same, and so have the gradients of all
 * these (a constraint in JAX holds for the gradient too). The choice for an op heeds homes before bytes:
 * weights are gathered, activations stay.
 *
 * The gradient of a variable whose update is cut has its home where it is cut, and goes there as soon as it
 * is made: it is reduce-scattered, and not kept whole. */

#include "runtime/base/memory.h"
#include "runtime/spmd/partition_impl.h"

static const iso_variable *variable_of(const iso_tensor *tensor)
{
    const iso_op *op = tensor ? tensor->producer : NULL;
    return op && op->type == &iso_op_variable ? ((const iso_variable_attrs *)op->attrs)->variable : NULL;
}

static iso_status set_home(iso_partitioner *p, const iso_tensor *tensor, const iso_layout *layout)
{
    if (!p->home[tensor->id])
        p->home[tensor->id] = iso_new(sizeof *layout);
    if (!p->home[tensor->id])
        return iso_error(ISO_NO_MEMORY, "no memory for the layout of '%s'", iso_tensor_name(tensor));
    *p->home[tensor->id] = *layout;
    return ISO_OK;
}

/* ---- forward ---- */

static iso_status settle_path(iso_partitioner *p, const char *path, const iso_tensor *tensor)
{
    iso_layout layout;
    bool given;
    iso_status status =
        iso_distribution_output(p->program->distribution, path, &tensor->shape, &layout, &given);
    return status == ISO_OK && given ? set_home(p, tensor, &layout) : status;
}

/* Outputs by their names and by those of the layers that pass them on; where the mode puts another tensor in
 * the place of one, that has its home. */
static iso_status settle_outputs(iso_partitioner *p)
{
    iso_status status = ISO_OK;
    for (int t = 0; t < p->graph->tensors && status == ISO_OK; t++) {
        const iso_tensor *tensor = p->graph->tensor[t], *real = p->resolved[t];
        if (!real || !p->needed[real->producer->id])
            continue;
        const iso_layout *given = iso_partition_given(p, tensor);
        if (given)
            status = set_home(p, real, given);
        for (const iso_tensor_path *path = tensor->paths; path && status == ISO_OK; path = path->next)
            status = settle_path(p, path->text, real);
    }
    return status;
}

/* The home of an op's output, as its rule has it for an input. */
static iso_layout carried_over(const iso_rule *rule, int output, const iso_layout *home, int input, int rank)
{
    iso_layout layout = iso_layout_whole(rank);
    for (int d = 0; d < rank; d++)
        for (int o = 0; o < home->rank; o++)
            if (rule->input[input][d] != ISO_WHOLE && rule->input[input][d] == rule->output[output][o])
                layout.dim[d] = home->dim[o];
    return layout;
}

static iso_status settle_inputs(iso_partitioner *p, const iso_op *op)
{
    iso_rule rule;
    iso_status status = ISO_OK;
    iso_op_rule(op, &rule);
    for (int o = 0; o < op->outputs; o++)
        for (int i = 0; p->home[op->output[o]->id] && i < op->inputs && status == ISO_OK; i++) {
            const iso_tensor *in = p->resolved[op->input[i]->id];
            if (iso_partition_is_source(in->producer) || p->home[in->id])
                continue;
            iso_layout layout = carried_over(&rule, o, p->home[op->output[o]->id], i, in->shape.rank);
            status = set_home(p, in, &layout);
        }
    return status;
}

static bool has_home(const iso_partitioner *p, const iso_op *op)
{
    for (int o = 0; o < op->outputs; o++)
        if (p->home[op->output[o]->id])
            return true;
    return false;
}

/* ---- gradients ---- */

static iso_status settle_gradients(iso_partitioner *p)
{
    iso_status status = ISO_OK;
    for (int t = 0; t < p->graph->tensors && status == ISO_OK; t++) {
        const iso_tensor *tensor = p->graph->tensor[t], *of = tensor->gradient_of;
        const iso_tensor *real = of ? p->resolved[of->id] : NULL;
        if (real && p->home[real->id] && !p->home[t] && !variable_of(real) &&
            iso_shape_equal(&real->shape, &tensor->shape))
            status = set_home(p, tensor, p->home[real->id]);
    }
    return status;
}

/* The gradient itself, not the addends of which it is made: the last of them. */
static iso_status settle_variables(iso_partitioner *p, bool *seen)
{
    iso_status status = ISO_OK;
    for (int t = p->graph->tensors - 1; t >= 0 && status == ISO_OK; t--) {
        const iso_tensor *tensor = p->graph->tensor[t];
        const iso_variable *variable = variable_of(tensor->gradient_of);
        if (!variable || seen[variable->id])
            continue;
        seen[variable->id] = true;
        iso_layout layout = p->program->update_layout[variable->id];
        if (!iso_layout_sharded_axes(&layout) || !iso_shape_equal(&variable->shape, &tensor->shape))
            continue;
        status = set_home(p, tensor, &layout);
    }
    return status;
}

/* ---- the whole ---- */

iso_status iso_partition_settle(iso_partitioner *p)
{
    iso_status status = ISO_OK;
    bool *seen = iso_new((size_t)p->graph->variables + 1);
    p->home = iso_new(((size_t)p->graph->tensors + 1) * sizeof(iso_layout *));
    if (!p->home || !seen)
        ISO_TRY(iso_error(ISO_NO_MEMORY, "no memory to partition %d tensors", p->graph->tensors));
    ISO_TRY(settle_outputs(p));
    for (int k = p->graph->ops - 1; k >= 0; k--) {
        const iso_op *op = p->graph->op[k];
        if (p->needed[k] && !op->backward_of && !iso_partition_is_source(op) && has_home(p, op))
            ISO_TRY(settle_inputs(p, op));
    }
    ISO_TRY(settle_gradients(p));
    ISO_TRY(settle_variables(p, seen));
done:
    iso_free(seen);
    return status;
}

void iso_partition_unsettle(iso_partitioner *p)
{
    for (int t = 0; p->home && t < p->graph->tensors; t++)
        iso_free(p->home[t]);
    iso_free(p->home);
}

/* ---- answers ---- */

/* Tensors that pieces of an op are made of have none. */
static const iso_layout *home_of(const iso_partitioner *p, const iso_tensor *tensor)
{
    return tensor->id < p->graph->tensors ? p->home[tensor->id] : NULL;
}

/* Whether `home` cuts what `made` cuts, and some of its addends. */
static bool scatters(const iso_layout *made, const iso_layout *home)
{
    for (int d = 0; d < made->rank; d++)
        for (int i = 0; i < made->dim[d].count; i++)
            if (i >= home->dim[d].count || made->dim[d].axis[i] != home->dim[d].axis[i])
                return false;
    return made->partial & iso_layout_sharded_axes(home);
}

bool iso_partition_goes_home(const iso_partitioner *p, const iso_tensor *tensor, iso_layout *layout)
{
    const iso_layout *home = variable_of(tensor->gradient_of) ? home_of(p, tensor) : NULL;
    if (!home || !scatters(iso_partition_layout(p, tensor), home))
        return false;
    *layout = *home;
    layout->partial = iso_partition_layout(p, tensor)->partial & ~iso_layout_sharded_axes(home);
    return true;
}

/* To compute a variable's gradient at its home would move activations. */
int iso_partition_misses(const iso_partitioner *p, const iso_tensor *tensor, const iso_layout *layout)
{
    const iso_layout *home = variable_of(tensor->gradient_of) ? NULL : home_of(p, tensor);
    int misses = 0;
    for (int axis = 0; home && axis < p->mesh->axes; axis++)
        misses += iso_layout_dimension_of(home, axis) != iso_layout_dimension_of(layout, axis);
    return misses;
}
