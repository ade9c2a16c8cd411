/* Every loss and every metric, one per line. LOSS(name, NAME, targets) is the loss "name" with its row
 * iso_loss_name and its value ISO_LOSS_NAME of the enum iso_loss; METRIC(name, NAME) likewise.
 *
 * The targets of a loss are VALUES (any numbers) or FRACTIONS (from 0 to 1), both in the predictions' shape,
 * or CLASSES (an integer for each predicted distribution). The rows are in the files of this folder. A macro
 * that is not defined skips its lines. */
#ifndef LOSS
#define LOSS(name, NAME, targets)
#endif
#ifndef METRIC
#define METRIC(name, NAME)
#endif
// clang-format off

LOSS(mse, MSE, VALUES)
LOSS(mae, MAE, VALUES)
LOSS(huber, HUBER, VALUES)
LOSS(sparse_crossentropy, SPARSE_CROSSENTROPY, CLASSES)
LOSS(sparse_crossentropy_logits, SPARSE_CROSSENTROPY_LOGITS, CLASSES)
LOSS(crossentropy, CROSSENTROPY, FRACTIONS)
LOSS(crossentropy_logits, CROSSENTROPY_LOGITS, FRACTIONS)
LOSS(binary_crossentropy, BINARY_CROSSENTROPY, FRACTIONS)
LOSS(binary_crossentropy_logits, BINARY_CROSSENTROPY_LOGITS, FRACTIONS)
LOSS(kl_divergence, KL_DIVERGENCE, FRACTIONS)
LOSS(mape, MAPE, VALUES)
LOSS(msle, MSLE, VALUES)
LOSS(log_cosh, LOG_COSH, VALUES)
LOSS(poisson, POISSON, VALUES)
LOSS(cosine_similarity, COSINE_SIMILARITY, VALUES)
LOSS(hinge, HINGE, VALUES)
LOSS(squared_hinge, SQUARED_HINGE, VALUES)
LOSS(categorical_hinge, CATEGORICAL_HINGE, FRACTIONS)
LOSS(binary_focal_crossentropy, BINARY_FOCAL_CROSSENTROPY, FRACTIONS)
LOSS(binary_focal_crossentropy_logits, BINARY_FOCAL_CROSSENTROPY_LOGITS, FRACTIONS)
LOSS(categorical_focal_crossentropy, CATEGORICAL_FOCAL_CROSSENTROPY, FRACTIONS)
LOSS(categorical_focal_crossentropy_logits, CATEGORICAL_FOCAL_CROSSENTROPY_LOGITS, FRACTIONS)
LOSS(categorical_generalized_cross_entropy, CATEGORICAL_GENERALIZED_CROSS_ENTROPY, CLASSES)
LOSS(dice, DICE, FRACTIONS)
LOSS(tversky, TVERSKY, FRACTIONS)

METRIC(accuracy, ACCURACY)
METRIC(sparse_accuracy, SPARSE_ACCURACY)
METRIC(categorical_accuracy, CATEGORICAL_ACCURACY)
METRIC(binary_accuracy, BINARY_ACCURACY)
METRIC(sparse_top_k, SPARSE_TOP_K)
METRIC(top_k, TOP_K)
METRIC(mse, MSE)
METRIC(mae, MAE)
METRIC(rmse, RMSE)
METRIC(mape, MAPE)
METRIC(msle, MSLE)
METRIC(logcosh, LOGCOSH)
METRIC(poisson, POISSON)
METRIC(cosine_similarity, COSINE_SIMILARITY)
METRIC(hinge, HINGE)
METRIC(squared_hinge, SQUARED_HINGE)
METRIC(categorical_hinge, CATEGORICAL_HINGE)
METRIC(kl_divergence, KL_DIVERGENCE)
METRIC(sparse_crossentropy, SPARSE_CROSSENTROPY)
METRIC(crossentropy, CROSSENTROPY)
METRIC(binary_crossentropy, BINARY_CROSSENTROPY)
METRIC(precision, PRECISION)
METRIC(recall, RECALL)
METRIC(true_positives, TRUE_POSITIVES)
METRIC(true_negatives, TRUE_NEGATIVES)
METRIC(false_positives, FALSE_POSITIVES)
METRIC(false_negatives, FALSE_NEGATIVES)
METRIC(auc, AUC)
METRIC(sensitivity_at_specificity, SENSITIVITY_AT_SPECIFICITY)
METRIC(specificity_at_sensitivity, SPECIFICITY_AT_SENSITIVITY)
METRIC(precision_at_recall, PRECISION_AT_RECALL)
METRIC(recall_at_precision, RECALL_AT_PRECISION)
METRIC(iou, IOU)
METRIC(binary_iou, BINARY_IOU)
METRIC(mean_iou, MEAN_IOU)
METRIC(one_hot_iou, ONE_HOT_IOU)
METRIC(one_hot_mean_iou, ONE_HOT_MEAN_IOU)
METRIC(f1_score, F1_SCORE)
METRIC(fbeta_score, FBETA_SCORE)
METRIC(r2_score, R2_SCORE)
METRIC(pearson_correlation, PEARSON_CORRELATION)
METRIC(concordance_correlation, CONCORDANCE_CORRELATION)

// clang-format on
#undef LOSS
#undef METRIC
