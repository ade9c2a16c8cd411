/* Arithmetic of two operands, element by element, with NumPy's broadcasting. */
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/ops/attrs.h"
#include "runtime/graph/ops/list.h"
#include "runtime/graph/ops/ops_impl.h"

static bool infer_numbers(iso_op *op)
{
    if (op->inputs[0]->dtype == ISO_BOOL)
        return iso_op_refuse(op, "takes numbers, not bool; iso_cast converts them");
    return iso_infer_broadcast(op);
}

static bool infer_floats(iso_op *op)
{
    if (!iso_dtype_is_float(op->inputs[0]->dtype))
        return iso_op_refuse(op, "takes float32 or float64");
    return iso_infer_broadcast(op);
}

/* Gradients of the broadcast operands, summed to the operands' own shapes. */
static void give(iso_op *op, iso_tensor *da, iso_tensor *db, iso_tensor **dx)
{
    dx[0] = iso_sum_to_shape(da, &op->inputs[0]->shape);
    dx[1] = iso_sum_to_shape(db, &op->inputs[1]->shape);
}

static void add_backward(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    give(op, dy[0], dy[0], dx);
}

static void subtract_backward(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    dx[0] = iso_sum_to_shape(dy[0], &op->inputs[0]->shape);
    dx[1] = iso_negate(iso_sum_to_shape(dy[0], &op->inputs[1]->shape));
}

static void multiply_backward(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    give(op, iso_multiply(dy[0], op->inputs[1]), iso_multiply(dy[0], op->inputs[0]), dx);
}

/* y = a / b: da = dy / b, db = -y da */
static void divide_backward(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    iso_tensor *da = iso_divide(dy[0], op->inputs[1]);
    give(op, da, iso_negate(iso_multiply(da, op->outputs[0])), dx);
}

/* y = a^b: da = dy b a^(b-1), db = dy y log(a), which is 0 if a is not positive */
static void power_backward(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    iso_tensor *a = op->inputs[0], *b = op->inputs[1];
    iso_tensor *zero = iso_number(op->graph, a->dtype, 0), *one = iso_number(op->graph, a->dtype, 1);
    iso_tensor *da = iso_multiply(iso_multiply(dy[0], b), iso_power(a, iso_affine(b, 1, -1)));
    iso_tensor *positive = iso_greater(a, zero);
    iso_tensor *log = iso_where(positive, iso_log(iso_where(positive, a, one)), zero);
    give(op, da, iso_multiply(iso_multiply(dy[0], op->outputs[0]), log), dx);
}

/* If the operands are equal, the first gets the gradient, as in TensorFlow. */
static void choose_backward(iso_op *op, iso_tensor *first_wins, iso_tensor *dy, iso_tensor **dx)
{
    iso_tensor *zero = iso_number(op->graph, dy->dtype, 0);
    give(op, iso_where(first_wins, dy, zero), iso_where(first_wins, zero, dy), dx);
}

static void maximum_backward(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    choose_backward(op, iso_greater_equal(op->inputs[0], op->inputs[1]), dy[0], dx);
}

static void minimum_backward(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    choose_backward(op, iso_less_equal(op->inputs[0], op->inputs[1]), dy[0], dx);
}

#define BINARY(NAME, INFER, ...)                                                                             \
    const iso_op_type iso_op_##NAME = {.name = #NAME,                                                        \
                                       .infer = INFER,                                                       \
                                       .gradient = NAME##_backward,                                          \
                                       .rule = "...,...->...",                                               \
                                       .in_place = 3,                                                        \
                                       __VA_ARGS__};                                                         \
    iso_tensor *iso_##NAME(iso_tensor *a, iso_tensor *b)                                                     \
    {                                                                                                        \
        ISO_NEED_TENSORS(a, b);                                                                              \
        return iso_op_2(&iso_op_##NAME, a, b, NULL);                                                         \
    }

BINARY(add, infer_numbers, .linear = 3, .jointly = true)
BINARY(subtract, infer_numbers, .linear = 3, .jointly = true)
BINARY(multiply, infer_numbers, .linear = 3)
BINARY(divide, infer_floats, .linear = 1)
BINARY(power, infer_floats, .linear = 0)
BINARY(maximum, infer_numbers, .linear = 0)
BINARY(minimum, infer_numbers, .linear = 0)
