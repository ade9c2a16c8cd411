/* Layers that have an effect only in training functions.
 * Functions are local unless their comment says otherwise; every rank makes the same calls.
 * Pointers that functions return belong to the graph unless their comment says otherwise. */
#ifndef ISO_MODELS_LAYERS_REGULARIZATION_H
#define ISO_MODELS_LAYERS_REGULARIZATION_H

#include "runtime/base/options.h"
#include "runtime/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* In training functions each element is kept with probability 1 - rate and divided by it, and is 0 otherwise;
 * in other functions x is unchanged. */
typedef struct iso_dropout_options {
    char begin_;
    iso_tensor *x;
    double rate; /* 0 <= rate < 1 */
    const char *name;
    iso_shape
        noise_shape; /* of what is kept, broadcast to x: ISO_SHAPE(ISO_BATCH, 1, 1, 1) keeps whole images or none.
                              ISO_BATCH: as in x, in any dimension. Of no dimensions: each element for itself. */
} iso_dropout_options;
ISO_API iso_tensor *iso_dropout_with(const iso_dropout_options *options, size_t size);
#define iso_dropout(...) iso_dropout_with(ISO_OPTIONS(iso_dropout_options, __VA_ARGS__))

/* Dropout that drops whole channels of a row: of sequences [batch, steps, c], images [batch, h, w, c] and volumes
 * [batch, d, h, w, c]. */
typedef struct iso_spatial_dropout_options {
    char begin_;
    iso_tensor *x;
    double rate; /* 0 <= rate < 1 */
    const char *name;
} iso_spatial_dropout_options;
ISO_API iso_tensor *iso_spatial_dropout1d_with(const iso_spatial_dropout_options *options, size_t size);
ISO_API iso_tensor *iso_spatial_dropout2d_with(const iso_spatial_dropout_options *options, size_t size);
ISO_API iso_tensor *iso_spatial_dropout3d_with(const iso_spatial_dropout_options *options, size_t size);
#define iso_spatial_dropout1d(...)                                                                           \
    iso_spatial_dropout1d_with(ISO_OPTIONS(iso_spatial_dropout_options, __VA_ARGS__))
#define iso_spatial_dropout2d(...)                                                                           \
    iso_spatial_dropout2d_with(ISO_OPTIONS(iso_spatial_dropout_options, __VA_ARGS__))
#define iso_spatial_dropout3d(...)                                                                           \
    iso_spatial_dropout3d_with(ISO_OPTIONS(iso_spatial_dropout_options, __VA_ARGS__))

/* Dropout for networks of SELU (Klambauer et al. 2017, arXiv 1706.02515): in training functions each element
 * becomes -1.7581 with probability `rate`, and all are then scaled and shifted so that a mean of 0 and a variance of
 * 1 stay as they are; in other functions x is unchanged. */
typedef struct iso_alpha_dropout_options {
    char begin_;
    iso_tensor *x;
    double rate; /* 0 <= rate < 1 */
    const char *name;
    iso_shape noise_shape; /* as that of iso_dropout */
} iso_alpha_dropout_options;
ISO_API iso_tensor *iso_alpha_dropout_with(const iso_alpha_dropout_options *options, size_t size);
#define iso_alpha_dropout(...) iso_alpha_dropout_with(ISO_OPTIONS(iso_alpha_dropout_options, __VA_ARGS__))

/* In training functions multiplies each element by a normal number of mean 1 and standard deviation
 * sqrt(rate / (1 - rate)); in other functions x is unchanged. */
typedef struct iso_gaussian_dropout_options {
    char begin_;
    iso_tensor *x;
    double rate; /* 0 <= rate < 1 */
    const char *name;
} iso_gaussian_dropout_options;
ISO_API iso_tensor *iso_gaussian_dropout_with(const iso_gaussian_dropout_options *options, size_t size);
#define iso_gaussian_dropout(...)                                                                            \
    iso_gaussian_dropout_with(ISO_OPTIONS(iso_gaussian_dropout_options, __VA_ARGS__))

/* x itself. Adds (l1 * sum(|x|) + l2 * sum(x^2)) / rows to the losses of training and evaluation; rows: those of the
 * global batch. Within a TimeDistributed it adds nothing, as in Keras. */
typedef struct iso_activity_regularization_options {
    char begin_;
    iso_tensor *x;
    double l1, l2;
    const char *name;
} iso_activity_regularization_options;
ISO_API iso_tensor *iso_activity_regularization_with(const iso_activity_regularization_options *options,
                                                     size_t size);
#define iso_activity_regularization(...)                                                                     \
    iso_activity_regularization_with(ISO_OPTIONS(iso_activity_regularization_options, __VA_ARGS__))

/* Keras's activity_regularizer of the layer whose result is y: for all results of its last call, adds what
 * iso_activity_regularization adds for x. Returns y. Of a layer that is called several times, each call is
 * regularized:
 *     y = iso_regularize_activity(iso_dense(x, 64, .activation = ISO_RELU), .l1 = 1e-4);
 * If y is not the result of a layer, or a number is negative, that is an error of the graph. */
typedef struct iso_regularize_activity_options {
    char begin_;
    iso_tensor *y;
    double l1, l2;
} iso_regularize_activity_options;
ISO_API iso_tensor *iso_regularize_activity_with(const iso_regularize_activity_options *options, size_t size);
#define iso_regularize_activity(...)                                                                         \
    iso_regularize_activity_with(ISO_OPTIONS(iso_regularize_activity_options, __VA_ARGS__))

/* In training functions adds normal noise of this standard deviation; in other functions x is unchanged. */
typedef struct iso_gaussian_noise_options {
    char begin_;
    iso_tensor *x;
    double stddev;
    const char *name;
} iso_gaussian_noise_options;
ISO_API iso_tensor *iso_gaussian_noise_with(const iso_gaussian_noise_options *options, size_t size);
#define iso_gaussian_noise(...) iso_gaussian_noise_with(ISO_OPTIONS(iso_gaussian_noise_options, __VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
