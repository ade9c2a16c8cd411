/* Shared by the network ops. */
#ifndef ISO_GRAPH_OPS_NETWORK_IMPL_H
#define ISO_GRAPH_OPS_NETWORK_IMPL_H

#include "runtime/graph/ops/list.h"
#include "runtime/graph/ops/network.h"
#include "runtime/graph/ops/ops_impl.h"

/* Each of these checks a condition. If it does not hold, it refuses the op (iso_op_refuse) and returns
 * false. */

/* Input i is floating point and, with rank >= 0, of that rank. */
bool iso_expect_float(iso_op *op, int i, int rank);
/* Input i is float32 or float64: statistics are not computed in bfloat16. */
bool iso_expect_wide(iso_op *op, int i);
/* Inputs i and j have one type. */
bool iso_expect_same_type(iso_op *op, int i, int j);
bool iso_expect_same_shape(iso_op *op, int i, int j);
/* Input i is a vector [c] for the last dimension of input 0. */
bool iso_expect_channels(iso_op *op, int i);
/* Input i may hold indices: integers or integral floats. */
bool iso_expect_index(iso_op *op, int i);

/* Fills in the positions of a window that slides over `extent` elements with `after` zeros after them.
 * Refuses numbers out of range and a window larger than what it slides over. */
bool iso_sliding_window_fit(iso_op *op, const char *what, int64_t extent, int64_t after,
                            iso_sliding_window *window);

/* Makes output i of this type and shape. */
void iso_set_output(iso_op *op, int i, iso_dtype dtype, const iso_shape *shape);
/* Factors first, first + 1, ... for `count` dimensions. */
void iso_rule_run_over(int8_t *dims, int first, int count);
/* The rule of an op over x [..., c] with vectors of channels: tensors of x's rank have factors 0 .. rank -
 * 1, vectors have the last of them. With `whole` the channels stay whole. */
void iso_rule_by_channel(const iso_op *op, bool whole, iso_rule *rule);
/* A dropout of this rate, whose random numbers depend on the graph's seed and the path. */
iso_dropout_attrs iso_dropout_attrs_of(const iso_graph *graph, double rate, const char *path);
/* The elements in the band of rows first .. first + count - 1: what iso_band_columns has for them in all. */
double iso_band_elements(const iso_band_attrs *band, int64_t first, int64_t count, int64_t columns);
/* The gradient of an output: dy, or zeros like it where no gradient reaches it. */
iso_tensor *iso_or_zeros(iso_tensor *dy, iso_tensor *like);
/* An iso_op_type's flops: one for each element of the first input. */
double iso_one_flop_per_element(const iso_op *op, const iso_box *inputs, const iso_box *outputs);

#endif
