/* Models: creation, parts, and how their reported values add up over batches. */
#include "runtime/train/model.h"

#include "runtime/base/memory.h"
#include "runtime/train/model_impl.h"

iso_model *iso_model_create(iso_graph *g, iso_tensor *x, iso_tensor *y)
{
    static iso_model no_memory = {.status = ISO_NO_MEMORY};
    iso_model *model = iso_new(sizeof *model);
    if (!model) {
        iso_graph_destroy(g);
        return &no_memory;
    }
    model->graph = g;
    model->input = x;
    model->output = y;
    if (!x || !y)
        iso_graph_fail(g, "a model needs an input and an output; its %s is NULL", x ? "output" : "input");
    else if (iso_tensor_graph(x) != g || iso_tensor_graph(y) != g)
        iso_graph_fail(g, "the model's %s belongs to another graph",
                       iso_tensor_graph(x) != g ? "input" : "output");
    else if (!iso_tensor_is_input(x))
        iso_graph_fail(g, "a model's input must be made by iso_input(), '%s' is not", iso_tensor_name(x));
    return model;
}

void iso_model_destroy(iso_model *model)
{
    if (!model || model->status == ISO_NO_MEMORY)
        return;
    iso_function_destroy(model->training);
    iso_function_destroy(model->evaluation);
    iso_graph_destroy(model->graph);
    iso_free(model);
}

iso_graph *iso_model_graph(iso_model *model)
{
    return model->graph;
}

iso_tensor *iso_model_input(iso_model *model)
{
    return model->input;
}

iso_tensor *iso_model_output(iso_model *model)
{
    return model->output;
}

iso_variable *iso_model_variable(iso_model *model, const char *path)
{
    return model->graph ? iso_graph_find_variable(model->graph, path) : NULL;
}

iso_function *iso_model_training_function(iso_model *model)
{
    return model->training;
}

iso_function *iso_model_evaluation_function(iso_model *model)
{
    return model->evaluation;
}

int iso_model_value_count(const iso_model *model)
{
    return model->values;
}

const char *iso_model_value_name(const iso_model *model, int index)
{
    return model->value_name[index];
}

void iso_totals_add(iso_totals *totals, const iso_model *model, const double *results, int64_t rows)
{
    for (int i = 0; i < model->values; i++) {
        const iso_value_rule *rule = &model->value[i];
        double weight = rule->weight >= 0 ? results[rule->weight] : rule->per_row * (double)rows;
        totals->sum[i] += rule->mean ? results[rule->sum] * (double)rows : results[rule->sum];
        totals->weight[i] += weight;
    }
}

void iso_totals_read(const iso_totals *totals, const iso_model *model, double *values)
{
    for (int i = 0; i < model->values; i++)
        values[i] = totals->weight[i] == 0 ? 0 : totals->sum[i] / totals->weight[i];
}
