/* Layers described by data: every layer type has a builder that takes Keras's arguments by name. Readers of
 * files and tests build layers in this way; programs call the functions of models/layers.h. */
#ifndef ISO_MODELS_LAYERS_CONFIG_H
#define ISO_MODELS_LAYERS_CONFIG_H

#include "models/layers.h"
#include "runtime/base/descriptor.h"
#include "runtime/graph/op.h"
#include "runtime/graph/ops/attrs.h"

/* Arguments of a layer under their names in Keras, in any storage. */
typedef struct iso_layer_config iso_layer_config;
struct iso_layer_config {
    const char *name; /* of the layer; NULL: automatic */
    const char *type; /* the class whose arguments these are: "Dense", "GlorotUniform"; NULL: unknown */
    /* Writes at most `capacity` numbers (booleans as 0 and 1, null in a list as NAN) of a key and returns how many it
     * has; 0 if it is missing. */
    int (*numbers)(const iso_layer_config *config, const char *key, double *values, int capacity);
    /* The shape of a key's nested lists: of no dimensions for a number, [0] for null. False if the key is missing, or
     * its lists are not those of an array, which is refused. */
    bool (*shape)(const iso_layer_config *config, const char *key, iso_shape *shape);
    /* The text of a key; NULL if it is missing or not a text. Owned by the config. */
    const char *(*text)(const iso_layer_config *config, const char *key);
    /* The arguments of the object that a key has (an initializer, a regularizer, an activation); NULL if it is
     * missing or not an object. Owned by the config. NULL: this config has no objects. */
    const iso_layer_config *(*object)(const iso_layer_config *config, const char *key);
    /* The same for a layer of which the layer is made; its name is set, and it has the policy of the layer. NULL:
     * this config has no layers. */
    const iso_layer_config *(*layer)(const iso_layer_config *config, const char *key);
    /* Records that a key has a value that the layer does not support; supported: "'valid', 'same'". NULL: the
     * builder records an error in the graph if it has one. */
    void (*refuse)(const iso_layer_config *config, const char *key, const char *supported);
    void *impl;
};

/* What a layer does with the mask of its input (layer.h), as Keras's layer of that type. */
typedef enum iso_masks_rule {
    ISO_MASKS_DROPPED = 0, /* its results have none; a warning says so */
    ISO_MASKS_PASSED,      /* its result has those of its first input */
    ISO_MASKS_MADE,        /* it sets those of its result itself, and may compute with those of its inputs */
} iso_masks_rule;

typedef struct iso_layer_type {
    const char *keras; /* the class in Keras: "Dense" */
    /* For a class that is not of keras.layers: the names under which files have it. "keras_hub.layers" and
     * "keras_hub>PositionEmbedding", a package's; or "keras.src.applications.convnext" and "LayerScale", a class
     * without package, which both names together identify. NULL: a class of keras.layers. */
    const char *module, *registered;
    /* x: the inputs, `count` of them. Errors stay in their graph, and refused arguments in the config. The
     * builder looks up every argument that the layer has: the reader of a file refuses arguments that were not
     * looked up and do not have Keras's default value. */
    iso_tensor *(*build)(const iso_layer_config *config, iso_tensor *const *x, int count);
    bool any_rank; /* computes each place alone, with any number of dimensions before those that it needs */
    bool several;  /* may have more than one input */
    bool separate; /* its inputs are arguments of the call, one by one, and not a list */
    bool
        wraps; /* the layers in it have a setting `trainable` of their own; its own says nothing about them */
    iso_masks_rule masks;
    bool takes_mask;    /* its calls may have a mask of their own: iso_config_mask (masks.h) */
    bool not_trainable; /* Keras's class has no argument `trainable`, which files must not have then */
} iso_layer_type;

/* Builds a layer of this type, and regularizes its results by the argument activity_regularizer, which all classes of
 * Keras have. */
iso_tensor *iso_layer_type_build(const iso_layer_type *type, const iso_layer_config *config,
                                 iso_tensor *const *x, int count);

/* Every layer type (list.h). */
int iso_layer_type_count(void);
const iso_layer_type *iso_layer_type_at(int index);
const iso_layer_type *iso_layer_type_find(const char *keras); /* or NULL */

/* An activation. Its row: Keras's name; the class of the Keras layer for this activation, or NULL; the settings
 * of that layer, which are members of iso_activation_numbers. */
typedef struct iso_activation_type {
    iso_descriptor row;
    const char *other_name; /* a second one in Keras, or NULL */
    iso_tensor *(*of)(iso_tensor *x);
    iso_tensor *(*with)(iso_tensor *x, const iso_activation_numbers *numbers); /* if `of` is NULL */
    bool not_negative; /* no setting may be negative */
    bool not_saved;    /* Keras's files have no name for it */
    /* The op that computes exactly this activation, and its kind. If the op takes a number, it is the row's only
     * setting. NULL: the activation is more than one op. */
    const iso_op_type *op;
    iso_unary_kind unary;
} iso_activation_type;

/* The rows of all activations, at the index of their kind. */
extern const iso_descriptor *const iso_activations[];

#endif
