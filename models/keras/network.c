/* Builds networks of config.json as graphs: Sequential and Functional, nested, with layers and models that are
 * called more than once. The calls of all layers are made in the order of the file, as Keras builds models
 * (functional_from_config in keras/src/models/functional.py); passes are repeated for calls whose inputs have not
 * been made yet. Where the order counts, they are made in that in which Keras runs them (call_order.c). */
#include <string.h>

#include "models/keras/network_impl.h"
#include "runtime/base/memory.h"
#include "runtime/graph/op.h"

enum {
    MOST_CALLS = 20000, /* of layers in total: nested models can multiply their number */
    MOST_LAYERS = 10000,
};

static iso_status build_model(iso_keras_reader *reader, iso_graph *graph, const char *type,
                              const json_t *config, const iso_keras_list *given, iso_keras_list *inputs,
                              iso_keras_list *outputs);

bool iso_keras_is_model(const char *type)
{
    return strcmp(type, "Functional") == 0 || strcmp(type, "Model") == 0;
}

static bool is_network(const char *type)
{
    return iso_keras_is_model(type) || strcmp(type, "Sequential") == 0;
}

iso_status iso_keras_keep_outputs(iso_keras_layer *l, int node, const iso_keras_list *outputs)
{
    iso_keras_call *c = &l->calls[node];
    c->output = iso_new((size_t)outputs->count * sizeof *c->output + 1);
    if (!c->output)
        return iso_no_memory("the calls of a layer");
    memcpy(c->output, outputs->tensor, (size_t)outputs->count * sizeof *c->output);
    c->count = outputs->count;
    l->made++;
    return ISO_OK;
}

/* The graph's error, with the position in the file. */
iso_status iso_keras_graph_error(const iso_keras_network *net)
{
    iso_status status = iso_graph_error(net->graph);
    return status == ISO_OK ? ISO_OK
                            : iso_error_prefix(status, "%s: %s: ", net->reader->file, net->reader->location);
}

/* ---- calls ---- */

static iso_status unknown_layer(const iso_keras_network *net, const iso_keras_layer *l, bool custom)
{
    iso_text text = {0};
    const char *registered = iso_keras_text(l->entry, "registered_name");
    if (custom)
        iso_text_add(
            &text, "the class %.100s is the user's own, not Keras's: nothing that a file brings is executed",
            registered ? registered : l->type);
    else
        iso_text_add(&text, "the layer %.100s is not supported", l->type);
    iso_text_add(&text, "; there are: InputLayer, Functional, Sequential");
    for (int i = 0; i < iso_layer_type_count(); i++)
        iso_text_add(&text, ", %s", iso_layer_type_at(i)->keras);
    iso_status status = iso_keras_refuse(net->reader, "%s", iso_text_get(&text));
    iso_text_free(&text);
    return status;
}

/* Whether these are the names of a type that is not of keras.layers. Classes without package have their own name as
 * registered name, so that of the user's class may be the same. */
static bool is_registered(const iso_layer_type *type, const char *module, const char *registered)
{
    bool package = strchr(type->registered, '>');
    return registered && strcmp(registered, type->registered) == 0 &&
           (package || (module && strcmp(module, type->module) == 0));
}

/* The layer type for a class of Keras; NULL: not supported. */
static const iso_layer_type *find_type(const iso_keras_layer *l, bool *custom)
{
    const char *module = iso_keras_text(l->entry, "module");
    const char *type = iso_keras_class(l->entry, custom);
    const char *registered = iso_keras_text(l->entry, "registered_name");
    const iso_layer_type *found = type ? iso_layer_type_find(type) : NULL;
    if (found && found->registered)
        return is_registered(found, module, registered) ? found : NULL;
    bool layers =
        !module || strcmp(module, "keras.layers") == 0 || strncmp(module, "keras.src.layers", 16) == 0;
    return layers && !*custom ? found : NULL;
}

/* The results of the layer that was built last, of which y is the first. */
static iso_status add_results(const iso_keras_network *net, iso_tensor *y, iso_keras_list *out)
{
    const iso_layer_record *layer = iso_graph_layer(net->graph, iso_graph_layer_count(net->graph) - 1);
    const int others = layer && layer->output == y ? layer->n_others : 0;
    iso_status status = iso_keras_list_add(out, y, NULL);
    for (int i = 0; status == ISO_OK && i < others; i++)
        status = iso_keras_list_add(out, layer->others[i], NULL);
    return status;
}

/* A call of a layer that is not a model. */
static iso_status call_layer(iso_keras_network *net, const iso_keras_layer *l, const iso_keras_list *in,
                             const json_t *others, iso_keras_list *out)
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
    ISO_TRY(iso_keras_policy_begin(net, l->config, l->name));
    iso_keras_arguments_take(&arguments, "dtype");
    iso_keras_arguments_take(&arguments, "trainable");
    iso_tensor *y = iso_layer_type_build(type, &arguments.config, in->tensor, in->count);
    iso_policy_end(net->graph);
    ISO_TRY(iso_keras_graph_error(net));
    ISO_TRY(add_results(net, y, out));
done:
    return iso_keras_arguments_end(&arguments, status);
}

/* A call of a nested model: a block with its name. */
static iso_status call_network(iso_keras_network *net, const iso_keras_layer *l, const iso_keras_list *in,
                               iso_keras_list *out)
{
    iso_graph *graph = net->graph;
    iso_status status;
    iso_name_scope_begin(graph, l->name);
    iso_name_scope_note(graph, !iso_keras_is_model(l->type), in->tensor, in->count, -1);
    status = iso_keras_graph_error(net);
    if (status != ISO_OK)
        return status;
    status = build_model(net->reader, graph, l->type, l->config, in, NULL, out);
    if (status == ISO_OK)
        iso_name_scope_end_several(graph, out->tensor, out->count);
    return status;
}

static bool is_not_trainable(const json_t *config)
{
    return json_is_false(json_object_get(config, "trainable"));
}

/* As when Keras loads a file, the setting of a model within a model, or of a wrapper, says nothing about its layers:
 * each has its own. */
static bool is_frozen(const iso_keras_layer *l)
{
    const iso_layer_type *type = is_network(l->type) ? NULL : iso_layer_type_find(l->type);
    return !is_network(l->type) && !(type && type->wraps) && is_not_trainable(l->config);
}

static iso_status call(iso_keras_network *net, const iso_keras_layer *l, const iso_keras_node *node,
                       iso_keras_list *out)
{
    if (iso_keras_is_operation(l))
        return iso_keras_call_operation(net, l, node, out);
    if (is_network(l->type))
        return call_network(net, l, &node->inputs, out);
    return call_layer(net, l, &node->inputs, node->others, out);
}

/* Call number `number` of a layer, which shares its variables with earlier calls. */
static iso_status make_call(iso_keras_network *net, iso_keras_layer *l, int number,
                            const iso_keras_node *node)
{
    iso_keras_list out = {0};
    iso_status status;
    bool again = l->made > 0, frozen = is_frozen(l);
    if (++net->reader->n_calls > MOST_CALLS)
        return iso_keras_refuse(net->reader, "more than %d calls of layers", MOST_CALLS);
    net->reader->quiet += again;
    if (again)
        iso_share_begin(net->graph);
    if (frozen)
        iso_freeze_begin(net->graph);
    status = call(net, l, node, &out);
    net->reader->quiet -= again;
    if (again)
        iso_share_end(net->graph);
    if (frozen)
        iso_freeze_end(net->graph);
    if (status == ISO_OK)
        status = iso_keras_keep_outputs(l, number, &out);
    iso_keras_list_free(&out);
    return status;
}

static bool is_input(const iso_keras_layer *l)
{
    return strcmp(l->type, "InputLayer") == 0;
}

/* ---- the layers of a network ---- */

static size_t enter_layer(const iso_keras_network *net, const iso_keras_layer *l)
{
    return iso_keras_enter(net->reader, "layers[%d] (%.60s '%.80s')", (int)(l - net->layers), l->type,
                           l->name);
}

/* A layer without the members that every Keras layer has: custom layers may be saved in this way. */
static iso_status incomplete_layer(const iso_keras_network *net, const iso_keras_layer *l)
{
    int number = (int)(l - net->layers);
    bool custom = false;
    if (!l->type)
        return iso_keras_refuse(net->reader, "layers[%d] has no class_name, or no config with a name",
                                number);
    size_t outer = iso_keras_enter(net->reader, "layers[%d] (%.60s)", number, l->type);
    bool known = find_type(l, &custom) || is_input(l) || !strcmp(l->type, "Functional") ||
                 !strcmp(l->type, "Sequential");
    iso_status status =
        known ? iso_keras_refuse(net->reader, "it has no config with a name") : unknown_layer(net, l, custom);
    iso_keras_leave(net->reader, outer);
    return status;
}

/* Keras notes where it finds an object again, and loses the weights of such a layer when it loads the file. */
static void warn_if_shared(const iso_keras_network *net, const iso_keras_layer *l)
{
    if (!json_object_get(l->entry, "shared_object_id"))
        return;
    size_t outer = enter_layer(net, l);
    iso_keras_warn(net->reader,
                   "the layer is shared with another model of the file, which Keras 3.15 does not load "
                   "either: here each model has a layer of its own, and the file has weights for one");
    iso_keras_leave(net->reader, outer);
}

static iso_status read_layer(iso_keras_network *net, const json_t *entry, int number)
{
    iso_keras_layer *l = &net->layers[number];
    *l = (iso_keras_layer){.entry = entry, .config = json_object_get(entry, "config")};
    l->type = iso_keras_text(entry, "class_name");
    l->name = iso_keras_text(l->config, "name");
    if (!l->type || !json_is_object(l->config) || !l->name)
        return incomplete_layer(net, l);
    const json_t *nodes = json_object_get(entry, "inbound_nodes");
    l->n_nodes = is_input(l) || !nodes ? 1 : (int)json_array_size(nodes);
    l->calls = iso_new((size_t)l->n_nodes * sizeof *l->calls + 1);
    if (!l->calls || json_object_set_new_nocheck(net->index, l->name, json_integer(number)) != 0)
        return iso_no_memory("the layers of a network");
    warn_if_shared(net, l);
    return ISO_OK;
}

static iso_status read_layers(iso_keras_network *net)
{
    iso_status status = ISO_OK;
    const json_t *list = json_object_get(net->config, "layers");
    size_t count = json_array_size(list);
    if (count == 0 || count > MOST_LAYERS)
        return iso_keras_refuse(net->reader, "it has %zu layers, 1 to %d are possible", count, MOST_LAYERS);
    net->layers = iso_new(count * sizeof *net->layers);
    net->index = json_object();
    if (!net->layers || !net->index)
        return iso_no_memory("the layers of a network");
    while (net->n_layers < (int)count) {
        int number = net->n_layers++; /* from here on it is freed */
        ISO_TRY(read_layer(net, json_array_get(list, (size_t)number), number));
        if (json_object_size(net->index) != (size_t)net->n_layers)
            ISO_TRY(iso_keras_refuse(net->reader, "two layers are named '%.80s'", net->layers[number].name));
    }
done:
    return status;
}

static void free_layers(iso_keras_network *net)
{
    for (int i = 0; i < net->n_layers; i++) {
        for (int k = 0; net->layers[i].calls && k < net->layers[i].n_nodes; k++)
            iso_free(net->layers[i].calls[k].output);
        iso_free(net->layers[i].calls);
    }
    iso_free(net->layers);
    json_decref(net->index);
}

/* ---- Sequential ---- */

/* The input of a Sequential: its InputLayer, or the shape that it was built with. */
static iso_status begin_sequential(iso_keras_network *net, iso_tensor **x)
{
    if (is_input(&net->layers[0])) {
        size_t outer = enter_layer(net, &net->layers[0]);
        iso_status status = iso_keras_call_input(net, &net->layers[0], 0);
        iso_keras_leave(net->reader, outer);
        if (status == ISO_OK)
            *x = net->layers[0].calls[0].output[0];
        return status;
    }
    if (net->given)
        return iso_keras_take_input(net, NULL, NULL, 0, x);
    const json_t *shape = json_object_get(net->config, "build_input_shape");
    if (!json_is_array(shape))
        return iso_keras_refuse(net->reader,
                                "it has no input shape: the model was not built before it was saved");
    return iso_keras_make_input(net, "input_layer", shape, ISO_F32, x);
}

static iso_status build_sequential(iso_keras_network *net, iso_keras_list *outputs)
{
    iso_status status;
    iso_tensor *x = NULL;
    ISO_TRY(begin_sequential(net, &x));
    for (int i = is_input(&net->layers[0]); i < net->n_layers; i++) {
        iso_keras_node in = {.inputs = {.count = 1, .tensor = &x}};
        iso_keras_layer *l = &net->layers[i];
        size_t outer = enter_layer(net, l);
        ISO_TRY(make_call(net, l, 0, &in));
        if (l->calls[0].count != 1)
            ISO_TRY(iso_keras_refuse(net->reader, "it has %d outputs in a Sequential", l->calls[0].count));
        x = l->calls[0].output[0];
        iso_keras_leave(net->reader, outer);
    }
    ISO_TRY(iso_keras_list_add(outputs, x, NULL));
done:
    return status;
}

/* ---- Functional ---- */

static iso_status call_inputs(iso_keras_network *net)
{
    iso_status status = ISO_OK;
    json_t *numbers = json_object();
    if (!numbers)
        return iso_no_memory("the inputs of a network");
    ISO_TRY(iso_keras_number_inputs(net, json_object_get(net->config, "input_layers"), numbers));
    if (net->given && (int)json_object_size(numbers) != net->given->count)
        ISO_TRY(iso_keras_refuse(net->reader, "the model has %d inputs and is called with %d tensors",
                                 (int)json_object_size(numbers), net->given->count));
    for (int i = 0; i < net->n_layers; i++) {
        iso_keras_layer *l = &net->layers[i];
        if (!is_input(l))
            continue;
        const json_t *number = json_object_get(numbers, l->name);
        size_t outer = enter_layer(net, l);
        ISO_TRY(iso_keras_call_input(net, l, number ? (int)json_integer_value(number) : -1));
        iso_keras_leave(net->reader, outer);
    }
done:
    json_decref(numbers);
    return status;
}

/* Makes a call of a layer, if its inputs exist. */
static iso_status call_if_ready(iso_keras_network *net, iso_keras_layer *l, int number, bool *ready)
{
    iso_status status = ISO_OK;
    iso_keras_node node = {.ready = false};
    const json_t *nodes = json_object_get(l->entry, "inbound_nodes");
    size_t outer = enter_layer(net, l);
    if (iso_keras_is_operation(l)) /* before its arguments, which may be anything */
        ISO_TRY(iso_keras_check_operation(net, l));
    ISO_TRY(iso_keras_read_node(net, json_array_get(nodes, (size_t)number), l, &node));
    *ready = node.ready;
    if (node.ready)
        ISO_TRY(make_call(net, l, number, &node));
    iso_keras_leave(net->reader, outer);
done:
    iso_keras_node_free(&node);
    return status;
}

/* Makes those calls of a layer whose inputs exist, in order. */
static iso_status call_what_is_ready(iso_keras_network *net, iso_keras_layer *l, bool *progress)
{
    iso_status status = ISO_OK;
    bool ready = true;
    for (int k = 0; ready && k < l->n_nodes; k++) {
        if (l->calls[k].output)
            continue;
        ISO_TRY(call_if_ready(net, l, k, &ready));
        *progress = *progress || ready;
    }
done:
    return status;
}

/* Makes the calls in Keras's order; those that this order does not reach are left. */
static iso_status call_in_order(iso_keras_network *net)
{
    iso_keras_ordered_call *order = NULL;
    int count = 0;
    iso_status status = iso_keras_order_calls(net, &order, &count);
    for (int i = 0; status == ISO_OK && i < count; i++) {
        bool ready;
        iso_keras_layer *l = &net->layers[order[i].layer];
        if (!l->calls[order[i].node].output)
            status = call_if_ready(net, l, order[i].node, &ready);
    }
    iso_free(order);
    return status;
}

static iso_status call_layers(iso_keras_network *net)
{
    iso_status status = ISO_OK;
    int left = net->n_layers;
    if (net->reader->order_counts)
        ISO_TRY(call_in_order(net));
    for (bool progress = true; progress && left > 0;) {
        progress = false;
        left = 0;
        for (int i = 0; i < net->n_layers; i++) {
            iso_keras_layer *l = &net->layers[i];
            if (l->made < l->n_nodes)
                ISO_TRY(call_what_is_ready(net, l, &progress));
            left += l->made < l->n_nodes;
        }
    }
    for (int i = 0; i < net->n_layers && left > 0; i++)
        if (net->layers[i].made < net->layers[i].n_nodes)
            return iso_keras_refuse(
                net->reader,
                "layers[%d] ('%.80s'): its inputs form a cycle, or name an output that no layer has", i,
                net->layers[i].name);
done:
    return status;
}

static iso_status build_functional(iso_keras_network *net, iso_keras_list *outputs)
{
    iso_status status;
    bool ready = true;
    for (int i = 0; i < net->n_layers; i++)
        if (!json_is_array(json_object_get(net->layers[i].entry, "inbound_nodes")))
            return iso_keras_refuse(net->reader, "layers[%d] ('%.80s') has no inbound_nodes", i,
                                    net->layers[i].name);
    ISO_TRY(call_inputs(net));
    ISO_TRY(call_layers(net));
    ISO_TRY(iso_keras_add_end(net, json_object_get(net->config, "output_layers"), NULL, outputs, &ready));
    if (!ready || outputs->count == 0)
        ISO_TRY(iso_keras_refuse(net->reader, "its output_layers name no outputs"));
done:
    return status;
}

/* ---- models ---- */

/* Sorts the whole model's inputs in the order of input_layers; they may have been made in another order. */
static iso_status order_inputs(iso_keras_network *net, iso_keras_list *inputs)
{
    iso_keras_list ordered = {0};
    bool ready = true;
    iso_status status =
        iso_keras_add_end(net, json_object_get(net->config, "input_layers"), NULL, &ordered, &ready);
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

static iso_status check_members(const iso_keras_network *net)
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
            return iso_keras_refuse(net->reader, "the config has %.60s = %s, which is not supported", key,
                                    iso_json_shown(value, text, sizeof text));
    }
    return iso_keras_policy_check(net);
}

static iso_status build_model(iso_keras_reader *reader, iso_graph *graph, const char *type,
                              const json_t *config, const iso_keras_list *given, iso_keras_list *inputs,
                              iso_keras_list *outputs)
{
    iso_keras_network net = {
        .reader = reader, .graph = graph, .config = config, .given = given, .made = inputs};
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
    reader->order_counts = iso_keras_order_counts(config);
    reader->policies = !reader->no_policies && iso_keras_names_mixed(config);
    iso_name_scope_note(graph, !iso_keras_is_model(type), NULL, 0, -1);
    /* The setting of the whole model counts, but Keras does not read that of a Sequential. */
    bool frozen = iso_keras_is_model(type) && is_not_trainable(config);
    if (frozen)
        iso_freeze_begin(graph);
    iso_status status = build_model(reader, graph, type, config, NULL, inputs, outputs);
    if (frozen)
        iso_freeze_end(graph);
    return status == ISO_OK ? iso_graph_error(graph) : status;
}
