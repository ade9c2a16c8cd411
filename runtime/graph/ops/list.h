/* Every op type, one a line: OP(name) stands for the descriptor iso_op_name, whose name is "name". Included
 * plainly this declares them all; with OP defined it is the list itself. */
#ifndef OP
#include "runtime/graph/op.h"
#define OP(name) extern const iso_op_type iso_op_##name;
#endif
// clang-format off

/* arithmetic, reductions, shapes, products */
OP(negate)
OP(abs)
OP(sign)
OP(exp)
OP(log)
OP(sqrt)
OP(rsqrt)
OP(square)
OP(relu)
OP(leaky_relu)
OP(elu)
OP(sigmoid)
OP(tanh)
OP(gelu)
OP(silu)
OP(softplus)
OP(unary_gradient)
OP(affine)
OP(scale_by_count)
OP(stop_gradient)
OP(add)
OP(subtract)
OP(multiply)
OP(divide)
OP(power)
OP(maximum)
OP(minimum)
OP(equal)
OP(not_equal)
OP(less)
OP(less_equal)
OP(greater)
OP(greater_equal)
OP(logical_and)
OP(logical_or)
OP(logical_not)
OP(where)
OP(cast)
OP(reduce_sum)
OP(reduce_max)
OP(reduce_min)
OP(argmax)
OP(in_top_k)
OP(reshape)
OP(transpose)
OP(slice)
OP(pad)
OP(concat)
OP(broadcast_to)
OP(one_hot)
OP(matmul)

/* networks */

// clang-format on
#undef OP
