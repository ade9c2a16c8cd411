/* Activations, inside other layers and as layers of their own. */
#include <string.h>

#include "models/layers/layer_impl.h"
#include "models/layers/list.h"

static const char *const names[] = {
    [ISO_LINEAR] = "linear",
    [ISO_RELU] = "relu",
    [ISO_SOFTMAX] = "softmax",
    [ISO_SIGMOID] = "sigmoid",
    [ISO_TANH] = "tanh",
    [ISO_GELU] = "gelu",
    [ISO_GELU_TANH] = "gelu_tanh",
    [ISO_SILU] = "silu",
    [ISO_ELU] = "elu",
    [ISO_SOFTPLUS] = "softplus",
    [ISO_LEAKY_RELU] = "leaky_relu",
};

enum { KINDS = sizeof names / sizeof names[0] };

bool iso_activation_find(const char *name, iso_activation_kind *kind)
{
    for (int i = 0; i < KINDS; i++) {
        if (strcmp(names[i], name) == 0) {
            *kind = (iso_activation_kind)i;
            return true;
        }
    }
    return false;
}

const char *iso_activation_name(iso_activation_kind kind)
{
    return (int)kind >= 0 && (int)kind < KINDS ? names[kind] : NULL;
}

iso_tensor *iso_activate(iso_tensor *x, iso_activation_kind kind)
{
    switch (kind) {
    case ISO_LINEAR:
        return x;
    case ISO_RELU:
        return iso_relu(x);
    case ISO_SOFTMAX:
        return iso_softmax(x, -1);
    case ISO_SIGMOID:
        return iso_sigmoid(x);
    case ISO_TANH:
        return iso_tanh(x);
    case ISO_GELU:
        return iso_gelu(x, false);
    case ISO_GELU_TANH:
        return iso_gelu(x, true);
    case ISO_SILU:
        return iso_silu(x);
    case ISO_ELU:
        return iso_elu(x, 1.0);
    case ISO_SOFTPLUS:
        return iso_softplus(x);
    case ISO_LEAKY_RELU:
        return iso_leaky_relu(x, 0.2);
    }
    iso_graph_fail(iso_tensor_graph(x), "unknown activation number %d", (int)kind);
    return iso_graph_bad_tensor(iso_tensor_graph(x));
}

iso_tensor *iso_activation_with(const iso_activation_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_activation_options, options, given, size);
    iso_layer layer;
    if (!iso_layer_begin(&layer, options.x, "Activation", "activation", options.name))
        return iso_layer_broken(options.x);
    if (iso_activation_name(options.kind))
        iso_layer_note_text(&layer, "activation", iso_activation_name(options.kind));
    return iso_layer_end(&layer, iso_activate(options.x, options.kind));
}

static iso_tensor *build_activation(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    (void)count;
    return iso_activation(x[0], iso_config_activation(config, iso_tensor_graph(x[0])), .name = config->name);
}

static iso_tensor *build_relu(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_layer layer;
    (void)count;
    if (!iso_layer_begin(&layer, x[0], "ReLU", "re_lu", config->name))
        return iso_layer_broken(x[0]);
    double slope = iso_config_number(config, "negative_slope", 0);
    iso_layer_note_real(&layer, "negative_slope", slope);
    return iso_layer_end(&layer, slope == 0 ? iso_relu(x[0]) : iso_leaky_relu(x[0], slope));
}

static iso_tensor *build_leaky_relu(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_layer layer;
    (void)count;
    if (!iso_layer_begin(&layer, x[0], "LeakyReLU", "leaky_re_lu", config->name))
        return iso_layer_broken(x[0]);
    double slope = iso_config_number(config, "negative_slope", 0.3);
    iso_layer_note_real(&layer, "negative_slope", slope);
    return iso_layer_end(&layer, iso_leaky_relu(x[0], slope));
}

static iso_tensor *build_elu(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_layer layer;
    (void)count;
    if (!iso_layer_begin(&layer, x[0], "ELU", "elu", config->name))
        return iso_layer_broken(x[0]);
    double alpha = iso_config_number(config, "alpha", 1);
    iso_layer_note_real(&layer, "alpha", alpha);
    return iso_layer_end(&layer, iso_elu(x[0], alpha));
}

static iso_tensor *build_softmax(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_layer layer;
    (void)count;
    if (!iso_layer_begin(&layer, x[0], "Softmax", "softmax", config->name))
        return iso_layer_broken(x[0]);
    int axis = (int)iso_config_count(config, "axis", -1);
    iso_layer_note_integer(&layer, "axis", axis);
    return iso_layer_end(&layer, iso_softmax(x[0], axis));
}

const iso_layer_type iso_layer_activation = {.keras = "Activation", .build = build_activation};
const iso_layer_type iso_layer_relu = {.keras = "ReLU", .build = build_relu};
const iso_layer_type iso_layer_leaky_relu = {.keras = "LeakyReLU", .build = build_leaky_relu};
const iso_layer_type iso_layer_elu = {.keras = "ELU", .build = build_elu};
const iso_layer_type iso_layer_softmax = {.keras = "Softmax", .build = build_softmax};
