/* A model's weights part by part, for readers and writers of other files. For models. */
#ifndef ISO_TRAIN_WEIGHTS_H
#define ISO_TRAIN_WEIGHTS_H

#include "runtime/base/shards.h"
#include "runtime/train/model.h"

typedef enum iso_weights_use { ISO_WEIGHTS_READ, ISO_WEIGHTS_REPLACE } iso_weights_use;

/* Calls `visit` on each rank for each part of the model's variables, without those of the optimizer, that the rank
 * holds (shards.h); it reads the part's memory or writes all of it. The model may be compiled or not. what: for
 * messages. ISO_INVALID: the model has an error; the status of `visit`. Collective. */
iso_status iso_model_visit_weights(iso_model *model, const char *what, iso_weights_use use,
                                   iso_status (*visit)(void *user, const iso_state_shard *shard), void *user);

#endif
