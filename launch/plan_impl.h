/* The parts of `isogrid plan`. */
#ifndef ISO_LAUNCH_PLAN_IMPL_H
#define ISO_LAUNCH_PLAN_IMPL_H

#include "launch/command_line.h"
#include "launch/train_impl.h"
#include "runtime/base/json.h"
#include "runtime/exec/auto_sharding/suggest.h"
#include "runtime/exec/calibrate/calibrate.h"
#include "runtime/exec/function/dry_run.h"

typedef struct iso_plan_options {
    iso_train_options train; /* the options of `isogrid train` that affect its plan */
    const char *shape, *memory, *gpu_exchange;
    int64_t slots_per_host, gpus_per_host, slots;
    bool json, suggest;
    /* read from the above */
    iso_shape row;
    double limit; /* bytes; 0: none */
    bool limit_of_slot, limit_of_gpu;
} iso_plan_options;

/* A planned model, with everything whose texts its report uses. */
typedef struct iso_dry_run {
    iso_named_model named;
    iso_distribution_setup setup;
    iso_function_options training;
    iso_plan_report *report;
    iso_calibration *calibration; /* of --time; else NULL */
    iso_time_model time;
} iso_dry_run;

/* An option of `isogrid plan`, for a table of options that begins with an iso_plan_options. */
iso_argument iso_plan_argument(const char *name);
/* Finds and builds the model on the mesh and with the layouts of the options. `p` must be zero; after an error it
 * holds what has been made. Collective. */
iso_status iso_dry_run_prepare(iso_context *ctx, const iso_plan_options *options, iso_dry_run *p);
/* Finds and builds the model without mesh and layouts, and reads the calibration, for a search of layouts. `p` as
 * above. Collective. */
iso_status iso_dry_run_prepare_search(iso_context *ctx, const iso_plan_options *options, iso_dry_run *p);
void iso_dry_run_free(iso_dry_run *p);

/* Read files of calibrations and networks on rank 0, for all ranks. ISO_INVALID names option and file, and what is
 * wrong in it. The caller destroys *calibration. Collective. */
iso_status iso_calibration_read(iso_context *ctx, const char *option, const char *path,
                                iso_calibration **calibration);
iso_status iso_network_read(iso_context *ctx, const char *option, const char *path, iso_network *network);

/* Searches for layouts of a model that has been built. Prints the best as a file for --layout-file on stdout,
 * and the costs on stderr. ISO_INVALID if no layouts fit into the memory. Collective. */
iso_status iso_plan_suggest(iso_context *ctx, const iso_plan_options *options, iso_dry_run *p);
/* The same without printing, for a run of the training options: *choice is that of an iso_distribution_setup, the
 * same on all ranks. The caller's. Collective. */
iso_status iso_layouts_choose(iso_context *ctx, const iso_plan_options *options, json_t **choice);
/* Compares data parallel on a mesh with the common patterns of tensor parallelism. If one of these is estimated to
 * cost at least a tenth less, adds to `hint`, on the chief, that it does. Collective. */
iso_status iso_layouts_hint(iso_context *ctx, const iso_plan_options *options, const char *mesh,
                            iso_text *hint);

#endif
