/* Op types that a program registered. For the library only. */
#ifndef ISO_GRAPH_REGISTERED_H
#define ISO_GRAPH_REGISTERED_H

#include "runtime/base/text.h"
#include "runtime/graph/op.h"

typedef struct iso_registered_op {
    const iso_op_type *type;
    const struct iso_kernel *kernels; /* [n_kernels] */
    int n_kernels;
    struct iso_registered_op *next;
} iso_registered_op;

/* The one of a name; NULL: none. Any thread may ask while another registers. */
const iso_registered_op *iso_registered_op_find(const char *name);
/* Checks the type (iso_op_register) and adds it. ISO_INVALID, ISO_NO_MEMORY. */
iso_status iso_registered_op_add(const iso_op_type *type, const struct iso_kernel *kernel, int kernels);
/* A line for each, in the order of registration, with all that ranks must have alike but functions. */
void iso_registered_ops_list(iso_text *lines);

/* Whether an op may be made of the type: it is one of the library's, or registered. False: an error in the graph. */
bool iso_op_type_check(iso_graph *graph, const iso_op_type *type);
/* Whether the outputs that infer gave, and the rule, fit the inputs of an op of a registered type. False: an error in the graph. */
bool iso_registered_op_check(iso_op *op);

#endif
