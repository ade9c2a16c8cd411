/* Every reference kernel, one a line: KERNEL(name) stands for iso_reference_name, the plain kernel of the op
 * "name". Included plainly this declares them all; with KERNEL defined it is the list itself. */
#ifndef KERNEL
#include "runtime/backend/backend.h"
#define KERNEL(name) extern const iso_kernel iso_reference_##name;
#endif
// clang-format off

/* arithmetic, reductions, shapes, products */
KERNEL(negate)
KERNEL(abs)
KERNEL(sign)
KERNEL(exp)
KERNEL(log)
KERNEL(sqrt)
KERNEL(rsqrt)
KERNEL(square)
KERNEL(relu)
KERNEL(leaky_relu)
KERNEL(elu)
KERNEL(sigmoid)
KERNEL(tanh)
KERNEL(gelu)
KERNEL(silu)
KERNEL(softplus)
KERNEL(unary_gradient)
KERNEL(affine)
KERNEL(scale_by_count)
KERNEL(stop_gradient)
KERNEL(add)
KERNEL(subtract)
KERNEL(multiply)
KERNEL(divide)
KERNEL(power)
KERNEL(maximum)
KERNEL(minimum)
KERNEL(equal)
KERNEL(not_equal)
KERNEL(less)
KERNEL(less_equal)
KERNEL(greater)
KERNEL(greater_equal)
KERNEL(logical_and)
KERNEL(logical_or)
KERNEL(logical_not)
KERNEL(where)
KERNEL(cast)
KERNEL(reduce_sum)
KERNEL(reduce_max)
KERNEL(reduce_min)
KERNEL(argmax)
KERNEL(in_top_k)
KERNEL(transpose)
KERNEL(slice)
KERNEL(pad)
KERNEL(concat)
KERNEL(broadcast_to)
KERNEL(one_hot)
KERNEL(matmul)

/* networks */

// clang-format on
#undef KERNEL
