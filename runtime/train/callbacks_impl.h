/* The internals of callbacks, histories and progress lines. For runtime/train only. */
#ifndef ISO_TRAIN_CALLBACKS_IMPL_H
#define ISO_TRAIN_CALLBACKS_IMPL_H

#include <stdbool.h>

#include "runtime/base/json.h"
#include "runtime/base/shards.h"
#include "runtime/base/text.h"
#include "runtime/base/thread_modes.h"
#include "runtime/train/callbacks.h"
#include "runtime/train/evaluations.h"
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

/* What must be the same on every rank: the options that decide what the ranks do together. Names of files need not
 * be; the chief's are used. Lent by the callback. */
typedef struct iso_callback_same {
    const char *name;            /* of the callback, for messages */
    const iso_setting *settings; /* members of the struct `options`; NULL: none */
    const void *options;
    const char *monitor, *best; /* the names of monitored values; NULL: none */
} iso_callback_same;

struct iso_callback {
    iso_callback_options options;
    bool built_in; /* its functions are Isogrid's, not the program's */
    bool last;     /* called after all others, because it saves their state */
    /* Changes the callback's own state for this moment. It is called for all callbacks that come last, before the
     * first of them saves the state of all callbacks. NULL: none. Collective. */
    iso_status (*decide)(void *user, const iso_fit_state *state, iso_moment moment);
    /* Called when training has resumed from a checkpoint, whose state the callback has. NULL: none. Collective. */
    iso_callback_function resumed;
    /* Saves all that training needs to resume, and waits until it is written. Adds the file's path to `file`. NULL:
     * the callback does not save. Collective. */
    iso_status (*save_now)(void *user, iso_fit_state *state, iso_text *file);
    /* Between batches it reads weights only after iso_graph_send_deferred_weights, on all ranks, or not at all. */
    bool sends_weights;
    bool backup; /* training resumes from its file rather than from those of others */
    iso_callback_same same;
    const char *logs; /* the name of the value that it adds to the logs; "": none; NULL: unknown */
    /* Called by iso_follow on rank 0 of the evaluator; NULL: none. Local. */
    iso_status (*evaluated)(void *user, iso_context *ctx, const iso_evaluation *one);
    const char *lines; /* the path of a history file; lent by the callback */
    iso_status status; /* of its creation */
};

/* The constant that constructors return when out of memory. */
iso_callback *iso_callback_no_memory(void);
/* Creates a callback of Isogrid itself. */
#define iso_callback_built_in(...) iso_callback_of_isogrid(iso_callback_create(__VA_ARGS__))
iso_callback *iso_callback_of_isogrid(iso_callback *callback);
/* Begins a call of a callback's function, which iso_program_modes_end() ends: a function of the program has the
 * program's modes. */
iso_program_modes *iso_callback_modes_begin(const iso_callback *callback);
/* Sets `logs`, unless the callback is that constant; returns the callback. */
iso_callback *iso_callback_logs(iso_callback *callback, const char *name);
/* Sets `same`, unless the callback is that constant; returns the callback. */
iso_callback *iso_callback_set_same(iso_callback *callback, const iso_callback_same *same);
/* Sets `sends_weights`, unless the callback is that constant; returns the callback. */
iso_callback *iso_callback_sends_weights(iso_callback *callback);
/* Whether steps may leave new weights to the next one: callbacks between batches do not read weights. */
bool iso_callbacks_allow_deferred_weights(iso_callback *const *callbacks);
/* Whether the next step may begin before the functions at the end of a batch are called. */
bool iso_callbacks_are_async(iso_callback *const *callbacks);
/* Whether a callback of a list may add a value of this name to the logs. */
bool iso_callbacks_may_log(iso_callback *const *callbacks, const char *name);

/* Calls all callbacks of a list (NULL: none) in order, those with `last` after the others. Calls all of them
 * even after an error, and returns the first error. The end of an epoch is collective: the values that a
 * callback logs become the chief's for the callbacks after it; names that differ between ranks are an error,
 * and the callbacks after it are not called. */
iso_status iso_callbacks_call(iso_callback *const *callbacks, iso_moment moment, iso_fit_state *state);
/* Calls `resumed` of a list; returns the first error. Collective. */
iso_status iso_callbacks_resumed(iso_callback *const *callbacks, iso_fit_state *state);
/* ISO_INVALID if a callback is in the list twice. Local. */
iso_status iso_callbacks_check(iso_callback *const *callbacks);
/* Destroys each callback of a list once. Collective. */
void iso_callbacks_destroy(iso_callback *const *callbacks);
/* Adds the properties of a list that must be the same on every rank, one a line:
 * "callback 0 (early_stopping): patience = 2". Local. */
void iso_callbacks_describe(iso_callback *const *callbacks, iso_text *text);
/* Whether a callback wants to be called at this moment. */
bool iso_callbacks_want(iso_callback *const *callbacks, iso_moment moment);
/* Whether a callback may ask to stop, or fail, between batches on some ranks only. */
bool iso_callbacks_are_rank_local(iso_callback *const *callbacks);

/* Saves the state of training now: with the first backup, otherwise with all callbacks that can. Adds the
 * first file's path to `file`; nothing if no callback can. Collective. */
iso_status iso_callbacks_save_now(iso_callback *const *callbacks, iso_fit_state *state, iso_text *file);

/* The callbacks' state for a checkpoint: a list of {"kind": ..., "state": ...}, of those that can save, in
 * order. Owned by the caller. Local. */
iso_status iso_callbacks_save(iso_callback *const *callbacks, json_t **list);
/* Gives each callback the state of the same kind and number within the kind. Callbacks without a saved state
 * stay as they are; states without a callback are ignored. ISO_INVALID if the list does not have this form.
 * Local. */
iso_status iso_callbacks_restore(iso_callback *const *callbacks, const json_t *list);
/* Adds the tensors that callbacks keep: to be written to a checkpoint or, after iso_callbacks_restore(), to
 * be filled from it. Lent until the next call of a callback. Local. */
iso_status iso_callbacks_shards(iso_callback *const *callbacks, iso_state_shards *shards);

iso_status iso_history_create(iso_history **history);
/* Adds the logs of an epoch. */
iso_status iso_history_add(iso_history *history, const iso_logs *logs);

/* ---- progress, for callers that hold the values themselves ---- */
/* Begins an epoch (or an evaluation) of `steps` steps, of which another run has made `done`. title: a line
 * before it, or NULL. */
void iso_progress_begin(iso_progress *progress, const char *title, int64_t steps, int64_t done);
/* Counts a step; true if the bar should be redrawn now. */
bool iso_progress_step(iso_progress *progress);
void iso_progress_draw(iso_progress *progress, const iso_logs *logs);
/* Ends a line that the bar has begun, so that other output can follow; the bar continues below it. */
void iso_progress_break(iso_progress *progress);
/* Prints the final state of the line and ends it. own: the first values, which are the model's; they are
 * sorted, as in Keras, and the values that callbacks have added follow. */
void iso_progress_end(iso_progress *progress, const iso_logs *logs, int own);
/* Sets another clock, in seconds, for tests; before iso_progress_begin(). */
void iso_progress_set_clock(iso_progress *progress, double (*clock)(void));

#endif
