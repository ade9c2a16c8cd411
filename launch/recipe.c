/* Optimizer, loss and metrics from options. */
#include <stdio.h>
#include <string.h>

#include "launch/train_impl.h"

static iso_status make_optimizer(const iso_builtin_model *model, const iso_train_options *options,
                                 iso_optimizer *result)
{
    iso_optimizer optimizer = model->optimizer();
    iso_status status = ISO_OK;
    if (options->optimizer)
        ISO_TRY(iso_optimizer_find(options->optimizer, &optimizer));
    if (options->learning_rate >= 0)
        optimizer.learning_rate = options->learning_rate;
    if (options->schedule) {
        optimizer.schedule = options->decay;
        optimizer.schedule.initial = optimizer.learning_rate;
        optimizer.schedule.value[0] = optimizer.learning_rate;
    }
    if (options->weight_decay >= 0)
        optimizer.weight_decay = options->weight_decay;
    optimizer.clip_norm = options->clip_norm;
    optimizer.global_clip_norm = options->global_clip_norm;
    optimizer.clip_value = options->clip_value;
    ISO_TRY(iso_optimizer_check(&optimizer));
    *result = optimizer;
done:
    return status;
}

/* "accuracy,mse" */
static iso_status read_metrics(const char *text, iso_metric *metrics)
{
    char name[64];
    int count = 0;
    for (const char *at = text; *at;) {
        size_t length = strcspn(at, ",");
        if (count == ISO_MAX_METRICS)
            return iso_error(ISO_INVALID, "--metrics '%s': more than %d", text, ISO_MAX_METRICS);
        snprintf(name, sizeof name, "%.*s", (int)length, at);
        iso_status status = iso_metric_find(name, &metrics[count++]);
        if (status != ISO_OK)
            return iso_error_prefix(status, "--metrics '%s': ", text);
        at += length + (at[length] == ',');
    }
    return ISO_OK;
}

iso_status iso_recipe_make(const iso_builtin_model *model, const iso_train_options *options,
                           iso_recipe *recipe)
{
    iso_recipe made = {.loss = model->loss};
    iso_status status;
    ISO_TRY(make_optimizer(model, options, &made.optimizer));
    if (options->loss) {
        status = iso_loss_find(options->loss, &made.loss);
        if (status != ISO_OK)
            return iso_error_prefix(status, "--loss '%s': ", options->loss);
    }
    if (!options->metrics)
        memcpy(made.metrics, model->metrics, sizeof made.metrics);
    else if (strcmp(options->metrics, "none") != 0)
        ISO_TRY(read_metrics(options->metrics, made.metrics));
    *recipe = made;
done:
    return status;
}
