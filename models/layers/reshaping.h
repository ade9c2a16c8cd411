/* Layers that move, add, remove or interpolate elements.
 * Functions are local unless their comment says otherwise; every rank makes the same calls.
 * Pointers that functions return belong to the graph unless their comment says otherwise. */
#ifndef ISO_MODELS_LAYERS_RESHAPING_H
#define ISO_MODELS_LAYERS_RESHAPING_H

#include "runtime/base/options.h"
#include "runtime/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* [batch, ...] -> [batch, product of the others] */
typedef struct iso_flatten_options {
    char begin_;
    iso_tensor *x;
    const char *name;
} iso_flatten_options;
ISO_API iso_tensor *iso_flatten_with(const iso_flatten_options *options, size_t size);
#define iso_flatten(...) iso_flatten_with(ISO_OPTIONS(iso_flatten_options, __VA_ARGS__))

/* [batch, ...] -> [batch, shape...]; one dimension of the shape may be -1 */
typedef struct iso_reshape_options {
    char begin_;
    iso_tensor *x;
    iso_shape shape;
    const char *name;
} iso_reshape_options;
ISO_API iso_tensor *iso_reshape_with(const iso_reshape_options *options, size_t size);
#define iso_reshape(...) iso_reshape_with(ISO_OPTIONS(iso_reshape_options, __VA_ARGS__))

/* Dimension i + 1 of the output is dimension dims[i] of x, counted from 1 after the batch: ISO_SHAPE(2, 1).
 */
typedef struct iso_permute_options {
    char begin_;
    iso_tensor *x;
    iso_shape dims;
    const char *name;
} iso_permute_options;
ISO_API iso_tensor *iso_permute_with(const iso_permute_options *options, size_t size);
#define iso_permute(...) iso_permute_with(ISO_OPTIONS(iso_permute_options, __VA_ARGS__))

/* Each row n times: [batch, features] -> [batch, n, features] */
typedef struct iso_repeat_vector_options {
    char begin_;
    iso_tensor *x;
    int64_t n;
    const char *name;
} iso_repeat_vector_options;
ISO_API iso_tensor *iso_repeat_vector_with(const iso_repeat_vector_options *options, size_t size);
#define iso_repeat_vector(...) iso_repeat_vector_with(ISO_OPTIONS(iso_repeat_vector_options, __VA_ARGS__))

/* Zeros before and after sequences: [batch, steps, c] -> [batch, before + steps + after, c] */
typedef struct iso_zero_padding1d_options {
    char begin_;
    iso_tensor *x;
    int64_t padding;  /* 1, before and after */
    int64_t sides[2]; /* {before, after} if they differ */
    const char *name;
} iso_zero_padding1d_options;
ISO_API iso_tensor *iso_zero_padding1d_with(const iso_zero_padding1d_options *options, size_t size);
#define iso_zero_padding1d(...) iso_zero_padding1d_with(ISO_OPTIONS(iso_zero_padding1d_options, __VA_ARGS__))

/* Removes the first and last steps of sequences. */
typedef struct iso_cropping1d_options {
    char begin_;
    iso_tensor *x;
    int64_t cropping; /* 1, before and after */
    int64_t sides[2]; /* {before, after} if they differ */
    const char *name;
} iso_cropping1d_options;
ISO_API iso_tensor *iso_cropping1d_with(const iso_cropping1d_options *options, size_t size);
#define iso_cropping1d(...) iso_cropping1d_with(ISO_OPTIONS(iso_cropping1d_options, __VA_ARGS__))

/* Zeros around images: [batch, h, w, c] -> [batch, top + h + bottom, left + w + right, c] */
typedef struct iso_zero_padding2d_options {
    char begin_;
    iso_tensor *x;
    int64_t padding;     /* 1, on all four sides */
    int64_t sides[2][2]; /* {{top, bottom}, {left, right}} if they differ */
    const char *name;
} iso_zero_padding2d_options;
ISO_API iso_tensor *iso_zero_padding2d_with(const iso_zero_padding2d_options *options, size_t size);
#define iso_zero_padding2d(...) iso_zero_padding2d_with(ISO_OPTIONS(iso_zero_padding2d_options, __VA_ARGS__))

/* Removes the edges of images. */
typedef struct iso_cropping2d_options {
    char begin_;
    iso_tensor *x;
    int64_t cropping;    /* 0, on all four sides */
    int64_t sides[2][2]; /* {{top, bottom}, {left, right}} if they differ */
    const char *name;
} iso_cropping2d_options;
ISO_API iso_tensor *iso_cropping2d_with(const iso_cropping2d_options *options, size_t size);
#define iso_cropping2d(...) iso_cropping2d_with(ISO_OPTIONS(iso_cropping2d_options, __VA_ARGS__))

/* The middle of images: [batch, h, w, c] -> [batch, height, width, c], from row (h - height) / 2 and column
 * (w - width) / 2 on, rounded down. */
typedef struct iso_center_crop_options {
    char begin_;
    iso_tensor *x;
    int64_t height, width;
    const char *name;
} iso_center_crop_options;
ISO_API iso_tensor *iso_center_crop_with(const iso_center_crop_options *options, size_t size);
#define iso_center_crop(...) iso_center_crop_with(ISO_OPTIONS(iso_center_crop_options, __VA_ARGS__))

/* Zeros around volumes: [batch, d, h, w, c] -> [batch, front + d + back, top + h + bottom, left + w + right, c] */
typedef struct iso_zero_padding3d_options {
    char begin_;
    iso_tensor *x;
    int64_t padding;     /* 1, on all six sides */
    int64_t sides[3][2]; /* {{front, back}, {top, bottom}, {left, right}} if they differ */
    const char *name;
} iso_zero_padding3d_options;
ISO_API iso_tensor *iso_zero_padding3d_with(const iso_zero_padding3d_options *options, size_t size);
#define iso_zero_padding3d(...) iso_zero_padding3d_with(ISO_OPTIONS(iso_zero_padding3d_options, __VA_ARGS__))

/* Removes the outer parts of volumes. */
typedef struct iso_cropping3d_options {
    char begin_;
    iso_tensor *x;
    int64_t cropping;    /* 1, on all six sides */
    int64_t sides[3][2]; /* {{front, back}, {top, bottom}, {left, right}} if they differ */
    const char *name;
} iso_cropping3d_options;
ISO_API iso_tensor *iso_cropping3d_with(const iso_cropping3d_options *options, size_t size);
#define iso_cropping3d(...) iso_cropping3d_with(ISO_OPTIONS(iso_cropping3d_options, __VA_ARGS__))

/* Repeats each step: [batch, steps, c] -> [batch, steps * size, c] */
typedef struct iso_up_sampling1d_options {
    char begin_;
    iso_tensor *x;
    int64_t size; /* 2 */
    const char *name;
} iso_up_sampling1d_options;
ISO_API iso_tensor *iso_up_sampling1d_with(const iso_up_sampling1d_options *options, size_t size);
#define iso_up_sampling1d(...) iso_up_sampling1d_with(ISO_OPTIONS(iso_up_sampling1d_options, __VA_ARGS__))

/* Enlarges images: [batch, h, w, c] -> [batch, h * size, w * size, c]. Elements are repeated, or interpolated
 * linearly (pixel centres aligned; outside the outermost centres the value of the edge). */
typedef struct iso_up_sampling2d_options {
    char begin_;
    iso_tensor *x;
    int64_t size; /* 2 */
    int64_t size_hw[2];
    bool bilinear;
    const char *name;
} iso_up_sampling2d_options;
ISO_API iso_tensor *iso_up_sampling2d_with(const iso_up_sampling2d_options *options, size_t size);
#define iso_up_sampling2d(...) iso_up_sampling2d_with(ISO_OPTIONS(iso_up_sampling2d_options, __VA_ARGS__))

/* Enlarges volumes: [batch, d, h, w, c] -> [batch, d * size, h * size, w * size, c]. Elements are repeated. */
typedef struct iso_up_sampling3d_options {
    char begin_;
    iso_tensor *x;
    int64_t size; /* 2 */
    int64_t size_dhw[3];
    const char *name;
} iso_up_sampling3d_options;
ISO_API iso_tensor *iso_up_sampling3d_with(const iso_up_sampling3d_options *options, size_t size);
#define iso_up_sampling3d(...) iso_up_sampling3d_with(ISO_OPTIONS(iso_up_sampling3d_options, __VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
