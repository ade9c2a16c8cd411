/* Layers that change images at random in training: each image in its own way, which depends on the seed, the layer's
 * path, the step and the row of the global batch alone. In other functions they return x, in the type of the
 * network's layers.
 * x: [batch, height, width, channels], of integers or floating point -> the same shape unless stated otherwise.
 * Ranges are {least, largest}, uniform; one number f of Keras is {-f, f} unless stated otherwise. A range of zeros is
 * the default; a limit of ISO_ZERO is 0. Errors (in the graph): x has not four dimensions, a range or a size is
 * outside of what Keras takes.
 * Functions are local unless their comment says otherwise; every rank makes the same calls.
 * Pointers that functions return belong to the graph unless their comment says otherwise. */
#ifndef ISO_MODELS_LAYERS_AUGMENTATION_H
#define ISO_MODELS_LAYERS_AUGMENTATION_H

#include "runtime/base/options.h"
#include "runtime/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Half of the images are mirrored. */
typedef enum iso_flip_mode {
    ISO_FLIP_HORIZONTAL_AND_VERTICAL = 0, /* in both directions, or not at all */
    ISO_FLIP_HORIZONTAL,                  /* left and right are exchanged */
    ISO_FLIP_VERTICAL,                    /* top and bottom */
} iso_flip_mode;
typedef struct iso_random_flip_options {
    char begin_;
    iso_tensor *x;
    iso_flip_mode mode;
    const char *name;
} iso_random_flip_options;
ISO_API iso_tensor *iso_random_flip_with(const iso_random_flip_options *options, size_t size);
#define iso_random_flip(...) iso_random_flip_with(ISO_OPTIONS(iso_random_flip_options, __VA_ARGS__))

/* Turned around the centre by an angle in `factor`, in turns, from -1 to 1; positive: counterclockwise. */
typedef struct iso_random_rotation_options {
    char begin_;
    iso_tensor *x;
    double factor[2];        /* {0, 0}: no rotation */
    iso_fill_mode fill_mode; /* what lies outside of the image; default: ISO_FILL_REFLECT */
    double fill_value;       /* of ISO_FILL_CONSTANT */
    bool nearest;            /* the nearest pixel; default: bilinear interpolation */
    const char *name;
} iso_random_rotation_options;
ISO_API iso_tensor *iso_random_rotation_with(const iso_random_rotation_options *options, size_t size);
#define iso_random_rotation(...)                                                                             \
    iso_random_rotation_with(ISO_OPTIONS(iso_random_rotation_options, __VA_ARGS__))

/* iso_random_translation: moved down by a number in `height_factor` times the height, and right by one in
 * `width_factor` times the width, from -1 to 1.
 * iso_random_zoom: shows 1 + a number in `height_factor` times as much of the height, around the centre, and likewise
 * of the width; from above -1 to 1. Without a width_factor, Keras's None, the number of the height is that of the
 * width, too.
 * iso_random_shear: the column moves by a number in `width_factor` times the row, and the row by one in
 * `height_factor` times the column; from 0 to 1, and for half of the images negative. Keras's names are x_factor and
 * y_factor. */
typedef struct iso_random_move_options {
    char begin_;
    iso_tensor *x;
    double height_factor[2], width_factor[2];
    iso_fill_mode fill_mode; /* as above */
    double fill_value;
    bool nearest;
    const char *name;
} iso_random_move_options;
ISO_API iso_tensor *iso_random_translation_with(const iso_random_move_options *options, size_t size);
#define iso_random_translation(...)                                                                          \
    iso_random_translation_with(ISO_OPTIONS(iso_random_move_options, __VA_ARGS__))
ISO_API iso_tensor *iso_random_zoom_with(const iso_random_move_options *options, size_t size);
#define iso_random_zoom(...) iso_random_zoom_with(ISO_OPTIONS(iso_random_move_options, __VA_ARGS__))
ISO_API iso_tensor *iso_random_shear_with(const iso_random_move_options *options, size_t size);
#define iso_random_shear(...) iso_random_shear_with(ISO_OPTIONS(iso_random_move_options, __VA_ARGS__))

/* A part of height x width pixels, at a place that is the same for all images of a step -> [batch, height, width,
 * channels]. If one of the sizes is that of x, the part in the middle. In other functions the largest part of x in
 * the middle whose sides have the ratio height : width, enlarged or reduced to this size by bilinear interpolation,
 * as Keras's documentation has it (Keras 3.15.1 itself returns x in its own size). Larger parts than x: an error. */
typedef struct iso_random_crop_options {
    char begin_;
    iso_tensor *x;
    int64_t height, width;
    const char *name;
} iso_random_crop_options;
ISO_API iso_tensor *iso_random_crop_with(const iso_random_crop_options *options, size_t size);
#define iso_random_crop(...) iso_random_crop_with(ISO_OPTIONS(iso_random_crop_options, __VA_ARGS__))

/* Values are clipped to value_range, by default {0, 255}.
 * iso_random_contrast: mean + (x - mean) times a number from 1 - factor[0] to 1 + factor[1], with the mean of each
 * channel of an image; limits from 0 to 1; one number f of Keras is {0, f}.
 * iso_random_brightness: x + a number in `factor` times the length of value_range; limits from -1 to 1.
 * iso_random_invert, which does not clip: value_range[1] - x, with a probability that is drawn from `factor`, from 0
 * to 1; default: {0, 1}; one number f of Keras is {0, f}. */
typedef struct iso_random_color_options {
    char begin_;
    iso_tensor *x;
    double factor[2];
    double value_range[2];
    const char *name;
} iso_random_color_options;
ISO_API iso_tensor *iso_random_contrast_with(const iso_random_color_options *options, size_t size);
#define iso_random_contrast(...) iso_random_contrast_with(ISO_OPTIONS(iso_random_color_options, __VA_ARGS__))
ISO_API iso_tensor *iso_random_brightness_with(const iso_random_color_options *options, size_t size);
#define iso_random_brightness(...)                                                                           \
    iso_random_brightness_with(ISO_OPTIONS(iso_random_color_options, __VA_ARGS__))
ISO_API iso_tensor *iso_random_invert_with(const iso_random_color_options *options, size_t size);
#define iso_random_invert(...) iso_random_invert_with(ISO_OPTIONS(iso_random_color_options, __VA_ARGS__))

/* A rectangle of an image is replaced, with a probability that is drawn from `factor`, from 0 to 1. Its sides are the
 * square roots of two numbers from `scale` (0 to 1) times those of the image. */
typedef struct iso_random_erasing_options {
    char begin_;
    iso_tensor *x;
    double factor[2];      /* {0, 1}; one number f of Keras is {0, f} */
    double scale[2];       /* {0.02, 0.33}; one number f of Keras is {0, f} */
    double value_range[2]; /* {0, 255}: what is filled in is clipped to it */
    bool constant;         /* fill_value everywhere; default: normal numbers times value_range[1] */
    double fill_value;
    const char *name;
} iso_random_erasing_options;
ISO_API iso_tensor *iso_random_erasing_with(const iso_random_erasing_options *options, size_t size);
#define iso_random_erasing(...) iso_random_erasing_with(ISO_OPTIONS(iso_random_erasing_options, __VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
