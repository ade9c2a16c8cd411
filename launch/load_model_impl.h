/* Shared by `isogrid evaluate` and `isogrid predict`: a model with weights from a file, and its data. */
#ifndef ISO_LAUNCH_LOAD_MODEL_IMPL_H
#define ISO_LAUNCH_LOAD_MODEL_IMPL_H

#include "launch/train_impl.h"

typedef struct iso_load_options {
    iso_train_options train; /* the options of `isogrid train` that apply here */
    const char *part;        /* "train" or "test"; NULL: "test", unless options of `train` name rows */
    const char *out;         /* predict */
    bool json;               /* evaluate */
} iso_load_options;

/* The table of a command's options: those that both commands have (losses and metrics only if `compiles`),
 * and `own`, `count` rows with offsets in iso_load_options. */
typedef struct iso_load_command {
    bool compiles; /* the model is compiled, and its data has targets */
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
/* Makes all members as the options say, the model with its weights. `loaded` must be zero; after an error it
 * holds what has been made. Collective. */
iso_status iso_loaded_model_make(iso_context *ctx, const iso_load_command *command,
                                 const iso_load_options *options, iso_loaded_model *loaded);
void iso_loaded_model_free(iso_loaded_model *loaded);

#endif
