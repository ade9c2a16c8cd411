/* The numbers among the attributes of ops that ranks compare, by the name of the attributes' type. Shapes are
 * left out: they are those of the op's outputs or inputs, which are compared too. */
#include "runtime/graph/ops/attrs.h"
#include "runtime/graph/ops/network.h"
#include "runtime/graph/ops/ops_impl.h"

#define REAL(member) ISO_SETTING(ATTRS, REAL, member, 0)
#define COUNT(member) ISO_SETTING(ATTRS, COUNT, member, 0)
#define INT(member) ISO_SETTING(ATTRS, INT, member, 0)
#define FLAG(member) ISO_SETTING(ATTRS, FLAG, member, 0)
#define PAIR(member) COUNT(member[0]), COUNT(member[1])
#define FOR_EACH_DIMENSION(KIND, member)                                                                     \
    KIND(member[0]), KIND(member[1]), KIND(member[2]), KIND(member[3]), KIND(member[4]), KIND(member[5]),    \
        KIND(member[6]), KIND(member[7])

#define ATTRS iso_unary_attrs
const iso_setting iso_unary_settings[] = {INT(kind), REAL(alpha), {0}};
#undef ATTRS
#define ATTRS iso_affine_attrs
const iso_setting iso_affine_settings[] = {REAL(scale), REAL(shift), {0}};
#undef ATTRS
#define ATTRS iso_count_attrs
const iso_setting iso_count_settings[] = {REAL(count), FLAG(batch), {0}};
#undef ATTRS
#define ATTRS iso_reduce_attrs
const iso_setting iso_reduce_settings[] = {INT(axes), FLAG(keep), FLAG(square), REAL(scale), INT(dtype), {0}};
#undef ATTRS
#define ATTRS iso_axis_attrs
const iso_setting iso_axis_settings[] = {INT(axis), {0}};
#undef ATTRS
#define ATTRS iso_top_k_attrs
const iso_setting iso_top_k_settings[] = {INT(k), COUNT(classes), {0}};
#undef ATTRS
#define ATTRS iso_one_hot_attrs
const iso_setting iso_one_hot_settings[] = {COUNT(classes), INT(dtype), {0}};
#undef ATTRS
#define ATTRS iso_cast_attrs
const iso_setting iso_cast_settings[] = {INT(dtype), {0}};
#undef ATTRS
#define ATTRS iso_transpose_attrs
const iso_setting iso_transpose_settings[] = {FOR_EACH_DIMENSION(INT, permutation), {0}};
#undef ATTRS
#define ATTRS iso_slice_attrs
const iso_setting iso_slice_settings[] = {FOR_EACH_DIMENSION(COUNT, begin), {0}};
#undef ATTRS
#define ATTRS iso_matmul_attrs
const iso_setting iso_matmul_settings[] = {FLAG(transpose_a), FLAG(transpose_b), FLAG(contract), {0}};
#undef ATTRS
#define ATTRS iso_conv_attrs
const iso_setting iso_conv_settings[] = {PAIR(geometry.stride),     PAIR(geometry.dilation),
                                         PAIR(geometry.pad_before), PAIR(geometry.pad_after),
                                         COUNT(geometry.groups),    {0}};
#undef ATTRS
#define ATTRS iso_pool_attrs
const iso_setting iso_pool_settings[] = {
    PAIR(geometry.size),      PAIR(geometry.stride), PAIR(geometry.pad_before),
    PAIR(geometry.pad_after), COUNT(axis),           {0}};
#undef ATTRS
#define ATTRS iso_unfold_attrs
const iso_setting iso_unfold_settings[] = {COUNT(geometry.size),
                                           COUNT(geometry.stride),
                                           COUNT(geometry.dilation),
                                           COUNT(geometry.pad_before),
                                           COUNT(geometry.pad_after),
                                           COUNT(axis),
                                           COUNT(extent),
                                           {0}};
#undef ATTRS
#define ATTRS iso_upsample_attrs
const iso_setting iso_upsample_settings[] = {PAIR(times), {0}};
#undef ATTRS
#define ATTRS iso_warp_attrs
const iso_setting iso_warp_settings[] = {PAIR(size),    PAIR(from),       INT(fill_mode),
                                         FLAG(nearest), REAL(fill_value), {0}};
#undef ATTRS
#define ATTRS iso_band_attrs
const iso_setting iso_band_settings[] = {REAL(fill), COUNT(window), COUNT(causal), {0}};
#undef ATTRS
#define ATTRS iso_rotary_attrs
const iso_setting iso_rotary_settings[] = {REAL(wavelength),      REAL(scaling),       COUNT(axis),
                                           REAL(stretch.factor),  REAL(stretch.low),   REAL(stretch.high),
                                           REAL(stretch.context), COUNT(stretch.yarn), {0}};
#undef ATTRS
#define ATTRS iso_experts_attrs
const iso_setting iso_experts_settings[] = {INT(activation), FLAG(gated), {0}};
#undef ATTRS
#define ATTRS iso_recurrence_attrs
const iso_setting iso_recurrence_settings[] = {
    INT(form.cell),       INT(form.activation), INT(form.recurrent),
    FLAG(form.backwards), FLAG(has_bias),       FLAG(has_state),
    FLAG(has_dc),         FLAG(has_mask),       {0}};
#undef ATTRS
#define ATTRS iso_noise_attrs
const iso_setting iso_noise_settings[] = {COUNT(key), REAL(stddev), {0}};
#undef ATTRS
#define ATTRS iso_uniform_attrs
const iso_setting iso_uniform_settings[] = {COUNT(key), REAL(low), REAL(high), INT(function), {0}};
#undef ATTRS
#define ATTRS iso_softmax_attrs
const iso_setting iso_softmax_settings[] = {INT(axis), {0}};
#undef ATTRS
#define ATTRS iso_class_attrs
const iso_setting iso_class_settings[] = {INT(axis), INT(lenient), {0}};
#undef ATTRS
#define ATTRS iso_moments_attrs
const iso_setting iso_moments_settings[] = {COUNT(per_row), FLAG(times_rows), {0}};
#undef ATTRS
#define ATTRS iso_batch_norm_attrs
const iso_setting iso_batch_norm_settings[] = {REAL(epsilon),   FLAG(has_gamma), FLAG(has_beta),
                                               INT(activation), REAL(largest),   {0}};
#undef ATTRS
#define ATTRS iso_layer_norm_attrs
const iso_setting iso_layer_norm_settings[] = {REAL(epsilon), FLAG(has_gamma), FLAG(has_beta),
                                               FLAG(rms),     FLAG(residual),  {0}};
#undef ATTRS
#define ATTRS iso_embedding_attrs
const iso_setting iso_embedding_settings[] = {COUNT(rows), {0}};
#undef ATTRS
#define ATTRS iso_dropout_attrs
const iso_setting iso_dropout_settings[] = {COUNT(key), INT(threshold), REAL(scale), {0}};
#undef ATTRS
#define ATTRS iso_attention_attrs
const iso_setting iso_attention_settings[] = {REAL(scale),
                                              REAL(band.fill),
                                              COUNT(band.window),
                                              COUNT(band.causal),
                                              COUNT(dropout.key),
                                              INT(dropout.threshold),
                                              REAL(dropout.scale),
                                              FLAG(has_mask),
                                              FLAG(zero_masked),
                                              REAL(cap),
                                              FLAG(has_query_mask),
                                              FLAG(adds),
                                              {0}};
#undef ATTRS
