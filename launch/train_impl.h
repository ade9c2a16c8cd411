/* The parts of `isogrid train`. */
#ifndef ISO_LAUNCH_TRAIN_IMPL_H
#define ISO_LAUNCH_TRAIN_IMPL_H

#include "launch/train_options.h"
#include "models/models.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/data/data.h"
#include "runtime/session/session.h"
#include "runtime/spmd/spmd.h"
#include "runtime/train/train.h"

/* How an output is written. */
typedef enum iso_target_kind {
    ISO_TARGET_FOLDER,   /* a folder, which may have to be made */
    ISO_TARGET_IN_PLACE, /* a file */
    ISO_TARGET_REPLACED, /* a file that is made beside what has its name */
    ISO_TARGET_BELOW,    /* the same, in a folder that may have to be made */
} iso_target_kind;
/* ISO_INVALID where the output cannot be written, with path and reason. option: "--out ", or "". By one rank.
 */
iso_status iso_target_check(const char *option, const char *path, iso_target_kind kind);
/* Of a .keras or .weights.h5 file. */
iso_target_kind iso_target_of_model(const char *path);
/* Whether what options name can be written: files, and folders that may have to be made. ISO_INVALID names
 * option, path and reason. By one rank. */
iso_status iso_targets_check(const iso_train_options *options);

/* Puts what options say of optimizer, loss and metrics in the place of a model's own choices. Local. */
iso_status iso_compile_options_replace(const iso_train_options *options, iso_compile_options *compile);
/* ISO_INVALID where nothing says what the model's loss is. */
iso_status iso_compile_options_check(const iso_train_options *options, const iso_compile_options *compile);
/* ISO_INVALID where the model's file has an optimizer that is not supported, and options give no other. */
iso_status iso_compile_options_check_optimizer(const iso_compile_options *compile);

/* What --model names: a built-in network, or a file of Keras's, its .keras or its config.json. */
typedef struct iso_named_model {
    const iso_builtin_model *builtin; /* NULL: a file */
    int n_outputs;                    /* of a built-in one: --classes */
    bool weights;                     /* the file has weights too */
    iso_model *model;                 /* NULL: not made yet */
    iso_compile_options compile; /* the model's own choices, where options do not say otherwise; without a
                                    distribution */
} iso_named_model;
/* Finds it; the model of a file is then made. `named` must be zero; what has been made is in it even after an
 * error. Collective. */
iso_status iso_named_model_find(iso_context *ctx, const iso_train_options *options, iso_named_model *named);
/* Makes a built-in model for rows of this shape. Local. */
void iso_named_model_make(iso_context *ctx, const iso_train_options *options, const iso_shape *row,
                          iso_named_model *named);
/* Gives the model the weights of --weights, else those of its file if it has any; with the optimizer's state
 * unless they are wanted alone. Collective. */
iso_status iso_named_model_load_weights(iso_context *ctx, const iso_train_options *options, bool alone,
                                        iso_named_model *named);
void iso_named_model_free(iso_named_model *named);

/* The data sets of a run, each NULL where it was not asked for. */
typedef struct iso_sources {
    iso_dataset *training, *validation, *test;
} iso_sources;
/* Opens, checks, splits, shuffles and batches what the options say. `sources` must be zero; what has been
 * opened is in it even after an error. named: what random data must suit. Collective. */
iso_status iso_sources_open(iso_context *ctx, const iso_train_options *options, const iso_named_model *named,
                            iso_sources *sources);
void iso_sources_close(iso_sources *sources);
/* One data set in its order, in batches: --data. no_targets: only its inputs, where that can be had. *dataset
 * may have been made even after an error. Collective. */
iso_status iso_source_open(iso_context *ctx, const iso_train_options *options, iso_part part,
                           const iso_named_model *named, bool no_targets, iso_dataset **dataset);

/* The file that is meant where a checkpoint is named by its folder or by FOLDER/latest (the newest that is
 * whole), or by FOLDER/best: iso_free. NULL: path is that of a file. option: for messages. ISO_INVALID where
 * there is none. Collective. */
iso_status iso_checkpoint_resolve(iso_context *ctx, const char *option, const char *path, char **found);

/* The checkpoint from which a run goes on, and what the run takes from it. NULL: nothing. */
typedef struct iso_resumption {
    iso_saved_file *file; /* open, until iso_fit gets it */
    char *mesh;           /* where --mesh was not given */
} iso_resumption;
/* As --resume, --checkpoint and --backup say; the context gets the checkpoint's seed where --seed was not
 * given. `from` must be zero; what has been found is in it even after an error. Collective. */
iso_status iso_resumption_find(iso_context *ctx, const iso_train_options *options, iso_resumption *from);
void iso_resumption_free(iso_resumption *from);

/* The callbacks that options ask for, ending with NULL, for iso_fit. reading: see iso_timings_file. Local. */
enum { ISO_MAX_RUN_CALLBACKS = 16 };
void iso_run_callbacks(iso_context *ctx, const iso_train_options *options, double reading,
                       iso_callback *callbacks[ISO_MAX_RUN_CALLBACKS]);

/* The mesh and how weights lie on it. `setup` must be zero; what has been made is in it even after an error.
 * Collective. */
typedef struct iso_distribution_setup {
    iso_mesh *mesh;
    iso_layout_map *map;
    iso_distribution *distribution;
} iso_distribution_setup;
iso_status iso_distribution_setup_make(iso_context *ctx, const iso_train_options *options,
                                       iso_distribution_setup *setup);
/* The layouts of a setup whose mesh exists. Collective. */
iso_status iso_distribution_setup_lay_out(iso_context *ctx, const iso_train_options *options,
                                          iso_distribution_setup *setup);
void iso_distribution_setup_free(iso_distribution_setup *setup);

/* The lines at the head of a run, before and after the model is compiled; whole: all that `isogrid plan`
 * prints. The chief prints; collective. */
void iso_banner_print(iso_context *ctx, const iso_train_options *options,
                      const iso_distribution_setup *setup);
iso_status iso_banner_print_plan(iso_context *ctx, iso_model *model, int64_t rows, bool whole);

/* A callback that writes one JSON line for each epoch, with its seconds, and in the first the seconds from
 * the start of the process (of mpirun, where that started it) to the end of the first step, and those of them
 * that opened the data (`reading`). Chief only. */
iso_callback *iso_timings_file(iso_context *ctx, const char *path, double reading);

#endif
