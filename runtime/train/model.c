/* Models: creation, inputs and outputs, and how reported values add up over batches. */
#include "runtime/train/model.h"
#include "runtime/graph/layer.h"

#include <math.h>
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/owner.h"
#include "runtime/train/losses_impl.h"
#include "runtime/train/model_impl.h"

static void model_check_tensor(iso_graph *g, const iso_tensor *tensor, const char *what, bool input)
{
    if (!tensor)
        iso_graph_fail(g, "a model needs an input and an output; its %s is NULL", what);
    else if (iso_tensor_graph(tensor) != g)
        iso_graph_fail(g, "the model's %s belongs to another graph", what);
    else if (input && iso_graph_error(g) == ISO_OK && !iso_tensor_is_input(tensor))
        iso_graph_fail(g, "a model's input must be made by iso_input(), '%s' is not",
                       iso_tensor_name(tensor));
    else if (input && iso_graph_error(g) == ISO_OK &&
             (iso_tensor_shape(tensor)->rank == 0 || iso_tensor_shape(tensor)->dim[0] != ISO_BATCH))
        iso_graph_fail(g,
                       "a model's inputs are rows of a data set, and the input '%s' has no batch dimension",
                       iso_tensor_name(tensor));
}

static bool check_count(iso_graph *g, int count, int most, const char *what)
{
    if (count < 1 || count > most)
        iso_graph_fail(g, "a model with %d %s: 1 to %d are possible", count, what, most);
    return count >= 1 && count <= most;
}

/* Names tell the inputs apart, in layouts and in files. */
static void check_inputs_differ(iso_graph *g, const iso_tensor *a, const iso_tensor *b)
{
    if (!a || !b || iso_graph_error(g) != ISO_OK || strcmp(iso_tensor_name(a), iso_tensor_name(b)) != 0)
        return;
    iso_graph_fail(g,
                   a == b ? "the input '%s' is given twice to a model"
                          : "two inputs of a model are named '%s': give each a name of its own",
                   iso_tensor_name(a));
}

static void take_tensors(iso_model *model, iso_tensor *const *inputs, iso_tensor *const *outputs)
{
    for (int i = 0; i < model->n_inputs; i++) {
        model_check_tensor(model->graph, inputs[i], "input", true);
        for (int k = 0; k < i; k++)
            check_inputs_differ(model->graph, inputs[i], inputs[k]);
        model->inputs[i] = inputs[i];
    }
    memcpy(model->parts, model->inputs, sizeof model->inputs);
    model->n_parts = model->n_inputs;
    for (int i = 0; i < model->n_outputs; i++) {
        model_check_tensor(model->graph, outputs[i], "output", false);
        model->outputs[i] = outputs[i];
    }
}

iso_tensor *iso_model_result(iso_model *model, int index)
{
    iso_tensor *y = model->outputs[index], **result = &model->result[index];
    if (!*result)
        *result =
            y && iso_tensor_dtype(y) == ISO_BF16 ? iso_cast(y, iso_model_output_dtype(model, index)) : y;
    return *result;
}

/* A graph to store an error in, if the caller gave none; with the context of one of the model's tensors. */
static iso_graph *graph_of(const iso_tensor *some)
{
    return iso_graph_create(some ? iso_graph_context(iso_tensor_graph(some)) : NULL);
}

/* The graph for a new model: `g`, unless it is NULL or a model has it already. */
static iso_graph *graph_for(iso_graph *g, const iso_tensor *some)
{
    if (!g)
        return graph_of(some);
    if (!iso_graph_owned(g))
        return g;
    iso_graph *own = iso_graph_create(iso_graph_context(g));
    iso_graph_fail(own, "the graph has a model already: make a graph for each model");
    return own;
}

/* An empty model that owns the graph. */
static iso_model *new_model(iso_graph *g)
{
    static _Thread_local iso_model no_memory = {.status = ISO_NO_MEMORY}; /* calls on it fail */
    iso_model *model = iso_new(sizeof *model);
    if (!model) {
        iso_graph_release(g);
        return &no_memory;
    }
    model->graph = g;
    iso_graph_own(g);
    return model;
}

static void model_fill(iso_model *model, iso_tensor *const *inputs, int input_count,
                       iso_tensor *const *outputs, int output_count)
{
    if (!check_count(model->graph, input_count, ISO_MAX_MODEL_INPUTS, "inputs") ||
        !check_count(model->graph, output_count, ISO_MAX_MODEL_OUTPUTS, "outputs"))
        return;
    model->n_inputs = input_count;
    model->n_outputs = output_count;
    take_tensors(model, inputs, outputs);
    iso_graph_check_scopes(model->graph);
}

iso_model *iso_model_create_several(iso_graph *g, iso_tensor *const *inputs, int input_count,
                                    iso_tensor *const *outputs, int output_count)
{
    bool missing = ISO_ANY_NULL(g, inputs, outputs);
    iso_model *model = new_model(graph_for(g, inputs && input_count > 0 ? inputs[0] : NULL));
    if (missing && model->graph)
        iso_null_in(model->graph);
    else if (model->graph && (!g || model->graph == g))
        model_fill(model, inputs, input_count, outputs, output_count);
    return model;
}

iso_model *iso_model_create(iso_graph *g, iso_tensor *x, iso_tensor *y)
{
    bool missing = ISO_ANY_NULL(g, x, y);
    iso_model *model = new_model(graph_for(g, x ? x : y));
    if (missing && model->graph)
        iso_null_in(model->graph);
    else if (model->graph && (!g || model->graph == g))
        model_fill(model, &x, 1, &y, 1);
    return model;
}

void iso_model_destroy(iso_model *model)
{
    ISO_DEFAULT_MODES();
    if (!model || model->status == ISO_NO_MEMORY)
        return;
    iso_function_destroy(model->training);
    iso_function_destroy(model->evaluation);
    iso_function_destroy(model->prediction[0]);
    iso_function_destroy(model->prediction[1]);
    iso_savepoint_destroy(model->point);
    iso_graph_release(model->graph);
    iso_saved_file_close(model->initial);
    iso_free(model);
}

iso_graph *iso_model_graph(iso_model *model)
{
    if (ISO_ANY_NULL(model))
        return NULL;
    return model->graph;
}

iso_tensor *iso_model_input(iso_model *model)
{
    if (ISO_ANY_NULL(model))
        return NULL;
    return iso_model_input_at(model, 0);
}

iso_tensor *iso_model_output(iso_model *model)
{
    if (ISO_ANY_NULL(model))
        return NULL;
    return iso_model_output_at(model, 0);
}

int iso_model_input_count(const iso_model *model)
{
    if (ISO_ANY_NULL(model))
        return 0;
    return model->n_inputs;
}

int iso_model_output_count(const iso_model *model)
{
    if (ISO_ANY_NULL(model))
        return 0;
    return model->n_outputs;
}

iso_tensor *iso_model_input_at(iso_model *model, int index)
{
    if (ISO_ANY_NULL(model))
        return NULL;
    return index >= 0 && index < model->n_inputs ? model->inputs[index] : NULL;
}

iso_tensor *iso_model_output_at(iso_model *model, int index)
{
    if (ISO_ANY_NULL(model))
        return NULL;
    return index >= 0 && index < model->n_outputs ? model->outputs[index] : NULL;
}

/* The outermost block that outputs a tensor; NULL: there is none. Outer blocks begin before inner ones. */
static const char *block_of(const iso_graph *graph, const iso_tensor *tensor)
{
    for (int i = 0; i < iso_graph_block_count(graph); i++) {
        const iso_block_record *block = iso_graph_block(graph, i);
        for (int k = 0; k < block->n_outputs; k++)
            if (block->outputs[k] == tensor)
                return block->name;
    }
    return NULL;
}

static bool is_result(const iso_layer_record *layer, const iso_tensor *tensor)
{
    bool found = layer->output == tensor;
    for (int i = 0; i < layer->n_others; i++)
        found = found || layer->others[i] == tensor;
    return found;
}

/* The maker of a tensor, as Keras sees it: a block, otherwise the last layer that returned it (a layer may
 * return its input). */
static const char *maker_of(const iso_graph *graph, const iso_tensor *tensor)
{
    const char *block = block_of(graph, tensor);
    if (block && *block)
        return block;
    for (int i = iso_graph_layer_count(graph) - 1; i >= 0; i--)
        if (is_result(iso_graph_layer(graph, i), tensor))
            return iso_graph_layer(graph, i)->name;
    return iso_tensor_name(tensor);
}

iso_dtype iso_model_output_dtype(const iso_model *model, int index)
{
    if (ISO_ANY_NULL(model))
        return ISO_DTYPE_NONE;
    if (index < 0 || index >= model->n_outputs)
        return ISO_DTYPE_NONE;
    iso_dtype dtype = iso_tensor_dtype(model->outputs[index]);
    return dtype == ISO_BF16 ? iso_graph_precision(model->graph) : dtype;
}

const char *iso_model_input_key(const iso_model *model, int index)
{
    if (ISO_ANY_NULL(model))
        return NULL;
    return index >= 0 && index < model->n_inputs ? model->input_key[index] : NULL;
}

void iso_model_set_input_key(iso_model *model, int index, const char *key)
{
    if (ISO_ANY_NULL(model, key))
        return;
    if (index >= 0 && index < model->n_inputs)
        model->input_key[index] = iso_graph_keep_text(model->graph, key);
}

const char *iso_model_output_name(iso_model *model, int index)
{
    if (ISO_ANY_NULL(model))
        return NULL;
    if (index < 0 || index >= model->n_outputs)
        return NULL;
    return *model->output_name[index] ? model->output_name[index]
                                      : maker_of(model->graph, model->outputs[index]);
}

void iso_model_set_output_name(iso_model *model, int index, const char *name)
{
    if (ISO_ANY_NULL(model, name))
        return;
    if (strlen(name) >= ISO_MAX_NAME)
        iso_graph_fail(model->graph,
                       "the name of output %d has %zu characters, at most %d are possible: '%.60s...'", index,
                       strlen(name), ISO_MAX_NAME - 1, name);
    else if (index >= 0 && index < model->n_outputs)
        snprintf(model->output_name[index], sizeof model->output_name[index], "%s", name);
}

bool iso_model_output_has_name(const iso_model *model, int index)
{
    if (ISO_ANY_NULL(model))
        return false;
    return index >= 0 && index < model->n_outputs && *model->output_name[index];
}

iso_variable *iso_model_variable(iso_model *model, const char *path)
{
    if (ISO_ANY_NULL(model, path))
        return NULL;
    return model->graph ? iso_graph_find_variable(model->graph, path) : NULL;
}

iso_status iso_model_set_trainable(iso_model *model, const char *layer, bool trainable)
{
    ISO_NEED(model);
    if (model->status != ISO_OK)
        return iso_error(model->status, "no memory for a model");
    return iso_graph_set_trainable(model->graph, layer, trainable);
}

const iso_optimizer *iso_model_optimizer(const iso_model *model)
{
    if (ISO_ANY_NULL(model))
        return NULL;
    return model->compiled ? &model->optimizer : NULL;
}

const iso_output_options *iso_model_compiled_output(const iso_model *model, int index)
{
    if (ISO_ANY_NULL(model))
        return NULL;
    return model->compiled && index >= 0 && index < model->n_outputs ? &model->objective[index] : NULL;
}

iso_function *iso_model_training_function(iso_model *model)
{
    if (ISO_ANY_NULL(model))
        return NULL;
    return model->training;
}

iso_function *iso_model_evaluation_function(iso_model *model)
{
    if (ISO_ANY_NULL(model))
        return NULL;
    return model->evaluation;
}

int iso_model_value_count(const iso_model *model)
{
    if (ISO_ANY_NULL(model))
        return 0;
    return model->n_values;
}

const char *iso_model_value_name(const iso_model *model, int index)
{
    if (ISO_ANY_NULL(model))
        return NULL;
    return index >= 0 && index < model->n_values ? model->value_name[index] : NULL;
}

iso_status iso_totals_create(const iso_model *model, iso_totals *totals)
{
    size_t sums = (size_t)model->n_sums, values = (size_t)model->n_values, results = (size_t)model->n_results;
    double *block = iso_new((sums + values + results + 1) * sizeof *block);
    if (!block)
        return iso_no_memory("the sums of losses and metrics");
    *totals = (iso_totals){block, block + sums, block + sums + values};
    return ISO_OK;
}

void iso_totals_destroy(iso_totals *totals)
{
    iso_free(totals->sum);
    *totals = (iso_totals){0};
}

void iso_totals_clear(iso_totals *totals, const iso_model *model)
{
    memset(totals->sum, 0, (size_t)(model->n_sums + model->n_values) * sizeof *totals->sum);
}

void iso_totals_add(iso_totals *totals, const iso_model *model, const double *results, int64_t rows)
{
    for (int i = 0; i < model->n_values; i++) {
        const iso_value_rule *rule = &model->values[i];
        for (int64_t k = 0; k < rule->count; k++) {
            double sum = results[rule->sum + k];
            totals->sum[rule->at + k] += rule->mean ? sum * (double)rows : sum;
        }
        totals->weight[i] += rule->weight >= 0 ? results[rule->weight] : rule->per_row * (double)rows;
    }
}

void iso_totals_read(const iso_totals *totals, const iso_model *model, double *values)
{
    for (int i = 0; i < model->n_values; i++) {
        const iso_value_rule *rule = &model->values[i];
        values[i] = iso_metric_value(rule->type, &rule->settings, totals->sum + rule->at, rule->count,
                                     totals->weight[i]);
    }
}
