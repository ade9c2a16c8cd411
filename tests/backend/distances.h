/* How far the results of a backend may lie from those of the reference kernels: the table of docs/gpu.md, section
 * "Bits". The tests of the kernels take their tolerances from it, and test_distances compares it with the page. */
#ifndef ISO_TESTS_BACKEND_DISTANCES_H
#define ISO_TESTS_BACKEND_DISTANCES_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* In float32: |a - b| <= relative * |b| + largest * (largest |b| of the array). Numbers are those that the page
 * prints. Both "0": the same bits. */
typedef struct distance {
    const char *ops; /* names, with spaces between them */
    const char *note;
    const char *relative, *largest;
    bool cancels; /* only for cases whose results cancel */
} distance;

static const distance distances[] = {
    {"negate abs sign square relu clipped_relu add subtract multiply maximum minimum equal not_equal less "
     "less_equal greater greater_equal logical_and logical_or logical_not where cast stop_gradient transpose "
     "flip slice pad concat broadcast_to one_hot band reduce_max reduce_min argmax in_top_k class_first "
     "class_above class_pick embedding dropout max_pool2d unfold top_k",
     "the optimizers with their rates, sums between slots", "0", "0", false},
    {"divide scale_by_count", "", "2e-7", "0", false},
    {"exp log sqrt rsqrt tanh sigmoid elu silu softplus leaky_relu moments_finish moments_finish_grad", "",
     "1e-6", "3e-8", false},
    /* Below 0 the tail falls as exp(-x^2 / 2), so rounding the argument changes it by up to x^2 units. */
    {"gelu", "", "1e-5", "3e-8", false},
    {"affine power gaussian_noise max_pool2d_grad average_pool2d average_pool2d_grad upsample_linear "
     "upsample_linear_grad fold warp warp_grad uniform",
     "", "1e-6", "2e-7", false},
    {"batch_norm batch_norm_grad rotary", "", "1e-6", "3e-7", false},
    {"unary_gradient", "the gradient of each function", "1e-6", "1e-6", false},
    {"softmax log_softmax softmax_grad log_softmax_grad crossentropy crossentropy_grad sparse_crossentropy "
     "sparse_crossentropy_grad class_max class_sum_exp class_softmax class_log_softmax class_loss class_grad "
     "class_sparse_grad",
     "", "2e-6", "1e-6", false},
    {"layer_norm layer_norm_grad layer_norm_grad_sums layer_moments layer_scale layer_grad_sums layer_grad "
     "layer_weight_sums",
     "", "2e-6", "2e-6", false},
    {"layer_norm_grad layer_norm_grad_sums", "over fewer than 8 elements, which cancel", "2e-6", "1e-3",
     true},
    {"reduce_sum batch_moments", "", "0", "2e-6", false},
    {"attention attention_grad recurrence recurrence_grad", "", "1e-5", "5e-6", false},
    {"experts experts_grad", "", "0", "1e-5", false},
    {"top_k_grad", "", "1e-6", "1e-6", false},
    {"matmul conv2d conv2d_grad_input conv2d_grad_kernel batch_norm_grad_sums embedding_grad "
     "embedding_grad_add",
     "", "0", "1e-5", false},
};
enum { DISTANCES = sizeof distances / sizeof *distances };

/* Of the largest element: products and convolutions with --tf32. */
#define TF32_LARGEST "1e-3"

/* Of the largest element: attention of bfloat16, whose weights are sums of two numbers of bfloat16. */
#define BFLOAT16_ATTENTION_LARGEST "1e-4"

/* The same where the kernel FUSED_ATTENTION computes it: a weight, and the gradient of a score, is rounded to
 * bfloat16, by up to 2^-9 of it; what is added may cancel. */
#define FUSED_ATTENTION "fused"
#define FUSED_ATTENTION_LARGEST "8e-3"

/* Of the largest element: experts of bfloat16, whose hidden features are rounded to bfloat16 between the products. */
#define BFLOAT16_EXPERTS_LARGEST "8e-3"

/* In float64 the distances are these times FLOAT64_FACTOR. A result in bfloat16 is rounded once, so it may be the
 * neighbouring number: 2^-BFLOAT16_BITS of it. */
#define FLOAT64_FACTOR "1e-8"
enum { BFLOAT16_BITS = 7 };

/* Whether the list of names holds this one. */
static inline bool distance_names(const distance *row, const char *op)
{
    size_t length = strlen(op);
    for (const char *name = row->ops; (name = strstr(name, op)); name += length)
        if ((name == row->ops || name[-1] == ' ') && (name[length] == ' ' || name[length] == 0))
            return true;
    return false;
}

/* NULL: no row names the op. */
static inline const distance *distance_of(const char *op, bool cancels)
{
    for (int i = 0; i < DISTANCES; i++)
        if (distances[i].cancels == cancels && distance_names(&distances[i], op))
            return &distances[i];
    return NULL;
}

static inline bool distance_is_none(const distance *row)
{
    return strcmp(row->relative, "0") == 0 && strcmp(row->largest, "0") == 0;
}

#endif
