/* Activations: those of layers (`.activation`), and layers that are an activation.
 * Functions are local unless their comment says otherwise; every rank makes the same calls.
 * Pointers that functions return belong to the graph unless their comment says otherwise. */
#ifndef ISO_MODELS_LAYERS_ACTIVATION_H
#define ISO_MODELS_LAYERS_ACTIVATION_H

#include "runtime/base/options.h"
#include "runtime/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum iso_activation_kind {
    ISO_LINEAR = 0,
    ISO_RELU,
    ISO_SOFTMAX, /* over the last dimension */
    ISO_SIGMOID,
    ISO_TANH,
    ISO_GELU,      /* by erf, Keras's default */
    ISO_GELU_TANH, /* its approximation by tanh */
    ISO_SILU,
    ISO_ELU,
    ISO_SOFTPLUS,
    ISO_LEAKY_RELU, /* slope 0.2, as the name means in Keras; iso_leaky_relu() takes any */
    ISO_RELU6,      /* relu, at most 6 */
    ISO_SELU,
    ISO_SOFTSIGN,
    ISO_EXPONENTIAL,
    ISO_HARD_SIGMOID,   /* relu6(x + 3) / 6 */
    ISO_HARD_SILU,      /* x hard_sigmoid(x) */
    ISO_MISH,           /* x tanh(softplus(x)) */
    ISO_LOG_SOFTMAX,    /* over the last dimension */
    ISO_LOG_SIGMOID,    /* log(sigmoid(x)) */
    ISO_CELU,           /* elu with slope 1 at 0 */
    ISO_HARD_SHRINK,    /* x where |x| > 1/2, else 0 */
    ISO_HARD_TANH,      /* x, at least -1 and at most 1 */
    ISO_SOFT_SHRINK,    /* x moved by 1/2 towards 0, where |x| > 1/2, else 0 */
    ISO_SPARSE_PLUS,    /* 0 up to -1, x from 1 on, (x + 1)^2 / 4 between */
    ISO_SPARSE_SIGMOID, /* 0 up to -1, 1 from 1 on, (x + 1) / 2 between */
    ISO_SQUAREPLUS,     /* (x + sqrt(x^2 + 4)) / 2 */
    ISO_TANH_SHRINK,    /* x - tanh(x) */
} iso_activation_kind;

/* The settings of activations; 0: the default of the activation. */
typedef struct iso_activation_numbers {
    double negative_slope; /* of ISO_RELU (0) and ISO_LEAKY_RELU (0.2) */
    double max_value;      /* of ISO_RELU; none */
    double threshold;      /* of ISO_RELU: elements not above it become 0; 0 */
    double alpha;          /* of ISO_ELU; 1 */
} iso_activation_numbers;

/* An activation as a layer of its own. If a setting is given, it is Keras's layer with that setting: ReLU,
 * LeakyReLU, ELU, Softmax. The plain ops (iso_relu(x), iso_softmax(x, axis), ...) are in graph.h. */
typedef struct iso_activation_options {
    char begin_;
    iso_tensor *x;
    iso_activation_kind kind;
    double negative_slope; /* of ISO_RELU (0) and ISO_LEAKY_RELU (0.2; 0.3 as Keras's layer LeakyReLU) */
    double max_value;      /* of ISO_RELU; none */
    double threshold;      /* of ISO_RELU: elements not above it become 0; 0 */
    double alpha;          /* of ISO_ELU; 1 */
    int axis[ISO_MAX_RANK], axis_count; /* of ISO_SOFTMAX; the last dimension */
    const char *name;
    /* Of ISO_SOFTMAX, Keras's layer Softmax: true (of numbers: above 0.5) for the elements that count; the others,
     * and all where none counts, become 0. Each of its dimensions is that of x or 1. NULL: x's own mask, if any. */
    iso_tensor *mask;
} iso_activation_options;
ISO_API iso_tensor *iso_activation_with(const iso_activation_options *options, size_t size);
#define iso_activation(...) iso_activation_with(ISO_OPTIONS(iso_activation_options, __VA_ARGS__))

/* max(x, 0) - alpha * max(-x, 0). alpha is trained; it has x's shape without the batch, and 1 along the shared
 * axes. */
typedef struct iso_prelu_options {
    char begin_;
    iso_tensor *x;
    int shared_axes[ISO_MAX_RANK]; /* dimensions of x: with {1, 2} each channel of an image has one alpha */
    int shared_axis_count;
    iso_initializer alpha_initializer; /* zeros */
    double alpha_l1, alpha_l2;
    const char *alpha_layout;
    const char *name;
    iso_weight_constraint alpha_constraint; /* applied after each update */
} iso_prelu_options;
ISO_API iso_tensor *iso_prelu_with(const iso_prelu_options *options, size_t size);
#define iso_prelu(...) iso_prelu_with(ISO_OPTIONS(iso_prelu_options, __VA_ARGS__))

/* The activation of x, as layers apply their `.activation`. */
ISO_API iso_tensor *iso_activate(iso_tensor *x, iso_activation_kind kind);

#ifdef __cplusplus
}
#endif
#endif
