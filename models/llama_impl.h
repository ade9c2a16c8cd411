/* The options of LLaMA. For models/ only. */
#ifndef ISO_MODELS_LLAMA_IMPL_H
#define ISO_MODELS_LLAMA_IMPL_H

#include "models/llama.h"
#include "runtime/base/descriptor.h"

/* The options that have defaults. */
extern const iso_setting iso_llama_settings[];

#endif
