/* What `isogrid evaluate` and `isogrid predict` share: a model with weights from a file, and data for it. */
#ifndef ISO_LAUNCH_LOAD_MODEL_IMPL_H
#define ISO_LAUNCH_LOAD_MODEL_IMPL_H

#include "launch/train_impl.h"

typedef struct iso_load_options {
    iso_train_options train; /* those of a training that matter here */
    const char *part;        /* "train" or "test" */
    const char *out;         /* of predict */
    bool json;               /* of evaluate */
} iso_load_options;

/* The table of a command's options: those that both have, and `own` (`count` of them, with their places in
 * iso_load_options; without losses and metrics unless `compiles`). */
typedef struct iso_load_command {
    bool compiles; /* the model is compiled, and its data have targets */
    int count;
    const iso_argument *own;
} iso_load_command;
iso_status iso_load_options_parse(const iso_load_command *command, int argc, char *const *argv,
                                  iso_load_options *options);
void iso_load_options_help(const iso_load_command *command, iso_text *text);

typedef struct iso_loaded_model {
    iso_named_model named;
    iso_distribution_setup setup;
    iso_dataset *data;
} iso_loaded_model;
/* Makes all of it as the options say, the model with its weights. `loaded` must be zero; what has been made
 * is in it even after an error. Collective. */
iso_status iso_loaded_model_make(iso_context *ctx, const iso_load_command *command,
                                 const iso_load_options *options, iso_loaded_model *loaded);
void iso_loaded_model_free(iso_loaded_model *loaded);

#endif
