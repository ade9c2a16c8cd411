/* A network as a table.
 * Functions are local unless their comment says otherwise; every rank makes the same calls.
 * Pointers that functions return belong to the graph unless their comment says otherwise. */
#ifndef ISO_MODELS_LAYERS_SEQUENTIAL_H
#define ISO_MODELS_LAYERS_SEQUENTIAL_H

#include "models/layers/activation.h"
#include "models/layers/core.h"
#include "models/layers/normalization.h"
#include "models/layers/regularization.h"
#include "models/layers/reshaping.h"
#include "models/layers/windows.h"

#ifdef __cplusplus
#include <initializer_list>
extern "C" {
#endif

/* One layer in each row, without its input, as in Keras's Sequential:
 *     static const iso_layer_row network[] =
 *         ISO_LAYERS(ISO_LAYER(flatten), ISO_LAYER(dense, 10, .name = "d1"));
 * Every layer that has one input can be a row. In C++, ISO_LAYER() can be used within iso_sequential() only,
 * because the options live as long as the call. */
typedef iso_pooling2d_options iso_max_pooling2d_options, iso_average_pooling2d_options;
typedef iso_global_pooling2d_options iso_global_average_pooling2d_options, iso_global_max_pooling2d_options;
typedef iso_pooling3d_options iso_max_pooling3d_options, iso_average_pooling3d_options;
typedef iso_global_pooling3d_options iso_global_average_pooling3d_options, iso_global_max_pooling3d_options;
typedef iso_pooling1d_options iso_max_pooling1d_options, iso_average_pooling1d_options;
typedef iso_global_pooling1d_options iso_global_average_pooling1d_options, iso_global_max_pooling1d_options;
typedef struct iso_layer_row {
    iso_tensor *(*build)(const void *options, size_t size, iso_tensor *x);
    const void *options; /* the layer's; x is ignored */
    size_t size;
} iso_layer_row;
#ifndef __cplusplus
#define ISO_LAYER_OPTIONS_(type, ...) ISO_OPTIONS(type, NULL, __VA_ARGS__)
#else
#define ISO_LAYER_OPTIONS_(type, ...) ISO_OPTIONS(type, __VA_ARGS__)
#endif
#define ISO_LAYER_(layer, ...)                                                                               \
    {                                                                                                        \
        iso_##layer##_row, ISO_LAYER_OPTIONS_(iso_##layer##_options, __VA_ARGS__)                            \
    }
#define ISO_LAYER(...) ISO_LAYER_(__VA_ARGS__, )
#define ISO_LAYERS(...)                                                                                      \
    {                                                                                                        \
        __VA_ARGS__,                                                                                         \
        {                                                                                                    \
            NULL, NULL, 0                                                                                    \
        }                                                                                                    \
    }
ISO_API iso_tensor *iso_rescaling_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_normalization_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_flatten_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_reshape_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_dense_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_conv2d_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_batch_norm_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_layer_norm_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_embedding_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_dropout_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_activation_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_max_pooling2d_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_average_pooling2d_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_global_average_pooling2d_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_global_max_pooling2d_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_conv1d_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_depthwise_conv2d_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_separable_conv2d_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_conv1d_transpose_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_conv2d_transpose_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_conv3d_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_conv3d_transpose_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_max_pooling3d_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_average_pooling3d_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_global_average_pooling3d_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_global_max_pooling3d_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_zero_padding3d_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_cropping3d_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_up_sampling3d_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_zero_padding2d_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_cropping2d_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_up_sampling2d_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_group_norm_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_gaussian_noise_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_prelu_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_permute_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_max_pooling1d_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_average_pooling1d_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_global_average_pooling1d_row(const void *options, size_t size, iso_tensor *x);
ISO_API iso_tensor *iso_global_max_pooling1d_row(const void *options, size_t size, iso_tensor *x);
/* Applies the layers of a table (which ends with an empty row) one after another. */
ISO_API iso_tensor *iso_sequential_rows(iso_tensor *x, const iso_layer_row *rows);
/* iso_sequential(x, ISO_LAYER(flatten), ISO_LAYER(dense, 10)) */
#ifndef __cplusplus
#define iso_sequential(x, ...) iso_sequential_rows(x, (const iso_layer_row[])ISO_LAYERS(__VA_ARGS__))
#else
#define iso_sequential(x, ...)                                                                               \
    iso_sequential_rows(x, std::initializer_list<iso_layer_row>(ISO_LAYERS(__VA_ARGS__)).begin())
#endif

#ifdef __cplusplus
}
#endif
#endif
