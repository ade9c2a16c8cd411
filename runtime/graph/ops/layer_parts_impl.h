/* The decomposition of layer normalisation (layer_parts.c): the `split` of its ops. */
#ifndef ISO_GRAPH_OPS_LAYER_PARTS_IMPL_H
#define ISO_GRAPH_OPS_LAYER_PARTS_IMPL_H

#include "runtime/graph/ops/network_impl.h"

void iso_layer_split(const iso_op *op, iso_tensor *const *in, iso_tensor **out);
void iso_layer_split_gradient(const iso_op *op, iso_tensor *const *in, iso_tensor **out);
void iso_layer_split_sums(const iso_op *op, iso_tensor *const *in, iso_tensor **out);

#endif
