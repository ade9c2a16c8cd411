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
    [ISO_RELU6] = "relu6",
    [ISO_SELU] = "selu",
    [ISO_SOFTSIGN] = "softsign",
    [ISO_EXPONENTIAL] = "exponential",
    [ISO_HARD_SIGMOID] = "hard_sigmoid",
    [ISO_HARD_SILU] = "hard_silu",
    [ISO_MISH] = "mish",
    [ISO_LOG_SOFTMAX] = "log_softmax",
};

enum { KINDS = sizeof names / sizeof names[0] };

bool iso_activation_find(const char *name, iso_activation_kind *kind)
{
    if (strcmp(name, "swish") == 0 || strcmp(name, "hard_swish") == 0) /* Keras's other names */
        name = name[0] == 's' ? "silu" : "hard_silu";
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

/* min(max(x, 0), most) */
static iso_tensor *relu_up_to(iso_tensor *x, double most)
{
    return iso_minimum(iso_relu(x), iso_number(iso_tensor_graph(x), iso_tensor_dtype(x), most));
}

static iso_tensor *hard_sigmoid(iso_tensor *x)
{
    return iso_affine(relu_up_to(iso_affine(x, 1, 3), 6), 1.0 / 6, 0);
}

/* Klambauer et al. 2017, arXiv 1706.02515 */
static iso_tensor *selu(iso_tensor *x)
{
    return iso_affine(iso_elu(x, 1.6732632423543772848170429916717), 1.0507009873554804934193349852946, 0);
}

iso_tensor *iso_activate(iso_tensor *x, iso_activation_kind kind)
{
    ISO_NEED_TENSORS(x);
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
    case ISO_RELU6:
        return relu_up_to(x, 6);
    case ISO_SELU:
        return selu(x);
    case ISO_SOFTSIGN:
        return iso_divide(x, iso_affine(iso_abs(x), 1, 1));
    case ISO_EXPONENTIAL:
        return iso_exp(x);
    case ISO_HARD_SIGMOID:
        return hard_sigmoid(x);
    case ISO_HARD_SILU:
        return iso_multiply(x, hard_sigmoid(x));
    case ISO_MISH: /* Misra 2019, arXiv 1908.08681 */
        return iso_multiply(x, iso_tanh(iso_softplus(x)));
    case ISO_LOG_SOFTMAX:
        return iso_log_softmax(x, -1);
    }
    iso_graph_fail(iso_tensor_graph(x), "unknown activation number %d", (int)kind);
    return iso_graph_bad_tensor(iso_tensor_graph(x));
}

/* ---- layers ---- */

typedef enum layer_class { ACTIVATION, RELU, LEAKY_RELU, ELU, SOFTMAX } layer_class;
static const struct {
    const char *type, *base;
} classes[] = {{"Activation", "activation"},
               {"ReLU", "re_lu"},
               {"LeakyReLU", "leaky_re_lu"},
               {"ELU", "elu"},
               {"Softmax", "softmax"}};

/* Keras's ReLU with all its numbers. */
static iso_tensor *relu_layer(iso_layer *layer, const iso_activation_options *options, iso_tensor *x)
{
    double slope = options->negative_slope, threshold = options->threshold;
    bool limited = options->max_value != 0;
    double most = iso_option_number(options->max_value, 0);
    if (!(slope >= 0) || !(threshold >= 0) || !(most >= 0))
        return iso_layer_fail(layer, "negative_slope %g, threshold %g, max_value %g: none may be negative",
                              slope, threshold, most);
    if (limited)
        iso_layer_note_real(layer, "max_value", most);
    else
        iso_layer_note_json(layer, "max_value", "null");
    iso_layer_note_real(layer, "negative_slope", slope);
    iso_layer_note_real(layer, "threshold", threshold);
    if (threshold == 0 && !limited)
        return slope == 0 ? iso_relu(x) : iso_leaky_relu(x, slope);
    iso_tensor *zero = iso_number(iso_tensor_graph(x), iso_tensor_dtype(x), 0);
    iso_tensor *above = iso_greater(x, iso_number(iso_tensor_graph(x), iso_tensor_dtype(x), threshold));
    iso_tensor *y = threshold == 0 ? iso_relu(x) : iso_where(above, x, zero);
    if (limited)
        y = iso_minimum(y, iso_number(iso_tensor_graph(x), iso_tensor_dtype(x), most));
    return slope == 0 ? y : iso_subtract(y, iso_affine(iso_relu(iso_affine(x, -1, threshold)), slope, 0));
}

static iso_tensor *leaky_relu_layer(iso_layer *layer, const iso_activation_options *options, iso_tensor *x)
{
    double slope = iso_option_number(options->negative_slope, 0.3);
    iso_layer_note_real(layer, "negative_slope", slope);
    return iso_leaky_relu(x, slope);
}

static iso_tensor *elu_layer(iso_layer *layer, const iso_activation_options *options, iso_tensor *x)
{
    double alpha = iso_option_number(options->alpha, 1);
    iso_layer_note_real(layer, "alpha", alpha);
    return iso_elu(x, alpha);
}

/* Over several axes at once these are made one. */
static iso_tensor *softmax_layer(iso_layer *layer, const iso_activation_options *options, iso_tensor *x)
{
    int back[ISO_MAX_RANK], count = options->axis_count;
    static const int last[] = {-1};
    if (count < 0 || count > ISO_MAX_RANK)
        return iso_layer_fail(layer, "axis has %d numbers", count);
    uint32_t axes = iso_layer_axes(layer, x, count ? options->axis : last, count ? count : 1);
    if (!axes)
        return iso_layer_broken(x);
    iso_layer_note_axes(layer, "axis", axes);
    if (count <= 1)
        return iso_softmax(x, __builtin_ctz(axes));
    x = iso_layer_axes_last(x, axes, back);
    iso_shape shape = *iso_tensor_shape(x), joined = {.rank = shape.rank - count + 1};
    for (int d = 0; d < joined.rank; d++)
        joined.dim[d] = shape.dim[d];
    joined.dim[joined.rank - 1] = -1;
    return iso_layer_axes_back(iso_reshape_to(iso_softmax(iso_reshape_to(x, joined), -1), shape), back);
}

/* What a class makes of x, its numbers noted. */
static iso_tensor *by_class(iso_layer *layer, const iso_activation_options *options, layer_class kind,
                            iso_tensor *x)
{
    switch (kind) {
    case RELU:
        return relu_layer(layer, options, x);
    case LEAKY_RELU:
        return leaky_relu_layer(layer, options, x);
    case ELU:
        return elu_layer(layer, options, x);
    case SOFTMAX:
        return softmax_layer(layer, options, x);
    case ACTIVATION:
        break;
    }
    const char *name = iso_activation_name(options->kind);
    if (name)
        iso_layer_note_text(layer, "activation", name);
    return iso_activate(x, options->kind);
}

static iso_tensor *activation_layer(const iso_activation_options *options, layer_class kind)
{
    iso_layer layer;
    iso_tensor *x = options->x;
    if (!iso_layer_begin(&layer, x, classes[kind].type, classes[kind].base, options->name))
        return iso_layer_broken(x);
    return iso_layer_end(&layer, by_class(&layer, options, kind, x));
}

/* Which class has the numbers that are given. */
static layer_class class_of(const iso_activation_options *options)
{
    if (options->kind == ISO_RELU && (options->negative_slope || options->max_value || options->threshold))
        return RELU;
    if (options->kind == ISO_LEAKY_RELU && options->negative_slope)
        return LEAKY_RELU;
    if (options->kind == ISO_ELU && options->alpha)
        return ELU;
    return options->kind == ISO_SOFTMAX && options->axis_count ? SOFTMAX : ACTIVATION;
}

iso_tensor *iso_layer_activate(iso_layer *layer, iso_tensor *y, iso_activation_kind kind,
                               const iso_activation_numbers *numbers)
{
    iso_activation_options options = {.kind = kind,
                                      .negative_slope = numbers->negative_slope,
                                      .max_value = numbers->max_value,
                                      .threshold = numbers->threshold,
                                      .alpha = numbers->alpha};
    layer_class class = class_of(&options);
    if (class == ACTIVATION)
        return by_class(layer, &options, class, y);
    iso_layer inner = {.graph = layer->graph, .type = layer->type, .name = layer->name};
    y = by_class(&inner, &options, class, y);
    iso_layer_note_object(layer, "activation", "keras.layers", classes[class].type, &inner.config);
    iso_text_free(&inner.config);
    return y;
}

iso_tensor *iso_activation_with(const iso_activation_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_activation_options, options, given, size);
    return options.x ? activation_layer(&options, class_of(&options)) : iso_layer_broken(options.x);
}

static iso_tensor *build_activation(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_activation_numbers with;
    iso_activation_options options = {.x = x[0], .name = config->name};
    (void)count;
    options.kind = iso_config_activation(config, iso_tensor_graph(x[0]), &with);
    options.negative_slope = with.negative_slope;
    options.max_value = with.max_value;
    options.threshold = with.threshold;
    options.alpha = with.alpha;
    return iso_activation_with(&options, sizeof options);
}

static iso_tensor *build_relu(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    (void)count;
    return activation_layer(
        &(iso_activation_options){.x = x[0],
                                  .name = config->name,
                                  .negative_slope = iso_config_number(config, "negative_slope", 0),
                                  .max_value = iso_config_option(config, "max_value"),
                                  .threshold = iso_config_number(config, "threshold", 0)},
        RELU);
}

static iso_tensor *build_leaky_relu(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    (void)count;
    return activation_layer(
        &(iso_activation_options){
            .x = x[0], .name = config->name, .negative_slope = iso_config_option(config, "negative_slope")},
        LEAKY_RELU);
}

static iso_tensor *build_elu(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    (void)count;
    return activation_layer(&(iso_activation_options){.x = x[0],
                                                      .name = config->name,
                                                      .alpha = iso_config_option(config, "alpha")},
                            ELU);
}

static iso_tensor *build_softmax(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_activation_options options = {.x = x[0], .name = config->name};
    int64_t axis[ISO_MAX_RANK];
    (void)count;
    options.axis_count = iso_config_counts(config, "axis", axis, ISO_MAX_RANK);
    for (int i = 0; i < options.axis_count; i++)
        options.axis[i] = (int)axis[i];
    return activation_layer(&options, SOFTMAX);
}

const iso_layer_type iso_layer_activation = {.keras = "Activation", .build = build_activation};
const iso_layer_type iso_layer_relu = {.keras = "ReLU", .build = build_relu};
const iso_layer_type iso_layer_leaky_relu = {.keras = "LeakyReLU", .build = build_leaky_relu};
const iso_layer_type iso_layer_elu = {.keras = "ELU", .build = build_elu};
const iso_layer_type iso_layer_softmax = {.keras = "Softmax", .build = build_softmax};
