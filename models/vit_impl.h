/* The options of ViT. For models/ only. */
#ifndef ISO_MODELS_ViT_IMPL_H
#define ISO_MODELS_ViT_IMPL_H

#include "models/vit.h"
#include "runtime/base/descriptor.h"

/* The options that have defaults. */
extern const iso_setting iso_vit_settings[];

#endif
