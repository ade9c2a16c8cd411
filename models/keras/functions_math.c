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

/* An operation of two, here of arrays too. */
static void arithmetic(iso_keras_function *f)
{
    const iso_keras_binary op = iso_keras_binary_of(f->layer->type);
    promote_numbers(f, op == iso_divide || op == iso_power);
    if (f->status == ISO_OK)
        iso_keras_give(f, op(f->operand[0].tensor, f->operand[1].tensor));
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

static const struct {
    const char *type;
    iso_keras_binary op;
} comparisons[] = {{"Equal", iso_equal},     {"NotEqual", iso_not_equal},
                   {"Less", iso_less},       {"LessEqual", iso_less_equal},
                   {"Greater", iso_greater}, {"GreaterEqual", iso_greater_equal}};

static void compare(iso_keras_function *f)
{
    int kind = 0;
    while (strcmp(comparisons[kind].type, f->layer->type) != 0)
        kind++;
    iso_keras_promote(f, 0, 2, false);
    if (f->status == ISO_OK)
        iso_keras_give(f, comparisons[kind].op(f->operand[0].tensor, f->operand[1].tensor));
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

static const struct {
    const char *type;
    iso_activation_kind kind;
} activations[] = {{"Relu6", ISO_RELU6},           {"Selu", ISO_SELU},
                   {"Softsign", ISO_SOFTSIGN},     {"HardSigmoid", ISO_HARD_SIGMOID},
                   {"HardSilu", ISO_HARD_SILU},    {"HardTanh", ISO_HARD_TANH},
                   {"LogSigmoid", ISO_LOG_SIGMOID}};

/* Those without settings. */
static void activate(iso_keras_function *f)
{
    int row = 0;
    while (strcmp(activations[row].type, f->layer->type) != 0)
        row++;
    iso_keras_give(f, iso_activate(iso_keras_real_operand(f, 0), activations[row].kind));
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

const iso_keras_function_type iso_keras_math_functions[] = {{"Add", "x1 x2", arithmetic},
                                                            {"Subtract", "x1 x2", arithmetic},
                                                            {"Multiply", "x1 x2", arithmetic},
                                                            {"Divide", "x1 x2", arithmetic},
                                                            {"TrueDivide", "x1 x2", arithmetic},
                                                            {"Power", "x1 x2", arithmetic},
                                                            {"Maximum", "x1 x2", arithmetic},
                                                            {"Minimum", "x1 x2", arithmetic},
                                                            {"Clip", "x", clip},
                                                            {"Equal", "x1 x2", compare},
                                                            {"NotEqual", "x1 x2", compare},
                                                            {"Less", "x1 x2", compare},
                                                            {"LessEqual", "x1 x2", compare},
                                                            {"Greater", "x1 x2", compare},
                                                            {"GreaterEqual", "x1 x2", compare},
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
                                                            {"Relu6", "x", activate},
                                                            {"Selu", "x", activate},
                                                            {"Softsign", "x", activate},
                                                            {"HardSigmoid", "x", activate},
                                                            {"HardSilu", "x", activate},
                                                            {"HardTanh", "x", activate},
                                                            {"LogSigmoid", "x", activate},
                                                            {"Glu", "x", glu},
                                                            {"Rsqrt", "x", rsqrt},
                                                            {"Sign", "x", sign},
                                                            {"Reciprocal", "x", reciprocal},
                                                            {"StopGradient", "variable", stop_gradient},
                                                            {0}};
