/* Losses and metrics of Keras 3: as graph functions for custom training loops, and by name for iso_compile().
 * Functions are local unless their comment says otherwise; every rank makes the same calls.
 * Pointers that functions return belong to the graph, names to the library, unless their comment says otherwise. */
#ifndef ISO_TRAIN_LOSSES_H
#define ISO_TRAIN_LOSSES_H

#include "runtime/base/options.h"
#include "runtime/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- losses as functions ----
 *
 * The result is the loss of each row, or of each position if predictions have more dimensions.
 * y_pred: [batch, ..., n]; result: [batch, ...]. Probabilities are clipped to [1e-7, 1 - 1e-7]. */

/* y_true: as y_pred */
ISO_API iso_tensor *iso_mean_squared_error(iso_tensor *y_true, iso_tensor *y_pred);
ISO_API iso_tensor *iso_mean_absolute_error(iso_tensor *y_true, iso_tensor *y_pred);
/* delta 0: 1 */
ISO_API iso_tensor *iso_huber(iso_tensor *y_true, iso_tensor *y_pred, double delta);
/* Kullback-Leibler: sum(y_true * log(y_true / y_pred)) over the last dimension; both are clipped to [1e-7,
 * 1]. y_true: distributions, as y_pred */
ISO_API iso_tensor *iso_kl_divergence(iso_tensor *y_true, iso_tensor *y_pred);

/* |y_true - y_pred| in percent of |y_true|, which counts as 1e-7 at least */
ISO_API iso_tensor *iso_mean_absolute_percentage_error(iso_tensor *y_true, iso_tensor *y_pred);
/* The squared difference of log(1 + y); both y count as 1e-7 at least */
ISO_API iso_tensor *iso_mean_squared_logarithmic_error(iso_tensor *y_true, iso_tensor *y_pred);
/* log(cosh(y_pred - y_true)) */
ISO_API iso_tensor *iso_log_cosh(iso_tensor *y_true, iso_tensor *y_pred);
/* y_pred - y_true * log(y_pred + 1e-7). y_pred: expected counts, not negative */
ISO_API iso_tensor *iso_poisson(iso_tensor *y_true, iso_tensor *y_pred);
/* The negative cosine of the angle between y_true and y_pred along the last dimension, from -1 (the same direction)
 * to 1; 0 if one of them is 0 */
ISO_API iso_tensor *iso_cosine_similarity(iso_tensor *y_true, iso_tensor *y_pred);
/* max(1 - y_true * y_pred, 0), and its square. y_true: -1 or 1; if all targets of the batch are 0 or 1, 0 counts
 * as -1 */
ISO_API iso_tensor *iso_hinge(iso_tensor *y_true, iso_tensor *y_pred);
ISO_API iso_tensor *iso_squared_hinge(iso_tensor *y_true, iso_tensor *y_pred);
/* max(1 + max((1 - y_true) * y_pred) - sum(y_true * y_pred), 0) over the last dimension. y_true: 0 or 1, as y_pred */
ISO_API iso_tensor *iso_categorical_hinge(iso_tensor *y_true, iso_tensor *y_pred);
/* (1 - p^q) / q of the probability p of the label (Zhang and Sabuncu 2018). y_true: classes, [batch, ...] or
 * [batch, ..., 1]; a label that is no class has p = 0. q: between 0 and 1; 0: 0.5 */
ISO_API iso_tensor *iso_categorical_generalized_crossentropy(iso_tensor *y_true, iso_tensor *y_pred,
                                                             double q);

/* Losses of the whole batch. axes: bit i is dimension i of y_pred, over which the sums are; the result has the other
 * dimensions. 0: all, for a scalar, in which the rows of all slots count. */
/* 1 - 2 * sum(y_true * y_pred) / (sum(y_true) + sum(y_pred) + 1e-7). y_true: as y_pred */
ISO_API iso_tensor *iso_dice(iso_tensor *y_true, iso_tensor *y_pred, uint64_t axes);
/* 1 - a / (a + alpha * b + beta * c + 1e-7), with a: sum(y_true * y_pred), b: sum(y_true * (1 - y_pred)), c:
 * sum((1 - y_true) * y_pred). alpha, beta: not negative; 0: 0.5 */
ISO_API iso_tensor *iso_tversky(iso_tensor *y_true, iso_tensor *y_pred, double alpha, double beta,
                                uint64_t axes);

typedef struct iso_crossentropy_options {
    char begin_;
    iso_tensor *y_true, *y_pred;
    bool from_logits;
    double label_smoothing; /* 0; not for sparse labels */
    int ignore_class;       /* sparse labels of this number do not count; 0: all count; ISO_ZERO: class 0 */
} iso_crossentropy_options;
/* y_true: classes as integers or integral floats, [batch, ...] or [batch, ..., 1]. With ignore_class, which may be no
 * class (-100), the loss of a label that does not count is 0; the mean over those that count is iso_sum(losses)
 * divided by their number, which iso_compile() computes. */
ISO_API iso_tensor *iso_sparse_crossentropy_with(const iso_crossentropy_options *options, size_t size);
/* y_true: distributions, as y_pred */
ISO_API iso_tensor *iso_categorical_crossentropy_with(const iso_crossentropy_options *options, size_t size);
/* y_true: 0 to 1, as y_pred; the mean over the last dimension */
ISO_API iso_tensor *iso_binary_crossentropy_with(const iso_crossentropy_options *options, size_t size);
#define ISO_CROSSENTROPY_(function, ...) function(ISO_OPTIONS(iso_crossentropy_options, __VA_ARGS__))
#define iso_sparse_crossentropy(...) ISO_CROSSENTROPY_(iso_sparse_crossentropy_with, __VA_ARGS__)
#define iso_categorical_crossentropy(...) ISO_CROSSENTROPY_(iso_categorical_crossentropy_with, __VA_ARGS__)
#define iso_binary_crossentropy(...) ISO_CROSSENTROPY_(iso_binary_crossentropy_with, __VA_ARGS__)

typedef struct iso_focal_options {
    char begin_;
    iso_tensor *y_true, *y_pred;
    bool from_logits;
    double label_smoothing;     /* 0 */
    bool apply_class_balancing; /* of the binary one: targets 1 weigh alpha, targets 0 weigh 1 - alpha */
    double alpha;               /* 0.25; from 0, for the binary one to 1 */
    double gamma;               /* 2; not negative */
} iso_focal_options;
/* Cross-entropy in which what is predicted with the probability p counts (1 - p)^gamma (Lin et al. 2017). */
/* y_true: 0 to 1, as y_pred; the mean over the last dimension */
ISO_API iso_tensor *iso_binary_focal_crossentropy_with(const iso_focal_options *options, size_t size);
/* y_true: distributions, as y_pred; times alpha */
ISO_API iso_tensor *iso_categorical_focal_crossentropy_with(const iso_focal_options *options, size_t size);
#define iso_binary_focal_crossentropy(...)                                                                   \
    iso_binary_focal_crossentropy_with(ISO_OPTIONS(iso_focal_options, __VA_ARGS__))
#define iso_categorical_focal_crossentropy(...)                                                              \
    iso_categorical_focal_crossentropy_with(ISO_OPTIONS(iso_focal_options, __VA_ARGS__))

/* Keras's reduction "sum_over_batch_size": sum(values * weights) / number of values. weights: NULL, [batch]
 * or any shape that broadcasts to the values. */
ISO_API iso_tensor *iso_reduce_loss(iso_tensor *values, iso_tensor *weights);

/* ---- losses by name ---- */
/* ISO_LOSS_MSE, ...: the losses in losses/list.h. */
typedef enum iso_loss {
    ISO_LOSS_NONE = 0,
#define LOSS(name, NAME, targets) ISO_LOSS_##NAME,
#include "runtime/train/losses/list.h"
    ISO_LOSS_COUNT
} iso_loss;
/* "sparse_crossentropy_logits"; NULL outside the range. */
ISO_API const char *iso_loss_name(iso_loss loss);
/* Accepts Isogrid's names and Keras's ("mean_squared_error", "sparse_categorical_crossentropy"). ISO_INVALID
 * suggests the nearest name. */
ISO_API iso_status iso_loss_find(const char *name, iso_loss *loss);
/* The targets in a batch for a model with this output: element type and shape of a row. */
ISO_API iso_dtype iso_loss_target_dtype(iso_loss loss);

/* ---- metrics: by name for iso_compile(), as functions for custom loops ---- */
/* ISO_METRIC_MSE, ...: the metrics in losses/list.h. ISO_METRIC_ACCURACY becomes sparse accuracy if the loss
 * has integer labels, otherwise binary if one value is predicted, otherwise categorical. */
typedef enum iso_metric {
    ISO_METRIC_NONE = 0,
#define METRIC(name, NAME) ISO_METRIC_##NAME,
#include "runtime/train/losses/list.h"
    ISO_METRIC_COUNT
} iso_metric;
/* Isogrid's name ("sparse_accuracy") and Keras's ("sparse_categorical_accuracy"); NULL outside the range. */
ISO_API const char *iso_metric_name(iso_metric metric);
ISO_API const char *iso_metric_keras_name(iso_metric metric);
/* The name in logs and files unless iso_compile's .metric_names sets one: Keras's name, except "accuracy",
 * "mse" and "mae". */
ISO_API const char *iso_metric_title(iso_metric metric);
/* Accepts both names. ISO_INVALID suggests the nearest one. */
ISO_API iso_status iso_metric_find(const char *name, iso_metric *metric);

/* The curve whose area AUC is: the true positives' rate by the false positives' rate, precision by recall, and
 * precision gain by recall gain (Flach and Kull 2015). */
typedef enum iso_auc_curve { ISO_CURVE_ROC = 0, ISO_CURVE_PR, ISO_CURVE_PRGAIN } iso_auc_curve;
/* The heights between two points of the curve: their mean (of precision: Davis and Goadrich 2006), the larger
 * one, the smaller one. */
typedef enum iso_auc_summation {
    ISO_SUMMATION_INTERPOLATION = 0,
    ISO_SUMMATION_MAJORING,
    ISO_SUMMATION_MINORING,
} iso_auc_summation;
/* How F-scores of classes become one number. Keras's default, a number for each class, does not exist here. */
typedef enum iso_average { ISO_AVERAGE_MACRO = 0, ISO_AVERAGE_MICRO, ISO_AVERAGE_WEIGHTED } iso_average;
/* How R2 scores of the predicted numbers become one. */
typedef enum iso_aggregation {
    ISO_AGGREGATION_UNIFORM = 0,
    ISO_AGGREGATION_VARIANCE_WEIGHTED
} iso_aggregation;

/* The settings of one metric. Zero means Keras's default, ISO_ZERO the number zero; each metric reads its own. */
typedef struct iso_metric_settings {
    int top_k; /* of top-k metrics: 5; of precision and recall, whose other predictions do not count: none */
    double threshold;   /* 0.5; of F-scores: none, the largest prediction of a row counts */
    int class_id;       /* the only class that counts; 0: all; ISO_ZERO: class 0 */
    int num_thresholds; /* of AUC and its like: 200, evenly between 0 and 1 */
    iso_auc_curve curve;
    iso_auc_summation summation_method;
    bool from_logits;        /* AUC takes the sigmoid of predictions; cross-entropies are those of logits */
    double label_smoothing;  /* of cross-entropies: 0 */
    bool multi_label;        /* AUC is the mean of the areas of all classes; y_pred: [batch, classes] */
    double value;            /* of a metric at a value: that of the other one; required */
    int num_classes;         /* of the IoU metrics; required, unless y_pred has a dimension of classes */
    uint64_t target_classes; /* of IoU: bit i is class i, below 53; required, but of BinaryIoU 0: both */
    int ignore_class; /* of the IoU metrics and of those of sparse labels: targets that do not count; 0: none; ISO_ZERO:
                         class 0 */
    /* Of IoU and MeanIoU: a last dimension has a number for each class, and the class is that of the largest. */
    bool dense_y_true, dense_y_pred;
    bool sparse_y_pred; /* of OneHotIoU, OneHotMeanIoU: the predictions are classes */
    iso_average average;
    double beta; /* of FBetaScore: 1 */
    iso_aggregation class_aggregation;
    int num_regressors; /* of R2Score, adjusted for so many independent variables: 0, not adjusted */
} iso_metric_settings;

typedef struct iso_metric_options {
    char begin_;
    iso_metric metric;
    iso_tensor *y_true, *y_pred;
    iso_tensor *weights; /* NULL: each value has weight 1 */
    iso_metric_settings settings;
} iso_metric_options;
/* A metric of one batch: the sum of its values times weights, and the sum of the weights, both scalars. Over
 * several batches it is iso_metric_result of the added sums. Without weights `weight` is NULL, and each row
 * counts as `per_row` values; but precision and recall always have a `weight`, the values that count. Metrics
 * that are no quotient of two sums (AUC, the IoU metrics, F-scores, R2) have several: `sum` is a vector [n] of
 * ISO_F64. */
typedef struct iso_metric_sums {
    iso_tensor *sum, *weight;
    double per_row;
} iso_metric_sums;
ISO_API iso_metric_sums iso_metric_build_with(const iso_metric_options *options, size_t size);
#define iso_metric_build(...) iso_metric_build_with(ISO_OPTIONS(iso_metric_options, __VA_ARGS__))

/* The metric's value. settings: those of iso_metric_build, NULL: defaults; sums: [count], the elements of `sum`
 * added over the batches; weight: those of `weight`, or per_row for each row. Of one sum it is the metric's last
 * step (the root of RootMeanSquaredError), applied once to the mean, sum / weight, with 0 / 0 = 0. NaN: the
 * metric has not so many sums. Local. */
ISO_API double iso_metric_result(iso_metric metric, const iso_metric_settings *settings, const double *sums,
                                 int64_t count, double weight);

#ifdef __cplusplus
}
#endif
#endif
