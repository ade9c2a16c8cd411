/* Compiling a model that is only evaluated, as a command of launch does. */
#ifndef ISO_TRAIN_COMPILE_H
#define ISO_TRAIN_COMPILE_H

#include "runtime/train/model.h"

/* iso_compile_with without a training function, so that no memory for gradients and the optimizer is needed. iso_fit
 * is ISO_INVALID for such a model. Collective. */
iso_status iso_compile_evaluation(iso_model *model, const iso_compile_options *options, size_t size);

#endif
