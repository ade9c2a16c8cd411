/* The options of GPT-2. For models/ only. */
#ifndef ISO_MODELS_GPT_IMPL_H
#define ISO_MODELS_GPT_IMPL_H

#include "models/gpt.h"
#include "runtime/base/descriptor.h"

/* The options that have defaults. */
extern const iso_setting iso_gpt_settings[];

#endif
