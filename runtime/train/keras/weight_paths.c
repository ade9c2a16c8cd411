/* The paths of a model's state in Keras's weight files. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/file.h"
#include "runtime/base/hash.h"
#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/graph/layer.h"
#include "runtime/graph/lora.h"
#include "runtime/graph/optimizers/rule.h"
#include "runtime/graph/pending.h"
#include "runtime/train/keras/topology.h"
#include "runtime/train/keras/weight_paths.h"
#include "runtime/train/model_impl.h"

typedef struct iso_sorted_variable {
    const char *path;
    int number;
} iso_sorted_variable;

/* The state of the search. */
typedef struct finder {
    iso_weight_paths *out;
    iso_graph *graph;
    bool *seen_layer, *seen_block; /* [records] a shared layer is stored where it is found first */
    iso_sorted_variable *by_path;  /* [variables] */
    bool *placed;                  /* [variables] whether it has a path */
    int *own;                      /* [variables] scratch for the numbers of one layer's variables */
    int *trainables, n_trainables; /* the numbers of the trainable variables in Keras's order */
} finder;

/* ---- names ---- */

enum { LONGEST_H5_PATH = ISO_MAX_SLOT_PATH + 48 };

/* Formats a path. */
static iso_status form(char text[LONGEST_H5_PATH], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, LONGEST_H5_PATH, format, args);
    va_end(args);
    return length < LONGEST_H5_PATH
               ? ISO_OK
               : iso_error(ISO_INVALID, "a path in a weights file has %d characters, too many: '%.60s...'",
                           length, text);
}

/* ---- the lists ---- */

static const char PLACES[] = "the paths of a model's variables";

/* name NULL: no name; layer -1: it is the group of no layer of the graph. */
static iso_status add_group(iso_weight_paths *out, const char *h5_path, const char *name, int layer)
{
    iso_status status = iso_list_reserve(out->groups, out->n_groups, 1, PLACES);
    if (status == ISO_OK)
        status = iso_list_reserve(out->layer, out->n_groups, 1, PLACES);
    if (status != ISO_OK)
        return status;
    out->layer[out->n_groups] = layer;
    iso_saved_group group = {iso_strdup(h5_path), name ? iso_strdup(name) : NULL};
    out->groups[out->n_groups++] = group;
    return group.h5_path && (!name || group.name) ? ISO_OK : iso_no_memory(PLACES);
}

/* Takes ownership of `constant`. path NULL: no path. */
static iso_status add_tensor(iso_weight_paths *out, const char *h5_path, const char *path, iso_dtype dtype,
                             const iso_shape *shape, void *constant)
{
    iso_status status = iso_list_reserve(out->tensors, out->n_tensors, 1, PLACES);
    if (status == ISO_OK)
        status = iso_list_reserve(out->constant, out->n_tensors, 1, PLACES);
    if (status != ISO_OK) {
        iso_free(constant);
        return status;
    }
    iso_saved_tensor tensor = {iso_strdup(h5_path), path ? iso_strdup(path) : NULL, dtype, *shape};
    out->constant[out->n_tensors] = constant;
    out->tensors[out->n_tensors++] = tensor;
    return tensor.h5_path && (!path || tensor.path) ? ISO_OK : iso_no_memory(PLACES);
}

/* ---- layers ---- */

static bool belongs(const char *path, const char *layer)
{
    size_t length = strlen(layer);
    return strncmp(path, layer, length) == 0 && path[length] == '/';
}

/* A layer that Keras builds from other layers: "<layer>/<path>/kernel" and the others below that path belong to that
 * attribute of the layer, in the order of their creation. */
typedef struct inner_layer {
    const char *type, *path, *attribute;
} inner_layer;

static const inner_layer inner_layers[] = {{"MultiHeadAttention", "query", "query_dense"},
                                           {"MultiHeadAttention", "key", "key_dense"},
                                           {"MultiHeadAttention", "gate", "_gate_dense"},
                                           {"MultiHeadAttention", "value", "value_dense"},
                                           {"MultiHeadAttention", "attention_output", "output_dense"},
                                           {"GroupQueryAttention", "query", "_query_dense"},
                                           {"GroupQueryAttention", "key", "_key_dense"},
                                           {"GroupQueryAttention", "gate", "_gate_dense"},
                                           {"GroupQueryAttention", "value", "_value_dense"},
                                           {"GroupQueryAttention", "attention_output", "_output_dense"},
                                           {"LSTM", "lstm_cell", "cell"},
                                           {"GRU", "gru_cell", "cell"},
                                           {"SimpleRNN", "simple_rnn_cell", "cell"},
                                           {"ConvLSTM1D", "conv_lstm_cell", "cell"},
                                           {"ConvLSTM2D", "conv_lstm_cell", "cell"}};

/* The inner layer of a layer's variable; NULL: the layer itself has the variable. */
static const inner_layer *inner_of(const iso_layer_record *layer, const char *path)
{
    const char *within = path + strlen(layer->name) + 1;
    for (size_t i = 0; i < sizeof inner_layers / sizeof *inner_layers; i++)
        if (strcmp(inner_layers[i].type, layer->type) == 0 && belongs(within, inner_layers[i].path))
            return &inner_layers[i];
    return NULL;
}

/* Forms the path of an inner layer's next variable, and adds its group unless it exists. */
static iso_status add_inner(iso_weight_paths *out, const char *base, const inner_layer *inner,
                            int first_group, char h5_path[LONGEST_H5_PATH])
{
    char group[LONGEST_H5_PATH];
    iso_status status = ISO_OK;
    int number = 0;
    ISO_TRY(form(group, "%s/%s/vars", base, inner->attribute));
    for (int i = 0; i < out->n_tensors; i++)
        number += belongs(out->tensors[i].h5_path, group);
    ISO_TRY(form(h5_path, "%s/%d", group, number));
    for (int i = first_group; i < out->n_groups; i++)
        if (strcmp(out->groups[i].h5_path, group) == 0)
            return ISO_OK;
    status = add_group(out, group, inner->path, -1);
done:
    return status;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(((const iso_sorted_variable *)a)->path, ((const iso_sorted_variable *)b)->path);
}

static int compare_numbers(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* The index of the first variable in f->by_path whose path is at or after `path`. */
static int lower_bound(const finder *f, const char *path)
{
    int low = 0, high = iso_graph_variable_count(f->graph);
    while (low < high) {
        int middle = (low + high) / 2;
        if (strcmp(f->by_path[middle].path, path) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The number of the variable with this path; -1: there is none. */
static int weight_paths_number_of(const finder *f, const char *path)
{
    int at = lower_bound(f, path);
    bool found = at < iso_graph_variable_count(f->graph) && strcmp(f->by_path[at].path, path) == 0;
    return found ? f->by_path[at].number : -1;
}

/* Puts the numbers of a layer's variables into f->own, in the order of creation; returns their count. */
static int find_own(finder *f, const char *layer)
{
    char first[ISO_MAX_SLOT_PATH + 8];
    int count = 0;
    snprintf(first, sizeof first, "%s/", layer);
    for (int i = lower_bound(f, first);
         i < iso_graph_variable_count(f->graph) && belongs(f->by_path[i].path, layer); i++)
        if (!f->placed[f->by_path[i].number])
            f->own[count++] = f->by_path[i].number;
    qsort(f->own, (size_t)count, sizeof *f->own, compare_numbers);
    return count;
}

static iso_status add_variable(finder *f, const char *h5_path, int number)
{
    const iso_variable *variable = iso_graph_variable(f->graph, number);
    f->placed[number] = true;
    return add_tensor(f->out, h5_path, iso_variable_path(variable), iso_variable_dtype(variable),
                      iso_variable_shape(variable), NULL);
}

static iso_status add_variables(finder *f, const char *base, const iso_layer_record *layer);

/* The layers of which a layer is made have groups below its own, by the names of Keras's attributes. */
static iso_status add_parts(finder *f, const char *base, const iso_layer_record *layer)
{
    iso_status status = ISO_OK;
    char below[LONGEST_H5_PATH], vars[LONGEST_H5_PATH];
    for (int i = 0; i < layer->n_parts; i++) {
        const iso_layer_part *part = &layer->parts[i];
        ISO_TRY(form(below, "%s/%s", base, part->attribute));
        ISO_TRY(form(vars, "%s/vars", below));
        ISO_TRY(add_group(f->out, vars, iso_file_name(part->record->name), -1));
        ISO_TRY(add_variables(f, below, part->record));
    }
done:
    return status;
}

/* Adds a layer's variables below its group: Keras numbers the trainable ones first. */
static iso_status add_variables(finder *f, const char *base, const iso_layer_record *layer)
{
    iso_status status = ISO_OK;
    if (layer->n_parts)
        return add_parts(f, base, layer);
    int number = 0, first_group = f->out->n_groups, count = find_own(f, layer->name);
    char h5_path[LONGEST_H5_PATH];
    for (int trainable = 1; trainable >= 0; trainable--)
        for (int i = 0; i < count; i++) {
            const iso_variable *variable = iso_graph_variable(f->graph, f->own[i]);
            const char *path = iso_variable_path(variable);
            const inner_layer *inner = inner_of(layer, path);
            if (iso_variable_made_trainable(variable) != (trainable == 1))
                continue;
            if (iso_variable_trained(variable))
                f->trainables[f->n_trainables++] = f->own[i];
            if (iso_variable_is_adapter(variable)) /* Keras's files have none: add_others finds a place */
                continue;
            ISO_TRY(inner ? add_inner(f->out, base, inner, first_group, h5_path)
                          : form(h5_path, "%s/vars/%d", base, number++));
            ISO_TRY(add_variable(f, h5_path, f->own[i]));
        }
done:
    return status;
}

/* ---- networks ---- */

/* Counts how often each class has occurred so far in a list of layers. */
typedef struct counter {
    const char *type;
    int count;
} counter;

/* The name of a class in Python: Keras exports one class under another name, but names groups by its own. */
static const char *python_class_of(const char *type)
{
    return strcmp(type, "GroupQueryAttention") == 0 ? "GroupedQueryAttention" : type;
}

/* "dense", "dense_1", ... */
static void count_name(counter *counters, const char *type, char *name, size_t size)
{
    char snake[200];
    int i = 0;
    while (counters[i].type && strcmp(counters[i].type, type) != 0)
        i++;
    counters[i].type = type;
    iso_text_snake_case(python_class_of(type), snake, sizeof snake);
    snprintf(name, size, counters[i].count ? "%s_%d" : "%s", snake, counters[i].count);
    counters[i].count++;
}

static iso_status add_network(finder *f, const iso_keras_topology *net, const char *base);

static iso_status add_block(finder *f, const iso_keras_topology *net, const iso_operation *operation,
                            const char *base)
{
    iso_keras_topology inside;
    iso_status status = iso_keras_topology_create_block(f->graph, &net->calls[operation->calls[0]], &inside);
    if (status != ISO_OK)
        return status;
    status = add_network(f, &inside, base);
    iso_keras_topology_free(&inside);
    return status;
}

static iso_status add_operation(finder *f, const iso_keras_topology *net, const iso_operation *operation,
                                counter *counters, const char *around)
{
    char name[220], base[LONGEST_H5_PATH], vars[LONGEST_H5_PATH];
    iso_status status = ISO_OK;
    count_name(counters, operation->type, name, sizeof name);
    ISO_TRY(form(base, "%s/layers/%s", around, name));
    ISO_TRY(form(vars, "%s/vars", base));
    bool *seen = operation->kind == ISO_OPERATION_LAYER   ? &f->seen_layer[operation->record]
                 : operation->kind == ISO_OPERATION_BLOCK ? &f->seen_block[operation->record]
                                                          : NULL;
    if (seen && *seen)
        return ISO_OK;
    if (seen)
        *seen = true;
    ISO_TRY(add_group(f->out, vars, iso_file_name(operation->name),
                      operation->kind == ISO_OPERATION_LAYER ? operation->record : -1));
    if (operation->kind == ISO_OPERATION_LAYER)
        ISO_TRY(add_variables(f, base, iso_graph_layer(f->graph, operation->record)));
    else if (operation->kind == ISO_OPERATION_BLOCK)
        ISO_TRY(add_block(f, net, operation, base));
done:
    return status;
}

/* A layer that a Sequential has several times counts each time, although the file stores it once. The calls
 * are a chain, so the i-th operation is the i-th of the chain. */
static iso_status add_network(finder *f, const iso_keras_topology *net, const char *base)
{
    iso_status status = ISO_OK;
    counter *counters = iso_new((size_t)(net->n_operations + 1) * sizeof *counters);
    int *chain = iso_new((size_t)net->n_calls * sizeof *chain + 1), length = 0;
    if (!counters || !chain)
        status = iso_no_memory(PLACES);
    if (status == ISO_OK && net->sequential)
        for (int call = net->outputs[0].call; call >= 0; call = net->calls[call].from[0].call) {
            chain[length++] = net->calls[call].operation;
            if (net->calls[call].n_inputs == 0)
                break;
        }
    if (status == ISO_OK && !net->sequential)
        for (int i = net->n_operations - 1; i >= 0; i--)
            chain[length++] = i;
    while (status == ISO_OK && length > 0) {
        const iso_operation *operation = &net->operations[chain[--length]];
        if (operation->kind == ISO_OPERATION_OP || operation->kind == ISO_OPERATION_FUNCTION ||
            (net->sequential && operation->kind == ISO_OPERATION_INPUT))
            continue;
        status = add_operation(f, net, operation, counters, base);
    }
    iso_free(counters);
    iso_free(chain);
    return status;
}

/* ---- the optimizer: keras/src/optimizers ---- */

/* Adds the optimizer's next variable: number *at of its group. */
static iso_status add_own(finder *f, const char *name, int *at)
{
    char h5_path[64], path[64];
    snprintf(path, sizeof path, "optimizer/%.40s", name);
    snprintf(h5_path, sizeof h5_path, "/optimizer/vars/%d", (*at)++);
    int number = weight_paths_number_of(f, path);
    return number >= 0 ? add_variable(f, h5_path, number)
                       : iso_error(ISO_FAILED, "the model's optimizer has no variable '%s'", path);
}

/* Adds what Keras stores for a variable that the loss does not depend on: the slot's initial value; or, with a scalar
 * shape, for a variable that does not have the slot. */
static iso_status add_unused(finder *f, iso_dtype dtype, const iso_shape *shape, const char *h5_path,
                             double initial)
{
    int64_t count = 0;
    void *values = NULL;
    iso_status status = ISO_OK;
    ISO_TRY(iso_shape_count(shape, &count));
    ISO_TRY(iso_alloc((size_t)count * iso_dtype_size(dtype), "an optimizer slot", &values));
    for (int64_t i = 0; i < count && initial != 0; i++)
        iso_element_set(values, dtype, i, initial);
    ISO_TRY(add_tensor(f->out, h5_path, NULL, dtype, shape, values));
done:
    return status;
}

/* shape NULL: the variable's. */
static iso_status add_slot(finder *f, const iso_optimizer *optimizer, int number, const char *slot,
                           const iso_shape *shape, double initial, int *at)
{
    const iso_variable *variable = iso_graph_variable(f->graph, number);
    char h5_path[64], path[LONGEST_H5_PATH];
    iso_status status = ISO_OK;
    snprintf(h5_path, sizeof h5_path, "/optimizer/vars/%d", (*at)++);
    shape = shape ? shape : iso_variable_shape(variable);
    if (!iso_variable_updated(variable))
        return add_unused(f, iso_variable_dtype(variable), shape, h5_path, initial);
    ISO_TRY(form(path, "optimizer/%s/%s/%s", optimizer->rule, iso_variable_path(variable), slot));
    int gathered = weight_paths_number_of(f, path);
    if (gathered >= 0)
        f->placed[gathered] =
            true; /* gradient accumulators and slots of some rules are variables of the graph */
    status = add_tensor(f->out, h5_path, path, iso_variable_dtype(variable), shape, NULL);
done:
    return status;
}

static bool is_beside(const iso_optimizer_rule *rule, const char *name)
{
    const iso_optimizer_slot *slot = rule->slot;
    while (strcmp(slot->name, name) != 0)
        slot++;
    return slot->beside;
}

/* Adds slot k of a variable, if it has it. */
static iso_status add_slot_of_rule(finder *f, const iso_optimizer *optimizer, int number, int k,
                                   const char *name, double initial, int *at)
{
    const iso_variable *variable = iso_graph_variable(f->graph, number);
    char h5_path[64];
    iso_shape shape;
    int without;
    if (iso_optimizer_has_slot(optimizer, variable, k, &shape, &without))
        return add_slot(f, optimizer, number, name, &shape, initial, at);
    if (!iso_optimizer_rule_find(optimizer->rule)->stand_ins)
        return ISO_OK;
    snprintf(h5_path, sizeof h5_path, "/optimizer/vars/%d", (*at)++);
    return add_unused(f, ISO_I32, &ISO_SCALAR, h5_path, 0);
}

/* Keras lists the slots of one kind for all variables, then the next kind; some optimizers alternate between
 * kinds. */
static iso_status weight_paths_add_slots(finder *f, const iso_optimizer *optimizer,
                                         const iso_optimizer_rule *rule, int *at)
{
    const char *name[ISO_MAX_OPTIMIZER_SLOTS];
    double initial[ISO_MAX_OPTIMIZER_SLOTS];
    int slots = iso_optimizer_slots(optimizer, name, initial) - optimizer->use_ema;
    iso_status status = ISO_OK;
    for (int first = 0, end; first < slots; first = end) {
        for (end = first + 1; end < slots && is_beside(rule, name[end]);)
            end++;
        for (int i = 0; i < f->n_trainables; i++)
            for (int k = first; k < end; k++)
                ISO_TRY(add_slot_of_rule(f, optimizer, f->trainables[i], k, name[k], initial[k], at));
    }
done:
    return status;
}

static iso_status add_optimizer(finder *f, const iso_optimizer *optimizer)
{
    const iso_optimizer_rule *rule = iso_optimizer_rule_find(optimizer->rule);
    char name[64];
    int at = 0;
    iso_status status = ISO_OK;
    iso_text_snake_case(rule->row.keras, name, sizeof name);
    ISO_TRY(add_group(f->out, "/optimizer/vars", name, -1));
    ISO_TRY(add_own(f, "iteration", &at));
    if (optimizer->schedule.kind == ISO_SCHEDULE_CONSTANT)
        ISO_TRY(add_own(f, "learning_rate", &at));
    for (int i = 0; optimizer->use_ema && i < f->n_trainables; i++)
        ISO_TRY(add_slot(f, optimizer, f->trainables[i], ISO_AVERAGE_SLOT, NULL, 0, &at));
    for (int i = 0; optimizer->accumulation > 1 && i < f->n_trainables; i++)
        ISO_TRY(add_slot(f, optimizer, f->trainables[i], "gradient_accumulator", NULL, 0, &at));
    ISO_TRY(weight_paths_add_slots(f, optimizer, rule, &at));
    if (rule->scalar.name)
        ISO_TRY(add_own(f, rule->scalar.name, &at));
done:
    return status;
}

/* ---- finding tensors ---- */

/* The path that is searched among the tensors. */
typedef struct wanted_path {
    const iso_weight_paths *paths;
    const char *text;
} wanted_path;

static bool is_h5_path(const void *key, int number)
{
    const wanted_path *w = key;
    return strcmp(w->paths->tensors[number].h5_path, w->text) == 0;
}

static bool is_path(const void *key, int number)
{
    const wanted_path *w = key;
    return strcmp(w->paths->tensors[number].path, w->text) == 0;
}

int iso_weight_paths_find(const iso_weight_paths *paths, const char *h5_path)
{
    return iso_table_find(&paths->by_h5_path, iso_hash_text(0, h5_path), is_h5_path,
                          &(wanted_path){paths, h5_path});
}

int iso_weight_paths_of(const iso_weight_paths *paths, const char *path)
{
    return iso_table_find(&paths->by_path, iso_hash_text(0, path), is_path, &(wanted_path){paths, path});
}

/* If two tensors have the same path, the first one is found. */
static iso_status index_tensors(iso_weight_paths *paths)
{
    iso_status status = ISO_OK;
    iso_table_clear(&paths->by_h5_path);
    iso_table_clear(&paths->by_path);
    for (int i = 0; i < paths->n_tensors; i++) {
        const iso_saved_tensor *tensor = &paths->tensors[i];
        if (iso_weight_paths_find(paths, tensor->h5_path) < 0)
            ISO_TRY(iso_table_add(&paths->by_h5_path, iso_hash_text(0, tensor->h5_path), i, PLACES));
        if (tensor->path && iso_weight_paths_of(paths, tensor->path) < 0)
            ISO_TRY(iso_table_add(&paths->by_path, iso_hash_text(0, tensor->path), i, PLACES));
    }
done:
    return status;
}

/* ---- the whole ---- */

/* Whether a path can be a dataset's: no other path may be below it, and "." has another meaning. */
static bool is_plain(const finder *f, const char *path)
{
    char below[ISO_MAX_SLOT_PATH + 8];
    snprintf(below, sizeof below, "%s/", path);
    int next = lower_bound(f, below);
    for (const char *part = path; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL)
        if (strcspn(part, "/") == strspn(part, "."))
            return false;
    return next == iso_graph_variable_count(f->graph) || !belongs(f->by_path[next].path, path);
}

/* Adds what the optimizer keeps for a variable of no layer. shape NULL: the variable's. */
static iso_status add_slot_of_other(finder *f, const iso_optimizer *optimizer, int number, const char *slot,
                                    const iso_shape *shape)
{
    const iso_variable *variable = iso_graph_variable(f->graph, number);
    char h5_path[LONGEST_H5_PATH], path[LONGEST_H5_PATH];
    iso_status status = ISO_OK;
    ISO_TRY(form(path, "optimizer/%s/%s/%s", optimizer->rule, iso_variable_path(variable), slot));
    if (weight_paths_number_of(f, path) >= 0) /* a variable of the graph, which add_others adds */
        return ISO_OK;
    ISO_TRY(is_plain(f, iso_variable_path(variable))
                ? form(h5_path, "/isogrid/variables/%s", path)
                : form(h5_path, "/isogrid/variables/optimizer/variable %d %s", number, slot));
    ISO_TRY(add_tensor(f->out, h5_path, path, iso_variable_dtype(variable),
                       shape ? shape : iso_variable_shape(variable), NULL));
done:
    return status;
}

/* Keras's list of the optimizer's variables has those of layers alone. */
static iso_status add_slots_of_other(finder *f, const iso_optimizer *optimizer, int number)
{
    const iso_variable *variable = iso_graph_variable(f->graph, number);
    const char *name[ISO_MAX_OPTIMIZER_SLOTS];
    double initial[ISO_MAX_OPTIMIZER_SLOTS];
    int slots = iso_optimizer_slots(optimizer, name, initial) - optimizer->use_ema, without;
    iso_status status = ISO_OK;
    iso_shape shape;
    if (iso_variable_is_adapter(variable) || !iso_variable_trained(variable) ||
        !iso_variable_updated(variable))
        return ISO_OK; /* adapters belong to layers */
    if (optimizer->use_ema)
        ISO_TRY(add_slot_of_other(f, optimizer, number, ISO_AVERAGE_SLOT, NULL));
    for (int k = 0; k < slots; k++)
        if (iso_optimizer_has_slot(optimizer, variable, k, &shape, &without))
            ISO_TRY(add_slot_of_other(f, optimizer, number, name[k], &shape));
done:
    return status;
}

/* Adds the variables that belong to no layer that Keras would list, and what the optimizer (NULL: there is none)
 * keeps for them. */
static iso_status add_others(finder *f, const iso_optimizer *optimizer)
{
    iso_status status = ISO_OK;
    char h5_path[LONGEST_H5_PATH];
    for (int i = 0; i < iso_graph_variable_count(f->graph); i++) {
        const char *path = iso_variable_path(iso_graph_variable(f->graph, i));
        if (f->placed[i])
            continue;
        ISO_TRY(is_plain(f, path) ? form(h5_path, "/isogrid/variables/%s", path)
                                  : form(h5_path, "/isogrid/variables/variable %d", i));
        ISO_TRY(add_variable(f, h5_path, i));
        if (optimizer)
            ISO_TRY(add_slots_of_other(f, optimizer, i));
    }
done:
    return status;
}

static iso_status weight_paths_find(finder *f, iso_model *model)
{
    iso_keras_topology net;
    iso_status status = iso_keras_topology_create(f->graph, model->inputs, model->n_inputs, model->outputs,
                                                  model->n_outputs, &net);
    if (status != ISO_OK)
        return status;
    const char *name = iso_graph_name(f->graph);
    char default_value[32];
    iso_text_snake_case(iso_topology_class(net.sequential), default_value, sizeof default_value);
    ISO_TRY(add_group(f->out, "/vars", name ? name : default_value, -1));
    ISO_TRY(add_network(f, &net, ""));
    if (model->compiled)
        ISO_TRY(add_optimizer(f, &model->optimizer));
    ISO_TRY(add_others(f, model->compiled ? &model->optimizer : NULL));
done:
    iso_keras_topology_free(&net);
    return status;
}

static iso_status make_tables(finder *f)
{
    size_t variables = (size_t)iso_graph_variable_count(f->graph);
    f->seen_layer = iso_new((size_t)iso_graph_layer_count(f->graph) + 1);
    f->seen_block = iso_new((size_t)iso_graph_block_count(f->graph) + 1);
    f->by_path = iso_new(variables * sizeof *f->by_path + 1);
    f->placed = iso_new(variables + 1);
    f->own = iso_new(variables * sizeof *f->own + 1);
    f->trainables = iso_new(variables * sizeof *f->trainables + 1);
    if (!f->seen_layer || !f->seen_block || !f->by_path || !f->placed || !f->own || !f->trainables)
        return iso_no_memory(PLACES);
    for (size_t i = 0; i < variables; i++)
        f->by_path[i] =
            (iso_sorted_variable){iso_variable_path(iso_graph_variable(f->graph, (int)i)), (int)i};
    qsort(f->by_path, variables, sizeof *f->by_path, compare_paths);
    return ISO_OK;
}

iso_status iso_weight_paths_create(iso_model *model, iso_weight_paths *paths)
{
    iso_weight_paths out = {0};
    finder f = {.out = &out, .graph = model->graph};
    if (model->status != ISO_OK)
        return iso_error(model->status, "no memory for a model");
    iso_status status = iso_graph_take_error(model->graph);
    if (status != ISO_OK)
        return status;
    status = make_tables(&f);
    if (status == ISO_OK)
        status = weight_paths_find(&f, model);
    if (status == ISO_OK)
        status = index_tensors(&out);
    void *table[] = {f.seen_layer, f.seen_block, f.by_path, f.placed, f.own, f.trainables};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        iso_free(table[i]);
    if (status == ISO_OK)
        *paths = out;
    else
        iso_weight_paths_free(&out);
    return status;
}

static void free_tensor(iso_weight_paths *paths, int i)
{
    iso_free((void *)(uintptr_t)paths->tensors[i].h5_path);
    iso_free((void *)(uintptr_t)paths->tensors[i].path);
    iso_free((void *)(uintptr_t)paths->constant[i]);
}

static void free_group(iso_weight_paths *paths, int i)
{
    iso_free((void *)(uintptr_t)paths->groups[i].h5_path);
    iso_free((void *)(uintptr_t)paths->groups[i].name);
}

void iso_weight_paths_free(iso_weight_paths *paths)
{
    for (int i = 0; i < paths->n_tensors; i++)
        free_tensor(paths, i);
    for (int i = 0; i < paths->n_groups; i++)
        free_group(paths, i);
    iso_free(paths->tensors);
    iso_free(paths->constant);
    iso_free(paths->groups);
    iso_free(paths->layer);
    iso_table_free(&paths->by_h5_path);
    iso_table_free(&paths->by_path);
    *paths = (iso_weight_paths){0};
}

void iso_weight_paths_drop(iso_weight_paths *paths, const char *begin)
{
    int tensors = 0, groups = 0;
    for (int i = 0; i < paths->n_tensors; i++) {
        if (strncmp(paths->tensors[i].h5_path, begin, strlen(begin)) == 0) {
            free_tensor(paths, i);
            continue;
        }
        paths->tensors[tensors] = paths->tensors[i];
        paths->constant[tensors++] = paths->constant[i];
    }
    for (int i = 0; i < paths->n_groups; i++) {
        if (strncmp(paths->groups[i].h5_path, begin, strlen(begin)) == 0) {
            free_group(paths, i);
            continue;
        }
        paths->groups[groups] = paths->groups[i];
        paths->layer[groups++] = paths->layer[i];
    }
    paths->n_tensors = tensors;
    paths->n_groups = groups;
    index_tensors(paths); /* the tables have room */
}
