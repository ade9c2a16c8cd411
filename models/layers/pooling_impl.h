/* Shared by the pools: sizes and padding of their windows. For models/layers only. */
#ifndef ISO_MODELS_LAYERS_POOLING_IMPL_H
#define ISO_MODELS_LAYERS_POOLING_IMPL_H

#include "models/layers/layer_impl.h"

/* Windows along up to three dimensions. */
typedef struct iso_pool_windows {
    int64_t size[3], stride[3], before[3], after[3]; /* stride 0: as the size */
    iso_padding padding;
} iso_pool_windows;

/* Fills in strides and the padding for `dims` dimensions of these extents. False, with an error in the graph, if a
 * size is wrong or a window too large. */
bool iso_pool_windows_fit(const iso_layer *layer, int dims, const int64_t *extent, iso_pool_windows *pool);
/* Records pool_size, strides, padding and data_format. */
void iso_pool_note(iso_layer *layer, int dims, const iso_pool_windows *pool);

#endif
