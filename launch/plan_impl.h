/* The parts of `isogrid plan`. */
#ifndef ISO_LAUNCH_PLAN_IMPL_H
#define ISO_LAUNCH_PLAN_IMPL_H

#include "launch/train_impl.h"
#include "runtime/exec/suggest.h"

typedef struct iso_plan_options {
    iso_train_options train; /* those of a training that concern its plan */
    const char *shape, *memory;
    int64_t slots_per_host, slots;
    bool json, suggest;
    /* read from the above */
    iso_shape row;
    double limit; /* bytes; 0: none */
    bool limit_of_slot;
} iso_plan_options;

/* A model that is planned, and everything that its report lends texts from. */
typedef struct iso_dry_run {
    iso_named_model named;
    iso_distribution_setup setup;
    iso_function_options training;
    iso_plan_report *report;
} iso_dry_run;

/* Searches layouts for a model that is built, and prints the best: a file for --layout-file on stdout, what
 * was found on stderr. ISO_INVALID where none fits into the memory that there is. Collective. */
iso_status iso_plan_suggest(iso_context *ctx, const iso_plan_options *options, iso_dry_run *p);

#endif
