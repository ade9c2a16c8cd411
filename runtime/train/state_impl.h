/* What training needs besides tensors to go on where it stopped, as the JSON text of a checkpoint, and what
 * of it concerns the model alone. For runtime/train only. */
#ifndef ISO_TRAIN_STATE_IMPL_H
#define ISO_TRAIN_STATE_IMPL_H

#include "runtime/base/json.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/saver.h"
#include "runtime/train/training_impl.h"

/* Adds the state of a model, and of its training (NULL: of the model alone). Local; alike on all ranks but
 * for what callbacks keep. */
iso_status iso_state_write(const iso_model *model, const iso_training *training, iso_text *text);
/* Parses the state of a file that this library has written; NULL where the file has none. The root is the
 * caller's: json_decref(). */
iso_status iso_state_parse(const iso_saved_file *file, json_t **root);
/* Where the training stood that wrote the state. ISO_INVALID where it cannot go on here: another model, or
 * other batches in the middle of an epoch, naming both. Local. */
iso_status iso_state_check(const iso_saved_file *file, const json_t *state, const iso_training *training,
                           iso_training_cursor *place);
/* Puts the training there: place, random numbers, callbacks; the chief warns of what else differs. Local. */
iso_status iso_state_restore(const iso_saved_file *file, const json_t *state,
                             const iso_training_cursor *place, iso_training *training);
/* Warnings of the chief about what may differ from the training that wrote the state, at the price of equal
 * numbers, naming both. Local. */
void iso_state_warn_of_differences(const char *path, const json_t *state, const iso_training *training);
/* Whether the rows of its epochs come in another order, for another reason than another seed. */
bool iso_state_has_other_order(const json_t *state, const iso_training *training);
/* The rate that was asked for here, where it is another one than was asked for there: it holds from now on.
 * False where the rate is the checkpoint's. */
bool iso_state_has_other_rate(const json_t *state, const iso_training *training, double *rate);
/* A member that is a number written by iso_model_hash's way; 0 where there is none. */
uint64_t iso_state_hexadecimal(const json_t *object, const char *key);
/* What the state has of an optimizer, of what it minimizes ("mse of output 0 + 0.5 * mae of output 1"), and
 * of the layouts that are not whole everywhere. The caller's. */
json_t *iso_state_loss(const iso_model *model);
json_t *iso_state_optimizer(const iso_optimizer *optimizer);
json_t *iso_state_layouts(const iso_graph *graph);
/* The hash of a model's layers, their settings and variables: whether a checkpoint is of this model. */
iso_status iso_model_hash(const iso_model *model, uint64_t *hash);

/* ---- tensors ---- */

/* The contents of a file for a model: places of its tensors and its state. */
typedef struct iso_state_dict iso_state_dict;
/* weights_only: neither the optimizer nor a state. Local. */
iso_status iso_state_dict_create(iso_model *model, bool weights_only, iso_state_dict **contents);
void iso_state_dict_destroy(iso_state_dict *contents);
/* Saves the model (and its training, where it is not NULL). Collective. */
iso_status iso_state_dict_save(iso_state_dict *contents, const iso_training *training, iso_saver *saver,
                               const char *path, bool best, iso_status *last);
/* Of an optimizer's state in a file. */
typedef enum iso_optimizer_state {
    ISO_OPTIMIZER_IF_THERE, /* it is read where the file has it */
    ISO_OPTIMIZER_NEEDED,   /* it must be there */
    ISO_OPTIMIZER_LEFT,     /* it is not read */
    ISO_OPTIMIZER_ALONE,    /* only it is read, where the file has it */
} iso_optimizer_state;
/* Reads all tensors of a model from an open file, checked before the first is changed. Collective. */
iso_status iso_model_read_tensors(iso_model *model, iso_saved_file *file, iso_optimizer_state optimizer);
/* Reads the optimizer's state from the file that the model was restored from, if any, and closes it.
 * Collective. */
iso_status iso_model_read_initial_optimizer(iso_model *model);

#endif
