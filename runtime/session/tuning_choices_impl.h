/* The file of --tune and its choices. For runtime/session only. */
#ifndef ISO_SESSION_TUNING_CHOICES_IMPL_H
#define ISO_SESSION_TUNING_CHOICES_IMPL_H

#include "runtime/backend/backend.h"
#include "runtime/session/tuning_choices.h"

/* The file of --tune; NULL: the option is not given. */
const char *iso_tuning_file(const iso_context *ctx);
/* The choices in such a file or in a checkpoint: "ops"; earlier versions named them "works". NULL: none. */
json_t *iso_tuning_ops(const json_t *root);
/* Compares the ranks' choices for the ops of their plans, and keeps them for checkpoints. ISO_INVALID names an op
 * that ranks do in different ways. Collective. */
iso_status iso_tuning_choices_agree(iso_context *ctx, const iso_backend_tuning *tuning);
void iso_tuning_choices_free(iso_context *ctx);

#endif
