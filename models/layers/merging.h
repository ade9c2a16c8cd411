/* Layers of several inputs.
 * Functions are local unless their comment says otherwise; every rank makes the same calls.
 * Pointers that functions return belong to the graph unless their comment says otherwise. */
#ifndef ISO_MODELS_LAYERS_MERGING_H
#define ISO_MODELS_LAYERS_MERGING_H

#include "runtime/base/options.h"
#include "runtime/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sum, product, mean, largest and smallest and concatenation of several tensors, and the difference of two, as
 * layers with names: iso_merge_add(parts, 3). They broadcast as Keras's do: [batch, 4] as [batch, 1, 4] with
 * [batch, 3, 4]. The plain ops of two operands are iso_add, iso_multiply, ... */
typedef struct iso_merge_options {
    char begin_;
    iso_tensor *const *x;
    int count;
    int axis; /* of concatenation; 0: the last dimension */
    const char *name;
} iso_merge_options;
ISO_API iso_tensor *iso_merge_add_with(const iso_merge_options *options, size_t size);
ISO_API iso_tensor *iso_merge_multiply_with(const iso_merge_options *options, size_t size);
ISO_API iso_tensor *iso_merge_subtract_with(const iso_merge_options *options, size_t size);
ISO_API iso_tensor *iso_merge_average_with(const iso_merge_options *options, size_t size);
ISO_API iso_tensor *iso_merge_maximum_with(const iso_merge_options *options, size_t size);
ISO_API iso_tensor *iso_merge_minimum_with(const iso_merge_options *options, size_t size);
ISO_API iso_tensor *iso_concatenate_with(const iso_merge_options *options, size_t size);
#define iso_merge_add(...) iso_merge_add_with(ISO_OPTIONS(iso_merge_options, __VA_ARGS__))
#define iso_merge_multiply(...) iso_merge_multiply_with(ISO_OPTIONS(iso_merge_options, __VA_ARGS__))
#define iso_merge_subtract(...) iso_merge_subtract_with(ISO_OPTIONS(iso_merge_options, __VA_ARGS__))
#define iso_merge_average(...) iso_merge_average_with(ISO_OPTIONS(iso_merge_options, __VA_ARGS__))
#define iso_merge_maximum(...) iso_merge_maximum_with(ISO_OPTIONS(iso_merge_options, __VA_ARGS__))
#define iso_merge_minimum(...) iso_merge_minimum_with(ISO_OPTIONS(iso_merge_options, __VA_ARGS__))
#define iso_concatenate(...) iso_concatenate_with(ISO_OPTIONS(iso_merge_options, __VA_ARGS__))

/* For each row the sums of products along a dimension of x and one of y, of equal size: x [batch, a..., d, b...], y
 * [batch, e..., d, f...] -> [batch, a..., b..., e..., f...]; of two matrices [batch, 1]. */
typedef struct iso_dot_options {
    char begin_;
    iso_tensor *x, *y;
    int axes[2];    /* of x and y; 0: the last (negative: from the end) */
    bool normalize; /* x and y are divided by their norms along these dimensions first: cosines */
    const char *name;
} iso_dot_options;
ISO_API iso_tensor *iso_dot_with(const iso_dot_options *options, size_t size);
#define iso_dot(...) iso_dot_with(ISO_OPTIONS(iso_dot_options, __VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
