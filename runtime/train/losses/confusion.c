/* Metrics of binary predictions: precision, recall, and the counts of right and wrong ones. Of all elements and
 * batches together, as in Keras: sums, not means of rows. */
#include <math.h>

#include "runtime/train/losses_impl.h"

static const double default_threshold = 0.5;
#define THRESHOLDS                                                                                           \
    {                                                                                                        \
        "thresholds", ISO_SETTING_NULLABLE, offsetof(iso_metric_settings, threshold), .fallback = 0.5        \
    }

static const iso_setting thresholds[] = {THRESHOLDS, {0}};
static const iso_setting selected[] = {
    THRESHOLDS,
    {"top_k", ISO_SETTING_INDEX, offsetof(iso_metric_settings, top_k), .fallback = 0},
    {"class_id", ISO_SETTING_INDEX, offsetof(iso_metric_settings, class_id), .fallback = 0},
    {0},
};

/* What is predicted positive, what is positive (booleans), and the weights (float64), all in one shape. */
typedef struct binary {
    iso_tensor *predicted, *positive, *weights;
} binary;

/* Whether an element is among the k largest of its row; of equal ones the first. */
static iso_tensor *largest(iso_tensor *p, int k)
{
    const int64_t classes = iso_tensor_shape(p)->dim[iso_tensor_shape(p)->rank - 1];
    iso_tensor *zero = iso_number(iso_tensor_graph(p), ISO_F32, 0);
    iso_tensor *among = NULL, *left = p;
    for (int i = 0; i < k && i < classes; i++) {
        iso_tensor *one = iso_not_equal(iso_one_hot(iso_argmax(left, -1), classes, ISO_F32), zero);
        among = among ? iso_logical_or(among, one) : one;
        left = iso_where(one, iso_metric_number(p, -INFINITY), left);
    }
    return among;
}

/* With top_k and without a threshold, the k largest are predicted positive. */
static iso_tensor *predicted_of(const iso_metric_settings *s, iso_tensor *p)
{
    double least = iso_option_number(s->threshold, s->top_k ? -1e10 : default_threshold);
    iso_tensor *above = iso_greater(p, iso_metric_number(p, least));
    return s->top_k ? iso_logical_and(largest(p, s->top_k), above) : above;
}

static bool check_settings(const iso_metric_options *o)
{
    const iso_metric_settings *s = &o->settings;
    iso_graph *graph = iso_tensor_graph(o->y_pred);
    if (s->threshold != ISO_ZERO && !(s->threshold >= 0 && s->threshold <= 1))
        iso_graph_fail(graph, "the metric %s: the threshold is %g, it must be from 0 to 1",
                       iso_metric_name(o->metric), s->threshold);
    else if (s->top_k < 0)
        iso_graph_fail(graph, "the metric %s: top_k is %g, it must be positive", iso_metric_name(o->metric),
                       iso_option_number(s->top_k, 0));
    return iso_graph_error(graph) == ISO_OK;
}

/* False: the graph has an error. */
static bool binary_of(const iso_metric_options *o, binary *b)
{
    iso_tensor *t = o->y_true, *p = o->y_pred;
    if (!check_settings(o) || !iso_metric_takes_values(o) ||
        !iso_loss_match(&t, &p, iso_metric_name(o->metric)))
        return false;
    b->predicted = predicted_of(&o->settings, p);
    b->positive = iso_not_equal(t, iso_metric_number(t, 0));
    b->weights = iso_metric_weights(o->weights, p);
    return iso_metric_select_class(o, (iso_tensor * *[]){&b->predicted, &b->positive, &b->weights}, 3);
}

static iso_tensor *sum_where(const binary *b, iso_tensor *condition)
{
    return iso_sum(iso_multiply(iso_metric_ones(condition), b->weights));
}

/* The true positives, and their number among the values predicted positive or positive. */
static iso_metric_sums hits_among(const iso_metric_options *o, bool predicted)
{
    binary b;
    iso_metric_sums sums = {.per_row = 1};
    if (!binary_of(o, &b))
        return sums;
    sums.sum = sum_where(&b, iso_logical_and(b.predicted, b.positive));
    sums.weight = sum_where(&b, predicted ? b.predicted : b.positive);
    return sums;
}

static iso_metric_sums precision(const iso_metric_options *options)
{
    return hits_among(options, true);
}

static iso_metric_sums recall(const iso_metric_options *options)
{
    return hits_among(options, false);
}

const iso_metric_type iso_metric_precision = {
    .row = {"precision", "Precision", selected}, .keras_name = "precision", .sums = precision};
const iso_metric_type iso_metric_recall = {
    .row = {"recall", "Recall", selected}, .keras_name = "recall", .sums = recall};

/* ---- counts ---- */

static iso_metric_sums count_of(const iso_metric_options *o, bool predicted, bool positive)
{
    binary b;
    iso_metric_sums sums = {.per_row = 1};
    if (!binary_of(o, &b))
        return sums;
    sums.sum = sum_where(&b, iso_logical_and(predicted ? b.predicted : iso_logical_not(b.predicted),
                                             positive ? b.positive : iso_logical_not(b.positive)));
    return sums;
}

static double count_value(const iso_metric_settings *settings, const double *sums, int64_t count,
                          double weight)
{
    (void)settings, (void)count, (void)weight;
    return sums[0];
}

#define COUNT(which, name, keras, predicted, positive)                                                       \
    static iso_metric_sums which(const iso_metric_options *options)                                          \
    {                                                                                                        \
        return count_of(options, predicted, positive);                                                       \
    }                                                                                                        \
    const iso_metric_type iso_metric_##which = {.row = {name, keras, thresholds},                            \
                                                .keras_name = name,                                          \
                                                .less_is_better = (predicted) != (positive),                 \
                                                .sums = which,                                               \
                                                .value = count_value};
COUNT(true_positives, "true_positives", "TruePositives", true, true)
COUNT(true_negatives, "true_negatives", "TrueNegatives", false, false)
COUNT(false_positives, "false_positives", "FalsePositives", true, false)
COUNT(false_negatives, "false_negatives", "FalseNegatives", false, true)
