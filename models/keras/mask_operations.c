/* The operations that Keras puts into a file where a layer makes a mask, or joins masks. The layers here make the
 * same masks themselves; those of the file are compared with them (references.c). */
#include <string.h>

#include "models/keras/network_impl.h"
#include "models/keras/writer_impl.h"
#include "models/layers/masks.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/graph/ops/list.h"

typedef struct mask_call {
    const iso_keras_layer *layer;
    const iso_keras_node *node;
    iso_tensor *x, *z; /* the first two tensors; NULL: there is none */
} mask_call;

/* Whether a setting is the last dimension. */
static bool is_last(const mask_call *c)
{
    const json_t *axis = json_object_get(c->layer->config, "axis");
    if (json_is_array(axis) && json_array_size(axis) == 1)
        axis = json_array_get(axis, 0);
    return json_is_integer(axis) && json_integer_value(axis) == -1;
}

static bool gives_bool(const mask_call *c)
{
    const char *dtype = iso_keras_text(c->layer->config, "dtype");
    return dtype && strcmp(dtype, "bool") == 0;
}

static iso_tensor *not_equal(const mask_call *c)
{
    return c->node->numbers.count == 1 && !c->node->numbers.first
               ? iso_mask_of_values(c->x, c->node->numbers.value)
               : NULL;
}

static iso_tensor *any(const mask_call *c)
{
    const bool keeps = json_is_true(json_object_get(c->layer->config, "keepdims"));
    return is_last(c) && !keeps && iso_tensor_dtype(c->x) == ISO_BOOL ? iso_mask_any(c->x) : NULL;
}

static bool is_bool(const iso_tensor *x)
{
    return iso_tensor_dtype(x) == ISO_BOOL;
}

static iso_tensor *logical_or(const mask_call *c)
{
    return is_bool(c->x) && is_bool(c->z) ? iso_mask_or(c->x, c->z) : NULL;
}

static iso_tensor *expand_dims(const mask_call *c)
{
    return is_last(c) && is_bool(c->x) && iso_tensor_shape(c->x)->rank < ISO_MAX_RANK ? iso_mask_column(c->x)
                                                                                      : NULL;
}

static iso_tensor *ones_like(const mask_call *c)
{
    return gives_bool(c) ? iso_mask_filled(c->x, true) : NULL;
}

static iso_tensor *zeros_like(const mask_call *c)
{
    return gives_bool(c) ? iso_mask_filled(c->x, false) : NULL;
}

static iso_tensor *concatenate(const mask_call *c)
{
    const json_t *axis = json_object_get(c->layer->config, "axis");
    for (int i = 0; i < c->node->inputs.count; i++)
        if (!is_bool(c->node->inputs.tensor[i]))
            return NULL;
    return iso_concat(c->node->inputs.tensor, c->node->inputs.count, (int)json_integer_value(axis));
}

/* Of the mask that Attention passes on. */
static iso_tensor *convert_to_tensor(const mask_call *c)
{
    return iso_tensor_dtype(c->x) == ISO_BOOL ? c->x : NULL;
}

/* The functions return NULL if the operation has other arguments than Keras gives it for a mask. */
static const struct {
    const char *type;     /* the class in keras.src.ops */
    int tensors, numbers; /* tensors 0: any number of them */
    iso_tensor *(*make)(const mask_call *call);
} operations[] = {{"NotEqual", 1, 1, not_equal},
                  {"Any", 1, 0, any},
                  {"LogicalOr", 2, 0, logical_or},
                  {"ExpandDims", 1, 0, expand_dims},
                  {"OnesLike", 1, 0, ones_like},
                  {"ZerosLike", 1, 0, zeros_like},
                  {"ConvertToTensor", 1, 0, convert_to_tensor},
                  {"Concatenate", 0, 0, concatenate}};
enum { OPERATIONS = sizeof operations / sizeof operations[0] };

static int find(const char *type)
{
    for (int i = 0; i < OPERATIONS; i++)
        if (strcmp(type, operations[i].type) == 0)
            return i;
    return -1;
}

bool iso_keras_is_mask_operation(const char *type)
{
    return find(type) >= 0;
}

iso_status iso_keras_call_mask_operation(iso_keras_network *net, const iso_keras_layer *l,
                                         const iso_keras_node *node, iso_keras_list *out)
{
    const int kind = find(l->type), count = node->inputs.count;
    iso_tensor *y = NULL;
    const mask_call call = {.layer = l,
                            .node = node,
                            .x = count > 0 ? node->inputs.tensor[0] : NULL,
                            .z = count > 1 ? node->inputs.tensor[1] : NULL};
    if (count > 0 && node->plain && node->numbers.count == operations[kind].numbers &&
        (operations[kind].tensors == 0 || count == operations[kind].tensors))
        y = operations[kind].make(&call);
    if (!y)
        return ISO_OK;
    iso_status status = iso_keras_graph_error(net);
    return status == ISO_OK ? iso_keras_list_add(out, y, NULL) : status;
}

/* ---- what a file cannot hold ---- */

/* Whether a mask, which may be NULL, comes from a Concatenate. */
static bool is_joined(const iso_tensor *mask)
{
    const iso_op *op = mask && mask->dtype == ISO_BOOL ? mask->producer : NULL;
    bool joined = op && op->type == &iso_op_concat;
    for (int i = 0; op && !joined && i < op->n_inputs; i++)
        joined =
            is_joined(op->inputs[i]->dtype == ISO_I32 ? op->inputs[i]->producer->inputs[0] : op->inputs[i]);
    return joined;
}

/* Whether it is an automatic name of a class: "concatenate", "concatenate_1". */
static bool is_automatic(const char *name, const char *type)
{
    char base[64];
    iso_text_snake_case(type, base, sizeof base);
    const size_t length = strlen(base);
    return strncmp(name, base, length) == 0 &&
           (!name[length] ||
            (name[length] == '_' && strspn(name + length + 1, "0123456789") == strlen(name + length + 1)));
}

bool iso_keras_is_name_of_mask(const char *type, const char *name)
{
    return find(type) >= 0 && is_automatic(name, type);
}

iso_status iso_keras_check_masks(const iso_graph *graph)
{
    const iso_layer_record *user = NULL, *named = NULL;
    for (int i = 0; i < iso_graph_layer_count(graph); i++) {
        const iso_layer_record *layer = iso_graph_layer(graph, i);
        const iso_layer_type *type = iso_layer_type_find(layer->type);
        const bool of_masks = layer->function_of && layer->output->dtype == ISO_BOOL; /* not in the file */
        if (!of_masks && is_automatic(iso_file_name(layer->name), "Concatenate"))
            named = layer;
        if (type && !layer->function_of && type->masks == ISO_MASKS_MADE && layer->n_inputs > 0 &&
            is_joined(iso_tensor_masks(layer->inputs[0]).built))
            user = layer;
    }
    if (!user || !named)
        return ISO_OK;
    return iso_error(
        ISO_INVALID,
        "layer '%s' (%s) uses the mask of a Concatenate: Keras calls its operation 'concatenate', and does "
        "not load a model with a layer '%s'; layers with names of their own can be saved",
        user->name, user->type, named->name);
}
