/* What the op families share: messages, broadcasting, rules, small builders. */
#ifndef ISO_GRAPH_OPS_OPS_IMPL_H
#define ISO_GRAPH_OPS_OPS_IMPL_H

#include "runtime/graph/op.h"

/* Records "<op>: <message>" followed by names, types and shapes of the op's inputs in the graph; returns
 * false. */
bool iso_op_refuse(iso_op *op, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;
/* Output 0 gets this type and shape; returns true. */
bool iso_op_gives(iso_op *op, iso_dtype dtype, const iso_shape *shape);

/* infer for elementwise ops of one input: the output is as the input. */
bool iso_infer_same(iso_op *op);
/* As iso_infer_same, but refuses what is not of a floating-point type. */
bool iso_infer_same_float(iso_op *op);
/* infer for ops over operands that are broadcast to one shape; all of one type. */
bool iso_infer_broadcast(iso_op *op);

/* Builders for ops of one or two inputs. */
iso_tensor *iso_op_1(const iso_op_type *type, iso_tensor *x, const void *attrs);
iso_tensor *iso_op_2(const iso_op_type *type, iso_tensor *a, iso_tensor *b, const void *attrs);
iso_tensor *iso_op_3(const iso_op_type *type, iso_tensor *a, iso_tensor *b, iso_tensor *c, const void *attrs);

/* Product of the dimensions begin..end-1, the batch left out; *batch (may be NULL) tells whether it was among
 * them. */
int64_t iso_shape_product(const iso_shape *shape, int begin, int end, bool *batch);

/* Sets every dimension of inputs and outputs to ISO_WHOLE, with no factors. */
void iso_rule_clear(const iso_op *op, iso_rule *rule);
/* A new factor. */
int8_t iso_rule_factor(iso_rule *rule);

#endif
