/* Tables of functions of a bfloat16, which has 65,536 values: their entries are computed in float32 and rounded once,
 * as the loops of functions.h do. They are made when they are first needed, and kept to the end of the process: they
 * belong to no model, and are not accounted. */
#ifndef ISO_CPU_TABLES_H
#define ISO_CPU_TABLES_H

#include "runtime/graph/ops/attrs.h"

/* The values of a function; of its slope, by which a gradient is multiplied. For the instruction set in use; may be
 * called by several threads. NULL: the function is cheaper than its table, or there is no memory. */
const uint16_t *iso_table_of_function(iso_unary_kind kind);
const float *iso_table_of_slope(iso_unary_kind kind);

#endif
