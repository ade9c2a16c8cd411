/* Networks of config.json as graphs: Sequential and Functional, one within another, layers and models that
 * are called more than once. As Keras does it (functional_from_config in keras/src/models/functional.py): the
 * calls of all layers are gone through in the order of the file, those whose inputs are not there yet again
 * and again. */
#include <stdio.h>
#include <string.h>

#include "models/keras/keras_impl.h"
#include "runtime/base/memory.h"
#include "runtime/graph/op.h"

enum {
    MOST_CALLS = 100000, /* of layers, in all: models that call models that call models grow fast */
    MOST_LAYERS = 10000,
};

/* A call of a layer: its outputs. */
typedef struct call {
    int count;
    iso_tensor **output;
} call;

typedef struct layer {
    const json_t *entry, *config; /* {"class_name", "config", "inbound_nodes"}; its "config" */
    const char *type, *name;
    int node, nodes; /* of its calls in the file, so many are done */
    call *calls;     /* [nodes]; of a Sequential's layer one */
} layer;

typedef struct network {
    iso_keras_reader *reader;
    iso_graph *graph;
    const json_t *config;
    const iso_keras_list *given; /* the tensors that a model within is called with; NULL: the whole model */
    iso_keras_list *made;        /* the whole model: its inputs go here as they are made */
    int layers;
    layer *layer;
    json_t *index; /* name -> number of the layer */
} network;

static iso_status build_model(iso_keras_reader *reader, iso_graph *graph, const char *type,
                              const json_t *config, const iso_keras_list *given, iso_keras_list *inputs,
                              iso_keras_list *outputs);

/* ---- lists of tensors ---- */

void iso_keras_list_free(iso_keras_list *list)
{
    iso_free(list->tensor);
    iso_free(list->name);
    *list = (iso_keras_list){0};
}

static iso_status add(iso_keras_list *list, iso_tensor *tensor, const char *name)
{
    if (list->count == list->capacity) {
        size_t old = (size_t)list->capacity, wanted = old ? 2 * old : 8;
        iso_tensor **tensors = iso_grow(list->tensor, old, wanted, sizeof *tensors);
        if (tensors)
            list->tensor = tensors;
        const char **names = tensors ? iso_grow(list->name, old, wanted, sizeof *names) : NULL;
        if (!names)
            return iso_error(ISO_NO_MEMORY, "no memory for the tensors of a network");
        list->name = names;
        list->capacity = (int)wanted;
    }
    list->tensor[list->count] = tensor;
    list->name[list->count++] = name;
    return ISO_OK;
}

/* ---- which tensors a reference names ---- */

static bool is_model(const char *type)
{
    return strcmp(type, "Functional") == 0 || strcmp(type, "Model") == 0;
}

static bool is_network(const char *type)
{
    return is_model(type) || strcmp(type, "Sequential") == 0;
}

/* The tensor of ["dense", 0, 0]; *tensor NULL where that call has not been made yet. `ends`: one of the lists
 * input_layers and output_layers, in which the calls of functional models are counted from 1. */
static iso_status find_tensor(network *net, const json_t *history, bool ends, iso_tensor **tensor)
{
    const char *name = json_string_value(json_array_get(history, 0));
    const json_t *node = json_array_get(history, 1), *output = json_array_get(history, 2);
    char text[120];
    *tensor = NULL;
    if (json_array_size(history) != 3 || !name || !json_is_integer(node) || !json_is_integer(output))
        return iso_keras_refuse(net->reader, "%s is no tensor: [\"layer\", call, output] is wanted",
                                iso_keras_value(history, text, sizeof text));
    const json_t *number = json_object_get(net->index, name);
    if (!number)
        return iso_keras_refuse(net->reader, "there is no layer '%.80s', whose output is wanted here", name);
    const layer *from = &net->layer[json_integer_value(number)];
    json_int_t at = json_integer_value(node) - (ends && is_model(from->type)),
               of = json_integer_value(output);
    if (at < 0 || at >= from->nodes)
        return iso_keras_refuse(net->reader, "%s: the layer is called %d times",
                                iso_keras_value(history, text, sizeof text), from->nodes);
    if (at >= from->node)
        return ISO_OK;
    if (of < 0 || of >= from->calls[at].count)
        return iso_keras_refuse(net->reader, "%s: the layer has %d outputs",
                                iso_keras_value(history, text, sizeof text), from->calls[at].count);
    *tensor = from->calls[at].output[of];
    return ISO_OK;
}

/* Whether the file has written down another shape than the tensor's. */
static bool differs(const json_t *shape, const iso_shape *have)
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

static iso_status check_shape(const network *net, const json_t *tensor, const iso_tensor *built)
{
    char have[160], want[160];
    const json_t *shape = json_object_get(tensor, "shape");
    if (!differs(shape, iso_tensor_shape(built)))
        return ISO_OK;
    return iso_keras_refuse(net->reader, "its input has the shape %s here, the file says %s",
                            iso_shape_text(iso_tensor_shape(built), have, sizeof have),
                            iso_keras_value(shape, want, sizeof want));
}

/* The key that follows `last` (NULL: the first) in alphabetical order, as Keras flattens dictionaries. */
static const char *next_key(const json_t *object, const char *last)
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

/* The tensors of an argument of a call, in order; others than tensors are refused. */
static iso_status add_argument(network *net, const json_t *value, const char *key, iso_keras_list *list,
                               bool *ready)
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
        for (const char *k = next_key(value, NULL); k; k = next_key(value, k))
            ISO_TRY(add_argument(net, json_object_get(value, k), k, list, ready));
        return ISO_OK;
    }
    if (json_is_null(value))
        return ISO_OK;
    if (!type || strcmp(type, "__keras_tensor__") != 0)
        return iso_keras_refuse(net->reader, "it is called with %s, which is no tensor",
                                iso_keras_value(value, text, sizeof text));
    const json_t *config = json_object_get(value, "config");
    ISO_TRY(find_tensor(net, json_object_get(config, "keras_history"), false, &tensor));
    if (!tensor) {
        *ready = false;
        return ISO_OK;
    }
    ISO_TRY(check_shape(net, config, tensor));
    ISO_TRY(add(list, tensor, key));
done:
    return status;
}

/* What went wrong in the graph, with its place in the file. */
static iso_status graph_error(const network *net)
{
    iso_status status = iso_graph_error(net->graph);
    return status == ISO_OK ? ISO_OK
                            : iso_error_prefix(status, "%s: %s: ", net->reader->file, net->reader->place);
}

/* ---- calls ---- */

/* The names under which layers of several inputs may be called with each of them, in order. */
static const char *const parameters[] = {"inputs", "x", "query", "value", "key"};

static bool is_tensor(const json_t *value)
{
    const char *type = iso_keras_text(value, "class_name");
    return type && strcmp(type, "__keras_tensor__") == 0;
}

/* What a call is given by name: tensors that are inputs go into the list, in the order of `parameters`, and
 * out of `others`. */
static iso_status add_named(network *net, json_t *others, iso_keras_list *list, bool *ready)
{
    iso_status status = ISO_OK;
    for (size_t i = 0; i < sizeof parameters / sizeof parameters[0]; i++) {
        const json_t *value = json_object_get(others, parameters[i]);
        if (!is_tensor(value) && !json_is_array(value))
            continue;
        ISO_TRY(add_argument(net, value, parameters[i], list, ready));
        json_object_del(others, parameters[i]);
    }
done:
    return status;
}

/* The inputs of a call of the file, and what else it is given by name (the caller's). */
static iso_status read_node(network *net, const json_t *node, iso_keras_list *list, json_t **others,
                            bool *ready)
{
    iso_status status = ISO_OK;
    const json_t *args = json_object_get(node, "args"), *kwargs = json_object_get(node, "kwargs");
    if (!json_is_array(args) || (kwargs && !json_is_object(kwargs)))
        return iso_keras_refuse(net->reader, "its inbound_nodes are not those of a file of Keras 3");
    *ready = true;
    ISO_TRY(add_argument(net, args, NULL, list, ready));
    *others = kwargs ? json_copy((json_t *)kwargs) : json_object();
    if (!*others)
        ISO_TRY(iso_error(ISO_NO_MEMORY, "no memory for the arguments of a call"));
    ISO_TRY(add_named(net, *others, list, ready));
done:
    return status;
}

static iso_status keep_outputs(layer *l, const iso_keras_list *outputs)
{
    call *c = &l->calls[l->node];
    c->output = iso_new((size_t)outputs->count * sizeof *c->output + 1);
    if (!c->output)
        return iso_error(ISO_NO_MEMORY, "no memory for the calls of a layer");
    memcpy(c->output, outputs->tensor, (size_t)outputs->count * sizeof *c->output);
    c->count = outputs->count;
    l->node++;
    return ISO_OK;
}

/* float32 is the one policy; --precision is how a network is computed in another. */
static iso_status check_policy(iso_keras_arguments *arguments, const json_t *config)
{
    const json_t *dtype = json_object_get(config, "dtype");
    char text[120];
    iso_keras_arguments_take(arguments, "dtype");
    const char *name = json_is_object(dtype) ? iso_keras_text(json_object_get(dtype, "config"), "name")
                                             : json_string_value(dtype);
    if (json_is_null(dtype) || !dtype || (name && strcmp(name, "float32") == 0))
        return ISO_OK;
    return iso_keras_refuse(arguments->reader, "dtype is %s; supported: \"float32\" (--precision says more)",
                            iso_keras_value(dtype, text, sizeof text));
}

static iso_status unknown_layer(const network *net, const layer *l, bool custom)
{
    iso_text text = {0};
    const char *module = iso_keras_text(l->entry, "module");
    const char *registered = iso_keras_text(l->entry, "registered_name");
    if (custom)
        iso_text_add(
            &text, "the class %.100s is the user's own, not Keras's: nothing that a file brings is executed",
            registered ? registered : l->type);
    else if (module && strncmp(module, "keras.src.ops", 13) == 0)
        iso_text_add(&text, "the operation %.100s of keras.ops is no layer", l->type);
    else
        iso_text_add(&text, "the layer %.100s is not supported", l->type);
    iso_text_add(&text, "; there are: InputLayer, Functional, Sequential");
    for (int i = 0; i < iso_layer_type_count(); i++)
        iso_text_add(&text, ", %s", iso_layer_type_at(i)->keras);
    iso_status status = iso_keras_refuse(net->reader, "%s", iso_text_get(&text));
    iso_text_free(&text);
    return status;
}

/* The type of a layer of Keras's own that Isogrid has; NULL: there is none. */
static const iso_layer_type *find_type(const layer *l, bool *custom)
{
    const char *module = iso_keras_text(l->entry, "module");
    const char *type = iso_keras_class(l->entry, custom);
    bool layers =
        !module || strcmp(module, "keras.layers") == 0 || strncmp(module, "keras.src.layers", 16) == 0;
    return layers && !*custom ? iso_layer_type_find(type) : NULL;
}

/* A call of a layer that is no model. */
static iso_status call_layer(network *net, layer *l, const iso_keras_list *in, const json_t *others,
                             iso_keras_list *out)
{
    bool custom;
    const iso_layer_type *type = find_type(l, &custom);
    iso_keras_arguments arguments = {.reader = net->reader,
                                     .members = l->config,
                                     .call = others,
                                     .config = {.name = l->name, .type = l->type}};
    if (!type)
        return unknown_layer(net, l, custom);
    if (in->count == 0 || (in->count > 1 && !type->several))
        return iso_keras_refuse(net->reader, "it is called with %d tensors", in->count);
    iso_status status = iso_keras_arguments_begin(&arguments);
    if (status != ISO_OK)
        return status;
    ISO_TRY(check_policy(&arguments, l->config));
    iso_keras_arguments_take(&arguments, "trainable");
    iso_tensor *y = type->build(&arguments.config, in->tensor, in->count);
    ISO_TRY(graph_error(net));
    ISO_TRY(add(out, y, NULL));
done:
    return iso_keras_arguments_end(&arguments, status);
}

/* A call of a model within: a block of its name. */
static iso_status call_network(network *net, const layer *l, const iso_keras_list *in, iso_keras_list *out)
{
    iso_graph *graph = net->graph;
    iso_status status;
    iso_name_scope_begin(graph, l->name);
    iso_name_scope_note(graph, is_model(l->type) ? "Functional" : "Sequential", in->tensor, in->count, -1);
    status = graph_error(net);
    if (status != ISO_OK)
        return status;
    status = build_model(net->reader, graph, l->type, l->config, in, NULL, out);
    if (status == ISO_OK)
        iso_name_scope_end_several(graph, out->tensor, out->count);
    return status;
}

static bool is_frozen(const layer *l)
{
    return strcmp(l->type, "Sequential") != 0 && json_is_false(json_object_get(l->config, "trainable"));
}

/* One call of a layer, with what it shares with its calls before. */
static iso_status make_call(network *net, layer *l, const iso_keras_list *in, const json_t *others)
{
    iso_keras_list out = {0};
    iso_status status;
    bool again = l->node > 0, frozen = is_frozen(l);
    if (++net->reader->calls > MOST_CALLS)
        return iso_keras_refuse(net->reader, "more than %d calls of layers", MOST_CALLS);
    net->reader->quiet += again;
    if (again)
        iso_share_begin(net->graph);
    if (frozen)
        iso_freeze_begin(net->graph);
    status = is_network(l->type) ? call_network(net, l, in, &out) : call_layer(net, l, in, others, &out);
    net->reader->quiet -= again;
    if (again)
        iso_share_end(net->graph);
    if (frozen)
        iso_freeze_end(net->graph);
    if (status == ISO_OK)
        status = keep_outputs(l, &out);
    iso_keras_list_free(&out);
    return status;
}

/* ---- inputs ---- */

iso_dtype iso_keras_dtype(const char *name)
{
    static const iso_dtype types[] = {ISO_F32, ISO_F64, ISO_I32, ISO_I64, ISO_U8, ISO_BOOL};
    for (size_t i = 0; name && i < sizeof types / sizeof types[0]; i++)
        if (strcmp(name, iso_dtype_name(types[i])) == 0)
            return types[i];
    return ISO_DTYPE_NONE;
}

/* A row's shape from [null, 28, 28, 1]. */
static iso_status read_shape(const network *net, const json_t *shape, iso_shape *row)
{
    char text[120];
    size_t rank = json_array_size(shape);
    *row = (iso_shape){.rank = (int)rank - 1};
    if (rank < 1 || rank > ISO_MAX_RANK)
        return iso_keras_refuse(net->reader,
                                "the input's shape is %s; a batch and at most %d dimensions are supported",
                                iso_keras_value(shape, text, sizeof text), ISO_MAX_RANK - 1);
    for (size_t i = 1; i < rank; i++) {
        const json_t *dim = json_array_get(shape, i);
        if (!json_is_integer(dim) || json_integer_value(dim) <= 0)
            return iso_keras_refuse(net->reader,
                                    "the input's shape is %s; only the batch may be of any length",
                                    iso_keras_value(shape, text, sizeof text));
        row->dim[i - 1] = json_integer_value(dim);
    }
    if (!json_is_null(json_array_get(shape, 0)))
        iso_keras_warn(net->reader, "the batch of %s rows is not held to: --batch-size says how many",
                       iso_keras_value(json_array_get(shape, 0), text, sizeof text));
    return ISO_OK;
}

static iso_status make_input(network *net, const char *name, const json_t *shape, iso_dtype dtype,
                             iso_tensor **x)
{
    iso_shape row;
    iso_status status = read_shape(net, shape, &row);
    if (status != ISO_OK)
        return status;
    *x = iso_input(net->graph, name, dtype, row);
    status = graph_error(net);
    return status == ISO_OK ? add(net->made, *x, name) : status;
}

/* The InputLayer of a model within, which passes on what the model is called with. */
static void note_input(iso_graph *graph, const char *name, iso_tensor *x)
{
    iso_layer_record record = {.type = "InputLayer", .name = name, .output = x, .again = -1};
    for (int i = 0; record.again < 0 && iso_graph_shares(graph) && i < iso_graph_layer_count(graph); i++)
        if (strcmp(iso_graph_layer(graph, i)->name, name) == 0)
            record.again = i;
    iso_graph_add_layer(graph, &record);
}

/* A tensor that the model is called with, as what the file says of its input. */
static iso_status take_input(network *net, const char *name, const json_t *shape, int number, iso_tensor **x)
{
    char have[160], want[160];
    if (number < 0 || number >= net->given->count)
        return iso_keras_refuse(net->reader, "the model is called with %d tensors and has an input more",
                                net->given->count);
    *x = net->given->tensor[number];
    if (differs(shape, iso_tensor_shape(*x)))
        return iso_keras_refuse(net->reader, "its input has the shape %s, the model is called with %s",
                                iso_keras_value(shape, want, sizeof want),
                                iso_shape_text(iso_tensor_shape(*x), have, sizeof have));
    if (name)
        note_input(net->graph, iso_graph_take_name(net->graph, name), *x);
    return graph_error(net);
}

/* An InputLayer; number: of the inputs of a model within. */
static iso_status call_input(network *net, layer *l, int number)
{
    iso_keras_list out = {0};
    iso_tensor *x;
    iso_status status;
    char text[120];
    iso_keras_arguments arguments = {.reader = net->reader, .members = l->config, .config.type = l->type};
    const json_t *shape = json_object_get(l->config, "batch_shape"),
                 *dtype = json_object_get(l->config, "dtype");
    if (!json_is_array(shape))
        return iso_keras_refuse(net->reader, "it has no batch_shape");
    iso_dtype type = dtype ? iso_keras_dtype(json_string_value(dtype)) : ISO_F32;
    if (type == ISO_DTYPE_NONE)
        return iso_keras_refuse(net->reader,
                                "dtype is %s; supported: float32, float64, int32, int64, uint8, bool",
                                iso_keras_value(dtype, text, sizeof text));
    ISO_TRY(net->given ? take_input(net, l->name, shape, number, &x)
                       : make_input(net, l->name, shape, type, &x));
    ISO_TRY(iso_keras_arguments_begin(&arguments));
    iso_keras_arguments_take(&arguments, "batch_shape");
    iso_keras_arguments_take(&arguments, "dtype");
    iso_keras_arguments_take(&arguments, "trainable");
    ISO_TRY(iso_keras_arguments_end(&arguments, ISO_OK));
    ISO_TRY(add(&out, x, NULL));
    ISO_TRY(keep_outputs(l, &out));
done:
    iso_keras_list_free(&out);
    return status;
}

static bool is_input(const layer *l)
{
    return strcmp(l->type, "InputLayer") == 0;
}

/* ---- the layers of a network ---- */

static size_t enter_layer(const network *net, const layer *l)
{
    return iso_keras_enter(net->reader, "layers[%d] (%.60s '%.80s')", (int)(l - net->layer), l->type,
                           l->name);
}

static iso_status read_layer(network *net, const json_t *entry, int number)
{
    layer *l = &net->layer[number];
    *l = (layer){.entry = entry, .config = json_object_get(entry, "config")};
    l->type = iso_keras_text(entry, "class_name");
    l->name = iso_keras_text(l->config, "name");
    if (!l->type || !json_is_object(l->config) || !l->name)
        return iso_keras_refuse(net->reader, "layers[%d] has no class_name, or no config with a name",
                                number);
    const json_t *nodes = json_object_get(entry, "inbound_nodes");
    l->nodes = is_input(l) || !nodes ? 1 : (int)json_array_size(nodes);
    l->calls = iso_new((size_t)l->nodes * sizeof *l->calls + 1);
    if (!l->calls || json_object_set_new_nocheck(net->index, l->name, json_integer(number)) != 0)
        return iso_error(ISO_NO_MEMORY, "no memory for the layers of a network");
    return ISO_OK;
}

static iso_status read_layers(network *net)
{
    iso_status status = ISO_OK;
    const json_t *list = json_object_get(net->config, "layers");
    size_t count = json_array_size(list);
    if (count == 0 || count > MOST_LAYERS)
        return iso_keras_refuse(net->reader, "it has %zu layers, 1 to %d are possible", count, MOST_LAYERS);
    net->layer = iso_new(count * sizeof *net->layer);
    net->index = json_object();
    if (!net->layer || !net->index)
        return iso_error(ISO_NO_MEMORY, "no memory for the layers of a network");
    for (; net->layers < (int)count; net->layers++) {
        ISO_TRY(read_layer(net, json_array_get(list, (size_t)net->layers), net->layers));
        if (json_object_size(net->index) != (size_t)net->layers + 1)
            ISO_TRY(
                iso_keras_refuse(net->reader, "two layers are named '%.80s'", net->layer[net->layers].name));
    }
done:
    return status;
}

static void free_layers(network *net)
{
    for (int i = 0; i < net->layers; i++) {
        for (int k = 0; k < net->layer[i].node; k++)
            iso_free(net->layer[i].calls[k].output);
        iso_free(net->layer[i].calls);
    }
    iso_free(net->layer);
    json_decref(net->index);
}

/* ---- Sequential ---- */

/* The input of a Sequential: its InputLayer, or what it was built with. */
static iso_status begin_sequential(network *net, iso_tensor **x)
{
    if (is_input(&net->layer[0])) {
        size_t place = enter_layer(net, &net->layer[0]);
        iso_status status = call_input(net, &net->layer[0], 0);
        iso_keras_leave(net->reader, place);
        if (status == ISO_OK)
            *x = net->layer[0].calls[0].output[0];
        return status;
    }
    if (net->given)
        return take_input(net, NULL, NULL, 0, x);
    const json_t *shape = json_object_get(net->config, "build_input_shape");
    if (!json_is_array(shape))
        return iso_keras_refuse(net->reader,
                                "it has no input shape: the model was not built before it was saved");
    return make_input(net, "input_layer", shape, ISO_F32, x);
}

static iso_status build_sequential(network *net, iso_keras_list *outputs)
{
    iso_status status;
    iso_tensor *x = NULL;
    ISO_TRY(begin_sequential(net, &x));
    for (int i = is_input(&net->layer[0]); i < net->layers; i++) {
        iso_keras_list in = {.count = 1, .tensor = &x};
        layer *l = &net->layer[i];
        size_t place = enter_layer(net, l);
        ISO_TRY(make_call(net, l, &in, NULL));
        if (l->calls[0].count != 1)
            ISO_TRY(iso_keras_refuse(net->reader, "it has %d outputs in a Sequential", l->calls[0].count));
        x = l->calls[0].output[0];
        iso_keras_leave(net->reader, place);
    }
    ISO_TRY(add(outputs, x, NULL));
done:
    return status;
}

/* ---- Functional ---- */

/* The tensors of input_layers or output_layers, which may be lists or dictionaries. */
static iso_status add_end(network *net, const json_t *value, const char *key, iso_keras_list *list,
                          bool *ready)
{
    iso_status status = ISO_OK;
    iso_tensor *tensor;
    for (const char *k = next_key(value, NULL); k; k = next_key(value, k))
        ISO_TRY(add_end(net, json_object_get(value, k), k, list, ready));
    if (json_is_object(value))
        return ISO_OK;
    if (json_is_string(json_array_get(value, 0))) {
        ISO_TRY(find_tensor(net, value, true, &tensor));
        *ready = *ready && tensor;
        return tensor ? add(list, tensor, key) : ISO_OK;
    }
    if (!json_is_array(value))
        return iso_keras_refuse(net->reader, "its input_layers or output_layers are missing");
    for (size_t i = 0; i < json_array_size(value); i++)
        ISO_TRY(add_end(net, json_array_get(value, i), key, list, ready));
done:
    return status;
}

/* The names of input_layers, in order. */
static iso_status number_inputs(const network *net, const json_t *value, json_t *numbers)
{
    iso_status status = ISO_OK;
    const char *name = json_string_value(json_array_get(value, 0));
    if (name) {
        json_object_set_new_nocheck(numbers, name, json_integer((json_int_t)json_object_size(numbers)));
        return ISO_OK;
    }
    for (size_t i = 0; i < json_array_size(value); i++)
        ISO_TRY(number_inputs(net, json_array_get(value, i), numbers));
    for (const char *k = next_key(value, NULL); k; k = next_key(value, k))
        ISO_TRY(number_inputs(net, json_object_get(value, k), numbers));
done:
    return status;
}

static iso_status call_inputs(network *net)
{
    iso_status status = ISO_OK;
    json_t *numbers = json_object();
    if (!numbers)
        return iso_error(ISO_NO_MEMORY, "no memory for the inputs of a network");
    ISO_TRY(number_inputs(net, json_object_get(net->config, "input_layers"), numbers));
    if (net->given && (int)json_object_size(numbers) != net->given->count)
        ISO_TRY(iso_keras_refuse(net->reader, "the model has %d inputs and is called with %d tensors",
                                 (int)json_object_size(numbers), net->given->count));
    for (int i = 0; i < net->layers; i++) {
        layer *l = &net->layer[i];
        if (!is_input(l))
            continue;
        const json_t *number = json_object_get(numbers, l->name);
        size_t place = enter_layer(net, l);
        ISO_TRY(call_input(net, l, number ? (int)json_integer_value(number) : -1));
        iso_keras_leave(net->reader, place);
    }
done:
    json_decref(numbers);
    return status;
}

/* The calls of a layer that can be made, in order. */
static iso_status call_what_is_ready(network *net, layer *l, bool *progress)
{
    iso_status status = ISO_OK;
    const json_t *nodes = json_object_get(l->entry, "inbound_nodes");
    bool ready = true;
    size_t place = enter_layer(net, l);
    while (ready && l->node < l->nodes) {
        iso_keras_list in = {0};
        json_t *others = NULL;
        status = read_node(net, json_array_get(nodes, (size_t)l->node), &in, &others, &ready);
        if (status == ISO_OK && ready) {
            status = make_call(net, l, &in, others);
            *progress = true;
        }
        iso_keras_list_free(&in);
        json_decref(others);
        ISO_TRY(status);
    }
    iso_keras_leave(net->reader, place);
done:
    return status;
}

static iso_status call_layers(network *net)
{
    iso_status status = ISO_OK;
    int left = net->layers;
    for (bool progress = true; progress && left > 0;) {
        progress = false;
        left = 0;
        for (int i = 0; i < net->layers; i++) {
            layer *l = &net->layer[i];
            if (l->node < l->nodes)
                ISO_TRY(call_what_is_ready(net, l, &progress));
            left += l->node < l->nodes;
        }
    }
    for (int i = 0; i < net->layers && left > 0; i++)
        if (net->layer[i].node < net->layer[i].nodes)
            return iso_keras_refuse(net->reader, "layers[%d] ('%.80s') waits for its own output, or for none",
                                    i, net->layer[i].name);
done:
    return status;
}

static iso_status build_functional(network *net, iso_keras_list *outputs)
{
    iso_status status;
    bool ready = true;
    for (int i = 0; i < net->layers; i++)
        if (!json_is_array(json_object_get(net->layer[i].entry, "inbound_nodes")))
            return iso_keras_refuse(net->reader, "layers[%d] ('%.80s') has no inbound_nodes", i,
                                    net->layer[i].name);
    ISO_TRY(call_inputs(net));
    ISO_TRY(call_layers(net));
    ISO_TRY(add_end(net, json_object_get(net->config, "output_layers"), NULL, outputs, &ready));
    if (!ready || outputs->count == 0)
        ISO_TRY(iso_keras_refuse(net->reader, "its output_layers name no outputs"));
done:
    return status;
}

/* ---- models ---- */

/* The whole model's inputs in the order of input_layers, which need not be that in which they were made. */
static iso_status order_inputs(network *net, iso_keras_list *inputs)
{
    iso_keras_list ordered = {0};
    bool ready = true;
    iso_status status = add_end(net, json_object_get(net->config, "input_layers"), NULL, &ordered, &ready);
    if (status == ISO_OK && (!ready || ordered.count != inputs->count))
        status = iso_keras_refuse(net->reader, "its input_layers name %d of its %d inputs", ordered.count,
                                  inputs->count);
    if (status != ISO_OK) {
        iso_keras_list_free(&ordered);
        return status;
    }
    iso_keras_list_free(inputs);
    *inputs = ordered;
    return ISO_OK;
}

static iso_status check_members(const network *net)
{
    static const char *const known[] = {
        "name", "trainable", "dtype", "layers", "input_layers", "output_layers", "build_input_shape"};
    const char *key;
    json_t *value;
    char text[120];
    json_object_foreach((json_t *)net->config, key, value)
    {
        bool found = json_is_null(value);
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
            found = found || strcmp(key, known[i]) == 0;
        if (!found)
            return iso_keras_refuse(net->reader, "%.60s is %s; supported: nothing", key,
                                    iso_keras_value(value, text, sizeof text));
    }
    iso_keras_arguments policy = {.reader = net->reader, .left = json_object()};
    iso_status status = check_policy(&policy, net->config);
    json_decref(policy.left);
    return status;
}

static iso_status build_model(iso_keras_reader *reader, iso_graph *graph, const char *type,
                              const json_t *config, const iso_keras_list *given, iso_keras_list *inputs,
                              iso_keras_list *outputs)
{
    network net = {.reader = reader, .graph = graph, .config = config, .given = given, .made = inputs};
    bool sequential = strcmp(type, "Sequential") == 0;
    iso_status status;
    ISO_TRY(check_members(&net));
    ISO_TRY(read_layers(&net));
    ISO_TRY(sequential ? build_sequential(&net, outputs) : build_functional(&net, outputs));
    if (inputs && !sequential)
        ISO_TRY(order_inputs(&net, inputs));
done:
    free_layers(&net);
    return status;
}

iso_status iso_keras_network_build(iso_keras_reader *reader, iso_graph *graph, const json_t *model,
                                   iso_keras_list *inputs, iso_keras_list *outputs)
{
    bool custom;
    const char *type = iso_keras_class(model, &custom);
    const json_t *config = json_object_get(model, "config");
    const char *name = iso_keras_text(config, "name");
    if (!type || !json_is_object(config))
        return iso_keras_refuse(reader,
                                "it is not the config of a model of Keras: class_name or config is missing");
    if (custom || !is_network(type))
        return iso_keras_refuse(
            reader, "the model is of the class %.100s; Functional and Sequential are supported", type);
    if (name)
        iso_graph_set_name(graph, name);
    iso_name_scope_note(graph, is_model(type) ? "Functional" : "Sequential", NULL, 0, -1);
    iso_status status = build_model(reader, graph, type, config, NULL, inputs, outputs);
    return status == ISO_OK ? iso_graph_error(graph) : status;
}
