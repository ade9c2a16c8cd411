/* Wishes: what is known of a tensor's layout before it is made. An op whose inputs every slot has whole could
 * be cut in any way; it is cut as its output will be wanted, so that no slot computes what it then throws
 * away. */

#include "runtime/base/memory.h"
#include "runtime/spmd/partition_impl.h"

static bool of_graph(const iso_partitioner *p, const iso_tensor *tensor)
{
    return tensor->id < p->graph->tensors; /* not one that stands for it in pieces */
}

static iso_status add(iso_partitioner *p, const iso_layout *layout, int *number)
{
    if (p->wishes == p->wish_capacity) {
        size_t wanted = p->wish_capacity ? (size_t)p->wish_capacity * 2 : 64;
        iso_layout *grown = iso_grow(p->wished, (size_t)p->wishes, wanted, sizeof *grown);
        if (!grown)
            return iso_error(ISO_NO_MEMORY, "no memory for the layouts of %zu outputs", wanted);
        p->wished = grown;
        p->wish_capacity = (int)wanted;
    }
    p->wished[p->wishes] = *layout;
    *number = p->wishes++;
    return ISO_OK;
}

/* ---- what the distribution gives ---- */

/* The tensor that has the layout of an op's output: itself, or what stands for it in this mode; NULL where it
 * is not made. */
static const iso_tensor *made_for(const iso_partitioner *p, const iso_op *op, int output)
{
    if (p->needed[op->id])
        return op->type->no_kernel && op->inputs == 0 ? NULL : op->output[output];
    const iso_tensor *real = op->type == &iso_op_by_mode ? p->resolved[op->output[0]->id] : NULL;
    return real && p->needed[real->producer->id] ? real : NULL;
}

static iso_status ask_output(iso_partitioner *p, const iso_op *op, int output)
{
    const iso_tensor *named = op->output[output], *tensor = made_for(p, op, output);
    iso_layout layout;
    bool given;
    if (!named->name || !tensor)
        return ISO_OK;
    iso_status status =
        iso_distribution_output(p->program->distribution, named->name, &tensor->shape, &layout, &given);
    if (status == ISO_OK && given)
        status = add(p, &layout, &p->given[named->id]);
    if (status == ISO_OK && given)
        p->wish[tensor->id] = p->given[named->id];
    return status;
}

/* ---- what follows for the tensors that they are made of ---- */

static void count_readers(const iso_partitioner *p, int *readers)
{
    for (int k = 0; k < p->graph->ops; k++) {
        const iso_op *op = p->graph->op[k];
        for (int i = 0; p->needed[k] && !op->backward_of && i < op->inputs; i++)
            readers[p->resolved[op->input[i]->id]->id]++;
    }
}

/* An input that only this op reads on the way forward, and whose elements it handles one by one. */
static bool follows(const iso_partitioner *p, const iso_op *op, int input, const iso_rule *rule,
                    const int *readers)
{
    const iso_tensor *x = p->resolved[op->input[input]->id], *y = op->output[0];
    if (!of_graph(p, x) || readers[x->id] != 1 || p->wish[x->id] >= 0 ||
        !iso_shape_equal(&x->shape, &y->shape))
        return false;
    for (int d = 0; d < x->shape.rank; d++)
        if (rule->input[input][d] != rule->output[0][d] || rule->input_windows[input])
            return false;
    return true;
}

static void pass_on(iso_partitioner *p, const int *readers)
{
    iso_rule rule;
    for (int k = p->graph->ops - 1; k >= 0; k--) {
        const iso_op *op = p->graph->op[k];
        if (!p->needed[k] || op->inputs == 0 || p->wish[op->output[0]->id] < 0)
            continue;
        iso_op_rule(op, &rule);
        for (int i = 0; i < op->inputs; i++)
            if (follows(p, op, i, &rule, readers))
                p->wish[p->resolved[op->input[i]->id]->id] = p->wish[op->output[0]->id];
    }
}

iso_status iso_partition_ask(iso_partitioner *p)
{
    iso_status status = ISO_OK;
    size_t tensors = (size_t)p->graph->tensors + 1;
    int *readers = iso_new(tensors * sizeof *readers);
    p->given = iso_new(tensors * sizeof *p->given);
    p->wish = iso_new(tensors * sizeof *p->wish);
    if (!readers || !p->given || !p->wish)
        ISO_TRY(iso_error(ISO_NO_MEMORY, "no memory to partition %zu tensors", tensors));
    for (size_t i = 0; i < tensors; i++)
        p->given[i] = p->wish[i] = -1;
    for (int k = 0; k < p->graph->ops; k++)
        for (int o = 0; o < p->graph->op[k]->outputs; o++)
            ISO_TRY(ask_output(p, p->graph->op[k], o));
    if (p->wishes > 0) {
        count_readers(p, readers);
        pass_on(p, readers);
    }
done:
    iso_free(readers);
    return status;
}

void iso_partition_forget(iso_partitioner *p)
{
    iso_free(p->given);
    iso_free(p->wish);
    iso_free(p->wished);
}

/* ---- answers ---- */

const iso_layout *iso_partition_given(const iso_partitioner *p, const iso_tensor *named)
{
    return of_graph(p, named) && p->given[named->id] >= 0 ? &p->wished[p->given[named->id]] : NULL;
}

const iso_layout *iso_partition_wish(const iso_partitioner *p, const iso_tensor *tensor)
{
    if (!of_graph(p, tensor))
        return NULL;
    if (p->wish[tensor->id] >= 0)
        return &p->wished[p->wish[tensor->id]];
    const iso_tensor *of = tensor->gradient_of ? p->resolved[tensor->gradient_of->id] : NULL;
    if (!of || of->producer->type == &iso_op_variable || p->first_value[of->id] < 0 ||
        !iso_shape_equal(&of->shape, &tensor->shape))
        return NULL;
    return iso_partition_layout(p, of);
}
