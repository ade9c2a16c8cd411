/* The intersection over union of classes: of the elements that are predicted or true of a class, the fraction that is
 * both. Sums of each class: the weights of its targets, of its predictions, and of those that agree. Elements whose
 * target or prediction is no class do not count. */
#include "runtime/graph/layer.h"
#include "runtime/train/losses_impl.h"

#define MEMBER(member) offsetof(iso_metric_settings, member)
#define NUM_CLASSES                                                                                          \
    {                                                                                                        \
        "num_classes", ISO_SETTING_INT, MEMBER(num_classes), .fallback = 0                                   \
    }
#define TARGETS                                                                                              \
    {                                                                                                        \
        "target_class_ids", ISO_SETTING_BITS, MEMBER(target_classes), .fallback = 0                          \
    }
#define IGNORE                                                                                               \
    {                                                                                                        \
        "ignore_class", ISO_SETTING_INDEX, MEMBER(ignore_class), .fallback = 0                               \
    }
#define CLASSES_OF(name, member)                                                                             \
    {                                                                                                        \
        name, ISO_SETTING_NOT, MEMBER(member), .fallback = 1                                                 \
    }
#define SPARSE CLASSES_OF("sparse_y_true", dense_y_true), CLASSES_OF("sparse_y_pred", dense_y_pred)
#define SPARSE_PREDICTIONS                                                                                   \
    {                                                                                                        \
        "sparse_y_pred", ISO_SETTING_FLAG, MEMBER(sparse_y_pred), .fallback = 0                              \
    }

static const iso_setting of_iou[] = {NUM_CLASSES, TARGETS, IGNORE, SPARSE, {0}};
static const iso_setting of_mean[] = {NUM_CLASSES, IGNORE, SPARSE, {0}};
static const iso_setting of_one_hot[] = {NUM_CLASSES, TARGETS, IGNORE, SPARSE_PREDICTIONS, {0}};
static const iso_setting of_one_hot_mean[] = {NUM_CLASSES, IGNORE, SPARSE_PREDICTIONS, {0}};
static const iso_setting of_binary[] = {
    TARGETS, {"threshold", ISO_SETTING_REAL, MEMBER(threshold), .fallback = 0.5}, {0}};

/* ---- sums ---- */

static iso_metric_sums iou_fail(const iso_metric_options *o, const char *what, double value, const char *must)
{
    iso_graph_fail(iso_tensor_graph(o->y_pred), "the metric %s: %s is %g, it must be %s",
                   iso_metric_name(o->metric), what, value, must);
    return (iso_metric_sums){.per_row = 1};
}

/* A scalar like the numbers of classes. */
static iso_tensor *class_number(iso_tensor *x, double number)
{
    return iso_number(iso_tensor_graph(x), ISO_F64, number);
}

/* Whether x, cut to a whole number, is a class; a number that is NaN is none. */
static iso_tensor *is_class(iso_tensor *x, int classes)
{
    return iso_logical_and(iso_greater(x, class_number(x, -1)), iso_less(x, class_number(x, classes)));
}

static iso_tensor *cut_where(iso_tensor *counts, iso_tensor *x)
{
    return iso_cast(iso_where(counts, x, class_number(x, 0)), ISO_I32);
}

/* Keras's confusion matrix has whole numbers, so it cuts weights. */
static iso_tensor *whole_weights(iso_tensor *weights, iso_tensor *like)
{
    weights = weights ? iso_cast(weights, ISO_I32) : NULL;
    return iso_metric_weights(weights, like);
}

/* t, p: classes, ISO_F64, in one shape */
static iso_metric_sums sums_of(const iso_metric_options *o, iso_tensor *t, iso_tensor *p, int classes)
{
    iso_metric_sums sums = {.per_row = 1};
    iso_tensor *counts = iso_logical_and(is_class(t, classes), is_class(p, classes));
    iso_tensor *target = cut_where(counts, t), *predicted = cut_where(counts, p);
    if (o->settings.ignore_class) {
        double ignored = iso_option_number(o->settings.ignore_class, 0);
        iso_tensor *other = iso_not_equal(iso_cast(target, ISO_F64), class_number(t, ignored));
        counts = iso_logical_and(counts, other);
    }
    iso_tensor *weights = iso_multiply(whole_weights(o->weights, t), iso_metric_ones(counts));
    iso_tensor *agree = iso_multiply(weights, iso_metric_ones(iso_equal(target, predicted)));
    iso_tensor *by_class[] = {iso_segment_sum(iso_metric_column(weights), target, classes),
                              iso_segment_sum(iso_metric_column(weights), predicted, classes),
                              iso_segment_sum(iso_metric_column(agree), target, classes)};
    sums.sum = iso_metric_join(by_class, 3);
    return sums;
}

/* dense_t, dense_p: whether they have a last dimension of a number for each class. */
static iso_metric_sums iou_sums(const iso_metric_options *o, bool dense_t, bool dense_p)
{
    iso_tensor *t = o->y_true, *p = o->y_pred;
    int classes = o->settings.num_classes;
    if (classes < 2 || classes > ISO_MAX_IOU_CLASSES)
        return iou_fail(o, "num_classes", classes,
                        "from 2 to 65536, and given if the predictions are classes");
    if (o->settings.target_classes >> (classes < ISO_SETTING_BITS_END ? classes : ISO_SETTING_BITS_END) != 0)
        return iou_fail(o, "num_classes", classes, "above each of the target classes");
    if (dense_p)
        p = iso_argmax(p, -1);
    if (dense_t && iso_tensor_shape(t)->rank > 1)
        t = iso_argmax(t, -1);
    p = iso_cast(p, ISO_F64);
    if (!iso_loss_match(&t, &p, iso_metric_name(o->metric)))
        return (iso_metric_sums){.per_row = 1};
    return sums_of(o, t, p, classes);
}

static iso_metric_sums by_settings(const iso_metric_options *o)
{
    return iou_sums(o, o->settings.dense_y_true, o->settings.dense_y_pred);
}

static iso_metric_sums one_hot(const iso_metric_options *o)
{
    return iou_sums(o, true, !o->settings.sparse_y_pred);
}

/* False, and an error in the graph, without target classes. */
static bool has_targets(const iso_metric_options *o)
{
    if (o->settings.target_classes == 0)
        iso_graph_fail(
            iso_tensor_graph(o->y_pred),
            "the metric %s: there are no target classes; mean_iou and one_hot_mean_iou count all classes",
            iso_metric_name(o->metric));
    return o->settings.target_classes != 0;
}

static iso_metric_sums by_settings_of_targets(const iso_metric_options *o)
{
    return has_targets(o) ? by_settings(o) : (iso_metric_sums){.per_row = 1};
}

static iso_metric_sums one_hot_of_targets(const iso_metric_options *o)
{
    return has_targets(o) ? one_hot(o) : (iso_metric_sums){.per_row = 1};
}

static iso_metric_sums binary(const iso_metric_options *o)
{
    iso_tensor *t = o->y_true, *p = o->y_pred;
    double least = iso_option_number(o->settings.threshold, of_binary[1].fallback);
    if (o->settings.target_classes >> 2 != 0) {
        iso_graph_fail(iso_tensor_graph(p), "the metric %s: its target classes must be 0, 1, or both",
                       iso_metric_name(o->metric));
        return (iso_metric_sums){.per_row = 1};
    }
    if (!iso_metric_takes_values(o) || !iso_loss_match(&t, &p, iso_metric_name(o->metric)))
        return (iso_metric_sums){.per_row = 1};
    p = iso_metric_ones(iso_greater_equal(p, iso_metric_number(p, least)));
    return sums_of(o, iso_cast(t, ISO_F64), p, 2);
}

/* ---- the value ---- */

/* The mean over the target classes that occur. */
static double iou_value(const iso_metric_settings *s, const double *sums, int64_t count, double weight)
{
    int64_t classes = count / 3;
    double sum = 0, occur = 0;
    (void)weight;
    for (int64_t c = 0; c < classes; c++) {
        double both = sums[2 * classes + c], either = sums[c] + sums[classes + c] - both;
        bool wanted = s->target_classes == 0 || (c < ISO_SETTING_BITS_END && s->target_classes >> c & 1);
        if (!wanted || !(either > 1e-9))
            continue;
        sum += both / (either + ISO_LOSS_EPSILON);
        occur++;
    }
    return sum / (occur + ISO_LOSS_EPSILON);
}

/* The number of classes of predictions that have one number for each. */
static void complete_classes(iso_metric_settings *s, const iso_shape *prediction)
{
    if (s->num_classes == 0 && prediction->rank > 1)
        s->num_classes = (int)prediction->dim[prediction->rank - 1];
}

static void complete_dense(iso_metric_settings *s, const iso_shape *prediction)
{
    if (s->dense_y_pred)
        complete_classes(s, prediction);
}

static void complete_one_hot(iso_metric_settings *s, const iso_shape *prediction)
{
    if (!s->sparse_y_pred)
        complete_classes(s, prediction);
}

static void complete_binary(iso_metric_settings *s, const iso_shape *prediction)
{
    (void)prediction;
    s->target_classes = s->target_classes ? s->target_classes : 3;
}

#define IOU(which, name, class, title, settings, function, filled)                                           \
    const iso_metric_type iso_metric_##which = {.row = {name, class, settings},                              \
                                                .keras_name = title,                                         \
                                                .complete = filled,                                          \
                                                .whole_weights = true,                                       \
                                                .sums = function,                                            \
                                                .value = iou_value};
IOU(iou, "iou", "IoU", "io_u", of_iou, by_settings_of_targets, complete_dense)
IOU(binary_iou, "binary_iou", "BinaryIoU", "binary_io_u", of_binary, binary, complete_binary)
IOU(mean_iou, "mean_iou", "MeanIoU", "mean_io_u", of_mean, by_settings, complete_dense)
IOU(one_hot_iou, "one_hot_iou", "OneHotIoU", "one_hot_io_u", of_one_hot, one_hot_of_targets, complete_one_hot)
IOU(one_hot_mean_iou, "one_hot_mean_iou", "OneHotMeanIoU", "one_hot_mean_io_u", of_one_hot_mean, one_hot,
    complete_one_hot)
