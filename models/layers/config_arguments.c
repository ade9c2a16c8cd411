/* The arguments of layers that are described by data: each with what it is where it is missing, and refused
 * where it is what no layer can have. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/layers/layer_impl.h"

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

/* Whole numbers that a double holds exactly. */
static bool is_whole(double value)
{
    return value == floor(value) && fabs(value) <= 0x1p53;
}

int iso_config_counts(const iso_layer_config *config, const char *key, int64_t *values, int capacity)
{
    double number[2 * ISO_MAX_RANK];
    int count = config->numbers(config, key, number, 2 * ISO_MAX_RANK);
    if (count > capacity || count > 2 * ISO_MAX_RANK) {
        iso_config_refuse(config, key, "fewer numbers");
        return 0;
    }
    for (int i = 0; i < count; i++) {
        if (!is_whole(number[i])) {
            iso_config_refuse(config, key, "whole numbers");
            return 0;
        }
        values[i] = (int64_t)number[i];
    }
    return count;
}

int64_t iso_config_count(const iso_layer_config *config, const char *key, int64_t default_value)
{
    int64_t value;
    return iso_config_counts(config, key, &value, 1) ? value : default_value;
}

bool iso_config_flag(const iso_layer_config *config, const char *key, bool default_value)
{
    return iso_config_number(config, key, default_value) != 0;
}

void iso_config_pair(const iso_layer_config *config, const char *key, int64_t default_value, int64_t pair[2])
{
    int count = iso_config_counts(config, key, pair, 2);
    if (count == 0)
        pair[0] = default_value;
    if (count < 2)
        pair[1] = pair[0];
}

iso_padding iso_config_padding(const iso_layer_config *config)
{
    const char *text = config->text(config, "padding");
    if (text && strcmp(text, "same") != 0 && strcmp(text, "valid") != 0)
        iso_config_refuse(config, "padding", "'valid', 'same'");
    return text && strcmp(text, "same") == 0 ? ISO_SAME : ISO_VALID;
}

/* ---- initializers ---- */

static const struct {
    const char *keras, *name;
} initializers[] = {
    [ISO_INIT_ZEROS] = {"Zeros", "zeros"},
    [ISO_INIT_ONES] = {"Ones", "ones"},
    [ISO_INIT_CONSTANT] = {"Constant", "constant"},
    [ISO_INIT_GLOROT_UNIFORM] = {"GlorotUniform", "glorot_uniform"},
    [ISO_INIT_GLOROT_NORMAL] = {"GlorotNormal", "glorot_normal"},
    [ISO_INIT_HE_UNIFORM] = {"HeUniform", "he_uniform"},
    [ISO_INIT_HE_NORMAL] = {"HeNormal", "he_normal"},
    [ISO_INIT_LECUN_UNIFORM] = {"LecunUniform", "lecun_uniform"},
    [ISO_INIT_LECUN_NORMAL] = {"LecunNormal", "lecun_normal"},
    [ISO_INIT_RANDOM_UNIFORM] = {"RandomUniform", "random_uniform"},
    [ISO_INIT_RANDOM_NORMAL] = {"RandomNormal", "random_normal"},
    [ISO_INIT_TRUNCATED_NORMAL] = {"TruncatedNormal", "truncated_normal"},
    [ISO_INIT_VARIANCE_SCALING] = {"VarianceScaling", "variance_scaling"},
    [ISO_INIT_ORTHOGONAL] = {"Orthogonal", "orthogonal"},
    [ISO_INIT_IDENTITY] = {"Identity", "identity"},
};
enum { INITIALIZERS = sizeof initializers / sizeof initializers[0] };

/* "glorot_uniform" or "GlorotUniform", ...: Keras's names and classes; false where there is no such
 * initializer. */
static bool find_initializer(const char *name, iso_initializer_kind *kind)
{
    if (strcmp(name, "uniform") == 0 || strcmp(name, "normal") == 0)
        name = name[0] == 'u' ? "random_uniform" : "random_normal";
    for (int i = ISO_INIT_ZEROS; i < INITIALIZERS; i++) {
        if (strcmp(name, initializers[i].keras) == 0 || strcmp(name, initializers[i].name) == 0) {
            *kind = (iso_initializer_kind)i;
            return true;
        }
    }
    return false;
}

const char *iso_initializer_class(iso_initializer_kind kind)
{
    return (int)kind > 0 && (int)kind < INITIALIZERS ? initializers[kind].keras : NULL;
}

const char *const iso_fan_modes[] = {"fan_in", "fan_out", "fan_avg", NULL};
const char *const iso_fan_distributions[] = {"truncated_normal", "untruncated_normal", "uniform", NULL};

int iso_config_choice(const iso_layer_config *config, const char *key, const char *const *names)
{
    const char *text = config->text(config, key);
    iso_text supported = {0};
    for (int i = 0; names[i]; i++) {
        if (!text || strcmp(text, names[i]) == 0) {
            iso_text_free(&supported);
            return i;
        }
        iso_text_add(&supported, "%s'%s'", i ? ", " : "", names[i]);
    }
    iso_config_refuse(config, key, iso_text_get(&supported));
    iso_text_free(&supported);
    return 0;
}

/* The numbers of an initializer. One without spread is a constant: zero would mean Keras's default. */
static iso_initializer with_numbers(const iso_layer_config *config, iso_initializer_kind kind)
{
    iso_initializer initializer = {.kind = kind};
    if (kind == ISO_INIT_CONSTANT) {
        initializer.value = iso_config_number(config, "value", 0);
    } else if (kind == ISO_INIT_RANDOM_UNIFORM) {
        initializer.low = iso_config_number(config, "minval", -0.05);
        initializer.high = iso_config_number(config, "maxval", 0.05);
        if (initializer.low == initializer.high)
            initializer = (iso_initializer){.kind = ISO_INIT_CONSTANT, .value = initializer.low};
    } else if (kind == ISO_INIT_RANDOM_NORMAL || kind == ISO_INIT_TRUNCATED_NORMAL) {
        initializer.mean = iso_config_number(config, "mean", 0);
        initializer.stddev = iso_config_number(config, "stddev", 0.05);
        if (initializer.stddev == 0)
            initializer = (iso_initializer){.kind = ISO_INIT_CONSTANT, .value = initializer.mean};
    } else if (kind == ISO_INIT_ORTHOGONAL || kind == ISO_INIT_IDENTITY) {
        initializer.scale = iso_config_number(config, "gain", 1);
    } else if (kind == ISO_INIT_VARIANCE_SCALING) {
        const char *distribution = config->text(config, "distribution");
        initializer.scale = iso_config_number(config, "scale", 1);
        initializer.mode = (iso_fan_mode)iso_config_choice(config, "mode", iso_fan_modes);
        if (!distribution || strcmp(distribution, "normal") != 0) /* an older name of the truncated one */
            initializer.distribution =
                (iso_fan_distribution)iso_config_choice(config, "distribution", iso_fan_distributions);
    }
    return initializer;
}

iso_initializer iso_config_initializer(const iso_layer_config *config, const char *key)
{
    iso_initializer_kind kind = ISO_INIT_DEFAULT;
    const iso_layer_config *object = config->object ? config->object(config, key) : NULL;
    const char *name = object ? object->type : config->text(config, key);
    iso_text supported = {0};
    if (!name)
        return (iso_initializer){.kind = ISO_INIT_DEFAULT};
    if (!find_initializer(name, &kind)) {
        for (int i = ISO_INIT_ZEROS; i < INITIALIZERS; i++)
            iso_text_add(&supported, "%s%s", i > ISO_INIT_ZEROS ? ", " : "", initializers[i].keras);
        iso_config_refuse(config, key, iso_text_get(&supported));
        iso_text_free(&supported);
    }
    return object ? with_numbers(object, kind) : (iso_initializer){.kind = kind};
}

/* ---- regularizers ---- */

/* The factors of a regularizer: L1, L2 or L1L2; 0: none. */
static void read_penalty(const iso_layer_config *config, const char *key, double *l1, double *l2)
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
    read_penalty(config, key, l1, l2);
}
