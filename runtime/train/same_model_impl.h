/* Comparison of a model between the ranks. For runtime/train only. */
#ifndef ISO_TRAIN_SAME_MODEL_IMPL_H
#define ISO_TRAIN_SAME_MODEL_IMPL_H

#include "runtime/train/model_impl.h"

/* ISO_INVALID where the ranks do not have the same layers, variables, optimizer, losses and metrics: names
 * the ranks and the first setting that differs, with both values. To be called after they were built.
 * Collective. */
iso_status iso_model_agree_same(const iso_model *model);

#endif
