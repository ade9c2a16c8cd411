/* Optimizer, loss and metrics from options. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "launch/train_impl.h"
#include "runtime/graph/optimizers/rule.h"
#include "runtime/train/loss.h"

static bool clips(const iso_train_options *options)
{
    return options->clip_norm >= 0 || options->global_clip_norm >= 0 || options->clip_value >= 0;
}

/* If options do not replace a file's optimizer, it is checked only when the model is compiled: a prediction
 * does not need a supported optimizer. */
static bool replaces_optimizer(const iso_train_options *options)
{
    return options->optimizer || options->learning_rate >= 0 || options->schedule ||
           options->weight_decay >= 0 || clips(options) || options->accumulate ||
           options->ema_momentum >= 0 || options->ema_overwrite_frequency;
}

static iso_status set_average(const iso_train_options *options, iso_optimizer *optimizer)
{
    if (options->ema_momentum >= 0) {
        optimizer->use_ema = true;
        optimizer->ema_momentum = options->ema_momentum;
    }
    if (options->ema_overwrite_frequency && !optimizer->use_ema)
        return iso_error(ISO_INVALID,
                         "--ema-overwrite-frequency needs --ema-momentum: there are no averages");
    if (options->ema_overwrite_frequency)
        optimizer->ema_overwrite_frequency = (int)options->ema_overwrite_frequency;
    if (options->swap_ema_weights && !optimizer->use_ema)
        return iso_error(ISO_INVALID, "--swap-ema-weights needs --ema-momentum: there are no averages");
    return ISO_OK;
}

static iso_status make_optimizer(const iso_train_options *options, iso_optimizer *result)
{
    iso_optimizer optimizer = *result;
    iso_status status = ISO_OK;
    if (options->optimizer)
        ISO_TRY(iso_optimizer_find(options->optimizer, &optimizer));
    if (options->learning_rate >= 0) {
        optimizer.learning_rate = options->learning_rate;
        optimizer.schedule = (iso_schedule){.kind = ISO_SCHEDULE_CONSTANT};
    }
    if (options->schedule) {
        optimizer.schedule = options->decay;
        optimizer.schedule.initial = optimizer.learning_rate;
        optimizer.schedule.value[0] = optimizer.learning_rate;
    }
    if (options->weight_decay >= 0)
        optimizer.weight_decay = options->weight_decay;
    if (clips(options)) {
        optimizer.clip_norm = fmax(options->clip_norm, 0);
        optimizer.global_clip_norm = fmax(options->global_clip_norm, 0);
        optimizer.clip_value = fmax(options->clip_value, 0);
    }
    if (options->accumulate)
        optimizer.accumulation = (int)options->accumulate;
    ISO_TRY(set_average(options, &optimizer));
    if (replaces_optimizer(options)) {
        ISO_TRY(iso_compile_options_check_optimizer(&(iso_compile_options){.optimizer = optimizer}));
        ISO_TRY(iso_optimizer_check(&optimizer));
    }
    *result = optimizer;
done:
    return status;
}

/* One loss for every output, without settings of another loss. */
static iso_status replace_loss(const char *text, iso_compile_options *compile)
{
    iso_output_options common = iso_compile_common(compile);
    iso_status status = iso_loss_parse(text, &common);
    if (status != ISO_OK)
        return status;
    iso_compile_set_common(compile, &common);
    for (int i = 0; i < ISO_MAX_MODEL_OUTPUTS; i++) {
        compile->outputs[i].loss = ISO_LOSS_NONE;
        iso_loss_reset_settings(&compile->outputs[i]);
    }
    return ISO_OK;
}

/* What takes the place of a model's own metric when --loss has other targets. An accuracy is for classes and for the
 * fractions of other crossentropies, not for other values. A binary accuracy and a mean absolute error, those of
 * folders with several labels or numbers, need targets in the predictions' shape: classes have an accuracy. */
static iso_metric fitted(iso_metric metric, iso_loss_targets targets)
{
    const bool of_values = metric == ISO_METRIC_BINARY_ACCURACY || metric == ISO_METRIC_MAE;
    if (targets == ISO_LOSS_OF_CLASSES)
        return of_values ? ISO_METRIC_ACCURACY : metric;
    return targets == ISO_LOSS_OF_VALUES && metric == ISO_METRIC_ACCURACY ? ISO_METRIC_NONE : metric;
}

static bool has_metric(const iso_compile_options *compile, int count, iso_metric metric)
{
    for (int i = 0; i < count; i++)
        if (compile->metrics[i] == metric)
            return true;
    return false;
}

/* Replaces the model's own metrics by those that fit the loss. One that the model has itself is not added. */
static void fit_metrics(iso_compile_options *compile)
{
    const iso_compile_options own = *compile;
    const iso_loss_targets targets = iso_loss_targets_of(compile->loss);
    int kept = 0;
    for (int i = 0; i < ISO_MAX_METRICS; i++) {
        const iso_metric metric = fitted(own.metrics[i], targets);
        const bool same = metric == own.metrics[i];
        compile->metrics[i] = ISO_METRIC_NONE;
        if (metric == ISO_METRIC_NONE ||
            (!same && (has_metric(&own, ISO_MAX_METRICS, metric) || has_metric(compile, kept, metric))))
            continue;
        compile->metrics[kept] = metric;
        compile->metric_names[kept] = same ? own.metric_names[i] : NULL;
        compile->metric_settings[kept++] = same ? own.metric_settings[i] : (iso_metric_settings){0};
    }
}

static void remove_metrics(iso_output_options *output)
{
    memset(output->metrics, 0, sizeof output->metrics);
    memset(output->weighted_metrics, 0, sizeof output->weighted_metrics);
    memset(output->metric_names, 0, sizeof output->metric_names);
    memset(output->weighted_metric_names, 0, sizeof output->weighted_metric_names);
    memset(output->metric_settings, 0, sizeof output->metric_settings);
    memset(output->weighted_metric_settings, 0, sizeof output->weighted_metric_settings);
}

/* These metrics for every output, without settings of other metrics. */
static iso_status replace_metrics(const char *text, iso_compile_options *compile)
{
    iso_output_options common = iso_compile_common(compile);
    remove_metrics(&common);
    compile->sample_weights = false; /* the data may still have some */
    iso_compile_set_common(compile, &common);
    for (int i = 0; i < ISO_MAX_MODEL_OUTPUTS; i++)
        remove_metrics(&compile->outputs[i]);
    return strcmp(text, "none") == 0
               ? ISO_OK
               : iso_metrics_parse(text, compile->metrics, compile->metric_names, compile->metric_settings);
}

iso_status iso_compile_options_check(const iso_train_options *options, const iso_compile_options *compile)
{
    bool loss = compile->loss != ISO_LOSS_NONE || compile->loss_function;
    for (int i = 0; i < ISO_MAX_MODEL_OUTPUTS; i++)
        loss = loss || compile->outputs[i].loss != ISO_LOSS_NONE || compile->outputs[i].loss_function;
    return loss ? ISO_OK : iso_error(ISO_INVALID, "--loss is missing: '%s' names no loss", options->model);
}

iso_status iso_compile_options_check_optimizer(const iso_compile_options *compile)
{
    const char *rule = compile->optimizer.rule;
    iso_text names = {0};
    if (!rule || iso_optimizer_rule_find(rule))
        return ISO_OK;
    if (rule[strlen(rule) - 1] == ')') /* it has a reason, which is not its class */
        return iso_error(ISO_INVALID, "--optimizer is missing: the optimizer %s is not supported", rule);
    iso_descriptor_add_names(iso_optimizer_rows, false, &names);
    iso_status status =
        iso_error(ISO_INVALID, "--optimizer is missing: the optimizer %s is not supported; there are: %s",
                  rule, iso_text_get(&names));
    iso_text_free(&names);
    return status;
}

iso_status iso_compile_options_replace(const iso_train_options *options, iso_compile_options *compile)
{
    iso_compile_options replaced = *compile;
    iso_status status;
    ISO_TRY(make_optimizer(options, &replaced.optimizer));
    if (options->loss)
        ISO_TRY(replace_loss(options->loss, &replaced));
    if (options->loss && !options->metrics)
        fit_metrics(&replaced);
    if (options->metrics)
        ISO_TRY(replace_metrics(options->metrics, &replaced));
    replaced.class_weights = options->n_class_weights ? options->class_weights : NULL;
    replaced.n_class_weights = options->n_class_weights;
    *compile = replaced;
done:
    return status;
}
