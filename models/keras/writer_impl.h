/* What writing Keras's files consists of. For models/keras only. */
#ifndef ISO_MODELS_KERAS_WRITER_IMPL_H
#define ISO_MODELS_KERAS_WRITER_IMPL_H

#include "runtime/base/json.h"
#include "runtime/graph/op.h"
#include "runtime/train/keras/topology.h"
#include "runtime/train/train.h"

/* config.json of a model: its network and, where it is compiled, what it is compiled with. *config is freed
 * with json_decref(). ISO_INVALID names the op or layer that Keras does not have. Local. */
iso_status iso_keras_describe(iso_model *model, json_t **config);

/* {"module": ..., "class_name": ..., "config": ..., "registered_name": null}; takes over `config`. NULL if
 * there is no memory or config is NULL. */
json_t *iso_keras_object(const char *module, const char *type, json_t *config);
/* Where the operations of keras.ops lie that take tensors and nothing else. */
#define ISO_KERAS_OPERATIONS "keras.src.ops.numpy"
/* The layer or operation of Keras that does what a bare op does: its module, its class and the arguments (the
 * caller's). ISO_INVALID names the op where there is none. */
iso_status iso_keras_layer_of_op(const iso_op *op, const char **module, const char **type, json_t **config);
/* Whether the outputs are those of a dictionary, in whose order they are then: that of their names. */
bool iso_keras_outputs_have_keys(iso_model *model);
/* "compile_config" of a compiled model: optimizer, losses, metrics. NULL if there is no memory. */
json_t *iso_keras_compile_config(iso_model *model);
/* The chief warns where a model is compiled with functions, which are left out. */
void iso_keras_warn_of_functions(iso_model *model);

#endif
