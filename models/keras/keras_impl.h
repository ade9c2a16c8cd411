/* What reading Keras's files consists of. For models/keras only. */
#ifndef ISO_MODELS_KERAS_KERAS_IMPL_H
#define ISO_MODELS_KERAS_KERAS_IMPL_H

#include "models/keras/keras.h"
#include "models/layers/config.h"
#include "runtime/base/json.h"
#include "runtime/base/text.h"

/* ---- where something stands in a file, for messages ---- */
enum { ISO_KERAS_PLACE = 512 };

/* Lives while a config.json is read. */
typedef struct iso_keras_reader {
    iso_context *ctx;            /* the chief warns; NULL: nobody does */
    const char *file;            /* "net.keras: config.json" */
    char place[ISO_KERAS_PLACE]; /* "layers[3] (Conv2D 'conv')", "" at the top */
    int n_calls;                 /* of layers, so far */
    int quiet;                   /* no warnings: a layer's later calls */
} iso_keras_reader;

/* "FILE: PLACE: ..." as an ISO_INVALID. */
iso_status iso_keras_refuse(const iso_keras_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same as a warning by the chief. */
void iso_keras_warn(const iso_keras_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Goes into a part of the file ("layers[3]"): returns the length to go back to. */
size_t iso_keras_enter(iso_keras_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void iso_keras_leave(iso_keras_reader *reader, size_t length);
/* A value as JSON, shortened where it is long; returns text. */
char *iso_keras_value(const json_t *value, char *text, size_t size);
/* A member that must be a text, an object or a list; NULL where it is missing or another type. */
const char *iso_keras_text(const json_t *object, const char *key);

/* ---- the arguments of an object: a layer's config over JSON (keras_arguments.c) ---- */
typedef struct iso_keras_arguments iso_keras_arguments;
struct iso_keras_arguments {
    iso_layer_config config; /* its impl is this */
    iso_keras_reader *reader;
    const json_t *members;                     /* the object's config; NULL: none */
    const json_t *call;                        /* what the layer is called with, by name; NULL: nothing */
    json_t *left;                              /* the members that nobody has looked up yet */
    json_t *call_left;                         /* likewise */
    char path[128];                            /* of an object within: "kernel_initializer." */
    iso_keras_arguments *outer, *inner, *next; /* the objects within that have been looked up */
    char refused[512];                         /* of the outermost: the first refusal; "": none */
};
/* arguments must be zero but for reader, members, call, config.name and config.type. ISO_NO_MEMORY. */
iso_status iso_keras_arguments_begin(iso_keras_arguments *arguments);
/* Takes a key as looked up. */
void iso_keras_arguments_take(iso_keras_arguments *arguments, const char *key);
/* Refuses what was refused, and each argument that nobody has looked up and that is not what Keras takes
 * where nothing is said; warns of seeds. Frees. status: of building; an error of it comes first. */
iso_status iso_keras_arguments_end(iso_keras_arguments *arguments, iso_status status);
/* An object {"module", "class_name", "config", "registered_name"} of Keras's own: its class, NULL where the
 * value is none. `custom` where it is one of the user's, which is never executed. */
const char *iso_keras_class(const json_t *value, bool *custom);

/* ---- networks (network.c) ---- */

/* Tensors in a list that grows. */
typedef struct iso_keras_list {
    int count;
    iso_tensor **tensor;
    const char **name; /* the keys of a dictionary; NULL: none */
} iso_keras_list;
void iso_keras_list_free(iso_keras_list *list);
/* Builds what config.json describes into a graph; the inputs and outputs of the whole. */
iso_status iso_keras_network_build(iso_keras_reader *reader, iso_graph *graph, const json_t *model,
                                   iso_keras_list *inputs, iso_keras_list *outputs);
/* What compile_config says for a model, as far as Isogrid has it; the chief warns of the rest (compile.c). */
void iso_keras_compile_read(iso_keras_reader *reader, const json_t *compile, iso_model *model,
                            iso_compile_options *options);
/* From the text of a config.json, which messages call `name`, to a model: what iso_keras_load does when it
 * has read it. Local. */
iso_status iso_keras_parse(iso_context *ctx, const char *name, const char *text, size_t bytes,
                           const iso_keras_load_options *options);

#endif
