/* Callbacks, which iso_fit() calls between batches and epochs, and the history of a training. Functions are
 * local unless their comment says otherwise. Pointers that functions return are callbacks that belong to the
 * caller until iso_fit() gets them, unless their comment says otherwise. */
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
/* The value with this name; NaN if there is none. */
ISO_API double iso_logs_get(const iso_logs *logs, const char *name);

/* The argument of a callback's functions. Lent. */
typedef struct iso_fit_state {
    iso_model *model;
    int epochs, epoch;    /* the total (including those before .initial_epoch); the current one, from 0 */
    int64_t steps, batch; /* in an epoch (-1: unknown before its end); the last batch, from 0 */
    iso_logs logs;
    /* A callback on any rank may set it to end training: in batch_begin and batch_end after this batch, in
     * epoch_begin after the epoch's first batch, in epoch_end at once. Validation and the ends of epoch and
     * training follow. In train_begin: no epoch begins. */
    bool stop;
    iso_training *training; /* for the library's own callbacks */
} iso_fit_state;

typedef iso_status (*iso_callback_function)(void *user, iso_fit_state *state);

/* Adds a number to the logs at the end of an epoch, or replaces it. The callbacks after this one, the
 * progress line and the history see it, with the chief's value on every rank. Call it in epoch_end, on every
 * rank with the same names (otherwise training ends with ISO_INVALID). ISO_INVALID if there are too many
 * values, or at another time. Local. */
ISO_API iso_status iso_fit_log(iso_fit_state *state, const char *name, double value);

/* Any function may be NULL. Every rank calls the same functions; collective operations in them must be done
 * on every rank. An error ends the training: at the beginning and end of an epoch at once, between batches
 * after the current batch. */
typedef struct iso_callback_options {
    char begin_;
    iso_callback_function train_begin, train_end, epoch_begin, epoch_end, batch_begin, batch_end;
    /* States that, at the beginning and end of a batch, either every rank asks to stop or fails, or none does. The
     * ranks then need not agree on this after each step. */
    bool collective;
    /* States that the functions of batches read no variables and do not set `stop`. A GPU may then begin the next
     * step before the results of this one are known. */
    bool async;
    void *user;                  /* first argument of all */
    void (*destroy)(void *user); /* called when fit no longer needs it */
    /* The callback's state in checkpoints. `save` adds a JSON value to the text. `restore` gets that value
     * after train_begin of the training that resumes. kind: "early_stopping"; the n-th callback of a kind
     * gets what the n-th saved. `shards` adds the callback's tensors, which are written with a checkpoint and
     * filled after `restore`; they are lent until the next call of any of its functions, and their paths
     * begin with the callback's, "callbacks/early_stopping/0". Not collective. */
    const char *kind;
    iso_status (*save)(void *user, iso_text *json);
    iso_status (*restore)(void *user, const char *json);
    iso_status (*shards)(void *user, const char *path, iso_state_shards *shards);
} iso_callback_options;
/* Never NULL: when out of memory, a callback whose train_begin reports that. iso_fit() owns it from the call
 * on, even if it fails. */
ISO_API iso_callback *iso_callback_create_with(const iso_callback_options *options, size_t size);
#define iso_callback_create(...) iso_callback_create_with(ISO_OPTIONS(iso_callback_options, __VA_ARGS__))
/* Frees a callback that was not passed to iso_fit(), which would own it. NULL is ignored. Collective. */
ISO_API void iso_callback_destroy(iso_callback *callback);

/* ---- Keras's callbacks, with its names, defaults and meanings. Texts are copied. ---- */

/* The direction of improvement: smaller (ISO_MODE_MIN) or greater values are better. Auto decides by the value's
 * name: smaller for a loss or an error, greater for an accuracy. If the name implies neither, training does not
 * begin (ISO_INVALID). */
typedef enum iso_mode { ISO_MODE_AUTO = 0, ISO_MODE_MIN, ISO_MODE_MAX } iso_mode;

/* Ends training after an epoch if a value of the logs has not improved for `patience` epochs. If the logs do
 * not have the value, the chief warns once and training is not stopped. */
typedef struct iso_early_stopping_options {
    char begin_;
    const char *monitor; /* "val_loss" */
    double min_delta;    /* a smaller change is no improvement; 0 */
    int patience;        /* 0: the first epoch without an improvement */
    iso_mode mode;
    double baseline;           /* a value that must be beaten too; none (ISO_ZERO: 0) */
    bool restore_best_weights; /* at the end of training, stopped or not; keeps a copy in memory of this
                                  rank's shards of all variables except the optimizer's */
    int start_from_epoch;      /* ignores the epochs before it, counted from 0 */
    int verbose;               /* 1: prints a line when it acts */
} iso_early_stopping_options;
ISO_API iso_callback *iso_early_stopping_with(const iso_early_stopping_options *options, size_t size);
#define iso_early_stopping(...) iso_early_stopping_with(ISO_OPTIONS(iso_early_stopping_options, __VA_ARGS__))

/* Multiplies the learning rate by `factor` if a value of the logs has not improved for `patience` epochs.
 * Adds "learning_rate", the epoch's rate, to the logs. ISO_INVALID if the optimizer follows a schedule. */
typedef struct iso_reduce_lr_on_plateau_options {
    char begin_;
    const char *monitor; /* "val_loss" */
    double factor;       /* 0.1; below 1 */
    int patience;        /* 10; ISO_ZERO for 0 */
    iso_mode mode;
    double min_delta; /* 1e-4; ISO_ZERO for 0 */
    int cooldown;     /* epochs after a reduction that are not counted; 0 */
    double min_lr;    /* lower bound of the rate; 0 */
    int verbose;      /* 1: prints a line when it acts */
} iso_reduce_lr_on_plateau_options;
ISO_API iso_callback *iso_reduce_lr_on_plateau_with(const iso_reduce_lr_on_plateau_options *options,
                                                    size_t size);
#define iso_reduce_lr_on_plateau(...)                                                                        \
    iso_reduce_lr_on_plateau_with(ISO_OPTIONS(iso_reduce_lr_on_plateau_options, __VA_ARGS__))

/* Sets the learning rate at the beginning of each epoch (from 0) to the function's result for the current
 * rate, which must be the same on every rank. Adds "learning_rate" to the logs. ISO_INVALID if the optimizer
 * follows a schedule. */
typedef struct iso_learning_rate_scheduler_options {
    char begin_;
    double (*schedule)(void *user, int epoch, double learning_rate);
    void *user;
    int verbose; /* 1: prints a line each time */
} iso_learning_rate_scheduler_options;
ISO_API iso_callback *iso_learning_rate_scheduler_with(const iso_learning_rate_scheduler_options *options,
                                                       size_t size);
#define iso_learning_rate_scheduler(...)                                                                     \
    iso_learning_rate_scheduler_with(                                                                        \
        ISO_OPTIONS_AFTER(iso_learning_rate_scheduler_options, schedule, __VA_ARGS__))

/* Ends training after the batch in which the loss became NaN or infinite. iso_fit() then returns ISO_DIVERGED
 * (exit code 3), after the ends of epoch and training have been called; with raise_error it returns at once.
 * The weights are not saved after that batch: earlier checkpoints and the backup stay. */
typedef struct iso_terminate_on_nan_options {
    char begin_;
    bool raise_error;
} iso_terminate_on_nan_options;
ISO_API iso_callback *iso_terminate_on_nan_with(const iso_terminate_on_nan_options *options, size_t size);
#define iso_terminate_on_nan(...)                                                                            \
    iso_terminate_on_nan_with(ISO_OPTIONS(iso_terminate_on_nan_options, __VA_ARGS__))

/* Writes the logs of each epoch (from 0) as a line of a table, with the sorted names in its first line
 * (chief). Without validation data the columns val_... contain NA, as in Keras. The file's previous content
 * is removed at the end of the first epoch, unless `append` is set or training resumes from a checkpoint.
 * ISO_INVALID if the file cannot be written, before training begins. */
typedef struct iso_csv_logger_options {
    char begin_;
    const char *path;
    const char *separator; /* ","; one character */
    bool append;           /* after the file's content; writes the line of names only if the file is empty */
} iso_csv_logger_options;
ISO_API iso_callback *iso_csv_logger_with(const iso_csv_logger_options *options, size_t size);
#define iso_csv_logger(...) iso_csv_logger_with(ISO_OPTIONS_AFTER(iso_csv_logger_options, path, __VA_ARGS__))

/* Writes TensorBoard's event files, into the folders train and validation below `path` (chief).
 *
 * Tags:
 *   epoch_<name>                      by epoch (from 0): losses, metrics and the learning rate; the values of
 *                                     validation are in validation/
 *   batch_<name>                      by batch since the first of all (from 1), unless update_freq is 0
 *   evaluation_<name>_vs_iterations   by the optimizer's iterations: the values of validation
 *   <variable>/histogram              by epoch: of the global tensor, on any mesh
 *   hyperparameters                   a text
 *
 * Makes missing folders. A training that resumes adds a new file. ISO_INVALID if nothing can be written,
 * before training begins. */
typedef struct iso_tensorboard_options {
    char begin_;
    const char *path;
    int64_t update_freq;         /* after this many batches; 0: only at the ends of epochs */
    int histogram_freq;          /* of the weights, after this many epochs; 0: never */
    bool write_steps_per_second; /* epoch_steps_per_second; with update_freq also batch_steps_per_second */
    int64_t profile_batch; /* the batch of this run (from 1) to trace, in train/plugins/profile; 0: none */
} iso_tensorboard_options;
ISO_API iso_callback *iso_tensorboard_with(const iso_tensorboard_options *options, size_t size);
#define iso_tensorboard(...)                                                                                 \
    iso_tensorboard_with(ISO_OPTIONS_AFTER(iso_tensorboard_options, path, __VA_ARGS__))

/* Writes the Chrome trace of one step of every slot into a file (chief) after that step; chrome://tracing and
 * ui.perfetto.dev show it. Does not slow other steps. ISO_INVALID if the file cannot be written, before
 * training begins. */
typedef struct iso_profile_options {
    char begin_;
    const char *path;
    int64_t step; /* of this run, from 1; 0: a step in the middle of its second epoch, or of its only one */
    bool
        launches; /* one event for what is launched as one, instead of each instruction (docs/callbacks.md) */
} iso_profile_options;
ISO_API iso_callback *iso_profile_with(const iso_profile_options *options, size_t size);
#define iso_profile(...) iso_profile_with(ISO_OPTIONS_AFTER(iso_profile_options, path, __VA_ARGS__))

/* Writes one JSON line an epoch into a file (chief): epoch, losses and metrics with 17 digits, the
 * fingerprint of the weights. The file's previous content is removed at the end of the first epoch, unless
 * training resumes from a checkpoint. ISO_INVALID if the file cannot be written, before training begins. */
ISO_API iso_callback *iso_history_file(const char *path);

/* ---- history: losses and metrics of each epoch ---- */
ISO_API void iso_history_destroy(iso_history *history);
ISO_API int iso_history_epochs(const iso_history *history);
/* The logs of an epoch, 0 being the first that was trained. NaN for values that only other epochs have
 * logged; no logs outside the range. Lent. */
ISO_API iso_logs iso_history_logs(const iso_history *history, int epoch);

#ifdef __cplusplus
}
#endif
#endif
