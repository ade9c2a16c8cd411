/* The parts of the reader of Keras's files. For models/keras only. */
#ifndef ISO_MODELS_KERAS_KERAS_IMPL_H
#define ISO_MODELS_KERAS_KERAS_IMPL_H

#include "models/keras/keras.h"
#include "models/layers/config.h"
#include "runtime/base/json.h"
#include "runtime/base/text.h"

/* ---- positions in a file, for messages ---- */
enum { ISO_KERAS_LOCATION = 512 };

/* Exists while a config.json is read. */
typedef struct iso_keras_reader {
    iso_context *ctx;                  /* the chief warns; NULL: no warnings */
    const char *file;                  /* "net.keras: config.json" */
    char location[ISO_KERAS_LOCATION]; /* "layers[3] (Conv2D 'conv')", "" at the top */
    int n_calls;                       /* of layers, so far */
    int quiet;                         /* no warnings: a layer's later calls */
    bool order_counts;                 /* calls are made in the order in which Keras runs them */
    bool no_policies;                  /* of the options */
    bool policies; /* some layer's policy is mixed_bfloat16, so that float32 of the others means float32 */
} iso_keras_reader;

/* The error ISO_INVALID with the message "FILE: PLACE: ...". */
iso_status iso_keras_refuse(const iso_keras_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same as a warning by the chief. */
void iso_keras_warn(const iso_keras_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Enters a part of the file ("layers[3]"); returns the length for iso_keras_leave. */
size_t iso_keras_enter(iso_keras_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void iso_keras_leave(iso_keras_reader *reader, size_t length);
/* A member that must be a text; NULL if it is missing or of another type. */
const char *iso_keras_text(const json_t *object, const char *key);

/* ---- the arguments of an object: a layer's config over JSON (keras_arguments.c) ---- */
typedef struct iso_keras_arguments iso_keras_arguments;
struct iso_keras_arguments {
    iso_layer_config config; /* its impl is this */
    iso_keras_reader *reader;
    const json_t *members;                     /* the object's config; NULL: none */
    const json_t *call;                        /* the arguments of the call, by name; NULL: none */
    json_t *left;                              /* the members that have not been looked up yet */
    json_t *call_left;                         /* the same of the call */
    char path[128];                            /* of a nested object: "kernel_initializer." */
    iso_keras_arguments *outer, *inner, *next; /* nested objects that have been looked up */
    char refused[512];                         /* of the outermost: the first refusal; "": none */
};
/* arguments must be zero but for reader, members, call, config.name and config.type. ISO_NO_MEMORY. */
iso_status iso_keras_arguments_begin(iso_keras_arguments *arguments);
/* Marks a key as looked up. */
void iso_keras_arguments_take(iso_keras_arguments *arguments, const char *key);
/* ISO_INVALID for arguments that the builder refused, and for each argument that was not looked up and does not
 * have Keras's default value; warns about seeds. Frees. status: of building; its error comes first. */
iso_status iso_keras_arguments_end(iso_keras_arguments *arguments, iso_status status);
/* The class of an object {"module", "class_name", "config", "registered_name"} of Keras; NULL if the value is
 * not one. *custom: it is a class of the user's, which is never executed. */
const char *iso_keras_class(const json_t *value, bool *custom);

/* Whether two values of `dtype` are one policy (policies.c); NULL: missing, which is any. */
bool iso_keras_same_policy(const json_t *a, const json_t *b);

/* ---- networks (network.c) ---- */

/* Tensors in a list that grows. */
typedef struct iso_keras_list {
    int count;
    iso_tensor **tensor;
    const char **name; /* the keys of a dictionary; NULL: none */
} iso_keras_list;
void iso_keras_list_free(iso_keras_list *list);
/* Builds the network of config.json in a graph; returns the inputs and outputs of the whole model. */
iso_status iso_keras_network_build(iso_keras_reader *reader, iso_graph *graph, const json_t *model,
                                   iso_keras_list *inputs, iso_keras_list *outputs);
/* Reads the supported settings of compile_config for a model; the chief warns about the others (compile.c). */
void iso_keras_compile_read(iso_keras_reader *reader, const json_t *compile, iso_model *model,
                            iso_compile_options *options);
/* Makes a model from the text of a config.json, which messages call `name`: the part of iso_keras_load after
 * reading. Local. */
iso_status iso_keras_parse(iso_context *ctx, const char *name, const char *text, size_t bytes,
                           const iso_keras_load_options *options);

#endif
