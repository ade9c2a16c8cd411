/* Shared by the pools: sizes and padding of their windows. */
#include "models/layers/pooling_impl.h"

bool iso_pool_windows_fit(const iso_layer *layer, int dims, const int64_t *extent, iso_pool_windows *pool)
{
    for (int i = 0; i < dims; i++) {
        const int64_t size = pool->size[i], stride = pool->stride[i] ? pool->stride[i] : size;
        if (size <= 0 || stride <= 0 || size > INT32_MAX || stride > INT32_MAX) {
            iso_layer_fail(layer, "pool_size %lld, strides %lld: both must be positive", (long long)size,
                           (long long)stride);
            return false;
        }
        if (pool->padding == ISO_VALID && size > extent[i]) {
            iso_layer_fail(layer,
                           "its window reaches over %lld elements, its input has %lld (padding is valid)",
                           (long long)size, (long long)extent[i]);
            return false;
        }
        pool->stride[i] = stride;
        iso_layer_pad(pool->padding, extent[i], size, stride, &pool->before[i], &pool->after[i]);
    }
    return true;
}

void iso_pool_note(iso_layer *layer, int dims, const iso_pool_windows *pool)
{
    iso_layer_note_integers(layer, "pool_size", pool->size, dims);
    iso_layer_note_integers(layer, "strides", pool->stride, dims);
    iso_layer_note_padding(layer, pool->padding);
    iso_layer_note_text(layer, "data_format", "channels_last");
}
