/* What losses and metrics share. For runtime/train only. */
#ifndef ISO_TRAIN_LOSSES_IMPL_H
#define ISO_TRAIN_LOSSES_IMPL_H

#include "runtime/train/losses.h"

/* Brings targets to the shape and type of the predictions; both may lack, or have, a last dimension of 1.
 * False, and an error in the graph with both shapes, where they do not fit. */
bool iso_loss_match(iso_tensor **y_true, iso_tensor **y_pred, const char *what);
/* Brings labels to the shape of the predictions without their last dimension. */
bool iso_loss_match_labels(iso_tensor **y_true, iso_tensor *y_pred, const char *what);
/* Weights, [batch] or with more dimensions, so that they broadcast to the values, in their type. */
iso_tensor *iso_loss_fit_weights(iso_tensor *weights, iso_tensor *values);

/* A loss with its settings. */
typedef struct iso_loss_settings {
    double label_smoothing, huber_delta;
} iso_loss_settings;
/* The loss of each row, by name; the graph has an error where there is no such loss. */
iso_tensor *iso_loss_values(iso_loss loss, iso_tensor *y_true, iso_tensor *y_pred,
                            const iso_loss_settings *settings);
/* The shape of a row of targets for a row of predictions. */
iso_shape iso_loss_target_shape(iso_loss loss, const iso_shape *prediction);
/* The kind of accuracy that belongs to a loss and predictions of this shape (with the batch); other metrics
 * as they are. */
iso_metric iso_metric_for_loss(iso_metric metric, iso_loss loss, const iso_shape *prediction);

/* The sums of a metric's values, [batch, ...] (NULL: of a broken graph), with weights or without. */
iso_metric_sums iso_metric_sum_values(iso_tensor *values, iso_tensor *weights);

#endif
