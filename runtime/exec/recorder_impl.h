/* Recording of one step: the begin and end times of what each local slot does. For runtime/exec only. */
#ifndef ISO_EXEC_RECORDER_IMPL_H
#define ISO_EXEC_RECORDER_IMPL_H

#include "runtime/exec/bind_impl.h"

typedef enum iso_event_kind {
    ISO_EVENT_STEP,     /* holds all others */
    ISO_EVENT_OP,       /* an instruction: READ, KERNEL, COPY */
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
    int instruction; /* -1: the end of the step */
} iso_event;

typedef struct iso_slot_events {
    int count;
    iso_event *events; /* [capacity] */
} iso_slot_events;

typedef enum iso_recorder_state {
    ISO_RECORDER_IDLE,
    ISO_RECORDER_ARMED,
    ISO_RECORDER_RUNS
} iso_recorder_state;

typedef struct iso_recorder {
    iso_recorder_state state;
    bool recorded;          /* a step */
    int64_t rows;           /* of the step: they select the plan */
    uint64_t step;          /* its number, from 0 */
    int64_t origin;         /* the end of the barrier before it, in nanoseconds */
    int n_locals, capacity; /* capacity: events of a slot */
    iso_slot_events *slot;  /* [n_locals] */
} iso_recorder;

void iso_recorder_destroy(iso_recorder *recorder);
/* Before a step of this plan: if it is to be recorded, allocates the events and runs a barrier. Collective
 * there. */
iso_status iso_recorder_begin(iso_recorder *recorder, const iso_runtime *runtime,
                              const iso_executable *ready);
/* The recorder if the current step is recorded, else NULL. */
iso_recorder *iso_recorder_of_step(iso_recorder *recorder);
/* Called by the slot's thread. Events beyond the capacity are dropped. */
void iso_recorder_note(iso_recorder *recorder, int local, iso_event_kind kind, int instruction,
                       int64_t begin);
/* The same for something that has ended before. */
void iso_recorder_note_span(iso_recorder *recorder, int local, iso_event_kind kind, int instruction,
                            int64_t begin, int64_t end);

#endif
