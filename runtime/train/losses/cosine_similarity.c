/* The cosine of the angle between targets and predictions; its negative is the loss. */
#include "runtime/train/losses_impl.h"

/* x / max(|x|, epsilon) along the last dimension. The gradient at x = 0 is finite; Keras's is NaN. */
static iso_tensor *unit(iso_tensor *x)
{
    iso_tensor *squares = iso_reduce_sum(iso_square(x), (const int[]){-1}, 1, true);
    iso_tensor *least = iso_metric_number(x, ISO_LOSS_EPSILON * ISO_LOSS_EPSILON);
    return iso_multiply(x, iso_rsqrt(iso_maximum(squares, least)));
}

static iso_tensor *cosine(iso_tensor *y_true, iso_tensor *y_pred)
{
    if (!iso_loss_match(&y_true, &y_pred, "cosine similarity"))
        return iso_loss_bad(y_pred);
    return iso_loss_sum(iso_multiply(unit(y_true), unit(y_pred)));
}

iso_tensor *iso_cosine_similarity(iso_tensor *y_true, iso_tensor *y_pred)
{
    ISO_NEED_TENSORS(y_true, y_pred);
    return iso_negate(cosine(y_true, y_pred));
}

#define NAMES .row.name = "cosine_similarity", .row.keras = "CosineSimilarity"

const iso_loss_type iso_loss_cosine_similarity = {NAMES, .saved = "cosine_similarity",
                                                  .function = iso_cosine_similarity};
const iso_metric_type iso_metric_cosine_similarity = {NAMES, .keras_name = "cosine_similarity",
                                                      .function = cosine};
