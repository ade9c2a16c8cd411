/* Activations, inside other layers and as layers of their own. */
#include <math.h>
#include <string.h>

#include "models/layers/list.h"
#include "models/layers/masks.h"
#include "runtime/graph/ops/list.h"

/* ---- functions that are more than one op ---- */

static iso_tensor *linear(iso_tensor *x)
{
    return x;
}

static iso_tensor *relu(iso_tensor *x, const iso_activation_numbers *with)
{
    double slope = iso_option_number(with->negative_slope, 0),
           threshold = iso_option_number(with->threshold, 0);
    double most = iso_option_number(with->max_value, INFINITY);
    if (threshold == 0 && isinf(most))
        return slope == 0 ? iso_relu(x) : iso_leaky_relu(x, slope);
    if (threshold == 0 && slope == 0 && most > 0)
        return iso_clipped_relu(x, most);
    iso_tensor *zero = iso_number(iso_tensor_graph(x), iso_tensor_dtype(x), 0);
    iso_tensor *above = iso_greater(x, iso_number(iso_tensor_graph(x), iso_tensor_dtype(x), threshold));
    iso_tensor *y = threshold == 0 ? iso_relu(x) : iso_where(above, x, zero);
    if (!isinf(most))
        y = iso_minimum(y, iso_number(iso_tensor_graph(x), iso_tensor_dtype(x), most));
    return slope == 0 ? y : iso_subtract(y, iso_affine(iso_relu(iso_affine(x, -1, threshold)), slope, 0));
}

static iso_tensor *leaky_relu(iso_tensor *x, const iso_activation_numbers *with)
{
    return iso_leaky_relu(x, iso_option_number(with->negative_slope, 0.2));
}

static iso_tensor *elu(iso_tensor *x, const iso_activation_numbers *with)
{
    return iso_elu(x, iso_option_number(with->alpha, 1));
}

static iso_tensor *gelu(iso_tensor *x)
{
    return iso_gelu(x, false);
}

static iso_tensor *gelu_tanh(iso_tensor *x)
{
    return iso_gelu(x, true);
}

static iso_tensor *relu6(iso_tensor *x)
{
    return iso_clipped_relu(x, 6);
}

/* Klambauer et al. 2017, arXiv 1706.02515 */
static iso_tensor *selu(iso_tensor *x)
{
    return iso_affine(iso_elu(x, 1.6732632423543772848170429916717), 1.0507009873554804934193349852946, 0);
}

static iso_tensor *softsign(iso_tensor *x)
{
    return iso_divide(x, iso_affine(iso_abs(x), 1, 1));
}

static iso_tensor *hard_sigmoid(iso_tensor *x)
{
    return iso_affine(iso_clipped_relu(iso_affine(x, 1, 3), 6), 1.0 / 6, 0);
}

static iso_tensor *hard_silu(iso_tensor *x)
{
    return iso_multiply(x, hard_sigmoid(x));
}

/* Misra 2019, arXiv 1908.08681 */
static iso_tensor *mish(iso_tensor *x)
{
    return iso_multiply(x, iso_tanh(iso_softplus(x)));
}

static iso_tensor *softmax(iso_tensor *x)
{
    return iso_softmax(x, -1);
}

static iso_tensor *log_softmax(iso_tensor *x)
{
    return iso_log_softmax(x, -1);
}

static iso_tensor *log_sigmoid(iso_tensor *x)
{
    return iso_negate(iso_softplus(iso_negate(x)));
}

static iso_tensor *number_of(iso_tensor *x, double value)
{
    return iso_number(iso_tensor_graph(x), iso_tensor_dtype(x), value);
}

/* Barron 2017, arXiv 1704.07483, with alpha 1 */
static iso_tensor *celu(iso_tensor *x)
{
    return iso_elu(x, 1);
}

static iso_tensor *hard_shrink(iso_tensor *x)
{
    return iso_where(iso_greater(iso_abs(x), number_of(x, 0.5)), x, number_of(x, 0));
}

static iso_tensor *clipped(iso_tensor *x, double limit)
{
    return iso_minimum(iso_maximum(x, number_of(x, -limit)), number_of(x, limit));
}

static iso_tensor *hard_tanh(iso_tensor *x)
{
    return clipped(x, 1);
}

static iso_tensor *soft_shrink(iso_tensor *x)
{
    return iso_subtract(x, clipped(x, 0.5));
}

static iso_tensor *sparse_plus(iso_tensor *x)
{
    iso_tensor *between = iso_affine(iso_square(iso_affine(x, 1, 1)), 0.25, 0);
    iso_tensor *y = iso_where(iso_greater_equal(x, number_of(x, 1)), x, between);
    return iso_where(iso_less_equal(x, number_of(x, -1)), number_of(x, 0), y);
}

static iso_tensor *sparse_sigmoid(iso_tensor *x)
{
    return iso_affine(iso_clipped_relu(iso_affine(x, 1, 1), 2), 0.5, 0);
}

/* Barron 2021, arXiv 2112.11687, with b = 4 */
static iso_tensor *squareplus(iso_tensor *x)
{
    return iso_affine(iso_add(x, iso_sqrt(iso_affine(iso_square(x), 1, 4))), 0.5, 0);
}

static iso_tensor *tanh_shrink(iso_tensor *x)
{
    return iso_subtract(x, iso_tanh(x));
}

/* ---- rows ---- */

#define NUMBER(member, value)                                                                                \
    {                                                                                                        \
        .name = #member, .offset = offsetof(iso_activation_numbers, member), .fallback = value               \
    }
static const iso_setting of_relu[] = {
    NUMBER(max_value, INFINITY), NUMBER(negative_slope, 0), NUMBER(threshold, 0), {0}};
static const iso_setting of_leaky_relu[] = {NUMBER(negative_slope, 0.3), {0}};
static const iso_setting of_elu[] = {NUMBER(alpha, 1), {0}};

#define ROW(text, ...) (&(const iso_activation_type){.row.name = text, __VA_ARGS__}.row)
#define UNARY_OP(name, KIND) .op = &iso_op_##name, .unary = ISO_UNARY_##KIND
// clang-format off
const iso_descriptor *const iso_activations[] = {
    [ISO_LINEAR] = ROW("linear", .of = linear),
    [ISO_RELU] = ROW("relu", .row.keras = "ReLU", .row.setting = of_relu, .with = relu, .not_negative = true, UNARY_OP(relu, RELU)),
    [ISO_SOFTMAX] = ROW("softmax", .row.keras = "Softmax", .of = softmax),
    [ISO_SIGMOID] = ROW("sigmoid", .of = iso_sigmoid, UNARY_OP(sigmoid, SIGMOID)),
    [ISO_TANH] = ROW("tanh", .of = iso_tanh, UNARY_OP(tanh, TANH)),
    [ISO_GELU] = ROW("gelu", .of = gelu, UNARY_OP(gelu, GELU)),
    [ISO_GELU_TANH] = ROW("gelu_tanh", .of = gelu_tanh, .not_saved = true),
    [ISO_SILU] = ROW("silu", .other_name = "swish", .of = iso_silu, UNARY_OP(silu, SILU)),
    [ISO_ELU] = ROW("elu", .row.keras = "ELU", .row.setting = of_elu, .with = elu, UNARY_OP(elu, ELU)),
    [ISO_SOFTPLUS] = ROW("softplus", .of = iso_softplus, UNARY_OP(softplus, SOFTPLUS)),
    [ISO_LEAKY_RELU] = ROW("leaky_relu", .row.keras = "LeakyReLU", .row.setting = of_leaky_relu, .with = leaky_relu, UNARY_OP(leaky_relu, LEAKY_RELU)),
    [ISO_RELU6] = ROW("relu6", .of = relu6),
    [ISO_SELU] = ROW("selu", .of = selu),
    [ISO_SOFTSIGN] = ROW("softsign", .of = softsign),
    [ISO_EXPONENTIAL] = ROW("exponential", .of = iso_exp, UNARY_OP(exp, EXP)),
    [ISO_HARD_SIGMOID] = ROW("hard_sigmoid", .of = hard_sigmoid),
    [ISO_HARD_SILU] = ROW("hard_silu", .other_name = "hard_swish", .of = hard_silu),
    [ISO_MISH] = ROW("mish", .of = mish),
    [ISO_LOG_SOFTMAX] = ROW("log_softmax", .of = log_softmax),
    [ISO_LOG_SIGMOID] = ROW("log_sigmoid", .of = log_sigmoid),
    [ISO_CELU] = ROW("celu", .of = celu),
    [ISO_HARD_SHRINK] = ROW("hard_shrink", .of = hard_shrink),
    [ISO_HARD_TANH] = ROW("hard_tanh", .of = hard_tanh),
    [ISO_SOFT_SHRINK] = ROW("soft_shrink", .of = soft_shrink),
    [ISO_SPARSE_PLUS] = ROW("sparse_plus", .of = sparse_plus),
    [ISO_SPARSE_SIGMOID] = ROW("sparse_sigmoid", .of = sparse_sigmoid),
    [ISO_SQUAREPLUS] = ROW("squareplus", .of = squareplus),
    [ISO_TANH_SHRINK] = ROW("tanh_shrink", .of = tanh_shrink),
    NULL,
};
// clang-format on

/* NULL outside the range. */
static const iso_activation_type *type_of(iso_activation_kind kind)
{
    size_t count = sizeof iso_activations / sizeof iso_activations[0] - 1;
    return (size_t)kind < count ? (const iso_activation_type *)iso_activations[kind] : NULL;
}

static bool activation_find(const char *name, iso_activation_kind *kind)
{
    for (int i = 0; iso_activations[i]; i++) {
        const char *other = ((const iso_activation_type *)iso_activations[i])->other_name;
        *kind = (iso_activation_kind)i;
        if (strcmp(iso_activations[i]->name, name) == 0 || (other && strcmp(other, name) == 0))
            return true;
    }
    return false;
}

static iso_tensor *activate(iso_tensor *x, iso_activation_kind kind, const iso_activation_numbers *numbers)
{
    const iso_activation_type *type = type_of(kind);
    if (type)
        return type->of ? type->of(x) : type->with(x, numbers);
    iso_graph_fail(iso_tensor_graph(x), "unknown activation number %d", (int)kind);
    return iso_graph_bad_tensor(iso_tensor_graph(x));
}

iso_tensor *iso_activate(iso_tensor *x, iso_activation_kind kind)
{
    ISO_NEED_TENSORS(x);
    return activate(x, kind, &(iso_activation_numbers){0});
}

/* ---- layers ---- */

/* Whether a setting of the activation is given. It is then Keras's layer with these settings. */
static bool has_numbers(iso_activation_kind kind, const iso_activation_numbers *numbers)
{
    const iso_activation_type *type = type_of(kind);
    for (const iso_setting *s = type ? type->row.setting : NULL; s && s->name; s++)
        if (iso_setting_get(s, numbers) != 0)
            return true;
    return false;
}

/* The activation of y; records its settings. */
static iso_tensor *with_numbers(iso_layer *layer, iso_tensor *y, iso_activation_kind kind,
                                const iso_activation_numbers *numbers)
{
    const iso_activation_type *type = type_of(kind);
    for (const iso_setting *s = type->row.setting; s && s->name; s++) {
        double value = iso_setting_option(s, numbers);
        if (type->not_negative && !(value >= 0))
            return iso_layer_fail(layer, "%s %g may not be negative", s->name, value);
        if (isinf(value))
            iso_layer_note_none(layer, s->name);
        else
            iso_layer_note_real(layer, s->name, value);
    }
    return activate(y, kind, numbers);
}

iso_tensor *iso_layer_activate(iso_layer *layer, iso_tensor *y, iso_activation_kind kind,
                               const iso_activation_numbers *numbers)
{
    const iso_activation_type *type = type_of(kind);
    if (!has_numbers(kind, numbers)) {
        if (type)
            iso_layer_note_text(layer, "activation", type->row.name);
        return activate(y, kind, numbers);
    }
    iso_layer inner = iso_layer_note_object(layer, "activation", "keras.layers", type->row.keras);
    return with_numbers(&inner, y, kind, numbers);
}

/* Begins a layer of a class; its automatic name is made from that of the class. */
static bool activation_begin(iso_layer *layer, iso_tensor **x, const char *class_name, const char *name)
{
    char base[32];
    iso_text_snake_case(class_name, base, sizeof base);
    return iso_layer_begin(layer, x, class_name, base, name);
}

/* own: it is Keras's layer for this activation. */
static iso_tensor *make_layer(iso_tensor *x, const char *name, iso_activation_kind kind, bool own,
                              const iso_activation_numbers *numbers)
{
    iso_layer layer;
    if (!activation_begin(&layer, &x, own ? type_of(kind)->row.keras : iso_layer_activation.keras, name))
        return iso_layer_broken(x);
    return iso_layer_end(&layer, own ? with_numbers(&layer, x, kind, numbers)
                                     : iso_layer_activate(&layer, x, kind, numbers));
}

/* Several axes are merged into one. */
static iso_tensor *softmax_over(iso_layer *layer, const int *axis, int count, iso_tensor *x)
{
    int back[ISO_MAX_RANK];
    static const int last[] = {-1};
    if (count < 0 || count > ISO_MAX_RANK)
        return iso_layer_fail(layer, "axis has %d numbers", count);
    uint32_t axes = iso_layer_axes(layer, x, count ? axis : last, count ? count : 1);
    if (!axes)
        return iso_layer_broken(x);
    iso_layer_note_axes(layer, "axis", axes, axis, count);
    if (count <= 1)
        return iso_softmax(x, __builtin_ctz(axes));
    x = iso_layer_axes_last(x, axes, back);
    iso_shape shape = *iso_tensor_shape(x), joined = {.rank = shape.rank - count + 1};
    for (int d = 0; d < joined.rank; d++)
        joined.dim[d] = shape.dim[d];
    joined.dim[joined.rank - 1] = -1;
    return iso_layer_axes_back(iso_reshape_to(iso_softmax(iso_reshape_to(x, joined), -1), shape), back);
}

/* Whether each dimension of a mask is that of x or 1. */
static bool softmax_mask_fits(const iso_layer *layer, const iso_tensor *x, const iso_tensor *mask)
{
    const iso_shape *shape = iso_tensor_shape(x), *of = iso_tensor_shape(mask);
    char text[160], of_mask[160];
    bool fits = of->rank == shape->rank;
    for (int d = 0; fits && d < shape->rank; d++)
        fits = of->dim[d] == 1 || of->dim[d] == shape->dim[d];
    if (!fits)
        iso_layer_fail(
            layer,
            "its mask is %s, and its input %s: it takes a mask for that of its elements, as Keras's "
            "Softmax does; the activation 'softmax' passes on a mask of steps",
            iso_shape_text(of, of_mask, sizeof of_mask), iso_shape_text(shape, text, sizeof text));
    return fits;
}

/* The mask of a call as Keras's Softmax takes it; NULL: there is none. */
static iso_tensor *as_bool(iso_tensor *mask)
{
    if (!mask || !iso_tensor_good(mask) || iso_tensor_dtype(mask) == ISO_BOOL)
        return mask;
    const iso_dtype dtype = iso_tensor_dtype(mask);
    return iso_greater(mask, iso_number(iso_tensor_graph(mask), dtype, iso_dtype_is_float(dtype) ? 0.5 : 0));
}

/* mask: NULL: all elements count */
static iso_tensor *masked_softmax(iso_layer *layer, iso_tensor *x, iso_tensor *mask, const int *axis,
                                  int count)
{
    if (!mask)
        return softmax_over(layer, axis, count, x);
    if (!iso_tensor_good(mask) || !softmax_mask_fits(layer, x, mask))
        return iso_layer_broken(x);
    x = iso_where(mask, x, iso_number(layer->graph, iso_tensor_dtype(x), -1e9)); /* as in Keras */
    iso_tensor *y = softmax_over(layer, axis, count, x);
    return iso_tensor_good(y) ? iso_where(mask, y, iso_number(layer->graph, iso_tensor_dtype(y), 0)) : y;
}

static iso_tensor *softmax_layer(iso_tensor *x, iso_tensor *mask, const char *name, const int *axis,
                                 int count)
{
    iso_layer layer;
    iso_tensor *inputs[] = {x, mask};
    if (!iso_layer_begin_several(&layer, inputs, mask ? 2 : 1, type_of(ISO_SOFTMAX)->row.keras, "softmax",
                                 name))
        return iso_layer_broken(x);
    if (mask)
        iso_layer_note_mask(&layer, 1);
    mask = as_bool(mask);
    layer.masks = mask ? (iso_masks){mask, mask} : iso_tensor_masks(x); /* Keras passes on what it is given */
    return iso_layer_end(&layer, masked_softmax(&layer, iso_layer_cast(&layer, x),
                                                mask ? mask : iso_layer_mask(&layer, x), axis, count));
}

iso_tensor *iso_activation_with(const iso_activation_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_activation_options, options, given, size);
    iso_activation_numbers numbers = {.negative_slope = options.negative_slope,
                                      .max_value = options.max_value,
                                      .threshold = options.threshold,
                                      .alpha = options.alpha};
    if (!options.x)
        return iso_layer_broken(options.x);
    if (options.kind == ISO_SOFTMAX && (options.axis_count || options.mask))
        return softmax_layer(options.x, options.mask, options.name, options.axis, options.axis_count);
    if (options.mask)
        return iso_graph_fail(iso_tensor_graph(options.x),
                              "iso_activation: mask is given, which ISO_SOFTMAX alone takes"),
               iso_layer_broken(options.x);
    return make_layer(options.x, options.name, options.kind, has_numbers(options.kind, &numbers), &numbers);
}

/* ---- from data ---- */

/* The settings of Keras's layer for an activation, from the options. */
static void read_numbers(const iso_layer_config *config, const iso_descriptor *row,
                         iso_activation_numbers *numbers)
{
    for (const iso_setting *s = row->setting; s && s->name; s++) {
        double value = iso_config_number(config, s->name, NAN);
        if (isnan(value))
            value = isinf(s->fallback) ? 0 : s->fallback;
        else if (value == 0 && s->fallback != 0)
            value = ISO_ZERO;
        iso_setting_set(s, numbers, value);
    }
}

/* Members of every layer's config, which have no meaning here. */
static void pass_over_common(const iso_layer_config *layer)
{
    const iso_layer_config *dtype = layer->object ? layer->object(layer, "dtype") : NULL;
    layer->text(layer, "name");
    iso_config_flag(layer, "trainable", true);
    if (dtype)
        dtype->text(dtype, "name");
}

/* An activation that is given as a layer, with its settings. */
static bool read_layer(const iso_layer_config *layer, iso_activation_kind *kind,
                       iso_activation_numbers *numbers)
{
    pass_over_common(layer);
    for (int i = 0; iso_activations[i]; i++) {
        *kind = (iso_activation_kind)i;
        if (!iso_activations[i]->keras || strcmp(iso_activations[i]->keras, layer->type) != 0)
            continue;
        read_numbers(layer, iso_activations[i], numbers);
        return *kind != ISO_SOFTMAX || iso_config_count(layer, "axis", -1) == -1;
    }
    return false;
}

/* "'linear', 'relu', ..., ReLU, ..." */
static void add_supported(iso_text *text)
{
    for (int i = 0; iso_activations[i]; i++)
        iso_text_add(text, "%s'%s'", i ? ", " : "", iso_activations[i]->name);
    for (int i = 0; iso_activations[i]; i++)
        if (iso_activations[i]->keras)
            iso_text_add(text, ", %s%s", iso_activations[i]->keras,
                         i == ISO_SOFTMAX ? " over the last dimension" : "");
}

iso_activation_kind iso_config_activation(const iso_layer_config *config, iso_graph *graph,
                                          iso_activation_numbers *numbers)
{
    iso_activation_kind kind = ISO_LINEAR;
    const iso_layer_config *object = config->object ? config->object(config, "activation") : NULL;
    const char *text = object ? NULL : config->text(config, "activation");
    iso_text supported = {0};
    *numbers = (iso_activation_numbers){0};
    if (object ? read_layer(object, &kind, numbers) : !text || activation_find(text, &kind))
        return kind;
    add_supported(&supported);
    iso_config_refuse(config, "activation", iso_text_get(&supported));
    iso_text_free(&supported);
    if (!config->refuse)
        iso_graph_fail(graph, "unknown activation '%s'", text);
    return kind;
}

static iso_tensor *build_activation(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_activation_numbers numbers;
    iso_activation_kind kind = iso_config_activation(config, iso_tensor_graph(x[0]), &numbers);
    (void)count;
    return make_layer(x[0], config->name, kind, has_numbers(kind, &numbers), &numbers);
}

static iso_tensor *build_softmax(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    int64_t given[ISO_MAX_RANK];
    int axis[ISO_MAX_RANK], axis_count = iso_config_counts(config, "axis", given, ISO_MAX_RANK);
    for (int i = 0; i < axis_count; i++)
        axis[i] = (int)given[i];
    return softmax_layer(x[0], iso_config_mask(config, x, &count), config->name, axis, axis_count);
}

const iso_layer_type iso_layer_activation = {
    .keras = "Activation", .build = build_activation, .any_rank = true, .masks = ISO_MASKS_PASSED};
const iso_layer_type iso_layer_softmax = {.keras = "Softmax",
                                          .build = build_softmax,
                                          .several = true,
                                          .separate = true,
                                          .masks = ISO_MASKS_MADE,
                                          .takes_mask = true};

/* Keras's other layers for activations. */
#define LAYER_OF(NAME, KIND, CLASS)                                                                          \
    static iso_tensor *build_##NAME(const iso_layer_config *config, iso_tensor *const *x, int count)         \
    {                                                                                                        \
        iso_activation_numbers numbers = {0};                                                                \
        (void)count;                                                                                         \
        read_numbers(config, iso_activations[KIND], &numbers);                                               \
        return make_layer(x[0], config->name, KIND, true, &numbers);                                         \
    }                                                                                                        \
    const iso_layer_type iso_layer_##NAME = {                                                                \
        .keras = CLASS, .build = build_##NAME, .any_rank = true, .masks = ISO_MASKS_PASSED};
LAYER_OF(relu, ISO_RELU, "ReLU")
LAYER_OF(leaky_relu, ISO_LEAKY_RELU, "LeakyReLU")
LAYER_OF(elu, ISO_ELU, "ELU")
