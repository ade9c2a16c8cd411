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
    optimizer->use_ema = number(config, "use_ema", 0) != 0;
    optimizer->ema_momentum = number(config, "ema_momentum", 0.99);
    optimizer->loss_scale_factor = number(config, "loss_scale_factor", 0);
    optimizer->ema_overwrite_frequency = (int)steps(config, "ema_overwrite_frequency");
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

/* The settings of a rule. null is 0 where a setting is optional. */
static iso_status read_rule(iso_keras_arguments *arguments, const iso_descriptor *row,
                            iso_optimizer *optimizer)
{
    const iso_layer_config *config = &arguments->config;
    const iso_optimizer_rule *rule = iso_optimizer_rule_find(row->name);
    const char *empty = rule->empty_list, *not_zero = rule->not_zero;
    iso_status status = iso_optimizer_find(row->name, optimizer);
    for (int i = 0; status == ISO_OK && row->setting[i].name; i++) {
        const iso_setting *setting = &row->setting[i];
        bool none = setting->kind == ISO_SETTING_OPTIONAL &&
                    json_is_null(json_object_get(arguments->members, iso_setting_keras(setting)));
        optimizer->hyper[i] = number(config, iso_setting_keras(setting), none ? 0 : setting->fallback);
        if (!none && optimizer->hyper[i] == 0 && not_zero && strcmp(setting->name, not_zero) == 0)
            config->refuse(config, not_zero, "null or a number that is not 0");
    }
    if (empty && json_array_size(json_object_get(arguments->members, empty)) > 0)
        config->refuse(config, empty, "an empty list");
    if (empty)
        iso_keras_arguments_take(arguments, empty);
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
    status = iso_keras_arguments_end(&arguments, read_rule(&arguments, row, &read));
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

/* Stores the numbers of a list, each once and below ISO_SETTING_BITS_END, as a set. */
static void read_bits(const iso_layer_config *config, const iso_setting *setting, void *values)
{
    double number[ISO_SETTING_BITS_END];
    const char *key = iso_setting_keras(setting);
    int count = list(config, key, number, ISO_SETTING_BITS_END);
    uint64_t bits = 0;
    for (int i = 0; i < count; i++) {
        bool whole = number[i] >= 0 && number[i] < ISO_SETTING_BITS_END && number[i] == floor(number[i]);
        if (!whole || bits >> (int)number[i] & 1) {
            config->refuse(config, key, "whole numbers from 0 to 52, each once");
            return;
        }
        bits |= (uint64_t)1 << (int)number[i];
    }
    if (count < 0)
        config->refuse(config, key, "whole numbers from 0 to 52, each once");
    iso_setting_set(setting, values, (double)bits);
}

/* null is none of the words. */
static void read_choice(const iso_keras_arguments *arguments, const iso_setting *setting, bool needed,
                        void *values)
{
    const iso_layer_config *config = &arguments->config;
    const char *key = iso_setting_keras(setting);
    const json_t *given = json_object_get(arguments->members, key);
    const char *word = config->text(config, key);
    iso_text words = {0};
    for (int i = 0; setting->words[i]; i++) {
        if (word && strcmp(word, setting->words[i]) == 0) {
            iso_setting_set(setting, values, i);
            iso_text_free(&words);
            return;
        }
        iso_text_add(&words, "%s'%s'", i ? ", " : "", setting->words[i]);
    }
    if (given || needed)
        config->refuse(config, key, iso_text_get(&words));
    iso_text_free(&words);
}

static bool is_whole(double value, double least)
{
    return value >= least && value <= INT_MAX && value == floor(value);
}

static void read_number(const iso_layer_config *config, const iso_setting *setting, void *values)
{
    const char *key = iso_setting_keras(setting);
    bool nullable = setting->kind == ISO_SETTING_INDEX || setting->kind == ISO_SETTING_NULLABLE ||
                    setting->kind == ISO_SETTING_OPTIONAL;
    bool flag = setting->kind == ISO_SETTING_FLAG || setting->kind == ISO_SETTING_NOT;
    double all[2], value = setting->fallback;
    int count = config->numbers(config, key, all, 2);
    if (count == 0 && nullable)
        return;
    value = count > 0 ? all[0] : value;
    if (count > 1)
        config->refuse(config, key, "one number");
    else if (setting->kind == ISO_SETTING_INT && !is_whole(value, setting->fallback > 0))
        config->refuse(config, key,
                       setting->fallback > 0 ? "a whole number from 1" : "a whole number from 0");
    else if (setting->kind == ISO_SETTING_INDEX && !is_whole(value, -INT_MAX))
        config->refuse(config, key, "a whole number, or null");
    else
        iso_setting_set(setting, values, flag ? value : explicit_zero(value));
}

/* Reads the settings of a row into the struct of options in which they are, where zero means the default. needs: one
 * that must be there; NULL: none. */
static void read_settings(const iso_keras_arguments *arguments, const iso_setting *setting, const char *needs,
                          void *values)
{
    for (; setting && setting->name; setting++) {
        if (setting->not_keras)
            continue;
        bool needed = needs && strcmp(needs, setting->name) == 0;
        if (setting->kind == ISO_SETTING_CHOICE)
            read_choice(arguments, setting, needed, values);
        else if (setting->kind == ISO_SETTING_BITS)
            read_bits(&arguments->config, setting, values);
        else
            read_number(&arguments->config, setting, values);
    }
}

static void read_loss_config(const iso_keras_arguments *arguments, iso_output_options *output)
{
    const iso_layer_config *config = &arguments->config;
    const iso_loss_type *type = iso_loss_type_of(output->loss);
    const char *reduction = config->text(config, "reduction");
    if (reduction && strcmp(reduction, "sum_over_batch_size") != 0)
        config->refuse(config, "reduction", "'sum_over_batch_size'");
    bool own_axis = type->row.setting && iso_setting_of(type->row.setting, "axis");
    if (!own_axis && number(config, "axis", -1) != -1)
        config->refuse(config, "axis", "-1");
    if (type->logits && number(config, "from_logits", 0) != 0)
        output->loss = iso_loss_with_logits(output->loss);
    read_settings(arguments, type->row.setting, NULL, output);
}

static iso_status read_loss(iso_keras_reader *reader, const json_t *value, iso_output_options *output)
{
    char name[120], shown[160];
    iso_output_options read = *output;
    iso_keras_arguments arguments = {.reader = reader, .members = json_object_get(value, "config")};
    if (!identifier(value, name, sizeof name))
        return iso_keras_refuse(reader, "the loss %s is not Keras's own",
                                iso_json_shown(value, shown, sizeof shown));
    iso_status status;
    ISO_TRY(iso_loss_find(name, &read.loss));
    ISO_TRY(iso_keras_arguments_begin(&arguments));
    if (arguments.members)
        read_loss_config(&arguments, &read);
    ISO_TRY(iso_keras_arguments_end(&arguments, ISO_OK));
    *output = read;
done:
    return status;
}

/* The name of a metric in Keras: the text, the name of its function, or the name in its object. */
static const char *title_of(const json_t *value)
{
    const json_t *config = json_object_get(value, "config");
    return json_is_string(value)    ? json_string_value(value)
           : json_is_string(config) ? json_string_value(config)
                                    : iso_keras_text(config, "name");
}

/* Confusion matrices of the IoU metrics are whole numbers, unless their type is another. */
static void check_type(const iso_keras_arguments *arguments, const iso_metric_type *type)
{
    const char *dtype = iso_keras_text(arguments->members, "dtype");
    if (type->whole_weights && dtype && strncmp(dtype, "int", 3) != 0)
        arguments->config.refuse(&arguments->config, "dtype", "'int'");
}

static iso_status read_metric_settings(iso_keras_arguments *arguments, const iso_metric_type *type,
                                       iso_metric_settings *settings)
{
    iso_status status = iso_keras_arguments_begin(arguments);
    if (status != ISO_OK)
        return status;
    check_type(arguments, type);
    iso_keras_arguments_take(arguments, "dtype");
    read_settings(arguments, type->row.setting, type->needs, settings);
    if (number(&arguments->config, "axis", -1) != -1)
        arguments->config.refuse(&arguments->config, "axis", "-1");
    return iso_keras_arguments_end(arguments, ISO_OK);
}

/* Finds the metric and reads its settings. "accuracy" has none: Keras saves its name. */
static iso_status read_metric(iso_keras_reader *reader, const json_t *value, iso_metric *metric,
                              iso_metric_settings *settings)
{
    char name[120], shown[160];
    iso_metric_settings read = {0};
    iso_metric found;
    iso_keras_arguments arguments = {.reader = reader, .members = json_object_get(value, "config")};
    const char *type = iso_keras_text(value, "class_name");
    if (!identifier(value, name, sizeof name))
        return iso_keras_refuse(reader, "the metric %s is not Keras's own",
                                iso_json_shown(value, shown, sizeof shown));
    if (type && strcmp(type, "Accuracy") == 0) /* the class compares for equality; the name chooses a class */
        return iso_keras_refuse(reader, "the metric of class Accuracy (values that are equal) is not "
                                        "supported; the name \"accuracy\" is");
    iso_status status = ISO_OK;
    ISO_TRY(iso_metric_find(name, &found));
    ISO_TRY(read_metric_settings(&arguments, iso_metric_type_of(found), &read));
    *metric = found;
    *settings = read;
done:
    return status;
}

/* One of an output's two lists of metrics. */
typedef struct metric_list {
    iso_metric *metric;
    iso_metric_settings *settings;
    const char **name;
} metric_list;

/* Unknown metrics are omitted with a warning. */
static void add_metrics(iso_keras_reader *reader, const json_t *value, iso_graph *graph, metric_list *to)
{
    int count = 0;
    while (count < ISO_MAX_METRICS && to->metric[count] != ISO_METRIC_NONE)
        count++;
    for (size_t i = 0; json_is_array(value) && i < json_array_size(value); i++)
        add_metrics(reader, json_array_get(value, i), graph, to);
    if (!json_is_string(value) && !json_is_object(value))
        return;
    if (count == ISO_MAX_METRICS)
        iso_keras_warn(reader, "more than %d metrics; the others are left out", ISO_MAX_METRICS);
    else if (read_metric(reader, value, &to->metric[count], &to->settings[count]) == ISO_OK)
        to->name[count] = title_of(value) ? iso_graph_keep_text(graph, title_of(value)) : NULL;
    else
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
    iso_graph *graph = iso_model_graph(model);
    metric_list plain = {read->metrics, read->metric_settings, read->metric_names};
    metric_list with_weights = {read->weighted_metrics, read->weighted_metric_settings,
                                read->weighted_metric_names};
    add_metrics(reader, for_output(model, json_object_get(compile, "metrics"), output), graph, &plain);
    add_metrics(reader, weighted, graph, &with_weights);
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
