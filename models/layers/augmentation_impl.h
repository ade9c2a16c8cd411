/* Shared by the layers that change images at random: ranges and random numbers. For models/layers only. */
#ifndef ISO_MODELS_LAYERS_AUGMENTATION_IMPL_H
#define ISO_MODELS_LAYERS_AUGMENTATION_IMPL_H

#include "models/layers/augmentation.h"
#include "models/layers/layer_impl.h"

typedef struct iso_random_range {
    double low, high;
} iso_random_range;

/* A range of options, and its default if both of its limits are 0. */
iso_random_range iso_random_range_of(const double given[2], double low, double high);
/* False, and an error of the layer, if a limit is not from `least` to `largest`, or the first above the second. */
bool iso_random_range_fits(const iso_layer *layer, const char *what, iso_random_range range, double least,
                           double largest);
/* The same for the range of values, which may be any finite numbers. */
bool iso_random_values_fit(const iso_layer *layer, iso_random_range values);
/* A number for each image, [batch, 1], or if not each, [1, 1]: of the layer's random numbers `what`. */
iso_tensor *iso_random_draw(const iso_layer *layer, iso_tensor *x, bool each, const char *what,
                            iso_random_range range, iso_uniform_function function);
/* [batch, 1] as [batch, 1, 1, 1] */
iso_tensor *iso_random_for_pixels(iso_tensor *drawn);
/* x with all values between the limits. */
iso_tensor *iso_random_clip(iso_tensor *x, iso_random_range limits);
/* Begins a layer on images. */
bool iso_random_begin(iso_layer *layer, iso_tensor **x, const char *type, const char *base, const char *name);
/* Records a range as a list, then what all of these layers have; ends the layer. */
void iso_random_note(iso_layer *layer, const char *key, iso_random_range range);
iso_tensor *iso_random_end(iso_layer *layer, iso_tensor *training, iso_tensor *inference);

/* A range of a config: two numbers in any order, or a number f, {-f, f} or, of ranges that begin with 0, {0, f}. */
void iso_config_range(const iso_layer_config *config, const char *key, bool from_zero, double range[2]);

#endif
