/* Shared by the op families: messages, broadcasting, rules, small builders. */
#ifndef ISO_GRAPH_OPS_OPS_IMPL_H
#define ISO_GRAPH_OPS_OPS_IMPL_H

#include "runtime/base/descriptor.h"
#include "runtime/graph/graph_impl.h"
#include "runtime/graph/op.h"

/* Attributes of type iso_NAME_attrs, of which iso_NAME_settings (settings.c) are compared. */
#define ISO_OP_ATTRS(NAME) .attr_size = sizeof(iso_##NAME##_attrs), .settings = iso_##NAME##_settings
extern const iso_setting iso_unary_settings[];
extern const iso_setting iso_affine_settings[];
extern const iso_setting iso_count_settings[];
extern const iso_setting iso_reduce_settings[];
extern const iso_setting iso_axis_settings[];
extern const iso_setting iso_top_k_settings[];
extern const iso_setting iso_one_hot_settings[];
extern const iso_setting iso_cast_settings[];
extern const iso_setting iso_transpose_settings[];
extern const iso_setting iso_slice_settings[];
extern const iso_setting iso_matmul_settings[];
extern const iso_setting iso_conv_settings[];
extern const iso_setting iso_pool_settings[];
extern const iso_setting iso_unfold_settings[];
extern const iso_setting iso_upsample_settings[];
extern const iso_setting iso_warp_settings[];
extern const iso_setting iso_band_settings[];
extern const iso_setting iso_rotary_settings[];
extern const iso_setting iso_experts_settings[];
extern const iso_setting iso_recurrence_settings[];
extern const iso_setting iso_noise_settings[];
extern const iso_setting iso_uniform_settings[];
extern const iso_setting iso_softmax_settings[];
extern const iso_setting iso_class_settings[];
extern const iso_setting iso_moments_settings[];
extern const iso_setting iso_batch_norm_settings[];
extern const iso_setting iso_layer_norm_settings[];
extern const iso_setting iso_embedding_settings[];
extern const iso_setting iso_dropout_settings[];
extern const iso_setting iso_attention_settings[];

/* iso_op_type.index of ops whose kernels take labels. */
#define ISO_LABELS                                                                                           \
    {                                                                                                        \
        "label", "classes"                                                                                   \
    }

/* The product of the dimensions begin .. end - 1 without the batch; *batch (may be NULL): whether the
 * batch is among them. */
int64_t iso_shape_product(const iso_shape *shape, int begin, int end, bool *batch);

/* iso_cast for gradients: if x is itself cast from this type, perhaps reshaped since, and one of the types is
 * bfloat16, what it was cast from. So a bfloat16 comes back exactly, and the gradient of a float32 that was cast to
 * bfloat16 is not rounded to bfloat16 if it was computed in float32. */
iso_tensor *iso_cast_back(iso_tensor *x, iso_dtype dtype);

/* Sets every dimension of inputs and outputs to ISO_WHOLE, with no factors. */
void iso_rule_clear(const iso_op *op, iso_rule *rule);
/* A new factor. */
int8_t iso_rule_factor(iso_rule *rule);

/* iso_op_create for an op of several outputs: results receives all of them, each rounded if it is a sum of
 * bfloat16 numbers. */
void iso_op_create_several(iso_graph *graph, const iso_op_type *type, iso_tensor *const *inputs, int count,
                           const void *attrs, iso_tensor **results);

#endif
