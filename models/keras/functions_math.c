/* Functions of keras.ops of single elements: arithmetic with arrays, comparisons, activations with their settings. */
#include <math.h>
#include <string.h>

#include "models/keras/functions_impl.h"

/* ---- arithmetic ---- */

/* The operands in one type; bool are numbers. */
static void promote_numbers(iso_keras_function *f, bool real)
{
    iso_keras_promote(f, 0, f->count, real);
    for (int i = 0; f->status == ISO_OK && i < f->count; i++)
        if (iso_tensor_dtype(f->operand[i].tensor) == ISO_BOOL)
            f->operand[i].tensor = iso_cast(f->operand[i].tensor, ISO_I32);
}

static void of_two(iso_keras_function *f, iso_tensor *(*op)(iso_tensor *, iso_tensor *), bool real)
{
    promote_numbers(f, real);
    if (f->status == ISO_OK)
        iso_keras_give(f, op(f->operand[0].tensor, f->operand[1].tensor));
}

static void add(iso_keras_function *f)
{
    of_two(f, iso_add, false);
}

static void subtract(iso_keras_function *f)
{
    of_two(f, iso_subtract, false);
}

static void multiply(iso_keras_function *f)
{
    of_two(f, iso_multiply, false);
}

static void divide(iso_keras_function *f)
{
    of_two(f, iso_divide, true);
}

static void power(iso_keras_function *f)
{
    of_two(f, iso_power, true);
}

static void maximum(iso_keras_function *f)
{
    of_two(f, iso_maximum, false);
}

static void minimum(iso_keras_function *f)
{
    of_two(f, iso_minimum, false);
}

static void clip(iso_keras_function *f)
{
    const double low = iso_config_number(f->settings, "x_min", -HUGE_VAL),
                 high = iso_config_number(f->settings, "x_max", HUGE_VAL);
    const bool whole = low == floor(low) && high == floor(high);
    promote_numbers(f, !whole);
    if (f->status != ISO_OK)
        return;
    iso_tensor *x = f->operand[0].tensor;
    if (low > -HUGE_VAL)
        x = iso_maximum(x, iso_number(f->net->graph, iso_tensor_dtype(x), low));
    if (high < HUGE_VAL)
        x = iso_minimum(x, iso_number(f->net->graph, iso_tensor_dtype(x), high));
    iso_keras_give(f, x);
}

/* ---- comparisons and choices ---- */

static void compare(iso_keras_function *f, iso_tensor *(*op)(iso_tensor *, iso_tensor *))
{
    iso_keras_promote(f, 0, 2, false);
    if (f->status == ISO_OK)
        iso_keras_give(f, op(f->operand[0].tensor, f->operand[1].tensor));
}

static void equal(iso_keras_function *f)
{
    compare(f, iso_equal);
}

static void not_equal(iso_keras_function *f)
{
    compare(f, iso_not_equal);
}

static void less(iso_keras_function *f)
{
    compare(f, iso_less);
}

static void less_equal(iso_keras_function *f)
{
    compare(f, iso_less_equal);
}

static void greater(iso_keras_function *f)
{
    compare(f, iso_greater);
}

static void greater_equal(iso_keras_function *f)
{
    compare(f, iso_greater_equal);
}

static iso_tensor *truth(iso_keras_function *f, int i)
{
    iso_tensor *x = iso_keras_operand_of(f, i);
    return iso_tensor_dtype(x) == ISO_BOOL
               ? x
               : iso_not_equal(x, iso_number(f->net->graph, iso_tensor_dtype(x), 0));
}

static void logical_and(iso_keras_function *f)
{
    iso_keras_give(f, iso_logical_and(truth(f, 0), truth(f, 1)));
}

static void logical_or(iso_keras_function *f)
{
    iso_keras_give(f, iso_logical_or(truth(f, 0), truth(f, 1)));
}

static void logical_xor(iso_keras_function *f)
{
    iso_keras_give(f, iso_not_equal(truth(f, 0), truth(f, 1)));
}

static void logical_not(iso_keras_function *f)
{
    iso_keras_give(f, iso_logical_not(truth(f, 0)));
}

static void where(iso_keras_function *f)
{
    iso_tensor *condition = truth(f, 0);
    iso_keras_promote(f, 1, 2, false);
    if (f->status == ISO_OK)
        iso_keras_give(f, iso_where(condition, f->operand[1].tensor, f->operand[2].tensor));
}

/* ---- types, and constants in the shape of a tensor ---- */

static iso_dtype chosen_type(iso_keras_function *f, iso_dtype default_value)
{
    const char *name = f->settings->text(f->settings, "dtype");
    iso_dtype type = name ? iso_dtype_named(name) : default_value;
    if (type == ISO_F64 && iso_graph_precision(f->net->graph) != ISO_F64)
        type = ISO_DTYPE_NONE;
    if (type == ISO_DTYPE_NONE)
        iso_config_refuse(f->settings, "dtype", "float32, bfloat16, int32, int64, uint8, bool");
    return type == ISO_F32 ? iso_graph_precision(f->net->graph) : type;
}

static void convert_to_tensor(iso_keras_function *f)
{
    iso_tensor *x = iso_keras_operand_of(f, 0);
    iso_dtype type = chosen_type(f, iso_tensor_dtype(x));
    if (type != ISO_DTYPE_NONE)
        iso_keras_give(f, iso_cast(x, type));
}

static void filled(iso_keras_function *f, double value)
{
    iso_tensor *x = iso_keras_operand_of(f, 0);
    iso_dtype type = chosen_type(f, iso_tensor_dtype(x));
    if (type != ISO_DTYPE_NONE)
        iso_keras_give(f, iso_broadcast_to(iso_number(f->net->graph, type, value), *iso_tensor_shape(x)));
}

static void ones_like(iso_keras_function *f)
{
    filled(f, 1);
}

static void zeros_like(iso_keras_function *f)
{
    filled(f, 0);
}

static void full_like(iso_keras_function *f)
{
    if (!f->operand[1].number)
        iso_keras_refuse_call(f, "fill_value is no number");
    else
        filled(f, f->operand[1].value);
}

/* ---- functions of one tensor ---- */

static void give_activation(iso_keras_function *f, iso_activation_kind kind)
{
    iso_keras_give(f, iso_activate(iso_keras_real_operand(f, 0), kind));
}

static void relu6(iso_keras_function *f)
{
    give_activation(f, ISO_RELU6);
}

static void selu(iso_keras_function *f)
{
    give_activation(f, ISO_SELU);
}

static void softsign(iso_keras_function *f)
{
    give_activation(f, ISO_SOFTSIGN);
}

static void hard_sigmoid(iso_keras_function *f)
{
    give_activation(f, ISO_HARD_SIGMOID);
}

static void hard_silu(iso_keras_function *f)
{
    give_activation(f, ISO_HARD_SILU);
}

static void log_sigmoid(iso_keras_function *f)
{
    give_activation(f, ISO_LOG_SIGMOID);
}

static void leaky_relu(iso_keras_function *f)
{
    const double slope = iso_config_number(f->settings, "negative_slope", 0.2);
    iso_keras_give(f, iso_leaky_relu(iso_keras_real_operand(f, 0), slope));
}

static void elu(iso_keras_function *f)
{
    const double alpha = iso_config_number(f->settings, "alpha", 1);
    iso_keras_give(f, iso_elu(iso_keras_real_operand(f, 0), alpha));
}

static void hard_tanh(iso_keras_function *f)
{
    iso_tensor *x = iso_keras_real_operand(f, 0);
    iso_tensor *one = iso_number(f->net->graph, iso_tensor_dtype(x), 1),
               *minus_one = iso_number(f->net->graph, iso_tensor_dtype(x), -1);
    iso_keras_give(f, iso_minimum(iso_maximum(x, minus_one), one));
}

/* Half of x along an axis times the sigmoid of the other half. */
static void glu(iso_keras_function *f)
{
    iso_tensor *x = iso_keras_real_operand(f, 0);
    int axis = iso_keras_axis(f, "axis", x, -1);
    if (axis < 0)
        return;
    const int64_t n = iso_tensor_shape(x)->dim[axis];
    if (n == ISO_BATCH || n % 2 != 0)
        iso_config_refuse(f->settings, "axis",
                          "a dimension other than the batch, with an even number of elements");
    else
        iso_keras_give(f, iso_multiply(iso_keras_part(x, axis, 0, n / 2),
                                       iso_sigmoid(iso_keras_part(x, axis, n / 2, n / 2))));
}

static void rsqrt(iso_keras_function *f)
{
    iso_keras_give(f, iso_rsqrt(iso_keras_real_operand(f, 0)));
}

static void sign(iso_keras_function *f)
{
    iso_keras_give(f, iso_sign(iso_keras_real_operand(f, 0)));
}

static void reciprocal(iso_keras_function *f)
{
    iso_tensor *x = iso_keras_real_operand(f, 0);
    iso_keras_give(f, iso_divide(iso_number(f->net->graph, iso_tensor_dtype(x), 1), x));
}

static void stop_gradient(iso_keras_function *f)
{
    iso_keras_give(f, iso_stop_gradient(iso_keras_operand_of(f, 0)));
}

const iso_keras_function_type iso_keras_math_functions[] = {{"Add", "x1 x2", add},
                                                            {"Subtract", "x1 x2", subtract},
                                                            {"Multiply", "x1 x2", multiply},
                                                            {"Divide", "x1 x2", divide},
                                                            {"TrueDivide", "x1 x2", divide},
                                                            {"Power", "x1 x2", power},
                                                            {"Maximum", "x1 x2", maximum},
                                                            {"Minimum", "x1 x2", minimum},
                                                            {"Clip", "x", clip},
                                                            {"Equal", "x1 x2", equal},
                                                            {"NotEqual", "x1 x2", not_equal},
                                                            {"Less", "x1 x2", less},
                                                            {"LessEqual", "x1 x2", less_equal},
                                                            {"Greater", "x1 x2", greater},
                                                            {"GreaterEqual", "x1 x2", greater_equal},
                                                            {"LogicalAnd", "x1 x2", logical_and},
                                                            {"LogicalOr", "x1 x2", logical_or},
                                                            {"LogicalXor", "x1 x2", logical_xor},
                                                            {"LogicalNot", "x", logical_not},
                                                            {"Where", "condition x1 x2", where},
                                                            {"ConvertToTensor", "x", convert_to_tensor},
                                                            {"OnesLike", "x", ones_like},
                                                            {"ZerosLike", "x", zeros_like},
                                                            {"FullLike", "x fill_value", full_like},
                                                            {"LeakyRelu", "x", leaky_relu},
                                                            {"Elu", "x", elu},
                                                            {"Relu6", "x", relu6},
                                                            {"Selu", "x", selu},
                                                            {"Softsign", "x", softsign},
                                                            {"HardSigmoid", "x", hard_sigmoid},
                                                            {"HardSilu", "x", hard_silu},
                                                            {"HardTanh", "x", hard_tanh},
                                                            {"LogSigmoid", "x", log_sigmoid},
                                                            {"Glu", "x", glu},
                                                            {"Rsqrt", "x", rsqrt},
                                                            {"Sign", "x", sign},
                                                            {"Reciprocal", "x", reciprocal},
                                                            {"StopGradient", "variable", stop_gradient},
                                                            {0}};
