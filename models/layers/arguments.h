/* Arguments of a config, with defaults for those that are missing (config_arguments.c). For models only. */
#ifndef ISO_MODELS_LAYERS_ARGUMENTS_H
#define ISO_MODELS_LAYERS_ARGUMENTS_H

#include "models/layers/config.h"

void iso_config_refuse(const iso_layer_config *config, const char *key, const char *supported);
double iso_config_number(const iso_layer_config *config, const char *key, double default_value);
/* The same for members of options, in which 0 means Keras's default: 0 if it is missing, ISO_ZERO if it is 0. */
double iso_config_option(const iso_layer_config *config, const char *key);
/* A whole number. */
int64_t iso_config_count(const iso_layer_config *config, const char *key, int64_t default_value);
bool iso_config_flag(const iso_layer_config *config, const char *key, bool default_value);
/* A default: a missing number is refused. */
#define ISO_REQUIRED INT64_MIN
/* A whole number from 1. 0, which means the default in options, is refused. */
int64_t iso_config_size(const iso_layer_config *config, const char *key, int64_t default_value);
/* `count` of them, or one for all. */
void iso_config_sizes(const iso_layer_config *config, const char *key, int64_t default_value, int count,
                      int64_t *sizes);
/* Keras's lora_rank and lora_alpha: the layer that is made in between has adapters if they are there. Returns y. */
void iso_config_lora_begin(const iso_layer_config *config, iso_tensor *x);
iso_tensor *iso_config_lora_end(const iso_layer_config *config, iso_tensor *x, iso_tensor *y);
/* A list of whole numbers, or one; returns their number, at most `capacity`. */
int iso_config_counts(const iso_layer_config *config, const char *key, int64_t *values, int capacity);
/* A list of sizes from 1, or one, in which null is ISO_BATCH; of no dimensions if it is missing. */
iso_shape iso_config_shape(const iso_layer_config *config, const char *key);
/* An array of numbers and its shape, to be freed with iso_free. NULL: the key is missing, null or an empty list, or
 * there is no memory, which is an error of the graph. */
double *iso_config_array(const iso_layer_config *config, iso_graph *graph, const char *key, iso_shape *shape);
/* Whether a key is given: an empty list and null are. */
bool iso_config_given(const iso_layer_config *config, const char *key);
/* The index of a text among names, which end with NULL; 0 if it is missing. Other texts are refused. */
int iso_config_choice(const iso_layer_config *config, const char *key, const char *const *names);
iso_padding iso_config_padding(const iso_layer_config *config);
/* ISO_INIT_DEFAULT if it is missing. */
iso_initializer iso_config_initializer(const iso_layer_config *config, const char *key);
/* The factors of a regularizer, L1, L2 or L1L2; 0: none. */
void iso_config_penalty(const iso_layer_config *config, const char *key, double *l1, double *l2);
/* Both for a weight: "<what>_initializer", "<what>_regularizer". */
void iso_config_weight(const iso_layer_config *config, const char *what, iso_initializer *initializer,
                       double *l1, double *l2);
/* "<what>_constraint". */
iso_weight_constraint iso_config_constraint(const iso_layer_config *config, const char *what);
#define ISO_CONFIG_WEIGHT(options, config, name)                                                             \
    (iso_config_weight(config, #name, &(options)->name##_initializer, &(options)->name##_l1,                 \
                       &(options)->name##_l2),                                                               \
     (options)->name##_constraint = iso_config_constraint(config, #name))
/* The argument "activation", a name or a layer with settings; anything else is an error. */
iso_activation_kind iso_config_activation(const iso_layer_config *config, iso_graph *graph,
                                          iso_activation_numbers *numbers);

#endif
