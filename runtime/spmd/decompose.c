/* Ops in blocks: where a dimension that an op's rule holds whole is sharded, ops whose rules let it be so
 * take the op's place (iso_op_type.split). They live in a graph of the program's own, and are built as any
 * network is; then inputs and results are tied to the tensors of the program. */
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/spmd/partition_impl.h"

static bool shared_out(const iso_mesh *mesh, const iso_sharding *sharding)
{
    for (int i = 0; i < sharding->count; i++)
        if (mesh->size[sharding->axis[i]] > 1)
            return true;
    return false;
}

bool iso_partition_wants_decomposition(const iso_partitioner *p, const iso_op *op)
{
    iso_rule rule;
    if (!op->type->split)
        return false;
    iso_op_rule(op, &rule);
    for (int i = 0; i < op->inputs; i++) {
        const iso_tensor *x = p->resolved[op->input[i]->id];
        for (int d = 0; d < x->shape.rank; d++)
            if (rule.input[i][d] == ISO_WHOLE && shared_out(p->mesh, &iso_partition_layout(p, x)->dim[d]))
                return true;
    }
    return false;
}

/* ---- building ---- */

/* Inputs of the pieces' graph that stand for the op's. */
static void stand_in(iso_graph *pieces, const iso_op *op, iso_tensor **in)
{
    for (int i = 0; i < op->inputs; i++) {
        iso_input_attrs attrs = {.name = "input", .dtype = op->input[i]->dtype, .shape = op->input[i]->shape};
        in[i] = iso_op_create(pieces, &iso_op_input, NULL, 0, &attrs);
    }
}

/* What a tensor of the pieces was replaced by: its producer's output, which is then another tensor. */
static iso_tensor *standing_for(const iso_tensor *tensor)
{
    return tensor->producer->output[tensor->output];
}

static bool same_op(const iso_op *a, const iso_op *b)
{
    return a->type == b->type && a->type->shared && a->inputs == b->inputs &&
           memcmp(a->input, b->input, (size_t)a->inputs * sizeof *a->input) == 0 &&
           memcmp(a->attrs, b->attrs, a->type->attr_size) == 0;
}

static bool gives_result(const iso_op *piece, const iso_op *op)
{
    for (int o = 0; o < op->outputs; o++)
        for (int k = 0; k < piece->outputs; k++)
            if (piece->output[k] == op->output[o])
                return true;
    return false;
}

/* Leaves out a piece that one before it computes already: the statistics of logits serve loss, gradient and
 * accuracy. Pieces that may be asked for again are chained by the tensor that they read first. */
static bool is_repeated(iso_partitioner *p, int number)
{
    iso_graph *pieces = p->program->decomposed;
    iso_op *piece = pieces->op[number];
    if (!piece->type->shared)
        return false;
    int *last = &p->reader[piece->input[0]->id];
    for (int k = *last; k > 0; k = p->next_reader[k - 1])
        if (same_op(pieces->op[k - 1], piece)) {
            memcpy(piece->output, pieces->op[k - 1]->output, sizeof piece->output);
            return true;
        }
    p->next_reader[number] = *last;
    *last = number + 1;
    return false;
}

/* Gives the pieces from `first` on their real inputs and outputs; those that are none are left out. */
static void tie(iso_partitioner *p, int first, const iso_op *op, iso_tensor *const *in)
{
    iso_graph *pieces = p->program->decomposed;
    for (int k = first; k < pieces->ops; k++) {
        iso_op *piece = pieces->op[k];
        piece->id = op->id;
        piece->backward_of = op->backward_of;
        if (k < first + op->inputs) {
            piece->output[0] = in[k - first];
            pieces->op[k] = NULL;
            continue;
        }
        for (int i = 0; i < piece->inputs; i++)
            piece->input[i] = standing_for(piece->input[i]);
        if (!gives_result(piece, op) && is_repeated(p, k))
            pieces->op[k] = NULL;
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

/* Room in what the partitioner keeps of tensors and pieces, for these and as many more. */
static iso_status make_room(iso_partitioner *p, int tensors, int pieces)
{
    if (tensors <= p->tensor_room && pieces <= p->piece_room)
        return ISO_OK;
    int room = 2 * tensors, piece_room = 2 * pieces;
    if (!grow(&p->resolved, p->tensor_room, room, sizeof *p->resolved) ||
        !grow(&p->first_value, p->tensor_room, room, sizeof *p->first_value) ||
        !grow(&p->last_value, p->tensor_room, room, sizeof *p->last_value) ||
        !grow(&p->reader, p->reader ? p->tensor_room : 0, room, sizeof *p->reader) ||
        !grow(&p->next_reader, p->piece_room, piece_room, sizeof *p->next_reader))
        return iso_error(ISO_NO_MEMORY, "no memory to partition %d tensors", tensors);
    p->tensor_room = room;
    p->piece_room = piece_room;
    return ISO_OK;
}

/* The pieces' tensors get numbers behind those of the graph. */
static iso_status number_tensors(iso_partitioner *p, int first)
{
    iso_graph *pieces = p->program->decomposed;
    int base = p->graph->tensors;
    iso_status status = make_room(p, base + pieces->tensors, pieces->ops);
    for (int i = first; i < pieces->tensors && status == ISO_OK; i++) {
        pieces->tensor[i]->id = base + i;
        p->resolved[base + i] = pieces->tensor[i];
        p->first_value[base + i] = -1;
    }
    return status;
}

iso_status iso_partition_decompose(iso_partitioner *p, const iso_op *op, int *begin, int *end)
{
    iso_program *program = p->program;
    if (!program->decomposed)
        program->decomposed = iso_graph_create(p->graph->ctx);
    iso_graph *pieces = program->decomposed;
    int first = pieces->ops, first_tensor = pieces->tensors;
    pieces->precision = p->graph->precision;
    iso_tensor *in[ISO_MAX_INPUTS], *real[ISO_MAX_INPUTS], *out[ISO_MAX_OUTPUTS];
    stand_in(pieces, op, in);
    op->type->split(op, in, out);
    iso_status status = iso_graph_error(pieces);
    if (status == ISO_OK)
        status = number_tensors(p, first_tensor);
    if (status != ISO_OK)
        return status;
    for (int i = 0; i < op->inputs; i++)
        real[i] = p->resolved[op->input[i]->id];
    for (int o = 0; o < op->outputs; o++)
        out[o]->producer->output[out[o]->output] = op->output[o];
    tie(p, first, op, real);
    *begin = first + op->inputs;
    *end = pieces->ops;
    return ISO_OK;
}
