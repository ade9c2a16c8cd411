/* iso_compile: from a network to the functions that train and evaluate it. */
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/session/session.h"
#include "runtime/train/state_impl.h"

/* What an output is trained for, with its texts, which are the caller's, as the graph's. */
static iso_output_options keep_objective(iso_graph *graph, iso_output_options objective)
{
    for (int i = 0; i < ISO_MAX_METRICS; i++)
        if (objective.metric_names[i])
            objective.metric_names[i] = iso_graph_keep_text(graph, objective.metric_names[i]);
    return objective;
}

/* Everything that one rank does by itself: losses, metrics, the update. */
static iso_status build(iso_model *model, const iso_compile_options *options, iso_results *results,
                        iso_update **update)
{
    iso_tensor *loss = NULL;
    iso_status status = model->status;
    if (status != ISO_OK)
        return iso_error(status, "no memory for a model");
    ISO_TRY(iso_graph_error(model->graph));
    if (model->compiled)
        return iso_error(ISO_INVALID, "the model is compiled already");
    ISO_TRY(iso_optimizer_check(&options->optimizer));
    if (options->distribution)
        iso_graph_distribute(model->graph, options->distribution);
    ISO_TRY(iso_objectives_build(model, options, results, &loss));
    iso_optimizer optimizer = options->optimizer.rule ? options->optimizer : iso_rmsprop();
    *update = iso_minimize(loss, optimizer);
    model->optimizer = optimizer;
    model->optimizer.no_decay = NULL; /* lent */
    model->optimizer.rule = iso_optimizer_rule_find(optimizer.rule)->name;
    for (int i = 0; i < model->outputs; i++)
        model->objective[i] = keep_objective(model->graph, iso_objective_of(options, i));
    ISO_TRY(iso_graph_error(model->graph));
    model->results = results->count;
done:
    return status;
}

static uint64_t hash_objective(uint64_t hash, const iso_output_options *o)
{
    double numbers[] = {o->label_smoothing, o->huber_delta, o->threshold, o->top_k, o->loss, o->loss_weight};
    return iso_hash_bytes(hash, numbers, sizeof numbers);
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
                        options->sample_weights,
                        model->inputs,
                        model->outputs,
                        model->values,
                        model->results};
    hash = iso_hash_bytes(hash, numbers, sizeof numbers);
    hash = iso_hash_bytes(hash, optimizer->hyper, sizeof optimizer->hyper);
    hash = iso_hash_bytes(hash, schedule->boundary, sizeof schedule->boundary);
    hash = iso_hash_bytes(hash, schedule->value, sizeof schedule->value);
    for (int i = 0; i < model->outputs; i++) {
        iso_output_options objective = iso_objective_of(options, i);
        hash = hash_objective(hash, &objective);
    }
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

static iso_function_options inputs_and_outputs(const iso_model *model, const iso_results *results)
{
    iso_function_options options = {.training = false};
    memcpy(options.inputs, model->part, sizeof options.inputs);
    memcpy(options.outputs, results->tensor, sizeof options.outputs);
    return options;
}

static iso_status make_functions(iso_model *model, const iso_results *results, iso_update *update)
{
    iso_status status = ISO_OK;
    iso_function_options options = inputs_and_outputs(model, results);
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
    iso_results results = {.count = 0};
    iso_update *update = NULL;
    iso_context *ctx = model->graph ? iso_graph_context(model->graph) : NULL;
    memcpy(&options, given, size < sizeof options ? size : sizeof options);
    iso_status status = iso_agree(ctx, build(model, &options, &results, &update));
    if (status != ISO_OK)
        return status;
    uint64_t hash = hash_variables(hash_options(model, &options), model->graph);
    ISO_TRY(iso_agree_same(ctx, "the model and what it is compiled with", hash, NULL));
    ISO_TRY(make_functions(model, &results, update));
    model->compiled = true;
    if (model->initial) {
        status = iso_model_read_tensors(model, model->initial, ISO_OPTIMIZER_IF_THERE);
        iso_saved_file_close(model->initial);
        model->initial = NULL;
    }
done:
    return status;
}

iso_status iso_model_describe_with(iso_model *model, const iso_compile_options *given, size_t size,
                                   iso_function_options *training)
{
    iso_compile_options options = {0};
    iso_results results = {.count = 0};
    iso_update *update = NULL;
    memcpy(&options, given, size < sizeof options ? size : sizeof options);
    iso_status status = build(model, &options, &results, &update);
    if (status != ISO_OK)
        return status;
    *training = inputs_and_outputs(model, &results);
    training->updates[0] = update;
    training->training = true;
    model->compiled = true; /* losses and updates are in the graph now: there is no second time */
    return ISO_OK;
}
