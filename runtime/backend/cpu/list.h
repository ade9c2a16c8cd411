/* Every fast kernel of the CPU backend, one on each line, in order of preference: KERNEL(name) stands for
 * iso_cpu_name. If KERNEL is not defined, including this file declares them all; otherwise it expands to the
 * list. */
#ifndef KERNEL
#include "runtime/backend/backend.h"
#define KERNEL(name) extern const iso_kernel iso_cpu_##name;
#endif
// clang-format off

#define UNARY(name, KIND, gradient, linear) KERNEL(name)
#include "runtime/graph/ops/unary.h"
KERNEL(unary_gradient)
KERNEL(affine) KERNEL(scale_by_count) KERNEL(cast)
KERNEL(add) KERNEL(subtract) KERNEL(multiply) KERNEL(divide) KERNEL(maximum) KERNEL(minimum)
KERNEL(reduce_sum)
KERNEL(batch_moments) KERNEL(batch_norm) KERNEL(batch_norm_grad_sums) KERNEL(batch_norm_grad)
KERNEL(attention) KERNEL(attention_double) KERNEL(attention_bf16)
KERNEL(attention_grad) KERNEL(attention_grad_double) KERNEL(attention_grad_bf16)
KERNEL(experts) KERNEL(experts_grad)
KERNEL(softmax) KERNEL(log_softmax) KERNEL(softmax_grad) KERNEL(log_softmax_grad)
KERNEL(sparse_crossentropy) KERNEL(sparse_crossentropy_grad) KERNEL(crossentropy) KERNEL(crossentropy_grad)
KERNEL(class_max) KERNEL(class_sum_exp) KERNEL(class_softmax) KERNEL(class_log_softmax)
KERNEL(class_loss) KERNEL(class_grad) KERNEL(class_sparse_grad)
KERNEL(layer_norm) KERNEL(layer_norm_grad) KERNEL(layer_norm_grad_sums)
KERNEL(layer_norm_bf16) KERNEL(layer_norm_grad_bf16) KERNEL(layer_norm_grad_sums_bf16)
KERNEL(layer_moments) KERNEL(layer_scale) KERNEL(layer_grad_sums) KERNEL(layer_grad) KERNEL(layer_weight_sums)
KERNEL(embedding) KERNEL(embedding_grad) KERNEL(embedding_grad_add)
KERNEL(dropout) KERNEL(gaussian_noise)
KERNEL(rotary)
KERNEL(warp) KERNEL(warp_grad)
KERNEL(unfold) KERNEL(fold)
KERNEL(recurrence) KERNEL(recurrence_grad)
KERNEL(max_pool2d) KERNEL(max_pool2d_grad) KERNEL(average_pool2d) KERNEL(average_pool2d_grad)
KERNEL(conv2d_winograd_volume) KERNEL(conv2d_volume)
KERNEL(conv2d_grad_input_winograd_volume) KERNEL(conv2d_grad_input_volume)
KERNEL(conv2d_grad_kernel_winograd_volume) KERNEL(conv2d_grad_kernel_volume)
KERNEL(conv2d_winograd) KERNEL(conv2d) KERNEL(conv2d_depthwise) KERNEL(conv2d_im2col)
KERNEL(conv2d_grad_input_winograd) KERNEL(conv2d_grad_input) KERNEL(conv2d_grad_input_depthwise) KERNEL(conv2d_grad_input_im2col)
KERNEL(conv2d_grad_kernel_winograd) KERNEL(conv2d_grad_kernel) KERNEL(conv2d_grad_kernel_depthwise) KERNEL(conv2d_grad_kernel_im2col)
KERNEL(matmul_amx) KERNEL(matmul_amx_few) KERNEL(matmul_amx_few_bf16) KERNEL(matmul_amx_bf16)
KERNEL(matmul_few_bf16) KERNEL(matmul_bf16)
KERNEL(matmul_few) KERNEL(matmul_transposed) KERNEL(matmul_onednn) KERNEL(matmul_blas) KERNEL(matmul_tiles) KERNEL(matmul_double)

// clang-format on
#undef KERNEL
