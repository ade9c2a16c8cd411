/* Plans without functions, with the time of a step. For runtime/exec, `launch` and tests.
 * Functions are local unless their comment says otherwise. */
#ifndef ISO_EXEC_FUNCTION_DRY_RUN_H
#define ISO_EXEC_FUNCTION_DRY_RUN_H

#include "runtime/exec/function/function.h"
#include "runtime/report/plan_time.h"

typedef struct iso_plan_report iso_plan_report;

/* The same as iso_function_plan, with the time of a step (report->time) by a model; NULL: without it. */
iso_status iso_function_plan_timed(iso_graph *graph, int64_t rows, int slots_per_host,
                                   const iso_function_options *options, const iso_time_model *model,
                                   iso_plan_report **report);

#endif
