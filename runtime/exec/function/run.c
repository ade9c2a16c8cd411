/* A function on a batch: what is checked and agreed before a step, and what is concluded from it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/backend/fault.h"
#include "runtime/base/arguments.h"
#include "runtime/base/first_error.h"
#include "runtime/base/hash.h"
#include "runtime/base/thread_modes.h"
#include "runtime/exec/function/function.h"
#include "runtime/exec/function/function_impl.h"
#include "runtime/exec/function/recorder_impl.h"
#include "runtime/graph/pending.h"
#include "runtime/session/session.h"

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

iso_status iso_function_agree_on_run(const iso_function *function, int64_t rows)
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
    return status == ISO_OK ? iso_function_agree_on_run(function, o->executable->plan->rows) : status;
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
 * run. They do so too after a plan was made in advance, to count the batches that are kept: in as many steps as there
 * were such plans, whichever they run. */
static iso_status function_run(iso_function *function, const iso_batch *batch, iso_step_results *o)
{
    iso_runtime *runtime = function->runtime;
    int64_t rows = batch ? batch->rows : 0;
    if (o->refused == ISO_OK)
        o->refused = check_batch(function, batch);
    iso_status status = ISO_OK;
    if (runtime->idle_ranks || runtime->uncounted > 0) {
        ISO_TRY(iso_agree(runtime->ctx, o->refused));
        ISO_TRY(iso_function_agree_on_run(function, rows));
    }
    if (runtime->idle_ranks)
        ISO_TRY(iso_stop_agree(runtime->ctx));
    if (o->refused != ISO_OK) {
        snprintf(o->message, sizeof o->message, "%s", iso_error_message());
        o->executable = plan_of_others(function, batch);
        if (!o->executable)
            return iso_agree(runtime->ctx, o->refused);
        rows = o->executable->plan->rows;
    }
    ISO_TRY(iso_function_executable(function, rows, &o->executable));
    if (runtime->uncounted > 0)
        ISO_TRY(iso_reads_count_kept(function, o->executable, batch));
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
    iso_function_unmap_parts(function);
    iso_status status = iso_context_check(function->runtime->ctx);
    if (status == ISO_OK)
        status = begin_step(function, batch, refused, false);
    return status == ISO_OK ? end_step(function, executable, NULL) : status;
}
