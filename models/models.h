/* The built-in models, constant descriptions: the networks of the guides that Isogrid follows.
 * Functions are local unless their comment says otherwise; every rank makes the same calls. */
#ifndef ISO_MODELS_MODELS_H
#define ISO_MODELS_MODELS_H

#include "models/bert.h"
#include "models/gpt.h"
#include "models/llama.h"
#include "models/vit.h"
#include "runtime/train/train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The least and the largest whole number that a setting of a built-in model can be. */
enum { ISO_BUILTIN_LEAST = 1, ISO_BUILTIN_MOST = 1 << 20 };

typedef struct iso_builtin_model {
    const char *name;        /* "convnet" */
    const char *description; /* one line */
    /* x: [batch, 28, 28, 1] -> [batch, outputs]; also other shapes that its layers accept. With `tokens`, x:
     * integers [batch, t] -> [batch, t, outputs]. settings: a struct of the model's type; NULL: its defaults */
    iso_tensor *(*build)(iso_tensor *x, int outputs, const void *settings);
    bool tokens;
    /* With `tokens`: an encoder, by default of rows, -> [batch, outputs]. Tokens are below the setting "vocabulary",
     * otherwise below `outputs`. */
    bool labels;
    iso_shape image; /* of a row if no data have one and no setting says otherwise; without `tokens` */
    /* Its numbers, as in "gpt:layers=2"; NULL: none. With `tokens` one is "context", otherwise two are "image" and
     * "channels". */
    const struct iso_setting *settings;
    /* Its guide's choices; loss and metrics are those of iso_builtin_model_objective where settings decide them. */
    iso_optimizer (*optimizer)(void);
    iso_loss loss;
    iso_metric metrics[ISO_MAX_METRICS];
    int batch;   /* its guide's batch size */
    int outputs; /* its guide's number of outputs */
} iso_builtin_model;

/* The settings of any built-in model. */
typedef union iso_builtin_settings {
    iso_bert_options bert;
    iso_gpt_options gpt;
    iso_llama_options llama;
    iso_vit_options vit;
} iso_builtin_settings;

ISO_API int iso_builtin_model_count(void);
/* Constant; NULL outside [0, count). */
ISO_API const iso_builtin_model *iso_builtin_model_at(int index);
/* *model is constant. ISO_INVALID suggests similar names. */
ISO_API iso_status iso_builtin_model_find(const char *name, const iso_builtin_model **model);
/* Sets the loss, .ignore_class and the metrics that a model of these settings is trained with, among options that
 * have none: those above, but for BERT with a head for tokens, whose labels of -100 do not count. Returns the number
 * of outputs if the settings decide it (the vocabulary of a masked head), otherwise 0. settings: NULL: defaults. */
ISO_API int iso_builtin_model_objective(const iso_builtin_model *model, const iso_builtin_settings *settings,
                                        iso_compile_options *options);
/* The model for rows of this shape (its input is "image", or "tokens") with `outputs` outputs (classes, or tokens),
 * in ISO_F32, ISO_F64 or ISO_BF16 (iso_graph_set_precision), seeded by the context. settings: NULL: the defaults. As
 * iso_model_create: never NULL, errors stay in it; freed with iso_model_destroy(). */
ISO_API iso_model *iso_builtin_model_create(iso_context *ctx, const iso_builtin_model *model, iso_shape shape,
                                            int outputs, iso_dtype precision,
                                            const iso_builtin_settings *settings);
/* The same with adapters, as between iso_lora_begin and iso_lora_end; lora NULL: without. */
ISO_API iso_model *iso_builtin_model_create_adapted(iso_context *ctx, const iso_builtin_model *model,
                                                    iso_shape shape, int outputs, iso_dtype precision,
                                                    const iso_builtin_settings *settings,
                                                    const iso_lora_options *lora);

#ifdef __cplusplus
}
#endif
#endif
