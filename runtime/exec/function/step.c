/* A step: every thread runs the instruction list for its slots; the threads synchronize at exchanges. */
#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/backend/fault.h"
#include "runtime/base/clock.h"
#include "runtime/exec/function/step_impl.h"

/* ---- recording ---- */

/* The same for all slots of a thread. */
static void begin_all(const iso_step *s, int first, int end, iso_event_kind kind, int instruction)
{
    for (int l = first; s->recorder && l < end; l++)
        iso_step_event_begin(s, l, kind, instruction);
}

static void end_all(const iso_step *s, int first, int end)
{
    for (int l = first; s->recorder && l < end; l++)
        iso_step_event_end(s, l);
}

/* The messages of an exchange that have arrived. */
static void note_flight(const iso_step *s, const iso_exchange *exchange, int thread, int instruction)
{
    int64_t sent, arrived;
    if (s->recorder && thread == 0 && iso_exchange_message_times(exchange, &sent, &arrived))
        iso_recorder_note_span(s->recorder, 0, ISO_EVENT_FLIGHT, instruction, sent, arrived);
}

/* ---- faults that the host finds ---- */

void iso_step_raise(iso_local_slot *slot, iso_status status)
{
    if (status == ISO_OK || iso_fault_raised(&slot->fault))
        return;
    slot->fault_status = status;
    iso_fault_raise(&slot->fault, "%s", iso_error_message());
}

/* What a slot adds to the faults: over all slots this is 0 if they run the same plan, and never 0 if they run two. */
static double plan_check(const iso_step *s, int slot)
{
    double number = s->executable->number;
    return slot == 0 ? number * (1 - s->runtime->mesh->n_slots) : number;
}

void iso_step_tell_host_faults(const iso_step *s, int local)
{
    const iso_local_slot *slot = &s->runtime->locals[local];
    double stop = local == 0 && s->stop ? ISO_STOP_WEIGHT : 0;
    s->results->host_faults[local] = stop + iso_fault_raised(&slot->fault) + plan_check(s, slot->slot);
}

/* ---- instructions of one slot ---- */

/* What only a capture refuses is no fault of the step. */
static void tell_launched(const iso_step *s, int local, iso_status status)
{
    if (!s->refusal) {
        iso_step_raise(&s->runtime->locals[local], status);
        return;
    }
    pthread_mutex_lock(&s->refusal->lock);
    iso_first_error_keep(&s->refusal->first, status);
    pthread_mutex_unlock(&s->refusal->lock);
}

static void launch(const iso_step *s, int local, int instruction, int count)
{
    const iso_slot_instruction *bound = &s->executable->slot[local].instruction[instruction];
    bool marked = s->recorder && iso_recorder_marks(s->recorder);
    if (s->recorder && !marked)
        iso_recorder_open(s->recorder, local, ISO_EVENT_OP, instruction, count);
    iso_status status = s->runtime->backend->launch(bound->sequence, bound->in_sequence, count);
    tell_launched(s, local, status);
    if (marked)
        iso_recorder_note_marked(s->recorder, local, instruction, count);
    else
        iso_step_event_end(s, local);
}

/* The number of instructions that are launched together: 1 if the host computes them and messages must make progress
 * meanwhile, or if the host's clock times each instruction. */
static int launched_count(const iso_step *s, const iso_slot_instruction *bound, bool progress)
{
    bool timed =
        s->recorder && s->recorder->detail == ISO_TRACE_INSTRUCTIONS && !iso_recorder_marks(s->recorder);
    return timed || (progress && s->runtime->device->host_access) ? 1 : bound->rest;
}

/* Runs instructions [from, stop) of a slot, which are between two exchanges. */
static void run_instructions(const iso_step *s, int local, int from, int stop, bool progress)
{
    const iso_slot_plan *sp = &s->executable->slot[local];
    for (int k = from, count; k < stop; k += count) {
        const iso_slot_instruction *bound = &sp->instruction[k];
        if (bound->kind == ISO_READ) {
            count = iso_step_read(s, local, k, stop);
        } else {
            count = launched_count(s, bound, progress);
            launch(s, local, k, count);
        }
        for (int i = 0; i < count; i++)
            sp->local->flops += bound[i].flops;
        if (progress)
            iso_fabric_progress(s->runtime->fabric);
    }
}

/* ---- the begin and end of a step ---- */

/* The rates depend on variables alone. If a step computes these on a device, the host computes the rates from them
 * while the slot's instructions go on. */
static void begin_rates(const iso_step *s, int local)
{
    const iso_plan *plan = s->executable->plan;
    iso_local_slot *slot = &s->runtime->locals[local];
    slot->device->record(slot->begun, slot->stream);
    slot->device->await(slot->side, slot->begun);
    for (int k = 0; k < plan->buckets->kinds; k++)
        iso_updates_prepare(s->runtime, &plan->buckets->buckets[k], &s->function->updates->state[k],
                            plan->program, local, &s->executable->slot[local].rates[k]);
    slot->device->record(slot->prepared, slot->side);
}

static void begin_slot(const iso_step *s, int local)
{
    iso_step_begin_inputs(s, local);
    if (!s->knows_rates)
        begin_rates(s, local);
}

/* After the faults are counted, an error is reported when the ranks agree next. */
static void step_note_lost(iso_local_slot *slot, iso_status status)
{
    if (status == ISO_OK)
        return;
    slot->lost = true;
    iso_step_raise(slot, status);
}

/* Whether events order the end of the step: all of its exchanges. */
static bool end_is_ordered(const iso_step *s)
{
    const iso_plan *plan = s->executable->plan;
    bool ordered =
        iso_exchange_is_ordered(plan->epilogue) && (!plan->faults || iso_exchange_is_ordered(plan->faults));
    for (int b = 0; ordered && b < plan->buckets->count; b++)
        if (iso_plan_overlaps(plan, b) && iso_exchange_is_active(plan->bucket_exchange[b]))
            ordered = iso_exchange_is_ordered(plan->bucket_exchange[b]);
    return ordered;
}

/* Whether what is queued must be done before an exchange begins: exchanges read and write the slots' memory at once,
 * or slots read each other's memory. */
static bool waits_for_queued(const iso_step *s, const iso_exchange *exchange)
{
    const iso_device *device = s->runtime->device;
    return !device->host_access && (!device->gather || iso_exchange_is_active(exchange));
}

/* The first error of what the slot has queued, as far as it is known; or after a wait. */
static iso_status queued_status(const iso_local_slot *slot, bool wait)
{
    const iso_device *device = slot->device;
    iso_status status = wait ? device->wait(slot->stream) : device->check(slot->stream);
    status = status == ISO_OK ? device->check(slot->side) : status;
    return status == ISO_OK ? device->check(slot->input) : status;
}

void iso_step_tell_failed_device(const iso_step *s, int local)
{
    iso_local_slot *slot = &s->runtime->locals[local];
    iso_status status = queued_status(slot, false);
    if (status == ISO_OK)
        return;
    iso_step_raise(slot, status);
    iso_fabric_set_device_failed(s->runtime->fabric, true);
}

/* Counts the faults again: the kernel that counts them may not have been executed. */
static void recount_fault(const iso_step *s, int local)
{
    const iso_slot_plan *sp = &s->executable->slot[local];
    iso_local_slot *slot = sp->local;
    const double *faults = &s->results->host_faults[local];
    iso_step_tell_host_faults(s, local);
    s->runtime->backend->count_fault(slot->kernel_fault, faults, sp->fault, slot->stream);
    if (slot->stream->device->wait(slot->stream) != ISO_OK) /* by a copy, not by a kernel */
        step_note_lost(slot, iso_device_write(slot->stream, sp->fault, faults, sizeof *faults));
    slot->fault_known = !slot->lost;
    if (slot->lost)
        iso_fabric_set_device_failed(s->runtime->fabric, true);
}

/* Before the slots synchronize: writes what other slots will pull from this one, and reads what is about to
 * change. Other hosts learn of faults by messages alone: before these are sent, the host sees whether the faults were
 * counted. */
static void prepare_end(const iso_step *s, int local)
{
    const iso_plan *plan = s->executable->plan;
    const iso_backend *backend = s->runtime->backend;
    const iso_slot_plan *sp = &s->executable->slot[local];
    iso_local_slot *slot = sp->local;
    iso_updates_copy(s->runtime, local, sp->gradients, sp->n_gradients, NULL);
    if (!s->knows_rates)
        slot->device->await(slot->stream, slot->prepared);
    iso_step_tell_host_faults(s, local);
    backend->count_fault(slot->kernel_fault, &s->results->host_faults[local], sp->fault, slot->stream);
    if (s->refusal)
        return;
    if ((s->end_is_ordered && s->runtime->site.one_host) || !waits_for_queued(s, plan->epilogue)) {
        iso_step_tell_failed_device(s, local);
        return;
    }
    slot->fault_known = iso_fault_raised(&slot->fault);
    iso_status status = local == 0 ? iso_fabric_settle(s->runtime->fabric) : ISO_OK; /* on thread 0 */
    iso_status queued = queued_status(slot, true);
    status = status == ISO_OK ? queued : status;
    if (status == ISO_OK)
        return;
    iso_step_raise(slot, status);
    recount_fault(s, local);
}

static void finish_queued(const iso_step *s, const iso_exchange *exchange, int first, int end)
{
    for (int l = first; waits_for_queued(s, exchange) && l < end; l++) {
        iso_local_slot *slot = &s->runtime->locals[l];
        iso_step_raise(slot, slot->stream->device->wait(slot->stream));
    }
}

/* The same before it ends, of what pulls have queued; after the faults are counted, if it is of the end of a step. */
static void finish_pulls(const iso_step *s, const iso_exchange *exchange, int first, int end, bool counted)
{
    if (!s->runtime->device->gather || !iso_exchange_is_active(exchange))
        return;
    for (int l = first; l < end; l++) {
        iso_local_slot *slot = &s->runtime->locals[l];
        iso_status status = slot->stream->device->wait(slot->stream);
        if (counted)
            step_note_lost(slot, status);
        else
            iso_step_raise(slot, status);
    }
}

/* Orders the streams before an exchange: pulls wait for what slots have queued, by events, or the host waits. At
 * the end of a step, one choice holds for all exchanges, because slots change there what others have read. */
static void tell_written(const iso_step *s, const iso_exchange *exchange, bool ordered, int first, int end)
{
    for (int l = first; ordered && l < end; l++)
        iso_exchange_ready(exchange, s->runtime->locals[l].slot);
}

static void order_before(const iso_step *s, const iso_exchange *exchange, bool ordered, int first, int end)
{
    if (!ordered)
        finish_queued(s, exchange, first, end);
    else
        tell_written(s, exchange, ordered, first, end);
}

/* counted: of the end of the step. */
static void order_pulls(const iso_step *s, const iso_exchange *exchange, bool ordered, int first, int end,
                        bool counted)
{
    if (!ordered)
        finish_pulls(s, exchange, first, end, counted);
    else
        for (int l = first; l < end; l++)
            iso_exchange_read(exchange, s->runtime->locals[l].slot);
}

static void await_readers(const iso_step *s, const iso_exchange *exchange, bool ordered, int first, int end)
{
    for (int l = first; ordered && l < end; l++)
        iso_exchange_resume(exchange, s->runtime->locals[l].slot);
}

void iso_step_tell_failures(const iso_step *s)
{
    iso_runtime *runtime = s->runtime;
    runtime->failures_reported = iso_fabric_failures(runtime->fabric);
    if (runtime->device_failed || (runtime->failures_reported > 0 && !runtime->device->host_access))
        iso_fabric_set_device_failed(runtime->fabric, true);
    if (runtime->failures_reported > 0)
        iso_step_raise(&runtime->locals[0], iso_fabric_failure(runtime->fabric));
}

/* Changes nothing after a fault of any slot or a failed message of this rank. */
static void change_state(const iso_step *s, int local)
{
    const iso_slot_plan *sp = &s->executable->slot[local];
    bool known = s->runtime->device->host_access; /* else the device finds out when it is there */
    if ((known && iso_step_faults(*sp->fault_total) != 0) || iso_fabric_failures(s->runtime->fabric) > 0)
        return;
    if (s->updates)
        iso_updates_apply(s->runtime, s->executable, s->function->updates, local);
    else
        iso_updates_average(s->runtime, s->executable, s->function->updates, local);
    iso_updates_copy(s->runtime, local, sp->assigns, sp->n_assigns, sp->fault_total);
    if (s->runtime->mesh->n_slots > 1 &&
        !s->runtime->device->gather) /* others will read what is changed here */
        step_note_lost(sp->local, sp->local->stream->device->wait(sp->local->stream));
}

/* Ends an exchange whose event has begun. */
static void end_exchange(const iso_step *s, iso_exchange *exchange, int thread, int first, int end,
                         int number)
{
    begin_all(s, first, end, ISO_EVENT_RELEASE, number);
    iso_exchange_end(exchange, thread);
    end_all(s, first, end);
    end_all(s, first, end);
}

static void pull(const iso_step *s, iso_exchange *exchange, int local, int number)
{
    iso_step_event_begin(s, local, ISO_EVENT_PULL, number);
    iso_exchange_pull(exchange, s->runtime->locals[local].slot);
    iso_step_event_end(s, local);
}

/* Whether the end of the step sends new weights to other domains, or leaves them to the next step: not if the step
 * only accumulates gradients. All ranks decide alike. Where the host computes, the iteration of a rank whose messages
 * failed at the end of the step before is one behind the others', but then this step has a fault that all ranks know:
 * with one, all send. Where a device computes, such a rank counts as the others do. */
static bool has_new_weights(const iso_step *s, int local)
{
    const iso_runtime *runtime = s->runtime;
    if (!s->executable->plan->weight_gather)
        return false;
    if (s->updates)
        return true;
    return runtime->device->host_access &&
           iso_fabric_failures(runtime->fabric) == runtime->failures_reported &&
           iso_step_faults(*s->executable->slot[local].fault_total) != 0;
}

/* On the host's own memory the faults of a step decide, at its end, whether it sends weights. */
unsigned iso_step_does(const iso_step *s)
{
    bool sends = s->updates && s->executable->plan->weight_gather && !s->function->defers_weights;
    return ISO_STEP_COMPUTES | (s->updates ? ISO_STEP_UPDATES : 0u) |
           (s->takes_weights ? ISO_STEP_TAKES_WEIGHTS : 0u) | (sends ? ISO_STEP_SENDS_WEIGHTS : 0u) |
           (s->results->reported ? ISO_STEP_GIVES_RESULTS : 0u);
}

static void run_weight_gather(const iso_step *s, int thread, int first, int end)
{
    iso_exchange *weight_gather = s->executable->plan->weight_gather;
    bool ordered = iso_exchange_is_ordered(weight_gather);
    begin_all(s, first, end, ISO_EVENT_WEIGHT_GATHER, -1);
    begin_all(s, first, end, ISO_EVENT_WAIT, -1);
    order_before(s, weight_gather, ordered, first, end);
    iso_exchange_begin(weight_gather, thread);
    note_flight(s, weight_gather, thread, -1);
    end_all(s, first, end);
    for (int l = first; l < end; l++)
        pull(s, weight_gather, l, -1);
    order_pulls(s, weight_gather, ordered, first, end, true);
    end_exchange(s, weight_gather, thread, first, end, -1);
    await_readers(s, weight_gather, ordered, first, end);
}

/* If there are many slots, slot 0 sums their faults. */
static void run_faults(const iso_step *s, int thread, int first, int end)
{
    iso_exchange *faults = s->executable->plan->faults;
    begin_all(s, first, end, ISO_EVENT_WAIT, -1);
    tell_written(s, faults, s->end_is_ordered, first, end);
    iso_exchange_begin(faults, thread);
    for (int l = first; l < end; l++)
        iso_exchange_pull(faults, s->runtime->locals[l].slot);
    order_pulls(s, faults, s->end_is_ordered, first, end, true);
    iso_exchange_end(faults, thread);
    await_readers(s, faults, s->end_is_ordered, first, end);
    end_all(s, first, end);
}

/* The buckets whose exchange began while slots computed. */
static void wait_for_buckets(const iso_step *s, int thread, int first, int end)
{
    const iso_plan *plan = s->executable->plan;
    for (int b = 0; b < plan->buckets->count; b++)
        if (iso_plan_overlaps(plan, b))
            iso_exchange_wait(plan->bucket_exchange[b], thread);
    for (int b = 0; b < plan->buckets->count; b++)
        for (int l = first; iso_plan_overlaps(plan, b) && l < end; l++)
            iso_exchange_await_arrivals(plan->bucket_exchange[b], s->runtime->locals[l].slot);
    for (int b = 0; b < plan->buckets->count; b++)
        if (iso_plan_overlaps(plan, b))
            note_flight(s, plan->bucket_exchange[b], thread, plan->bucket_begin[b]);
}

static void end_buckets(const iso_step *s, int thread)
{
    const iso_plan *plan = s->executable->plan;
    for (int b = 0; b < plan->buckets->count; b++)
        if (iso_plan_overlaps(plan, b))
            iso_exchange_end(plan->bucket_exchange[b], thread);
}

static void run_end(const iso_step *s, int thread, int first, int end)
{
    const iso_plan *plan = s->executable->plan;
    if (thread == 0)
        iso_step_tell_failures(s);
    for (int l = first; l < end; l++) {
        iso_step_event_begin(s, l, ISO_EVENT_PREPARE, -1);
        prepare_end(s, l);
        iso_step_event_end(s, l);
    }
    if (plan->faults)
        run_faults(s, thread, first, end);
    begin_all(s, first, end, ISO_EVENT_EPILOGUE, -1);
    begin_all(s, first, end, ISO_EVENT_WAIT, -1);
    tell_written(s, plan->epilogue, s->end_is_ordered, first, end);
    iso_exchange_start(plan->epilogue, thread);
    wait_for_buckets(s, thread, first, end);
    iso_exchange_wait(plan->epilogue, thread);
    if (thread == 0)
        s->results->device_failed = iso_exchange_device_failed(plan->faults ? plan->faults : plan->epilogue);
    note_flight(s, plan->epilogue, thread, -1);
    end_all(s, first, end);
    for (int l = first; l < end; l++) {
        pull(s, plan->epilogue, l, -1);
        iso_step_event_begin(s, l, ISO_EVENT_UPDATE, -1);
        change_state(s, l);
        iso_step_event_end(s, l);
    }
    order_pulls(s, plan->epilogue, s->end_is_ordered, first, end, true);
    end_buckets(s, thread);
    end_exchange(s, plan->epilogue, thread, first, end, -1);
    await_readers(s, plan->epilogue, s->end_is_ordered, first, end);
    if (has_new_weights(s, first) && !s->function->defers_weights)
        run_weight_gather(s, thread, first, end);
}

/* ---- a thread's part ---- */

/* The next instruction at which slots synchronize. */
static int next_barrier(const iso_plan *plan, int from)
{
    while (from < plan->n_instructions && plan->instructions[from].kind != ISO_EXCHANGE &&
           plan->instructions[from].kind != ISO_BEGIN)
        from++;
    return from;
}

static void run_exchange(const iso_step *s, int number, int thread, int first, int end)
{
    const iso_instruction *instruction = &s->executable->plan->instructions[number];
    iso_exchange *exchange = instruction->exchange;
    if (instruction->payload == ISO_PAYLOAD_WEIGHTS && !s->takes_weights)
        return;
    bool begins = instruction->kind == ISO_BEGIN, ordered = iso_exchange_is_ordered(exchange);
    begin_all(s, first, end, begins ? ISO_EVENT_BEGIN : ISO_EVENT_EXCHANGE, number);
    if (!begins)
        begin_all(s, first, end, ISO_EVENT_WAIT, number);
    order_before(s, exchange, ordered, first, end);
    if (begins || instruction->begin == number)
        iso_exchange_start(exchange, thread);
    if (!begins) {
        iso_exchange_wait(exchange, thread);
        note_flight(s, exchange, thread, number);
    }
    end_all(s, first, end);
    if (begins)
        return;
    for (int l = first; l < end; l++)
        pull(s, exchange, l, number);
    order_pulls(s, exchange, ordered, first, end, false);
    end_exchange(s, exchange, thread, first, end, number);
    await_readers(s, exchange, ordered, first, end);
}

void iso_step_queue(void *step, int thread)
{
    const iso_step *s = step;
    const iso_plan *plan = s->executable->plan;
    int first = s->runtime->first_local[thread], end = s->runtime->first_local[thread + 1];
    bool progress = thread == 0 && !s->runtime->site.one_host;
    begin_all(s, first, end, ISO_EVENT_STEP, -1);
    for (int l = first; l < end; l++)
        begin_slot(s, l);
    for (int i = 0; i < plan->n_instructions;) {
        int stop = next_barrier(plan, i);
        for (int l = first; l < end; l++)
            run_instructions(s, l, i, stop, progress);
        if (stop < plan->n_instructions)
            run_exchange(s, stop++, thread, first, end);
        i = stop;
        if (s->lost && atomic_load_explicit(s->lost, memory_order_relaxed)) {
            if (thread == 0)
                iso_fabric_abandon(s->runtime->fabric);
            return;
        }
    }
    run_end(s, thread, first, end);
    end_all(s, first, end);
}

/* The first fault that the host raised on this rank, and copies that failed after the faults were counted. */
static void note_host_faults(iso_runtime *runtime, iso_step_results *results)
{
    for (int l = 0; l < runtime->n_locals; l++) {
        const iso_local_slot *slot = &runtime->locals[l];
        runtime->device_failed |= slot->lost;
        if (slot->lost)
            iso_agree_later(runtime->ctx, iso_error(ISO_FAILED, "%s", slot->fault.text));
        results->fault_known |= slot->fault_known;
        if (!iso_fault_raised(&slot->fault) || results->refused != ISO_OK || results->failed != ISO_OK)
            continue;
        results->failed = slot->fault_status ? slot->fault_status : ISO_INVALID;
        snprintf(results->message, sizeof results->message, "%s", slot->fault.text);
    }
}

/* A refused batch is a fault of all slots of this rank. So is one of the step before if that is not concluded: until
 * all ranks know of a fault nothing changes. */
static void begin_faults(const iso_function *function, const iso_step_results *results)
{
    const iso_runtime *runtime = function->runtime;
    const iso_step_results *before = &function->steps.step[function->steps.first];
    iso_status earlier = before->refused != ISO_OK ? before->refused : before->failed;
    bool pending = function->steps.count > 0 && earlier != ISO_OK;
    for (int l = 0; l < runtime->n_locals; l++) {
        iso_local_slot *slot = &runtime->locals[l];
        iso_fault_clear(&slot->fault);
        slot->lost = slot->fault_known = false;
        slot->fault_status = pending ? earlier : results->refused;
        if (results->refused != ISO_OK || pending)
            iso_fault_raise(&slot->fault, "%s", pending ? before->message : results->message);
    }
}

/* An error is of what the first slot has queued before. */
static void compute_rates(iso_step *s)
{
    iso_status status = iso_rates_compute(s->function, s->results, &s->knows_rates);
    s->updates = true;
    if (status == ISO_OK)
        status = iso_rates_find_update(s->function, s->executable->plan, &s->updates);
    if (status == ISO_OK)
        return;
    iso_step_raise(&s->runtime->locals[0], status);
    iso_fabric_set_device_failed(s->runtime->fabric, true);
}

/* The first run has loaded all kernels. */
static void capture_instructions(const iso_step *s)
{
    for (int l = 0; l < s->runtime->n_locals; l++)
        iso_step_raise(&s->runtime->locals[l], iso_executable_capture(s->runtime, s->executable, l));
}

/* A plan that has been run once has its instructions between two exchanges captured. */
static void run_in_parts(iso_step *s)
{
    if (s->executable->ran != 0 && !s->loads)
        capture_instructions(s);
    s->executable->ran |= iso_step_does(s);
    iso_thread_pool_run(s->runtime->pool, iso_step_queue, s);
    iso_results_queue(s->runtime, s->function->program, s->results);
}

void iso_step_run(iso_function *function, const iso_batch *batch, iso_step_results *results)
{
    iso_runtime *runtime = function->runtime;
    iso_executable *executable = results->executable;
    iso_step s = {.function = function, .runtime = runtime, .executable = executable, .batch = batch};
    s.recorder = iso_recorder_of_step(function->recorder);
    results->memory->info =
        (iso_step_info){.step = runtime->steps, .seed = runtime->graph->seed, .rows = executable->plan->rows};
    results->memory->total = 0;
    s.results = results;
    s.info = &results->memory->info;
    s.buffer = results == &function->steps.step[0] ? 0 : 1;
    begin_faults(function, results);
    s.stop = iso_stop_wanted(runtime->ctx);
    iso_watchdog *watchdog = iso_context_watchdog(runtime->ctx);
    s.lost = iso_watchdog_flag(watchdog);
    iso_status entered = iso_watchdog_enter(watchdog, &function->step_name); /* its exchanges wait, not it */
    iso_watchdog_leave(watchdog);
    if (runtime->n_locals == 0 || entered != ISO_OK)
        return;
    int64_t begun = iso_watchdog_time(watchdog);
    compute_rates(&s);
    s.takes_weights = runtime->deferred == executable;
    s.end_is_ordered = end_is_ordered(&s);
    if (!iso_step_launch(&s))
        run_in_parts(&s);
    runtime->deferred = function->defers_weights && has_new_weights(&s, 0) ? executable : NULL;
    iso_watchdog_step_done(watchdog, begun);
    note_host_faults(runtime, results);
    iso_results_record(runtime, results);
}

static void run_left_thread(void *arg, int thread)
{
    const iso_step *s = arg;
    run_weight_gather(s, thread, s->runtime->first_local[thread], s->runtime->first_local[thread + 1]);
}

void iso_step_send_deferred_weights(iso_runtime *runtime)
{
    iso_step s = {.runtime = runtime, .executable = runtime->deferred};
    if (!s.executable)
        return;
    runtime->deferred = NULL;
    iso_thread_pool_run(runtime->pool, run_left_thread, &s);
    iso_agree_later(runtime->ctx, iso_runtime_finish(runtime)); /* it comes after the end of the step */
    if (iso_fabric_failures(runtime->fabric) > runtime->failures_reported)
        iso_agree_later(runtime->ctx, iso_fabric_failure(runtime->fabric));
}
