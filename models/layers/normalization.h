/* Layers that normalise.
 * Functions are local unless their comment says otherwise; every rank makes the same calls.
 * Pointers that functions return belong to the graph unless their comment says otherwise. */
#ifndef ISO_MODELS_LAYERS_NORMALIZATION_H
#define ISO_MODELS_LAYERS_NORMALIZATION_H

#include "runtime/base/options.h"
#include "runtime/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Normalises over all dimensions except the channels. In training functions it uses the mean and (biased) variance
 * of the global batch, which also update the moving statistics, moving = momentum * moving + (1 - momentum) *
 * batch; in other functions it uses the moving statistics. Variables: gamma, beta, moving_mean, moving_variance:
 * [c]. */
typedef struct iso_batch_norm_options {
    char begin_;
    iso_tensor *x;
    bool no_scale, no_center;
    double momentum;                                                      /* 0.99; ISO_ZERO for 0 */
    double epsilon;                                                       /* 1e-3 */
    int axis;                                                             /* of the channels; 0: the last */
    iso_initializer gamma_initializer, beta_initializer;                  /* ones, zeros */
    iso_initializer moving_mean_initializer, moving_variance_initializer; /* zeros, ones */
    double gamma_l1, beta_l1, gamma_l2, beta_l2;
    const char *gamma_layout, *beta_layout, *moving_mean_layout, *moving_variance_layout;
    const char *name;
    iso_weight_constraint gamma_constraint, beta_constraint; /* applied after each update */
} iso_batch_norm_options;
ISO_API iso_tensor *iso_batch_norm_with(const iso_batch_norm_options *options, size_t size);
#define iso_batch_norm(...) iso_batch_norm_with(ISO_OPTIONS(iso_batch_norm_options, __VA_ARGS__))

/* Normalises each row over its last `axes` dimensions, or over the listed ones. Variables: gamma, beta, of the
 * shape of these dimensions. */
typedef struct iso_layer_norm_options {
    char begin_;
    iso_tensor *x;
    bool no_scale, no_center;
    double epsilon; /* 1e-3 */
    int axes;       /* 1: the last dimension */
    int axis[ISO_MAX_RANK],
        axis_count; /* axis_count not 0: these dimensions instead (negative: from the end) */
    iso_initializer gamma_initializer, beta_initializer; /* ones, zeros */
    double gamma_l1, beta_l1, gamma_l2, beta_l2;
    const char *gamma_layout, *beta_layout;
    const char *name;
    iso_weight_constraint gamma_constraint, beta_constraint; /* applied after each update */
} iso_layer_norm_options;
ISO_API iso_tensor *iso_layer_norm_with(const iso_layer_norm_options *options, size_t size);
#define iso_layer_norm(...) iso_layer_norm_with(ISO_OPTIONS(iso_layer_norm_options, __VA_ARGS__))

/* Divides each row by the root of the mean square of its last `axes` dimensions (Zhang and Sennrich 2019, arXiv
 * 1910.07467): x / sqrt(mean(x^2) + epsilon) * scale. Variable: scale, of the shape of these dimensions, ones at
 * first; with zero_centered, as in Gemma, the factor is 1 + scale, and scale is zeros at first, which Keras's files
 * cannot hold. */
typedef struct iso_rms_norm_options {
    char begin_;
    iso_tensor *x;
    double epsilon; /* 1e-6 */
    int axes;       /* 1: the last dimension */
    const char *scale_layout;
    const char *name;
    bool zero_centered;
} iso_rms_norm_options;
ISO_API iso_tensor *iso_rms_norm_with(const iso_rms_norm_options *options, size_t size);
#define iso_rms_norm(...) iso_rms_norm_with(ISO_OPTIONS(iso_rms_norm_options, __VA_ARGS__))

/* Divides x by its norm, sqrt(sum(x^2)), over the listed dimensions: x * min(1 / norm, 1e12). */
typedef struct iso_unit_norm_options {
    char begin_;
    iso_tensor *x;
    int axis[ISO_MAX_RANK], axis_count; /* axis_count 0: the last dimension (negative: from the end) */
    const char *name;
} iso_unit_norm_options;
ISO_API iso_tensor *iso_unit_norm_with(const iso_unit_norm_options *options, size_t size);
#define iso_unit_norm(...) iso_unit_norm_with(ISO_OPTIONS(iso_unit_norm_options, __VA_ARGS__))

/* Normalises each row over groups of channels and all other dimensions (Wu and He 2018, arXiv 1803.08494).
 * Variables: gamma, beta: [c]. */
typedef struct iso_group_norm_options {
    char begin_;
    iso_tensor *x;
    int64_t groups; /* 32; -1: each channel by itself */
    int axis;       /* of the channels; 0: the last */
    double epsilon; /* 1e-3 */
    bool no_scale, no_center;
    iso_initializer gamma_initializer, beta_initializer; /* ones, zeros */
    double gamma_l1, beta_l1, gamma_l2, beta_l2;
    const char *gamma_layout, *beta_layout;
    const char *name;
    iso_weight_constraint gamma_constraint, beta_constraint; /* applied after each update */
} iso_group_norm_options;
ISO_API iso_tensor *iso_group_norm_with(const iso_group_norm_options *options, size_t size);
#define iso_group_norm(...) iso_group_norm_with(ISO_OPTIONS(iso_group_norm_options, __VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
