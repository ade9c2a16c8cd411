/* What a model is compiled with, in Keras's words: keras/src/optimizers, losses, metrics of Keras 3.15. */
#include <string.h>

#include "models/keras/writer_impl.h"
#include "runtime/base/log.h"
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
    return json_pack("{s: o, s: o, s: s}", "boundaries", boundaries, "values", values, "name",
                     "PiecewiseConstant");
}

static json_t *schedule_json(const iso_schedule *s)
{
    static const char module[] = "keras.optimizers.schedules";
    if (s->kind == ISO_SCHEDULE_EXPONENTIAL)
        return iso_keras_object(module, "ExponentialDecay",
                                json_pack("{s: f, s: I, s: f, s: b, s: s}", "initial_learning_rate",
                                          s->initial, "decay_steps", (json_int_t)s->decay_steps, "decay_rate",
                                          s->rate, "staircase", s->staircase, "name", "ExponentialDecay"));
    if (s->kind == ISO_SCHEDULE_PIECEWISE)
        return iso_keras_object(module, "PiecewiseConstantDecay", piecewise(s));
    return iso_keras_object(module, "CosineDecay",
                            json_pack("{s: f, s: I, s: f, s: s, s: o, s: I}", "initial_learning_rate",
                                      s->initial, "decay_steps", (json_int_t)s->decay_steps, "alpha",
                                      s->alpha, "name", "CosineDecay", "warmup_target",
                                      s->warmup_steps ? json_real(s->warmup_target) : json_null(),
                                      "warmup_steps", (json_int_t)s->warmup_steps));
}

/* A rule's own settings: their names in Keras and places in `hyper`. */
typedef struct setting {
    const char *name;
    int place;
    bool flag;
} setting;

static const struct {
    const char *rule, *type, *name;
    setting own[5];
} optimizers[] = {
    {"sgd", "SGD", "sgd", {{"momentum", ISO_SGD_MOMENTUM, false}, {"nesterov", ISO_SGD_NESTEROV, true}}},
    {"rmsprop",
     "RMSprop",
     "rm_sprop",
     {{"rho", ISO_RMSPROP_RHO, false},
      {"momentum", ISO_RMSPROP_MOMENTUM, false},
      {"epsilon", ISO_RMSPROP_EPSILON, false},
      {"centered", ISO_RMSPROP_CENTERED, true}}},
    {"adam",
     "Adam",
     "adam",
     {{"beta_1", ISO_ADAM_BETA_1, false},
      {"beta_2", ISO_ADAM_BETA_2, false},
      {"epsilon", ISO_ADAM_EPSILON, false},
      {"amsgrad", ISO_ADAM_AMSGRAD, true}}},
    {"adamw",
     "AdamW",
     "adam_w",
     {{"beta_1", ISO_ADAM_BETA_1, false},
      {"beta_2", ISO_ADAM_BETA_2, false},
      {"epsilon", ISO_ADAM_EPSILON, false},
      {"amsgrad", ISO_ADAM_AMSGRAD, true}}},
    {"adagrad",
     "Adagrad",
     "adagrad",
     {{"initial_accumulator_value", ISO_ADAGRAD_INITIAL, false}, {"epsilon", ISO_ADAGRAD_EPSILON, false}}},
};

static json_t *common_settings(const iso_optimizer *o, const char *name)
{
    json_t *rate =
        o->schedule.kind == ISO_SCHEDULE_CONSTANT ? json_real(o->learning_rate) : schedule_json(&o->schedule);
    /* AdamW must have a number */
    json_t *decay =
        strcmp(o->rule, "adamw") == 0 ? json_real(o->weight_decay) : number_or_null(o->weight_decay);
    return json_pack("{s: s, s: o, s: o, s: o, s: o, s: o, s: b, s: f, s: n, s: n, s: o}", "name", name,
                     "learning_rate", rate, "weight_decay", decay, "clipnorm", number_or_null(o->clip_norm),
                     "global_clipnorm", number_or_null(o->global_clip_norm), "clipvalue",
                     number_or_null(o->clip_value), "use_ema", 0, "ema_momentum", 0.99,
                     "ema_overwrite_frequency", "loss_scale_factor", "gradient_accumulation_steps",
                     o->accumulation > 1 ? json_integer(o->accumulation) : json_null());
}

static json_t *optimizer_json(const iso_optimizer *optimizer)
{
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
        if (strcmp(optimizers[i].rule, optimizer->rule) != 0)
            continue;
        json_t *config = common_settings(optimizer, optimizers[i].name);
        for (const setting *own = optimizers[i].own; config && own->name; own++)
            json_object_set_new(config, own->name,
                                own->flag ? json_boolean(optimizer->hyper[own->place] != 0)
                                          : json_real(optimizer->hyper[own->place]));
        return iso_keras_object("keras.optimizers", optimizers[i].type, config);
    }
    return NULL;
}

/* ---- losses and metrics ---- */

/* The settings of a row, and where they are not set their defaults. */
static void add_settings(json_t *config, const iso_setting *own, const iso_output_options *output)
{
    for (; own && own->name; own++) {
        double value = iso_setting_option(own, output);
        json_object_set_new(config, iso_setting_keras(own),
                            own->kind == ISO_SETTING_INT ? json_integer((json_int_t)value)
                                                         : json_real(value));
    }
}

static json_t *loss_json(const iso_output_options *output)
{
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
static json_t *metric_json(iso_metric metric, const char *name, const iso_output_options *output)
{
    const iso_metric_type *type = iso_metric_type_of(metric);
    if (!type)
        return NULL;
    if (!type->row.keras) { /* by its names alone Keras chooses one */
        const char *known = name ? iso_metric_spelling(metric, name) : NULL;
        return json_string(known ? known : iso_metric_title(metric));
    }
    json_t *config =
        json_pack("{s: s, s: s}", "name", name ? name : iso_metric_title(metric), "dtype", "float32");
    add_settings(config, type->row.setting, output);
    return iso_keras_object("keras.metrics", type->row.keras, config);
}

static json_t *metric_list(const iso_metric *list, const char *const *names, const iso_output_options *output)
{
    json_t *out = json_array();
    for (int i = 0; i < ISO_MAX_METRICS && list[i] != ISO_METRIC_NONE; i++) {
        json_t *metric = metric_json(list[i], names ? names[i] : NULL, output);
        if (metric)
            json_array_append_new(out, metric);
    }
    return out;
}

/* ---- all of it ---- */

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
        iso_warn("Keras's files cannot hold functions: %s of one's own %s left out",
                 loss ? "a loss" : "metrics", loss ? "is" : "are");
}

bool iso_keras_outputs_have_keys(iso_model *model)
{
    bool keys = true;
    for (int i = 0; i < iso_model_output_count(model); i++)
        keys = keys && iso_model_output_has_name(model, i) &&
               (i == 0 || strcmp(iso_model_output_name(model, i - 1), iso_model_output_name(model, i)) < 0);
    return keys;
}

static json_t *for_each_key(iso_model *model, json_t *(*of)(const iso_output_options *output))
{
    json_t *object = json_object();
    for (int i = 0; i < iso_model_output_count(model); i++)
        json_object_set_new(object, iso_model_output_name(model, i), of(iso_model_compiled_output(model, i)));
    return object;
}

/* One value for each output, by its key where it has one; with one output that value itself. */
static json_t *for_each_output(iso_model *model, json_t *(*of)(const iso_output_options *output))
{
    int count = iso_model_output_count(model);
    if (iso_keras_outputs_have_keys(model))
        return for_each_key(model, of);
    if (count == 1)
        return of(iso_model_compiled_output(model, 0));
    json_t *list = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(list, of(iso_model_compiled_output(model, i)));
    return list;
}

static json_t *weight_of(const iso_output_options *output)
{
    return json_real(output->loss_weight);
}

static json_t *metrics_of(const iso_output_options *output)
{
    return metric_list(output->metrics, output->metric_names, output);
}

static json_t *weighted_metrics_of(const iso_output_options *output)
{
    return metric_list(output->weighted_metrics, NULL, output);
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
