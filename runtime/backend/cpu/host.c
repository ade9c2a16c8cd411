#include "runtime/backend/cpu/host.h"

#include <string.h>

#include "runtime/backend/division.h"
#include "runtime/backend/fault.h"
#include "runtime/base/memory.h"
#include "runtime/graph/optimizers/rule.h"

const iso_device *iso_host_device(int turn)
{
    (void)turn;
    return iso_device_cpu();
}

/* ---- instructions ---- */

struct iso_sequence {
    const iso_thunk *thunks;
};

iso_status iso_host_sequence(const iso_thunk *thunks, int count, iso_stream *stream, iso_sequence **out)
{
    (void)stream;
    iso_sequence *sequence = iso_new(sizeof *sequence);
    if (!sequence)
        return iso_no_memory("a list of %d instructions", count);
    sequence->thunks = thunks;
    *out = sequence;
    return ISO_OK;
}

static void host_run(const iso_thunk *thunk)
{
    iso_fault *fault = thunk->call->fault;
    if (thunk->division)
        iso_division_run(thunk->division, thunk->intra_op, thunk->kernel, thunk->call);
    else
        thunk->kernel->run(thunk->call);
    if (fault->code != ISO_FAULT_TEXT)
        return;
    fault->code = ISO_FAULT_OP_TEXT;
    fault->instruction = thunk->call->instruction;
}

iso_status iso_host_launch(const iso_sequence *sequence, int first, int count)
{
    for (const iso_thunk *w = &sequence->thunks[first], *end = w + count; w < end; w++) {
        if (w->copy)
            iso_box_copy_divide(w->copy, w->intra_op);
        else
            host_run(w);
    }
    return ISO_OK;
}

void iso_host_discard(iso_sequence *sequence)
{
    iso_free(sequence);
}

/* ---- the end of a step ---- */

void iso_host_prepare(const iso_rates_call *call, iso_stream *stream)
{
    (void)stream;
    iso_rates *update = &call->rates->update, *average = &call->rates->average;
    update->apply = iso_optimizer_prepare(call->rule, call->optimizer, call->dtype, *call->iteration,
                                          *call->rate, update->hyper);
    average->apply = iso_optimizer_prepare_average(call->optimizer, *call->iteration, average->hyper);
}

static bool is_void(const double *faults)
{
    return faults && iso_step_faults(*faults) != 0;
}

static void optimize_bucket(const iso_optimizer_call *call)
{
    if (!call->rates->apply || is_void(call->faults))
        return;
    for (const iso_optimizer_run *run = call->runs, *end = run + call->n_runs; run < end; run++)
        call->rule(run->count, run->weights, run->slots, run->gradient, call->rates->hyper);
}

void iso_host_optimize(const iso_optimizer_call *calls, int n_calls, iso_optimizer_table *table,
                       iso_stream *stream)
{
    (void)table;
    (void)stream;
    for (int i = 0; i < n_calls; i++)
        optimize_bucket(&calls[i]);
}

void iso_host_copy_bytes(const iso_bytes_copy *list, int count, const double *faults, iso_stream *stream)
{
    (void)stream;
    for (int i = 0; i < count && !is_void(faults); i++)
        if (list[i].bytes > 0)
            memcpy(list[i].to, list[i].from, list[i].bytes);
}

void iso_host_count_fault(const iso_fault *fault, const double *host, double *out, iso_stream *stream)
{
    (void)stream;
    *out = *host + iso_fault_raised(fault);
}
