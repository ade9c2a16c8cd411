/* Every layer type, one on each line: LAYER(name) is the descriptor iso_layer_name. Without LAYER defined, this
 * file declares them; with LAYER defined, it is the list. */
#ifndef LAYER
#include "models/layers/config.h"
#define LAYER(name) extern const iso_layer_type iso_layer_##name;
#endif
// clang-format off
LAYER(rescaling)
LAYER(flatten)
LAYER(reshape)
LAYER(dense)
LAYER(conv2d)
LAYER(batch_norm)
LAYER(layer_norm)
LAYER(embedding)
LAYER(dropout)
LAYER(activation)
LAYER(relu)
LAYER(leaky_relu)
LAYER(elu)
LAYER(softmax)
LAYER(max_pooling2d)
LAYER(average_pooling2d)
LAYER(global_average_pooling2d)
LAYER(global_max_pooling2d)
LAYER(conv1d)
LAYER(depthwise_conv2d)
LAYER(separable_conv2d)
LAYER(zero_padding2d)
LAYER(cropping2d)
LAYER(up_sampling2d)
LAYER(group_norm)
LAYER(multi_head_attention)
LAYER(gaussian_noise)
LAYER(prelu)
LAYER(permute)
LAYER(max_pooling1d)
LAYER(average_pooling1d)
LAYER(global_average_pooling1d)
LAYER(global_max_pooling1d)
LAYER(add)
LAYER(subtract)
LAYER(average)
LAYER(maximum)
LAYER(minimum)
LAYER(multiply)
LAYER(concatenate)
// clang-format on
#undef LAYER
