/* F-scores: the harmonic mean of precision and recall, in which recall counts beta^2 times as much. Sums of each
 * class: true positives, false positives, false negatives, and the targets. */
#include "runtime/graph/layer.h"
#include "runtime/train/losses_impl.h"

static const char *const averages[] = {
    [ISO_AVERAGE_MACRO] = "macro", [ISO_AVERAGE_MICRO] = "micro", [ISO_AVERAGE_WEIGHTED] = "weighted", NULL};
#define MEMBER(member) offsetof(iso_metric_settings, member)
#define AVERAGE                                                                                              \
    {                                                                                                        \
        "average", ISO_SETTING_CHOICE, MEMBER(average), .words = averages                                    \
    }
#define F_THRESHOLD                                                                                          \
    {                                                                                                        \
        "threshold", ISO_SETTING_OPTIONAL, MEMBER(threshold), .fallback = 0                                  \
    }
static const iso_setting of_f1[] = {AVERAGE, F_THRESHOLD, {0}};
static const iso_setting of_fbeta[] = {
    AVERAGE, {"beta", ISO_SETTING_REAL, MEMBER(beta), .fallback = 1}, F_THRESHOLD, {0}};

/* ---- sums ---- */

static bool f_check(const iso_metric_options *o)
{
    const iso_metric_settings *s = &o->settings;
    iso_graph *graph = iso_tensor_graph(o->y_pred);
    int rank = iso_tensor_shape(o->y_pred)->rank;
    if (iso_graph_error(graph) != ISO_OK)
        return false;
    if (rank != 2)
        iso_graph_fail(graph,
                       "the metric %s needs predictions of shape [batch, classes]; they have %d dimensions",
                       iso_metric_name(o->metric), rank);
    else if (!(s->threshold >= 0 && s->threshold <= 1))
        iso_graph_fail(graph, "the metric %s: the threshold is %g, it must be above 0 and at most 1",
                       iso_metric_name(o->metric), iso_option_number(s->threshold, 0));
    else if (!(s->beta >= 0))
        iso_graph_fail(graph, "the metric %s: beta is %g, it must be positive", iso_metric_name(o->metric),
                       iso_option_number(s->beta, 0));
    return iso_graph_error(graph) == ISO_OK;
}

/* Above the threshold; without one, the largest of a row, unless that is 0. */
static iso_tensor *f_predicted(iso_tensor *p, double threshold)
{
    if (threshold != 0)
        return iso_greater(p, iso_metric_number(p, threshold));
    iso_tensor *most = iso_reduce_max(p, (const int[]){-1}, 1, true);
    return iso_logical_and(iso_greater_equal(p, most), iso_greater(iso_abs(p), iso_metric_number(p, 1e-9)));
}

static iso_tensor *over_rows(iso_tensor *x, iso_tensor *weights)
{
    return iso_reduce_sum(iso_multiply(x, weights), (const int[]){0}, 1, false);
}

static iso_metric_sums f_sums(const iso_metric_options *o)
{
    iso_tensor *t = o->y_true, *p = o->y_pred;
    iso_metric_sums sums = {.per_row = 1};
    if (!f_check(o) || !iso_metric_takes_values(o) || !iso_loss_match(&t, &p, iso_metric_name(o->metric)))
        return sums;
    iso_tensor *weights = iso_metric_weights(o->weights, p);
    iso_tensor *predicted = iso_metric_ones(f_predicted(p, o->settings.threshold));
    t = iso_cast(t, ISO_F64);
    iso_tensor *by_class[] = {over_rows(iso_multiply(predicted, t), weights),
                              over_rows(iso_multiply(predicted, iso_affine(t, -1, 1)), weights),
                              over_rows(iso_multiply(iso_affine(predicted, -1, 1), t), weights),
                              over_rows(t, weights)};
    sums.sum = iso_metric_join(by_class, 4);
    return sums;
}

/* ---- the value ---- */

static double score(double tp, double fp, double fn, double beta)
{
    const double epsilon = ISO_LOSS_EPSILON, square = beta * beta;
    double precision = tp / (tp + fp + epsilon), recall = tp / (tp + fn + epsilon);
    return precision * recall / (square * precision + recall + epsilon) * (1 + square);
}

static double sum_of(const double *x, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += x[i];
    return sum;
}

static double f_value(const iso_metric_settings *s, const double *sums, int64_t count, double weight)
{
    int64_t classes = count / 4;
    const double *tp = sums, *fp = tp + classes, *fn = fp + classes, *targets = fn + classes;
    double beta = s->beta != 0 ? s->beta : 1, value = 0, all = sum_of(targets, classes) + ISO_LOSS_EPSILON;
    (void)weight;
    if (s->average == ISO_AVERAGE_MICRO)
        return score(sum_of(tp, classes), sum_of(fp, classes), sum_of(fn, classes), beta);
    for (int64_t c = 0; c < classes; c++) {
        double share = s->average == ISO_AVERAGE_WEIGHTED ? targets[c] / all : 1 / (double)classes;
        value += score(tp[c], fp[c], fn[c], beta) * share;
    }
    return value;
}

const iso_metric_type iso_metric_f1_score = {.row = {"f1_score", "F1Score", of_f1},
                                             .keras_name = "f1_score",
                                             .needs = "average",
                                             .sums = f_sums,
                                             .value = f_value};
const iso_metric_type iso_metric_fbeta_score = {.row = {"fbeta_score", "FBetaScore", of_fbeta},
                                                .keras_name = "fbeta_score",
                                                .alias = "f_beta_score",
                                                .needs = "average",
                                                .sums = f_sums,
                                                .value = f_value};
