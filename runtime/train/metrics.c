/* Shared by metrics: their rows, and the sums over the rows of a batch. */
#include <math.h>
#include <string.h>

#include "runtime/base/text.h"
#include "runtime/base/thread_modes.h"
#include "runtime/graph/layer.h"
#include "runtime/train/losses_impl.h"

/* ---- the rows ---- */

static const iso_metric_type *const types[ISO_METRIC_COUNT] = {
#define METRIC(name, NAME) [ISO_METRIC_##NAME] = &iso_metric_##name,
#include "runtime/train/losses/list.h"
};

const iso_metric_type *iso_metric_type_of(iso_metric metric)
{
    return (int)metric > ISO_METRIC_NONE && (int)metric < ISO_METRIC_COUNT ? types[metric] : NULL;
}

const char *iso_metric_name(iso_metric metric)
{
    const iso_metric_type *type = iso_metric_type_of(metric);
    return type ? type->row.name : NULL;
}

const char *iso_metric_keras_name(iso_metric metric)
{
    const iso_metric_type *type = iso_metric_type_of(metric);
    return type ? type->keras_name : NULL;
}

const char *iso_metric_title(iso_metric metric)
{
    const iso_metric_type *type = iso_metric_type_of(metric);
    return type && type->title ? type->title : iso_metric_keras_name(metric);
}

const char *iso_metric_spelling(iso_metric metric, const char *name)
{
    const iso_metric_type *type = iso_metric_type_of(metric);
    const char *const names[] = {type->row.name, type->keras_name, type->alias};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i] && strcmp(names[i], name) == 0)
            return names[i];
    return NULL;
}

static iso_status metrics_unknown(const char *name)
{
    const char *listed[ISO_METRIC_COUNT], *names[3 * ISO_METRIC_COUNT];
    int count = 0;
    for (int i = 1; i < ISO_METRIC_COUNT; i++) {
        listed[i - 1] = names[count++] = types[i]->row.name;
        if (strcmp(types[i]->row.name, types[i]->keras_name) != 0)
            names[count++] = types[i]->keras_name;
        if (types[i]->alias)
            names[count++] = types[i]->alias;
    }
    return iso_descriptor_unknown("metric", name, names, count, listed, ISO_METRIC_COUNT - 1);
}

iso_status iso_metric_find(const char *name, iso_metric *metric)
{
    ISO_NEED(name, metric);
    for (int i = 1; i < ISO_METRIC_COUNT; i++) {
        if (iso_metric_spelling((iso_metric)i, name)) {
            *metric = (iso_metric)i;
            return ISO_OK;
        }
    }
    return metrics_unknown(name);
}

iso_metric iso_metric_for_loss(iso_metric metric, iso_loss loss, const iso_shape *prediction)
{
    const iso_metric_type *type = iso_metric_type_of(metric);
    return type && type->choose ? type->choose(loss, prediction) : metric;
}

void iso_metric_complete(iso_metric metric, iso_metric_settings *settings, const iso_shape *prediction)
{
    const iso_metric_type *type = iso_metric_type_of(metric);
    if (type && type->complete)
        type->complete(settings, prediction);
}

iso_metric_settings iso_metric_filled(const iso_metric_type *type, const iso_metric_settings *settings)
{
    iso_metric_settings filled = settings ? *settings : (iso_metric_settings){0};
    for (const iso_setting *s = type->row.setting; s && s->name; s++)
        iso_setting_set(s, &filled, iso_setting_option(s, &filled));
    return filled;
}

/* ---- targets ---- */

/* Whether the targets are integer labels, for predictions with one number per class. */
static bool are_labels(const iso_metric_options *o)
{
    return !iso_dtype_is_float(iso_tensor_dtype(o->y_true)) &&
           iso_tensor_shape(o->y_true)->rank < iso_tensor_shape(o->y_pred)->rank;
}

bool iso_metric_takes_distributions(const iso_metric_options *o, const iso_metric_type *sparse)
{
    bool labels = are_labels(o);
    if (labels && iso_graph_error(iso_tensor_graph(o->y_pred)) == ISO_OK)
        iso_graph_fail(iso_tensor_graph(o->y_pred),
                       "the metric %s compares distributions, but the targets are integer labels: %s (%s) "
                       "takes them",
                       iso_metric_name(o->metric), sparse->row.name, sparse->keras_name);
    return !labels;
}

/* The targets of a single output may be [batch]. */
bool iso_metric_takes_values(const iso_metric_options *o)
{
    char want[160], have[160];
    const iso_shape *t = iso_tensor_shape(o->y_true), *p = iso_tensor_shape(o->y_pred);
    bool labels = are_labels(o) && p->dim[p->rank - 1] != 1;
    if (labels && iso_graph_error(iso_tensor_graph(o->y_pred)) == ISO_OK)
        iso_graph_fail(iso_tensor_graph(o->y_pred),
                       "the metric %s needs targets of the predictions' shape %s, but they are integer "
                       "labels of shape %s",
                       iso_metric_name(o->metric), iso_shape_text(p, want, sizeof want),
                       iso_shape_text(t, have, sizeof have));
    return !labels;
}

/* ---- parts of metrics ---- */

iso_tensor *iso_metric_ones(iso_tensor *condition)
{
    return iso_cast(condition, ISO_F64);
}

iso_tensor *iso_metric_number(iso_tensor *x, double value)
{
    return iso_number(iso_tensor_graph(x), iso_tensor_dtype(x), value);
}

iso_tensor *iso_metric_weights(iso_tensor *weights, iso_tensor *values)
{
    iso_tensor *of = weights ? iso_loss_fit_weights(iso_cast(weights, ISO_F64), iso_cast(values, ISO_F64))
                             : iso_number(iso_tensor_graph(values), ISO_F64, 1);
    return iso_broadcast_to(of, *iso_tensor_shape(values));
}

iso_tensor *iso_metric_join(iso_tensor *const *sums, int count)
{
    iso_tensor *flat[ISO_MAX_INPUTS];
    for (int i = 0; i < count; i++)
        flat[i] = iso_reshape_to(iso_cast(sums[i], ISO_F64), ISO_SHAPE(-1));
    return count > 1 ? iso_concat(flat, count, 0) : flat[0];
}

iso_tensor *iso_metric_column(iso_tensor *x)
{
    iso_shape shape = *iso_tensor_shape(x);
    shape.dim[shape.rank++] = 1;
    return iso_reshape_to(x, shape);
}

bool iso_metric_select_class(const iso_metric_options *o, iso_tensor **const *tensors, int count)
{
    const iso_shape *shape = iso_tensor_shape(o->y_pred);
    int64_t begin[ISO_MAX_RANK] = {0}, size[ISO_MAX_RANK];
    const int last = shape->rank - 1, id = (int)iso_option_number(o->settings.class_id, 0);
    if (!o->settings.class_id)
        return true;
    if (last < 1 || id < 0 || id >= shape->dim[last]) {
        iso_graph_fail(iso_tensor_graph(o->y_pred),
                       "the metric %s: class_id is %d, the predictions have %lld classes",
                       iso_metric_name(o->metric), id, last < 1 ? 0LL : (long long)shape->dim[last]);
        return false;
    }
    for (int d = 0; d < last - 1; d++) /* without the batch */
        size[d] = -1;
    begin[last - 1] = id;
    size[last - 1] = 1;
    for (int i = 0; i < count; i++)
        *tensors[i] = iso_slice(*tensors[i], begin, size);
    return true;
}

double iso_metric_quotient(double a, double b)
{
    return b == 0 ? 0 : a / b;
}

/* ---- values and their sums ---- */

/* The mean of values over the dimensions that the weights lack, because Keras weights rows. */
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

static iso_tensor *values_of(const iso_metric_type *type, const iso_metric_options *options)
{
    if (type->build)
        return type->build(options);
    return iso_metric_takes_values(options) ? type->function(options->y_true, options->y_pred) : NULL;
}

/* Leaves out the targets of the ignored class. */
static void ignore_targets(const iso_metric_type *type, iso_metric_options *o)
{
    bool ignores = type->row.setting && iso_setting_of(type->row.setting, "ignore_class");
    if (ignores && o->settings.ignore_class && iso_loss_match_labels(&o->y_true, o->y_pred, type->row.name))
        o->weights = iso_loss_mask_weights(o->weights, iso_loss_ignore(&o->y_true, o->settings.ignore_class));
}

iso_metric_sums iso_metric_build_with(const iso_metric_options *given, size_t size)
{
    ISO_DEFAULT_MODES();
    iso_metric_options options = {0};
    iso_options_copy(&options, sizeof options, given, size);
    if (ISO_ANY_NULL_AS("y_true, y_pred", options.y_true, options.y_pred)) {
        iso_null_tensor((iso_tensor *const[]){options.y_true, options.y_pred}, 2);
        return (iso_metric_sums){.per_row = 1};
    }
    const iso_metric_type *type = iso_metric_type_of(options.metric);
    if (!type || (!type->function && !type->build && !type->sums)) {
        iso_graph_fail(iso_tensor_graph(options.y_pred), "metric %d: there is no such metric",
                       (int)options.metric);
        return (iso_metric_sums){.per_row = 1};
    }
    if (type->complete)
        type->complete(&options.settings, iso_tensor_shape(options.y_pred));
    if (type->sums)
        return type->sums(&options);
    ignore_targets(type, &options);
    return iso_metric_sum_values(values_of(type, &options), options.weights);
}

/* NaN without a sign, so that it is not printed as -nan. */
double iso_metric_value(const iso_metric_type *type, const iso_metric_settings *settings, const double *sums,
                        int64_t count, double weight)
{
    double value = iso_metric_quotient(sums[0], weight);
    if (type && type->value) {
        iso_metric_settings filled = iso_metric_filled(type, settings);
        value = type->value(&filled, sums, count, weight);
    } else if (type && type->last) {
        value = type->last(value);
    }
    return isnan(value) ? NAN : value;
}

double iso_metric_result(iso_metric metric, const iso_metric_settings *settings, const double *sums,
                         int64_t count, double weight)
{
    ISO_DEFAULT_MODES();
    const iso_metric_type *type = iso_metric_type_of(metric);
    bool one = !type || !type->value;
    if (ISO_ANY_NULL(sums) || count < 1 || (one && count != 1))
        return NAN;
    return iso_metric_value(type, settings, sums, count, weight);
}
