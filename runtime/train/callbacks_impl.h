/* The inside of callbacks, histories and progress lines. For runtime/train only. */
#ifndef ISO_TRAIN_CALLBACKS_IMPL_H
#define ISO_TRAIN_CALLBACKS_IMPL_H

#include <stdbool.h>

#include "runtime/base/json.h"
#include "runtime/base/shards.h"
#include "runtime/base/text.h"
#include "runtime/train/callbacks.h"
#include "runtime/train/progress.h"

/* When callbacks are called. */
typedef enum iso_moment {
    ISO_TRAIN_BEGIN,
    ISO_TRAIN_END,
    ISO_EPOCH_BEGIN,
    ISO_EPOCH_END,
    ISO_BATCH_BEGIN,
    ISO_BATCH_END,
} iso_moment;

struct iso_callback {
    iso_callback_options options;
    bool last; /* called after all others: it keeps their state */
    /* Of those that come last, or NULL: changes its own state for this moment, which is done for all of them
     * before the first of them keeps everybody's. */
    void (*decide)(void *user, const iso_fit_state *state, iso_moment moment);
    uint64_t alike;    /* a number for options that must be the same on every rank; 0: none */
    const char *logs;  /* the name of the value that it adds to the logs, "" none; NULL: that is not known */
    iso_status status; /* of its creation */
};

/* What constructors give if there is no memory. */
iso_callback *iso_callback_no_memory(void);
/* Sets `logs`, also where the callback is that constant; returns the callback. */
iso_callback *iso_callback_logs(iso_callback *callback, const char *name);
/* Whether a callback of a list may add a value of this name to the logs. */
bool iso_callbacks_may_log(iso_callback *const *callbacks, const char *name);

/* Calls all of a list (NULL: none) in order, those that come last after the others; the first error is
 * returned, but all are called. At the end of an epoch collective: what they log is the chief's for those
 * after them; names that differ between ranks are an error, and nobody after is called. */
iso_status iso_callbacks_call(iso_callback *const *callbacks, iso_moment moment, iso_fit_state *state);
/* Adds what must be the same of a list on every rank: "early_stopping 1f3a, ...". Local. */
void iso_callbacks_describe(iso_callback *const *callbacks, iso_text *text);
/* Whether one of them wants to be called then. */
bool iso_callbacks_want(iso_callback *const *callbacks, iso_moment moment);
/* Whether one of them may ask to stop, or fail, between batches on some ranks only. */
bool iso_callbacks_are_rank_local(iso_callback *const *callbacks);

/* What a checkpoint keeps of callbacks: a list of {"kind": ..., "state": ...}, of those that have the functions
 * for it, in order. The caller's. Local. */
iso_status iso_callbacks_save(iso_callback *const *callbacks, json_t **list);
/* Gives each what the one with its kind, and its number among those of that kind, has saved. Callbacks of
 * which nothing is there stay as they are; so does what is there of callbacks that are not. ISO_INVALID where
 * the list is not of this form. Local. */
iso_status iso_callbacks_restore(iso_callback *const *callbacks, const json_t *list);
/* Adds the tensors that callbacks keep besides, to be written with a checkpoint, and after
 * iso_callbacks_restore() to be filled from it. Lent until the next call of a callback. Local. */
iso_status iso_callbacks_shards(iso_callback *const *callbacks, iso_state_shards *shards);

iso_status iso_history_create(iso_history **history);
/* Adds the logs of an epoch. */
iso_status iso_history_add(iso_history *history, const iso_logs *logs);

/* ---- progress, for those who hold the values themselves ---- */
/* Begins an epoch (or an evaluation) of so many steps, `done` of which another run has made; title: a line
 * before it, or NULL. */
void iso_progress_begin(iso_progress *progress, const char *title, int64_t steps, int64_t done);
/* Counts a step; true where the bar should be redrawn now. */
bool iso_progress_step(iso_progress *progress);
void iso_progress_draw(iso_progress *progress, const iso_logs *logs);
/* Ends a line that the bar has begun, so that something else can be printed; the bar goes on below. */
void iso_progress_break(iso_progress *progress);
/* The last state of the line, and its end. own: so many of the first values are the model's; they are sorted,
 * as in Keras, what callbacks have added comes after. */
void iso_progress_end(iso_progress *progress, const iso_logs *logs, int own);
/* For tests: another clock, in seconds; before iso_progress_begin(). */
void iso_progress_set_clock(iso_progress *progress, double (*clock)(void));

#endif
