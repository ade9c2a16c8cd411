/* Functions as data: plans, traces of a run, and the parts of variables in this process's memory.
 * Functions are local unless their comment says otherwise. */
#ifndef ISO_EXEC_FUNCTION_INSPECT_H
#define ISO_EXEC_FUNCTION_INSPECT_H

#include "runtime/base/shards.h"
#include "runtime/base/text.h"
#include "runtime/exec/function/function.h"
#include "runtime/report/plan_report.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The plan of a function that is not made: on one process for any mesh, without memory, data or threads.
 * slots_per_host: the number of slots that each host is assumed to have, in the order of the slots' ranks (in
 * mesh order if the mesh has no list of ranks); 0: one host has all slots. The graph's distribution must have
 * a mesh. The caller frees the report with iso_plan_report_destroy(). ISO_INVALID: there is no such mesh, rows
 * or slots_per_host is out of range, or what iso_function_create refuses. Local. */
ISO_API iso_status iso_function_plan(iso_graph *graph, int64_t rows, int slots_per_host,
                                     const iso_function_options *options, iso_plan_report **report);

/* The whole plan for `rows` rows as data. Its texts are lent from the graph and the distribution. Errors as
 * iso_function_prepare. Collective. */
ISO_API iso_status iso_function_report(iso_function *function, int64_t rows, iso_plan_report **report);
/* The unit of the events of a trace: each instruction, or each launch of several instructions. On a GPU, recording
 * launches does not make the step slower. */
typedef enum iso_trace_detail { ISO_TRACE_INSTRUCTIONS, ISO_TRACE_LAUNCHES } iso_trace_detail;
/* Records the next run: the begin and end times of each instruction or launch, exchange and wait of each slot.
 * Steps that are not recorded do not get slower. ISO_NO_MEMORY. Collective. */
ISO_API iso_status iso_function_record(iso_function *function, iso_trace_detail detail);
/* Adds the last recorded run to the text of the chief (rank 0) as a Chrome trace (JSON; docs/callbacks.md
 * describes it). On other ranks nothing is added. ISO_INVALID if none was recorded. Collective. */
ISO_API iso_status iso_function_trace(iso_function *function, iso_text *json);

/* The parts of all variables and optimizer slots that this rank holds. The list is the caller's:
 * iso_state_shards_free. ISO_INVALID before the graph's first function is made. Local. */
ISO_API iso_status iso_graph_shards(iso_graph *graph, iso_state_shards *shards);
ISO_API void iso_state_shards_free(iso_state_shards *shards);

#ifdef __cplusplus
}
#endif
#endif
