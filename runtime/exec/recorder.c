#include "runtime/base/arguments.h"
#include "runtime/base/clock.h"
#include "runtime/exec/inspect.h"
#include "runtime/exec/recorder_impl.h"

#include <time.h>

#include "collectives/control/control.h"
#include "runtime/base/memory.h"
#include "runtime/exec/function_impl.h"

/* Events of an exchange; upper bound for the end of a step. */
enum { OF_INSTRUCTION = 6, AT_END = 16 };

static void free_events(iso_recorder *recorder)
{
    for (int l = 0; recorder->slot && l < recorder->n_locals; l++)
        iso_free(recorder->slot[l].events);
    iso_free(recorder->slot);
    recorder->slot = NULL;
    recorder->n_locals = recorder->capacity = 0;
}

void iso_recorder_destroy(iso_recorder *recorder)
{
    if (!recorder)
        return;
    free_events(recorder);
    iso_free(recorder);
}

iso_status iso_function_record(iso_function *function)
{
    ISO_NEED(function);
    if (!function->recorder)
        function->recorder = iso_new(sizeof *function->recorder);
    iso_status status = function->recorder ? ISO_OK : iso_error(ISO_NO_MEMORY, "no memory to record a step");
    status = iso_agree(function->graph->ctx, status);
    if (status == ISO_OK)
        function->recorder->state = ISO_RECORDER_ARMED;
    return status;
}

static iso_status recorder_make_room(iso_recorder *recorder, const iso_runtime *runtime, const iso_plan *plan)
{
    free_events(recorder);
    recorder->capacity = OF_INSTRUCTION * plan->n_instructions + AT_END;
    recorder->slot = iso_new(((size_t)runtime->n_locals + 1) * sizeof *recorder->slot);
    for (; recorder->slot && recorder->n_locals < runtime->n_locals; recorder->n_locals++) {
        iso_slot_events *events = &recorder->slot[recorder->n_locals];
        events->events = iso_new((size_t)recorder->capacity * sizeof *events->events);
        if (!events->events)
            break;
    }
    return recorder->slot && recorder->n_locals == runtime->n_locals
               ? ISO_OK
               : iso_error(ISO_NO_MEMORY, "no memory to record a step of %d instructions",
                           plan->n_instructions);
}

iso_status iso_recorder_begin(iso_recorder *recorder, const iso_runtime *runtime, const iso_executable *ready)
{
    recorder->state = recorder->state == ISO_RECORDER_ARMED ? ISO_RECORDER_RUNS : ISO_RECORDER_IDLE;
    if (recorder->state == ISO_RECORDER_IDLE)
        return ISO_OK;
    recorder->rows = ready->plan->rows;
    recorder->step = runtime->steps;
    iso_status status = iso_agree(runtime->ctx, recorder_make_room(recorder, runtime, ready->plan));
    recorder->origin = iso_clock_ns();
    recorder->recorded = status == ISO_OK;
    return status;
}

iso_recorder *iso_recorder_of_step(iso_recorder *recorder)
{
    return recorder && recorder->state == ISO_RECORDER_RUNS ? recorder : NULL;
}

void iso_recorder_note_span(iso_recorder *recorder, int local, iso_event_kind kind, int instruction,
                            int64_t begin, int64_t end)
{
    iso_slot_events *events = &recorder->slot[local];
    if (events->count < recorder->capacity)
        events->events[events->count++] =
            (iso_event){.begin = begin, .end = end, .kind = kind, .instruction = instruction};
}

void iso_recorder_note(iso_recorder *recorder, int local, iso_event_kind kind, int instruction, int64_t begin)
{
    iso_recorder_note_span(recorder, local, kind, instruction, begin, iso_clock_ns());
}
