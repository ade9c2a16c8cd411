/* Recording of one step: the begin and end times of what each local slot does. Where a device works on its own, these
 * are the times at which the slot's stream came there. For runtime/exec only. */
#ifndef ISO_EXEC_FUNCTION_RECORDER_IMPL_H
#define ISO_EXEC_FUNCTION_RECORDER_IMPL_H

#include "runtime/exec/function/bind_impl.h"
#include "runtime/exec/function/inspect.h"

typedef enum iso_event_kind {
    ISO_EVENT_STEP,     /* holds all others */
    ISO_EVENT_OP,       /* an instruction: READ, KERNEL, COPY; or several that were launched as one */
    ISO_EVENT_BEGIN,    /* the begin of an exchange that ends later: waits for sources, sends */
    ISO_EVENT_EXCHANGE, /* holds a wait, a pull and a release */
    ISO_EVENT_WAIT,     /* until sources are written and messages are there */
    ISO_EVENT_PULL,     /* the slot pulls its regions */
    ISO_EVENT_RELEASE,  /* until all slots have pulled theirs */
    ISO_EVENT_PREPARE,  /* at the end of a step: gradients are copied into their buckets */
    ISO_EVENT_EPILOGUE, /* the exchange that ends a step; holds the update too */
    ISO_EVENT_UPDATE,
    ISO_EVENT_WEIGHT_GATHER, /* new weights to other hosts */
    ISO_EVENT_FLIGHT,        /* messages of this rank are on their way; only of the rank's first slot */
} iso_event_kind;

typedef struct iso_event {
    int64_t begin, end; /* nanoseconds of the host's monotonic clock */
    iso_event_kind kind;
    int instruction;          /* -1: the end of the step */
    int count;                /* OP: instructions */
    int begin_mark, end_mark; /* moments of the slot's timer, which give the times; -1: the host's */
} iso_event;

enum { ISO_MOST_OPEN_EVENTS = 8 };

typedef struct iso_slot_events {
    int count;
    iso_event *events;                      /* [capacity] those that hold others come first */
    int open[ISO_MOST_OPEN_EVENTS], n_open; /* numbers of the events that have begun */
    iso_device_timer *timer;                /* NULL: the host's clock */
    int marks;                              /* of the timer, in use */
} iso_slot_events;

typedef enum iso_recorder_state {
    ISO_RECORDER_IDLE,
    ISO_RECORDER_ARMED,
    ISO_RECORDER_RUNS
} iso_recorder_state;

typedef struct iso_recorder {
    iso_recorder_state state;
    iso_trace_detail detail;
    bool recorded;              /* a step */
    int64_t rows;               /* of the step: they select the plan */
    uint64_t step;              /* its number, from 0 */
    int64_t origin;             /* the end of the barrier before it, in nanoseconds */
    int n_locals, capacity;     /* capacity: events of a slot */
    iso_slot_events *slot;      /* [n_locals] */
    iso_executable *executable; /* of the step */
} iso_recorder;

void iso_recorder_destroy(iso_recorder *recorder);
/* To be called before a step of this plan: ends the recording of the step before. If this step is to be recorded,
 * allocates the events and runs a barrier, and is then collective. */
iso_status iso_recorder_begin(iso_recorder *recorder, iso_runtime *runtime, iso_executable *executable);
/* To be called after a recorded step: waits until it is done, reads its times, and stops recording. Does nothing if
 * the recording has ended. Local. */
iso_status iso_recorder_end(iso_recorder *recorder, iso_runtime *runtime);
/* The recorder if the current step is recorded, else NULL. */
iso_recorder *iso_recorder_of_step(iso_recorder *recorder);
/* Begins an event and ends the last one that has begun and not ended. Called by the slot's thread. Events beyond
 * the capacity are dropped. */
void iso_recorder_open(iso_recorder *recorder, int local, iso_event_kind kind, int instruction, int count);
void iso_recorder_close(iso_recorder *recorder, int local);
/* The same for an event that has ended before, by the host's clock. */
void iso_recorder_note_span(iso_recorder *recorder, int local, iso_event_kind kind, int instruction,
                            int64_t begin, int64_t end);
/* Whether instructions record their own begin and end (iso_thunk.timer); and records `count` of them. */
bool iso_recorder_marks(const iso_recorder *recorder);
void iso_recorder_note_marked(iso_recorder *recorder, int local, int instruction, int count);

#endif
