/* Networks as tables of layers, like Keras's Sequential. */
#include "models/layers/layer_impl.h"

iso_tensor *iso_sequential_rows(iso_tensor *x, const iso_layer_row *rows)
{
    ISO_NEED_TENSORS(x);
    if (ISO_NULL_IN(iso_tensor_graph(x), rows))
        return iso_graph_bad_tensor(iso_tensor_graph(x));
    for (; rows->build; rows++)
        x = rows->build(rows->options, rows->size, x);
    return x;
}

/* A row's function: the layer's own, with the input put into its options. */
#define ROW(layer)                                                                                           \
    iso_tensor *iso_##layer##_row(const void *given, size_t size, iso_tensor *x)                             \
    {                                                                                                        \
        ISO_NEED_TENSORS(x);                                                                                 \
        ISO_LAYER_OPTIONS(iso_##layer##_options, options, given, size);                                      \
        options.x = x;                                                                                       \
        return iso_##layer##_with(&options, sizeof options);                                                 \
    }
ROW(rescaling)
ROW(normalization)
ROW(flatten)
ROW(reshape)
ROW(dense)
ROW(conv2d)
ROW(batch_norm)
ROW(layer_norm)
ROW(embedding)
ROW(dropout)
ROW(activation)
ROW(max_pooling2d)
ROW(average_pooling2d)
ROW(global_average_pooling2d)
ROW(global_max_pooling2d)
ROW(conv1d)
ROW(depthwise_conv2d)
ROW(separable_conv2d)
ROW(conv1d_transpose)
ROW(conv2d_transpose)
ROW(conv3d)
ROW(conv3d_transpose)
ROW(max_pooling3d)
ROW(average_pooling3d)
ROW(global_average_pooling3d)
ROW(global_max_pooling3d)
ROW(zero_padding3d)
ROW(cropping3d)
ROW(up_sampling3d)
ROW(zero_padding2d)
ROW(cropping2d)
ROW(up_sampling2d)
ROW(group_norm)
ROW(rms_norm)
ROW(gaussian_noise)
ROW(prelu)
ROW(permute)
ROW(max_pooling1d)
ROW(average_pooling1d)
ROW(global_average_pooling1d)
ROW(global_max_pooling1d)
