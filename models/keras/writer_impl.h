/* The parts of the writer of Keras's files. For models/keras only. */
#ifndef ISO_MODELS_KERAS_WRITER_IMPL_H
#define ISO_MODELS_KERAS_WRITER_IMPL_H

#include "runtime/base/json.h"
#include "runtime/graph/op.h"
#include "runtime/train/keras/topology.h"
#include "runtime/train/train.h"

/* config.json of a model: its network and, if it is compiled, the compile settings. Free *config with
 * json_decref(). ISO_INVALID names the op or layer that Keras does not have. Local. */
iso_status iso_keras_describe(iso_model *model, json_t **config);

/* {"module": ..., "class_name": ..., "config": ..., "registered_name": null}; takes over `config`. NULL if
 * there is no memory or config is NULL. */
json_t *iso_keras_object(const char *module, const char *type, json_t *config);
/* The module of those operations of keras.ops whose only arguments are tensors. */
#define ISO_KERAS_OPERATIONS "keras.src.ops.numpy"
#define ISO_KERAS_CAST "Cast"
/* A tensor among the arguments of a call; in the record of a function its config has only the number of the input.
 * The member of a function's record that holds a text of JSON. */
#define ISO_KERAS_TENSOR "__keras_tensor__"
#define ISO_KERAS_INPUT "input"
#define ISO_KERAS_JSON "json"
/* Whether a module of Keras holds operations, not layers. */
bool iso_keras_is_module_of_operations(const char *module);
/* The layer or operation of Keras that computes the same as an op outside layers: its module, class and
 * arguments (owned by the caller). ISO_INVALID names the op if there is none. */
iso_status iso_keras_layer_of_op(const iso_op *op, const char **module, const char **type, json_t **config);
/* The argument besides the tensors of an op that is written as an operation, as the key of GetItem, and whether it
 * comes before them (owned by the caller); NULL: there is none. */
json_t *iso_keras_other_argument(const iso_op *op, bool *first);
/* Whether Keras makes masks by operations of this class ("NotEqual"). */
bool iso_keras_is_mask_operation(const char *type);
/* Whether Keras may give this name to an operation of its masks that has the same class: "not_equal_1". */
bool iso_keras_is_name_of_mask(const char *type, const char *name);
/* ISO_INVALID: Keras could not load the model, because an operation of its masks gets the name of a layer. */
iso_status iso_keras_check_masks(const iso_graph *graph);
/* Whether these are all keys of a dictionary, in its order. NULL: no key. */
bool iso_keras_are_keys(const char *const *key, int count);
/* Whether the outputs are those of a dictionary. They are then in the order of their names. */
bool iso_keras_outputs_have_keys(iso_model *model);
/* "compile_config" of a compiled model: optimizer, losses, metrics. NULL if there is no memory. */
json_t *iso_keras_compile_config(iso_model *model);
/* The chief warns if a model is compiled with functions of the program, which are omitted. */
void iso_keras_warn_of_functions(iso_model *model);
/* The same for settings of metrics that Keras's do not have. */
void iso_keras_warn_of_settings(iso_model *model);

#endif
