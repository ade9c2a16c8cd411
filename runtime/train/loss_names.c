/* Losses by name: the table behind iso_compile and the command line. */
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/base/text.h"
#include "runtime/train/losses_impl.h"

static iso_tensor *mse(iso_tensor *t, iso_tensor *p, const iso_loss_settings *settings)
{
    (void)settings;
    return iso_mean_squared_error(t, p);
}

static iso_tensor *mae(iso_tensor *t, iso_tensor *p, const iso_loss_settings *settings)
{
    (void)settings;
    return iso_mean_absolute_error(t, p);
}

static iso_tensor *huber(iso_tensor *t, iso_tensor *p, const iso_loss_settings *settings)
{
    return iso_huber(t, p, settings->huber_delta);
}

static iso_tensor *sparse(iso_tensor *t, iso_tensor *p, const iso_loss_settings *settings)
{
    return iso_sparse_crossentropy(t, p, false, settings->label_smoothing);
}

static iso_tensor *sparse_logits(iso_tensor *t, iso_tensor *p, const iso_loss_settings *settings)
{
    return iso_sparse_crossentropy(t, p, true, settings->label_smoothing);
}

static iso_tensor *categorical(iso_tensor *t, iso_tensor *p, const iso_loss_settings *settings)
{
    return iso_categorical_crossentropy(t, p, false, settings->label_smoothing);
}

static iso_tensor *categorical_logits(iso_tensor *t, iso_tensor *p, const iso_loss_settings *settings)
{
    return iso_categorical_crossentropy(t, p, true, settings->label_smoothing);
}

static iso_tensor *binary(iso_tensor *t, iso_tensor *p, const iso_loss_settings *settings)
{
    return iso_binary_crossentropy(t, p, false, settings->label_smoothing);
}

static iso_tensor *binary_logits(iso_tensor *t, iso_tensor *p, const iso_loss_settings *settings)
{
    return iso_binary_crossentropy(t, p, true, settings->label_smoothing);
}

typedef struct loss_row {
    const char *name, *keras; /* keras: its name there; the logits have none, they are an argument */
    iso_tensor *(*values)(iso_tensor *t, iso_tensor *p, const iso_loss_settings *settings);
    bool labels; /* targets are classes, one for each distribution that is predicted */
} loss_row;

static const loss_row rows[ISO_LOSS_COUNT] = {
    [ISO_LOSS_MSE] = {"mse", "mean_squared_error", mse, false},
    [ISO_LOSS_MAE] = {"mae", "mean_absolute_error", mae, false},
    [ISO_LOSS_HUBER] = {"huber", "huber_loss", huber, false},
    [ISO_LOSS_SPARSE_CROSSENTROPY] = {"sparse_crossentropy", "sparse_categorical_crossentropy", sparse, true},
    [ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS] = {"sparse_crossentropy_logits",
                                             "sparse_categorical_crossentropy_logits", sparse_logits, true},
    [ISO_LOSS_CROSSENTROPY] = {"crossentropy", "categorical_crossentropy", categorical, false},
    [ISO_LOSS_CROSSENTROPY_LOGITS] = {"crossentropy_logits", "categorical_crossentropy_logits",
                                      categorical_logits, false},
    [ISO_LOSS_BINARY_CROSSENTROPY] = {"binary_crossentropy", "bce", binary, false},
    [ISO_LOSS_BINARY_CROSSENTROPY_LOGITS] = {"binary_crossentropy_logits", "bce_logits", binary_logits,
                                             false},
};

static const loss_row *find(iso_loss loss)
{
    return (int)loss > ISO_LOSS_NONE && (int)loss < ISO_LOSS_COUNT ? &rows[loss] : NULL;
}

const char *iso_loss_name(iso_loss loss)
{
    const loss_row *row = find(loss);
    return row ? row->name : NULL;
}

iso_status iso_loss_find(const char *name, iso_loss *loss)
{
    ISO_NEED(name, loss);
    const char *names[ISO_LOSS_COUNT - 1];
    for (int i = 1; i < ISO_LOSS_COUNT; i++) {
        names[i - 1] = rows[i].name;
        if (strcmp(name, rows[i].name) == 0 || strcmp(name, rows[i].keras) == 0) {
            *loss = (iso_loss)i;
            return ISO_OK;
        }
    }
    iso_text text = {0};
    iso_text_add_nearest(&text, name, names, ISO_LOSS_COUNT - 1);
    iso_status status = iso_error(ISO_INVALID, "unknown loss '%s'%s", name, iso_text_get(&text));
    iso_text_free(&text);
    return status;
}

iso_dtype iso_loss_target_dtype(iso_loss loss)
{
    const loss_row *row = find(loss);
    return row && row->labels ? ISO_I32 : ISO_F32;
}

iso_shape iso_loss_target_shape(iso_loss loss, const iso_shape *prediction)
{
    const loss_row *row = find(loss);
    iso_shape shape = {.rank = prediction->rank - 1};
    for (int i = 0; i < shape.rank; i++)
        shape.dim[i] = prediction->dim[i + 1];
    if (row && row->labels && shape.rank > 0)
        shape.rank--;
    return shape;
}

iso_tensor *iso_loss_values(iso_loss loss, iso_tensor *y_true, iso_tensor *y_pred,
                            const iso_loss_settings *settings)
{
    const loss_row *row = find(loss);
    if (row)
        return row->values(y_true, y_pred, settings);
    iso_graph_fail(iso_tensor_graph(y_pred), "loss %d: there is no such loss", (int)loss);
    return y_pred;
}
