/* Decomposition: if a dimension that an op's rule holds whole is sharded, the op is replaced by ops whose
 * rules let that dimension be sharded (iso_op_type.decompose). These are built in a graph of the program's
 * own, as any network is. Their inputs and results are then connected to the tensors of the program. */
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/spmd/partition_impl.h"

/* True if the op's rule lets `axis` shard a dimension of its first input, and it does: the slots along the axis then
 * divide the work of the op as it is, and the decomposed ops would need the other inputs whole too. */
static bool divides_first(const iso_partitioner *p, const iso_op *op, const iso_rule *rule, int axis)
{
    int d = iso_layout_dimension_of(iso_partition_layout(p, p->resolved[op->inputs[0]->id]), axis);
    return d >= 0 && rule->input[0][d] != ISO_WHOLE;
}

/* True if slots hold parts of a dimension that the rule of the op holds whole. */
static bool is_sharded(const iso_partitioner *p, const iso_op *op, const iso_rule *rule,
                       const iso_sharding *sharding)
{
    for (int i = 0; i < sharding->count; i++)
        if (p->mesh->size[sharding->axis[i]] > 1 &&
            !(op->type->divided_by_first && divides_first(p, op, rule, sharding->axis[i])))
            return true;
    return false;
}

bool iso_partition_wants_decomposition(const iso_partitioner *p, const iso_op *op)
{
    iso_rule rule;
    if (!op->type->decompose)
        return false;
    iso_op_rule(op, &rule);
    for (int i = 0; i < op->n_inputs; i++) {
        const iso_tensor *x = p->resolved[op->inputs[i]->id];
        for (int d = 0; d < x->shape.rank; d++)
            if (rule.input[i][d] == ISO_WHOLE &&
                is_sharded(p, op, &rule, &iso_partition_layout(p, x)->dim[d]))
                return true;
    }
    return false;
}

/* ---- building ---- */

/* Inputs of the decomposed graph that stand for the op's. */
static void stand_in(iso_graph *decomposed, const iso_op *op, iso_tensor **in)
{
    for (int i = 0; i < op->n_inputs; i++) {
        iso_input_attrs attrs = {
            .name = "input", .dtype = op->inputs[i]->dtype, .shape = op->inputs[i]->shape};
        in[i] = iso_op_create(decomposed, &iso_op_input, NULL, 0, &attrs);
    }
}

/* The tensor that replaces a tensor of the decomposed graph: an output of the same producer, whose outputs
 * may have been replaced. */
static iso_tensor *standing_for(const iso_tensor *tensor)
{
    return tensor->producer->outputs[tensor->output];
}

static bool same_op(const iso_op *a, const iso_op *b)
{
    return a->type == b->type && a->type->shared && a->n_inputs == b->n_inputs &&
           memcmp(a->inputs, b->inputs, (size_t)a->n_inputs * sizeof *a->inputs) == 0 &&
           memcmp(a->attrs, b->attrs, a->type->attr_size) == 0;
}

static bool gives_result(const iso_op *part, const iso_op *op)
{
    for (int o = 0; o < op->n_outputs; o++)
        for (int k = 0; k < part->n_outputs; k++)
            if (part->outputs[k] == op->outputs[o])
                return true;
    return false;
}

/* Leaves out an op that an earlier one computes already: loss, gradient and accuracy share the statistics
 * of logits. Ops that may be shared are chained at the tensor that they read first. */
static bool is_repeated(iso_partitioner *p, int number)
{
    iso_graph *decomposed = p->program->decomposed;
    iso_op *part = decomposed->ops[number];
    if (!part->type->shared)
        return false;
    int *last = &p->reader[part->inputs[0]->id];
    for (int k = *last; k > 0; k = p->next_reader[k - 1])
        if (same_op(decomposed->ops[k - 1], part)) {
            memcpy(part->outputs, decomposed->ops[k - 1]->outputs, sizeof part->outputs);
            return true;
        }
    p->next_reader[number] = *last;
    *last = number + 1;
    return false;
}

/* Connects the ops from `first` on to their real inputs and outputs. Those that only stand for inputs, and
 * repeated ones, are left out. */
static void tie(iso_partitioner *p, int first, const iso_op *op, iso_tensor *const *in)
{
    iso_graph *decomposed = p->program->decomposed;
    for (int k = first; k < decomposed->n_ops; k++) {
        iso_op *part = decomposed->ops[k];
        part->id = op->id;
        part->backward_of = op->backward_of;
        if (k < first + op->n_inputs) {
            part->outputs[0] = in[k - first];
            decomposed->ops[k] = NULL;
            continue;
        }
        for (int i = 0; i < part->n_inputs; i++)
            part->inputs[i] = standing_for(part->inputs[i]);
        if (!gives_result(part, op) && is_repeated(p, k))
            decomposed->ops[k] = NULL;
    }
}

/* ---- numbers ---- */

static bool grow(void *list, int from, int to, size_t size)
{
    void **array = list, *grown = iso_grow(*array, (size_t)from, (size_t)to, size);
    if (grown)
        *array = grown;
    return grown != NULL;
}

/* Makes room in the partitioner's tables for this many more tensors and decomposed ops. */
static iso_status decompose_make_room(iso_partitioner *p, int tensors, int decomposed)
{
    if (tensors <= p->tensor_room && decomposed <= p->part_room)
        return ISO_OK;
    int room = 2 * tensors, part_room = 2 * decomposed;
    if (!grow(&p->resolved, p->tensor_room, room, sizeof *p->resolved) ||
        !grow(&p->first_value, p->tensor_room, room, sizeof *p->first_value) ||
        !grow(&p->last_value, p->tensor_room, room, sizeof *p->last_value) ||
        !grow(&p->reader, p->reader ? p->tensor_room : 0, room, sizeof *p->reader) ||
        !grow(&p->next_reader, p->part_room, part_room, sizeof *p->next_reader))
        return iso_error(ISO_NO_MEMORY, "no memory to partition %d tensors", tensors);
    p->tensor_room = room;
    p->part_room = part_room;
    return ISO_OK;
}

/* Tensors of decomposed ops are numbered after those of the graph. */
static iso_status number_tensors(iso_partitioner *p, int first)
{
    iso_graph *decomposed = p->program->decomposed;
    int base = p->graph->n_tensors;
    iso_status status = ISO_OK;
    ISO_TRY(decompose_make_room(p, base + decomposed->n_tensors, decomposed->n_ops));
    for (int i = first; i < decomposed->n_tensors; i++) {
        decomposed->tensors[i]->id = base + i;
        p->resolved[base + i] = decomposed->tensors[i];
        p->first_value[base + i] = -1;
    }
done:
    return status;
}

iso_status iso_partition_decompose(iso_partitioner *p, const iso_op *op, int *begin, int *end)
{
    iso_program *program = p->program;
    if (!program->decomposed)
        program->decomposed = iso_graph_create(p->graph->ctx);
    iso_graph *decomposed = program->decomposed;
    int first = decomposed->n_ops, first_tensor = decomposed->n_tensors;
    decomposed->precision = p->graph->precision;
    iso_tensor *in[ISO_MAX_INPUTS], *real[ISO_MAX_INPUTS], *out[ISO_MAX_OUTPUTS];
    stand_in(decomposed, op, in);
    op->type->decompose(op, in, out);
    iso_status status = ISO_OK;
    ISO_TRY(iso_graph_error(decomposed));
    ISO_TRY(number_tensors(p, first_tensor));
    for (int i = 0; i < op->n_inputs; i++)
        real[i] = p->resolved[op->inputs[i]->id];
    for (int o = 0; o < op->n_outputs; o++)
        out[o]->producer->outputs[out[o]->output] = op->outputs[o];
    tie(p, first, op, real);
    *begin = first + op->n_inputs;
    *end = decomposed->n_ops;
done:
    return status;
}
