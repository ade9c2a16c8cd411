/* Reads the compile settings of a file: optimizer, losses, metrics. Unsupported ones are omitted with a warning;
 * options may replace them. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/keras/keras_impl.h"
#include "runtime/base/options.h"
#include "runtime/graph/layer.h"
#include "runtime/graph/optimizers/rule.h"
#include "runtime/graph/schedules/rule.h"
#include "runtime/train/loss.h"

/* ---- optimizers ---- */

/* Zero as a wish. */
static double explicit_zero(double value)
{
    return value == 0 ? ISO_ZERO : value;
}

static double number(const iso_layer_config *config, const char *key, double default_value)
{
    double value;
    return config->numbers(config, key, &value, 1) == 1 ? value : default_value;
}

/* Reads a list of numbers and returns how many there are; -1 if there are more than `capacity`. */
static int list(const iso_layer_config *config, const char *key, double *values, int capacity)
{
    int count = config->numbers(config, key, values, capacity);
    return count > capacity ? -1 : count;
}

static bool piecewise(const iso_layer_config *config, iso_schedule *schedule)
{
    double boundary[ISO_MAX_PIECES], value[ISO_MAX_PIECES + 1];
    int64_t whole[ISO_MAX_PIECES];
    int count = list(config, "boundaries", boundary, ISO_MAX_PIECES);
    int values = list(config, "values", value, ISO_MAX_PIECES + 1);
    if (count < 1 || values != count + 1) {
        config->refuse(config, "boundaries", "1 to 16, with one value more");
        return false;
    }
    for (int i = 0; i < count; i++)
        whole[i] = boundary[i] > -0x1p53 && boundary[i] < 0x1p53 ? (int64_t)floor(boundary[i]) : 0;
    *schedule = iso_piecewise_constant(count, whole, value);
    return true;
}

/* A number of steps. Keras computes with a fraction too, which iso_schedule cannot hold. */
static int64_t steps(const iso_layer_config *config, const char *key)
{
    double value = number(config, key, 0);
    if (value >= 0 && value < 0x1p53 && value == floor(value))
        return (int64_t)value;
    config->refuse(config, key, "a whole number of steps");
    return 0;
}

/* A number of a schedule. That an optional one is absent (null) is 0 in iso_schedule, so it cannot be 0. */
static double schedule_number(const iso_layer_config *config, const iso_setting *setting)
{
    double value;
    if (config->numbers(config, setting->name, &value, 1) != 1)
        return setting->fallback;
    if (value == 0 && setting->kind == ISO_SETTING_OPTIONAL)
        config->refuse(config, setting->name, "null or a number that is not 0");
    return value;
}

static bool read_schedule(const iso_layer_config *outer, const iso_layer_config *config,
                          iso_schedule *schedule)
{
    const iso_descriptor *row =
        config->type ? iso_descriptor_of_keras(iso_schedule_rows, config->type) : NULL;
    const iso_schedule_rule *rule = (const iso_schedule_rule *)(const void *)row;
    iso_text classes = {0};
    if (rule && rule->piecewise)
        return piecewise(config, schedule);
    for (const iso_setting *s = rule ? row->setting : NULL; s && s->name; s++)
        iso_setting_set(s, schedule,
                        s->kind == ISO_SETTING_COUNT ? (double)steps(config, s->name)
                                                     : schedule_number(config, s));
    if (rule) {
        schedule->kind = rule->kind;
        return true;
    }
    iso_text_add(&classes, "a number, ");
    iso_descriptor_add_names(iso_schedule_rows, true, &classes);
    outer->refuse(outer, "learning_rate", iso_text_get(&classes));
    iso_text_free(&classes);
    return false;
}

/* The settings of all optimizers. */
static void read_common(const iso_layer_config *config, iso_optimizer *optimizer)
{
    const iso_layer_config *schedule = config->object(config, "learning_rate");
    if (schedule && read_schedule(config, schedule, &optimizer->schedule))
        optimizer->learning_rate = optimizer->schedule.initial;
    if (!schedule)
        optimizer->learning_rate = number(config, "learning_rate", optimizer->learning_rate);
    optimizer->weight_decay = number(config, "weight_decay", 0);
    optimizer->clip_norm = number(config, "clipnorm", 0);
    optimizer->global_clip_norm = number(config, "global_clipnorm", 0);
    optimizer->clip_value = number(config, "clipvalue", 0);
    optimizer->accumulation = (int)steps(config, "gradient_accumulation_steps");
    if (number(config, "use_ema", 0) != 0)
        config->refuse(config, "use_ema", "false");
    number(config, "ema_momentum", 0); /* these have no meaning without use_ema */
    number(config, "ema_overwrite_frequency", 0);
}

static iso_status unknown_optimizer(const iso_keras_reader *reader, const char *type)
{
    iso_text text = {0};
    iso_descriptor_add_names(iso_optimizer_rows, true, &text);
    iso_status status = iso_keras_refuse(reader, "the optimizer %.80s is not supported; there are: %s", type,
                                         iso_text_get(&text));
    iso_text_free(&text);
    return status;
}

static iso_status read_rule(const iso_layer_config *config, const iso_descriptor *row,
                            iso_optimizer *optimizer)
{
    iso_status status = iso_optimizer_find(row->name, optimizer);
    for (int i = 0; status == ISO_OK && row->setting[i].name; i++)
        optimizer->hyper[i] = number(config, iso_setting_keras(&row->setting[i]), row->setting[i].fallback);
    if (status == ISO_OK)
        read_common(config, optimizer);
    return status;
}

/* An object of a class, or a text: the class in lower case. */
static const iso_descriptor *find_optimizer(const char *type)
{
    const iso_descriptor *row = iso_descriptor_of_keras(iso_optimizer_rows, type);
    return row ? row : iso_descriptor_of(iso_optimizer_rows, type);
}

static iso_status read_optimizer(iso_keras_reader *reader, const json_t *value, iso_optimizer *optimizer)
{
    bool custom = false;
    const char *type = json_is_string(value) ? json_string_value(value) : iso_keras_class(value, &custom);
    iso_keras_arguments arguments = {
        .reader = reader, .members = json_object_get(value, "config"), .config.type = type};
    const iso_descriptor *row = type && !custom ? find_optimizer(type) : NULL;
    iso_optimizer read = {0};
    if (custom)
        return iso_keras_refuse(reader, "the optimizer %.80s is the user's own, not Keras's", type);
    if (!row)
        return unknown_optimizer(reader, type ? type : "?");
    iso_status status = iso_keras_arguments_begin(&arguments);
    if (status != ISO_OK)
        return status;
    status = iso_keras_arguments_end(&arguments, read_rule(&arguments.config, row, &read));
    if (status == ISO_OK)
        status = iso_optimizer_check(&read);
    if (status == ISO_OK)
        *optimizer = read;
    return status;
}

/* ---- omitted settings ---- */

/* The message of the error without the position in the file. */
static const char *reason(const iso_keras_reader *reader)
{
    const char *message = iso_error_message();
    size_t file = strlen(reader->file), location = strlen(reader->location);
    if (strncmp(message, reader->file, file) == 0 && message[file] == ':')
        message += file + 2;
    if (strncmp(message, reader->location, location) == 0 && message[location] == ':')
        message += location + 2;
    return message;
}

/* Warns with the message of the error, in which the position in the file is named once. */
static void leave_out(const iso_keras_reader *reader, const char *what, const char *option)
{
    iso_keras_warn(reader, "%s is left out: %s%s%s", what, reason(reader),
                   *option ? "; another one can be given: " : "", option);
}

/* ---- losses and metrics ---- */

/* The name of a function, or of a class in snake case, from an object or text. Written into `room`. NULL if it is
 * not Keras's own. */
static const char *identifier(const json_t *value, char *room, size_t size)
{
    bool custom;
    const char *text = json_string_value(value), *type = iso_keras_class(value, &custom);
    const char *function = type && strcmp(type, "function") == 0 ? iso_keras_text(value, "config") : NULL;
    const char *module = iso_keras_text(value, "module");
    /* Keras writes its own functions as "builtins", and looks for their names among its own first. */
    if (function && module && (strncmp(module, "keras", 5) == 0 || strcmp(module, "builtins") == 0))
        text = function;
    else if (custom)
        return NULL;
    if (text || type)
        iso_text_snake_case(text ? text : type, room, size);
    return text || type ? room : NULL;
}

/* Reads the settings of a row into the output's options, in which zero means the default. */
static void read_settings(const iso_layer_config *config, const iso_setting *setting,
                          iso_output_options *output)
{
    for (; setting && setting->name; setting++) {
        const char *key = iso_setting_keras(setting);
        double value = number(config, key, setting->fallback), all[2];
        if (config->numbers(config, key, all, 2) > 1)
            config->refuse(config, key, "one number");
        else if (setting->kind == ISO_SETTING_INT && !(value >= 1 && value <= INT_MAX && value == (int)value))
            config->refuse(config, key, "a whole number from 1");
        else
            iso_setting_set(setting, output, explicit_zero(value));
    }
}

static void read_loss_config(const iso_layer_config *config, iso_output_options *output)
{
    const iso_loss_type *type = iso_loss_type_of(output->loss);
    const char *reduction = config->text(config, "reduction");
    if (reduction && strcmp(reduction, "sum_over_batch_size") != 0)
        config->refuse(config, "reduction", "'sum_over_batch_size'");
    if (number(config, "axis", -1) != -1)
        config->refuse(config, "axis", "-1");
    if (type->logits && number(config, "from_logits", 0) != 0)
        output->loss = iso_loss_with_logits(output->loss);
    read_settings(config, type->row.setting, output);
}

static iso_status read_loss(iso_keras_reader *reader, const json_t *value, iso_output_options *output)
{
    char name[120], shown[160];
    iso_output_options read = *output;
    iso_keras_arguments arguments = {.reader = reader, .members = json_object_get(value, "config")};
    if (!identifier(value, name, sizeof name))
        return iso_keras_refuse(reader, "the loss %s is not Keras's own",
                                iso_keras_value(value, shown, sizeof shown));
    iso_status status;
    ISO_TRY(iso_loss_find(name, &read.loss));
    ISO_TRY(iso_keras_arguments_begin(&arguments));
    if (arguments.members)
        read_loss_config(&arguments.config, &read);
    ISO_TRY(iso_keras_arguments_end(&arguments, ISO_OK));
    *output = read;
done:
    return status;
}

static bool has_setting(const iso_metric_type *type, const iso_setting *setting)
{
    const iso_setting *own = type ? type->row.setting : NULL;
    while (own && own->name && own->offset != setting->offset)
        own++;
    return own && own->name;
}

/* The name of the first of these metrics that has this setting; NULL: none has. names NULL: they have no names. */
static const char *first_with(const iso_metric *metrics, const char *const *names,
                              const iso_output_options *output, const iso_shape *prediction,
                              const iso_setting *setting)
{
    for (int i = 0; i < ISO_MAX_METRICS && metrics[i] != ISO_METRIC_NONE; i++)
        if (has_setting(iso_metric_type_of(iso_metric_for_loss(metrics[i], output->loss, prediction)),
                        setting))
            return names && names[i] ? names[i] : iso_metric_title(metrics[i]);
    return NULL;
}

/* All metrics of an output share their settings: those of another metric, in `read`, must be the same. */
static iso_status set_settings(iso_keras_reader *reader, const iso_shape *prediction, iso_metric metric,
                               const char *title, const iso_output_options *read, iso_output_options *output)
{
    const iso_metric_type *type = iso_metric_type_of(iso_metric_for_loss(metric, output->loss, prediction));
    for (const iso_setting *setting = type->row.setting; setting && setting->name; setting++) {
        double value = iso_setting_option(setting, read);
        double theirs = iso_setting_option(setting, output);
        const char *other = first_with(output->metrics, output->metric_names, output, prediction, setting);
        if (!other)
            other = first_with(output->weighted_metrics, NULL, output, prediction, setting);
        if (other && value != theirs)
            return iso_keras_refuse(
                reader,
                "the metric '%.80s' has %s = %.9g, and '%.80s' of the same output has %.9g; all metrics of "
                "an output have the same",
                title ? title : iso_metric_title(metric), setting->name, value, other, theirs);
        iso_setting_set(setting, output, explicit_zero(value));
    }
    return ISO_OK;
}

/* The name of a metric in Keras: the text, the name of its function, or the name in its object. */
static const char *title_of(const json_t *value)
{
    const json_t *config = json_object_get(value, "config");
    return json_is_string(value)    ? json_string_value(value)
           : json_is_string(config) ? json_string_value(config)
                                    : iso_keras_text(config, "name");
}

/* Reads a metric of an output into the end of one of its lists. names NULL: the list has no names. */
static iso_status read_metric(iso_keras_reader *reader, const json_t *value, iso_tensor *prediction,
                              iso_metric *list_end, const char **names_end, iso_output_options *output)
{
    char name[120], shown[160];
    iso_metric metric;
    iso_output_options read = {0};
    iso_keras_arguments arguments = {.reader = reader, .members = json_object_get(value, "config")};
    const char *type = iso_keras_text(value, "class_name");
    if (!identifier(value, name, sizeof name))
        return iso_keras_refuse(reader, "the metric %s is not Keras's own",
                                iso_keras_value(value, shown, sizeof shown));
    if (type && strcmp(type, "Accuracy") == 0) /* the class compares for equality; the name chooses a class */
        return iso_keras_refuse(reader, "the metric of class Accuracy (values that are equal) is not "
                                        "supported; the name \"accuracy\" is");
    iso_status status = iso_metric_find(name, &metric);
    if (status != ISO_OK)
        return status;
    if (arguments.members) {
        ISO_TRY(iso_keras_arguments_begin(&arguments));
        iso_keras_arguments_take(&arguments, "dtype");
        read_settings(&arguments.config, iso_metric_type_of(metric)->row.setting, &read);
        ISO_TRY(iso_keras_arguments_end(&arguments, ISO_OK));
    }
    const char *title = title_of(value);
    ISO_TRY(set_settings(reader, iso_tensor_shape(prediction), metric, title, &read, output));
    *list_end = metric;
    if (title && names_end)
        *names_end = iso_graph_keep_text(iso_tensor_graph(prediction), title);
    else if (title && strcmp(title, iso_metric_title(metric)) != 0)
        iso_keras_warn(
            reader,
            "the weighted metric '%.80s' is called %s: only metrics without weights have names of their own",
            title, iso_metric_title(metric));
done:
    return status;
}

/* weighted: to those that use sample weights. Unknown metrics are omitted with a warning. */
static void add_metrics(iso_keras_reader *reader, const json_t *value, iso_tensor *prediction, bool weighted,
                        iso_output_options *output)
{
    iso_metric *list = weighted ? output->weighted_metrics : output->metrics;
    int count = 0;
    while (count < ISO_MAX_METRICS && list[count] != ISO_METRIC_NONE)
        count++;
    for (size_t i = 0; json_is_array(value) && i < json_array_size(value); i++)
        add_metrics(reader, json_array_get(value, i), prediction, weighted, output);
    if (!json_is_string(value) && !json_is_object(value))
        return;
    if (count == ISO_MAX_METRICS)
        iso_keras_warn(reader, "more than %d metrics; the others are left out", ISO_MAX_METRICS);
    else if (read_metric(reader, value, prediction, &list[count],
                         weighted ? NULL : &output->metric_names[count], output) != ISO_OK)
        leave_out(reader, "a metric", "");
}

/* ---- outputs ---- */

/* A setting for one of the outputs: by its name, by its number, or for all outputs. NULL: none. */
static const json_t *for_output(iso_model *model, const json_t *value, int output)
{
    if (json_is_object(value) && !json_object_get(value, "class_name"))
        return json_object_get(value, iso_model_output_name(model, output));
    if (json_is_array(value) && iso_model_output_count(model) > 1)
        return json_array_get(value, (size_t)output);
    return value;
}

static void read_output(iso_keras_reader *reader, const json_t *compile, iso_model *model, int output,
                        iso_output_options *read)
{
    const json_t *loss = for_output(model, json_object_get(compile, "loss"), output);
    const json_t *weight = for_output(model, json_object_get(compile, "loss_weights"), output);
    const json_t *weighted = for_output(model, json_object_get(compile, "weighted_metrics"), output);
    if (json_is_array(loss))
        loss = json_array_get(loss, 0);
    if (json_is_array(weight))
        weight = json_array_get(weight, 0);
    if (loss && !json_is_null(loss) && read_loss(reader, loss, read) != ISO_OK)
        leave_out(reader, "the loss", "--loss");
    if (json_is_number(weight))
        read->loss_weight = explicit_zero(json_number_value(weight));
    iso_tensor *prediction = iso_model_output_at(model, output);
    add_metrics(reader, for_output(model, json_object_get(compile, "metrics"), output), prediction, false,
                read);
    add_metrics(reader, weighted, prediction, true, read);
}

/* Stores the name of an unsupported optimizer, and in parentheses the reason if the class is not the reason:
 * iso_compile refuses it, unless an option replaces it. */
static const char *left_out_rule(const iso_keras_reader *reader, iso_model *model, const json_t *optimizer)
{
    iso_text text = {0};
    bool custom = false;
    const char *type =
        json_is_string(optimizer) ? json_string_value(optimizer) : iso_keras_class(optimizer, &custom);
    iso_text_add(&text, "%.80s of the model's file", type ? type : "?");
    if (custom || (type && find_optimizer(type)))
        iso_text_add(&text, " (%s)", reason(reader));
    const char *rule = iso_graph_keep_text(iso_model_graph(model), iso_text_get(&text));
    iso_text_free(&text);
    return rule;
}

void iso_keras_compile_read(iso_keras_reader *reader, const json_t *compile, iso_model *model,
                            iso_compile_options *options)
{
    iso_compile_options read = {0};
    int outputs = iso_model_output_count(model);
    size_t outer = iso_keras_enter(reader, "compile_config");
    const json_t *optimizer = json_object_get(compile, "optimizer");
    if (optimizer && !json_is_null(optimizer) &&
        read_optimizer(reader, optimizer, &read.optimizer) != ISO_OK) {
        read.optimizer = (iso_optimizer){.rule = left_out_rule(reader, model, optimizer)};
        leave_out(reader, "the optimizer", "--optimizer");
    }
    for (int i = 0; i < outputs && i < ISO_MAX_MODEL_OUTPUTS; i++)
        read_output(reader, compile, model, i, &read.outputs[i]);
    for (int i = 0; i < ISO_MAX_MODEL_OUTPUTS; i++) /* the data may have no weights */
        read.sample_weights = read.sample_weights || read.outputs[i].weighted_metrics[0] != ISO_METRIC_NONE;
    if (outputs == 1) {
        iso_compile_set_common(&read, &read.outputs[0]);
        memset(read.outputs, 0, sizeof read.outputs);
    }
    iso_keras_leave(reader, outer);
    *options = read;
}
