/* What `isogrid evaluate` and `isogrid predict` share: a model with weights from a file, and data for it. */
#ifndef ISO_LAUNCH_TRAINED_IMPL_H
#define ISO_LAUNCH_TRAINED_IMPL_H

#include "launch/train_impl.h"

typedef struct iso_trained_options {
    iso_train_options train; /* those of a training that matter here */
    const char *part;        /* "train" or "test" */
    const char *out;         /* of predict */
    bool json;               /* of evaluate */
} iso_trained_options;

/* The table of a command's options: those that both have, and `own` (`count` of them, with their places in
 * iso_trained_options; without losses and metrics unless `compiles`). */
typedef struct iso_trained_command {
    bool compiles; /* the model is compiled, and its data have targets */
    int count;
    const iso_argument *own;
} iso_trained_command;
iso_status iso_trained_options_parse(const iso_trained_command *command, int argc, char *const *argv,
                                     iso_trained_options *options);
void iso_trained_options_help(const iso_trained_command *command, iso_text *text);

typedef struct iso_trained {
    iso_named_model named;
    iso_place place;
    iso_dataset *data;
} iso_trained;
/* Makes all of it as the options say, the model with its weights. `trained` must be zero; what has been made
 * is in it even after an error. Collective. */
iso_status iso_trained_make(iso_context *ctx, const iso_trained_command *command,
                            const iso_trained_options *options, iso_trained *trained);
void iso_trained_free(iso_trained *trained);

#endif
