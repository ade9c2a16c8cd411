#include "runtime/graph/ops/ops_impl.h"

#include <stdarg.h>
#include <stdio.h>

#include "runtime/base/text.h"
#include "runtime/base/thread_modes.h"
#include "runtime/graph/null_tensor.h"

static void add_inputs(iso_text *text, const iso_op *op)
{
    char shape[160];
    for (int i = 0; i < op->n_inputs; i++) {
        const iso_tensor *x = op->inputs[i];
        iso_text_add(text, "%s%s%s%s %s", i ? ", " : "", x->name ? x->name : "", x->name ? ": " : "",
                     iso_dtype_name(x->dtype), iso_shape_text(&x->shape, shape, sizeof(shape)));
    }
}

bool iso_op_refuse(iso_op *op, const char *format, ...)
{
    ISO_DEFAULT_MODES();
    char message[256];
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof(message), format, list);
    va_end(list);
    iso_text inputs = {0};
    add_inputs(&inputs, op);
    iso_graph_fail(op->graph, "%s: %s (given %s)", op->type->name, message, iso_text_get(&inputs));
    iso_text_free(&inputs);
    return false;
}

bool iso_op_set_output(iso_op *op, iso_dtype dtype, const iso_shape *shape)
{
    op->outputs[0]->dtype = dtype;
    op->outputs[0]->shape = *shape;
    return true;
}

bool iso_infer_same(iso_op *op)
{
    return iso_op_set_output(op, op->inputs[0]->dtype, &op->inputs[0]->shape);
}

bool iso_infer_same_float(iso_op *op)
{
    if (!iso_dtype_is_float(op->inputs[0]->dtype))
        return iso_op_refuse(op, "takes float32 or float64");
    return iso_infer_same(op);
}

bool iso_infer_broadcast(iso_op *op)
{
    iso_shape shape = op->inputs[0]->shape;
    for (int i = 1; i < op->n_inputs; i++) {
        if (op->inputs[i]->dtype != op->inputs[0]->dtype)
            return iso_op_refuse(op, "operands have different types; iso_cast converts them");
        if (!iso_shape_broadcast(&shape, &op->inputs[i]->shape, &shape))
            return iso_op_refuse(op, "shapes do not broadcast together");
    }
    return iso_op_set_output(op, op->inputs[0]->dtype, &shape);
}

iso_tensor *iso_op_1(const iso_op_type *type, iso_tensor *x, const void *attrs)
{
    ISO_NEED_TENSORS(x);
    return iso_op_create(x->graph, type, &x, 1, attrs);
}

iso_tensor *iso_op_2(const iso_op_type *type, iso_tensor *a, iso_tensor *b, const void *attrs)
{
    ISO_NEED_TENSORS(a, b);
    return iso_op_create(a->graph, type, (iso_tensor *[]){a, b}, 2, attrs);
}

iso_tensor *iso_op_3(const iso_op_type *type, iso_tensor *a, iso_tensor *b, iso_tensor *c, const void *attrs)
{
    ISO_NEED_TENSORS(a, b, c);
    return iso_op_create(a->graph, type, (iso_tensor *[]){a, b, c}, 3, attrs);
}

/* Dimension `i` of a shape, counted from the last; 1 before its first. */
static int64_t dim_from_end(const iso_shape *shape, int i)
{
    return i < shape->rank ? shape->dim[shape->rank - 1 - i] : 1;
}

bool iso_shape_broadcast(const iso_shape *a, const iso_shape *b, iso_shape *both)
{
    iso_shape out = {.rank = a->rank > b->rank ? a->rank : b->rank};
    for (int i = 0; i < out.rank; i++) {
        int64_t x = dim_from_end(a, i), y = dim_from_end(b, i);
        if (x != y && x != 1 && y != 1)
            return false;
        out.dim[out.rank - 1 - i] = x == 1 ? y : x;
    }
    *both = out;
    return true;
}

int iso_axis(iso_tensor *x, int axis)
{
    if (ISO_ANY_NULL(x))
        return -1;
    int rank = x->shape.rank, from_front = axis < 0 ? axis + rank : axis;
    if (from_front >= 0 && from_front < rank)
        return from_front;
    char shape[160];
    if (iso_tensor_good(x))
        iso_graph_fail(x->graph, "axis %d is out of range for %s %s", axis, x->name ? x->name : "shape",
                       iso_shape_text(&x->shape, shape, sizeof(shape)));
    return -1;
}

int64_t iso_shape_product(const iso_shape *shape, int begin, int end, bool *batch)
{
    int64_t product = 1;
    if (batch)
        *batch = false;
    for (int i = begin; i < end; i++) {
        if (shape->dim[i] != ISO_BATCH)
            product *= shape->dim[i];
        else if (batch)
            *batch = true;
    }
    return product;
}

void iso_rule_clear(const iso_op *op, iso_rule *rule)
{
    *rule = (iso_rule){0};
    for (int i = 0; i < op->n_inputs; i++)
        for (int d = 0; d < ISO_MAX_RANK; d++)
            rule->input[i][d] = ISO_WHOLE;
    for (int i = 0; i < op->n_outputs; i++)
        for (int d = 0; d < ISO_MAX_RANK; d++)
            rule->output[i][d] = ISO_WHOLE;
}

int8_t iso_rule_factor(iso_rule *rule)
{
    return (int8_t)rule->n_factors++;
}
