/* Resolves the mode of a function: which tensor replaces which, and which are absent.
 *
 * A gate passes its input in one mode. In the other mode its output is absent: a zero that is never
 * computed. Absent tensors occur only in the backward pass, where ops are linear in the gradient: a sum
 * drops an absent term, and any other op on an absent gradient is absent. */
#include <string.h>

#include "runtime/spmd/program.h"

static void resolve_all(const iso_op *op, iso_tensor *value, iso_tensor **resolved)
{
    for (int i = 0; i < op->n_outputs; i++)
        resolved[op->outputs[i]->id] = value ? op->outputs[i] : NULL;
}

static void resolve_op(const iso_op *op, bool training, iso_tensor **resolved)
{
    iso_tensor *in[ISO_MAX_INPUTS];
    int absent = 0;
    for (int i = 0; i < op->n_inputs; i++)
        absent += (in[i] = resolved[op->inputs[i]->id]) == NULL;
    if (op->type == &iso_op_by_mode) {
        const iso_mode_attrs *attrs = op->attrs;
        resolved[op->outputs[0]->id] = in[iso_mode_of(attrs->variable, training) ? 0 : 1];
    } else if (op->type == &iso_op_gate) {
        const iso_gate_attrs *attrs = op->attrs;
        resolved[op->outputs[0]->id] =
            attrs->training == iso_mode_of(attrs->variable, training) ? in[0] : NULL;
    } else if (absent == 1 && op->n_inputs == 2 && strcmp(op->type->name, "add") == 0) {
        resolved[op->outputs[0]->id] = in[0] ? in[0] : in[1];
    } else {
        resolve_all(op, absent ? NULL : op->outputs[0], resolved);
    }
}

void iso_resolve(const iso_graph *graph, bool training, iso_tensor **resolved)
{
    for (int k = 0; k < graph->n_ops; k++)
        resolve_op(graph->ops[k], training, resolved);
}
