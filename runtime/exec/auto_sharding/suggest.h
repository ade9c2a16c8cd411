/* The search for layouts.
 * Functions are local unless their comment says otherwise. */
#ifndef ISO_EXEC_AUTO_SHARDING_SUGGEST_H
#define ISO_EXEC_AUTO_SHARDING_SUGGEST_H

#include "runtime/exec/function/function.h"
#include "runtime/spmd/spmd.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iso_plan_report iso_plan_report; /* isogrid_extend.h */
typedef struct iso_time_model iso_time_model;

typedef struct iso_suggest_options {
    int64_t rows;       /* of the global batch */
    int slots_per_host; /* 0: one host has all slots */
    double memory;      /* limit in bytes for a host (or for each slot); 0: none */
    bool memory_of_slot;
    bool starts_only;           /* only data parallel and the common tensor parallel patterns are compared */
    const iso_time_model *time; /* plans are compared by the time of a step; NULL: by iso_suggest_cost */
    int searches;               /* the number of searches that share the time limit; 0: 1 */
    void (*progress)(void *user, int tried); /* after each plan; NULL: none */
    void *user;
} iso_suggest_options;

typedef struct iso_suggested_layout {
    const char *path; /* as a key of a layout map: special characters of expressions have a '\' */
    const char *layout;
} iso_suggested_layout;

/* Layouts of variables and inputs. Variables that are not listed are replicated, and rows are sharded over
 * the mesh's first axis. */
typedef struct iso_suggestion {
    int n_layouts;
    iso_suggested_layout *layouts;
    int tried;                      /* plans that were compared */
    bool fits;                      /* within the memory limit */
    double flops, bytes;            /* of a slot in a step: the mean */
    int64_t slot_bytes, host_bytes; /* of memory */
    double cost;                    /* iso_suggest_cost, or with a time model the seconds of a step */
    double data_parallel;           /* the same for data parallel on this mesh */
    double measured; /* with a time model, the part of computation and update that was measured, in [0, 1] */
} iso_suggestion;

/* The estimated cost of a step for a slot, in operations of a product at full speed. It sums the operations
 * of the plan's ops (more where products are narrow), the elements that they write, the bytes from other
 * slots of the host and of other hosts, the exchanges, for which slots wait for each other, and the weights
 * that another slot of the host updates. Repeated work counts on every slot that does it. */
ISO_API double iso_suggest_cost(const iso_plan_report *report);

/* Looks for the layouts with the lowest cost that fit into the memory limit. The search begins
 * with the best of data parallel and the common tensor parallel patterns. It then changes the layout of one
 * tensor (and of the like tensors of other layers) at a time, the heaviest first, as long as that helps. Data
 * parallel is suggested if it fits and no other layouts cost at least a tenth less. Every trial is a plan
 * (iso_function_plan); their number depends on the graph and the mesh alone. `mesh` may be abstract. The
 * graph must have no function yet; its distribution is the same afterwards. The texts belong to the graph and
 * the suggestion, which the caller frees with iso_suggestion_destroy. ISO_INVALID: the graph has a function, or
 * what iso_function_plan refuses. Local. */
ISO_API iso_status iso_function_suggest(iso_graph *graph, iso_mesh *mesh,
                                        const iso_function_options *function,
                                        const iso_suggest_options *options, iso_suggestion **suggestion);
ISO_API void iso_suggestion_destroy(iso_suggestion *suggestion);

#ifdef __cplusplus
}
#endif
#endif
