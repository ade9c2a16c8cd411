/* Searching layouts. */
#ifndef ISO_EXEC_SUGGEST_H
#define ISO_EXEC_SUGGEST_H

#include "runtime/exec/function.h"
#include "runtime/spmd/spmd.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iso_suggest_options {
    int64_t rows;       /* of the global batch */
    int slots_per_host; /* 0: all on one */
    double memory;      /* bytes that a host (or each slot) may need; 0: any */
    bool memory_of_slot;
} iso_suggest_options;

typedef struct iso_suggested_layout {
    const char *path; /* as a key of a layout map */
    const char *layout;
} iso_suggested_layout;

/* Layouts of variables and inputs; what is not named is replicated, and rows are split over the mesh's first
 * axis. */
typedef struct iso_suggestion {
    int layouts;
    iso_suggested_layout *layout;
    int tried;                      /* plans that were compared */
    bool fits;                      /* within the memory asked for */
    double flops, bytes;            /* of a slot in a step: the mean */
    int64_t slot_bytes, host_bytes; /* of memory */
    double cost;                    /* flops + ISO_SUGGEST_BALANCE * bytes */
} iso_suggestion;

/* An element that comes from another slot costs as much as so many operations for each of its bytes: a core
 * computes about 50 GFLOP/s and gets its share of a network at about 0.5 GB/s. */
enum { ISO_SUGGEST_BALANCE = 100 };

/* Looks for layouts with which a step costs least, within the memory that there is: changes the layout of one
 * tensor at a time as long as that helps, the heaviest first, beginning with data parallel and with the usual
 * tensor parallel patterns. Every trial is a plan (iso_function_plan). `mesh` may be imagined. The graph must
 * have no function yet; afterwards it has the distribution that it had. Texts are lent from the graph and the
 * suggestion. iso_suggestion_destroy. Local. */
iso_status iso_function_suggest(iso_graph *graph, iso_mesh *mesh, const iso_function_options *function,
                                const iso_suggest_options *options, iso_suggestion **suggestion);
void iso_suggestion_destroy(iso_suggestion *suggestion);

#ifdef __cplusplus
}
#endif
#endif
