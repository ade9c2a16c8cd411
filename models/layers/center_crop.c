/* CenterCrop: the middle of images. */
#include "models/layers/layer_impl.h"
#include "models/layers/list.h"

iso_tensor *iso_center_crop_with(const iso_center_crop_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_center_crop_options, options, given, size);
    iso_layer layer;
    if (!iso_layer_begin(&layer, &options.x, "CenterCrop", "center_crop", options.name) ||
        !iso_layer_check_rank(&layer, options.x, 4, "[batch, height, width, channels]"))
        return iso_layer_broken(options.x);
    const int64_t rows = iso_tensor_shape(options.x)->dim[1], columns = iso_tensor_shape(options.x)->dim[2],
                  wanted[] = {options.height, options.width, -1},
                  begin[] = {(rows - options.height) / 2, (columns - options.width) / 2, 0};
    if (options.height <= 0 || options.width <= 0)
        return iso_layer_fail(&layer, "height is %lld, width %lld: both must be positive",
                              (long long)options.height, (long long)options.width);
    if (options.height > rows || options.width > columns)
        return iso_layer_fail(
            &layer,
            "its images of %lld x %lld elements are smaller than height %lld, width %lld; such images, which "
            "Keras would enlarge, are not supported",
            (long long)rows, (long long)columns, (long long)options.height, (long long)options.width);
    iso_layer_note_integer(&layer, "height", options.height);
    iso_layer_note_integer(&layer, "width", options.width);
    iso_layer_note_text(&layer, "data_format", "channels_last");
    return iso_layer_end(&layer, iso_slice(options.x, begin, wanted));
}

static iso_tensor *center_crop_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    (void)count;
    return iso_center_crop(x[0], iso_config_size(config, "height", ISO_REQUIRED),
                           iso_config_size(config, "width", ISO_REQUIRED), .name = config->name);
}

const iso_layer_type iso_layer_center_crop = {.keras = "CenterCrop", .build = center_crop_build};
