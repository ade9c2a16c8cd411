/* Writes the compile settings of a model in Keras's format: keras/src/optimizers, losses, metrics of Keras 3.15.
 */
#include <string.h>

#include "models/keras/writer_impl.h"
#include "runtime/base/log.h"
#include "runtime/graph/optimizers/rule.h"
#include "runtime/graph/schedules/rule.h"
#include "runtime/session/session.h"
#include "runtime/train/loss.h"

/* ---- optimizers ---- */

static json_t *number_or_null(double value)
{
    return value != 0 ? json_real(value) : json_null();
}

static json_t *piecewise(const iso_schedule *schedule)
{
    json_t *boundaries = json_array(), *values = json_array();
    for (int i = 0; i < schedule->n_boundaries; i++)
        json_array_append_new(boundaries, json_integer(schedule->boundaries[i]));
    for (int i = 0; i <= schedule->n_boundaries; i++)
        json_array_append_new(values, json_real(schedule->value[i]));
    return json_pack("{s: o, s: o}", "boundaries", boundaries, "values", values);
}

static json_t *schedule_json(const iso_schedule *schedule)
{
    const iso_schedule_rule *rule = iso_schedule_rule_of(schedule);
    json_t *config = rule->piecewise ? piecewise(schedule) : json_object();
    for (const iso_setting *s = rule->row.setting; s && s->name; s++)
        json_object_set_new(config, s->name, iso_setting_json(s, iso_setting_get(s, schedule)));
    json_object_set_new(config, "name", json_string(rule->titled ? rule->titled : rule->row.keras));
    return iso_keras_object("keras.optimizers.schedules", rule->row.keras, config);
}

static json_t *common_settings(const iso_optimizer *o, const iso_optimizer_rule *rule)
{
    char name[64];
    iso_text_snake_case(rule->row.keras, name, sizeof name);
    json_t *rate =
        o->schedule.kind == ISO_SCHEDULE_CONSTANT ? json_real(o->learning_rate) : schedule_json(&o->schedule);
    /* a number is required if the default is not 0 */
    json_t *decay = rule->weight_decay != 0 ? json_real(o->weight_decay) : number_or_null(o->weight_decay);
    return json_pack("{s: s, s: o, s: o, s: o, s: o, s: o, s: b, s: f, s: o, s: o, s: o}", "name", name,
                     "learning_rate", rate, "weight_decay", decay, "clipnorm", number_or_null(o->clip_norm),
                     "global_clipnorm", number_or_null(o->global_clip_norm), "clipvalue",
                     number_or_null(o->clip_value), "use_ema", o->use_ema, "ema_momentum",
                     o->use_ema ? o->ema_momentum : 0.99, "ema_overwrite_frequency",
                     o->ema_overwrite_frequency ? json_integer(o->ema_overwrite_frequency) : json_null(),
                     "loss_scale_factor", number_or_null(o->loss_scale_factor), "gradient_accumulation_steps",
                     o->accumulation > 1 ? json_integer(o->accumulation) : json_null());
}

static json_t *optimizer_json(const iso_optimizer *optimizer)
{
    const iso_optimizer_rule *rule = iso_optimizer_rule_find(optimizer->rule);
    const iso_setting *own = rule->row.setting;
    json_t *config = common_settings(optimizer, rule);
    for (int i = 0; config && own[i].name; i++)
        json_object_set_new(config, iso_setting_keras(&own[i]),
                            iso_setting_json(&own[i], optimizer->hyper[i]));
    if (config && rule->empty_list)
        json_object_set_new(config, rule->empty_list, json_array());
    return iso_keras_object("keras.optimizers", rule->row.keras, config);
}

/* ---- losses and metrics ---- */

/* The settings of a row, or their defaults. */
static void add_settings(json_t *config, const iso_setting *own, const void *values)
{
    for (; own && own->name; own++)
        if (!own->not_keras)
            json_object_set_new(config, iso_setting_keras(own),
                                iso_setting_json(own, iso_setting_option(own, values)));
}

static json_t *loss_json(iso_model *model, int index)
{
    const iso_output_options *output = iso_model_compiled_output(model, index);
    const iso_loss_type *type = iso_loss_type_of(output->loss);
    if (!type)
        return json_null();
    json_t *config = json_pack("{s: s, s: s}", "name", type->saved, "reduction", "sum_over_batch_size");
    if (type->logits)
        json_object_set_new(config, "from_logits", json_boolean(type->logits == type));
    add_settings(config, type->row.setting, output);
    return iso_keras_object("keras.losses", type->row.keras, config);
}

/* name NULL: the default one. */
static json_t *metric_json(iso_metric metric, const char *name, const iso_metric_settings *settings,
                           iso_dtype precision)
{
    const iso_metric_type *type = iso_metric_type_of(metric);
    if (!type)
        return NULL;
    if (!type->row.keras) { /* Keras selects the class by this name */
        const char *known = name ? iso_metric_spelling(metric, name) : NULL;
        return json_string(known ? known : iso_metric_title(metric));
    }
    json_t *config = json_pack("{s: s, s: s}", "name", name ? name : iso_metric_title(metric), "dtype",
                               type->whole_weights ? "int" : iso_dtype_name(precision));
    add_settings(config, type->row.setting, settings);
    return iso_keras_object("keras.metrics", type->row.keras, config);
}

static json_t *metric_list(const iso_metric *list, const char *const *names,
                           const iso_metric_settings *settings, iso_dtype precision)
{
    json_t *out = json_array();
    for (int i = 0; i < ISO_MAX_METRICS && list[i] != ISO_METRIC_NONE; i++) {
        json_t *metric = metric_json(list[i], names[i], &settings[i], precision);
        if (metric)
            json_array_append_new(out, metric);
    }
    return out;
}

/* ---- all of it ---- */

/* Whether one of the metrics has a setting that Keras's does not have. */
static bool has_own_settings(const iso_metric *list, const iso_metric_settings *settings)
{
    for (int i = 0; i < ISO_MAX_METRICS && list[i] != ISO_METRIC_NONE; i++)
        for (const iso_setting *s = iso_metric_type_of(list[i])->row.setting; s && s->name; s++)
            if (s->not_keras && iso_setting_get(s, &settings[i]) != 0)
                return true;
    return false;
}

void iso_keras_warn_of_settings(iso_model *model)
{
    iso_context *ctx = iso_graph_context(iso_model_graph(model));
    bool own = false;
    for (int i = 0; iso_model_optimizer(model) && i < iso_model_output_count(model); i++) {
        const iso_output_options *o = iso_model_compiled_output(model, i);
        own = own || has_own_settings(o->metrics, o->metric_settings) ||
              has_own_settings(o->weighted_metrics, o->weighted_metric_settings);
    }
    if (own && ctx && iso_is_chief(ctx))
        iso_warn("Keras's metrics of sparse labels have no ignore_class: it is omitted, and they count all "
                 "labels");
}

void iso_keras_warn_of_functions(iso_model *model)
{
    iso_context *ctx = iso_graph_context(iso_model_graph(model));
    bool loss = false, metric = false;
    for (int i = 0; iso_model_optimizer(model) && i < iso_model_output_count(model); i++) {
        const iso_output_options *output = iso_model_compiled_output(model, i);
        loss = loss || output->loss_function;
        metric = metric || output->custom_metrics[0].function;
    }
    if ((loss || metric) && ctx && iso_is_chief(ctx))
        iso_warn("Keras's files cannot hold functions of the program: %s omitted",
                 loss ? "a loss is" : "metrics are");
}

bool iso_keras_are_keys(const char *const *key, int count)
{
    bool keys = true;
    for (int i = 0; i < count; i++)
        keys = keys && key[i] && (i == 0 || strcmp(key[i - 1], key[i]) < 0);
    return keys;
}

bool iso_keras_outputs_have_keys(iso_model *model)
{
    const char *key[ISO_MAX_MODEL_OUTPUTS];
    int count = iso_model_output_count(model);
    for (int i = 0; i < count; i++)
        key[i] = iso_model_output_has_name(model, i) ? iso_model_output_name(model, i) : NULL;
    return iso_keras_are_keys(key, count);
}

static json_t *for_each_key(iso_model *model, json_t *(*of)(iso_model *model, int output))
{
    json_t *object = json_object();
    for (int i = 0; i < iso_model_output_count(model); i++)
        json_object_set_new(object, iso_model_output_name(model, i), of(model, i));
    return object;
}

/* One value for each output, by its key if it has one; with one output the value itself. */
static json_t *for_each_output(iso_model *model, json_t *(*of)(iso_model *model, int output))
{
    int count = iso_model_output_count(model);
    if (iso_keras_outputs_have_keys(model))
        return for_each_key(model, of);
    if (count == 1)
        return of(model, 0);
    json_t *list = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(list, of(model, i));
    return list;
}

static json_t *weight_of(iso_model *model, int output)
{
    return json_real(iso_model_compiled_output(model, output)->loss_weight);
}

static iso_dtype precision_of(iso_model *model)
{
    return iso_graph_precision(iso_model_graph(model));
}

static json_t *metrics_of(iso_model *model, int index)
{
    const iso_output_options *output = iso_model_compiled_output(model, index);
    return metric_list(output->metrics, output->metric_names, output->metric_settings, precision_of(model));
}

static json_t *weighted_metrics_of(iso_model *model, int index)
{
    const iso_output_options *output = iso_model_compiled_output(model, index);
    return metric_list(output->weighted_metrics, output->weighted_metric_names,
                       output->weighted_metric_settings, precision_of(model));
}

static bool weighs(iso_model *model)
{
    for (int i = 0; i < iso_model_output_count(model); i++)
        if (iso_model_compiled_output(model, i)->loss_weight != 1)
            return true;
    return false;
}

json_t *iso_keras_compile_config(iso_model *model)
{
    return json_pack("{s: o, s: o, s: o, s: o, s: o, s: b, s: i, s: s}", "optimizer",
                     optimizer_json(iso_model_optimizer(model)), "loss", for_each_output(model, loss_json),
                     "loss_weights", weighs(model) ? for_each_output(model, weight_of) : json_null(),
                     "metrics", for_each_output(model, metrics_of), "weighted_metrics",
                     for_each_output(model, weighted_metrics_of), "run_eagerly", 0, "steps_per_execution", 1,
                     "jit_compile", "auto");
}
