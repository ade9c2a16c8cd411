/* EinsumDense: a product with a kernel by an equation of Einstein's summation, as "abc,cde->abde"; see einsum.h. */
#include <ctype.h>
#include <string.h>

#include "models/layers/einsum.h"
#include "models/layers/layer_impl.h"
#include "models/layers/list.h"

enum { RANK = '~' }; /* the label of an adapter's rank */

typedef struct equation {
    char x[ISO_MOST_LABELS + 1], kernel[ISO_MOST_LABELS + 1],
        y[ISO_MOST_LABELS + 1]; /* labels of dimensions */
    bool left, right;           /* "..." before or after the letters of x and y */
    int elided;                 /* dimensions that it stands for */
    int64_t size[128];          /* of each label */
} equation;

static int count_of(const char *labels)
{
    return (int)strlen(labels);
}

/* ---- reading ---- */

static bool take(const char **text, const char *word)
{
    const size_t length = strlen(word);
    const bool found = strncmp(*text, word, length) == 0;
    *text += found ? length : 0;
    return found;
}

/* Different letters, at least one. */
static bool take_letters(const char **text, char *labels)
{
    for (; isalpha((unsigned char)**text) && (unsigned char)**text < 128; ++*text) {
        if (count_of(labels) == ISO_MAX_RANK || iso_labels_have(labels, **text))
            return false;
        iso_labels_add(labels, **text);
    }
    return *labels;
}

/* [X],[K]->[Y], ...[X],[K]->...[Y] or [X]...,[K]->[Y]... */
static bool read_equation(const char *text, equation *e)
{
    e->left = take(&text, "...");
    bool good = take_letters(&text, e->x);
    e->right = good && !e->left && take(&text, "...");
    good = good && take(&text, ",") && take_letters(&text, e->kernel) && take(&text, "->") &&
           (!e->left || take(&text, "...")) && take_letters(&text, e->y) && (!e->right || take(&text, "..."));
    return good && !*text;
}

/* Puts labels of their own in the place of "...". False if there is no room for them. */
static bool fill_in(const equation *e, char *labels)
{
    char letters[ISO_MOST_LABELS + 1];
    if (count_of(labels) + e->elided > ISO_MAX_RANK)
        return false;
    strcpy(letters, e->left ? labels : "");
    *labels = e->left ? 0 : *labels;
    for (int i = e->elided; i > 0; i--)
        iso_labels_add(labels, (char)(ISO_ELLIPSIS + i - 1));
    strcat(labels, letters);
    return true;
}

static iso_tensor *wrong(const iso_layer *layer, const char *text, const char *why, char letter)
{
    const char name[2] = {letter};
    return iso_layer_fail(layer, "its equation is \"%s\": %s%s%s%s", text, letter ? "'" : "", name,
                          letter ? "' " : "", why);
}

/* Whether each letter stands where a product has one. */
static bool check_letters(const iso_layer *layer, const char *text, const equation *e)
{
    if (e->x[0] != e->y[0] || iso_labels_have(e->kernel, e->x[0]))
        wrong(layer, text, "the first dimension of input and result must be the same, the batch", 0);
    for (const char *k = e->kernel; *k; k++)
        if (iso_labels_have(e->x, *k) == iso_labels_have(e->y, *k))
            wrong(layer, text,
                  iso_labels_have(e->x, *k) ? "is in input, kernel and result, which is not supported"
                                            : "of the kernel is in neither input nor result",
                  *k);
    for (const char *y = e->y; *y; y++)
        if (!iso_labels_have(e->x, *y) && !iso_labels_have(e->kernel, *y))
            wrong(layer, text, "of the result is in neither input nor kernel", *y);
    return iso_graph_error(layer->graph) == ISO_OK;
}

/* The sizes of all labels: of x, and of the result as output_shape gives them. */
static bool find_sizes(const iso_layer *layer, const char *text, equation *e, const iso_shape *x,
                       const iso_shape *given)
{
    char shape[160];
    const int first = e->left && e->elided > 0 ? e->elided : 1; /* of those that output_shape has */
    const int end = count_of(e->y) - (e->right ? e->elided : 0);
    for (int i = 0; e->x[i]; i++)
        e->size[(int)e->x[i]] = x->dim[i];
    if (given->rank != end - first) {
        iso_layer_fail(layer,
                       "output_shape has %d dimensions, its equation \"%s\" has %d besides the batch%s",
                       given->rank, text, end - first, e->left || e->right ? " and \"...\"" : "");
        return false;
    }
    for (int i = first; i < end; i++) {
        const char label = e->y[i];
        const int64_t size = given->dim[i - first];
        const bool of_x = iso_labels_have(e->x, label);
        if (of_x ? size != ISO_BATCH && size != e->size[(int)label] : size <= 0 || size > INT32_MAX) {
            iso_layer_fail(layer, "output_shape has %lld for '%c' of its equation \"%s\", its input %s",
                           (long long)size, label, text, iso_shape_text(x, shape, sizeof shape));
            return false;
        }
        e->size[(int)label] = of_x ? e->size[(int)label] : size;
    }
    return true;
}

static bool prepare(const iso_layer *layer, const iso_einsum_dense_options *options, equation *e)
{
    const char *text = options->equation ? options->equation : "";
    char shape[160];
    const iso_shape *x = iso_tensor_shape(options->x);
    if (!read_equation(text, e)) {
        wrong(layer, text,
              "it must be \"[X],[K]->[Y]\", \"...[X],[K]->...[Y]\" or \"[X]...,[K]->[Y]...\", with "
              "different letters in each",
              0);
        return false;
    }
    e->elided = x->rank - count_of(e->x);
    if (e->elided < 0 || (e->elided > 0 && !e->left && !e->right) || !fill_in(e, e->x) || !fill_in(e, e->y)) {
        iso_layer_fail(layer, "its input has the shape %s, which does not fit its equation \"%s\"",
                       iso_shape_text(x, shape, sizeof shape), text);
        return false;
    }
    return check_letters(layer, text, e) && find_sizes(layer, text, e, x, &options->output_shape);
}

/* ---- computing ---- */

static iso_shape shape_of(const equation *e, const char *labels)
{
    iso_shape shape = {.rank = 0};
    for (; *labels; labels++)
        shape.dim[shape.rank++] = e->size[(int)*labels];
    return shape;
}

/* The bias's dimensions: from the first one of bias_axes on, those of the result, and 1 for those between them; its
 * labels are those of bias_axes. False, and an error, if a letter is not of the result. */
static bool bias_shape(const iso_layer *layer, const equation *e, const char *axes, char *labels,
                       iso_shape *shape)
{
    const int letters = count_of(e->y) - (e->right ? e->elided : 0);
    *shape = ISO_SCALAR;
    for (const char *c = axes; *c; c++)
        if (!isalpha((unsigned char)*c) || !iso_labels_have(e->y, *c) || *c == e->y[0])
            return iso_layer_fail(layer, "bias_axes is \"%s\": '%c' is the batch, or not of the result", axes,
                                  *c),
                   false;
    for (int i = 0; i < letters; i++) {
        const bool of_bias = iso_labels_have(axes, e->y[i]);
        if (of_bias)
            iso_labels_add(labels, e->y[i]);
        if (*labels)
            shape->dim[shape->rank++] = of_bias ? e->size[(int)e->y[i]] : 1;
    }
    for (int i = letters; e->y[i]; i++)
        shape->dim[shape->rank++] = 1;
    return true;
}

/* The kernel's fans: the elements of its dimensions that are summed, and of those that the result has. */
static void set_fans(const iso_layer *layer, const equation *e, const char *what)
{
    double in = 1, out = 1;
    for (const char *k = e->kernel; *k; k++)
        *(iso_labels_have(e->x, *k) ? &in : &out) *= (double)e->size[(int)*k];
    iso_layer_set_fans(layer, what, in, out);
}

/* Puts the rank's label in the place of the last one. */
static void shorten(const char *labels, char *with_rank)
{
    strcpy(with_rank, labels);
    with_rank[count_of(labels) - 1] = RANK;
}

/* As in Keras, the last dimension of kernel and result is that of b: a has the others. */
static iso_tensor *adapt(const iso_layer *layer, const iso_einsum_dense_options *o, const equation *e,
                         const iso_weight_form *kernel, iso_tensor *y)
{
    const int last = count_of(e->kernel) - 1;
    iso_labelled x = {.x = o->x}, a = {.x = NULL};
    char labels[ISO_MOST_LABELS + 1], why[ISO_EINSUM_WHY] = "";
    const iso_layer_adapter adapter =
        iso_tensor_good(y) ? iso_layer_adapt(layer, kernel, last) : (iso_layer_adapter){NULL, NULL, 0};
    if (!adapter.a)
        return y;
    if (e->kernel[last] != e->y[count_of(e->y) - 1])
        return iso_layer_fail(
            layer,
            "LoRA needs an equation in which kernel and result end with the same letter; it is "
            "\"%s\"",
            o->equation);
    a.x = adapter.a;
    strcpy(x.label, e->x);
    shorten(e->kernel, a.label);
    shorten(e->y, labels);
    iso_tensor *low = iso_labelled_product(x, a, labels, NULL, why).x;
    return *why ? iso_layer_fail(layer, "its equation is \"%s\": %s", o->equation, why)
                : iso_layer_adapted(y, iso_matmul(low, adapter.b), adapter.scale);
}

static iso_tensor *compute(iso_layer *layer, const iso_einsum_dense_options *o, const equation *e,
                           const iso_weight_form *kernel_form, const iso_weight_form *bias_form)
{
    iso_labelled x = {.x = o->x}, kernel = {.x = NULL}, bias = {.x = NULL};
    char why[ISO_EINSUM_WHY] = "";
    iso_shape shape = ISO_SCALAR;
    const bool no_bias = !o->bias_axes || !*o->bias_axes;
    if (!no_bias && !bias_shape(layer, e, o->bias_axes, bias.label, &shape))
        return iso_graph_bad_tensor(layer->graph);
    strcpy(x.label, e->x);
    strcpy(kernel.label, e->kernel);
    kernel.x = iso_layer_weight(layer, kernel_form, shape_of(e, e->kernel));
    bias.x = iso_layer_weight_unless(layer, no_bias, bias_form, shape);
    if (!iso_tensor_good(kernel.x))
        return kernel.x;
    set_fans(layer, e, kernel_form->what);
    iso_tensor *y = iso_labelled_product(x, kernel, e->y, bias.x ? &bias : NULL, why).x;
    return *why ? iso_layer_fail(layer, "its equation is \"%s\": %s", o->equation, why)
                : adapt(layer, o, e, kernel_form, y);
}

iso_tensor *iso_einsum_dense_with(const iso_einsum_dense_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_einsum_dense_options, options, given, size);
    iso_layer layer;
    equation e = {.elided = 0};
    if (!iso_layer_begin(&layer, &options.x, "EinsumDense", "einsum_dense", options.name) ||
        !prepare(&layer, &options, &e))
        return iso_layer_broken(options.x);
    iso_weight_form kernel_form = ISO_WEIGHT_FORM(options, kernel, ISO_INIT_GLOROT_UNIFORM);
    iso_weight_form bias_form = ISO_WEIGHT_FORM(options, bias, ISO_INIT_ZEROS);
    iso_tensor *y = compute(&layer, &options, &e, &kernel_form, &bias_form);
    iso_layer_note_text(&layer, "equation", iso_graph_keep_text(layer.graph, options.equation));
    iso_layer_note_shape(&layer, "output_shape", &options.output_shape);
    if (options.bias_axes && *options.bias_axes)
        iso_layer_note_text(&layer, "bias_axes", iso_graph_keep_text(layer.graph, options.bias_axes));
    else
        iso_layer_note_none(&layer, "bias_axes");
    if (!iso_tensor_good(y))
        return y;
    y = iso_layer_activate(&layer, y, options.activation, &options.activation_with);
    iso_layer_note_weight(&layer, &kernel_form);
    iso_layer_note_weight(&layer, &bias_form);
    return iso_layer_end(&layer, y);
}

static iso_tensor *einsum_dense_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_einsum_dense_options options = {.x = x[0],
                                        .name = config->name,
                                        .equation = config->text(config, "equation"),
                                        .output_shape = iso_config_shape(config, "output_shape"),
                                        .bias_axes = config->text(config, "bias_axes")};
    (void)count;
    options.activation = iso_config_activation(config, iso_tensor_graph(x[0]), &options.activation_with);
    ISO_CONFIG_WEIGHT(&options, config, kernel);
    ISO_CONFIG_WEIGHT(&options, config, bias);
    iso_config_lora_begin(config, x[0]);
    return iso_config_lora_end(config, x[0], iso_einsum_dense_with(&options, sizeof options));
}

const iso_layer_type iso_layer_einsum_dense = {.keras = "EinsumDense", .build = einsum_dense_build};
