/* Ops that no layer made, as the layers or operations of keras.ops that compute the same. */
#include <stdio.h>
#include <string.h>

#include "models/keras/writer_impl.h"
#include "models/layers/list.h"
#include "runtime/graph/ops/list.h"
#include "runtime/graph/ops/network.h"

static const struct {
    const char *op, *layer;
} merges[] = {{"add", "Add"},
              {"subtract", "Subtract"},
              {"multiply", "Multiply"},
              {"maximum", "Maximum"},
              {"minimum", "Minimum"}};

/* Ops without a layer. */
static const struct {
    const char *op, *operation;
} operations[] = {{"abs", "Absolute"},
                  {"log", "Log"},
                  {"sqrt", "Sqrt"},
                  {"square", "Square"},
                  {"negate", "Negative"},
                  {"divide", "Divide"},
                  {"power", "Power"},
                  {"sign", "Sign"},
                  {"where", "Where"},
                  {"equal", "Equal"},
                  {"not_equal", "NotEqual"},
                  {"less", "Less"},
                  {"less_equal", "LessEqual"},
                  {"greater", "Greater"},
                  {"greater_equal", "GreaterEqual"},
                  {"logical_and", "LogicalAnd"},
                  {"logical_or", "LogicalOr"},
                  {"logical_not", "LogicalNot"}};

/* An op that is an activation, as the layer that has its setting, or as an Activation. NULL: it is not one. */
static json_t *activation_layer(const iso_op *op, const char **type)
{
    const iso_unary_attrs *attrs = op->attrs;
    for (const iso_descriptor *const *row = iso_activations; *row; row++) {
        const iso_activation_type *activation = (const iso_activation_type *)*row;
        const iso_setting *setting = (*row)->setting;
        if (activation->op != op->type || activation->unary != attrs->kind)
            continue;
        bool number = setting && !setting[1].name;
        *type = number ? (*row)->keras : iso_layer_activation.keras;
        return number ? json_pack("{s: f}", setting->name, attrs->alpha)
                      : json_pack("{s: s}", "activation", (*row)->name);
    }
    return NULL;
}

/* A reshape that keeps the batch. */
static json_t *target_shape(const iso_op *op)
{
    const iso_shape *shape = iso_tensor_shape(op->outputs[0]);
    json_t *list = json_array();
    if (shape->rank == 0 || shape->dim[0] != ISO_BATCH) {
        json_decref(list);
        return NULL;
    }
    for (int i = 1; i < shape->rank; i++)
        json_array_append_new(list, json_integer(shape->dim[i]));
    return json_pack("{s: o}", "target_shape", list);
}

static json_t *dims(const iso_op *op)
{
    const iso_transpose_attrs *attrs = op->attrs;
    json_t *list = json_array();
    for (int i = 1; i < iso_tensor_shape(op->outputs[0])->rank; i++)
        json_array_append_new(list, json_integer(attrs->permutation[i]));
    return json_pack("{s: o}", "dims", list);
}

static bool is_rounding(const iso_op *op)
{
    return strcmp(op->type->name, "cast") == 0 && iso_dtype_is_float(iso_tensor_dtype(op->inputs[0])) &&
           iso_dtype_is_float(iso_tensor_dtype(op->outputs[0]));
}

/* A cast that no layer does: from or to integers. */
static bool is_conversion(const iso_op *op)
{
    return strcmp(op->type->name, "cast") == 0 && !is_rounding(op);
}

static json_t *layer_of(const iso_op *op, const char **type)
{
    const char *name = op->type->name;
    json_t *activation = activation_layer(op, type);
    if (activation)
        return activation;
    if (op->type == &iso_op_softmax) {
        *type = iso_layer_softmax.keras;
        int axis = ((const iso_softmax_attrs *)op->attrs)->axis;
        return json_pack("{s: i}", "axis", axis == iso_tensor_shape(op->inputs[0])->rank - 1 ? -1 : axis);
    }
    if (is_rounding(op)) { /* the layer's policy is the type of its output */
        *type = iso_layer_activation.keras;
        return json_pack("{s: s}", "activation", iso_activations[ISO_LINEAR]->name);
    }
    if (strcmp(name, "affine") == 0) {
        const iso_affine_attrs *attrs = op->attrs;
        *type = "Rescaling";
        return json_pack("{s: f, s: f}", "scale", attrs->scale, "offset", attrs->shift);
    }
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++)
        if (strcmp(name, merges[i].op) == 0) {
            *type = merges[i].layer;
            return json_object();
        }
    if (strcmp(name, "concat") == 0) {
        *type = "Concatenate";
        return json_pack("{s: i}", "axis", ((const iso_axis_attrs *)op->attrs)->axis);
    }
    if (strcmp(name, "reshape") == 0) {
        *type = "Reshape";
        return target_shape(op);
    }
    if (strcmp(name, "transpose") == 0) {
        *type = "Permute";
        return dims(op);
    }
    return NULL;
}

/* ---- ops on tensors with masks: a layer would pass the mask on, an operation does not, as the op ---- */

static bool has_mask(const iso_tensor *x)
{
    return iso_tensor_masks(x).built || iso_tensor_masks(x).run;
}

static bool loses_mask(const iso_op *op)
{
    bool masked = false;
    for (int i = 0; i < op->n_inputs; i++)
        masked = masked || has_mask(op->inputs[i]);
    return masked && !has_mask(op->outputs[0]);
}

static const struct {
    int activation; /* its number among iso_activations */
    const char *module, *operation;
} maskless[] = {{ISO_RELU, "keras.src.ops.nn", "Relu"},
                {ISO_SIGMOID, "keras.src.ops.nn", "Sigmoid"},
                {ISO_SILU, "keras.src.ops.nn", "Silu"},
                {ISO_SOFTPLUS, "keras.src.ops.nn", "Softplus"},
                {ISO_TANH, ISO_KERAS_OPERATIONS, "Tanh"}};

/* The number of an affine op that is written as an operation: Multiply, Add or, of 1 - x, Subtract; NULL: none. */
static const double *affine_number(const iso_op *op)
{
    const iso_affine_attrs *attrs = op->attrs;
    if (strcmp(op->type->name, "affine") != 0 || !loses_mask(op) ||
        (attrs->shift != 0 && attrs->scale != 1 && attrs->scale != -1))
        return NULL;
    return attrs->shift != 0 ? &attrs->shift : &attrs->scale;
}

static const char *affine_operation(const iso_op *op)
{
    const iso_affine_attrs *attrs = op->attrs;
    return attrs->shift == 0 ? "Multiply" : attrs->scale == 1 ? "Add" : "Subtract";
}

/* The key of x[key] that takes the part that a slice takes. */
static json_t *slice_key(const iso_op *op)
{
    const iso_slice_attrs *attrs = op->attrs;
    json_t *key = json_array();
    for (int i = 0; i < attrs->shape.rank; i++) {
        const bool whole = attrs->shape.dim[i] == op->inputs[0]->shape.dim[i];
        json_array_append_new(
            key,
            json_pack("{s: s, s: {s: o, s: o, s: n}}", "class_name", "__slice__", "config", "start",
                      whole ? json_null() : json_integer(attrs->begin[i]), "stop",
                      whole ? json_null() : json_integer(attrs->begin[i] + attrs->shape.dim[i]), "step"));
    }
    return key;
}

json_t *iso_keras_other_argument(const iso_op *op, bool *first)
{
    const double *number = affine_number(op);
    *first = number && strcmp(affine_operation(op), "Subtract") == 0;
    return number ? json_real(*number) : op->type == &iso_op_slice ? slice_key(op) : NULL;
}

/* False: there is none. */
static bool maskless_operation(const iso_op *op, const char **module, const char **type)
{
    const iso_unary_attrs *attrs = op->attrs;
    *module = ISO_KERAS_OPERATIONS;
    if (affine_number(op)) {
        *type = affine_operation(op);
        return true;
    }
    for (size_t i = 0; i < sizeof maskless / sizeof *maskless; i++) {
        const iso_activation_type *row = (const iso_activation_type *)iso_activations[maskless[i].activation];
        if (row->op == op->type && row->unary == attrs->kind) {
            *module = maskless[i].module;
            *type = maskless[i].operation;
            return true;
        }
    }
    return false;
}

static iso_status check_mask(const iso_op *op, const char *type)
{
    const iso_layer_type *layer = iso_layer_type_find(type);
    if (!loses_mask(op) || !layer || layer->masks == ISO_MASKS_DROPPED)
        return ISO_OK;
    return iso_error(
        ISO_INVALID,
        "the op '%s' (its result is '%s') is outside of layers and takes the mask off its input; "
        "Keras's %s would pass it on, so a file of Keras cannot hold it",
        op->type->name, iso_tensor_name(op->outputs[0]), type);
}

/* A gelu by tanh, for which Keras has no activation, or one that takes a mask off. */
static bool is_function_gelu(const iso_op *op, bool *by_tanh)
{
    *by_tanh =
        op->type == &iso_op_gelu && ((const iso_unary_attrs *)op->attrs)->kind == ISO_UNARY_GELU_APPROXIMATE;
    return op->type == &iso_op_gelu && (*by_tanh || loses_mask(op));
}

/* Whether an operand is a number, which layers do not take. */
static bool has_number(const iso_op *op)
{
    double value;
    bool any = false;
    for (int i = 0; i < op->n_inputs; i++)
        any = any || iso_tensor_is_number(op->inputs[i], &value);
    return any;
}

/* The operation of keras.ops that does the same as an op without settings; NULL: none. */
static const char *operation_of(const iso_op *op)
{
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (strcmp(op->type->name, operations[i].op) == 0)
            return operations[i].operation;
    const bool merges_as_operation = has_number(op) || loses_mask(op);
    for (size_t i = 0; merges_as_operation && i < sizeof merges / sizeof *merges; i++)
        if (strcmp(op->type->name, merges[i].op) == 0)
            return merges[i].layer; /* they have the same names */
    return NULL;
}

/* The dimensions that bits name. */
static json_t *axes_of(uint32_t axes)
{
    json_t *list = json_array();
    for (int i = 0; i < ISO_MAX_RANK; i++)
        if (axes >> i & 1)
            json_array_append_new(list, json_integer(i));
    return list;
}

/* A sum, or a mean over dimensions other than the batch. NULL: it is another multiple of a sum, or of squares. */
static json_t *sum_settings(const iso_op *op, const char **type)
{
    const iso_reduce_attrs *attrs = op->attrs;
    const iso_tensor *x = op->inputs[0];
    double count = 1;
    for (int i = 0; i < x->shape.rank; i++)
        count *= attrs->axes >> i & 1 ? (double)x->shape.dim[i] : 1;
    const bool mean = attrs->scale != 1 && attrs->scale == 1 / count;
    const bool same = attrs->dtype == x->dtype || x->dtype == ISO_BOOL;
    *type = mean ? "Mean" : "Sum";
    return !attrs->square && same && (mean || attrs->scale == 1)
               ? json_pack("{s: o, s: b}", "axis", axes_of(attrs->axes), "keepdims", attrs->keep)
               : NULL;
}

static json_t *widths(const iso_op *op)
{
    const iso_slice_attrs *attrs = op->attrs;
    json_t *list = json_array();
    for (int i = 0; i < attrs->shape.rank; i++)
        json_array_append_new(list, json_pack("[I, I]", (json_int_t)attrs->begin[i],
                                              (json_int_t)(attrs->shape.dim[i] - attrs->begin[i] -
                                                           op->inputs[0]->shape.dim[i])));
    return json_pack("{s: o, s: s}", "pad_width", list, "mode", "constant");
}

/* Functions of dimensions. NULL: none. */
static json_t *function_of_dimensions(const iso_op *op, const char **type)
{
    if (op->type == &iso_op_slice) {
        *type = "GetItem";
        return json_object();
    }
    if (op->type == &iso_op_reduce_sum)
        return sum_settings(op, type);
    if (op->type == &iso_op_reduce_max || op->type == &iso_op_reduce_min) {
        const iso_reduce_attrs *attrs = op->attrs;
        *type = op->type == &iso_op_reduce_max ? "Max" : "Min";
        return json_pack("{s: o, s: b}", "axis", axes_of(attrs->axes), "keepdims", attrs->keep);
    }
    if (op->type == &iso_op_flip || op->type == &iso_op_argmax) {
        *type = op->type == &iso_op_flip ? "Flip" : "Argmax";
        return json_pack("{s: i}", "axis", ((const iso_axis_attrs *)op->attrs)->axis);
    }
    if (op->type == &iso_op_pad) {
        *type = "Pad";
        return widths(op);
    }
    return NULL;
}

/* [..., m, k] and [..., k, n], of which the last two dimensions may be swapped. */
static json_t *product_settings(const iso_op *op, const char **type)
{
    static const char letters[] = "abcdef";
    const iso_matmul_attrs *attrs = op->attrs;
    const int lead = op->inputs[0]->shape.rank - 2;
    char text[64];
    *type = "Matmul";
    if (attrs->contract || (!attrs->transpose_a && !attrs->transpose_b))
        return attrs->contract ? NULL : json_object();
    const int shared = op->inputs[1]->shape.rank > 2 ? lead : 0;
    *type = "Einsum";
    snprintf(text, sizeof text, "%.*s%s,%.*s%s->%.*s%s", lead, letters, attrs->transpose_a ? "km" : "mk",
             shared, letters, attrs->transpose_b ? "nk" : "kn", lead, letters, lead < 0 ? "n" : "mn");
    return lead < 0 ? NULL : json_pack("{s: s}", "subscripts", text);
}

/* The same for those with settings: a module, a class and its config. NULL: none. */
static json_t *operation_with_settings(const iso_op *op, const char **module, const char **type)
{
    bool by_tanh;
    if (is_function_gelu(op, &by_tanh)) {
        *module = "keras.src.ops.nn";
        *type = "Gelu";
        return json_pack("{s: b}", "approximate", by_tanh);
    }
    if (is_conversion(op)) {
        *module = "keras.src.ops.core";
        *type = ISO_KERAS_CAST;
        return json_pack("{s: s}", "dtype", iso_dtype_name(iso_tensor_dtype(op->outputs[0])));
    }
    if (op->type == &iso_op_rsqrt) {
        *module = "keras.src.ops.math";
        *type = "Rsqrt";
        return json_object();
    }
    if (op->type == &iso_op_log_softmax) {
        *module = "keras.src.ops.nn";
        *type = "LogSoftmax";
        return json_pack("{s: i}", "axis", ((const iso_softmax_attrs *)op->attrs)->axis);
    }
    if (op->type == &iso_op_one_hot) {
        const iso_one_hot_attrs *attrs = op->attrs;
        *module = "keras.src.ops.nn";
        *type = "OneHot";
        return json_pack("{s: I, s: s}", "num_classes", (json_int_t)attrs->classes, "dtype",
                         iso_dtype_name(attrs->dtype));
    }
    if (op->type == &iso_op_stop_gradient) {
        *module = "keras.src.ops.core";
        *type = "StopGradient";
        return json_object();
    }
    *module = ISO_KERAS_OPERATIONS;
    return op->type == &iso_op_matmul ? product_settings(op, type) : function_of_dimensions(op, type);
}

iso_status iso_keras_layer_of_op(const iso_op *op, const char **module, const char **type, json_t **config)
{
    const char *operation = operation_of(op);
    *config = operation_with_settings(op, module, type);
    if (operation) {
        *module = ISO_KERAS_OPERATIONS;
        *type = operation;
        *config = json_object();
    } else if (!*config && loses_mask(op) && maskless_operation(op, module, type)) {
        *config = json_object();
    } else if (!*config) {
        *module = "keras.layers";
        *config = layer_of(op, type);
        iso_status status = *config ? check_mask(op, *type) : ISO_OK;
        if (status != ISO_OK) {
            json_decref(*config);
            *config = NULL;
            return status;
        }
    }
    return *config ? ISO_OK
                   : iso_error(ISO_INVALID,
                               "the network uses the op '%s' (its result is '%s') outside of layers, and no "
                               "layer of Keras does the same",
                               op->type->name, iso_tensor_name(op->outputs[0]));
}
