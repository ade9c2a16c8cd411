#include "runtime/exec/function/function.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/exec/function/deferred_weights.h"
#include "runtime/exec/function/function_impl.h"
#include "runtime/exec/function/recorder_impl.h"
#include "runtime/graph/owner.h"
#include "runtime/graph/pending.h"
#include "runtime/graph/registered.h"
#include "runtime/session/session.h"
#include "runtime/session/tuning.h"

/* ---- making ---- */

static int count_list(const void *const *list, int capacity)
{
    int n = 0;
    while (n < capacity && list[n])
        n++;
    return n;
}

/* A loss is summed in float64 and then cast to the network's type: results give the float64 sum. */
static iso_tensor *before_cast(iso_tensor *tensor)
{
    const iso_op *op = tensor->producer;
    bool narrowed = op && strcmp(op->type->name, "cast") == 0 && op->inputs[0]->dtype == ISO_F64 &&
                    tensor->dtype == ISO_F32;
    return narrowed ? op->inputs[0] : tensor;
}

static iso_status check_tensors(const iso_graph *graph, const char *what, iso_tensor *const *tensors,
                                int count)
{
    for (int i = 0; i < count; i++)
        if (!iso_tensor_within(graph, tensors[i]))
            return iso_error(ISO_INVALID, "%s %d of a function, '%s', is not in its graph", what, i,
                             iso_tensor_name(tensors[i]));
    return ISO_OK;
}

/* Checks that the tensors and variables of a function are in its graph. */
static iso_status check_request(const iso_graph *graph, const iso_function_options *options,
                                const iso_program_request *request)
{
    iso_status status = ISO_OK;
    ISO_TRY(check_tensors(graph, "input", options->inputs, request->n_inputs));
    ISO_TRY(check_tensors(graph, "output", options->outputs, request->n_outputs));
    for (int i = 0; i < request->n_updates; i++) {
        const iso_update *update = options->updates[i];
        bool within = update->graph == graph && update != &graph->bad_update;
        for (int k = 0; within && k < update->count; k++)
            within = iso_variable_within(graph, update->change[k].variable);
        if (!within)
            ISO_TRY(iso_error(ISO_INVALID, "update %d of a function is not in its graph", i));
    }
done:
    return status;
}

iso_status iso_function_program(iso_graph *graph, const iso_distribution *distribution,
                                const iso_function_options *options, bool keeps_all, iso_program **program)
{
    iso_status status = ISO_OK;
    iso_tensor *outputs[ISO_MAX_FUNCTION_OUTPUTS] = {0};
    const iso_backend *backend = iso_context_backend(graph->ctx);
    iso_program_request request = {.training = options->training,
                                   .parts = options->parts,
                                   .keeps_all = keeps_all,
                                   .kernels = {backend->rounds, backend->normalizes, backend->unfolds},
                                   .inputs = options->inputs,
                                   .outputs = outputs};
    request.updates = options->updates;
    request.n_inputs = count_list((const void *const *)options->inputs, ISO_MAX_FUNCTION_INPUTS);
    request.n_outputs = count_list((const void *const *)options->outputs, ISO_MAX_FUNCTION_OUTPUTS);
    for (int i = 0; i < request.n_outputs; i++)
        outputs[i] = options->parts ? options->outputs[i] : before_cast(options->outputs[i]);
    request.n_updates = count_list((const void *const *)options->updates, ISO_MAX_FUNCTION_UPDATES);
    ISO_TRY(check_request(graph, options, &request));
    ISO_TRY(iso_program_create(graph, distribution, &request, program));
    if (graph->runtime)
        ISO_TRY(iso_runtime_check_placed(graph->runtime, *program));
    if (!keeps_all)
        ISO_TRY(iso_program_report_unmatched_keys(*program, iso_is_chief(graph->ctx)));
done:
    return status;
}

iso_status iso_function_buckets(const iso_program *program, bool one_domain, iso_bucket_list *buckets)
{
    iso_status status = iso_buckets_create(program, !one_domain, buckets);
    if (status == ISO_OK && buckets->kinds > ISO_MAX_BUCKETS)
        return iso_error(ISO_INVALID,
                         "a function has %d groups of variables to update, at most %d are possible",
                         buckets->kinds, ISO_MAX_BUCKETS);
    return status;
}

/* The ranks must run the same program; otherwise the error names the first op that differs. Collective. */
static iso_status agree_program(iso_context *ctx, const iso_function *function)
{
    iso_text lines = {0};
    char what[ISO_MAX_NAME + 40];
    iso_program_list(function->program, &lines);
    snprintf(what, sizeof what, "the program of function '%s'", function->name);
    iso_status status =
        iso_agree(ctx, lines.failed ? iso_error(ISO_NO_MEMORY, "no memory to compare %s", what) : ISO_OK);
    if (status == ISO_OK)
        status = iso_agree_same_lines(ctx, what, iso_text_get(&lines));
    iso_text_free(&lines);
    return status;
}

/* The ranks must have registered the same ops, in the same order. Collective. */
static iso_status agree_registered_ops(iso_context *ctx)
{
    iso_text ops = {0};
    iso_registered_ops_list(&ops);
    iso_status status = ops.failed ? iso_no_memory("the list of ops") : ISO_OK;
    status = iso_agree(ctx, status);
    if (status == ISO_OK)
        status = iso_agree_same_lines(ctx, "the registered ops", iso_text_get(&ops));
    iso_text_free(&ops);
    return status;
}

static iso_status restore_values(iso_graph *graph)
{
    iso_status status = graph->restore ? graph->restore(graph->restore_user) : ISO_OK;
    if (status == ISO_OK)
        graph->restore = NULL;
    return status;
}

/* Room for the mappings of outputs. */
static iso_status make_parts(iso_function *function)
{
    size_t count = (size_t)(function->program->n_outputs * function->runtime->n_locals) + 1;
    function->part = iso_new(count * sizeof *function->part);
    return function->part ? ISO_OK : iso_no_memory("%zu parts of outputs", count);
}

/* Room for the results of a step. */
static iso_status make_found(iso_function *function)
{
    int64_t count = function->program->n_results;
    function->found = iso_new(((count > 0 ? (size_t)count : 0) + 1) * sizeof *function->found);
    return function->found ? ISO_OK : iso_no_memory("%lld results of a step", (long long)count);
}

static iso_status function_set_up(iso_function *function, const iso_function_options *options)
{
    iso_context *ctx = function->graph->ctx;
    iso_status status = ISO_OK;
    ISO_TRY(agree_registered_ops(ctx));
    ISO_TRY(iso_agree(ctx, iso_graph_take_error(function->graph)));
    ISO_TRY(iso_runtime_get(function->graph, &function->runtime));
    function->runtime->site.slot_tables = iso_executable_table_bytes;
    iso_runtime_forget_known(function->runtime); /* variables may be new */
    status = iso_function_program(function->graph, function->runtime->distribution, options, false,
                                  &function->program);
    if (status == ISO_OK)
        status =
            iso_function_buckets(function->program, function->runtime->site.one_domain, &function->buckets);
    ISO_TRY(iso_agree(ctx, status));
    ISO_TRY(agree_program(ctx, function));
    ISO_TRY(iso_runtime_place_variables(function->runtime, function->program));
    ISO_TRY(restore_values(function->graph));
    status = iso_runtime_update_state(function->runtime, function->program, &function->buckets,
                                      &function->updates);
    if (status == ISO_OK)
        status = iso_results_create(function->runtime, function->program, function->buckets.kinds,
                                    &function->steps);
    if (status == ISO_OK)
        status = make_found(function);
    if (status == ISO_OK && function->parts)
        status = make_parts(function);
    ISO_TRY(iso_agree(ctx, status));
done:
    return function->program ? iso_function_explain_memory(function, NULL, status) : status;
}

/* The runtime is destroyed: these functions are in no list any more. */
static void detach_functions(iso_function *functions)
{
    for (iso_function *function = functions; function; function = function->next)
        function->listed = false;
}

static void list_function(iso_function *function)
{
    iso_runtime *runtime = function->runtime;
    function->next = runtime->functions;
    if (function->next)
        function->next->previous = function;
    runtime->functions = function;
    function->listed = true;
    function->number = function->runtime->functions_made++;
    function->runtime->detach = detach_functions;
}

/* Adds the constraints of the variables that an update changes by an optimizer. */
static iso_update *add_constraints(const iso_update *update, iso_update *all)
{
    for (int i = 0; i < update->count; i++) {
        iso_variable *variable = update->change[i].variable;
        if (update->change[i].apply && variable->constraint)
            all = iso_update_join(all, iso_assign(variable, variable->constraint));
    }
    return all;
}

/* Constraints are a function of their own, without inputs, because they read the variables after the update. */
static iso_status make_constraints(iso_function *function, const iso_function_options *options)
{
    iso_function_options after = {.name = "constraints"};
    for (int i = 0; i < ISO_MAX_FUNCTION_UPDATES && options->updates[i]; i++)
        after.updates[0] = add_constraints(options->updates[i], after.updates[0]);
    return after.updates[0]
               ? iso_function_create_with(function->graph, &function->constraints, &after, sizeof after)
               : ISO_OK;
}

iso_status iso_function_create_with(iso_graph *graph, iso_function **out, const iso_function_options *given,
                                    size_t size)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(graph);
    ISO_NEED_AGREED_AS(graph->ctx, "function", out);
    iso_function_options options;
    iso_options_copy(&options, sizeof options, given, size);
    iso_function *function = iso_new(sizeof *function);
    iso_status status = function ? ISO_OK : iso_no_memory("a function (%zu bytes)", sizeof *function);
    status = iso_agree(graph->ctx, status);
    if (status != ISO_OK) {
        iso_free(function);
        return status;
    }
    function->graph = graph;
    iso_graph_hold(graph);
    function->training = options.training;
    function->parts = options.parts;
    snprintf(function->name, sizeof function->name, "%s",
             options.name       ? options.name
             : options.training ? "training"
                                : "inference");
    iso_watchdog_name_set(&function->step_name, "a step of function", -1, function->name);
    status = function_set_up(function, &options);
    if (status == ISO_OK)
        status = make_constraints(function, &options);
    if (status == ISO_OK)
        status = iso_agree(graph->ctx, iso_graph_commit(graph));
    if (status == ISO_OK) {
        list_function(function);
        *out = function;
    } else {
        iso_function_destroy(function);
    }
    return status;
}

static void unlist_function(iso_function *function)
{
    if (!function->listed)
        return;
    if (function->next)
        function->next->previous = function->previous;
    if (function->previous)
        function->previous->next = function->next;
    else
        function->runtime->functions = function->next;
}

void iso_function_destroy(iso_function *function)
{
    ISO_DEFAULT_MODES();
    if (!function)
        return;
    iso_function_destroy(function->constraints);
    unlist_function(function);
    iso_function_unmap_parts(function);
    if (function->runtime)
        iso_results_destroy(function->runtime, &function->steps);
    while (function->plans) {
        iso_executable *next = function->plans->next;
        if (function->runtime->deferred == function->plans)
            function->runtime->deferred = NULL;
        iso_executable_destroy(function->runtime, function->plans);
        function->plans = next;
    }
    iso_recorder_destroy(function->recorder);
    iso_free(function->part);
    iso_free(function->found);
    iso_buckets_destroy(&function->buckets);
    iso_program_destroy(function->program);
    iso_graph_release(function->graph);
    iso_free(function);
}

/* ---- plans by batch size ---- */

/* Chooses algorithms with --tune, among those that are fused too: counting the scratch memory finds these. */
static iso_status tune(const iso_runtime *runtime, const iso_executable *executable)
{
    if (!iso_tuning_is_on(runtime->ctx, runtime->backend))
        return ISO_OK;
    iso_executable_count_scratch(runtime, executable);
    const iso_device *measures = runtime->n_locals > 0 ? runtime->device : runtime->backend->device(0);
    return iso_tuning_complete(runtime->ctx, runtime->backend, measures);
}

static iso_status reserve(iso_runtime *runtime, const iso_executable *executable, iso_runtime_reserver *with)
{
    return with(runtime, executable->plan->arena_bytes, executable->plan->shared_bytes, executable->scratch);
}

/* After the memory has moved. An error while it grew for another plan may have left less than this one needs. */
static iso_status bind_again(iso_runtime *runtime, iso_executable *executable)
{
    iso_status status = reserve(runtime, executable, iso_runtime_reserve_again);
    return status == ISO_OK ? iso_agree(runtime->ctx, iso_executable_bind(runtime, executable)) : status;
}

static iso_status make_plan(iso_function *function, int64_t rows, iso_executable **out)
{
    iso_runtime *runtime = function->runtime;
    iso_status status = ISO_OK;
    iso_plan *plan = NULL;
    iso_executable *executable = NULL;
    if (rows < 0)
        status = iso_error(ISO_INVALID, "a batch of %" PRId64 " rows; it must not be negative", rows);
    else
        status = iso_plan_create(function->program, &function->buckets, &runtime->site, rows, &plan);
    ISO_TRY(iso_agree(runtime->ctx, status)); /* a rank that refused its batch waits here (function_run) */
    ISO_TRY(iso_function_agree_on_run(function, rows));
    status = iso_executable_create(runtime, plan, &executable);
    if (status == ISO_OK)
        plan = NULL; /* `executable` owns it, also if another rank fails */
    ISO_TRY(iso_agree(runtime->ctx, status));
    ISO_TRY(tune(runtime, executable));
    iso_executable_count_scratch(runtime, executable);
    ISO_TRY(reserve(runtime, executable, iso_runtime_reserve));
    ISO_TRY(iso_plan_connect(executable->plan));
    executable->number = function->number % ISO_FUNCTION_NUMBERS * ISO_PLAN_NUMBERS +
                         function->plans_made++ % ISO_PLAN_NUMBERS;
    runtime->uncounted++;
    *out = executable;
    return ISO_OK;
done:
    status = iso_function_explain_memory(function, executable ? executable->plan : plan, status);
    iso_plan_destroy(plan);
    iso_executable_destroy(runtime, executable);
    return status;
}

iso_status iso_function_executable(iso_function *function, int64_t rows, iso_executable **out)
{
    iso_executable **link = &function->plans;
    while (*link && (*link)->plan->rows != rows)
        link = &(*link)->next;
    iso_executable *executable = *link;
    if (!executable ||
        executable != function->runtime->deferred) /* a step of `executable` sends what its last one left */
        iso_step_send_deferred_weights(function->runtime);
    if (!executable) {
        iso_status status = make_plan(function, rows, &executable);
        if (status != ISO_OK)
            return status;
    } else {
        *link = executable->next;
    }
    executable->next = function->plans;
    function->plans = executable;
    *out = executable;
    return executable->generation == function->runtime->generation
               ? ISO_OK
               : bind_again(function->runtime, executable);
}

void iso_function_defer_weights(iso_function *function, bool leave)
{
    function->defers_weights = leave;
}

void iso_graph_send_deferred_weights(iso_graph *graph)
{
    if (graph->runtime)
        iso_step_send_deferred_weights(graph->runtime);
}

iso_status iso_function_prepare(iso_function *function, int64_t rows)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(function);
    iso_executable *executable;
    return iso_function_executable(function, rows, &executable);
}
