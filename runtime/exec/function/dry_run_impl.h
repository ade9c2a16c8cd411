/* Plans that belong to no function. For runtime/exec only. */
#ifndef ISO_EXEC_FUNCTION_DRY_RUN_IMPL_H
#define ISO_EXEC_FUNCTION_DRY_RUN_IMPL_H

#include "runtime/exec/function/function.h"
#include "runtime/plan/plan.h"

typedef struct iso_dry_plan {
    iso_program *program;
    iso_bucket_list buckets;
    iso_site site;
    int *hosts; /* the site's tables */
    iso_plan *plan;
} iso_dry_plan;

/* The same as iso_function_plan. keeps_all: plans as if no activation was recomputed for the backward pass. `dry`
 * must not move in memory; it must be freed also after an error. */
iso_status iso_dry_plan_make(iso_graph *graph, int64_t rows, int slots_per_host,
                             const iso_function_options *options, bool keeps_all, iso_dry_plan *dry);
void iso_dry_plan_free(iso_dry_plan *dry);

#endif
