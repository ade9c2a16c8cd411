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
    iso_model **model;   /* positional: receives the model */
    iso_dtype precision; /* ISO_F32, ISO_F64 or ISO_BF16: iso_graph_set_precision */
    /* If not NULL, receives the file's optimizer, losses and metrics for iso_compile_with. Unsupported settings
     * are omitted with a warning; iso_compile_with refuses a model whose optimizer or loss was omitted, unless
     * the caller has set another. */
    iso_compile_options *compile;
    bool quiet;       /* no warnings of what is left out */
    bool no_policies; /* layers compute in `precision`, whatever their policies are */
    /* Adapters, as between iso_lora_begin and iso_lora_end; NULL: those of layers that have a lora_rank. */
    const iso_lora_options *lora;
} iso_keras_load_options;

/* Builds the model of a .keras file, or of a config.json (by the name's ending: .json), in a graph seeded by
 * the context: Sequential and Functional, models within models, shared layers, several inputs and outputs. A
 * layer's variables have their usual paths ("conv/kernel", "encoder/conv/kernel" in a nested model). Every
 * argument in the file is honoured or refused: ISO_INVALID names the file, the layer, the argument and the
 * supported values. No code in a file is executed. The chief reads the file. Weights are loaded after
 * iso_compile, by iso_keras_load_weights. Collective. */
ISO_API iso_status iso_keras_load_with(iso_context *ctx, const char *path,
                                       const iso_keras_load_options *options, size_t size);
#define iso_keras_load(ctx, path, ...)                                                                       \
    iso_keras_load_with(ctx, path, ISO_OPTIONS_AFTER(iso_keras_load_options, model, __VA_ARGS__))

/* Loads the weights of a .keras file into a compiled model, on any mesh, and the optimizer's state if the file
 * has that of the same optimizer, as iso_model_load_weights does from other files. ISO_INVALID: the file or the model
 * cannot be used; ISO_IO. Both name the file. Collective. */
ISO_API iso_status iso_keras_load_weights_with(iso_model *model, const iso_load_weights_options *options,
                                               size_t size);
#define iso_keras_load_weights(model, ...)                                                                   \
    iso_keras_load_weights_with(model, ISO_OPTIONS_AFTER(iso_load_weights_options, path, __VA_ARGS__))

/* The weights of a .keras file as a file of their own, in TMPDIR. file -1: there is none. */
typedef struct iso_keras_unpacked {
    int file; /* open, and locked while it is used */
    char path[4096];
} iso_keras_unpacked;
/* For programs that only inspect a .keras file. iso_keras_read_member reads a member ("metadata.json",
 * "config.json") as a new text (iso_free) of *bytes and a zero; NULL: the file has none. The second function
 * extracts the weights to a file, which the caller removes, also after an error. ISO_INVALID, ISO_IO name the
 * file. On one rank. Local. */
ISO_API iso_status iso_keras_read_member(const char *path, const char *member, char **text, size_t *bytes);
ISO_API iso_status iso_keras_unpack_weights(const char *path, iso_keras_unpacked *unpacked);
ISO_API void iso_keras_unpacked_remove(iso_keras_unpacked *unpacked);

/* Writes a model to a file whose name ends in ".keras", which Keras's load_model() opens: layers, their
 * connections and weights; if the model is compiled, also the compile settings and the optimizer's state. In
 * Keras it predicts the same and can be trained further. All ranks write the weights to a temporary folder
 * beside the file; the chief joins everything. The file gets its name when it is complete; until then an
 * earlier file of this name is unchanged. Ops outside layers become layers that compute the same. ISO_INVALID
 * names the op or layer that Keras does not have; nothing is written then. ISO_IO. Losses and metrics that are
 * functions of the program are omitted, with a warning. A model with adapters is ISO_INVALID until they are merged
 * (iso_model_merge_adapters). Collective. */
ISO_API iso_status iso_keras_save(iso_model *model, const char *path);
/* Checks whether a model, compiled or not, can be saved in such a file: ISO_INVALID as above. Local. */
ISO_API iso_status iso_keras_save_check(iso_model *model, const char *path);

#ifdef __cplusplus
}
#endif
#endif
