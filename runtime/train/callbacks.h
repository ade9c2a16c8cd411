/* Callbacks: what iso_fit() calls between batches and epochs; and the history of a training.
 * Functions are local unless their comment says otherwise. */
#ifndef ISO_TRAIN_CALLBACKS_H
#define ISO_TRAIN_CALLBACKS_H

#include "runtime/base/options.h"
#include "runtime/base/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iso_model iso_model;
typedef struct iso_callback iso_callback;
typedef struct iso_history iso_history;
typedef struct iso_training iso_training;
typedef struct iso_text iso_text;                 /* isogrid_extend.h */
typedef struct iso_state_shards iso_state_shards; /* likewise */

/* Named numbers: running means of loss and metrics in an epoch; at its end also those of the validation data,
 * "val_loss". */
typedef struct iso_logs {
    int count;
    const char *const *name;
    const double *value;
} iso_logs;
/* The value of a name; NaN where there is none. */
ISO_API double iso_logs_get(const iso_logs *logs, const char *name);

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

/* Adds a number to the logs of this epoch's end, or replaces it: the callbacks after this one, the progress
 * line and the history see it, with the chief's value on every rank. To be called by epoch_end, on every rank
 * with the same names (else training ends with ISO_INVALID). ISO_INVALID where there are too many, or at
 * another time. Local. */
ISO_API iso_status iso_fit_log(iso_fit_state *state, const char *name, double value);

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
     * the n-th saved. `shards` adds the tensors that belong to it (lent until the next call of any of its
     * functions; their paths begin with that of the callback, "callbacks/early_stopping/0"): to be written
     * when a checkpoint is, and to be filled after `restore`. Not collective. */
    const char *kind;
    iso_status (*save)(void *user, iso_text *json);
    iso_status (*restore)(void *user, const char *json);
    iso_status (*shards)(void *user, const char *path, iso_state_shards *shards);
} iso_callback_options;
/* Never NULL: if there is no memory, a callback whose train_begin says so. iso_fit() owns it from the call on,
 * whatever it returns. */
ISO_API iso_callback *iso_callback_create_with(const iso_callback_options *options, size_t size);
#define iso_callback_create(...) iso_callback_create_with(ISO_OPTIONS(iso_callback_options, __VA_ARGS__))
/* For a callback that iso_fit() was not given, which would own it. NULL is nothing. Collective. */
ISO_API void iso_callback_destroy(iso_callback *callback);

/* ---- Keras's callbacks: its names, defaults and meanings. Texts are copied. ---- */

/* What is better: less (ISO_MODE_MIN) or more. Auto goes by the name of the value: less of a loss or an
 * error, more of an accuracy; where the name does not tell, training does not begin (ISO_INVALID). */
typedef enum iso_mode { ISO_MODE_AUTO = 0, ISO_MODE_MIN, ISO_MODE_MAX } iso_mode;

/* Ends training after an epoch when a value of the logs has not improved for so many epochs. Where there is
 * no such value the chief warns once and nothing is stopped. */
typedef struct iso_early_stopping_options {
    char begin_;
    const char *monitor; /* "val_loss" */
    double min_delta;    /* a smaller change is no improvement; 0 */
    int patience;        /* 0: the first epoch without an improvement */
    iso_mode mode;
    double baseline;           /* what must be beaten too; none (ISO_ZERO: 0) */
    bool restore_best_weights; /* at the end of training, stopped or not; a copy of this rank's part of all
                                  variables but the optimizer's is kept in memory */
    int start_from_epoch;      /* epochs before, counted from 0, are not looked at */
    int verbose;               /* 1: says when it acts */
} iso_early_stopping_options;
ISO_API iso_callback *iso_early_stopping_with(const iso_early_stopping_options *options, size_t size);
#define iso_early_stopping(...) iso_early_stopping_with(ISO_OPTIONS(iso_early_stopping_options, __VA_ARGS__))

/* Multiplies the learning rate by `factor` when a value of the logs has not improved for so many epochs. The
 * logs get "learning_rate", the rate of the epoch. ISO_INVALID where the optimizer follows a schedule. */
typedef struct iso_reduce_lr_on_plateau_options {
    char begin_;
    const char *monitor; /* "val_loss" */
    double factor;       /* 0.1; below 1 */
    int patience;        /* 10; ISO_ZERO for 0 */
    iso_mode mode;
    double min_delta; /* 1e-4; ISO_ZERO for 0 */
    int cooldown;     /* epochs after a reduction in which nothing is counted; 0 */
    double min_lr;    /* the rate never gets lower; 0 */
    int verbose;      /* 1: says when it acts */
} iso_reduce_lr_on_plateau_options;
ISO_API iso_callback *iso_reduce_lr_on_plateau_with(const iso_reduce_lr_on_plateau_options *options,
                                                    size_t size);
#define iso_reduce_lr_on_plateau(...)                                                                        \
    iso_reduce_lr_on_plateau_with(ISO_OPTIONS(iso_reduce_lr_on_plateau_options, __VA_ARGS__))

/* Sets the learning rate at the beginning of each epoch (from 0) to what the function makes of the current
 * one; the same on every rank. The logs get "learning_rate". ISO_INVALID where the optimizer follows a
 * schedule. */
typedef struct iso_learning_rate_scheduler_options {
    char begin_;
    double (*schedule)(void *user, int epoch, double learning_rate);
    void *user;
    int verbose; /* 1: says so each time */
} iso_learning_rate_scheduler_options;
ISO_API iso_callback *iso_learning_rate_scheduler_with(const iso_learning_rate_scheduler_options *options,
                                                       size_t size);
#define iso_learning_rate_scheduler(...)                                                                     \
    iso_learning_rate_scheduler_with(                                                                        \
        ISO_OPTIONS_AFTER(iso_learning_rate_scheduler_options, schedule, __VA_ARGS__))

/* Ends training after the batch in which the loss became NaN or infinite. iso_fit() then returns ISO_DIVERGED
 * (exit code 3), when the ends of epoch and training have been called; with raise_error at once, so that
 * backups stay. */
typedef struct iso_terminate_on_nan_options {
    char begin_;
    bool raise_error;
} iso_terminate_on_nan_options;
ISO_API iso_callback *iso_terminate_on_nan_with(const iso_terminate_on_nan_options *options, size_t size);
#define iso_terminate_on_nan(...)                                                                            \
    iso_terminate_on_nan_with(ISO_OPTIONS(iso_terminate_on_nan_options, __VA_ARGS__))

/* Writes the logs of each epoch (from 0) as a line of a table, the names sorted in its first line (chief).
 * Without validation data the columns val_... hold NA, as Keras has it. What was in the file goes when the
 * first epoch has ended, unless `append` is set or training goes on from a checkpoint. ISO_INVALID where it
 * cannot be written, before training begins. */
typedef struct iso_csv_logger_options {
    char begin_;
    const char *path;
    const char *separator; /* "," one character */
    bool append;           /* after what is in the file; the line of names only where it is empty */
} iso_csv_logger_options;
ISO_API iso_callback *iso_csv_logger_with(const iso_csv_logger_options *options, size_t size);
#define iso_csv_logger(...) iso_csv_logger_with(ISO_OPTIONS_AFTER(iso_csv_logger_options, path, __VA_ARGS__))

/* Writes what TensorBoard shows, into event files of the folders train and validation below `path` (chief).
 * Tags:
 *   epoch_<name>                      by epoch (from 0): losses, metrics and the learning rate; the values of
 *                                     validation are in validation/
 *   batch_<name>                      by batch since the first of all (from 1), unless update_freq is 0
 *   evaluation_<name>_vs_iterations   by the optimizer's iterations: the values of validation
 *   <variable>/histogram              by epoch: of the global tensor, on any mesh
 *   hyperparameters                   a text
 * Folders are made. A training that goes on adds a file of its own. ISO_INVALID where nothing can be
 * written, before training begins. */
typedef struct iso_tensorboard_options {
    char begin_;
    const char *path;
    int64_t update_freq;         /* after so many batches; 0: at the ends of epochs only */
    int histogram_freq;          /* of the weights, after so many epochs; 0: never */
    bool write_steps_per_second; /* epoch_steps_per_second; with update_freq also batch_steps_per_second */
    int64_t profile_batch; /* the batch of this run (from 1) to trace, in train/plugins/profile; 0: none */
} iso_tensorboard_options;
ISO_API iso_callback *iso_tensorboard_with(const iso_tensorboard_options *options, size_t size);
#define iso_tensorboard(...)                                                                                 \
    iso_tensorboard_with(ISO_OPTIONS_AFTER(iso_tensorboard_options, path, __VA_ARGS__))

/* Writes the Chrome trace of one step of every slot into a file (chief), when that step is done:
 * chrome://tracing and ui.perfetto.dev show it. Other steps are not slowed. ISO_INVALID where the file cannot
 * be written, before training begins. */
typedef struct iso_profile_options {
    char begin_;
    const char *path;
    int64_t step; /* of this run, from 1; 0: one in the middle of its second epoch, or of its only one */
} iso_profile_options;
ISO_API iso_callback *iso_profile_with(const iso_profile_options *options, size_t size);
#define iso_profile(...) iso_profile_with(ISO_OPTIONS_AFTER(iso_profile_options, path, __VA_ARGS__))

/* Writes one JSON line an epoch into a file (chief): epoch, losses and metrics with 17 digits, the
 * fingerprint of the weights. What was in the file goes when the first epoch has
 * ended, unless training goes on from a checkpoint; ISO_INVALID where it cannot be written, before training
 * begins. */
ISO_API iso_callback *iso_history_file(const char *path);

/* ---- history: losses and metrics of each epoch ---- */
ISO_API void iso_history_destroy(iso_history *history);
ISO_API int iso_history_epochs(const iso_history *history);
/* The logs of an epoch, 0 being the first that was trained: NaN for what other epochs only have logged. Of
 * an epoch that there is not: no logs. Lent. */
ISO_API iso_logs iso_history_logs(const iso_history *history, int epoch);

#ifdef __cplusplus
}
#endif
#endif
