/* iso_compile: from a network to its training and evaluation functions. */
#include "runtime/train/compile.h"

#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/thread_modes.h"
#include "runtime/exec/auto_sharding/search_layouts.h"
#include "runtime/exec/state/recompile.h"
#include "runtime/graph/layer.h"
#include "runtime/graph/optimizers/rule.h"
#include "runtime/graph/pending.h"
#include "runtime/session/session.h"
#include "runtime/train/loss.h"
#include "runtime/train/model_impl.h"
#include "runtime/train/state_impl.h"

/* Copies the options of an output, with their texts, so that the graph owns them, and fills in what follows from the
 * output. */
static iso_output_options keep_objective(iso_graph *graph, iso_output_options objective,
                                         const iso_tensor *prediction)
{
    const iso_shape *shape = iso_tensor_shape(prediction);
    for (int i = 0; i < ISO_MAX_METRICS; i++) {
        if (objective.metric_names[i])
            objective.metric_names[i] = iso_graph_keep_text(graph, objective.metric_names[i]);
        if (objective.weighted_metric_names[i])
            objective.weighted_metric_names[i] =
                iso_graph_keep_text(graph, objective.weighted_metric_names[i]);
        iso_metric_complete(objective.metrics[i], &objective.metric_settings[i], shape);
        iso_metric_complete(objective.weighted_metrics[i], &objective.weighted_metric_settings[i], shape);
    }
    return objective;
}

/* ---- compiling again ---- */

/* A model being compiled, and its previous state. Building adds to the graph after a savepoint, so that these
 * additions can be removed when the model is compiled again or when compiling fails. */
typedef struct compilation {
    iso_model *model;
    iso_model before;     /* the model's previous members */
    bool begun;           /* `before` holds them */
    iso_savepoint *point; /* before what is being built */
    iso_savepoint *old;   /* holds what an earlier compile built, removed from the graph; NULL: the model was
                             not compiled */
    iso_recompile *recompile;
} compilation;

static iso_status check_model(const iso_model *model)
{
    iso_status status = model->status;
    if (status != ISO_OK)
        return iso_error(status, "no memory for a model");
    ISO_TRY(iso_graph_take_error(model->graph));
    if (model->busy)
        return iso_error(ISO_INVALID, "a model cannot be compiled while it is trained, evaluated or predicts "
                                      "(in a callback of its own)");
    if (model->compiled && !model->point)
        return iso_error(ISO_INVALID, "a model cannot be compiled after iso_model_describe_with");
    if (model->compiled)
        status = iso_savepoint_check(model->point);
    if (status != ISO_OK)
        return iso_error_prefix(status, "the model cannot be compiled again, since its graph has changed: ");
done:
    return status;
}

iso_status iso_model_check_trains(const iso_model *model)
{
    if (model->evaluation_only)
        return iso_error(ISO_INVALID, "the model cannot be trained: it was compiled for evaluation only");
    if (model->trains)
        return ISO_OK;
    return iso_error(
        ISO_INVALID,
        "the model cannot be trained: no variable that its loss depends on is trainable; it can be "
        "evaluated and can predict");
}

static void forget_compiled(iso_model *model)
{
    model->compiled = model->weighted = model->evaluation_only = false;
    model->training = model->evaluation = NULL;
    model->n_targets = model->n_values = 0;
    model->n_results = model->n_sums = 0;
    memset(model->parts + model->n_inputs, 0,
           sizeof model->parts - (size_t)model->n_inputs * sizeof *model->parts);
    model->n_parts = model->n_inputs;
    model->point = NULL;
}

static iso_status compile_begin(compilation *c)
{
    iso_model *model = c->model;
    iso_function *own[] = {model->evaluation, model->training, NULL}; /* training may be NULL */
    iso_status status = ISO_OK;
    ISO_TRY(check_model(model));
    for (int i = 0; i < model->n_outputs; i++)
        iso_model_result(model, i);
    if (!model->compiled)
        ISO_TRY(iso_savepoint_create(model->graph, &c->point));
    ISO_TRY(iso_recompile_begin(model->graph, model->compiled ? model->point : c->point, own, &c->recompile));
    if (model->compiled) {
        ISO_TRY(iso_savepoint_take_out(model->point));
        c->old = model->point;
        ISO_TRY(iso_savepoint_create(model->graph, &c->point));
    }
    c->before = *model;
    c->begun = true;
    forget_compiled(model);
done:
    return status;
}

/* Restores the model to its previous state. */
static void undo(compilation *c)
{
    iso_model *model = c->model;
    if (c->begun) {
        iso_function_destroy(model->training);
        iso_function_destroy(model->evaluation);
    }
    if (c->recompile)
        iso_recompile_rollback(c->recompile);
    iso_savepoint_discard(c->point);
    if (c->old)
        iso_savepoint_put_back(c->old);
    if (c->begun)
        *model = c->before;
}

static void finish(compilation *c)
{
    c->model->compiled = true;
    c->model->point = c->point;
    iso_savepoint_end(c->point);
    iso_function_destroy(c->before.training);
    iso_function_destroy(c->before.evaluation);
    iso_recompile_commit(c->recompile);
    iso_savepoint_destroy(c->old);
}

/* Whether the optimizer's state is kept. */
static bool same_optimizer(const compilation *c, const iso_compile_options *options)
{
    const iso_optimizer *was = &c->before.optimizer, *is = &c->model->optimizer;
    int was_over = was->accumulation > 1 ? was->accumulation : 1,
        is_over = is->accumulation > 1 ? is->accumulation : 1;
    return c->before.compiled && !options->reset_optimizer && strcmp(was->rule, is->rule) == 0 &&
           was_over == is_over && was->use_ema == is->use_ema;
}

/* Keeps the values of the loss functions' variables and, if `same`, of the optimizer's, except the learning
 * rate, which the options set. */
static void keep_values(const compilation *c, bool same)
{
    const iso_graph *graph = c->model->graph;
    for (int i = iso_savepoint_variables(c->point); i < iso_graph_variable_count(graph); i++) {
        iso_variable *variable = iso_graph_variable(graph, i);
        const char *path = iso_variable_path(variable);
        if (iso_path_below_optimizer(path) ? same && strcmp(path, "optimizer/learning_rate") != 0 : true)
            iso_recompile_keep_value(variable);
    }
}

/* ---- building ---- */

/* Builds, on one rank alone, everything that needs no other rank: losses, metrics, the update. */
static iso_status compile_build(iso_model *model, const iso_compile_options *options, iso_results *results,
                                iso_update **update)
{
    iso_tensor *loss = NULL;
    iso_status status = ISO_OK;
    ISO_TRY(iso_optimizer_check(&options->optimizer));
    if (options->distribution)
        iso_graph_distribute(model->graph, options->distribution);
    ISO_TRY(iso_loss_graph_build(model, options, results, &loss));
    iso_optimizer optimizer = options->optimizer.rule ? options->optimizer : iso_rmsprop();
    *update = iso_minimize_trainable(loss, optimizer, &model->trains);
    model->optimizer = optimizer;
    model->optimizer.no_decay = NULL; /* lent */
    model->optimizer.rule = iso_optimizer_rule_find(optimizer.rule)->row.name;
    for (int i = 0; i < model->n_outputs; i++)
        model->objective[i] =
            keep_objective(model->graph, iso_loss_graph_options(options, i), model->outputs[i]);
    ISO_TRY(iso_graph_error(model->graph));
    model->n_results = results->size;
done:
    return status;
}

static iso_function_options inputs_and_outputs(const iso_model *model, const iso_results *results)
{
    iso_function_options options = {.training = false};
    memcpy(options.inputs, model->parts, sizeof options.inputs);
    memcpy(options.outputs, results->tensors, sizeof options.outputs);
    return options;
}

static iso_status make_functions(iso_model *model, const iso_results *results, iso_update *update)
{
    iso_status status = ISO_OK;
    iso_function_options options = inputs_and_outputs(model, results), training = options;
    training.updates[0] = update;
    training.training = true;
    ISO_TRY(iso_graph_search_layouts(model->graph, &training));
    /* Training first: if memory does not suffice, the message has all that the model needs. */
    if (!model->evaluation_only)
        ISO_TRY(iso_function_create_with(model->graph, &model->training, &training, sizeof training));
    ISO_TRY(iso_function_create_with(model->graph, &model->evaluation, &options, sizeof options));
done:
    return status;
}

static iso_status compile(compilation *c, iso_context *ctx, const iso_compile_options *options)
{
    iso_model *model = c->model;
    iso_results results = {.count = 0};
    iso_update *update = NULL;
    iso_status status;
    ISO_TRY(iso_agree(ctx, compile_build(model, options, &results, &update)));
    ISO_TRY(iso_model_agree_same(model));
    bool same = same_optimizer(c, options);
    ISO_TRY(
        iso_agree_same(ctx, "whether the optimizer's state goes on", same, same ? "it does" : "it does not"));
    keep_values(c, same);
    ISO_TRY(make_functions(model, &results, update));
    if (same)
        ISO_TRY(iso_recompile_transfer_state(c->recompile));
    model->compiled = true;
    ISO_TRY(iso_model_read_initial_optimizer(model));
done:
    return status;
}

static iso_status compile_for(iso_model *model, bool evaluation_only, const iso_compile_options *given,
                              size_t size)
{
    iso_compile_options options = {0};
    compilation c = {.model = model};
    iso_context *ctx = model->graph ? iso_graph_context(model->graph) : NULL;
    iso_options_copy(&options, sizeof options, given, size);
    iso_status status = iso_agree(ctx, compile_begin(&c));
    model->evaluation_only = status == ISO_OK ? evaluation_only : model->evaluation_only;
    if (status == ISO_OK)
        status = compile(&c, ctx, &options);
    if (status == ISO_OK)
        finish(&c);
    else
        undo(&c);
    iso_status committed = iso_graph_commit(model->graph);
    return status == ISO_OK ? iso_agree(ctx, committed) : status;
}

iso_status iso_compile_with(iso_model *model, const iso_compile_options *options, size_t size)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(model);
    return compile_for(model, false, options, size);
}

iso_status iso_compile_evaluation(iso_model *model, const iso_compile_options *options, size_t size)
{
    return compile_for(model, true, options, size);
}

iso_status iso_model_describe_with(iso_model *model, const iso_compile_options *given, size_t size,
                                   iso_function_options *training)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(model, training);
    iso_compile_options options = {0};
    iso_results results = {.count = 0};
    iso_update *update = NULL;
    iso_options_copy(&options, sizeof options, given, size);
    iso_status status = check_model(model);
    if (status == ISO_OK && model->compiled)
        status = iso_error(ISO_INVALID, "the model is compiled already");
    if (status == ISO_OK)
        status = compile_build(model, &options, &results, &update);
    if (status == ISO_OK)
        status = iso_model_check_trains(model);
    if (status != ISO_OK)
        return status;
    *training = inputs_and_outputs(model, &results);
    training->updates[0] = update;
    training->training = true;
    model->compiled = true; /* losses and updates are in the graph now: compiling is not repeated */
    return ISO_OK;
}
