/* Precision and recall of binary predictions: what was right of the values that were predicted positive, and of those
 * that are. Of all elements and batches together, as in Keras: sums, not means of rows. */
#include "runtime/train/losses_impl.h"

static const iso_setting thresholds[] = {
    {"thresholds", ISO_SETTING_REAL, offsetof(iso_output_options, threshold), .fallback = 0.5}, {0}};

/* 1 where a condition holds. */
static iso_tensor *ones_where(iso_tensor *condition)
{
    return iso_cast(condition, ISO_F64);
}

static iso_tensor *number_like(iso_tensor *x, double value)
{
    return iso_number(iso_tensor_graph(x), iso_tensor_dtype(x), value);
}

/* The true positives, and their number among the values predicted positive or positive. */
static iso_metric_sums true_positives(const iso_metric_options *o, bool of_predicted)
{
    iso_tensor *t = o->y_true, *p = o->y_pred, *weights = o->weights;
    iso_metric_sums sums = {.per_row = 1};
    if (!iso_metric_takes_values(o) || !iso_loss_match(&t, &p, iso_metric_name(o->metric)))
        return sums;
    double least = iso_option_number(o->threshold, thresholds->fallback);
    iso_tensor *predicted = ones_where(iso_greater(p, number_like(p, least)));
    iso_tensor *positive = ones_where(iso_not_equal(t, number_like(t, 0)));
    iso_tensor *of = of_predicted ? predicted : positive, *both = iso_multiply(predicted, positive);
    if (weights) {
        weights = iso_broadcast_to(iso_loss_fit_weights(weights, of), *iso_tensor_shape(of));
        of = iso_multiply(of, weights);
        both = iso_multiply(both, weights);
    }
    sums.sum = iso_sum(both);
    sums.weight = iso_sum(of);
    return sums;
}

static iso_metric_sums precision(const iso_metric_options *options)
{
    return true_positives(options, true);
}

static iso_metric_sums recall(const iso_metric_options *options)
{
    return true_positives(options, false);
}

const iso_metric_type iso_metric_precision = {
    .row = {"precision", "Precision", thresholds}, .keras_name = "precision", .sums = precision};
const iso_metric_type iso_metric_recall = {
    .row = {"recall", "Recall", thresholds}, .keras_name = "recall", .sums = recall};
