/* Layers described by data: every layer type with a builder that takes Keras's arguments by name. Files and
 * tests build layers so; programs call the functions of models/layers.h. */
#ifndef ISO_MODELS_LAYERS_CONFIG_H
#define ISO_MODELS_LAYERS_CONFIG_H

#include "models/layers.h"
#include "runtime/base/row.h"
#include "runtime/graph/op.h"
#include "runtime/graph/ops/attrs.h"

/* Arguments of a layer under their names in Keras, wherever they are kept. */
typedef struct iso_layer_config iso_layer_config;
struct iso_layer_config {
    const char *name; /* of the layer; NULL: automatic */
    const char *type; /* the class whose arguments these are: "Dense", "GlorotUniform"; NULL: not said */
    /* Writes at most `capacity` numbers (booleans as 0 and 1) of a key and returns how many it has; 0 where
     * it is missing. */
    int (*numbers)(const iso_layer_config *config, const char *key, double *values, int capacity);
    /* The text of a key; NULL where it is missing or is none. Lent. */
    const char *(*text)(const iso_layer_config *config, const char *key);
    /* The arguments of the object that a key has (an initializer, a regularizer, an activation); NULL where
     * it is missing or is none. Lent. NULL: this config has no objects. */
    const iso_layer_config *(*object)(const iso_layer_config *config, const char *key);
    /* Takes note that a key has a value that the layer cannot have; supported: "'valid', 'same'". NULL: it is
     * an error in the graph where the builder has one. */
    void (*refuse)(const iso_layer_config *config, const char *key, const char *supported);
    void *impl;
};

typedef struct iso_layer_type {
    const char *keras; /* the class in Keras: "Dense" */
    /* x: the inputs, `count` of them. Errors stay in their graph, and refused arguments in the config. Each
     * argument that the layer has is looked up, whatever it is: a file's reader refuses those that were not
     * and are not what Keras takes for them. */
    iso_tensor *(*build)(const iso_layer_config *config, iso_tensor *const *x, int count);
    bool several; /* it may have more inputs than one */
} iso_layer_type;

/* Every layer type (list.h). */
int iso_layer_type_count(void);
const iso_layer_type *iso_layer_type_at(int index);
const iso_layer_type *iso_layer_type_find(const char *keras); /* or NULL */

/* An activation. Its row: Keras's name; the class of Keras's layer that is named for it, or NULL; that layer's
 * settings, which are members of iso_activation_numbers. */
typedef struct iso_activation_type {
    iso_row row;
    const char *other_name; /* a second one in Keras, or NULL */
    iso_tensor *(*of)(iso_tensor *x);
    iso_tensor *(*with)(iso_tensor *x, const iso_activation_numbers *numbers); /* where `of` is NULL */
    bool not_negative; /* no setting may be negative */
    bool not_saved;    /* Keras's files have no name for it */
    /* The op that is this activation and nothing else, and its kind. Where it takes a number, that is the row's only
     * setting. NULL: it is more than one op. */
    const iso_op_type *op;
    iso_unary_kind unary;
} iso_activation_type;

/* The rows of all activations, at the index of their kind. */
extern const iso_row *const iso_activations[];

#endif
