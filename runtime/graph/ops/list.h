/* Every op type, one per line: OP(name) stands for the descriptor iso_op_name, whose name is "name". A
 * plain #include declares them all; with OP defined, it is the list itself. */
#ifndef OP
#include "runtime/graph/op.h"
#define OP(name) extern const iso_op_type iso_op_##name;

/* Every op type; those that a program registered follow the others. NULL outside [0, count), or if there
 * is none of this name. */
int iso_op_type_count(void);
const iso_op_type *iso_op_type_at(int index);
const iso_op_type *iso_op_type_find(const char *name);
/* The planner's ops, which have no kernels. */
extern const iso_op_type iso_op_input, iso_op_variable, iso_op_constant, iso_op_by_mode, iso_op_gate,
    iso_op_apply_optimizer;
#endif
/* An op whose result is its input's memory, so that no kernel computes it. */
#ifndef OP_ALIAS
#define OP_ALIAS OP
#endif
// clang-format off

/* arithmetic, reductions, shapes, products */
#define UNARY(name, KIND, gradient, linear) OP(name)
#include "runtime/graph/ops/unary.h"
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
OP(top_k)
OP(top_k_grad)
OP_ALIAS(reshape)
OP(transpose)
OP(flip)
OP(slice)
OP(pad)
OP(concat)
OP(broadcast_to)
OP(one_hot)
OP(matmul)

/* networks */
OP(conv2d)
OP(conv2d_grad_input)
OP(conv2d_grad_kernel)
OP(max_pool2d)
OP(max_pool2d_grad)
OP(average_pool2d)
OP(average_pool2d_grad)
OP(unfold)
OP(fold)
OP(upsample_linear)
OP(upsample_linear_grad)
OP(warp)
OP(warp_grad)
OP(band)
OP(rotary)
OP(attention)
OP(attention_grad)
OP(experts)
OP(experts_grad)
OP(recurrence)
OP(recurrence_grad)
OP(softmax)
OP(log_softmax)
OP(softmax_grad)
OP(log_softmax_grad)
OP(sparse_crossentropy)
OP(sparse_crossentropy_grad)
OP(crossentropy)
OP(crossentropy_grad)
OP(class_max)
OP(class_first)
OP(class_above)
OP(class_pick)
OP(class_sum_exp)
OP(class_softmax)
OP(class_log_softmax)
OP(class_loss)
OP(class_grad)
OP(class_sparse_grad)
OP(batch_moments)
OP(moments_finish)
OP(moments_finish_grad)
OP(batch_norm)
OP(batch_norm_grad_sums)
OP(batch_norm_grad)
OP(layer_norm)
OP(layer_norm_grad)
OP(layer_norm_grad_sums)
OP(layer_moments)
OP(layer_scale)
OP(layer_grad_sums)
OP(layer_grad)
OP(layer_weight_sums)
OP(embedding)
OP(embedding_grad)
OP(embedding_grad_add)
OP(dropout)
OP(gaussian_noise)
OP(uniform)

// clang-format on
#undef OP
#undef OP_ALIAS
