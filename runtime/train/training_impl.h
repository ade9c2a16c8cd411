/* The inside of a training while iso_fit runs it. For runtime/train only. */
#ifndef ISO_TRAIN_TRAINING_IMPL_H
#define ISO_TRAIN_TRAINING_IMPL_H

#include "runtime/base/first_error.h"
#include "runtime/train/callbacks_impl.h"
#include "runtime/train/model_impl.h"

/* Where a training stands: between two steps. */
typedef struct iso_training_cursor {
    int epoch;           /* of the next step, from 0 */
    int64_t batch;       /* of the next step in its epoch, from 0 */
    int64_t trained;     /* steps since the first of all, those of earlier runs included */
    int64_t random_step; /* the graph's, which dropout counts by; of a checkpoint */
    iso_totals totals;   /* of the batches of this epoch */
} iso_training_cursor;

struct iso_training {
    iso_model *model;
    iso_dataset *data;
    iso_fit_options options;
    iso_context *ctx;
    iso_callback **callbacks;
    bool batch_begin, batch_end; /* whether a callback wants them */
    bool rank_local;             /* one of these may stop or fail on this rank alone */
    bool at_epoch_end;           /* callbacks are told of it */
    bool warned;                 /* the chief has warned of a NaN or infinite loss */
    iso_first_error pending;     /* of a callback between batches, on this rank: agreed when the steps end */
    iso_progress *progress;
    iso_history *history;
    int64_t steps; /* in an epoch */
    iso_training_cursor cursor;
    int64_t earlier; /* of the steps in place.trained: those of trainings before this one */
    iso_fit_state state;
    double value[2 * ISO_MAX_VALUES + ISO_MAX_LOGGED]; /* of training, of validation, then of callbacks */
    const char *name[2 * ISO_MAX_VALUES + ISO_MAX_LOGGED];
    char logged_name[ISO_MAX_LOGGED][ISO_MAX_NAME];
    int logged;
    char validation_name[ISO_MAX_VALUES][ISO_MAX_NAME + 4];
};

/* Steps of this training so far, those before its checkpoint included. */
static inline int64_t iso_training_steps(const iso_training *training)
{
    return training->cursor.trained - training->earlier;
}
/* The names that the logs of an epoch's end will have, without what callbacks add. */
iso_logs iso_training_expected_logs(const iso_training *training);
/* After a callback at the end of an epoch: all ranks have the chief's values of the logs. ISO_INVALID where
 * the names differ. Collective. */
iso_status iso_training_share_logs(iso_training *training);
/* Reads a checkpoint of such a training: tensors, place, random numbers, callbacks. An error names the file
 * and what does not fit. Collective; between steps. */
iso_status iso_training_resume(iso_training *training, iso_saved_file *file);

#endif
