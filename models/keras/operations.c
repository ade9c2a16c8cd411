/* Operations of keras.ops between layers, such as `x + y` and `2 * x` make in a file. Supported are those whose
 * only arguments are one or two tensors, or a tensor and a number, and gelu. */
#include <string.h>

#include "models/keras/network_impl.h"
#include "models/keras/writer_impl.h"

typedef iso_tensor *(*binary)(iso_tensor *a, iso_tensor *b);
typedef iso_tensor *(*unary)(iso_tensor *x);

/* The one operation with a setting: whether it is computed by tanh. Keras's default is true. */
#define GELU "Gelu"
#define APPROXIMATE "approximate"
static iso_tensor *gelu_by_tanh(iso_tensor *x)
{
    return iso_gelu(x, true);
}

static const struct {
    const char *type; /* the class in keras.src.ops */
    binary two;
    unary one;
} operations[] = {
    {"Add", iso_add, NULL},         {"Subtract", iso_subtract, NULL}, {"Multiply", iso_multiply, NULL},
    {"Divide", iso_divide, NULL},   {"TrueDivide", iso_divide, NULL}, {"Maximum", iso_maximum, NULL},
    {"Minimum", iso_minimum, NULL}, {"Negative", NULL, iso_negate},   {"Absolute", NULL, iso_abs},
    {"Exp", NULL, iso_exp},         {"Log", NULL, iso_log},           {"Sqrt", NULL, iso_sqrt},
    {"Square", NULL, iso_square},   {"Tanh", NULL, iso_tanh},         {"Relu", NULL, iso_relu},
    {"Sigmoid", NULL, iso_sigmoid}, {"Silu", NULL, iso_silu},         {"Softplus", NULL, iso_softplus},
    {GELU, NULL, gelu_by_tanh},
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

/* A tensor with a number: a scale and an offset if possible, so that it can be written as a layer again.
 * number_first: "2 - x". */
static iso_tensor *with_number(const char *type, binary op, iso_tensor *x, double number, bool number_first)
{
    if (strcmp(type, "Add") == 0)
        return iso_affine(x, 1, number);
    if (strcmp(type, "Subtract") == 0)
        return number_first ? iso_affine(x, -1, number) : iso_affine(x, 1, -number);
    if (strcmp(type, "Multiply") == 0)
        return iso_affine(x, number, 0);
    if (op == iso_divide && !number_first)
        return iso_affine(x, 1 / number, 0);
    iso_tensor *constant = iso_number(iso_tensor_graph(x), iso_tensor_dtype(x), number);
    return number_first ? op(constant, x) : op(x, constant);
}

static iso_status operations_unknown(const iso_keras_network *net, const char *type)
{
    iso_text text = {0};
    for (int i = 0; i < OPERATIONS; i++)
        iso_text_add(&text, "%s%s", i ? ", " : "", operations[i].type);
    iso_status status =
        iso_keras_refuse(net->reader, "the operation %.80s of keras.ops is not supported; there are: %s",
                         type, iso_text_get(&text));
    iso_text_free(&text);
    return status;
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
    return status == ISO_OK ? iso_keras_arguments_end(&arguments, ISO_OK) : status;
}

/* An operation on bfloat16 and a wider type computes in the wider one, as in Keras. */
static iso_tensor *widened(iso_tensor *x, const iso_tensor *other)
{
    iso_dtype wider = iso_tensor_dtype(other);
    return iso_tensor_dtype(x) == ISO_BF16 && iso_dtype_is_float(wider) ? iso_cast(x, wider) : x;
}

iso_status iso_keras_call_operation(iso_keras_network *net, const iso_keras_layer *l,
                                    const iso_keras_node *node, iso_keras_list *out)
{
    const iso_keras_list *in = &node->inputs;
    const iso_keras_numbers *numbers = &node->numbers;
    int kind = operations_find(l->type), operands = in->count + numbers->count;
    iso_tensor *y;
    iso_status status;
    if (kind < 0)
        return operations_unknown(net, l->type);
    ISO_TRY(operations_check(net, l, node));
    if (in->count == 0 || operands != (operations[kind].two ? 2 : 1))
        return iso_keras_refuse(net->reader, "it is called with %d tensors and %d numbers", in->count,
                                numbers->count);
    if (!iso_dtype_is_float(iso_tensor_dtype(in->tensor[0])))
        return iso_keras_refuse(net->reader, "operations on %s are not supported",
                                iso_dtype_name(iso_tensor_dtype(in->tensor[0])));
    if (strcmp(l->type, GELU) == 0)
        y = iso_gelu(in->tensor[0], !json_is_false(json_object_get(l->config, APPROXIMATE)));
    else if (operations[kind].one)
        y = operations[kind].one(in->tensor[0]);
    else if (in->count == 2)
        y = operations[kind].two(widened(in->tensor[0], in->tensor[1]),
                                 widened(in->tensor[1], in->tensor[0]));
    else
        y = with_number(l->type, operations[kind].two, in->tensor[0], numbers->value, numbers->first);
    ISO_TRY(iso_keras_graph_error(net));
    ISO_TRY(iso_keras_list_add(out, y, NULL));
done:
    return status;
}
