/* The internals of a training while iso_fit runs it. For runtime/train only. */
#ifndef ISO_TRAIN_TRAINING_IMPL_H
#define ISO_TRAIN_TRAINING_IMPL_H

#include "runtime/base/first_error.h"
#include "runtime/checkpoint/saver.h"
#include "runtime/train/callbacks_impl.h"
#include "runtime/train/model_impl.h"

/* The position of a training, between two steps. */
typedef struct iso_training_cursor {
    int epoch;           /* of the next step, from 0 */
    int64_t batch;       /* of the next step in its epoch, from 0 */
    int64_t trained;     /* steps in all, including those of earlier runs */
    int64_t random_step; /* the graph's step for random numbers (dropout); of a checkpoint */
} iso_training_cursor;

/* The replica check of a training. */
typedef struct iso_replica_check {
    int64_t every; /* steps; 0: never */
    int64_t last;  /* the step after which the last check was made */
    char *from;    /* the checkpoint from which training resumed; NULL: none, or unknown */
    int64_t from_step;
    iso_text failed; /* the message of the check that failed; empty: none has */
} iso_replica_check;

struct iso_training {
    iso_model *model;
    iso_dataset *data;
    iso_fit_options options;
    iso_context *ctx;
    iso_callback **callbacks;
    bool batch_begin, batch_end; /* whether a callback wants to be called then */
    bool defers_weights;         /* between steps of an epoch new weights need not be on every host */
    bool rank_local;             /* a callback may stop or fail on this rank alone */
    bool at_epoch_end;           /* callbacks are being called at the end of an epoch */
    bool warned;                 /* the chief has warned of a NaN or infinite loss */
    bool diverged;               /* TerminateOnNaN has ended it: its weights are not saved any more */
    iso_first_error pending;     /* the first error of a callback between batches, on this rank; agreed when
                                    the steps end */
    iso_progress *progress;
    iso_history *history;
    int64_t steps; /* in an epoch */
    iso_training_cursor cursor;
    iso_totals totals; /* of the batches of this epoch; of the last one, until the next step */
    int64_t earlier;   /* of the steps in cursor.trained: those of earlier trainings */
    iso_replica_check replicas;
    struct iso_checkpoint_writer *writers; /* a list of those of its callbacks */
    iso_saver_numbers numbers;             /* of their checkpoints */
    iso_fit_state state;
    double value[2 * ISO_MAX_VALUES + ISO_MAX_LOGGED]; /* of training, then of validation, then of
                                                          callbacks */
    const char *name[2 * ISO_MAX_VALUES + ISO_MAX_LOGGED];
    char logged_name[ISO_MAX_LOGGED][ISO_MAX_NAME];
    int logged;
    char validation_name[ISO_MAX_VALUES][ISO_MAX_NAME + 4];
};

/* Steps of this training so far, including those before its checkpoint. */
static inline int64_t iso_training_steps(const iso_training *training)
{
    return training->cursor.trained - training->earlier;
}
/* The names in the logs at the end of an epoch, without those that callbacks add. */
iso_logs iso_training_expected_logs(const iso_training *training);
/* Called after each callback at the end of an epoch: all ranks get the chief's values of the logs.
 * ISO_INVALID if the names differ. Collective. */
iso_status iso_training_share_logs(iso_training *training);
/* Reads a checkpoint of such a training: tensors, position, random numbers, callbacks. An error names the
 * file and what does not fit. Collective; between steps. */
iso_status iso_training_resume(iso_training *training, iso_saved_file *file);

/* ---- the replica check (replicas.c): all do nothing without it. Collective. ---- */
/* Before the first step: the chief warns if there is nothing to compare, and the check is then off. */
iso_status iso_training_begin_replica_check(iso_training *training, const iso_saved_file *resumed);
/* Compares the copies of variables. ISO_FAILED says what differs and names the last good checkpoint; each
 * later call returns the same error. */
iso_status iso_training_check_replicas(iso_training *training);
/* The same after a step, if a check is due and was not just made, or one has failed. */
iso_status iso_training_check_replicas_after_step(iso_training *training);
/* The error of a check that failed, otherwise `status`. Local. */
iso_status iso_training_replica_error(const iso_training *training, iso_status status);
void iso_training_end_replica_check(iso_training *training);

#endif
