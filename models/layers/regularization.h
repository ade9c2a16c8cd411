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
