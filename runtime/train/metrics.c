/* Metrics of Keras 3.15: the values of a batch, summed. */
#include <string.h>

#include "runtime/base/text.h"
#include "runtime/graph/arguments.h"
#include "runtime/train/losses_impl.h"

static iso_tensor *sparse_accuracy(const iso_metric_options *o)
{
    iso_tensor *t = o->y_true;
    if (!iso_loss_match_labels(&t, o->y_pred, "sparse accuracy"))
        return NULL;
    return iso_equal(iso_argmax(o->y_pred, -1), t);
}

/* Integer labels are not distributions: the error names the metric that accepts them. */
static bool are_distributions(const iso_metric_options *o, const char *what, const char *other)
{
    const iso_shape *t = iso_tensor_shape(o->y_true), *p = iso_tensor_shape(o->y_pred);
    bool labels = !iso_dtype_is_float(iso_tensor_dtype(o->y_true)) && t->rank < p->rank;
    if (labels && iso_graph_error(iso_tensor_graph(o->y_pred)) == ISO_OK)
        iso_graph_fail(
            iso_tensor_graph(o->y_pred),
            "the metric %s compares distributions, but the targets are integer labels: %s takes them", what,
            other);
    return !labels;
}

static iso_tensor *categorical_accuracy(const iso_metric_options *o)
{
    iso_tensor *t = o->y_true, *p = o->y_pred;
    if (!are_distributions(o, "categorical_accuracy", "sparse_accuracy (sparse_categorical_accuracy)"))
        return NULL;
    if (!iso_loss_match(&t, &p, "categorical accuracy"))
        return NULL;
    return iso_equal(iso_argmax(p, -1), iso_argmax(t, -1));
}

/* Labels of classes do not fit what has a number for each class; a single output may have targets [batch]. */
static bool are_alike(const iso_metric_options *o, const char *what)
{
    char want[160], have[160];
    const iso_shape *t = iso_tensor_shape(o->y_true), *p = iso_tensor_shape(o->y_pred);
    bool labels =
        !iso_dtype_is_float(iso_tensor_dtype(o->y_true)) && t->rank < p->rank && p->dim[p->rank - 1] != 1;
    if (labels && iso_graph_error(iso_tensor_graph(o->y_pred)) == ISO_OK)
        iso_graph_fail(iso_tensor_graph(o->y_pred),
                       "the metric %s needs targets of the predictions' shape %s, but they are integer "
                       "labels of shape %s",
                       what, iso_shape_text(p, want, sizeof want), iso_shape_text(t, have, sizeof have));
    return !labels;
}

static iso_tensor *binary_accuracy(const iso_metric_options *o)
{
    iso_tensor *t = o->y_true, *p = o->y_pred;
    if (!are_alike(o, "binary_accuracy"))
        return NULL;
    if (!iso_loss_match(&t, &p, "binary accuracy"))
        return NULL;
    iso_tensor *limit =
        iso_number(iso_tensor_graph(p), iso_tensor_dtype(p), iso_option_number(o->threshold, 0.5));
    return iso_equal(iso_cast(iso_greater(p, limit), iso_tensor_dtype(t)), t);
}

/* Whether fewer than k predictions are larger than the label's. y_pred: [batch, ..., classes], labels:
 * [batch, ...] */
static iso_tensor *among_the_largest(iso_tensor *labels, iso_tensor *y_pred, int k)
{
    if (k <= 0) {
        iso_graph_fail(iso_tensor_graph(y_pred), "top-k: k is %d, it must be positive", k);
        return NULL;
    }
    return iso_in_top_k(y_pred, labels, k);
}

static iso_tensor *sparse_top_k(const iso_metric_options *o)
{
    iso_tensor *t = o->y_true;
    if (!iso_loss_match_labels(&t, o->y_pred, "sparse top-k"))
        return NULL;
    return among_the_largest(t, o->y_pred, o->k ? o->k : 5);
}

static iso_tensor *top_k(const iso_metric_options *o)
{
    iso_tensor *t = o->y_true, *p = o->y_pred;
    if (!are_distributions(o, "top_k", "sparse_top_k (sparse_top_k_categorical_accuracy)"))
        return NULL;
    if (!iso_loss_match(&t, &p, "top-k"))
        return NULL;
    return among_the_largest(iso_argmax(t, -1), p, o->k ? o->k : 5);
}

static iso_tensor *mse(const iso_metric_options *o)
{
    return are_alike(o, "mse") ? iso_mean_squared_error(o->y_true, o->y_pred) : NULL;
}

static iso_tensor *mae(const iso_metric_options *o)
{
    return are_alike(o, "mae") ? iso_mean_absolute_error(o->y_true, o->y_pred) : NULL;
}

/* The values of a metric: booleans or floats, [batch, ...]; NULL where the graph has an error. */
static const struct {
    const char *name, *keras;
    iso_tensor *(*values)(const iso_metric_options *options);
} rows[ISO_METRIC_COUNT] = {
    [ISO_METRIC_ACCURACY] = {"accuracy", "acc", NULL},
    [ISO_METRIC_SPARSE_ACCURACY] = {"sparse_accuracy", "sparse_categorical_accuracy", sparse_accuracy},
    [ISO_METRIC_CATEGORICAL_ACCURACY] = {"categorical_accuracy", "categorical_accuracy",
                                         categorical_accuracy},
    [ISO_METRIC_BINARY_ACCURACY] = {"binary_accuracy", "binary_accuracy", binary_accuracy},
    [ISO_METRIC_SPARSE_TOP_K] = {"sparse_top_k", "sparse_top_k_categorical_accuracy", sparse_top_k},
    [ISO_METRIC_TOP_K] = {"top_k", "top_k_categorical_accuracy", top_k},
    [ISO_METRIC_MSE] = {"mse", "mean_squared_error", mse},
    [ISO_METRIC_MAE] = {"mae", "mean_absolute_error", mae},
};

const char *iso_metric_name(iso_metric metric)
{
    return (int)metric > ISO_METRIC_NONE && (int)metric < ISO_METRIC_COUNT ? rows[metric].name : NULL;
}

const char *iso_metric_keras_name(iso_metric metric)
{
    return iso_metric_name(metric) ? rows[metric].keras : NULL;
}

const char *iso_metric_title(iso_metric metric)
{
    bool is_short = metric == ISO_METRIC_ACCURACY || metric == ISO_METRIC_MSE || metric == ISO_METRIC_MAE;
    return is_short ? iso_metric_name(metric) : iso_metric_keras_name(metric);
}

iso_status iso_metric_find(const char *name, iso_metric *metric)
{
    ISO_NEED(name, metric);
    const char *titles[ISO_METRIC_COUNT - 1], *names[2 * ISO_METRIC_COUNT];
    int count = 0;
    for (int i = 1; i < ISO_METRIC_COUNT; i++) {
        titles[i - 1] = iso_metric_title((iso_metric)i);
        names[count++] = rows[i].name;
        if (strcmp(rows[i].name, rows[i].keras) != 0)
            names[count++] = rows[i].keras;
        if (strcmp(name, rows[i].name) == 0 || strcmp(name, rows[i].keras) == 0) {
            *metric = (iso_metric)i;
            return ISO_OK;
        }
    }
    iso_text text = {0};
    if (!iso_text_add_near(&text, name, names, count))
        iso_text_add_nearest(&text, name, titles, ISO_METRIC_COUNT - 1);
    iso_status status = iso_error(ISO_INVALID, "unknown metric '%s'%s", name, iso_text_get(&text));
    iso_text_free(&text);
    return status;
}

iso_metric iso_metric_for_loss(iso_metric metric, iso_loss loss, const iso_shape *prediction)
{
    if (metric != ISO_METRIC_ACCURACY)
        return metric;
    if (iso_loss_target_dtype(loss) == ISO_I32)
        return ISO_METRIC_SPARSE_ACCURACY;
    bool one = prediction->rank > 0 && prediction->dim[prediction->rank - 1] == 1;
    return one ? ISO_METRIC_BINARY_ACCURACY : ISO_METRIC_CATEGORICAL_ACCURACY;
}

/* The mean of values over the dimensions that the weights lack: Keras weighs rows. */
static iso_tensor *mean_beyond(iso_tensor *values, int rank)
{
    int axes[ISO_MAX_RANK], count = 0;
    for (int i = rank; i < iso_tensor_shape(values)->rank; i++)
        axes[count++] = i;
    return count ? iso_reduce_mean(values, axes, count, false) : values;
}

iso_metric_sums iso_metric_sum_values(iso_tensor *values, iso_tensor *weights)
{
    iso_metric_sums sums = {.per_row = 1};
    if (!values || iso_graph_error(iso_tensor_graph(values)) != ISO_OK)
        return sums;
    for (int i = 1; i < iso_tensor_shape(values)->rank; i++)
        sums.per_row *= (double)iso_tensor_shape(values)->dim[i];
    if (!weights) {
        bool whole = iso_tensor_dtype(values) == ISO_BOOL; /* counted exactly in integers */
        sums.sum = iso_sum(whole ? values : iso_cast(values, ISO_F64));
        return sums;
    }
    values = mean_beyond(iso_cast(values, ISO_F64), iso_tensor_shape(weights)->rank);
    weights = iso_broadcast_to(iso_loss_fit_weights(weights, values), *iso_tensor_shape(values));
    sums.sum = iso_sum(iso_multiply(values, weights));
    sums.weight = iso_sum(weights);
    return sums;
}

iso_metric_sums iso_metric_build_with(const iso_metric_options *given, size_t size)
{
    iso_metric_options options = {0};
    iso_options_copy(&options, sizeof options, given, size);
    if (ISO_ANY_NULL_AS("y_true, y_pred", options.y_true, options.y_pred)) {
        iso_null_tensor((iso_tensor *const[]){options.y_true, options.y_pred}, 2);
        return (iso_metric_sums){.per_row = 1};
    }
    if ((int)options.metric <= ISO_METRIC_NONE || (int)options.metric >= ISO_METRIC_COUNT ||
        !rows[options.metric].values) {
        iso_graph_fail(iso_tensor_graph(options.y_pred), "metric %d: there is no such metric",
                       (int)options.metric);
        return (iso_metric_sums){.per_row = 1};
    }
    return iso_metric_sum_values(rows[options.metric].values(&options), options.weights);
}
