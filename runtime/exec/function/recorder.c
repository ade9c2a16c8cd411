#include "runtime/base/arguments.h"
#include "runtime/base/clock.h"
#include "runtime/exec/function/inspect.h"
#include "runtime/exec/function/recorder_impl.h"

#include <assert.h>

#include "collectives/control/control.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/exec/function/function_impl.h"

/* Events of an exchange; upper bound for the end of a step. */
enum { OF_INSTRUCTION = 6, AT_END = 16 };

static void free_events(iso_recorder *recorder)
{
    for (int l = 0; recorder->slot && l < recorder->n_locals; l++) {
        iso_device_timer *timer = recorder->slot[l].timer;
        if (timer)
            timer->device->destroy_timer(timer);
        iso_free(recorder->slot[l].events);
    }
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

iso_status iso_function_record(iso_function *function, iso_trace_detail detail)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(function);
    if (!function->recorder)
        function->recorder = iso_new(sizeof *function->recorder);
    iso_status status = function->recorder ? ISO_OK : iso_error(ISO_NO_MEMORY, "no memory to record a step");
    if (status == ISO_OK)
        status = iso_recorder_end(function->recorder, function->runtime);
    status = iso_agree(function->graph->ctx, status);
    if (status == ISO_OK) {
        function->recorder->detail = detail;
        function->recorder->state = ISO_RECORDER_ARMED;
    }
    return status;
}

/* ---- the step before and after ---- */

/* The moments of instructions come first. */
static iso_status make_timer(iso_recorder *recorder, const iso_local_slot *slot, const iso_plan *plan,
                             iso_slot_events *events)
{
    events->marks = 2 * plan->n_instructions;
    return slot->device->create_timer
               ? slot->device->create_timer(slot->device, events->marks + 2 * recorder->capacity,
                                            &events->timer)
               : ISO_OK;
}

static iso_status recorder_make_room(iso_recorder *recorder, const iso_runtime *runtime, const iso_plan *plan)
{
    iso_status status = ISO_OK;
    free_events(recorder);
    recorder->capacity = OF_INSTRUCTION * plan->n_instructions + AT_END;
    recorder->slot = iso_new(((size_t)runtime->n_locals + 1) * sizeof *recorder->slot);
    while (status == ISO_OK && recorder->slot && recorder->n_locals < runtime->n_locals) {
        iso_slot_events *events = &recorder->slot[recorder->n_locals];
        events->events = iso_new((size_t)recorder->capacity * sizeof *events->events);
        if (!events->events)
            break;
        status = make_timer(recorder, &runtime->locals[recorder->n_locals++], plan, events);
    }
    if (status != ISO_OK)
        return status;
    return recorder->slot && recorder->n_locals == runtime->n_locals
               ? ISO_OK
               : iso_error(ISO_NO_MEMORY, "no memory to record a step of %d instructions",
                           plan->n_instructions);
}

bool iso_recorder_marks(const iso_recorder *recorder)
{
    return recorder->slot && recorder->n_locals > 0 && recorder->slot[0].timer &&
           recorder->detail == ISO_TRACE_INSTRUCTIONS;
}

/* Makes the sequences anew, with marks or without, when those of the step before are done. */
static iso_status make_sequences(iso_recorder *recorder, iso_runtime *runtime, iso_executable *executable,
                                 bool marked)
{
    if (!iso_recorder_marks(recorder))
        return ISO_OK;
    iso_status status = iso_runtime_finish(runtime);
    for (int l = 0; l < runtime->n_locals && status == ISO_OK; l++)
        status = iso_executable_sequence(runtime, executable, l, marked ? recorder->slot[l].timer : NULL);
    return status;
}

iso_status iso_recorder_begin(iso_recorder *recorder, iso_runtime *runtime, iso_executable *executable)
{
    if (recorder->state != ISO_RECORDER_ARMED) {
        iso_agree_later(runtime->ctx, iso_recorder_end(recorder, runtime));
        return ISO_OK;
    }
    recorder->state = ISO_RECORDER_RUNS;
    recorder->executable = executable;
    recorder->rows = executable->plan->rows;
    recorder->step = runtime->steps;
    iso_status status = recorder_make_room(recorder, runtime, executable->plan);
    if (status == ISO_OK)
        status = make_sequences(recorder, runtime, executable, true);
    for (int l = 0; l < runtime->n_locals && executable->ran != 0 && status == ISO_OK; l++)
        status = iso_executable_capture(runtime, executable, l);
    status = iso_agree(runtime->ctx, status);
    recorder->origin = iso_clock_ns();
    recorder->recorded = status == ISO_OK;
    return status;
}

static iso_status read_marks(const iso_recorder *recorder, const iso_runtime *runtime, int local)
{
    iso_slot_events *events = &recorder->slot[local];
    int64_t *time = iso_new((size_t)events->timer->moments * sizeof *time);
    if (!time)
        return iso_no_memory("%d times", events->timer->moments);
    iso_status status = events->timer->device->read_timer(events->timer, runtime->locals[local].stream, time);
    for (int i = 0; i < events->count && status == ISO_OK; i++) {
        iso_event *event = &events->events[i];
        event->begin = event->begin_mark < 0 ? event->begin : time[event->begin_mark];
        event->end = event->end_mark < 0 ? event->end : time[event->end_mark];
    }
    iso_free(time);
    return status;
}

iso_status iso_recorder_end(iso_recorder *recorder, iso_runtime *runtime)
{
    iso_status status = ISO_OK;
    if (recorder->state != ISO_RECORDER_RUNS)
        return ISO_OK;
    recorder->state = ISO_RECORDER_IDLE;
    for (int l = 0; l < recorder->n_locals && status == ISO_OK; l++)
        status = recorder->slot[l].timer ? read_marks(recorder, runtime, l) : ISO_OK;
    recorder->recorded &= status == ISO_OK;
    iso_status made = make_sequences(recorder, runtime, recorder->executable, false);
    return status == ISO_OK ? made : status;
}

iso_recorder *iso_recorder_of_step(iso_recorder *recorder)
{
    return recorder && recorder->state == ISO_RECORDER_RUNS ? recorder : NULL;
}

/* ---- events ---- */

static iso_event *add_event(iso_recorder *recorder, int local, const iso_event *event)
{
    iso_slot_events *events = &recorder->slot[local];
    if (events->count == recorder->capacity)
        return NULL;
    iso_event *added = &events->events[events->count++];
    *added = *event;
    return added;
}

/* Now: by the clock of the host, or as a mark in the stream. */
static int tick(const iso_recorder *recorder, int local, int64_t *time)
{
    iso_slot_events *events = &recorder->slot[local];
    *time = events->timer ? 0 : iso_clock_ns();
    if (!events->timer)
        return -1;
    iso_stream *stream = recorder->executable->slot[local].local->stream;
    events->timer->device->mark(events->timer, events->marks, stream);
    return events->marks++;
}

void iso_recorder_open(iso_recorder *recorder, int local, iso_event_kind kind, int instruction, int count)
{
    iso_slot_events *events = &recorder->slot[local];
    assert(events->n_open < ISO_MOST_OPEN_EVENTS);
    events->open[events->n_open++] = events->count;
    iso_event *event =
        add_event(recorder, local, &(iso_event){.kind = kind, .instruction = instruction, .count = count});
    if (event)
        event->begin_mark = event->end_mark = tick(recorder, local, &event->begin);
}

void iso_recorder_close(iso_recorder *recorder, int local)
{
    iso_slot_events *events = &recorder->slot[local];
    assert(events->n_open > 0);
    int number = events->open[--events->n_open];
    if (number < events->count)
        events->events[number].end_mark = tick(recorder, local, &events->events[number].end);
}

void iso_recorder_note_span(iso_recorder *recorder, int local, iso_event_kind kind, int instruction,
                            int64_t begin, int64_t end)
{
    add_event(recorder, local,
              &(iso_event){.begin = begin,
                           .end = end,
                           .kind = kind,
                           .instruction = instruction,
                           .begin_mark = -1,
                           .end_mark = -1});
}

void iso_recorder_note_marked(iso_recorder *recorder, int local, int instruction, int count)
{
    for (int i = instruction; i < instruction + count; i++)
        add_event(recorder, local,
                  &(iso_event){.kind = ISO_EVENT_OP,
                               .instruction = i,
                               .count = 1,
                               .begin_mark = iso_instruction_moment(i),
                               .end_mark = iso_instruction_moment(i) + 1});
}
