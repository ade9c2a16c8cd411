/* iso_compile: from a network to the functions that train and evaluate it. */
#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/session/session.h"
#include "runtime/train/losses_impl.h"
#include "runtime/train/model_impl.h"

/* The functions' outputs while they are listed. */
typedef struct outputs {
    iso_tensor *tensor[ISO_MAX_FUNCTION_OUTPUTS];
    int count;
} outputs;

static int put(outputs *list, iso_tensor *tensor)
{
    list->tensor[list->count] = tensor;
    return list->count++;
}

static bool name_used(const iso_model *model, const char *name)
{
    for (int i = 0; i < model->values; i++)
        if (strcmp(model->value[i].name, name) == 0)
            return true;
    return false;
}

/* Adds a reported value; a name that is taken gets a number, as in Keras. */
static void add_value(iso_model *model, outputs *list, const char *name, iso_metric_sums sums, bool mean)
{
    if (!sums.sum)
        return; /* the graph has an error */
    iso_value_rule *rule = &model->value[model->values];
    char text[ISO_MAX_NAME];
    snprintf(text, sizeof text, "%s", name);
    for (int k = 1; name_used(model, text); k++)
        snprintf(text, sizeof text, "%.40s_%d", name, k);
    memcpy(rule->name, text, sizeof text);
    rule->sum = put(list, sums.sum);
    rule->weight = sums.weight ? put(list, sums.weight) : -1;
    rule->per_row = sums.per_row;
    rule->mean = mean;
    model->value_name[model->values++] = rule->name;
}

/* Accuracies that Keras's `metrics=["accuracy"]` would choose are called so. */
static const char *metric_title(iso_metric metric, iso_metric asked)
{
    bool accuracy = metric == ISO_METRIC_SPARSE_ACCURACY || metric == ISO_METRIC_CATEGORICAL_ACCURACY ||
                    metric == ISO_METRIC_BINARY_ACCURACY || asked == ISO_METRIC_ACCURACY;
    return accuracy ? "accuracy" : iso_metric_name(metric);
}

static void add_metrics(iso_model *model, outputs *list, const iso_compile_options *options,
                        const iso_metric *metrics, iso_tensor *weights)
{
    for (int i = 0; i < ISO_MAX_METRICS && metrics[i] != ISO_METRIC_NONE; i++) {
        iso_metric metric = iso_metric_for_loss(metrics[i], options->loss, iso_tensor_shape(model->output));
        iso_metric_sums sums = iso_metric_build(metric, model->target, model->output, weights, options->top_k,
                                                options->threshold);
        char title[ISO_MAX_NAME];
        if (iso_metric_name(metric))
            snprintf(title, sizeof title, "%s%s", weights ? "weighted_" : "",
                     metric_title(metric, metrics[i]));
        add_value(model, list, title, sums, false);
    }
}

static void add_custom_metrics(iso_model *model, outputs *list, const iso_compile_options *options)
{
    for (int i = 0; i < ISO_MAX_METRICS && options->custom_metrics[i].function; i++) {
        const iso_custom_metric *metric = &options->custom_metrics[i];
        iso_tensor *values = metric->function(model->target, model->output);
        add_value(model, list, metric->name ? metric->name : "metric", iso_metric_sum_values(values, NULL),
                  false);
    }
}

/* The inputs besides the model's own: targets and sample weights. */
static void add_inputs(iso_model *model, const iso_compile_options *options)
{
    iso_shape shape = options->target_shape;
    iso_dtype dtype = options->target_dtype;
    if (dtype == ISO_DTYPE_NONE) {
        dtype = iso_loss_target_dtype(options->loss);
        shape = iso_loss_target_shape(options->loss, iso_tensor_shape(model->output));
    }
    model->target = iso_input(model->graph, "target", dtype, shape);
    if (options->sample_weights)
        model->weights = iso_input(model->graph, "sample_weight", ISO_F32, ISO_SCALAR);
}

static iso_tensor *build_loss(iso_model *model, const iso_compile_options *options)
{
    iso_loss_settings settings = {options->label_smoothing, options->huber_delta};
    iso_tensor *values;
    if (options->loss_function)
        values = options->loss_function(model->target, model->output);
    else
        values = iso_loss_values(options->loss, model->target, model->output, &settings);
    if (!values) {
        iso_graph_fail(model->graph, "the loss function returned NULL");
        return NULL;
    }
    iso_tensor *loss = iso_reduce_loss(values, model->weights), *others = iso_graph_losses(model->graph);
    return others ? iso_add(loss, iso_cast(others, iso_tensor_dtype(loss))) : loss;
}

static iso_status check_options(const iso_model *model, const iso_compile_options *options)
{
    if (model->compiled)
        return iso_error(ISO_INVALID, "the model is compiled already");
    if (options->loss == ISO_LOSS_NONE && !options->loss_function)
        return iso_error(ISO_INVALID, "compile needs a loss (.loss or .loss_function)");
    if (options->loss != ISO_LOSS_NONE && options->loss_function)
        return iso_error(ISO_INVALID, "compile takes .loss or .loss_function, not both");
    if (options->weighted_metrics[0] != ISO_METRIC_NONE && !options->sample_weights)
        return iso_error(ISO_INVALID, "compile: .weighted_metrics need .sample_weights");
    if (iso_tensor_shape(model->output)->rank < 1)
        return iso_error(ISO_INVALID, "the model's output has no batch dimension");
    return iso_optimizer_check(&options->optimizer);
}

/* Everything that one rank does by itself: losses, metrics, the update. */
static iso_status build(iso_model *model, const iso_compile_options *options, outputs *list,
                        iso_update **update)
{
    iso_status status = model->status;
    if (status != ISO_OK)
        return iso_error(status, "no memory for a model");
    ISO_TRY(iso_graph_error(model->graph));
    ISO_TRY(check_options(model, options));
    if (options->distribution)
        iso_graph_distribute(model->graph, options->distribution);
    add_inputs(model, options);
    iso_tensor *loss = build_loss(model, options);
    ISO_TRY(iso_graph_error(model->graph));
    add_value(model, list, "loss", (iso_metric_sums){.sum = loss, .per_row = 1}, true);
    add_metrics(model, list, options, options->metrics, NULL);
    add_metrics(model, list, options, options->weighted_metrics, model->weights);
    add_custom_metrics(model, list, options);
    *update = iso_minimize(loss, options->optimizer.rule ? options->optimizer : iso_rmsprop());
    ISO_TRY(iso_graph_error(model->graph));
    model->results = list->count;
done:
    return status;
}

/* What every rank must have alike. Field by field: padding has no value, pointers differ. */
static uint64_t hash_options(const iso_model *model, const iso_compile_options *options)
{
    const iso_optimizer *optimizer = &options->optimizer;
    const iso_schedule *schedule = &optimizer->schedule;
    uint64_t hash = iso_hash_text(0, optimizer->rule ? optimizer->rule : "");
    double numbers[] = {optimizer->learning_rate,
                        optimizer->weight_decay,
                        optimizer->clip_norm,
                        optimizer->global_clip_norm,
                        optimizer->clip_value,
                        optimizer->accumulation,
                        schedule->kind,
                        schedule->initial,
                        schedule->rate,
                        schedule->alpha,
                        schedule->warmup_target,
                        (double)schedule->decay_steps,
                        schedule->staircase,
                        schedule->boundaries,
                        (double)schedule->warmup_steps,
                        options->label_smoothing,
                        options->huber_delta,
                        options->threshold,
                        options->top_k,
                        options->sample_weights,
                        options->loss,
                        model->values,
                        model->results};
    hash = iso_hash_bytes(hash, numbers, sizeof numbers);
    hash = iso_hash_bytes(hash, optimizer->hyper, sizeof optimizer->hyper);
    hash = iso_hash_bytes(hash, schedule->boundary, sizeof schedule->boundary);
    hash = iso_hash_bytes(hash, schedule->value, sizeof schedule->value);
    for (int i = 0; i < model->values; i++)
        hash = iso_hash_text(hash, model->value[i].name);
    return hash;
}

static uint64_t hash_variables(uint64_t hash, const iso_graph *graph)
{
    uint64_t seed = iso_graph_seed(graph);
    hash = iso_hash_bytes(hash, &seed, sizeof seed);
    for (int i = 0; i < iso_graph_variable_count(graph); i++) {
        const iso_variable *variable = iso_graph_variable(graph, i);
        const iso_shape *shape = iso_variable_shape(variable);
        int64_t facts[] = {iso_variable_dtype(variable), iso_variable_trainable(variable), shape->rank};
        hash = iso_hash_text(hash, iso_variable_path(variable));
        hash = iso_hash_bytes(hash, facts, sizeof facts);
        hash = iso_hash_bytes(hash, shape->dim, (size_t)shape->rank * sizeof shape->dim[0]);
    }
    return hash;
}

static iso_function_options inputs_and_outputs(const iso_model *model, const outputs *list)
{
    iso_function_options options = {.inputs = {model->input, model->target, model->weights}};
    memcpy(options.outputs, list->tensor, sizeof options.outputs);
    return options;
}

static iso_status make_functions(iso_model *model, const outputs *list, iso_update *update)
{
    iso_status status = ISO_OK;
    iso_function_options options = inputs_and_outputs(model, list);
    ISO_TRY(iso_function_create_with(model->graph, &model->evaluation, &options, sizeof options));
    options.updates[0] = update;
    options.training = true;
    ISO_TRY(iso_function_create_with(model->graph, &model->training, &options, sizeof options));
done:
    return status;
}

iso_status iso_compile_with(iso_model *model, const iso_compile_options *given, size_t size)
{
    iso_compile_options options = {0};
    outputs list = {.count = 0};
    iso_update *update = NULL;
    iso_context *ctx = model->graph ? iso_graph_context(model->graph) : NULL;
    memcpy(&options, given, size < sizeof options ? size : sizeof options);
    iso_status status = iso_agree(ctx, build(model, &options, &list, &update));
    if (status != ISO_OK)
        return status;
    uint64_t hash = hash_variables(hash_options(model, &options), model->graph);
    ISO_TRY(iso_agree_same(ctx, "the model and what it is compiled with", hash, NULL));
    ISO_TRY(make_functions(model, &list, update));
    model->compiled = true;
done:
    return status;
}

iso_status iso_model_describe_with(iso_model *model, const iso_compile_options *given, size_t size,
                                   iso_function_options *training)
{
    iso_compile_options options = {0};
    outputs list = {.count = 0};
    iso_update *update = NULL;
    memcpy(&options, given, size < sizeof options ? size : sizeof options);
    iso_status status = build(model, &options, &list, &update);
    if (status != ISO_OK)
        return status;
    *training = inputs_and_outputs(model, &list);
    training->updates[0] = update;
    training->training = true;
    model->compiled = true; /* losses and updates are in the graph now: there is no second time */
    return ISO_OK;
}
