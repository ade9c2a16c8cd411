/* config.json: a model's layers and how they are connected, in the form of Keras 3's get_config()
 * (keras/src/models/functional.py, sequential.py, keras/src/saving/serialization_lib.py). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/keras/writer_impl.h"
#include "models/layers/config.h"
#include "runtime/base/file.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"

/* A network that is being written. */
typedef struct writer {
    const iso_graph *graph;
    const iso_keras_topology *net;
    char **name; /* [operations] within the network */
} writer;

static const char CONFIG[] = "the config of a model";

static iso_status describe_network(const iso_graph *graph, const iso_keras_topology *net, const char *name,
                                   json_t **out);

/* ---- names ---- */

static bool is_used(const writer *w, const char *name)
{
    for (int i = 0; i < w->net->n_operations; i++)
        if (w->name[i] && strcmp(w->name[i], name) == 0)
            return true;
    return false;
}

/* "base", with a number if that name is used; characters that a name cannot have become '_'. */
static char *free_name(const writer *w, const char *base)
{
    char text[300];
    snprintf(text, sizeof text, "%.250s", *base ? base : "input_layer");
    for (char *at = text; *at; at++)
        if (*at == '/')
            *at = '_';
    size_t length = strlen(text);
    for (int k = 1; is_used(w, text); k++)
        snprintf(text + length, sizeof text - length, "_%d", k);
    return iso_strdup(text);
}

/* The layer that represents an operation; config may be NULL. */
static iso_status bare_op(const iso_operation *operation, const iso_keras_topology *net, const char **module,
                          const char **type, json_t **config)
{
    json_t *found = NULL;
    iso_status status =
        iso_keras_layer_of_op(net->calls[operation->calls[0]].outputs[0]->producer, module, type, &found);
    if (status == ISO_OK && config)
        *config = found;
    else
        json_decref(found);
    return status;
}

/* Whether Keras may give the operation's name to one of its masks when it loads the file: all names must differ. */
static bool may_be_name_of_mask(const writer *w, const iso_operation *o)
{
    return o->kind == ISO_OPERATION_FUNCTION &&
           iso_keras_is_name_of_mask(iso_graph_layer(w->graph, o->record)->type, iso_file_name(o->name));
}

/* The base of a name that is chosen here. */
static iso_status base_of_name(const writer *w, const iso_operation *o, char *base, size_t size)
{
    const char *module, *type;
    iso_status status = ISO_OK;
    snprintf(base, size, "%s%s", iso_file_name(o->name), o->kind == ISO_OPERATION_FUNCTION ? "_op" : "");
    if (o->kind != ISO_OPERATION_OP)
        return ISO_OK;
    ISO_TRY(bare_op(o, w->net, &module, &type, NULL));
    iso_text_snake_case(type, base, size);
    if (iso_keras_is_mask_operation(type))
        snprintf(base + strlen(base), size - strlen(base), "_op");
done:
    return status;
}

/* Layers and blocks keep their names; inputs, ops outside layers and operations of the classes of masks get names
 * that are not used. */
static iso_status choose_names(writer *w)
{
    iso_status status = ISO_OK;
    char base[ISO_MAX_NAME + 8];
    for (int i = 0; i < w->net->n_operations; i++) {
        const iso_operation *o = &w->net->operations[i];
        if (o->kind != ISO_OPERATION_INPUT && o->kind != ISO_OPERATION_OP && !may_be_name_of_mask(w, o) &&
            !(w->name[i] = iso_strdup(iso_file_name(o->name))))
            return iso_no_memory(CONFIG);
    }
    for (int i = 0; i < w->net->n_operations; i++) {
        if (w->name[i])
            continue;
        ISO_TRY(base_of_name(w, &w->net->operations[i], base, sizeof base));
        if (!(w->name[i] = free_name(w, base)))
            return iso_no_memory(CONFIG);
    }
done:
    return status;
}

/* ---- values ---- */

json_t *iso_keras_object(const char *module, const char *type, json_t *config)
{
    return config ? json_pack("{s: s, s: s, s: o, s: n}", "module", module, "class_name", type, "config",
                              config, "registered_name")
                  : NULL;
}

static json_t *shape_json(const iso_shape *shape)
{
    json_t *list = json_array();
    for (int i = 0; i < shape->rank; i++)
        json_array_append_new(list, shape->dim[i] == ISO_BATCH ? json_null() : json_integer(shape->dim[i]));
    return list;
}

static const char *dtype_name(iso_dtype dtype)
{
    return dtype == ISO_U8 ? "uint8" : dtype == ISO_BOOL ? "bool" : iso_dtype_name(dtype);
}

/* A policy by its name, which every Keras 3 reads. compute: the type in which the layer computes. */
static json_t *policy(const iso_graph *graph, iso_dtype compute)
{
    return json_string(compute == ISO_BF16 ? "mixed_bfloat16" : dtype_name(iso_graph_precision(graph)));
}

/* The type in which a layer, or an op that is written as one, computes. */
static iso_dtype compute_type(const writer *w, const iso_operation *operation)
{
    return operation->kind == ISO_OPERATION_OP
               ? iso_tensor_dtype(w->net->calls[operation->calls[0]].outputs[0])
               : iso_graph_layer(w->graph, operation->record)->compute;
}

/* ---- how operations are connected ---- */

/* The number of a call among those of its operation. */
static int node_of(const writer *w, int call)
{
    const iso_operation *operation = &w->net->operations[w->net->calls[call].operation];
    int node = 0;
    while (operation->calls[node] != call)
        node++;
    return node;
}

static json_t *history(const writer *w, const iso_layer_call_output *from, int first)
{
    return json_pack("[s, i, i]", w->name[w->net->calls[from->call].operation],
                     node_of(w, from->call) + first, from->output);
}

static json_t *tensor_json(const writer *w, const iso_tensor *tensor, const iso_layer_call_output *from)
{
    json_t *config = json_pack("{s: o, s: s, s: o}", "shape", shape_json(iso_tensor_shape(tensor)), "dtype",
                               dtype_name(iso_tensor_dtype(tensor)), "keras_history", history(w, from, 0));
    return json_pack("{s: s, s: o}", "class_name", "__keras_tensor__", "config", config);
}

static json_t *attribute_json(const iso_attribute *attribute);

/* The members of an object, or the items of a list. */
static json_t *members_json(const iso_attribute *attribute)
{
    bool list = attribute->kind == ISO_ATTRIBUTE_LIST;
    json_t *out = list ? json_array() : json_object();
    for (const iso_attribute *member = attribute->first; out && member; member = member->next)
        if (list ? json_array_append_new(out, attribute_json(member))
                 : json_object_set_new(out, member->name, attribute_json(member))) {
            json_decref(out);
            return NULL;
        }
    return out;
}

/* A layer's attribute; NULL: out of memory. A real that is whole is written as an integer, unless Keras on JAX
 * would refuse one so large; null stands for numbers that JSON does not have. */
static json_t *attribute_json(const iso_attribute *attribute)
{
    switch (attribute->kind) {
    case ISO_ATTRIBUTE_FLAG:
        return json_boolean(attribute->integer);
    case ISO_ATTRIBUTE_INTEGER:
        return json_integer(attribute->from_end ? attribute->from_end : attribute->integer);
    case ISO_ATTRIBUTE_REAL:
        if (fabs(attribute->real) <= INT32_MAX && attribute->real == trunc(attribute->real))
            return json_integer((json_int_t)attribute->real);
        return isfinite(attribute->real) ? json_real(attribute->real) : json_null();
    case ISO_ATTRIBUTE_TEXT:
        return json_string(attribute->text);
    case ISO_ATTRIBUTE_LIST:
    case ISO_ATTRIBUTE_OBJECT:
        return members_json(attribute);
    case ISO_ATTRIBUTE_NONE:
    case ISO_ATTRIBUTE_INPUT:
        break;
    }
    return json_null();
}

/* Removes an input from a list of inputs, and returns it. */
static json_t *take_input(json_t *list, const iso_attribute *argument)
{
    size_t input = (size_t)argument->integer;
    json_t *tensor = json_incref(json_array_get(list, input));
    json_array_remove(list, input);
    return tensor;
}

/* Inputs that follow one another in the list of inputs. */
static json_t *take_inputs(json_t *list, const iso_attribute *argument)
{
    json_t *tensors = json_array();
    for (const iso_attribute *item = argument->first; item; item = item->next)
        json_array_append_new(tensors, take_input(list, argument->first));
    return tensors;
}

/* The arguments of a layer's call that are given by name. Tensors among them, or a list of tensors, are the last of
 * the inputs, and are removed from the list of inputs. */
static json_t *call_arguments(const iso_attribute *call, json_t *list)
{
    json_t *out = json_object();
    for (const iso_attribute *argument = call ? call->first : NULL; argument; argument = argument->next) {
        bool tensors = argument->kind == ISO_ATTRIBUTE_LIST && argument->first &&
                       argument->first->kind == ISO_ATTRIBUTE_INPUT;
        json_object_set_new(out, argument->name,
                            tensors                                 ? take_inputs(list, argument)
                            : argument->kind == ISO_ATTRIBUTE_INPUT ? take_input(list, argument)
                                                                    : attribute_json(argument));
    }
    return out;
}

/* An input that no layer made: a number, as operations have it. NULL: none. */
static json_t *number_json(const iso_tensor *input, bool operation)
{
    double value;
    if (!operation || !iso_tensor_is_number(input, &value))
        return NULL;
    return iso_dtype_is_float(iso_tensor_dtype(input)) ? json_real(value) : json_integer((json_int_t)value);
}

/* One call: {"args": [tensor], "kwargs": {}}; several inputs are a list, or `separate`. */
static iso_status describe_call(const writer *w, const iso_layer_call *call, bool separate,
                                const iso_attribute *arguments, json_t **out)
{
    const iso_operation *operation = &w->net->operations[call->operation];
    json_t *list = json_array();
    for (int i = 0; i < call->n_inputs; i++) {
        json_t *number = call->from[i].call < 0 ? number_json(call->inputs[i], separate) : NULL;
        if (call->from[i].call < 0 && !number) {
            json_decref(list);
            return iso_error(ISO_INVALID,
                             "input %d of %s '%s' is the tensor '%s', which no layer made; Keras's files do "
                             "not have such",
                             i, operation->kind == ISO_OPERATION_OP ? "the op" : "layer", operation->name,
                             iso_tensor_name(call->inputs[i]));
        }
        json_array_append_new(list, number ? number : tensor_json(w, call->inputs[i], &call->from[i]));
    }
    const iso_op *op = operation->kind == ISO_OPERATION_OP ? call->outputs[0]->producer : NULL;
    bool first = false;
    json_t *other = op && separate ? iso_keras_other_argument(op, &first) : NULL;
    if (other)
        json_array_insert_new(list, first ? 0 : json_array_size(list), other);
    json_t *named = call_arguments(arguments, list);
    if (!separate && call->n_inputs > 1)
        list = json_pack("[o]", list);
    *out = json_pack("{s: o, s: o}", "args", list, "kwargs", named);
    return *out ? ISO_OK : iso_no_memory(CONFIG);
}

/* ---- functions of keras.ops that a file had: their records hold JSON ---- */

/* The JSON of a function's record. NULL: no memory. */
static json_t *recorded(const iso_attribute *object)
{
    return object && object->first ? json_loads(object->first->text, JSON_DECODE_ANY, NULL) : NULL;
}

/* Whether it stands for an input of the call. */
static bool is_input(const json_t *value)
{
    const char *type = json_string_value(json_object_get(value, "class_name"));
    return type && strcmp(type, ISO_KERAS_TENSOR) == 0;
}

/* The arguments with the tensors in their places; takes over `value`. */
static json_t *with_tensors(const writer *w, const iso_layer_call *call, json_t *value)
{
    const char *key;
    json_t *item;
    if (is_input(value)) {
        json_int_t i = json_integer_value(json_object_get(json_object_get(value, "config"), ISO_KERAS_INPUT));
        json_decref(value);
        return tensor_json(w, call->inputs[i], &call->from[i]);
    }
    for (size_t i = 0; i < json_array_size(value); i++)
        json_array_set_new(value, i, with_tensors(w, call, json_incref(json_array_get(value, i))));
    void *next;
    json_object_foreach_safe(value, next, key, item)
        json_object_set_new(value, key, with_tensors(w, call, json_incref(item)));
    return value;
}

/* One call of a function. */
static iso_status describe_function_call(const writer *w, const iso_layer_call *call, json_t **out)
{
    for (int i = 0; i < call->n_inputs; i++)
        if (call->from[i].call < 0)
            return iso_error(ISO_INVALID,
                             "input %d of a function of keras.ops is the tensor '%s', which no layer made", i,
                             iso_tensor_name(call->inputs[i]));
    json_t *arguments = recorded(iso_graph_layer(w->graph, call->record)->call);
    *out = arguments ? with_tensors(w, call, arguments) : NULL;
    return *out ? ISO_OK : iso_no_memory(CONFIG);
}

static iso_status describe_function(const writer *w, int number, json_t **out)
{
    const iso_layer_record *record = iso_graph_layer(w->graph, w->net->operations[number].record);
    json_t *config = recorded(record->config);
    if (config)
        json_object_set_new(config, "name", json_string(w->name[number]));
    *out = iso_keras_object(record->function_of, record->type, config);
    return *out ? ISO_OK : iso_no_memory(CONFIG);
}

static iso_status describe_calls(const writer *w, const iso_operation *operation, const char *type,
                                 json_t *layer)
{
    json_t *nodes = json_array();
    const char *module = json_string_value(json_object_get(layer, "module"));
    const iso_layer_type *layer_type = iso_layer_type_find(type);
    bool separate = (layer_type && layer_type->separate) || iso_keras_is_module_of_operations(module);
    iso_status status = json_object_set_new(layer, "inbound_nodes", nodes) ? iso_no_memory(CONFIG) : ISO_OK;
    for (int i = 0; status == ISO_OK && i < operation->n_calls; i++) {
        json_t *node = NULL;
        const iso_layer_call *call = &w->net->calls[operation->calls[i]];
        if (operation->kind == ISO_OPERATION_INPUT)
            continue;
        bool layer_call = operation->kind == ISO_OPERATION_LAYER;
        status =
            operation->kind == ISO_OPERATION_FUNCTION
                ? describe_function_call(w, call, &node)
                : describe_call(w, call, separate,
                                layer_call ? iso_graph_layer(w->graph, call->record)->call : NULL, &node);
        if (status == ISO_OK && json_array_append_new(nodes, node))
            status = iso_no_memory(CONFIG);
    }
    return status;
}

/* ---- operations ---- */

static json_t *describe_input(const writer *w, int number)
{
    const iso_tensor *tensor = w->net->calls[w->net->operations[number].calls[0]].outputs[0];
    return iso_keras_object("keras.layers", "InputLayer",
                            json_pack("{s: o, s: s, s: b, s: b, s: s, s: b}", "batch_shape",
                                      shape_json(iso_tensor_shape(tensor)), "dtype",
                                      dtype_name(iso_tensor_dtype(tensor)), "sparse", 0, "ragged", 0, "name",
                                      w->name[number], "optional", 0));
}

static iso_status check_activation(const char *layer, const json_t *config)
{
    const char *name = json_string_value(json_object_get(config, "activation"));
    const iso_descriptor *row = name ? iso_descriptor_of(iso_activations, name) : NULL;
    if (row && ((const iso_activation_type *)row)->not_saved)
        return iso_error(ISO_INVALID,
                         "layer '%s' has the activation %s, which Keras's files cannot hold; they hold "
                         "iso_gelu(y, true) of the output of a layer without activation",
                         layer, name);
    return ISO_OK;
}

/* What a layer of Keras does not have. */
static iso_status check_options(const char *layer, const char *type, const json_t *config)
{
    static const struct {
        const char *noted, *option;
    } ours[] = {{"rope_max_wavelength", "rope_max_wavelength"},
                {"qk_norm_epsilon", "qk_norm"},
                {"use_output_bias", "no_output_bias"},
                {"score_scale", "score_scale"},
                {"score_cap", "score_cap"},
                {"zero_centered", "zero_centered"}};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (json_object_get(config, ours[i].noted))
            return iso_error(
                ISO_INVALID,
                "layer '%s' has %s, which Keras's %s does not have; Keras's files cannot hold it", layer,
                ours[i].option, type);
    return ISO_OK;
}

static bool is_above_one(const json_t *numbers)
{
    size_t i;
    const json_t *number;
    json_array_foreach(numbers, i, number) if (json_integer_value(number) > 1) return true;
    return false;
}

/* Keras computes strides with dilation in depthwise convolutions alone. */
static iso_status check_strides(const char *layer, const char *type, const json_t *config)
{
    static const char *const refused[] = {"Conv1D",          "Conv2D",          "Conv3D",
                                          "Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"};
    bool is_refused = false;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        is_refused = is_refused || strcmp(type, refused[i]) == 0;
    if (is_refused && is_above_one(json_object_get(config, "strides")) &&
        is_above_one(json_object_get(config, "dilation_rate")))
        return iso_error(ISO_INVALID,
                         "layer '%s' has strides and a dilation_rate above 1, which Keras's %s refuses; "
                         "Keras's files cannot hold it",
                         layer, type);
    return ISO_OK;
}

static iso_status check_class(const char *layer, const char *type)
{
    return strcmp(type, "MixtureOfExperts") == 0
               ? iso_error(ISO_INVALID,
                           "layer '%s' is a mixture of experts, which Keras does not have; Keras's files "
                           "cannot hold it",
                           layer)
               : ISO_OK;
}

static iso_status check_config(const char *layer, const char *type, const json_t *config)
{
    iso_status status = check_class(layer, type);
    if (status == ISO_OK)
        status = check_activation(layer, config);
    if (status == ISO_OK)
        status = check_options(layer, type, config);
    return status == ISO_OK ? check_strides(layer, type, config) : status;
}

/* A layer's config. */
static iso_status layer_config(const writer *w, int number, const char **module, const char **type,
                               json_t **out)
{
    const iso_operation *operation = &w->net->operations[number];
    *module = "keras.layers";
    *type = operation->type;
    if (operation->kind == ISO_OPERATION_OP)
        return bare_op(operation, w->net, module, type, out);
    const iso_layer_record *record = iso_graph_layer(w->graph, operation->record);
    *out = record->config ? attribute_json(record->config) : json_object();
    if (!*out)
        return iso_no_memory(CONFIG);
    return check_config(operation->name, *type, *out);
}

/* The names of a class that is not of keras.layers. */
static void note_package(json_t *layer, const char *type)
{
    const iso_layer_type *known = iso_layer_type_find(type);
    if (!known || !known->registered)
        return;
    json_object_set_new(layer, "module", json_string(known->module));
    json_object_set_new(layer, "registered_name", json_string(known->registered));
}

/* Gives the parts of a layer what their records say besides their configs. */
static void complete_parts(const writer *w, const iso_layer_record *layer, json_t *config)
{
    for (int i = 0; i < layer->n_parts; i++) {
        const iso_layer_record *part = layer->parts[i].record;
        json_t *object = json_object_get(config, layer->parts[i].argument),
               *own = json_object_get(object, "config");
        const iso_layer_type *known = iso_layer_type_find(part->type); /* NULL: a recurrent cell */
        if (!known || !known->not_trainable)
            json_object_set_new(own, "trainable", json_boolean(!part->frozen));
        json_object_set_new(own, "dtype", policy(w->graph, part->compute));
        note_package(object, part->type);
        complete_parts(w, part, own);
    }
}

static iso_status describe_layer(const writer *w, int number, const char **type, json_t **out)
{
    const iso_operation *operation = &w->net->operations[number];
    bool trainable =
        operation->kind == ISO_OPERATION_OP || !iso_graph_layer(w->graph, operation->record)->frozen;
    const char *module;
    json_t *noted = NULL;
    iso_status status = layer_config(w, number, &module, type, &noted);
    json_t *config = NULL;
    if (status != ISO_OK) {
        json_decref(noted);
        return status;
    }
    if (operation->kind == ISO_OPERATION_LAYER)
        complete_parts(w, iso_graph_layer(w->graph, operation->record), noted);
    if (iso_keras_is_module_of_operations(module))
        config = json_pack("{s: s}", "name", w->name[number]);
    else
        config = json_pack("{s: s, s: b, s: o}", "name", w->name[number], "trainable", trainable, "dtype",
                           policy(w->graph, compute_type(w, operation)));
    const iso_layer_type *known = iso_layer_type_find(*type);
    if (known && known->not_trainable)
        json_object_del(config, "trainable");
    if (json_object_update(config, noted)) {
        json_decref(config);
        config = NULL;
    }
    json_decref(noted);
    *out = iso_keras_object(module, *type, config);
    if (*out && operation->kind == ISO_OPERATION_LAYER)
        note_package(*out, *type);
    return *out ? ISO_OK : iso_no_memory(CONFIG);
}

static iso_status describe_block(const writer *w, int number, json_t **out)
{
    iso_keras_topology inside;
    const iso_operation *operation = &w->net->operations[number];
    iso_status status =
        iso_keras_topology_create_block(w->graph, &w->net->calls[operation->calls[0]], &inside);
    if (status != ISO_OK)
        return status;
    status = describe_network(w->graph, &inside, w->name[number], out);
    iso_keras_topology_free(&inside);
    return status;
}

static iso_status describe_operation(const writer *w, int number, json_t **out)
{
    const iso_operation *operation = &w->net->operations[number];
    const char *type = operation->type;
    iso_status status = ISO_OK;
    *out = NULL;
    if (operation->kind == ISO_OPERATION_INPUT)
        *out = describe_input(w, number);
    else if (operation->kind == ISO_OPERATION_BLOCK)
        ISO_TRY(describe_block(w, number, out));
    else if (operation->kind == ISO_OPERATION_FUNCTION)
        ISO_TRY(describe_function(w, number, out));
    else
        ISO_TRY(describe_layer(w, number, &type, out));
    if (!*out)
        ISO_TRY(iso_no_memory(CONFIG));
    if (!w->net->sequential) {
        if (json_object_set_new(*out, "name", json_string(w->name[number])))
            ISO_TRY(iso_no_memory(CONFIG));
        ISO_TRY(describe_calls(w, operation, type, *out));
    }
done:
    if (status != ISO_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return status;
}

/* ---- networks ---- */

/* A list of one item is replaced by the item. */
static json_t *ends(const writer *w, const iso_layer_call_output *list, int count)
{
    json_t *out = json_array();
    for (int i = 0; i < count; i++) {
        const iso_operation *operation = &w->net->operations[w->net->calls[list[i].call].operation];
        /* Keras counts the calls of a functional model from 1 here: it had one when it was built. */
        bool functional =
            operation->kind == ISO_OPERATION_BLOCK && strcmp(operation->type, "Functional") == 0;
        json_array_append_new(out, history(w, &list[i], functional));
    }
    if (count != 1)
        return out;
    json_t *only = json_incref(json_array_get(out, 0));
    json_decref(out);
    return only;
}

/* Whether the only input of each operation is the result of the one before, as in a Sequential. */
static bool is_chain(const iso_keras_topology *net)
{
    int outer = net->n_inputs == 1 && net->n_outputs == 1 ? net->outputs[0].call : -1;
    for (int i = net->n_operations - 1; i >= 0; i--) {
        const iso_operation *operation = &net->operations[i];
        if (outer < 0 || operation->n_calls != 1 || operation->calls[0] != outer)
            return false;
        const iso_layer_call *call = &net->calls[outer];
        if (i == 0)
            return operation->kind == ISO_OPERATION_INPUT;
        if (call->n_inputs != 1 || call->n_outputs != 1)
            return false;
        outer = call->from[0].call;
    }
    return false;
}

static iso_status check_ends(const iso_keras_topology *net)
{
    for (int i = 0; i < net->n_outputs; i++)
        if (net->outputs[i].call < 0)
            return iso_error(ISO_INVALID, "output %d of the network is a constant or a variable's value", i);
    return ISO_OK;
}

static json_t *finish(const writer *w, const char *name, json_t *layers)
{
    const iso_keras_topology *net = w->net;
    json_t *out;
    if (w->net->sequential) {
        const iso_tensor *x = net->calls[net->inputs[0].call].outputs[0];
        json_t *config = json_pack("{s: s, s: b, s: o, s: o, s: o}", "name", name, "trainable", 1, "dtype",
                                   policy(w->graph, iso_graph_precision(w->graph)), "layers", layers,
                                   "build_input_shape", shape_json(iso_tensor_shape(x)));
        return iso_keras_object("keras", "Sequential", config);
    }
    json_t *config = json_pack("{s: s, s: b, s: o, s: o, s: o}", "name", name, "trainable", 1, "layers",
                               layers, "input_layers", ends(w, net->inputs, net->n_inputs), "output_layers",
                               ends(w, net->outputs, net->n_outputs));
    out = iso_keras_object("keras.src.models.functional", "Functional", config);
    if (out)
        json_object_set_new(out, "registered_name", json_string("Functional"));
    return out;
}

static iso_status describe(writer *w, const char *name, json_t **out)
{
    json_t *layers = json_array();
    iso_status status = ISO_OK;
    ISO_TRY(check_ends(w->net));
    ISO_TRY(choose_names(w));
    for (int i = 0; i < w->net->n_operations; i++) {
        json_t *layer;
        ISO_TRY(describe_operation(w, i, &layer));
        if (json_array_append_new(layers, layer))
            ISO_TRY(iso_no_memory(CONFIG));
    }
    *out = finish(w, name, layers);
    layers = NULL;
    status = *out ? ISO_OK : iso_no_memory(CONFIG);
done:
    json_decref(layers);
    return status;
}

static iso_status describe_network(const iso_graph *graph, const iso_keras_topology *net, const char *name,
                                   json_t **out)
{
    if (net->sequential && !is_chain(net))
        return iso_error(ISO_INVALID, "'%s' is recorded as a Sequential but is not a chain of layers", name);
    writer w = {
        .graph = graph, .net = net, .name = iso_new((size_t)(net->n_operations + 1) * sizeof *w.name)};
    iso_status status = w.name ? describe(&w, name, out) : iso_no_memory(CONFIG);
    for (int i = 0; w.name && i < net->n_operations; i++)
        iso_free(w.name[i]);
    iso_free(w.name);
    return status;
}

/* "input_layers" or "output_layers" by the keys of a dictionary. */
static iso_status set_keys(json_t *network, const char *ends, const char *const *key, int count)
{
    json_t *config = json_object_get(network, "config"), *list = json_object_get(config, ends),
           *object = json_object();
    bool one = json_is_string(json_array_get(list, 0));
    int failed = !object;
    for (int i = 0; i < count; i++)
        failed |= json_object_set(object, key[i], one ? list : json_array_get(list, (size_t)i));
    failed |= json_object_set_new(config, ends, object);
    return failed ? iso_no_memory(CONFIG) : ISO_OK;
}

/* Inputs and outputs that are those of a dictionary get their keys. */
static iso_status name_ends(iso_model *model, json_t *network)
{
    const char *input[ISO_MAX_MODEL_INPUTS], *output[ISO_MAX_MODEL_OUTPUTS];
    int inputs = iso_model_input_count(model), outputs = iso_model_output_count(model);
    iso_status status = ISO_OK;
    for (int i = 0; i < inputs; i++)
        input[i] = iso_model_input_key(model, i);
    for (int i = 0; i < outputs; i++)
        output[i] = iso_model_output_name(model, i);
    if (iso_keras_are_keys(input, inputs))
        ISO_TRY(set_keys(network, "input_layers", input, inputs));
    if (iso_keras_outputs_have_keys(model))
        ISO_TRY(set_keys(network, "output_layers", output, outputs));
done:
    return status;
}

iso_status iso_keras_describe(iso_model *model, json_t **out)
{
    iso_tensor *input[ISO_MAX_MODEL_INPUTS], *output[ISO_MAX_MODEL_OUTPUTS];
    iso_graph *graph = iso_model_graph(model);
    iso_keras_topology net;
    char default_value[32];
    json_t *config = NULL, *compile = NULL;
    iso_status status = iso_graph_error(graph);
    if (status == ISO_OK)
        status = iso_keras_check_masks(graph);
    if (status != ISO_OK)
        return status;
    for (int i = 0; i < iso_model_input_count(model); i++)
        input[i] = iso_model_input_at(model, i);
    for (int i = 0; i < iso_model_output_count(model); i++)
        output[i] = iso_model_output_at(model, i);
    status = iso_keras_topology_create(graph, input, iso_model_input_count(model), output,
                                       iso_model_output_count(model), &net);
    if (status != ISO_OK)
        return status;
    iso_text_snake_case(iso_topology_class(net.sequential), default_value, sizeof default_value);
    ISO_TRY(describe_network(graph, &net, iso_graph_name(graph) ? iso_graph_name(graph) : default_value,
                             &config));
    if (!net.sequential)
        ISO_TRY(name_ends(model, config));
    if (iso_model_optimizer(model)) {
        compile = iso_keras_compile_config(model);
        if (!compile || json_object_set_new(config, "compile_config", compile))
            ISO_TRY(iso_no_memory(CONFIG));
    }
    *out = config;
    config = NULL;
done:
    json_decref(config);
    iso_keras_topology_free(&net);
    return status;
}
