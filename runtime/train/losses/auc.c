/* The area under a curve of true and false positives over all thresholds (AUC), and one rate at a given value of
 * another. Both come from a histogram of the predictions, of positives and of negatives: interval h of `thresholds`
 * holds the predictions in ((h - 1) / (thresholds - 1), h / (thresholds - 1)], and interval 0 those of 0. */
#include <math.h>

#include "runtime/base/memory.h"
#include "runtime/graph/layer.h"
#include "runtime/train/losses_impl.h"

static const char *const curves[] = {
    [ISO_CURVE_ROC] = "ROC", [ISO_CURVE_PR] = "PR", [ISO_CURVE_PRGAIN] = "PRGAIN", NULL};
static const char *const summations[] = {[ISO_SUMMATION_INTERPOLATION] = "interpolation",
                                         [ISO_SUMMATION_MAJORING] = "majoring",
                                         [ISO_SUMMATION_MINORING] = "minoring",
                                         NULL};

#define MEMBER(member) offsetof(iso_metric_settings, member)
#define NUM_THRESHOLDS                                                                                       \
    {                                                                                                        \
        "num_thresholds", ISO_SETTING_INT, MEMBER(num_thresholds), .fallback = 200                           \
    }
static const iso_setting of_auc[] = {
    NUM_THRESHOLDS,
    {"curve", ISO_SETTING_CHOICE, MEMBER(curve), .words = curves},
    {"summation_method", ISO_SETTING_CHOICE, MEMBER(summation_method), .words = summations},
    {"multi_label", ISO_SETTING_FLAG, MEMBER(multi_label), .fallback = 0},
    {"from_logits", ISO_SETTING_FLAG, MEMBER(from_logits), .fallback = 0},
    {0},
};

/* ---- the histogram ---- */

static int thresholds_of(const iso_metric_options *o)
{
    return (int)iso_option_number(o->settings.num_thresholds, of_auc->fallback);
}

/* The interval of each prediction, ISO_I32; those that are no number are in interval 0. */
static iso_tensor *interval_of(iso_tensor *p, int thresholds)
{
    iso_tensor *zero = iso_metric_number(p, 0), *one = iso_metric_number(p, 1);
    iso_tensor *within = iso_where(iso_greater(p, zero), iso_minimum(p, one), zero);
    iso_tensor *at = iso_affine(within, thresholds - 1, 0), *below = iso_cast(at, ISO_I32);
    iso_tensor *rest = iso_greater(at, iso_cast(below, iso_tensor_dtype(at)));
    return iso_add(below, iso_cast(rest, ISO_I32));
}

/* The first interval of each class, [classes]; each class has intervals of its own. */
static iso_tensor *first_intervals(iso_graph *graph, int64_t classes, int thresholds)
{
    double *first = iso_new((size_t)classes * sizeof *first);
    if (!first) {
        iso_graph_fail_memory(graph, "the intervals of classes", (size_t)classes * sizeof *first);
        return NULL;
    }
    for (int64_t c = 0; c < classes; c++)
        first[c] = (double)(c * thresholds);
    iso_tensor *made = iso_constant(graph, ISO_I32, ISO_SHAPE(classes), first);
    iso_free(first);
    return made;
}

/* The weights of positives and of negatives in each interval, [thresholds, 2], with `multi_label` those of one class
 * after those of another. */
static iso_tensor *histogram(const iso_metric_options *o, iso_tensor *t, iso_tensor *p)
{
    const int thresholds = thresholds_of(o);
    int64_t classes = o->settings.multi_label ? iso_tensor_shape(p)->dim[1] : 1;
    iso_tensor *weights = iso_metric_weights(o->weights, p), *zero = iso_metric_number(t, 0);
    iso_tensor *positive = iso_multiply(iso_metric_ones(iso_not_equal(t, zero)), weights);
    iso_tensor *negative = iso_multiply(iso_metric_ones(iso_equal(t, zero)), weights);
    iso_tensor *interval = interval_of(p, thresholds);
    if (o->settings.multi_label) {
        iso_tensor *first = first_intervals(iso_tensor_graph(p), classes, thresholds);
        if (!first)
            return NULL;
        interval = iso_add(interval, first);
    }
    iso_tensor *both = iso_concat((iso_tensor *[]){iso_metric_column(positive), iso_metric_column(negative)},
                                  2, iso_tensor_shape(p)->rank);
    return iso_segment_sum(both, interval, classes * thresholds);
}

static bool auc_check(const iso_metric_options *o)
{
    iso_graph *graph = iso_tensor_graph(o->y_pred);
    int thresholds = thresholds_of(o), rank = iso_tensor_shape(o->y_pred)->rank;
    if (iso_graph_error(graph) != ISO_OK)
        return false;
    if (thresholds < 2 || thresholds > ISO_MAX_THRESHOLDS)
        iso_graph_fail(graph, "the metric %s: num_thresholds is %d, it must be from 2 to %d",
                       iso_metric_name(o->metric), thresholds, ISO_MAX_THRESHOLDS);
    else if (o->settings.multi_label && rank != 2)
        iso_graph_fail(graph,
                       "the metric %s: multi_label needs predictions of shape [batch, classes]; they have %d "
                       "dimensions",
                       iso_metric_name(o->metric), rank);
    return iso_graph_error(graph) == ISO_OK;
}

static iso_metric_sums auc_sums(const iso_metric_options *o)
{
    iso_tensor *t = o->y_true, *p = o->y_pred;
    iso_metric_sums sums = {.per_row = 1};
    if (!auc_check(o) || !iso_metric_takes_values(o) || !iso_loss_match(&t, &p, iso_metric_name(o->metric)))
        return sums;
    iso_tensor *both = histogram(o, t, o->settings.from_logits ? iso_sigmoid(p) : p);
    sums.sum = both ? iso_metric_join(&both, 1) : NULL;
    return sums;
}

/* ---- a curve ---- */

/* The weights above a threshold, and those of all. */
typedef struct counts {
    double tp, fp, positives, negatives;
} counts;

static counts count_all(const double *histogram, int64_t thresholds)
{
    counts c = {0};
    for (int64_t h = 0; h < thresholds; h++) {
        c.positives += histogram[2 * h];
        c.negatives += histogram[2 * h + 1];
    }
    return c;
}

/* Passes from threshold h to h - 1. */
static void lower(counts *c, const double *histogram, int64_t h)
{
    c->tp += histogram[2 * h];
    c->fp += histogram[2 * h + 1];
}

typedef struct point {
    double x, y;
} point;

static point gain(const counts *c)
{
    double scale = iso_metric_quotient(c->positives, c->negatives);
    if (c->tp == 0)
        return (point){0, 1};
    return (point){fmax(1 - scale * (c->positives - c->tp) / c->tp, 0), 1 - scale * c->fp / c->tp};
}

static point point_of(const counts *c, iso_auc_curve curve)
{
    double recall = iso_metric_quotient(c->tp, c->positives);
    if (curve == ISO_CURVE_ROC)
        return (point){iso_metric_quotient(c->fp, c->negatives), recall};
    if (curve == ISO_CURVE_PR)
        return (point){recall, iso_metric_quotient(c->tp, c->tp + c->fp)};
    return gain(c);
}

/* Between two thresholds true positives grow linearly with all predicted positive ones (Davis and Goadrich 2006). */
static double interpolated(const counts *low, const counts *high)
{
    double dtp = low->tp - high->tp, p = low->tp + low->fp, next = high->tp + high->fp;
    double slope = iso_metric_quotient(dtp, fmax(p - next, 0)), intercept = high->tp - slope * next;
    double ratio = p > 0 && next > 0 ? p / next : 1;
    return iso_metric_quotient(slope * (dtp + intercept * log(ratio)), fmax(high->positives, 0));
}

static double area_between(const iso_metric_settings *s, const counts *low, const counts *high)
{
    if (s->curve == ISO_CURVE_PR && s->summation_method == ISO_SUMMATION_INTERPOLATION)
        return interpolated(low, high);
    point a = point_of(low, s->curve), b = point_of(high, s->curve);
    double height = s->summation_method == ISO_SUMMATION_MAJORING   ? fmax(a.y, b.y)
                    : s->summation_method == ISO_SUMMATION_MINORING ? fmin(a.y, b.y)
                                                                    : (a.y + b.y) / 2;
    return (a.x - b.x) * height;
}

/* The first threshold is below 0, so that interval 0 is above it. */
static double area(const iso_metric_settings *s, const double *histogram, int64_t thresholds)
{
    counts high = count_all(histogram, thresholds);
    double sum = 0;
    for (int64_t h = thresholds - 1; h > 0; h--) {
        counts low = high;
        lower(&low, histogram, h);
        if (h == 1)
            lower(&low, histogram, 0);
        sum += area_between(s, &low, &high);
        high = low;
    }
    return sum;
}

static double auc_value(const iso_metric_settings *s, const double *sums, int64_t count, double weight)
{
    int64_t thresholds = s->num_thresholds, classes = thresholds > 0 ? count / (2 * thresholds) : 0;
    double sum = 0;
    (void)weight;
    for (int64_t c = 0; c < classes; c++)
        sum += area(s, sums + c * 2 * thresholds, thresholds);
    return sum / (double)classes;
}

const iso_metric_type iso_metric_auc = {
    .row = {"auc", "AUC", of_auc}, .keras_name = "auc", .sums = auc_sums, .value = auc_value};

/* ---- a rate at a value of another ---- */

static iso_metric_sums rate_sums(const iso_metric_options *o)
{
    iso_tensor *t = o->y_true, *p = o->y_pred;
    iso_metric_sums sums = {.per_row = 1};
    iso_metric_options selected = *o;
    double value = o->settings.value;
    if (!auc_check(o) || !iso_metric_takes_values(o) || !iso_loss_match(&t, &p, iso_metric_name(o->metric)))
        return sums;
    if (value != ISO_ZERO && !(value > 0 && value <= 1)) {
        iso_graph_fail(iso_tensor_graph(p), "the metric %s: its %s is %g; it must be given, from 0 to 1",
                       iso_metric_name(o->metric),
                       iso_setting_keras(iso_setting_of(iso_metric_type_of(o->metric)->row.setting, "value")),
                       value);
        return sums;
    }
    selected.weights = iso_metric_weights(o->weights, p);
    if (!iso_metric_select_class(o, (iso_tensor * *[]){&t, &p, &selected.weights}, 3))
        return sums;
    sums.sum = histogram(&selected, t, p);
    sums.sum = sums.sum ? iso_metric_join(&sums.sum, 1) : NULL;
    return sums;
}

typedef struct rates {
    double sensitivity, specificity, precision;
} rates;

static rates rates_of(const counts *c)
{
    return (rates){iso_metric_quotient(c->tp, c->positives),
                   iso_metric_quotient(c->negatives - c->fp, c->negatives),
                   iso_metric_quotient(c->tp, c->tp + c->fp)};
}

/* The best rate, a member of `rates`, over the thresholds at which another member is `value` or more; 0: at
 * none. Keras computes in float32, and compares a number that is `value` but for its rounding as equal. */
static double best_rate(const iso_metric_settings *s, const double *histogram, int64_t count, size_t wanted,
                        size_t given)
{
    int64_t thresholds = count / 2;
    double best = 0, least = (float)iso_option_number(s->value, 0);
    counts c = count_all(histogram, thresholds);
    for (int64_t h = thresholds; h > 0; h--) {
        rates r;
        if (h < thresholds)
            lower(&c, histogram, h);
        r = rates_of(&c);
        if ((float)*(const double *)(const void *)((const char *)&r + given) >= (float)least)
            best = fmax(best, *(const double *)(const void *)((const char *)&r + wanted));
    }
    return best;
}

#define RATE(which, name, class, wanted, given, given_name)                                                  \
    static double which(const iso_metric_settings *settings, const double *sums, int64_t count,              \
                        double weight)                                                                       \
    {                                                                                                        \
        (void)weight;                                                                                        \
        return best_rate(settings, sums, count, offsetof(rates, wanted), offsetof(rates, given));            \
    }                                                                                                        \
    static const iso_setting settings_of_##which[] = {                                                       \
        {"value", ISO_SETTING_NULLABLE, MEMBER(value), .keras = given_name},                                 \
        NUM_THRESHOLDS,                                                                                      \
        {"class_id", ISO_SETTING_INDEX, MEMBER(class_id), .fallback = 0},                                    \
        {0},                                                                                                 \
    };                                                                                                       \
    const iso_metric_type iso_metric_##which = {                                                             \
        .row = {name, class, settings_of_##which}, .keras_name = name, .sums = rate_sums, .value = which};
RATE(sensitivity_at_specificity, "sensitivity_at_specificity", "SensitivityAtSpecificity", sensitivity,
     specificity, "specificity")
RATE(specificity_at_sensitivity, "specificity_at_sensitivity", "SpecificityAtSensitivity", specificity,
     sensitivity, "sensitivity")
RATE(precision_at_recall, "precision_at_recall", "PrecisionAtRecall", precision, sensitivity, "recall")
RATE(recall_at_precision, "recall_at_precision", "RecallAtPrecision", sensitivity, precision, "precision")
