/* Shared by the op families: messages, broadcasting, rules, small builders. */
#ifndef ISO_GRAPH_OPS_OPS_IMPL_H
#define ISO_GRAPH_OPS_OPS_IMPL_H

#include "runtime/graph/op.h"

/* The product of the dimensions begin .. end - 1 without the batch; *batch (may be NULL): whether the
 * batch is among them. */
int64_t iso_shape_product(const iso_shape *shape, int begin, int end, bool *batch);

/* Sets every dimension of inputs and outputs to ISO_WHOLE, with no factors. */
void iso_rule_clear(const iso_op *op, iso_rule *rule);
/* A new factor. */
int8_t iso_rule_factor(iso_rule *rule);

#endif
