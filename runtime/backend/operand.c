/* Operands as kernels see them. */
#include <string.h>

#include "runtime/backend/backend.h"
#include "runtime/graph/op.h"

static void operand_close_gap(int64_t *extents, int at, int gap, int rank)
{
    memmove(extents + at, extents + at + gap, (size_t)(rank - at - gap) * sizeof *extents);
}

/* Dimensions [begin, begin + count) become one. Of several it no longer says which part of the tensor it is. */
static void operand_merge(iso_array *array, int begin, int count)
{
    for (int i = 1; i < count; i++) {
        array->dim[begin] *= array->dim[begin + i];
        array->global[begin] *= array->global[begin + i];
        array->offset[begin] = 0;
    }
    operand_close_gap(array->dim, begin + 1, count - 1, array->rank);
    operand_close_gap(array->global, begin + 1, count - 1, array->rank);
    operand_close_gap(array->offset, begin + 1, count - 1, array->rank);
    array->rank -= count - 1;
}

iso_array iso_operand_of(const iso_op *op, iso_array array)
{
    if (op->type->image_height) {
        const int height = op->type->image_height(op, array.rank), after = height + 2;
        operand_merge(&array, after, array.rank - after);
        const bool depth = height > 1 && op->type->has_depth && op->type->has_depth(op);
        operand_merge(&array, 0, depth ? height - 1 : height);
    }
    return array;
}
