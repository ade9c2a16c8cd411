/* EinsumDense: a product with a kernel by an equation of Einstein's summation, as "abc,cde->abde". It becomes one
 * matrix product; where rows, summed dimensions and columns stand in order, as in the products of attention,
 * nothing is moved. */
#include <ctype.h>
#include <string.h>

#include "models/layers/layer_impl.h"
#include "models/layers/list.h"

enum {
    LETTERS = 'z' - 'A' + 1,
    LABELS = LETTERS + ISO_MAX_RANK /* and those of the dimensions of "..." */
};

/* Dimensions by their labels, in order. */
typedef struct labels {
    int count, of[ISO_MAX_RANK];
} labels;

typedef struct equation {
    labels x, kernel, y;
    bool left, right; /* "..." before or after the letters of x and y */
    int elided;       /* dimensions that it stands for */
    int64_t size[LABELS];
} equation;

static bool has(const labels *list, int label)
{
    for (int i = 0; i < list->count; i++)
        if (list->of[i] == label)
            return true;
    return false;
}

static void add(labels *list, int label)
{
    list->of[list->count++] = label;
}

static bool equal(const labels *a, const labels *b)
{
    return a->count == b->count && memcmp(a->of, b->of, (size_t)a->count * sizeof *a->of) == 0;
}

/* The labels of a, then those of b. */
static labels joined(const labels *a, const labels *b)
{
    labels all = *a;
    for (int i = 0; i < b->count; i++)
        add(&all, b->of[i]);
    return all;
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
static bool take_letters(const char **text, labels *list)
{
    for (; isalpha((unsigned char)**text) && (unsigned char)**text < 128; ++*text) {
        if (list->count == ISO_MAX_RANK || has(list, **text - 'A'))
            return false;
        add(list, **text - 'A');
    }
    return list->count > 0;
}

/* [X],[K]->[Y], ...[X],[K]->...[Y] or [X]...,[K]->[Y]... */
static bool read_equation(const char *text, equation *e)
{
    e->left = take(&text, "...");
    bool good = take_letters(&text, &e->x);
    e->right = good && !e->left && take(&text, "...");
    good = good && take(&text, ",") && take_letters(&text, &e->kernel) && take(&text, "->") &&
           (!e->left || take(&text, "...")) && take_letters(&text, &e->y) &&
           (!e->right || take(&text, "..."));
    return good && !*text;
}

/* Puts labels of their own in the place of "...". False if there is no room for them. */
static bool fill_in(equation *e, labels *list)
{
    labels elided = {.count = 0};
    if (list->count + e->elided > ISO_MAX_RANK)
        return false;
    for (int i = 0; i < e->elided; i++)
        add(&elided, LETTERS + i);
    *list = e->left ? joined(&elided, list) : joined(list, &elided);
    return true;
}

static iso_tensor *wrong(const iso_layer *layer, const char *text, const char *why, int label)
{
    char letter[2] = {label >= 0 && label < LETTERS ? (char)('A' + label) : 0};
    return iso_layer_fail(layer, "its equation is \"%s\": %s%s%s%s", text, *letter ? "'" : "", letter,
                          *letter ? "' " : "", why);
}

/* Whether each letter stands where a product has one. */
static bool check_letters(const iso_layer *layer, const char *text, const equation *e)
{
    const labels *k = &e->kernel;
    if (e->x.of[0] != e->y.of[0] || has(k, e->x.of[0]))
        wrong(layer, text, "the first dimension of input and result must be the same, the batch", -1);
    for (int i = 0; i < k->count; i++)
        if (has(&e->x, k->of[i]) == has(&e->y, k->of[i]))
            wrong(layer, text,
                  has(&e->x, k->of[i]) ? "is in input, kernel and result, which is not supported"
                                       : "of the kernel is in neither input nor result",
                  k->of[i]);
    for (int i = 0; i < e->y.count; i++)
        if (!has(&e->x, e->y.of[i]) && !has(k, e->y.of[i]))
            wrong(layer, text, "of the result is in neither input nor kernel", e->y.of[i]);
    return iso_graph_error(layer->graph) == ISO_OK;
}

/* The sizes of all labels: of x, and of the result as output_shape gives them. */
static bool find_sizes(const iso_layer *layer, const char *text, equation *e, const iso_shape *x,
                       const iso_shape *given)
{
    char shape[160];
    const int first = e->left && e->elided > 0 ? e->elided : 1; /* of those that output_shape has */
    const int end = e->y.count - (e->right ? e->elided : 0);
    for (int i = 0; i < e->x.count; i++)
        e->size[e->x.of[i]] = x->dim[i];
    if (given->rank != end - first) {
        iso_layer_fail(layer,
                       "output_shape has %d dimensions, its equation \"%s\" has %d besides the batch%s",
                       given->rank, text, end - first, e->left || e->right ? " and \"...\"" : "");
        return false;
    }
    for (int i = first; i < end; i++) {
        const int label = e->y.of[i];
        const int64_t size = given->dim[i - first];
        const bool of_x = has(&e->x, label);
        if (of_x ? size != ISO_BATCH && size != e->size[label] : size <= 0 || size > INT32_MAX) {
            iso_layer_fail(layer, "output_shape has %lld for '%c' of its equation \"%s\", its input %s",
                           (long long)size, 'A' + label, text, iso_shape_text(x, shape, sizeof shape));
            return false;
        }
        e->size[label] = of_x ? e->size[label] : size;
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
              -1);
        return false;
    }
    e->elided = x->rank - e->x.count;
    if (e->elided < 0 || (e->elided > 0 && !e->left && !e->right) || !fill_in(e, &e->x) ||
        !fill_in(e, &e->y)) {
        iso_layer_fail(layer, "its input has the shape %s, which does not fit its equation \"%s\"",
                       iso_shape_text(x, shape, sizeof shape), text);
        return false;
    }
    return check_letters(layer, text, e) && find_sizes(layer, text, e, x, &options->output_shape);
}

/* ---- computing ---- */

static iso_shape shape_of(const equation *e, const labels *list)
{
    iso_shape shape = {.rank = list->count};
    for (int i = 0; i < list->count; i++)
        shape.dim[i] = e->size[list->of[i]];
    return shape;
}

static int64_t elements_of(const equation *e, const labels *list)
{
    int64_t count = 1;
    for (int i = 0; i < list->count; i++)
        if (__builtin_mul_overflow(count, e->size[list->of[i]], &count))
            return -1; /* no reshape takes it: the variable has reported it */
    return count;
}

/* x, whose dimensions are `have`, with these in another order. */
static iso_tensor *reorder(iso_tensor *x, const labels *have, const labels *want)
{
    int from[ISO_MAX_RANK];
    if (equal(have, want))
        return x;
    for (int i = 0; i < want->count; i++)
        for (int k = 0; k < have->count; k++)
            if (have->of[k] == want->of[i])
                from[i] = k;
    return iso_transpose(x, from);
}

/* Those labels of `list` that are in `in` and not in `out`. */
static labels chosen(const labels *list, const labels *in, const labels *out)
{
    labels some = {.count = 0};
    for (int i = 0; i < list->count; i++)
        if (has(in, list->of[i]) && !has(out, list->of[i]))
            add(&some, list->of[i]);
    return some;
}

/* Sums x over dimensions that stand nowhere else; takes them out of the equation. */
static iso_tensor *sum_others(equation *e, iso_tensor *x)
{
    labels left = {.count = 0};
    int axes[ISO_MAX_RANK], count = 0;
    for (int i = 0; i < e->x.count; i++)
        if (has(&e->kernel, e->x.of[i]) || has(&e->y, e->x.of[i]))
            add(&left, e->x.of[i]);
        else
            axes[count++] = i;
    e->x = left;
    return count ? iso_reduce_sum(x, axes, count, false) : x;
}

/* [rows..., summed] times [summed, columns], or the transpose of [columns, summed]. */
static iso_tensor *multiply(const equation *e, iso_tensor *x, iso_tensor *kernel, const labels *rows,
                            const labels *summed, const labels *columns)
{
    const int64_t inner = elements_of(e, summed), outer = elements_of(e, columns);
    iso_shape flat = shape_of(e, rows);
    flat.dim[flat.rank++] = inner;
    const labels straight = joined(summed, columns), swapped = joined(columns, summed);
    const bool transposed = !equal(&e->kernel, &straight) && equal(&e->kernel, &swapped);
    if (!transposed)
        kernel = reorder(kernel, &e->kernel, &straight);
    kernel = iso_reshape_to(kernel, transposed ? ISO_SHAPE(outer, inner) : ISO_SHAPE(inner, outer));
    return iso_matmul_with(summed->count == 1 ? x : iso_reshape_to(x, flat), kernel, false, transposed);
}

/* x times kernel, and the bias or NULL: [y...] */
static iso_tensor *contract(equation *e, iso_tensor *x, iso_tensor *kernel, iso_tensor *bias,
                            const labels *bias_axes)
{
    x = sum_others(e, x);
    labels rows = chosen(&e->x, &e->y, &e->kernel), summed = chosen(&e->x, &e->kernel, &e->y);
    const labels columns = chosen(&e->y, &e->kernel, &e->x);
    labels want = joined(&rows, &summed);
    if (!equal(&e->x, &want)) { /* it is moved anyway: as result and kernel have them */
        rows = chosen(&e->y, &e->x, &e->kernel);
        summed = chosen(&e->kernel, &e->x, &e->y);
        want = joined(&rows, &summed);
        x = reorder(x, &e->x, &want);
    }
    iso_tensor *y = multiply(e, x, kernel, &rows, &summed, &columns);
    const labels made = joined(&rows, &columns);
    iso_shape shape = shape_of(e, &made);
    const bool early = bias && equal(bias_axes, &columns) && equal(&made, &e->y);
    if (early) /* one sum with the product */
        y = iso_add(y, iso_reshape_to(bias, ISO_SHAPE(elements_of(e, &columns))));
    y = reorder(iso_reshape_to(y, shape), &made, &e->y);
    return bias && !early ? iso_add(y, bias) : y;
}

/* The bias's dimensions: from the first one of bias_axes on, those of the result, and 1 for those between them.
 * False, and an error, if a letter is not of the result. */
static bool bias_shape(const iso_layer *layer, const equation *e, const char *axes, labels *list,
                       iso_shape *shape)
{
    const int letters = e->y.count - (e->right ? e->elided : 0);
    *list = (labels){.count = 0};
    *shape = ISO_SCALAR;
    for (const char *c = axes; *c; c++)
        if (!isalpha((unsigned char)*c) || !has(&e->y, *c - 'A') || *c - 'A' == e->y.of[0])
            return iso_layer_fail(layer, "bias_axes is \"%s\": '%c' is the batch, or not of the result", axes,
                                  *c),
                   false;
    for (int i = 0; i < letters; i++) {
        const bool of_bias = e->y.of[i] < LETTERS && strchr(axes, 'A' + e->y.of[i]);
        if (of_bias)
            add(list, e->y.of[i]);
        if (list->count)
            shape->dim[shape->rank++] = of_bias ? e->size[e->y.of[i]] : 1;
    }
    for (int i = letters; i < e->y.count; i++)
        shape->dim[shape->rank++] = 1;
    return true;
}

static iso_tensor *compute(iso_layer *layer, const iso_einsum_dense_options *o, equation *e,
                           const iso_weight_form *kernel_form, const iso_weight_form *bias_form)
{
    iso_shape shape = ISO_SCALAR;
    labels axes = {.count = 0};
    const bool no_bias = !o->bias_axes || !*o->bias_axes;
    if (!no_bias && !bias_shape(layer, e, o->bias_axes, &axes, &shape))
        return iso_graph_bad_tensor(layer->graph);
    const labels summed = chosen(&e->kernel, &e->x, &e->y), columns = chosen(&e->kernel, &e->y, &e->x);
    iso_tensor *kernel = iso_layer_weight(layer, kernel_form, shape_of(e, &e->kernel));
    iso_tensor *bias = iso_layer_weight_unless(layer, no_bias, bias_form, shape);
    if (!iso_tensor_good(kernel))
        return kernel;
    iso_layer_set_fans(layer, kernel_form->what, (double)elements_of(e, &summed),
                       (double)elements_of(e, &columns));
    return contract(e, o->x, kernel, bias, &axes);
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
    return iso_einsum_dense_with(&options, sizeof options);
}

const iso_layer_type iso_layer_einsum_dense = {.keras = "EinsumDense", .build = einsum_dense_build};
