/* The search of iso_auto_parallel_create. */
#ifndef ISO_EXEC_AUTO_SHARDING_SEARCH_LAYOUTS_H
#define ISO_EXEC_AUTO_SHARDING_SEARCH_LAYOUTS_H

#include "runtime/base/json.h"
#include "runtime/exec/auto_sharding/suggest.h"

/* The layouts of a suggestion as layout files have them. The caller's; NULL: no memory. Local. */
json_t *iso_suggestion_layouts(const iso_suggestion *suggestion);

/* If the graph's distribution searches for layouts, gives it those that are found for this function. ISO_INVALID:
 * what iso_function_suggest refuses. Collective. */
iso_status iso_graph_search_layouts(iso_graph *graph, const iso_function_options *training);

#endif
