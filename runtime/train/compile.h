/* Compiling a model that is only evaluated, and checking its data, as commands of launch do. */
#ifndef ISO_TRAIN_COMPILE_H
#define ISO_TRAIN_COMPILE_H

#include "runtime/train/model.h"

/* iso_compile_with without a training function, so that no memory for gradients and the optimizer is needed. iso_fit
 * is ISO_INVALID for such a model. Collective. */
iso_status iso_compile_evaluation(iso_model *model, const iso_compile_options *options, size_t size);
/* ISO_INVALID if iso_evaluate would refuse these data for a compiled model; reads none of them. Local. */
iso_status iso_check_evaluation(iso_model *model, iso_dataset *data);

#endif
