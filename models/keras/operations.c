/* Operations of keras.ops between layers, such as `x + y` and `2 * x` make in a file: here those whose only
 * arguments are one or two tensors, or a tensor and a number, gelu and cast. The others are in functions.c. */
#include <string.h>

#include "models/keras/functions_impl.h"
#include "models/keras/network_impl.h"
#include "models/keras/writer_impl.h"

typedef iso_tensor *(*unary)(iso_tensor *x);

/* An operation with a setting: whether it is computed by tanh. Keras's default is true. */
#define GELU "Gelu"
#define APPROXIMATE "approximate"
static iso_tensor *gelu_by_tanh(iso_tensor *x)
{
    return iso_gelu(x, true);
}

/* The other one: the type of the result. */
#define DTYPE "dtype"

static const struct {
    const char *type; /* the class in keras.src.ops */
    iso_keras_binary two;
    unary one;
} operations[] = {
    {"Add", iso_add, NULL},         {"Subtract", iso_subtract, NULL}, {"Multiply", iso_multiply, NULL},
    {"Divide", iso_divide, NULL},   {"TrueDivide", iso_divide, NULL}, {"Maximum", iso_maximum, NULL},
    {"Minimum", iso_minimum, NULL}, {"Negative", NULL, iso_negate},   {"Absolute", NULL, iso_abs},
    {"Exp", NULL, iso_exp},         {"Log", NULL, iso_log},           {"Sqrt", NULL, iso_sqrt},
    {"Square", NULL, iso_square},   {"Tanh", NULL, iso_tanh},         {"Relu", NULL, iso_relu},
    {"Sigmoid", NULL, iso_sigmoid}, {"Silu", NULL, iso_silu},         {"Softplus", NULL, iso_softplus},
    {GELU, NULL, gelu_by_tanh},     {ISO_KERAS_CAST, NULL, NULL},     {"Power", iso_power, NULL},
};
enum { OPERATIONS = sizeof operations / sizeof operations[0] };

bool iso_keras_is_module_of_operations(const char *module)
{
    return strncmp(module, "keras.src.ops.", 14) == 0;
}

bool iso_keras_is_operation(const iso_keras_layer *l)
{
    const char *module = iso_keras_text(l->entry, "module");
    return module && iso_keras_is_module_of_operations(module);
}

static int operations_find(const char *type)
{
    for (int i = 0; i < OPERATIONS; i++)
        if (strcmp(type, operations[i].type) == 0)
            return i;
    return -1;
}

iso_keras_binary iso_keras_binary_of(const char *type)
{
    const int kind = operations_find(type);
    return kind < 0 ? NULL : operations[kind].two;
}

/* A tensor with a number: a scale and an offset if possible, so that it can be written as a layer again.
 * number_first: "2 - x". */
static iso_tensor *with_number(const char *type, iso_keras_binary op, iso_tensor *x, double number,
                               bool number_first)
{
    bool real = iso_dtype_is_float(iso_tensor_dtype(x));
    if (real && strcmp(type, "Add") == 0)
        return iso_affine(x, 1, number);
    if (real && strcmp(type, "Subtract") == 0)
        return number_first ? iso_affine(x, -1, number) : iso_affine(x, 1, -number);
    if (real && strcmp(type, "Multiply") == 0)
        return iso_affine(x, number, 0);
    if (op == iso_divide && !number_first)
        return iso_affine(x, 1 / number, 0);
    iso_tensor *constant = iso_number(iso_tensor_graph(x), iso_tensor_dtype(x), number);
    return number_first ? op(constant, x) : op(x, constant);
}

iso_status iso_keras_check_operation(const iso_keras_network *net, const iso_keras_layer *l)
{
    return operations_find(l->type) >= 0 || iso_keras_is_function(l)
               ? ISO_OK
               : iso_keras_refuse(
                     net->reader,
                     "the operation %.80s of keras.ops is not supported; docs/keras.md lists those "
                     "that are (\"Functions of keras.ops\")",
                     l->type);
}

/* Checks that the only arguments are the operands. */
static iso_status operations_check(const iso_keras_network *net, const iso_keras_layer *l,
                                   const iso_keras_node *node)
{
    iso_keras_arguments arguments = {.reader = net->reader, .members = l->config, .call = node->others};
    iso_status status = iso_keras_arguments_begin(&arguments);
    if (status == ISO_OK && strcmp(l->type, GELU) == 0 &&
        json_is_boolean(json_object_get(l->config, APPROXIMATE)))
        iso_keras_arguments_take(&arguments, APPROXIMATE);
    if (status == ISO_OK && strcmp(l->type, ISO_KERAS_CAST) == 0)
        iso_keras_arguments_take(&arguments, DTYPE);
    return status == ISO_OK ? iso_keras_arguments_end(&arguments, ISO_OK) : status;
}

/* x in the type in which Keras computes with it and `other` (NULL: alone, or with a number). real: a function or a
 * division, or a real number takes part; then integers are real numbers too. */
static iso_tensor *promoted(iso_tensor *x, const iso_tensor *other, bool real)
{
    iso_dtype type = iso_dtype_promoted(iso_tensor_dtype(x), other ? iso_tensor_dtype(other) : ISO_BOOL);
    if (real && !iso_dtype_is_float(type))
        type = iso_graph_precision(iso_tensor_graph(x));
    else if (type == ISO_BOOL)
        type = ISO_I32;
    return iso_cast(x, type);
}

/* keras.ops.cast. float64 is a type of graphs of that precision alone, as in Keras. */
static iso_status call_cast(const iso_keras_network *net, const iso_keras_layer *l, iso_tensor *x,
                            iso_tensor **y)
{
    char text[120];
    const char *name = iso_keras_text(l->config, DTYPE);
    iso_dtype type = name ? iso_dtype_named(name) : ISO_DTYPE_NONE;
    if (type == ISO_DTYPE_NONE || (type == ISO_F64 && iso_graph_precision(net->graph) != ISO_F64))
        return iso_keras_refuse(net->reader,
                                "dtype is %s; supported: float32, bfloat16, int32, int64, uint8, bool",
                                iso_json_shown(json_object_get(l->config, DTYPE), text, sizeof text));
    *y = iso_cast(x, type);
    return ISO_OK;
}

static iso_status compute(const iso_keras_network *net, const iso_keras_layer *l, const iso_keras_node *node,
                          iso_tensor **y)
{
    const iso_keras_numbers *numbers = &node->numbers;
    int kind = operations_find(l->type);
    iso_tensor *a = node->inputs.tensor[0], *b = node->inputs.count == 2 ? node->inputs.tensor[1] : NULL;
    iso_keras_binary two = operations[kind].two;
    if (strcmp(l->type, ISO_KERAS_CAST) == 0)
        return call_cast(net, l, a, y);
    bool real = !two || two == iso_divide || two == iso_power || numbers->real;
    if (strcmp(l->type, GELU) == 0)
        *y = iso_gelu(promoted(a, NULL, real), !json_is_false(json_object_get(l->config, APPROXIMATE)));
    else if (!two)
        *y = operations[kind].one(promoted(a, NULL, real));
    else if (b)
        *y = two(promoted(a, b, real), promoted(b, a, real));
    else
        *y = with_number(l->type, two, promoted(a, NULL, real), numbers->value, numbers->first);
    return ISO_OK;
}

/* Whether it is a call of tensors and numbers alone. */
static bool is_plain(const iso_keras_layer *l, const iso_keras_node *node)
{
    const int kind = operations_find(l->type), operands = node->inputs.count + node->numbers.count;
    return kind >= 0 && node->plain &&
           (!iso_keras_is_function(l) ||
            (node->inputs.count > 0 && operands == (operations[kind].two ? 2 : 1)));
}

/* A call of tensors and numbers alone. */
static iso_status call_plain(iso_keras_network *net, const iso_keras_layer *l, const iso_keras_node *node,
                             iso_keras_list *out)
{
    int kind = operations_find(l->type), operands = node->inputs.count + node->numbers.count;
    iso_tensor *y = NULL;
    iso_status status;
    ISO_TRY(operations_check(net, l, node));
    if (node->inputs.count == 0 || operands != (operations[kind].two ? 2 : 1))
        return iso_keras_refuse(net->reader, "it is called with %d tensors and %d numbers",
                                node->inputs.count, node->numbers.count);
    ISO_TRY(compute(net, l, node, &y));
    ISO_TRY(iso_keras_graph_error(net));
    ISO_TRY(iso_keras_list_add(out, y, NULL));
done:
    return status;
}

iso_status iso_keras_call_operation(iso_keras_network *net, const iso_keras_layer *l,
                                    const iso_keras_node *node, iso_keras_list *out)
{
    iso_status status;
    ISO_TRY(iso_keras_check_operation(net, l));
    if (iso_keras_is_mask_operation(l->type))
        ISO_TRY(iso_keras_call_mask_operation(net, l, node, out));
    if (out->count == 0)
        ISO_TRY(!iso_keras_is_function(l) || is_plain(l, node) ? call_plain(net, l, node, out)
                                                               : iso_keras_call_function(net, l, node, out));
    ISO_TRY(iso_keras_record_function(net, l, node, out));
done:
    return status;
}
