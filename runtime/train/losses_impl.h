/* Shared by losses and metrics. For runtime/train only. */
#ifndef ISO_TRAIN_LOSSES_IMPL_H
#define ISO_TRAIN_LOSSES_IMPL_H

#include "runtime/graph/layer.h"
#include "runtime/graph/null_tensor.h"
#include "runtime/train/loss.h"

#define LOSS(name, NAME, targets) extern const iso_loss_type iso_loss_##name;
#define METRIC(name, NAME) extern const iso_metric_type iso_metric_##name;
#include "runtime/train/losses/list.h"

#define ISO_LOSS_EPSILON 1e-7 /* keras.config.epsilon() */
enum { ISO_MAX_THRESHOLDS = 1 << 20, ISO_MAX_IOU_CLASSES = 1 << 16 };

/* The setting ignore_class of metrics of sparse labels, which Keras's do not have. */
#define ISO_METRIC_IGNORES                                                                                   \
    {                                                                                                        \
        "ignore_class", ISO_SETTING_INDEX, offsetof(iso_metric_settings, ignore_class), .fallback = 0,       \
                                                                                        .not_keras = true    \
    }

/* Brings targets to the shape and type of the predictions; either may have or lack a last dimension of 1. If
 * they do not fit: false, and an error in the graph that names both shapes. */
bool iso_loss_match(iso_tensor **y_true, iso_tensor **y_pred, const char *what);
/* Brings labels to the shape of the predictions without their last dimension. */
bool iso_loss_match_labels(iso_tensor **y_true, iso_tensor *y_pred, const char *what);
/* The placeholder tensor of a broken graph. */
iso_tensor *iso_loss_bad(iso_tensor *y_pred);
/* Mean and sum over the last dimension, which is removed. */
iso_tensor *iso_loss_mean(iso_tensor *x);
iso_tensor *iso_loss_sum(iso_tensor *x);
/* Clips to [low, high]. */
iso_tensor *iso_loss_clip(iso_tensor *x, double low, double high);
/* Divides probabilities by their sum over the last dimension and clips them. */
iso_tensor *iso_loss_normalise(iso_tensor *p);
/* Targets of which `smoothing` is spread evenly over so many parts. */
iso_tensor *iso_loss_smooth(iso_tensor *t, double smoothing, double parts);
/* The cross-entropy of each fraction, from probabilities, which are clipped. */
iso_tensor *iso_loss_of_fractions(iso_tensor *t, iso_tensor *p);
/* False, and an error in the graph, if a setting of the loss `what` is not `good`; range: "from 0 to 1". */
bool iso_loss_check(iso_tensor *y_pred, const char *what, const char *setting, double value, bool good,
                    const char *range);
bool iso_loss_check_smoothing(iso_tensor *y_pred, double smoothing);
/* Brings weights, [batch] or with more dimensions, to the values' type and to a shape that broadcasts to
 * theirs. */
iso_tensor *iso_loss_fit_weights(iso_tensor *weights, iso_tensor *values);

/* The mean of the values that the mask counts, 0 if it counts none, as in Keras. weights: those of iso_reduce_loss. A
 * mask of another shape than the values is an error in the graph. */
iso_tensor *iso_reduce_masked_loss(iso_tensor *values, iso_tensor *weights, iso_tensor *mask);
/* The weights (NULL: ones), or 0 where the mask does not count. */
iso_tensor *iso_loss_mask_weights(iso_tensor *weights, iso_tensor *mask);

/* The weights (NULL: ones) times those of the classes 0 .. count - 1, in training alone. targets: those of the loss.
 * More classes than there are: an error in the graph. */
iso_tensor *iso_class_weights_apply(iso_tensor *weights, iso_tensor *target, iso_tensor *output,
                                    iso_loss_targets targets, const double *of_classes, int count);
/* ISO_INVALID if weights of classes make no sense. */
iso_status iso_class_weights_check(const double *of_classes, int count, int n_outputs);

/* The loss of each row, by name; an error in the graph if there is no such loss. */
iso_tensor *iso_loss_values(iso_loss loss, iso_tensor *y_true, iso_tensor *y_pred,
                            const iso_output_options *settings);
/* The mask of the targets that count in this loss: those that it does not ignore; NULL: all count. */
iso_tensor *iso_loss_mask(iso_loss loss, iso_tensor *y_true, iso_tensor *y_pred,
                          const iso_output_options *settings);
/* The mask of the labels that are not of the ignored class (as in the options: not 0); *labels gets class 0 in their
 * place. */
iso_tensor *iso_loss_ignore(iso_tensor **labels, int ignore_class);
/* The shape of a row of targets for a row of predictions. */
iso_shape iso_loss_target_shape(iso_loss loss, const iso_shape *prediction);

/* False, and an error in the graph, if the targets are integer labels but the metric needs numbers in the
 * predictions' shape, or distributions; `sparse` is the metric for such labels. */
bool iso_metric_takes_values(const iso_metric_options *options);
bool iso_metric_takes_distributions(const iso_metric_options *options, const iso_metric_type *sparse);
/* The sums of a metric's values, [batch, ...] (NULL: the graph is broken), with or without weights. */
iso_metric_sums iso_metric_sum_values(iso_tensor *values, iso_tensor *weights);
/* A vector of sums [n], ISO_F64, of the elements of these tensors, one after the other. */
iso_tensor *iso_metric_join(iso_tensor *const *sums, int count);
/* Brings weights to a float64 tensor in the values' shape; weights NULL: ones. */
iso_tensor *iso_metric_weights(iso_tensor *weights, iso_tensor *values);
/* 1 in float64 where a condition holds. */
iso_tensor *iso_metric_ones(iso_tensor *condition);
/* A number of x's type. */
iso_tensor *iso_metric_number(iso_tensor *x, double value);
/* x: [...] -> [..., 1] */
iso_tensor *iso_metric_column(iso_tensor *x);
/* Leaves of these tensors [batch, ..., classes] only the class that the settings name, if they name one. False,
 * and an error in the graph: there is no such class. */
bool iso_metric_select_class(const iso_metric_options *options, iso_tensor **const *tensors, int count);
/* a / b, 0 if b is 0. */
double iso_metric_quotient(double a, double b);

#endif
