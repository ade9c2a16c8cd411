/* The parts of `isogrid train`. */
#ifndef ISO_LAUNCH_TRAIN_IMPL_H
#define ISO_LAUNCH_TRAIN_IMPL_H

#include "launch/train_options.h"
#include "models/huggingface/huggingface.h"
#include "models/models.h"
#include "runtime/base/json.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/data/data.h"
#include "runtime/session/session.h"
#include "runtime/spmd/spmd.h"
#include "runtime/train/train.h"

/* The kinds of files that a run writes. */
typedef enum iso_target_kind {
    ISO_TARGET_FOLDER,   /* a folder, created if it is missing */
    ISO_TARGET_IN_PLACE, /* a file */
    ISO_TARGET_REPLACED, /* what iso_file_replace writes: a link stays, and a device or a pipe is written to */
    ISO_TARGET_RENAMED,  /* a file that is written under another name and then replaces the old one */
    ISO_TARGET_BELOW,    /* the same, in a folder that is created if it is missing */
} iso_target_kind;
/* ISO_INVALID if the output cannot be written, with path and reason. option: "--out ", or "". On one rank. */
iso_status iso_output_path_check(const char *option, const char *path, iso_target_kind kind);
/* Checks that the files and folders that options name can be written, and that no file is overwritten
 * (iso_overwrites_check). ISO_INVALID names option, path and reason. On one rank. */
iso_status iso_output_paths_check(const iso_train_options *options);
/* ISO_INVALID names both options if a file that the run writes is one that it reads, or another that it writes, or if
 * --backup has the folder of --checkpoint. In a folder of a data set or of checkpoints, each file counts that may be
 * read or written there. --save and --checkpoint may replace the file of the model or its weights. On one rank. */
iso_status iso_overwrites_check(const iso_train_options *options);
/* The same for one more output, which may replace no input. Local. */
iso_status iso_overwrite_check(const iso_train_options *options, const char *option, const char *path);
/* The same for one output and one input, which the message calls `what`. Local. */
iso_status iso_overwrite_check_file(const char *option, const char *path, const char *what,
                                    const char *input);

/* Metrics from text, each with the settings of its row by Keras's names: "accuracy,top_k(k=3),auc(curve=PR)". names
 * get the names as spelled. The arrays have ISO_MAX_METRICS members. ISO_INVALID names what is wrong. Local. */
iso_status iso_metrics_parse(const char *text, iso_metric *metrics, const char **names,
                             iso_metric_settings *settings);
/* A loss from text, likewise: "huber(delta=0.5)". Its settings replace those of all losses in *output. Local. */
iso_status iso_loss_parse(const char *text, iso_output_options *output);
/* Replaces a model's own optimizer, loss and metrics by those that options set. Local. */
iso_status iso_compile_options_replace(const iso_train_options *options, iso_compile_options *compile);
/* ISO_INVALID if neither the model nor the options have a loss. */
iso_status iso_compile_options_check(const iso_train_options *options, const iso_compile_options *compile);
/* ISO_INVALID if the model's file has an optimizer that is not supported, and options set no other. */
iso_status iso_compile_options_check_optimizer(const iso_compile_options *compile);

/* The model that --model names: a built-in network, a folder of Hugging Face, or a .keras or config.json file of
 * Keras. */
typedef struct iso_named_model {
    const iso_builtin_model *builtin; /* of a built-in one or a folder; NULL: a file of Keras */
    int n_outputs;                  /* of a built-in one: --classes; of a folder: its vocabulary or labels */
    iso_builtin_settings settings;  /* of a built-in one or a folder */
    iso_pretrained_problem problem; /* of a folder */
    char *folder;                   /* of Hugging Face; NULL: it is none */
    int64_t context;      /* of the rows of data, if a folder's name is followed by it; 0: the model's */
    bool weights;         /* the file or the folder has weights too */
    bool tokenizer;       /* the folder has a tokenizer.json */
    bool other_tokenizer; /* it has none, but a tokenizer of another form */
    bool quiet;           /* set before it is found: the file's warnings have been given */
    iso_model *model;     /* NULL: not made yet */
    int accumulation;     /* of the file's optimizer */
    iso_pretrained_adapter adapter; /* of --adapter; target NULL: none */
    iso_compile_options compile;    /* the model's own settings, replaced by those of options; without a
                                    distribution */
} iso_named_model;
/* Finds it, and makes the model of a file. `named` must be zero; after an error it holds what has been made.
 * Collective. */
iso_status iso_named_model_find(iso_context *ctx, const iso_train_options *options, iso_named_model *named);
/* The number of tokens of the rows into which it cuts a text; 0: its data have rows. */
int64_t iso_named_model_context(const iso_named_model *named);
/* Of a built-in model: how many labels a row has, one for each of its tokens; 0: one label. */
int64_t iso_named_model_positions(const iso_named_model *named);
/* Of a built-in model: the number below which its tokens must be; 0: it takes none. */
int64_t iso_named_model_vocabulary(const iso_named_model *named);
/* Of a built-in model: the shape of a row if no data have one. */
iso_shape iso_named_model_row(const iso_named_model *named);
/* Makes a built-in model for rows of this shape; of rank 0: iso_named_model_row. Local. */
void iso_named_model_make(iso_context *ctx, const iso_train_options *options, const iso_shape *row,
                          iso_named_model *named);
/* Compiles it to be evaluated on this data. Collective. */
iso_status iso_named_model_compile(const iso_named_model *named, const iso_dataset *data,
                                   iso_distribution *distribution);
/* Loads the weights of --weights, or else those of the model's file if it has any, and unless `alone` is true
 * the optimizer's state. Collective. */
iso_status iso_named_model_load_weights(iso_context *ctx, const iso_train_options *options, bool alone,
                                        iso_named_model *named);
void iso_named_model_free(iso_named_model *named);
/* Finds the model of a folder of Hugging Face: *found says whether --model names one. Collective. */
iso_status iso_pretrained_model_find(iso_context *ctx, const iso_train_options *options,
                                     iso_named_model *named, bool *found);

/* ISO_INVALID if this model cannot be saved under this name. Local. */
iso_status iso_named_model_save_check(const iso_named_model *named, const char *path);
/* Saves the model in the form that the name says, with the options for Hugging Face. Collective. */
iso_status iso_named_model_save(const iso_named_model *named, const iso_train_options *options,
                                const char *path);

/* The data sets of a run; NULL: not requested. */
typedef struct iso_sources {
    iso_dataset *training, *validation, *test;
    const char *tokenizer; /* by which the training data was made of text; NULL: it was not */
} iso_sources;
/* What makes the tokens of a text: a name for iso_tokenizer_open; NULL: its bytes are tokens. */
const char *iso_tokenizer_name(const iso_train_options *options, const iso_named_model *named);
/* ISO_INVALID if --mask-tokens is given, and the model or other options do not suit it. Local. */
iso_status iso_mask_tokens_check(const iso_train_options *options, const iso_named_model *named);
/* With --mask-tokens: the stage of it for each data set; it changes with the epoch for the training data alone. */
iso_status iso_mask_tokens_add(const iso_train_options *options, const iso_named_model *named,
                               const iso_sources *sources);
/* Whether the data set has sample weights; NULL: no data. */
bool iso_data_weighted(const iso_dataset *data);
/* Whether these weights are of the positions of each row. */
bool iso_data_weighs_positions(const iso_dataset *data);
/* Opens, checks, splits, shuffles and batches the data of the options. `sources` must be zero; after an error
 * it holds what has been opened. named: the model that random data is made for. Collective. */
iso_status iso_sources_open(iso_context *ctx, const iso_train_options *options, const iso_named_model *named,
                            iso_sources *sources);
void iso_sources_close(iso_sources *sources);
/* The data set of --data, in its order, in batches. no_targets: only its inputs, if the source can read them
 * alone. *dataset may have been made even after an error. Collective. */
iso_status iso_source_open(iso_context *ctx, const iso_train_options *options, iso_part part,
                           const iso_named_model *named, bool no_targets, iso_dataset **dataset);

/* The validation data of the options alone, in batches. *dataset may have been made even after an error.
 * Collective. */
iso_status iso_validation_open(iso_context *ctx, const iso_train_options *options,
                               const iso_named_model *named, iso_dataset **dataset);

/* The evaluator of `isogrid train`: follows the checkpoints of the options and evaluates them on their validation
 * data. Collective. */
iso_status iso_follow_training(iso_context *ctx, const iso_train_options *options);

/* The checkpoint from which a run resumes, and its mesh. NULL: none. */
typedef struct iso_resumption {
    iso_saved_file *file; /* open until iso_fit takes it */
    char *mesh;           /* if --mesh was not given */
    json_t *
        distribution; /* the rules of its layouts (runtime/spmd/distribution_json.h); NULL: an older version wrote it */
    bool leaves_backup; /* there is a backup, which is older */
    char *line;         /* for the user, to be printed when training has resumed; NULL: none */
} iso_resumption;
/* Follows --resume, --checkpoint and --backup; the context gets the checkpoint's seed if --seed was not given.
 * `from` must be zero; after an error it holds what has been found. Collective. */
iso_status iso_resumption_find(iso_context *ctx, const iso_train_options *options, iso_resumption *from);
void iso_resumption_free(iso_resumption *from);

/* The callbacks of the options for iso_fit, ending with NULL. from: where the run resumes; reading: see
 * iso_timings_file. Local. */
enum { ISO_MAX_RUN_CALLBACKS = 16 };
void iso_run_callbacks(iso_context *ctx, const iso_train_options *options, const iso_resumption *from,
                       double reading, iso_callback *callbacks[ISO_MAX_RUN_CALLBACKS]);

/* The mesh of a run without --mesh, for a batch of so many rows: "data=*", but in a single process on CPUs with slots
 * that suit the batch. Local. */
void iso_default_mesh_write(iso_context *ctx, int64_t rows, char *text, size_t size);

/* The mesh and the layouts of weights. `setup` must be zero; after an error it holds what has been made.
 * Collective. */
typedef struct iso_distribution_setup {
    iso_mesh *mesh;
    iso_layout_map *map;
    iso_distribution *distribution;
    json_t *
        choice; /* of --layout auto: an object of `mesh`, `reason` (for the banner), `name` (for messages) and
                       `distribution` (rules of runtime/spmd/distribution_json.h); NULL: layouts are those of the options */
} iso_distribution_setup;
/* Makes the choice of --layout auto: the layouts of the checkpoint from which the run resumes, or else those that a
 * search proposes. row: the shape of a built-in model's input. ISO_INVALID: the checkpoint stores no layouts.
 * Collective. */
iso_status iso_distribution_setup_choose(iso_context *ctx, const iso_train_options *options,
                                         const iso_shape *row, const iso_resumption *from,
                                         iso_distribution_setup *setup);
/* Prints on the chief whether tensor parallelism is estimated to be clearly faster, for a data parallel run without
 * layout options on the CPU of one host. An error of the comparison is printed and does not end the run. row: the
 * shape of a built-in model's input. Collective. */
void iso_layouts_print_hint(iso_context *ctx, const iso_train_options *options, const iso_shape *row,
                            const iso_resumption *from, const iso_mesh *mesh);
/* Uses the mesh of the choice, if there is one. Collective. */
iso_status iso_distribution_setup_make(iso_context *ctx, const iso_train_options *options,
                                       iso_distribution_setup *setup);
/* The layouts of a setup whose mesh exists. Collective. */
iso_status iso_distribution_setup_lay_out(iso_context *ctx, const iso_train_options *options,
                                          iso_distribution_setup *setup);
void iso_distribution_setup_free(iso_distribution_setup *setup);

/* The first lines of a run, before and after the model is compiled; whole: the output of `isogrid plan`. The
 * chief prints; collective. */
iso_status iso_banner_print(iso_context *ctx, const iso_train_options *options,
                            const iso_distribution_setup *setup);
/* Rows of the parts of the data, and the shapes and stored types of a row's components. Local. */
void iso_banner_print_data(iso_context *ctx, const iso_train_options *options, const iso_sources *sources);
iso_status iso_banner_print_plan(iso_context *ctx, iso_model *model, int64_t rows, bool whole);

/* A callback that writes one JSON line for each epoch, with its seconds, and in the first the seconds from
 * the start of the process (or of the mpirun that started it) to the end of the first step, and the part of
 * these that opened the data (`reading`). Only the chief writes. */
iso_callback *iso_timings_file(iso_context *ctx, const char *path, double reading);

#endif
