/* Callbacks: what iso_fit() calls between batches and epochs; and the history of a training. */
#ifndef ISO_TRAIN_CALLBACKS_H
#define ISO_TRAIN_CALLBACKS_H

#include "runtime/base/hash.h"
#include "runtime/base/pieces.h"
#include "runtime/base/text.h"
#include "runtime/base/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iso_model iso_model;
typedef struct iso_callback iso_callback;
typedef struct iso_history iso_history;
typedef struct iso_training iso_training;

/* Named numbers: running means of loss and metrics in an epoch; at its end also those of the validation data,
 * "val_loss". */
typedef struct iso_logs {
    int count;
    const char *const *name;
    const double *value;
} iso_logs;
/* The value of a name; NaN where there is none. */
double iso_logs_get(const iso_logs *logs, const char *name);

/* What a callback is told. Lent. */
typedef struct iso_fit_state {
    iso_model *model;
    int epochs, epoch;    /* in all (with those before .initial_epoch); the current one, from 0 */
    int64_t steps, batch; /* in an epoch (-1: not known before its end); of the last batch, from 0 */
    iso_logs logs;
    /* A callback sets it, on any rank: training ends, between batches after the current one, else where the
     * epoch ends; validation and the ends of epoch and training follow. */
    bool stop;
    iso_training *training; /* for the callbacks of this library */
} iso_fit_state;

typedef iso_status (*iso_callback_function)(void *user, iso_fit_state *state);

/* Adds a number to the logs of this epoch's end, or replaces it: the callbacks behind this one, the progress
 * line and the history see it. To be called by epoch_end, on every rank alike. ISO_INVALID where there are
 * too many, or at another time. */
iso_status iso_fit_log(iso_fit_state *state, const char *name, double value);

/* Any function may be NULL. Every rank calls them alike; what they do collectively they must do on every
 * rank. An error ends the training: at once at the beginning and end of an epoch, after the batch between
 * batches. */
typedef struct iso_callback_options {
    char begin_;
    iso_callback_function train_begin, train_end, epoch_begin, epoch_end, batch_begin, batch_end;
    /* Where a batch ends (or begins), every rank asks to stop, or fails, or none does: then the ranks need
     * not agree on it after each step. */
    bool alike;
    void *user;                  /* first argument of all */
    void (*destroy)(void *user); /* when fit is done with it */
    /* What a checkpoint keeps of it: `save` adds a JSON value to the text, `restore` gets what it added,
     * after train_begin of the training that goes on. kind: "early_stopping"; the n-th of a kind gets what
     * the n-th saved. `pieces` adds the tensors that belong to it (lent until the next call of any of its
     * functions; their paths begin with that of the callback, "callbacks/early_stopping/0"): to be written
     * when a checkpoint is, and to be filled after `restore`. Not collective. */
    const char *kind;
    iso_status (*save)(void *user, iso_text *json);
    iso_status (*restore)(void *user, const char *json);
    iso_status (*pieces)(void *user, const char *path, iso_pieces *pieces);
} iso_callback_options;
/* Never NULL: where memory ends, a callback whose train_begin says so. iso_fit() owns it from the call on,
 * whatever it returns. */
iso_callback *iso_callback_create_with(const iso_callback_options *options, size_t size);
#define iso_callback_create(...)                                                                             \
    iso_callback_create_with(&(iso_callback_options){.begin_ = 0, __VA_ARGS__}, sizeof(iso_callback_options))
void iso_callback_destroy(iso_callback *callback);

/* Writes one JSON line an epoch into a file (chief): epoch, losses and metrics with 17 digits, the
 * fingerprint of the weights. What was in the file goes when the first epoch has
 * ended; ISO_IO where it cannot be written. */
iso_callback *iso_history_file(const char *path);

/* ---- history: losses and metrics of each epoch ---- */
void iso_history_destroy(iso_history *history);
int iso_history_epochs(const iso_history *history);
/* The logs of an epoch, 0 being the first that was trained. Lent. */
iso_logs iso_history_logs(const iso_history *history, int epoch);

#ifdef __cplusplus
}
#endif
#endif
