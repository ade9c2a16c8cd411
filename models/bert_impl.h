/* The options of BERT. For models/ only. */
#ifndef ISO_MODELS_BERT_IMPL_H
#define ISO_MODELS_BERT_IMPL_H

#include "models/bert.h"
#include "runtime/base/descriptor.h"

/* The options that have defaults. */
extern const iso_setting iso_bert_settings[];

#endif
