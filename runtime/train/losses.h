/* Losses and metrics of Keras 3: as graph functions for one's own loops and as names for iso_compile().
 * Functions are local unless their comment says otherwise; every rank makes the same calls. */
#ifndef ISO_TRAIN_LOSSES_H
#define ISO_TRAIN_LOSSES_H

#include "runtime/base/options.h"
#include "runtime/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- losses as functions: the loss of each row (of each position, where predictions have more dimensions)
 * ---- y_pred: [batch, ..., n]; result: [batch, ...]. Probabilities are clipped to [1e-7, 1 - 1e-7]. */

/* y_true: as y_pred */
ISO_API iso_tensor *iso_mean_squared_error(iso_tensor *y_true, iso_tensor *y_pred);
ISO_API iso_tensor *iso_mean_absolute_error(iso_tensor *y_true, iso_tensor *y_pred);
/* delta 0: 1 */
ISO_API iso_tensor *iso_huber(iso_tensor *y_true, iso_tensor *y_pred, double delta);
/* Kullback-Leibler: sum(y_true * log(y_true / y_pred)) over the last dimension; both are clipped to [1e-7, 1].
 * y_true: distributions, as y_pred */
ISO_API iso_tensor *iso_kl_divergence(iso_tensor *y_true, iso_tensor *y_pred);

typedef struct iso_crossentropy_options {
    char begin_;
    iso_tensor *y_true, *y_pred;
    bool from_logits;
    double label_smoothing; /* 0; not of sparse labels */
} iso_crossentropy_options;
/* y_true: classes as integers or integral floats, [batch, ...] or [batch, ..., 1] */
ISO_API iso_tensor *iso_sparse_crossentropy_with(const iso_crossentropy_options *options, size_t size);
/* y_true: distributions, as y_pred */
ISO_API iso_tensor *iso_categorical_crossentropy_with(const iso_crossentropy_options *options, size_t size);
/* y_true: 0 to 1, as y_pred; the mean over the last dimension */
ISO_API iso_tensor *iso_binary_crossentropy_with(const iso_crossentropy_options *options, size_t size);
#define ISO_CROSSENTROPY_(function, ...) function(ISO_OPTIONS(iso_crossentropy_options, __VA_ARGS__))
#define iso_sparse_crossentropy(...) ISO_CROSSENTROPY_(iso_sparse_crossentropy_with, __VA_ARGS__)
#define iso_categorical_crossentropy(...) ISO_CROSSENTROPY_(iso_categorical_crossentropy_with, __VA_ARGS__)
#define iso_binary_crossentropy(...) ISO_CROSSENTROPY_(iso_binary_crossentropy_with, __VA_ARGS__)

/* Keras's reduction "sum_over_batch_size": sum(values * weights) / number of values. weights: NULL, [batch]
 * or what broadcasts to the values. */
ISO_API iso_tensor *iso_reduce_loss(iso_tensor *values, iso_tensor *weights);

/* ---- losses by name ---- */
/* ISO_LOSS_MSE, ...: those of the list. */
typedef enum iso_loss {
    ISO_LOSS_NONE = 0,
#define LOSS(name, NAME, targets) ISO_LOSS_##NAME,
#include "runtime/train/losses/list.h"
    ISO_LOSS_COUNT
} iso_loss;
/* "sparse_crossentropy_logits"; NULL outside the range. */
ISO_API const char *iso_loss_name(iso_loss loss);
/* Takes our names and Keras's ("mean_squared_error", "sparse_categorical_crossentropy"); ISO_INVALID offers
 * the nearest. */
ISO_API iso_status iso_loss_find(const char *name, iso_loss *loss);
/* The targets' part in a batch for a model with this output: element type and shape of a row. */
ISO_API iso_dtype iso_loss_target_dtype(iso_loss loss);

/* ---- metrics: by name for iso_compile(), as functions for one's own loops ---- */
/* ISO_METRIC_MSE, ...: those of the list. ISO_METRIC_ACCURACY is sparse by the loss, else binary where one
 * value is predicted, or categorical. */
typedef enum iso_metric {
    ISO_METRIC_NONE = 0,
#define METRIC(name, NAME) ISO_METRIC_##NAME,
#include "runtime/train/losses/list.h"
    ISO_METRIC_COUNT
} iso_metric;
/* Isogrid's name ("sparse_accuracy") and Keras's ("sparse_categorical_accuracy"); NULL outside the range. */
ISO_API const char *iso_metric_name(iso_metric metric);
ISO_API const char *iso_metric_keras_name(iso_metric metric);
/* What logs and files call it where iso_compile's .metric_names does not say: Keras's name, but "accuracy",
 * "mse" and "mae". */
ISO_API const char *iso_metric_title(iso_metric metric);
ISO_API iso_status iso_metric_find(const char *name, iso_metric *metric);

typedef struct iso_metric_options {
    char begin_;
    iso_metric metric;
    iso_tensor *y_true, *y_pred;
    iso_tensor *weights; /* NULL: each value counts 1 */
    int k;               /* of top-k; 5 */
    double threshold;    /* of binary accuracy; 0.5 */
} iso_metric_options;
/* A metric of one batch: the sum of its values times weights and the sum of the weights, scalars; over
 * several batches it is iso_metric_result of the sums. Without weights `weight` is NULL and every value
 * counts `per_row` times a row. */
typedef struct iso_metric_sums {
    iso_tensor *sum, *weight;
    double per_row;
} iso_metric_sums;
ISO_API iso_metric_sums iso_metric_build_with(const iso_metric_options *options, size_t size);
#define iso_metric_build(...) iso_metric_build_with(ISO_OPTIONS(iso_metric_options, __VA_ARGS__))

/* The metric's value: its last step (the root of RootMeanSquaredError), applied once to the mean, sum /
 * weight. 0 / 0 is 0. Local. */
ISO_API double iso_metric_result(iso_metric metric, double sum, double weight);

#ifdef __cplusplus
}
#endif
#endif
