#include "runtime/exec/function/function.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/backend/fault.h"
#include "runtime/base/arguments.h"
#include "runtime/base/first_error.h"
#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/exec/function/deferred_weights.h"
#include "runtime/exec/function/function_impl.h"
#include "runtime/exec/function/inspect.h"
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

/* Lends no parts any more. */
static void unmap_parts(iso_function *function)
{
    for (int i = 0; function->stepped && i < function->program->n_outputs * function->runtime->n_locals; i++)
        iso_unmap(ISO_OK, &function->part[i]);
    function->stepped = NULL;
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
    unmap_parts(function);
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

/* ---- running ---- */

iso_shape iso_input_row(const iso_tensor *input)
{
    iso_shape row = input->shape;
    if (!iso_input_has_batch(input))
        return row;
    row.rank--;
    memmove(row.dim, row.dim + 1, sizeof row.dim - sizeof row.dim[0]);
    return row;
}

static iso_status check_batch(const iso_function *function, const iso_batch *batch)
{
    char want[160], have[160];
    const iso_program *program = function->program;
    iso_status status = iso_graph_take_error(function->graph);
    if (status != ISO_OK || program->n_inputs == 0)
        return status;
    if (!batch)
        return iso_error(ISO_INVALID, "function '%s' has %d inputs and was given no batch", function->name,
                         program->n_inputs);
    bool has_rows = false;
    for (int i = 0; i < program->n_inputs; i++)
        has_rows |= iso_input_has_batch(program->inputs[i]);
    if (batch->rows < has_rows)
        return iso_error(ISO_INVALID, "function '%s' was given a batch of %" PRId64 " rows; it needs rows",
                         function->name, batch->rows);
    if (!batch->read)
        return iso_error(ISO_INVALID, "function '%s' was given a batch whose `read` is NULL", function->name);
    if (batch->n_components < program->n_inputs)
        return iso_error(ISO_INVALID, "function '%s' has %d inputs, the batch has %d components",
                         function->name, program->n_inputs, batch->n_components);
    for (int i = 0; i < program->n_inputs; i++) {
        if (iso_dtype_size(batch->dtype[i]) == 0)
            return iso_error(ISO_INVALID, "component %d of a batch, for the input '%s', has no element type",
                             i, iso_tensor_name(program->inputs[i]));
        iso_shape row = iso_input_row(program->inputs[i]);
        if (!iso_shape_equal(&row, &batch->shape[i]))
            return iso_error(ISO_INVALID, "input '%s' takes %s of shape %s, the data's are %s",
                             iso_tensor_name(program->inputs[i]),
                             iso_input_has_batch(program->inputs[i]) ? "rows" : "values",
                             iso_shape_text(&row, want, sizeof want),
                             iso_shape_text(&batch->shape[i], have, sizeof have));
    }
    return ISO_OK;
}

/* Waits for the steps that have begun. Returns the first error. */
static iso_status wait_for_steps(iso_function *function)
{
    iso_async_steps *steps = &function->steps;
    iso_status status = ISO_OK;
    for (; steps->count > 0; steps->count--) {
        iso_status waited = iso_results_wait(function->runtime, &steps->step[steps->first]);
        status = status == ISO_OK ? waited : status;
        steps->first = (steps->first + 1) % ISO_ASYNC_STEPS;
    }
    return status;
}

void iso_function_drop_steps(iso_function *function)
{
    iso_agree_later(function->runtime->ctx, wait_for_steps(function));
}

/* Steps that began after one with a fault have changed nothing, and are not counted. */
static void take_back_steps(iso_function *function)
{
    const iso_async_steps *steps = &function->steps;
    for (int i = 0; i < steps->count; i++)
        function->runtime->steps -= steps->step[(steps->first + i) % ISO_ASYNC_STEPS].counted;
}

/* ISO_INVALID unless all ranks run the same function on as many rows. Collective. */
static iso_status agree_on_run(const iso_function *function, int64_t rows)
{
    char text[ISO_MAX_NAME + 64];
    snprintf(text, sizeof text, "%s on %" PRId64 " rows", function->name, rows);
    return iso_agree_same(function->graph->ctx, "the function that it runs",
                          iso_hash_mix((uint64_t)rows) + function->number, text);
}

/* Records the error of this rank's batch or of its first slot that met a fault, if any, before that of a message:
 * CUDA tells what failed in a slot to later calls too, of any GPU, and streams tell it when they are waited for. Then
 * the ranks agree. */
static iso_status agree_on_fault(iso_function *function, const iso_step_results *o)
{
    iso_runtime *runtime = function->runtime;
    iso_first_error first = {ISO_OK};
    iso_status status = ISO_OK;
    if (o->refused != ISO_OK)
        status = iso_error(o->refused, "%s", o->message);
    else if (o->failed != ISO_OK)
        status = iso_error(o->failed, "%s", o->message);
    else
        status = iso_fabric_failure(runtime->fabric);
    if (status == ISO_OK)
        status = iso_results_kernel_fault(runtime, o);
    iso_first_error_keep(&first, status);
    iso_first_error_keep(&first, wait_for_steps(function)); /* they find the fault */
    iso_first_error_keep(&first, iso_results_clear_faults(runtime));
    iso_fabric_set_device_failed(runtime->fabric, false);
    runtime->device_failed = false;
    status = iso_agree(runtime->ctx, iso_first_error_get(&first));
    return status == ISO_OK ? agree_on_run(function, o->executable->plan->rows) : status;
}

/* Ranks without slots receive the results of the step and its total, results[count], from the rank of slot 0. */
static iso_status tell_idle_ranks(iso_runtime *runtime, double *results, int64_t count)
{
    return iso_broadcast_unchecked(runtime->ctx, runtime->mesh->rank_of_slot[0], results,
                                   ((size_t)count + 1) * sizeof *results);
}

/* The agreed status of a step that has been run, with its results in `results` [count], which has room for one
 * more. A rank whose messages failed at the very end has changed nothing, but the others do not know it: it
 * reports this in the next step or the next agreement. */
static iso_status conclude(iso_function *function, const iso_step_results *o, double *results, int64_t count)
{
    iso_runtime *runtime = function->runtime;
    bool unknown = o->lost && !runtime->device->host_access; /* what came has not reached the device */
    double total = unknown ? 0 : o->memory->total;
    iso_status status = ISO_OK;
    total += (o->fault_known || o->device_failed) && iso_step_faults(total) == 0;
    if (runtime->idle_ranks) {
        total += o->lost;
        results[count] = total;
        status = tell_idle_ranks(runtime, results, count);
        total = results[count];
    }
    if (status != ISO_OK)
        return status;
    if (o->lost)
        iso_agree_later(runtime->ctx, iso_fabric_failure(runtime->fabric));
    if (total >= ISO_STOP_WEIGHT)
        iso_stop_acknowledge(runtime->ctx);
    if (iso_step_faults(total) == 0)
        return ISO_OK;
    runtime->steps -= o->counted;
    take_back_steps(function);
    iso_runtime_forget_known(runtime);
    return agree_on_fault(function, o);
}

/* The plan that the other ranks run while this rank refuses its batch: for the batch's number of rows, or
 * that of the last batch. NULL: they are about to make it. */
static iso_executable *plan_of_others(const iso_function *function, const iso_batch *batch)
{
    iso_executable *executable = function->plans;
    while (executable && batch && batch->rows > 0 && executable->plan->rows != batch->rows)
        executable = executable->next;
    return executable;
}

static void function_refuse(iso_step_results *o, iso_status status)
{
    if (status == ISO_OK || o->refused != ISO_OK)
        return;
    o->refused = status;
    snprintf(o->message, sizeof o->message, "%s", iso_error_message());
}

/* Calls the batch's `prepare`, if any. A rank without slots cannot report its error in the step, so then the
 * ranks agree here. Collective. */
static iso_status function_prepare_rows(iso_function *function, const iso_batch *batch, iso_step_results *o)
{
    iso_runtime *runtime = function->runtime;
    if (!batch || !batch->prepare)
        return ISO_OK;
    iso_status status = iso_reads_prepare(runtime, o->executable, batch, o->refused != ISO_OK);
    if (runtime->idle_ranks)
        return iso_agree(runtime->ctx, status);
    function_refuse(o, status);
    return ISO_OK;
}

/* A rank that refuses its batch still takes part, so that the others do not wait for it: its slots raise a
 * fault in the step, which then changes nothing, or it reports its error when the ranks agree on a new plan.
 * A rank without slots takes no part in the step: if there is one, the ranks agree before it, and compare what they
 * run. */
static iso_status function_run(iso_function *function, const iso_batch *batch, iso_step_results *o)
{
    iso_runtime *runtime = function->runtime;
    int64_t rows = batch ? batch->rows : 0;
    if (o->refused == ISO_OK)
        o->refused = check_batch(function, batch);
    iso_status status = ISO_OK;
    if (runtime->idle_ranks) {
        ISO_TRY(iso_agree(runtime->ctx, o->refused));
        ISO_TRY(agree_on_run(function, rows));
        ISO_TRY(iso_stop_agree(runtime->ctx));
    }
    if (o->refused != ISO_OK) {
        snprintf(o->message, sizeof o->message, "%s", iso_error_message());
        o->executable = plan_of_others(function, batch);
        if (!o->executable)
            return iso_agree(runtime->ctx, o->refused);
        rows = o->executable->plan->rows;
    }
    ISO_TRY(iso_function_executable(function, rows, &o->executable));
    if (function->recorder)
        ISO_TRY(iso_recorder_begin(function->recorder, runtime, o->executable));
    ISO_TRY(function_prepare_rows(function, batch, o));
    iso_step_run(function, batch, o);
    ISO_TRY(iso_watchdog_check(iso_context_watchdog(runtime->ctx)));
    o->lost = iso_fabric_failures(runtime->fabric) > runtime->failures_reported;
    /* If the step turns out to have met a fault, it is not counted. */
    o->counted = function->training && function->program->n_changes > 0 && !o->lost;
    runtime->steps += o->counted;
    /* A rank that has lost the end of a step changes nothing any more, but counts as the others do: all decide alike
     * whether a step has new weights to send. */
    iso_rates_note_step(runtime, function->program);
done:
    return status;
}

static iso_status begin_step(iso_function *function, const iso_batch *batch, iso_status refused,
                             bool reported)
{
    iso_step_results *o = iso_results_next(&function->steps);
    o->refused = refused;
    o->reported = reported;
    o->batch = batch && batch->source_row ? batch : NULL;
    o->position = o->batch ? batch->position : 0;
    iso_status status = function_run(function, batch, o);
    function->steps.count += status == ISO_OK;
    return status;
}

/* An error of the device is reported in the next step. */
static iso_status end_step(iso_function *function, iso_executable **executable, double *results)
{
    iso_async_steps *steps = &function->steps;
    iso_runtime *runtime = function->runtime;
    const iso_program *program = function->program;
    const iso_step_results *o = &steps->step[steps->first];
    int64_t count = o->reported ? program->n_results : 0;
    double *found = function->found;
    iso_status waited = iso_results_wait(runtime, o);
    iso_agree_later(runtime->ctx, waited);
    runtime->device_failed |= waited != ISO_OK;
    memset(found, 0, (size_t)count * sizeof *found);
    if (runtime->n_locals > 0 && o->reported)
        iso_results_outputs(program, o, found);
    steps->first = (steps->first + 1) % ISO_ASYNC_STEPS;
    steps->count--;
    iso_status status = conclude(function, o, found, count);
    *executable = o->executable;
    if (status != ISO_OK)
        iso_function_drop_steps(function);
    else if (results && count > 0)
        memcpy(results, found, (size_t)count * sizeof *results);
    if (status == ISO_OK && function->constraints)
        status = iso_function_run(function->constraints, NULL, NULL);
    return status;
}

bool iso_function_is_async(const iso_function *function)
{
    return !function->runtime->device->host_access && !function->constraints;
}

iso_status iso_function_begin_step(iso_function *function, const iso_batch *batch)
{
    iso_status status = iso_context_check(function->runtime->ctx);
    if (status == ISO_OK && function->program->n_results < 0)
        return iso_error(ISO_INVALID, "an output of function '%s' has rows: use iso_function_evaluate",
                         function->name);
    return status == ISO_OK ? begin_step(function, batch, ISO_OK, true) : status;
}

iso_status iso_function_end_step(iso_function *function, double *results)
{
    iso_executable *executable;
    return end_step(function, &executable, results);
}

iso_status iso_function_run(iso_function *function, const iso_batch *batch, double *results)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(function);
    const iso_program *program = function->program;
    iso_status status = iso_context_check(function->runtime->ctx);
    for (int i = 0; status == ISO_OK && i < program->n_outputs; i++)
        if (program->values[program->output_value[i]].tensor->shape.rank != 0)
            return iso_error(ISO_INVALID,
                             "output %d of function '%s' is not a scalar: use iso_function_evaluate", i,
                             function->name);
    if (status == ISO_OK)
        status = iso_function_begin_step(function, batch);
    return status == ISO_OK ? iso_function_end_step(function, results) : status;
}

iso_status iso_function_take_step(iso_function *function, const iso_batch *batch, iso_status refused,
                                  iso_executable **executable)
{
    unmap_parts(function);
    iso_status status = iso_context_check(function->runtime->ctx);
    if (status == ISO_OK)
        status = begin_step(function, batch, refused, false);
    return status == ISO_OK ? end_step(function, executable, NULL) : status;
}

/* Whether a slot is the first of those that hold the same part of a value. */
static bool is_first_holder(const iso_mesh *mesh, const iso_layout *layout, int slot)
{
    uint32_t cuts = iso_layout_sharded_axes(layout);
    for (int axis = 0; axis < mesh->n_axes; axis++)
        if (!(cuts & 1u << axis) && iso_mesh_coordinate(mesh, slot, axis) != 0)
            return false;
    return true;
}

/* A part of the last step's outputs, with its address in the slots' memory. */
static iso_output_part part_in_memory(const iso_function *function, int index)
{
    const iso_runtime *runtime = function->runtime;
    const iso_executable *executable = function->stepped;
    int output = index / runtime->n_locals, local = index % runtime->n_locals;
    int value = function->program->output_value[output], slot = runtime->locals[local].slot;
    const iso_program_value *of = &function->program->values[value];
    iso_output_part part = {.output = output, .dtype = of->tensor->dtype};
    part.box = iso_plan_box(executable->plan, value, slot);
    if (iso_box_count(&part.box) > 0 && is_first_holder(runtime->mesh, &of->layout, slot))
        part.data = iso_executable_value(runtime, executable, local, value);
    return part;
}

int iso_function_part_count(const iso_function *function)
{
    if (ISO_ANY_NULL(function))
        return 0;
    return function->stepped ? function->program->n_outputs * function->runtime->n_locals : 0;
}

static iso_stream *stream_of_part(const iso_function *function, int index)
{
    return function->runtime->locals[index % function->runtime->n_locals].stream;
}

static iso_status map_parts(iso_function *function)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < iso_function_part_count(function); i++) {
        iso_output_part part = part_in_memory(function, i);
        size_t bytes = (size_t)iso_box_count(&part.box) * iso_dtype_size(part.dtype);
        if (part.data)
            ISO_TRY(iso_map(stream_of_part(function, i), part.data, bytes, &function->part[i]));
    }
done:
    return status;
}

iso_status iso_function_step(iso_function *function, const iso_batch *batch)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(function);
    iso_executable *executable;
    if (!function->parts)
        return iso_error(ISO_INVALID, "function '%s' was made without .parts", function->name);
    iso_status status = iso_function_take_step(function, batch, ISO_OK, &executable);
    if (status != ISO_OK)
        return status;
    function->stepped = executable;
    return iso_runtime_agree_copied(function->runtime, map_parts(function));
}

iso_output_part iso_function_part(const iso_function *function, int index)
{
    if (ISO_ANY_NULL(function))
        return (iso_output_part){.output = -1};
    if (index < 0 || index >= iso_function_part_count(function))
        return (iso_output_part){.output = -1};
    iso_output_part part = part_in_memory(function, index);
    part.data = function->part[index].data;
    return part;
}

/* A whole output, from slot 0, as doubles; zeros on a rank without slots. */
static iso_status read_output(const iso_function *function, const iso_executable *executable, int output,
                              double *out)
{
    const iso_runtime *runtime = function->runtime;
    int value = function->program->output_value[output];
    iso_dtype dtype = function->program->values[value].tensor->dtype;
    iso_shape shape = iso_plan_shape(executable->plan, value);
    iso_box box = iso_box_whole(&shape);
    int64_t count = iso_box_count(&box);
    iso_mapping mapping;
    if (runtime->n_locals == 0) {
        memset(out, 0, (size_t)count * sizeof *out);
        return ISO_OK;
    }
    iso_status status =
        iso_map(runtime->locals[0].stream, iso_executable_value(runtime, executable, 0, value),
                (size_t)count * iso_dtype_size(dtype), &mapping);
    if (status != ISO_OK)
        return status;
    for (int64_t i = 0; i < count; i++)
        out[i] = iso_element_get(mapping.data, dtype, i);
    return iso_unmap(ISO_OK, &mapping);
}

iso_status iso_function_evaluate(iso_function *function, const iso_batch *batch, double *const *outputs)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(function);
    iso_runtime *runtime = function->runtime;
    const iso_program *program = function->program;
    iso_executable *executable;
    iso_status status = ISO_OK;
    if (function->parts)
        return iso_error(ISO_INVALID, "function '%s' was made with .parts", function->name);
    iso_status refused = program->n_outputs > 0 && ISO_ANY_NULL(outputs) ? ISO_INVALID : ISO_OK;
    for (int i = 0; refused == ISO_OK && i < program->n_outputs; i++)
        if (!outputs[i])
            refused = iso_error(ISO_INVALID, "iso_function_evaluate: outputs[%d] is NULL", i);
    ISO_TRY(iso_function_take_step(function, batch, refused, &executable));
    for (int o = 0; o < program->n_outputs; o++) {
        int value = program->output_value[o];
        iso_shape shape = iso_plan_shape(executable->plan, value);
        iso_box box = iso_box_whole(&shape);
        ISO_TRY(iso_runtime_agree_copied(runtime, read_output(function, executable, o, outputs[o])));
        if (runtime->idle_ranks)
            ISO_TRY(iso_broadcast_unchecked(runtime->ctx, runtime->mesh->rank_of_slot[0], outputs[o],
                                            (size_t)iso_box_count(&box) * sizeof *outputs[o]));
    }
done:
    return status;
}
