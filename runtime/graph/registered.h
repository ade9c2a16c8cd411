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

/* The registered op of a name; NULL: none. Any thread may call this while another one registers. */
const iso_registered_op *iso_registered_op_find(const char *name);
/* Checks the type (iso_op_register) and adds it. ISO_INVALID, ISO_NO_MEMORY. */
iso_status iso_registered_op_add(const iso_op_type *type, const struct iso_kernel *kernel, int kernels);
/* Adds a line for each, in the order of registration, with everything that must be equal on all ranks,
 * except functions. */
void iso_registered_ops_list(iso_text *lines);

/* Whether ops of this type may be created: it belongs to the library or is registered. False: an error in
 * the graph. */
bool iso_op_type_check(iso_graph *graph, const iso_op_type *type);
/* Whether the outputs from infer, and the rule, fit the inputs of an op of a registered type. False: an
 * error in the graph. */
bool iso_registered_op_check(iso_op *op);

#endif
