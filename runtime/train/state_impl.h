/* The state beyond tensors that a training needs to resume, as the JSON text of a checkpoint, and the part of
 * it that concerns only the model. For runtime/train only. */
#ifndef ISO_TRAIN_STATE_IMPL_H
#define ISO_TRAIN_STATE_IMPL_H

#include "runtime/base/json.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/saver.h"
#include "runtime/train/training_impl.h"

/* Adds the state of a model and of its training (NULL: only the model). Local; the same on all ranks except
 * for the callbacks' state. */
iso_status iso_state_write(iso_model *model, const iso_training *training, iso_text *text);
/* Parses the state of a file that this library has written; NULL if the file has none. The caller owns the
 * root: json_decref(). */
iso_status iso_state_parse(const iso_saved_file *file, json_t **root);
/* The position of the training that wrote the state. ISO_INVALID if it cannot continue here, naming both
 * sides: another model, or other batches or another order of rows in the middle of an epoch. Local. */
iso_status iso_state_check(const iso_saved_file *file, const json_t *state, const iso_training *training,
                           iso_training_cursor *cursor);
/* Sets the training's position, random numbers and callbacks; the chief warns of other differences. Local. */
iso_status iso_state_restore(const iso_saved_file *file, const json_t *state,
                             const iso_training_cursor *cursor, iso_training *training);
/* The chief warns of differences from the training that wrote the state that may change the numbers, naming
 * both sides. Local. */
void iso_state_warn_of_differences(const char *path, const json_t *state, const iso_training *training);
/* Warns, on this rank, if the state was written in another precision than the graph computes in. Returns whether
 * it did. */
bool iso_state_warn_of_precision(const char *path, const json_t *state, const iso_graph *graph);
/* The same, and if layers of the model that wrote the state had settings with which the model's outputs may differ.
 * *warned (or NULL): whether it did. Errors: those of iso_weight_paths_create. */
iso_status iso_state_warn_of_model(const char *path, const json_t *state, iso_model *model, bool *warned);
/* Whether the rows of its epochs come in another order. */
bool iso_state_has_other_order(const json_t *state, const iso_training *training);
/* Whether they would even with one seed: rows are shuffled or split in another way. */
bool iso_state_has_other_stages(const json_t *state, const iso_training *training);
/* The learning rate of this run's options, if it differs from the one in the checkpoint's options: it applies
 * from now on. False: the checkpoint's rate applies. */
bool iso_state_has_other_rate(const json_t *state, const iso_training *training, double *rate);
/* A member that was written as a hexadecimal text; 0 if there is none. */
uint64_t iso_state_hexadecimal(const json_t *object, const char *key);
/* The state's member "layers": the class, name and settings of each layer, under the path of its group in the file.
 * Owned by the caller. Errors: those of iso_weight_paths_create. */
iso_status iso_state_layers(iso_model *model, json_t **layers);
/* Adds in what the layers of a model differ from those of the state: at most three differences. every: also in names
 * and in settings of training alone. Adds nothing if the state is older than the member. Errors: as above. */
iso_status iso_state_layer_differences(const json_t *state, iso_model *model, bool every, iso_text *text);
/* The state's members for an optimizer, for what it minimizes ("mse of output 0 + 0.5 * mae of output 1"),
 * and for the layouts of variables that are sharded. Owned by the caller. */
json_t *iso_state_loss(const iso_model *model);
/* "0: 1, 1: 3.5", or "none". */
const char *iso_state_class_weights(const iso_model *model);
json_t *iso_state_optimizer(const iso_optimizer *optimizer);
json_t *iso_state_layouts(const iso_graph *graph);
/* The hash of a model's layers, their settings and variables: identifies the model of a checkpoint. functions: with
 * those of keras.ops that a file had. */
iso_status iso_model_hash(const iso_model *model, bool functions, uint64_t *hash);

/* ---- tensors ---- */

/* The content of a model's file: the paths of its tensors and its state. */
typedef struct iso_state_dict iso_state_dict;
/* weights_only: without the optimizer and the state. Local. */
iso_status iso_state_dict_create(iso_model *model, bool weights_only, iso_state_dict **contents);
void iso_state_dict_destroy(iso_state_dict *contents);
/* Saves the model and, if not NULL, its training. No save of the saver is in progress, or its status is not wanted.
 * Collective. */
iso_status iso_state_dict_save(iso_state_dict *contents, const iso_training *training, iso_saver *saver,
                               const char *path, bool best);
/* Whether to read an optimizer's state from a file. */
typedef enum iso_optimizer_state {
    ISO_OPTIMIZER_IF_THERE, /* read it if the file has it */
    ISO_OPTIMIZER_NEEDED,   /* the file must have it */
    ISO_OPTIMIZER_LEFT,     /* do not read it */
    ISO_OPTIMIZER_ALONE,    /* read nothing else, and only if the file has it */
} iso_optimizer_state;
/* Reads all tensors of a model from an open file. All are checked before the first one is changed.
 * Collective. */
iso_status iso_model_read_tensors(iso_model *model, iso_saved_file *file, iso_optimizer_state optimizer);
/* Reads the optimizer's state from the file that the model was restored from, if any, and closes it.
 * Collective. */
iso_status iso_model_read_initial_optimizer(iso_model *model);

#endif
