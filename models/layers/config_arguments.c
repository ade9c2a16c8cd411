/* The arguments of layers that are described by data: each has a default if it is missing, and values that no
 * layer supports are refused. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/layers/layer_impl.h"
#include "runtime/base/memory.h"
#include "runtime/graph/constraints.h"
#include "runtime/graph/initializers.h"

void iso_config_refuse(const iso_layer_config *config, const char *key, const char *supported)
{
    if (config->refuse)
        config->refuse(config, key, supported);
}

double iso_config_number(const iso_layer_config *config, const char *key, double default_value)
{
    double value;
    int count = config->numbers(config, key, &value, 1);
    if (count > 1)
        iso_config_refuse(config, key, "a number");
    return count == 1 ? value : default_value;
}

double iso_config_option(const iso_layer_config *config, const char *key)
{
    double value = iso_config_number(config, key, NAN);
    return isnan(value) ? 0 : value == 0 ? ISO_ZERO : value;
}

/* Whether it is a whole number that fits an int: sizes are not larger, and products of two fit 64 bits. */
static bool is_whole(double value)
{
    return value == floor(value) && fabs(value) <= INT32_MAX;
}

int iso_config_counts(const iso_layer_config *config, const char *key, int64_t *values, int capacity)
{
    double number[2 * ISO_MAX_RANK];
    int count = config->numbers(config, key, number, 2 * ISO_MAX_RANK);
    if (count > capacity || count > 2 * ISO_MAX_RANK) {
        char supported[32];
        snprintf(supported, sizeof supported, "at most %d number%s", capacity, capacity == 1 ? "" : "s");
        iso_config_refuse(config, key, supported);
        return 0;
    }
    for (int i = 0; i < count; i++) {
        if (!is_whole(number[i])) {
            iso_config_refuse(config, key, "whole numbers up to 2147483647");
            return 0;
        }
        values[i] = (int64_t)number[i];
    }
    return count;
}

/* 0: the layer has no adapters. */
static int64_t lora_rank(const iso_layer_config *config)
{
    return iso_config_count(config, "lora_rank", 0);
}

void iso_config_lora_begin(const iso_layer_config *config, iso_tensor *x)
{
    const double alpha = iso_config_number(config, "lora_alpha", 0);
    if (lora_rank(config) != 0)
        iso_lora_begin(iso_tensor_graph(x), .rank = lora_rank(config), .alpha = alpha);
}

iso_tensor *iso_config_lora_end(const iso_layer_config *config, iso_tensor *x, iso_tensor *y)
{
    if (lora_rank(config) != 0)
        iso_lora_end(iso_tensor_graph(x));
    return y;
}

iso_shape iso_config_shape(const iso_layer_config *config, const char *key)
{
    double size[ISO_MAX_RANK];
    iso_shape shape = {.rank = config->numbers(config, key, size, ISO_MAX_RANK)};
    if (shape.rank > ISO_MAX_RANK) {
        iso_config_refuse(config, key, "as many numbers as a tensor has dimensions");
        return ISO_SCALAR;
    }
    for (int d = 0; d < shape.rank; d++) {
        bool open = isnan(size[d]), whole = size[d] >= 1 && is_whole(size[d]);
        if (!open && !whole)
            iso_config_refuse(config, key, "null and whole numbers from 1 to 2147483647");
        shape.dim[d] = whole ? (int64_t)size[d] : ISO_BATCH;
    }
    return shape;
}

bool iso_config_given(const iso_layer_config *config, const char *key)
{
    iso_shape shape;
    return config->shape && config->shape(config, key, &shape);
}

double *iso_config_array(const iso_layer_config *config, iso_graph *graph, const char *key, iso_shape *shape)
{
    int64_t count = 0;
    if (!config->shape || !config->shape(config, key, shape) || iso_shape_count(shape, &count) != ISO_OK ||
        count == 0)
        return NULL;
    double *values = iso_new((size_t)count * sizeof *values);
    if (!values)
        iso_graph_fail_memory(graph, key, (size_t)count * sizeof *values);
    else
        config->numbers(config, key, values, (int)count);
    return values;
}

int64_t iso_config_count(const iso_layer_config *config, const char *key, int64_t default_value)
{
    int64_t value;
    return iso_config_counts(config, key, &value, 1) ? value : default_value;
}

/* Whether it may be used where 0 stands for the default. */
static bool is_size(const iso_layer_config *config, const char *key, int64_t value)
{
    if (value < 1)
        iso_config_refuse(config, key, "whole numbers from 1");
    return value >= 1;
}

static int64_t default_size(const iso_layer_config *config, const char *key, int64_t default_value)
{
    if (default_value != ISO_REQUIRED)
        return default_value;
    iso_config_refuse(config, key, "whole numbers from 1");
    return 0;
}

int64_t iso_config_size(const iso_layer_config *config, const char *key, int64_t default_value)
{
    int64_t value;
    iso_config_sizes(config, key, default_value, 1, &value);
    return value;
}

bool iso_config_flag(const iso_layer_config *config, const char *key, bool default_value)
{
    const double value = iso_config_number(config, key, default_value);
    if (value != 0 && value != 1)
        iso_config_refuse(config, key, "true, false");
    return value != 0;
}

void iso_config_sizes(const iso_layer_config *config, const char *key, int64_t default_value, int count,
                      int64_t *sizes)
{
    int given = iso_config_counts(config, key, sizes, count);
    if (given > 1 && given < count)
        iso_config_refuse(config, key, "a number, or one for each dimension");
    for (int i = 0; i < given && is_size(config, key, sizes[i]); i++)
        ;
    if (given == 0)
        sizes[0] = default_size(config, key, default_value);
    for (int i = 1; i < count && given < count; i++)
        sizes[i] = sizes[0];
}

iso_padding iso_config_padding(const iso_layer_config *config)
{
    const char *text = config->text(config, "padding");
    if (text && strcmp(text, "same") != 0 && strcmp(text, "valid") != 0)
        iso_config_refuse(config, "padding", "'valid', 'same'");
    return text && strcmp(text, "same") == 0 ? ISO_SAME : ISO_VALID;
}

/* ---- initializers ---- */

int iso_config_choice(const iso_layer_config *config, const char *key, const char *const *names)
{
    const char *text = config->text(config, key);
    bool is_object = !text && config->object && config->object(config, key);
    iso_text supported = {0};
    for (int i = 0; names[i]; i++) {
        if (text ? strcmp(text, names[i]) == 0 : !is_object) {
            iso_text_free(&supported);
            return i;
        }
        iso_text_add(&supported, "%s'%s'", i ? ", " : "", names[i]);
    }
    iso_config_refuse(config, key, iso_text_get(&supported));
    iso_text_free(&supported);
    return 0;
}

/* Distinguishes 0 from a missing number. */
static double read_setting(const iso_layer_config *config, const iso_setting *setting,
                           const char *const *choice)
{
    const char *key = iso_setting_keras(setting), *text = choice ? config->text(config, key) : NULL;
    if (text && strcmp(text, "normal") == 0) /* an older name of VarianceScaling's first distribution */
        return 0;
    for (int i = 0; choice && !text && choice[i]; i++) /* Keras writes every setting: null, not missing */
        if (strcmp(choice[i], ISO_NO_CHOICE) == 0)
            return i;
    if (choice)
        return iso_config_choice(config, key, choice);
    double value = iso_config_number(config, key, setting->fallback);
    return value == 0 && setting->fallback != 0 ? ISO_ZERO : value;
}

iso_initializer iso_config_initializer(const iso_layer_config *config, const char *key)
{
    iso_initializer init = {.kind = ISO_INIT_DEFAULT};
    const iso_layer_config *object = config->object ? config->object(config, key) : NULL;
    const char *name = object ? object->type : config->text(config, key);
    iso_text supported = {0};
    if (!name)
        return init;
    if (!iso_initializer_find(name, &init.kind)) {
        for (const iso_descriptor *const *row = iso_initializers; *row; row++)
            iso_text_add(&supported, "%s%s", row > iso_initializers ? ", " : "", (*row)->keras);
        iso_config_refuse(config, key, iso_text_get(&supported));
        iso_text_free(&supported);
        return (iso_initializer){.kind = ISO_INIT_DEFAULT};
    }
    const iso_initializer_type *type = iso_initializer_type_of(init.kind);
    for (int i = 0; object && type->row.setting && type->row.setting[i].name; i++)
        iso_setting_set(&type->row.setting[i], &init,
                        read_setting(object, &type->row.setting[i], type->choice[i]));
    return init;
}

/* ---- regularizers ---- */

void iso_config_penalty(const iso_layer_config *config, const char *key, double *l1, double *l2)
{
    const iso_layer_config *object = config->object ? config->object(config, key) : NULL;
    const char *name = object ? object->type : config->text(config, key);
    *l1 = *l2 = 0;
    if (!name)
        return;
    bool both = strcmp(name, "L1L2") == 0 || strcmp(name, "l1_l2") == 0;
    bool first = both || strcmp(name, "L1") == 0 || strcmp(name, "l1") == 0;
    bool second = both || strcmp(name, "L2") == 0 || strcmp(name, "l2") == 0;
    double default_value = both && object ? 0 : 0.01;
    if (!first && !second)
        iso_config_refuse(config, key, "L1, L2, L1L2");
    if (first)
        *l1 = object ? iso_config_number(object, "l1", default_value) : default_value;
    if (second)
        *l2 = object ? iso_config_number(object, "l2", default_value) : default_value;
}

void iso_config_weight(const iso_layer_config *config, const char *what, iso_initializer *initializer,
                       double *l1, double *l2)
{
    char key[64];
    snprintf(key, sizeof key, "%s_initializer", what);
    *initializer = iso_config_initializer(config, key);
    snprintf(key, sizeof key, "%s_regularizer", what);
    iso_config_penalty(config, key, l1, l2);
}

/* ---- constraints ---- */

static bool refuse_constraint(const iso_layer_config *config, const char *key)
{
    iso_text supported = {0};
    iso_descriptor_add_names(iso_constraints, true, &supported);
    iso_config_refuse(config, key, iso_text_get(&supported));
    iso_text_free(&supported);
    return false;
}

/* The dimensions of a norm: a number, a list, or null for all. */
static void read_axes(const iso_layer_config *config, iso_weight_constraint *constraint)
{
    int64_t axes[ISO_MAX_RANK];
    int count = iso_config_counts(config, "axis", axes, ISO_MAX_RANK);
    constraint->axis_count = count < ISO_MAX_RANK ? count : ISO_MAX_RANK;
    constraint->all_axes = count == 0 && iso_config_given(config, "axis");
    for (int i = 0; i < constraint->axis_count; i++)
        constraint->axis[i] = (int)axes[i];
}

iso_weight_constraint iso_config_constraint(const iso_layer_config *config, const char *what)
{
    char key[64];
    snprintf(key, sizeof key, "%s_constraint", what);
    iso_weight_constraint constraint = {.kind = ISO_CONSTRAINT_NONE};
    const iso_layer_config *object = config->object ? config->object(config, key) : NULL;
    const char *name = object ? object->type : config->text(config, key);
    if (!name || (!iso_constraint_find(name, &constraint.kind) && !refuse_constraint(config, key)))
        return (iso_weight_constraint){.kind = ISO_CONSTRAINT_NONE};
    const iso_constraint_type *type = iso_constraint_type_of(constraint.kind);
    for (const iso_setting *s = type->row.setting; object && s && s->name; s++)
        iso_setting_set(s, &constraint, iso_config_option(object, s->name));
    if (object && type->norm)
        read_axes(object, &constraint);
    return constraint;
}
