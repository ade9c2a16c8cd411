/* Low-rank adapters (iso_lora_begin) as layers make them, and readers and writers of files find them. Not public. */
#ifndef ISO_GRAPH_LORA_H
#define ISO_GRAPH_LORA_H

#include "runtime/graph/graph.h"

/* The adapter of a variable. */
typedef struct iso_adapter {
    iso_variable *a, *b; /* [in..., rank], [rank, out...] */
    int64_t rank;
    double scale;       /* alpha / rank */
    iso_tensor *merged; /* the variable's value + scale * a b, in its shape and type: for files */
} iso_adapter;

/* Whether the innermost scope of iso_lora_begin adapts the variable with this whole path; its numbers then. */
bool iso_graph_lora_of(iso_graph *graph, const char *path, int64_t *rank, double *scale);
/* Gives a variable an adapter, which is copied, and freezes the variable. Once; later calls do nothing. */
void iso_variable_adapt(iso_variable *variable, const iso_adapter *adapter);
/* NULL: it has none. */
const iso_adapter *iso_variable_adapter(const iso_variable *variable);
/* Whether it is the a or b of an adapter. */
bool iso_variable_is_adapter(const iso_variable *variable);

#endif
