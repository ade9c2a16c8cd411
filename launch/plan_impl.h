/* The parts of `isogrid plan`. */
#ifndef ISO_LAUNCH_PLAN_IMPL_H
#define ISO_LAUNCH_PLAN_IMPL_H

#include "launch/train_impl.h"
#include "runtime/exec/suggest.h"

typedef struct iso_plan_options {
    iso_train_options train; /* the options of `isogrid train` that affect its plan */
    const char *shape, *memory;
    int64_t slots_per_host, slots;
    bool json, suggest;
    /* read from the above */
    iso_shape row;
    double limit; /* bytes; 0: none */
    bool limit_of_slot;
} iso_plan_options;

/* A planned model, with everything whose texts its report uses. */
typedef struct iso_dry_run {
    iso_named_model named;
    iso_distribution_setup setup;
    iso_function_options training;
    iso_plan_report *report;
} iso_dry_run;

/* Searches for layouts of a model that has been built. Prints the best as a file for --layout-file on stdout,
 * and the costs on stderr. ISO_INVALID if no layouts fit into the memory. Collective. */
iso_status iso_plan_suggest(iso_context *ctx, const iso_plan_options *options, iso_dry_run *p);

#endif
