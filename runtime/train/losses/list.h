/* Every loss and every metric, one a line: LOSS(name, NAME) stands for the row iso_loss_name, whose value of
 * the enum iso_loss is ISO_LOSS_NAME; METRIC likewise. Each file of this folder holds the rows of its line or
 * lines. A macro that is not defined leaves its lines out. */
#ifndef LOSS
#define LOSS(name, NAME)
#endif
#ifndef METRIC
#define METRIC(name, NAME)
#endif
// clang-format off

LOSS(mse, MSE)
LOSS(mae, MAE)
LOSS(huber, HUBER)
LOSS(sparse_crossentropy, SPARSE_CROSSENTROPY)
LOSS(sparse_crossentropy_logits, SPARSE_CROSSENTROPY_LOGITS)
LOSS(crossentropy, CROSSENTROPY)
LOSS(crossentropy_logits, CROSSENTROPY_LOGITS)
LOSS(binary_crossentropy, BINARY_CROSSENTROPY)
LOSS(binary_crossentropy_logits, BINARY_CROSSENTROPY_LOGITS)
LOSS(kl_divergence, KL_DIVERGENCE)

METRIC(accuracy, ACCURACY)
METRIC(sparse_accuracy, SPARSE_ACCURACY)
METRIC(categorical_accuracy, CATEGORICAL_ACCURACY)
METRIC(binary_accuracy, BINARY_ACCURACY)
METRIC(sparse_top_k, SPARSE_TOP_K)
METRIC(top_k, TOP_K)
METRIC(mse, MSE)
METRIC(mae, MAE)
METRIC(rmse, RMSE)
METRIC(kl_divergence, KL_DIVERGENCE)

// clang-format on
#undef LOSS
#undef METRIC
