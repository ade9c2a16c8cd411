#include "runtime/train/step_trace.h"

#include "runtime/train/training_impl.h"

/* The middle of the run's second epoch, or of its only one: caches are warm by then, and a training that
 * stops early still gets there. The last batch of an epoch is avoided: if it is not full, it has a plan of
 * its own. */
static int64_t middle_step(const iso_training *t)
{
    int64_t whole = t->steps > 0 ? t->steps : 1, left = whole - t->cursor.batch;
    bool only = t->options.epochs - t->cursor.epoch <= 1;
    return only ? left / 2 + 1 : left + whole / 2 + 1;
}

iso_status iso_step_trace_begin(iso_step_trace *trace, const iso_fit_state *state)
{
    if (trace->step < 0)
        return iso_error(ISO_INVALID, "step %lld cannot be traced: the first is 1", (long long)trace->step);
    (void)state;
    trace->begun = trace->ended = 0;
    trace->done = false;
    return ISO_OK;
}

iso_status iso_step_trace_before(iso_step_trace *trace, const iso_fit_state *state)
{
    if (trace->step == 0) /* only now is it known whether the training resumed from a checkpoint */
        trace->step = middle_step(state->training);
    return ++trace->begun == trace->step
               ? iso_function_record(state->training->model->training, trace->detail)
               : ISO_OK;
}

iso_status iso_step_trace_after(iso_step_trace *trace, const iso_fit_state *state, iso_text *json,
                                bool *ready)
{
    *ready = ++trace->ended == trace->step && !trace->done;
    if (!*ready)
        return ISO_OK;
    trace->done = true;
    return iso_function_trace(state->training->model->training, json);
}
