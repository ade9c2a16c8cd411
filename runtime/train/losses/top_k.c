/* The fraction of rows whose true class is among the k most likely. */
#include "runtime/train/losses_impl.h"

#define TOP                                                                                                  \
    {                                                                                                        \
        "k", ISO_SETTING_INT, offsetof(iso_metric_settings, top_k), .fallback = 5                            \
    }
static const iso_setting top[] = {TOP, {0}};
static const iso_setting of_sparse[] = {TOP, ISO_METRIC_IGNORES, {0}};

/* Whether fewer than k predictions are larger than the label's. y_pred: [batch, ..., classes], labels:
 * [batch, ...] */
static iso_tensor *among_the_largest(iso_tensor *labels, iso_tensor *y_pred, int k)
{
    k = k ? k : (int)top->fallback;
    if (k <= 0) {
        iso_graph_fail(iso_tensor_graph(y_pred), "top-k: k is %d, it must be positive", k);
        return NULL;
    }
    return iso_in_top_k(y_pred, labels, k);
}

static iso_tensor *sparse(const iso_metric_options *o)
{
    iso_tensor *t = o->y_true;
    if (!iso_loss_match_labels(&t, o->y_pred, "sparse top-k"))
        return NULL;
    return among_the_largest(t, o->y_pred, o->settings.top_k);
}

static iso_tensor *categorical(const iso_metric_options *o)
{
    iso_tensor *t = o->y_true, *p = o->y_pred;
    if (!iso_metric_takes_distributions(o, &iso_metric_sparse_top_k) || !iso_loss_match(&t, &p, "top-k"))
        return NULL;
    return among_the_largest(iso_argmax(t, -1), p, o->settings.top_k);
}

const iso_metric_type iso_metric_sparse_top_k = {
    .row = {"sparse_top_k", "SparseTopKCategoricalAccuracy", of_sparse},
    .keras_name = "sparse_top_k_categorical_accuracy",
    .build = sparse};
const iso_metric_type iso_metric_top_k = {.row = {"top_k", "TopKCategoricalAccuracy", top},
                                          .keras_name = "top_k_categorical_accuracy",
                                          .build = categorical};
