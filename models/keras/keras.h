/* Models of Keras 3: from a .keras file, or its config.json, to a model.
 * Functions are local unless their comment says otherwise. */
#ifndef ISO_MODELS_KERAS_KERAS_H
#define ISO_MODELS_KERAS_KERAS_H

#include "runtime/base/free.h"
#include "runtime/train/train.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iso_keras_load_options {
    iso_model **model;   /* positional: where the model goes */
    iso_dtype precision; /* ISO_F32, or ISO_F64: the network as its own oracle */
    /* Where not NULL, receives what the file says of optimizer, losses and metrics, for iso_compile_with.
     * What Isogrid does not have of it is left out with a warning; iso_compile_with refuses an optimizer or a
     * loss that is missing so, unless the caller has put another in its place. */
    iso_compile_options *compile;
} iso_keras_load_options;

/* Builds the model of a .keras file, or of a config.json (by the name's ending: .json), in a graph seeded by
 * the context: Sequential and Functional, models within models, shared layers, several inputs and outputs. A
 * layer's variables are called as everywhere ("conv/kernel", "encoder/conv/kernel" in a model within). Every
 * argument in the file is honoured or refused: ISO_INVALID names the file, the layer, the argument and what
 * is supported. Nothing that a file brings is executed. The chief reads; weights follow after iso_compile:
 * iso_keras_load_weights. Collective. */
ISO_API iso_status iso_keras_load_with(iso_context *ctx, const char *path,
                                       const iso_keras_load_options *options, size_t size);
#define iso_keras_load(ctx, path, ...)                                                                       \
    iso_keras_load_with(ctx, path, ISO_OPTIONS_AFTER(iso_keras_load_options, model, __VA_ARGS__))

/* Gives a compiled model the weights of a .keras file, and the optimizer's state where the file has one of
 * such an optimizer, on any mesh; as iso_model_load_weights does from other files. Collective. */
ISO_API iso_status iso_keras_load_weights_with(iso_model *model, const iso_load_weights_options *options,
                                               size_t size);
#define iso_keras_load_weights(model, ...)                                                                   \
    iso_keras_load_weights_with(model, ISO_OPTIONS_AFTER(iso_load_weights_options, path, __VA_ARGS__))

/* The weights of a .keras file as a file of their own, in TMPDIR. file -1: there is none. */
typedef struct iso_keras_unpacked {
    int file; /* open, and locked as long as it is wanted */
    char path[4096];
} iso_keras_unpacked;
/* For who only looks into a .keras file: a member ("metadata.json", "config.json") as a text of its own
 * (iso_free) of *bytes and a zero; and its weights, which the caller removes, also after an error.
 * ISO_INVALID, ISO_IO name the file. On one rank. Local. */
ISO_API iso_status iso_keras_read_member(const char *path, const char *member, char **text, size_t *bytes);
ISO_API iso_status iso_keras_unpack_weights(const char *path, iso_keras_unpacked *unpacked);
ISO_API void iso_keras_unpacked_remove(iso_keras_unpacked *unpacked);

/* Writes a model into a file that ends in ".keras", which Keras's load_model() opens: layers and how
 * they are connected, weights, and where it is compiled what with and the optimizer's state: it predicts the
 * same there and can be trained on. All ranks write the weights, beside the final place; the chief joins
 * everything, and gives it the name when it is whole: what had the name before is as it was until then.
 * Ops outside of layers become the layers that do the same. ISO_INVALID names the op or layer that Keras does
 * not have, and nothing is written then; ISO_IO. Functions of one's own (losses, metrics) are left out, with
 * a warning. Collective. */
ISO_API iso_status iso_keras_save(iso_model *model, const char *path);
/* Whether a model, which need not be compiled, can be in such a file; its errors as above. Local. */
ISO_API iso_status iso_keras_save_check(iso_model *model, const char *path);

#ifdef __cplusplus
}
#endif
#endif
