/* Limits of the integers that rows of data may hold. */
#include <string.h>

#include "runtime/graph/op.h"
#include "runtime/train/index_limits.h"
#include "runtime/train/loss.h"

/* Whether an op gives the elements of its first input, in another shape, order or type. */
static bool moves_elements(const iso_op *op)
{
    static const char *const movers[] = {"reshape", "transpose", "cast"};
    for (size_t i = 0; i < sizeof movers / sizeof *movers; i++)
        if (strcmp(op->type->name, movers[i]) == 0)
            return true;
    return false;
}

/* The tensor whose elements these are. */
static const iso_tensor *source_of(const iso_tensor *x)
{
    while (x->producer && moves_elements(x->producer))
        x = x->producer->inputs[0];
    return x;
}

int64_t iso_model_input_limit(iso_model *model, int input)
{
    const iso_tensor *x = iso_model_input_at(model, input);
    const iso_graph *graph = iso_tensor_graph(x);
    int64_t least = 0;
    for (int i = 0; i < iso_graph_op_count(graph); i++) {
        const iso_op *op = iso_graph_op(graph, i);
        if (strcmp(op->type->name, "embedding") != 0 || op->n_inputs < 2 || source_of(op->inputs[1]) != x)
            continue;
        int64_t rows = iso_tensor_shape(op->inputs[0])->dim[0];
        least = least == 0 || rows < least ? rows : least;
    }
    return least;
}

int64_t iso_model_target_limit(iso_model *model, int output, iso_loss loss)
{
    const iso_shape *y = iso_tensor_shape(iso_model_output_at(model, output));
    return iso_loss_targets_of(loss) == ISO_LOSS_OF_CLASSES && y->rank > 1 ? y->dim[y->rank - 1] : 0;
}
