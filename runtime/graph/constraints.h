/* Constraints of weights: one row for each of Keras's. */
#ifndef ISO_GRAPH_CONSTRAINTS_H
#define ISO_GRAPH_CONSTRAINTS_H

#include "runtime/base/descriptor.h"
#include "runtime/graph/graph.h"

typedef struct iso_constraint_type {
    iso_descriptor row; /* settings are members of iso_weight_constraint */
    bool norm;          /* it is one of norms, along axes */
} iso_constraint_type;

/* All constraints, in the order of their kinds, from ISO_CONSTRAINT_MAX_NORM on. */
extern const iso_descriptor *const iso_constraints[];

/* NULL outside the range, and for ISO_CONSTRAINT_NONE. */
const iso_constraint_type *iso_constraint_type_of(iso_constraint_kind kind);
/* Finds a kind by Keras's name or class; false if there is none. */
bool iso_constraint_find(const char *name, iso_constraint_kind *kind);

#endif
