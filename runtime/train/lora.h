/* Low-rank adapters of a model: iso_lora_begin. */
#ifndef ISO_TRAIN_LORA_H
#define ISO_TRAIN_LORA_H

#include "runtime/train/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The number of kernels and tables that have adapters; 0 while they are merged. Local. */
ISO_API int iso_model_adapter_count(const iso_model *model);
/* Adds the adapters' products to their kernels, and sets each b to 0: the model computes the same, within rounding.
 * Until it is trained again, files that it is saved in are those of a model without adapters, and hold no state of
 * the optimizer. Nothing happens without adapters. The model may be compiled or not. ISO_INVALID: the model has an
 * error. Collective. */
ISO_API iso_status iso_model_merge_adapters(iso_model *model);

#ifdef __cplusplus
}
#endif
#endif
