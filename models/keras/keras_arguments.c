/* The arguments of layers and of the objects in them, from JSON. Arguments that are looked up are removed from a
 * list; those that remain must have Keras's default values, so that no argument is ever silently ignored. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "models/keras/keras_impl.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/printable.h"
#include "runtime/session/session.h"

/* ---- messages ---- */

/* A line: names of the file may hold control characters. */
__attribute__((format(printf, 3, 0))) static void print_line(char *line, size_t size, const char *format,
                                                             va_list args)
{
    char text[900];
    vsnprintf(text, sizeof text, format, args);
    iso_text_printable(text, line, size);
}

iso_status iso_keras_refuse(const iso_keras_reader *reader, const char *format, ...)
{
    char message[900];
    va_list args;
    va_start(args, format);
    print_line(message, sizeof message, format, args);
    va_end(args);
    return iso_error(ISO_INVALID, "%s: %s%s%s", reader->file, reader->location, *reader->location ? ": " : "",
                     message);
}

void iso_keras_warn(const iso_keras_reader *reader, const char *format, ...)
{
    char message[900];
    va_list args;
    if (!reader->ctx || reader->quiet || !iso_is_chief(reader->ctx))
        return;
    va_start(args, format);
    print_line(message, sizeof message, format, args);
    va_end(args);
    iso_warn("%s: %s%s%s", reader->file, reader->location, *reader->location ? ": " : "", message);
}

size_t iso_keras_enter(iso_keras_reader *reader, const char *format, ...)
{
    size_t length = strlen(reader->location), at = length;
    va_list args;
    if (length > 0 && length + 2 < sizeof reader->location)
        at += (size_t)snprintf(reader->location + length, sizeof reader->location - length, ".");
    va_start(args, format);
    print_line(reader->location + at, sizeof reader->location - at, format, args);
    va_end(args);
    return length;
}

void iso_keras_leave(iso_keras_reader *reader, size_t length)
{
    reader->location[length] = 0;
}

const char *iso_keras_text(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* ---- looking up ---- */

static iso_keras_arguments *of(const iso_layer_config *config)
{
    return config->impl;
}

void iso_keras_arguments_take(iso_keras_arguments *arguments, const char *key)
{
    json_object_del(arguments->left, key);
    if (arguments->call_left)
        json_object_del(arguments->call_left, key);
}

/* NULL if it is missing or null. */
static const json_t *look_up(const iso_layer_config *config, const char *key)
{
    iso_keras_arguments *arguments = of(config);
    const json_t *value = json_object_get(arguments->members, key);
    iso_keras_arguments_take(arguments, key);
    if (!value)
        value = json_object_get(arguments->call, key);
    return json_is_null(value) ? NULL : value;
}

static void refuse(const iso_layer_config *config, const char *key, const char *supported)
{
    iso_keras_arguments *arguments = of(config), *root = arguments;
    char value[160];
    const json_t *json = json_object_get(arguments->members, key);
    if (!json)
        json = json_object_get(arguments->call, key);
    while (root->outer)
        root = root->outer;
    if (*root->refused)
        return;
    snprintf(root->refused, sizeof root->refused, "%s%s is %s; supported: %s", arguments->path, key,
             json ? iso_json_shown(json, value, sizeof value) : "missing", supported);
}

/* Nested lists of numbers are flattened. */
static bool add_numbers(const json_t *value, double *values, int capacity, int *count)
{
    if (json_is_array(value)) {
        size_t size = json_array_size(value);
        for (size_t i = 0; i < size; i++)
            if (!add_numbers(json_array_get(value, i), values, capacity, count))
                return false;
        return true;
    }
    if (!json_is_number(value) && !json_is_boolean(value) && !json_is_null(value))
        return false;
    if (*count < capacity)
        values[*count] = json_is_number(value) ? json_number_value(value)
                         : json_is_null(value) ? NAN
                                               : json_is_true(value);
    ++*count;
    return *count < 1 << 20;
}

static int numbers(const iso_layer_config *config, const char *key, double *values, int capacity)
{
    int count = 0;
    const json_t *value = look_up(config, key);
    if (!value)
        return 0;
    if (add_numbers(value, values, capacity, &count))
        return count;
    refuse(config, key, "numbers");
    return 0;
}

static bool has_shape(const json_t *value, const iso_shape *shape, int dim)
{
    if (dim == shape->rank || !json_is_array(value))
        return dim == shape->rank && !json_is_array(value);
    size_t size = json_array_size(value);
    bool equal = (int64_t)size == shape->dim[dim];
    for (size_t i = 0; i < size && equal; i++)
        equal = has_shape(json_array_get(value, i), shape, dim + 1);
    return equal;
}

static bool shape(const iso_layer_config *config, const char *key, iso_shape *out)
{
    const json_t *value = look_up(config, key), *first = value;
    *out = (iso_shape){.rank = value ? 0 : 1};
    for (; json_is_array(first) && out->rank < ISO_MAX_RANK; first = json_array_get(first, 0))
        out->dim[out->rank++] = (int64_t)json_array_size(first);
    bool array = !value || has_shape(value, out, 0);
    if (!array)
        refuse(config, key, "a number, or lists of equal lengths");
    return array && json_object_get(of(config)->members, key);
}

static const char *text(const iso_layer_config *config, const char *key)
{
    const json_t *value = look_up(config, key);
    if (value && !json_is_string(value) && !json_is_object(value))
        refuse(config, key, "a string");
    return json_string_value(value);
}

const char *iso_keras_class(const json_t *value, bool *custom)
{
    const char *type = iso_keras_text(value, "class_name"), *module = iso_keras_text(value, "module"),
               *registered = iso_keras_text(value, "registered_name");
    const json_t *no_module = json_object_get(value, "module");
    *custom = type && ((module && strncmp(module, "keras", 5) != 0) || json_is_null(no_module) ||
                       (registered && strcmp(registered, type) != 0));
    return type;
}

/* The path of a key's object; path has the size of the member. */
static void set_inner_path(const iso_keras_arguments *outer, const char *key, char *path)
{
    const size_t length = strlen(outer->path);
    memcpy(path, outer->path, length);
    snprintf(path + length, sizeof outer->path - length, "%s.", key);
}

/* The object of a key if it has been looked up before, as by a layer that is built for each step. */
static iso_keras_arguments *find_inner(const iso_keras_arguments *outer, const char *key)
{
    char path[sizeof outer->path];
    set_inner_path(outer, key, path);
    iso_keras_arguments *inner = outer->inner;
    while (inner && strcmp(inner->path, path) != 0)
        inner = inner->next;
    return inner;
}

static const iso_layer_config *object(const iso_layer_config *config, const char *key)
{
    iso_keras_arguments *outer = of(config);
    const json_t *value = look_up(config, key);
    bool custom;
    const char *type = iso_keras_class(value, &custom);
    if (!type && json_is_object(value))
        refuse(config, key, "a name, or an object with a class_name");
    if (!type)
        return NULL;
    iso_keras_arguments *inner = find_inner(outer, key);
    if (inner)
        return &inner->config;
    inner = iso_new(sizeof *inner);
    if (!inner)
        return NULL;
    *inner = (iso_keras_arguments){.reader = outer->reader, .outer = outer, .config.type = type};
    inner->members = json_object_get(value, "config");
    if (inner->members && !json_is_object(inner->members) && !json_is_null(inner->members))
        refuse(config, key, "an object whose config is an object");
    set_inner_path(outer, key, inner->path);
    if (iso_keras_arguments_begin(inner) != ISO_OK) {
        iso_free(inner);
        return NULL;
    }
    inner->next = outer->inner;
    outer->inner = inner;
    if (custom)
        refuse(config, key, "Keras's own classes (no code in a file is ever executed)");
    return &inner->config;
}

static const iso_layer_config *layer(const iso_layer_config *config, const char *key)
{
    const iso_layer_config *found = object(config, key);
    const json_t *value = json_object_get(of(config)->members, key);
    if (!found && value && !json_is_null(value) && !json_is_object(value))
        refuse(config, key, "a layer");
    if (!found)
        return NULL;
    iso_keras_arguments *inner = of(found);
    inner->config.name = iso_keras_text(inner->members, "name");
    if (!iso_keras_same_policy(json_object_get(inner->members, "dtype"),
                               json_object_get(of(config)->members, "dtype")))
        refuse(found, "dtype", "that of the layer around it");
    iso_keras_arguments_take(inner, "dtype");
    return found;
}

iso_status iso_keras_arguments_begin(iso_keras_arguments *arguments)
{
    arguments->config.numbers = numbers;
    arguments->config.shape = shape;
    arguments->config.text = text;
    arguments->config.object = object;
    arguments->config.layer = layer;
    arguments->config.refuse = refuse;
    arguments->config.impl = arguments;
    if (!json_is_object(arguments->members))
        arguments->members = NULL;
    arguments->left = arguments->members ? json_copy((json_t *)arguments->members) : json_object();
    arguments->call_left = arguments->call ? json_copy((json_t *)arguments->call) : NULL;
    if (arguments->left && (!arguments->call || arguments->call_left))
        return ISO_OK;
    json_decref(arguments->left);
    return iso_no_memory("the arguments of a layer");
}

/* ---- arguments that were not looked up ---- */

/* Arguments that layers need not look up, with the values that have no effect: JSON, or "" for any. */
static const struct {
    const char *key, *value;
} silent[] = {
    {"data_format", "\"channels_last\""},
    {"synchronized", ""}, /* statistics are always those of the global batch */
    {"renorm", "false"},
    {"rms_scaling", "false"},
    {"renorm_momentum", ""}, /* no meaning without renorm */
    {"sparse", "false"},
    {"ragged", "false"},
    {"optional", "false"},
    {"threshold", "0"},
    {"name", ""},
    {"return_state", "false"},
    {"stateful", "false"},
    {"recurrent_dropout", "0"},
    {"reset_after", "true"},
    {"unroll", ""},   /* a loop that is unrolled computes the same */
    {"training", ""}, /* of a call: fit, evaluate and predict set it */
    {"input_axes", "null"},
    {"output_axes", "null"},
};

static bool same(const json_t *value, const char *wanted)
{
    json_t *parsed = json_loads(wanted, JSON_DECODE_ANY, NULL);
    bool equal = json_is_number(value) && json_is_number(parsed)
                     ? json_number_value(value) == json_number_value(parsed)
                     : json_equal(value, parsed);
    json_decref(parsed);
    return equal;
}

/* `false` for an argument of a call has no effect either: it is the default of such flags. *default_value: NULL if
 * the argument is not in the list. */
static bool says_nothing(const char *key, const json_t *value, bool of_call, const char **default_value)
{
    *default_value = NULL;
    if (json_is_null(value) || (of_call && json_is_false(value)))
        return true;
    for (size_t i = 0; i < sizeof silent / sizeof silent[0]; i++) {
        if (strcmp(key, silent[i].key) != 0)
            continue;
        *default_value = silent[i].value;
        return !*silent[i].value || same(value, silent[i].value);
    }
    return false;
}

static iso_status check_left(const iso_keras_arguments *arguments, json_t *left, bool of_call)
{
    const char *key, *default_value;
    json_t *value;
    char shown[160];
    json_object_foreach(left, key, value)
    {
        if (says_nothing(key, value, of_call, &default_value))
            continue;
        iso_json_shown(value, shown, sizeof shown);
        if (strcmp(key, "seed") == 0)
            iso_keras_warn(arguments->reader, "%sseed %s is not used: random numbers come from --seed",
                           arguments->path, shown);
        else if (default_value)
            return iso_keras_refuse(arguments->reader, "%s%.100s is %s; supported: %s", arguments->path, key,
                                    shown, default_value);
        else
            return iso_keras_refuse(arguments->reader,
                                    "%s%.100s is %s: this argument is not supported (null has no effect)",
                                    arguments->path, key, shown);
    }
    return ISO_OK;
}

static iso_status check_all(const iso_keras_arguments *arguments)
{
    iso_status status = ISO_OK;
    ISO_TRY(check_left(arguments, arguments->left, false));
    if (arguments->call_left)
        ISO_TRY(check_left(arguments, arguments->call_left, true));
    for (const iso_keras_arguments *inner = arguments->inner; inner; inner = inner->next)
        ISO_TRY(check_all(inner));
done:
    return status;
}

static void free_all(iso_keras_arguments *arguments)
{
    while (arguments->inner) {
        iso_keras_arguments *inner = arguments->inner;
        arguments->inner = inner->next;
        free_all(inner);
        iso_free(inner);
    }
    json_decref(arguments->left);
    json_decref(arguments->call_left);
}

iso_status iso_keras_arguments_end(iso_keras_arguments *arguments, iso_status status)
{
    if (*arguments->refused)
        status = iso_keras_refuse(arguments->reader, "%s", arguments->refused);
    if (status == ISO_OK)
        status = check_all(arguments);
    free_all(arguments);
    return status;
}
