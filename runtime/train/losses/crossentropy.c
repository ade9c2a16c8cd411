/* Cross-entropy of classes, of distributions and of independent fractions, from probabilities or logits. */
#include "runtime/train/losses_impl.h"

#include "runtime/base/thread_modes.h"

iso_tensor *iso_loss_normalise(iso_tensor *p)
{
    p = iso_divide(p, iso_reduce_sum(p, (const int[]){-1}, 1, true));
    return iso_loss_clip(p, ISO_LOSS_EPSILON, 1 - ISO_LOSS_EPSILON);
}

bool iso_loss_check_smoothing(iso_tensor *y_pred, double smoothing)
{
    bool possible = smoothing >= 0 && smoothing <= 1;
    if (!possible)
        iso_graph_fail(iso_tensor_graph(y_pred), "label_smoothing is %g, it must be from 0 to 1", smoothing);
    return possible;
}

static bool check_no_smoothing(iso_tensor *y_pred, double smoothing)
{
    if (smoothing != 0)
        iso_graph_fail(iso_tensor_graph(y_pred), "label_smoothing is %g: sparse labels cannot be smoothed",
                       smoothing);
    return smoothing == 0;
}

static bool check_no_ignored(iso_tensor *y_pred, int ignore_class)
{
    if (ignore_class != 0)
        iso_graph_fail(iso_tensor_graph(y_pred), "ignore_class is %d: only sparse cross-entropy has it",
                       (int)iso_option_number(ignore_class, 0));
    return ignore_class == 0;
}

iso_tensor *iso_loss_smooth(iso_tensor *t, double smoothing, double parts)
{
    return smoothing > 0 ? iso_affine(t, 1 - smoothing, smoothing / parts) : t;
}

/* t * if_one + (1 - t) * if_zero */
static iso_tensor *mix(iso_tensor *t, iso_tensor *if_one, iso_tensor *if_zero)
{
    return iso_add(iso_multiply(t, if_one), iso_multiply(iso_affine(t, -1, 1), if_zero));
}

iso_tensor *iso_loss_of_fractions(iso_tensor *t, iso_tensor *p)
{
    p = iso_loss_clip(p, ISO_LOSS_EPSILON, 1 - ISO_LOSS_EPSILON);
    return mix(t, iso_negate(iso_log(p)), iso_negate(iso_log(iso_affine(p, -1, 1))));
}

#define OPTIONS()                                                                                            \
    iso_crossentropy_options options = {0};                                                                  \
    iso_options_copy(&options, sizeof options, given, size);                                                 \
    options.label_smoothing = iso_option_number(options.label_smoothing, 0);                                 \
    iso_tensor *t = options.y_true, *p = options.y_pred;                                                     \
    ISO_NEED_TENSORS_AS("y_true, y_pred", t, p)

static iso_tensor *of_labels(iso_tensor *t, iso_tensor *p, bool from_logits)
{
    if (from_logits)
        return iso_sparse_crossentropy_op(t, p);
    /* The op computes log(sum(p)) - log(p[label]), and reports labels outside the classes. */
    p = iso_loss_normalise(p);
    return iso_subtract(iso_sparse_crossentropy_op(t, iso_log(p)), iso_log(iso_loss_sum(p)));
}

iso_tensor *iso_sparse_crossentropy_with(const iso_crossentropy_options *given, size_t size)
{
    ISO_DEFAULT_MODES();
    OPTIONS();
    if (!iso_loss_match_labels(&t, p, "sparse cross-entropy") ||
        !check_no_smoothing(p, options.label_smoothing))
        return iso_loss_bad(p);
    iso_tensor *counts = options.ignore_class ? iso_loss_ignore(&t, options.ignore_class) : NULL;
    iso_tensor *loss = of_labels(t, p, options.from_logits);
    return counts ? iso_where(counts, loss, iso_metric_number(loss, 0)) : loss;
}

iso_tensor *iso_categorical_crossentropy_with(const iso_crossentropy_options *given, size_t size)
{
    ISO_DEFAULT_MODES();
    OPTIONS();
    double smoothing = options.label_smoothing;
    if (!iso_loss_match(&t, &p, "cross-entropy") || !iso_loss_check_smoothing(p, smoothing) ||
        !check_no_ignored(p, options.ignore_class))
        return iso_loss_bad(p);
    const iso_shape *shape = iso_tensor_shape(p);
    t = iso_loss_smooth(t, smoothing, (double)shape->dim[shape->rank - 1]);
    if (options.from_logits)
        return iso_crossentropy_op(t, p);
    return iso_negate(iso_loss_sum(iso_multiply(t, iso_log(iso_loss_normalise(p)))));
}

iso_tensor *iso_binary_crossentropy_with(const iso_crossentropy_options *given, size_t size)
{
    ISO_DEFAULT_MODES();
    OPTIONS();
    double smoothing = options.label_smoothing;
    if (!iso_loss_match(&t, &p, "binary cross-entropy") || !iso_loss_check_smoothing(p, smoothing) ||
        !check_no_ignored(p, options.ignore_class))
        return iso_loss_bad(p);
    t = iso_loss_smooth(t, smoothing, 2);
    return iso_loss_mean(options.from_logits ? mix(t, iso_softplus(iso_negate(p)), iso_softplus(p))
                                             : iso_loss_of_fractions(t, p));
}

static const iso_setting smoothing[] = {
    {"label_smoothing", ISO_SETTING_REAL, offsetof(iso_output_options, label_smoothing), .fallback = 0}, {0}};

static const iso_setting ignored[] = {
    {"ignore_class", ISO_SETTING_INDEX, offsetof(iso_output_options, ignore_class), .fallback = 0}, {0}};

static iso_tensor *sparse(const iso_loss_call *c)
{
    return iso_sparse_crossentropy(c->y_true, c->y_pred, c->from_logits, c->settings->label_smoothing,
                                   c->settings->ignore_class);
}

static iso_tensor *sparse_mask(const iso_loss_call *c)
{
    iso_tensor *t = c->y_true;
    if (!c->settings->ignore_class || !iso_loss_match_labels(&t, c->y_pred, "sparse cross-entropy"))
        return NULL;
    return iso_loss_ignore(&t, c->settings->ignore_class);
}

static iso_tensor *categorical(const iso_loss_call *c)
{
    return iso_categorical_crossentropy(c->y_true, c->y_pred, c->from_logits, c->settings->label_smoothing);
}

static iso_tensor *binary(const iso_loss_call *c)
{
    return iso_binary_crossentropy(c->y_true, c->y_pred, c->from_logits, c->settings->label_smoothing);
}

/* Each Keras class has two rows: for probabilities and for logits. */
#define SPARSE                                                                                               \
    .row.keras = "SparseCategoricalCrossentropy", .row.setting = ignored,                                    \
    .saved = "sparse_categorical_crossentropy", .logits = &iso_loss_sparse_crossentropy_logits,              \
    .build = sparse, .mask = sparse_mask
const iso_loss_type iso_loss_sparse_crossentropy = {.row.name = "sparse_crossentropy", SPARSE};
const iso_loss_type iso_loss_sparse_crossentropy_logits = {
    .row.name = "sparse_crossentropy_logits", .alias = "sparse_categorical_crossentropy_logits", SPARSE};

#define CATEGORICAL                                                                                          \
    .row.keras = "CategoricalCrossentropy", .row.setting = smoothing, .saved = "categorical_crossentropy",   \
    .logits = &iso_loss_crossentropy_logits, .build = categorical
const iso_loss_type iso_loss_crossentropy = {.row.name = "crossentropy", CATEGORICAL};
const iso_loss_type iso_loss_crossentropy_logits = {
    .row.name = "crossentropy_logits", .alias = "categorical_crossentropy_logits", CATEGORICAL};

#define BINARY                                                                                               \
    .row.keras = "BinaryCrossentropy", .row.setting = smoothing, .saved = "binary_crossentropy",             \
    .logits = &iso_loss_binary_crossentropy_logits, .build = binary
const iso_loss_type iso_loss_binary_crossentropy = {
    .row.name = "binary_crossentropy", .alias = "bce", BINARY};
const iso_loss_type iso_loss_binary_crossentropy_logits = {
    .row.name = "binary_crossentropy_logits", .alias = "bce_logits", BINARY};

/* ---- metrics ---- */

#define FROM_LOGITS                                                                                          \
    {                                                                                                        \
        "from_logits", ISO_SETTING_FLAG, offsetof(iso_metric_settings, from_logits), .fallback = 0           \
    }
static const iso_setting of_sparse[] = {FROM_LOGITS, ISO_METRIC_IGNORES, {0}};
static const iso_setting of_others[] = {
    FROM_LOGITS,
    {"label_smoothing", ISO_SETTING_REAL, offsetof(iso_metric_settings, label_smoothing), .fallback = 0},
    {0},
};

static iso_tensor *sparse_metric(const iso_metric_options *o)
{
    return iso_sparse_crossentropy(o->y_true, o->y_pred, o->settings.from_logits);
}

static iso_tensor *categorical_metric(const iso_metric_options *o)
{
    if (!iso_metric_takes_distributions(o, &iso_metric_sparse_crossentropy))
        return NULL;
    return iso_categorical_crossentropy(o->y_true, o->y_pred, o->settings.from_logits,
                                        o->settings.label_smoothing);
}

static iso_tensor *binary_metric(const iso_metric_options *o)
{
    if (!iso_metric_takes_values(o))
        return NULL;
    return iso_binary_crossentropy(o->y_true, o->y_pred, o->settings.from_logits,
                                   o->settings.label_smoothing);
}

#define METRIC_ROW(NAME, KERAS, SAVED, ALIAS, SETTINGS, BUILD)                                               \
    const iso_metric_type iso_metric_##NAME = {                                                              \
        .row = {#NAME, KERAS, SETTINGS}, .keras_name = SAVED, .less_is_better = true, .build = BUILD};
METRIC_ROW(sparse_crossentropy, "SparseCategoricalCrossentropy", "sparse_categorical_crossentropy", NULL,
           of_sparse, sparse_metric)
METRIC_ROW(crossentropy, "CategoricalCrossentropy", "categorical_crossentropy", NULL, of_others,
           categorical_metric)
METRIC_ROW(binary_crossentropy, "BinaryCrossentropy", "binary_crossentropy", "bce", of_others, binary_metric)
