/* Every kernel of the CUDA backend, one on each line: KERNEL(name) stands for iso_cuda_name, the kernel of
 * the op "name". If KERNEL is not defined, including this file declares them all; otherwise it expands to
 * the list. */
#ifndef KERNEL
#include "runtime/backend/backend.h"
#define KERNEL(name) extern const iso_kernel iso_cuda_##name;
#define ISO_CUDA_DECLARES
#endif
// clang-format off
#if defined(ISO_CUDA_DECLARES) && defined(__cplusplus)
extern "C" {
#endif

/* arithmetic, reductions, shapes, products */
#define UNARY(name, KIND, gradient, linear) KERNEL(name)
#include "runtime/graph/ops/unary.h"
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
KERNEL(conv2d)
KERNEL(conv2d_grad_input)
KERNEL(conv2d_grad_kernel)
KERNEL(max_pool2d)
KERNEL(max_pool2d_grad)
KERNEL(average_pool2d)
KERNEL(average_pool2d_grad)
KERNEL(upsample_linear)
KERNEL(upsample_linear_grad)
KERNEL(band)
KERNEL(attention)
KERNEL(attention_grad)
KERNEL(softmax)
KERNEL(log_softmax)
KERNEL(softmax_grad)
KERNEL(log_softmax_grad)
KERNEL(sparse_crossentropy)
KERNEL(sparse_crossentropy_grad)
KERNEL(crossentropy)
KERNEL(crossentropy_grad)
KERNEL(class_max)
KERNEL(class_first)
KERNEL(class_above)
KERNEL(class_pick)
KERNEL(class_sum_exp)
KERNEL(class_softmax)
KERNEL(class_log_softmax)
KERNEL(class_loss)
KERNEL(class_grad)
KERNEL(class_sparse_grad)
KERNEL(batch_moments)
KERNEL(moments_finish)
KERNEL(moments_finish_grad)
KERNEL(batch_norm)
KERNEL(batch_norm_grad_sums)
KERNEL(batch_norm_grad)
KERNEL(layer_norm)
KERNEL(layer_norm_grad)
KERNEL(layer_norm_grad_sums)
KERNEL(layer_moments)
KERNEL(layer_scale)
KERNEL(layer_grad_sums)
KERNEL(layer_grad)
KERNEL(layer_weight_sums)
KERNEL(embedding)
KERNEL(embedding_grad)
KERNEL(dropout)
KERNEL(gaussian_noise)

#if defined(ISO_CUDA_DECLARES) && defined(__cplusplus)
}
#endif
#undef ISO_CUDA_DECLARES
// clang-format on
#undef KERNEL
