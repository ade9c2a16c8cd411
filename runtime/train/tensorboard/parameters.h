/* The hyperparameters of a training, as readable text. */
#ifndef ISO_TRAIN_TENSORBOARD_PARAMETERS_H
#define ISO_TRAIN_TENSORBOARD_PARAMETERS_H

#include "runtime/base/text.h"
#include "runtime/train/callbacks.h"

/* Adds a table in Markdown. Local. */
void iso_parameters_text(const iso_fit_state *state, iso_text *text);

#endif
