/* References to tensors in a config.json: ["dense", 0, 0] is the first output of the first call of dense. */
#include <string.h>

#include "models/keras/network_impl.h"
#include "models/keras/writer_impl.h"
#include "models/layers/masks.h"
#include "runtime/base/list.h"
#include "runtime/base/memory.h"

/* ---- lists of tensors ---- */

void iso_keras_list_free(iso_keras_list *list)
{
    iso_free(list->tensor);
    iso_free(list->name);
    *list = (iso_keras_list){0};
}

iso_status iso_keras_list_add(iso_keras_list *list, iso_tensor *tensor, const char *name)
{
    static const char what[] = "the tensors of a network";
    iso_status status = iso_list_reserve(list->name, list->count, 1, what);
    if (status != ISO_OK)
        return status;
    list->name[list->count] = name;
    return iso_list_add(list->tensor, list->count, tensor, what);
}

/* ---- tensors by name ---- */

/* The tensor of ["dense", 0, 0]; *tensor is NULL if that call has not been made yet. `ends`: it is in
 * input_layers or output_layers, which count the calls of functional models from 1. */
static iso_status find_tensor(iso_keras_network *net, const json_t *history, bool ends, iso_tensor **tensor)
{
    const char *name = json_string_value(json_array_get(history, 0));
    const json_t *node = json_array_get(history, 1), *output = json_array_get(history, 2);
    char text[120];
    *tensor = NULL;
    if (json_array_size(history) != 3 || !name || !json_is_integer(node) || !json_is_integer(output))
        return iso_keras_refuse(net->reader, "%s is not a tensor: expected [\"layer\", call, output]",
                                iso_json_shown(history, text, sizeof text));
    const json_t *number = json_object_get(net->index, name);
    if (!number)
        return iso_keras_refuse(net->reader, "there is no layer '%.80s', whose output is used here", name);
    const iso_keras_layer *from = &net->layers[json_integer_value(number)];
    json_int_t at = json_integer_value(node) - (ends && iso_keras_is_model(from->type)),
               of = json_integer_value(output);
    if (at < 0 || at >= from->n_nodes)
        return iso_keras_refuse(net->reader, "%s: the layer is called %d times",
                                iso_json_shown(history, text, sizeof text), from->n_nodes);
    if (!from->calls[at].output)
        return ISO_OK;
    if (of < 0 || of >= from->calls[at].count)
        return iso_keras_refuse(net->reader, "%s: the layer has %d outputs",
                                iso_json_shown(history, text, sizeof text), from->calls[at].count);
    *tensor = from->calls[at].output[of];
    return ISO_OK;
}

/* Whether the shape in the file differs from the tensor's. */
bool iso_keras_shape_differs(const json_t *shape, const iso_shape *have)
{
    if (!json_is_array(shape))
        return false;
    if ((int)json_array_size(shape) != have->rank)
        return true;
    for (int i = 1; i < have->rank; i++) {
        const json_t *dim = json_array_get(shape, (size_t)i);
        if (json_is_integer(dim) && json_integer_value(dim) != have->dim[i])
            return true;
    }
    return false;
}

static iso_status check_shape(const iso_keras_network *net, const json_t *tensor, const iso_tensor *built)
{
    char have[160], want[160];
    const json_t *shape = json_object_get(tensor, "shape");
    if (!iso_keras_shape_differs(shape, iso_tensor_shape(built)))
        return ISO_OK;
    return iso_keras_refuse(net->reader, "its input has the shape %s here, the file says %s",
                            iso_shape_text(iso_tensor_shape(built), have, sizeof have),
                            iso_json_shown(shape, want, sizeof want));
}

/* The key that follows `last` (NULL: the first) in alphabetical order, as Keras flattens dictionaries. */
const char *iso_keras_next_key(const json_t *object, const char *last)
{
    const char *key, *next = NULL;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        if ((!last || strcmp(key, last) > 0) && (!next || strcmp(key, next) < 0))
            next = key;
    }
    return next;
}

/* The tensors of an argument of a call, in order; anything else is refused. */
static iso_status add_argument(iso_keras_network *net, const json_t *value, const char *key,
                               iso_keras_list *list, bool *ready)
{
    iso_status status = ISO_OK;
    iso_tensor *tensor;
    char text[120];
    if (json_is_array(value)) {
        for (size_t i = 0; i < json_array_size(value); i++)
            ISO_TRY(add_argument(net, json_array_get(value, i), NULL, list, ready));
        return ISO_OK;
    }
    const char *type = iso_keras_text(value, "class_name");
    if (json_is_object(value) && !type) {
        for (const char *k = iso_keras_next_key(value, NULL); k; k = iso_keras_next_key(value, k))
            ISO_TRY(add_argument(net, json_object_get(value, k), k, list, ready));
        return ISO_OK;
    }
    if (json_is_null(value))
        return ISO_OK;
    if (!type || strcmp(type, "__keras_tensor__") != 0)
        return iso_keras_refuse(net->reader, "it is called with %s, which is not a tensor",
                                iso_json_shown(value, text, sizeof text));
    const json_t *config = json_object_get(value, "config");
    ISO_TRY(find_tensor(net, json_object_get(config, "keras_history"), false, &tensor));
    if (!tensor) {
        *ready = false;
        return ISO_OK;
    }
    ISO_TRY(check_shape(net, config, tensor));
    ISO_TRY(iso_keras_list_add(list, tensor, key));
done:
    return status;
}

/* ---- calls ---- */

/* The argument names for the inputs of layers that have several, in order. */
static const char *const parameters[] = {"inputs", "x", "query", "value", "key", "initial_state"};

static bool is_tensor(const json_t *value)
{
    const char *type = iso_keras_text(value, "class_name");
    return type && strcmp(type, "__keras_tensor__") == 0;
}

/* The named arguments of a call: tensors that are inputs are moved from `others` to the list, in the order of
 * `parameters`. A mask comes last and stays in `others` as a flag, because inputs before it may be omitted. */
static iso_status add_named(iso_keras_network *net, json_t *others, iso_keras_list *list, bool *ready)
{
    static const char mask[] = "attention_mask";
    iso_status status = ISO_OK;
    for (size_t i = 0; i < sizeof parameters / sizeof parameters[0]; i++) {
        const json_t *value = json_object_get(others, parameters[i]);
        if (!is_tensor(value) && !json_is_array(value))
            continue;
        ISO_TRY(add_argument(net, value, parameters[i], list, ready));
        json_object_del(others, parameters[i]);
    }
    if (is_tensor(json_object_get(others, mask))) {
        ISO_TRY(add_argument(net, json_object_get(others, mask), mask, list, ready));
        if (json_object_set_new(others, mask, json_true()) != 0)
            ISO_TRY(iso_no_memory("the arguments of a call"));
    }
done:
    return status;
}

/* Adds a mask that is not the input's own to the inputs, as the last one; a flag stays in its place. */
static iso_status add_own_mask(iso_keras_network *net, iso_keras_node *node, bool *own)
{
    iso_status status = ISO_OK;
    const json_t *value = json_object_get(node->others, "mask");
    iso_keras_list list = {0}, *inputs = &node->inputs;
    if (!is_tensor(value) || inputs->count == 0)
        return ISO_OK;
    ISO_TRY(add_argument(net, value, NULL, &list, &node->ready));
    /* With initial_state, Keras itself does not set the input's own. */
    *own = list.count == 1 &&
           (inputs->count > 1 || !iso_mask_equal(list.tensor[0], iso_tensor_masks(inputs->tensor[0]).built));
    if (*own)
        ISO_TRY(iso_keras_list_add(inputs, list.tensor[0], "mask"));
    if (*own && json_object_set_new(node->others, "mask", json_true()) != 0)
        ISO_TRY(iso_no_memory("the arguments of a call"));
done:
    iso_keras_list_free(&list);
    return status;
}

/* Whether a tensor of the file, or null, is the mask that goes with an input. */
static iso_status check_mask(iso_keras_network *net, const char *key, const json_t *value, iso_tensor *input,
                             bool *ready)
{
    iso_keras_list list = {0};
    char text[120];
    iso_status status = add_argument(net, value, NULL, &list, ready);
    if (status == ISO_OK && *ready && list.count == 1 &&
        !iso_mask_equal(list.tensor[0], iso_tensor_masks(input).built))
        status = iso_keras_refuse(net->reader,
                                  "%s is %s: only the mask of its input is supported, which layers before it "
                                  "make and pass on (\"Masks\" in docs/keras.md)",
                                  key, iso_json_shown(value, text, sizeof text));
    iso_keras_list_free(&list);
    return status;
}

/* The masks that Keras puts into a call: those of its inputs, which the layers here find themselves. They are taken
 * out of `others`. */
static iso_status check_masks(iso_keras_network *net, const iso_keras_layer *l, iso_keras_node *node)
{
    static const char *const keys[] = {"mask", "query_mask", "value_mask", "key_mask"};
    const iso_layer_type *type = iso_layer_type_find(l->type);
    const iso_keras_list *inputs = &node->inputs;
    iso_status status = ISO_OK;
    bool own = false;
    if (type && type->takes_mask)
        ISO_TRY(add_own_mask(net, node, &own));
    for (int k = own ? 1 : 0; k < 4; k++) {
        const json_t *value = json_object_get(node->others, keys[k]);
        const int first = k > 0 ? k - 1 : 0, count = json_is_array(value) ? (int)json_array_size(value) : 1;
        for (int i = 0; value && i < count && first + i < inputs->count; i++)
            ISO_TRY(check_mask(net, keys[k], json_is_array(value) ? json_array_get(value, (size_t)i) : value,
                               inputs->tensor[first + i], &node->ready));
        json_object_del(node->others, keys[k]);
    }
done:
    return status;
}

/* A number among the operands; first: it is the first one. */
static void add_number(iso_keras_node *node, const json_t *value, bool first)
{
    node->numbers.first = first;
    node->numbers.real = node->numbers.real || json_is_real(value);
    node->numbers.value = json_number_value(value);
    node->numbers.count++;
}

/* A copy of an argument of an operation in which each tensor has the number that it gets among the inputs; NULL: no
 * memory, or an error in *status. */
static json_t *copy_argument(iso_keras_network *net, const json_t *value, iso_keras_node *node,
                             iso_status *status)
{
    const char *key;
    size_t i;
    json_t *item, *copy;
    if (is_tensor(value)) {
        const int number = node->inputs.count;
        *status = add_argument(net, value, NULL, &node->inputs, &node->ready);
        return json_pack("{s: s, s: {s: i}}", "class_name", ISO_KERAS_TENSOR, "config", ISO_KERAS_INPUT,
                         number);
    }
    if (json_is_array(value)) {
        copy = json_array();
        json_array_foreach(value, i, item) if (*status == ISO_OK)
            json_array_append_new(copy, copy_argument(net, item, node, status));
        return copy;
    }
    if (!json_is_object(value))
        return json_deep_copy(value);
    copy = json_object();
    json_object_foreach((json_t *)value, key, item) if (*status == ISO_OK)
        json_object_set_new(copy, key, copy_argument(net, item, node, status));
    return copy;
}

/* Whether a list of arguments that was copied has nothing but tensors, lists of them and numbers. */
static bool is_plain(const json_t *args, bool list)
{
    size_t i;
    json_t *value;
    json_array_foreach(args, i, value) if (!is_tensor(value) && !(list && json_is_number(value)) &&
                                           !(list && json_is_array(value) && json_array_size(value) > 0 &&
                                             is_plain(value, false))) return false;
    return true;
}

/* The arguments of an operation. */
static iso_status read_operation(iso_keras_network *net, const json_t *args, const json_t *kwargs,
                                 iso_keras_node *node)
{
    iso_status status = ISO_OK;
    size_t i;
    json_t *value,
        *copies = copy_argument(net, args, node, &status),
        *named = kwargs && status == ISO_OK ? copy_argument(net, kwargs, node, &status) : json_object();
    node->call = json_pack("{s: o, s: o}", "args", copies, "kwargs", named);
    if (status == ISO_OK && !node->call)
        return iso_no_memory("the arguments of a call");
    node->plain = is_plain(copies, true);
    json_array_foreach(args, i, value) if (json_is_number(value)) add_number(node, value, i == 0);
    node->others = kwargs ? json_copy((json_t *)kwargs) : json_object();
    return status == ISO_OK && !node->others ? iso_no_memory("the arguments of a call") : status;
}

iso_status iso_keras_read_node(iso_keras_network *net, const json_t *json, const iso_keras_layer *l,
                               iso_keras_node *node)
{
    iso_status status = ISO_OK;
    const json_t *args = json_object_get(json, "args"), *kwargs = json_object_get(json, "kwargs");
    if (!json_is_array(args) || (kwargs && !json_is_object(kwargs)))
        return iso_keras_refuse(net->reader, "its inbound_nodes are not those of a file of Keras 3");
    node->ready = true;
    if (iso_keras_is_operation(l))
        return read_operation(net, args, kwargs, node);
    ISO_TRY(add_argument(net, args, NULL, &node->inputs, &node->ready));
    node->others = kwargs ? json_copy((json_t *)kwargs) : json_object();
    if (!node->others)
        ISO_TRY(iso_no_memory("the arguments of a call"));
    ISO_TRY(add_named(net, node->others, &node->inputs, &node->ready));
    if (node->ready)
        ISO_TRY(check_masks(net, l, node));
done:
    return status;
}

void iso_keras_node_free(iso_keras_node *node)
{
    iso_keras_list_free(&node->inputs);
    json_decref(node->others);
    json_decref(node->call);
}

/* ---- the ends of a network ---- */

/* The tensors of input_layers or output_layers, which may be lists or dictionaries. */
iso_status iso_keras_add_end(iso_keras_network *net, const json_t *value, const char *key,
                             iso_keras_list *list, bool *ready)
{
    iso_status status = ISO_OK;
    iso_tensor *tensor;
    for (const char *k = iso_keras_next_key(value, NULL); k; k = iso_keras_next_key(value, k))
        ISO_TRY(iso_keras_add_end(net, json_object_get(value, k), k, list, ready));
    if (json_is_object(value))
        return ISO_OK;
    if (json_is_string(json_array_get(value, 0))) {
        ISO_TRY(find_tensor(net, value, true, &tensor));
        *ready = *ready && tensor;
        return tensor ? iso_keras_list_add(list, tensor, key) : ISO_OK;
    }
    if (!json_is_array(value))
        return iso_keras_refuse(net->reader, "its input_layers or output_layers are missing");
    for (size_t i = 0; i < json_array_size(value); i++)
        ISO_TRY(iso_keras_add_end(net, json_array_get(value, i), key, list, ready));
done:
    return status;
}

/* The names of input_layers, in order. */
iso_status iso_keras_number_inputs(const iso_keras_network *net, const json_t *value, json_t *numbers)
{
    iso_status status = ISO_OK;
    const char *name = json_string_value(json_array_get(value, 0));
    if (name) {
        json_object_set_new_nocheck(numbers, name, json_integer((json_int_t)json_object_size(numbers)));
        return ISO_OK;
    }
    for (size_t i = 0; i < json_array_size(value); i++)
        ISO_TRY(iso_keras_number_inputs(net, json_array_get(value, i), numbers));
    for (const char *k = iso_keras_next_key(value, NULL); k; k = iso_keras_next_key(value, k))
        ISO_TRY(iso_keras_number_inputs(net, json_object_get(value, k), numbers));
done:
    return status;
}
