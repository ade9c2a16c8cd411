#include "runtime/train/step_trace.h"

#include "runtime/train/training_impl.h"

/* The middle step of the middle epoch: a batch that is not full would be a plan of its own. */
static int64_t middle_step(const iso_training *t)
{
    int epochs = t->options.epochs - t->place.epoch;
    int64_t first = t->place.batch, whole = t->steps > 0 ? t->steps : 1;
    if (epochs <= 1)
        return (whole - first) / 2 + 1;
    int64_t before = whole - first + (int64_t)(epochs / 2 - 1) * whole;
    return before + whole / 2 + 1;
}

iso_status iso_step_trace_begin(iso_step_trace *trace, const iso_fit_state *state)
{
    if (trace->step < 0)
        return iso_error(ISO_INVALID, "step %lld cannot be traced: the first is 1", (long long)trace->step);
    (void)state;
    trace->begun = 0;
    trace->done = false;
    return ISO_OK;
}

iso_status iso_step_trace_before(iso_step_trace *trace, const iso_fit_state *state)
{
    if (trace->step == 0) /* here, as the training may have gone on from a checkpoint */
        trace->step = middle_step(state->training);
    return ++trace->begun == trace->step ? iso_function_record(state->training->model->training) : ISO_OK;
}

iso_status iso_step_trace_after(iso_step_trace *trace, const iso_fit_state *state, iso_text *json,
                                bool *ready)
{
    *ready = trace->begun == trace->step && !trace->done;
    if (!*ready)
        return ISO_OK;
    trace->done = true;
    return iso_function_trace(state->training->model->training, json);
}
