/* The fraction of correct predictions: of classes, of distributions, of binary values. */
#include "runtime/train/losses_impl.h"

static iso_tensor *sparse(const iso_metric_options *o)
{
    iso_tensor *t = o->y_true;
    if (!iso_loss_match_labels(&t, o->y_pred, "sparse accuracy"))
        return NULL;
    return iso_equal(iso_argmax(o->y_pred, -1), t);
}

static iso_tensor *categorical(const iso_metric_options *o)
{
    iso_tensor *t = o->y_true, *p = o->y_pred;
    if (!iso_metric_takes_distributions(o, &iso_metric_sparse_accuracy) ||
        !iso_loss_match(&t, &p, "categorical accuracy"))
        return NULL;
    return iso_equal(iso_argmax(p, -1), iso_argmax(t, -1));
}

static const iso_setting threshold[] = {
    {"threshold", ISO_SETTING_REAL, offsetof(iso_metric_settings, threshold), .fallback = 0.5}, {0}};

static iso_tensor *binary(const iso_metric_options *o)
{
    iso_tensor *t = o->y_true, *p = o->y_pred;
    if (!iso_metric_takes_values(o) || !iso_loss_match(&t, &p, "binary accuracy"))
        return NULL;
    double least = iso_option_number(o->settings.threshold, threshold->fallback);
    iso_tensor *limit = iso_number(iso_tensor_graph(p), iso_tensor_dtype(p), least);
    return iso_equal(iso_cast(iso_greater(p, limit), iso_tensor_dtype(t)), t);
}

/* Chooses as Keras does. */
static iso_metric accuracy_choose(iso_loss loss, const iso_shape *prediction)
{
    if (iso_loss_targets_of(loss) == ISO_LOSS_OF_CLASSES)
        return ISO_METRIC_SPARSE_ACCURACY;
    bool one = prediction->rank > 0 && prediction->dim[prediction->rank - 1] == 1;
    return one ? ISO_METRIC_BINARY_ACCURACY : ISO_METRIC_CATEGORICAL_ACCURACY;
}

const iso_metric_type iso_metric_accuracy = {
    .row.name = "accuracy", .keras_name = "acc", .title = "accuracy", .choose = accuracy_choose};
static const iso_setting ignored[] = {ISO_METRIC_IGNORES, {0}};

const iso_metric_type iso_metric_sparse_accuracy = {
    .row = {"sparse_accuracy", "SparseCategoricalAccuracy", ignored},
    .keras_name = "sparse_categorical_accuracy",
    .build = sparse};
const iso_metric_type iso_metric_categorical_accuracy = {.row.name = "categorical_accuracy",
                                                         .row.keras = "CategoricalAccuracy",
                                                         .keras_name = "categorical_accuracy",
                                                         .build = categorical};
const iso_metric_type iso_metric_binary_accuracy = {.row = {"binary_accuracy", "BinaryAccuracy", threshold},
                                                    .keras_name = "binary_accuracy",
                                                    .build = binary};
