/* R2: the fraction of the targets' variance that predictions explain. Sums of each predicted number: the
 * targets, their squares, the squared errors, and the weights. */
#include <math.h>

#include "runtime/graph/layer.h"
#include "runtime/train/losses_impl.h"

static const char *const aggregations[] = {
    [ISO_AGGREGATION_UNIFORM] = "uniform_average",
    [ISO_AGGREGATION_VARIANCE_WEIGHTED] = "variance_weighted_average",
    NULL,
};
static const iso_setting settings[] = {
    {"class_aggregation", ISO_SETTING_CHOICE, offsetof(iso_metric_settings, class_aggregation),
     .words = aggregations},
    {"num_regressors", ISO_SETTING_INT, offsetof(iso_metric_settings, num_regressors), .fallback = 0},
    {0},
};

static iso_tensor *over_rows(iso_tensor *x)
{
    return iso_reduce_sum(x, (const int[]){0}, 1, false);
}

static bool r2_check(const iso_metric_options *o)
{
    iso_graph *graph = iso_tensor_graph(o->y_pred);
    int rank = iso_tensor_shape(o->y_pred)->rank;
    double regressors = iso_option_number(o->settings.num_regressors, 0);
    if (rank != 2)
        iso_graph_fail(graph,
                       "the metric %s needs predictions of shape [batch, numbers]; they have %d dimensions",
                       iso_metric_name(o->metric), rank);
    else if (regressors < 0)
        iso_graph_fail(graph, "the metric %s: num_regressors is %g, it must not be negative",
                       iso_metric_name(o->metric), regressors);
    return iso_graph_error(graph) == ISO_OK;
}

static iso_metric_sums r2_sums(const iso_metric_options *o)
{
    iso_tensor *t = o->y_true, *p = o->y_pred;
    iso_metric_sums sums = {.per_row = 1};
    if (!iso_metric_takes_values(o) || !r2_check(o) || !iso_loss_match(&t, &p, iso_metric_name(o->metric)))
        return sums;
    t = iso_cast(t, ISO_F64);
    iso_tensor *weights = iso_metric_weights(o->weights, p), *weighted = iso_multiply(t, weights);
    iso_tensor *error = iso_square(iso_subtract(t, iso_cast(p, ISO_F64)));
    iso_tensor *of_numbers[] = {over_rows(weighted), over_rows(iso_multiply(t, weighted)),
                                over_rows(iso_multiply(error, weights)), over_rows(weights)};
    sums.sum = iso_metric_join(of_numbers, 4);
    sums.per_row = (double)iso_tensor_shape(p)->dim[1];
    return sums;
}

/* n: the number of targets that were seen. */
static double adjusted(double r2, double n, double regressors)
{
    if (regressors == 0 || regressors >= n - 1) /* too few targets: as Keras, not adjusted */
        return r2;
    return 1 - (1 - r2) * (n - 1) / (n - regressors - 1);
}

static double r2_value(const iso_metric_settings *s, const double *sums, int64_t count, double weight)
{
    int64_t numbers = count / 4;
    const double *sum = sums, *squares = sum + numbers, *errors = squares + numbers,
                 *weights = errors + numbers;
    double value = 0, variances = 0;
    for (int64_t i = 0; i < numbers; i++) {
        double variance = squares[i] - sum[i] * (sum[i] / weights[i]), score = 1 - errors[i] / variance;
        double share = s->class_aggregation == ISO_AGGREGATION_VARIANCE_WEIGHTED ? variance : 1;
        value += share * (isinf(score) ? 0 : score);
        variances += share;
    }
    return adjusted(value / variances, weight, s->num_regressors);
}

const iso_metric_type iso_metric_r2_score = {
    .row = {"r2_score", "R2Score", settings}, .keras_name = "r2_score", .sums = r2_sums, .value = r2_value};
