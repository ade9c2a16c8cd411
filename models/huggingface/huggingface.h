/* Pretrained GPT-2, LLaMA and decoders like it, BERT, RoBERTa, DistilBERT and ViT in the form of Hugging Face's
 * transformers: a folder with config.json and model.safetensors, or several files that
 * model.safetensors.index.json names.
 * Functions are local unless their comment says otherwise. */
#ifndef ISO_MODELS_HUGGINGFACE_HUGGINGFACE_H
#define ISO_MODELS_HUGGINGFACE_HUGGINGFACE_H

#include "models/models.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a classifier of rows, or of images, is trained for: problem_type of config.json. */
typedef enum iso_pretrained_problem {
    ISO_PROBLEM_BY_LABELS, /* it does not say: one label is a regression, several are classes */
    ISO_PROBLEM_REGRESSION,
    ISO_PROBLEM_SINGLE_LABEL,
    ISO_PROBLEM_MULTI_LABEL,
} iso_pretrained_problem;

/* The network of a config.json. */
typedef struct iso_pretrained {
    const iso_builtin_model *model; /* gpt, llama, bert or vit; constant */
    iso_builtin_settings settings;
    int vocabulary; /* its tokens are below it; 0: it has none */
    int outputs;    /* of the model: the vocabulary; of a classifier the labels */
    int labels;     /* of an encoder: those of the file, also if it is none of a classifier; else 0 */
    iso_pretrained_problem problem;
    double classifier_dropout; /* of an encoder: before a classifier of rows; below 0: the file has none */
} iso_pretrained;

/* Reads config.json of a folder. iso_builtin_model_create makes the model, for rows of at most `context` tokens,
 * or images:
 *     iso_builtin_model_create(ctx, net.model, ISO_SHAPE(256), net.outputs, ISO_F32, &net.settings)
 * An encoder's head is that of the file ("architectures"); another can be set in .bert.head, with `outputs` for it.
 * All but llama drop elements in training if the file says so (resid_pdrop and the like); .gpt.dropout can be
 * changed. A classifier may be made for other labels than the file's if the files of weights have none. Weights
 * are loaded after iso_compile, by iso_pretrained_load_weights. ISO_INVALID names the file, the key and the value
 * that the built-in models do not have; ISO_IO. The chief reads the file. Collective. */
ISO_API iso_status iso_pretrained_read(iso_context *ctx, const char *folder, iso_pretrained *net);

/* Sets the loss, .ignore_class and the metrics with which transformers trains such a network with so many outputs,
 * among options that have none: mean squared error of a regression, binary cross-entropy where rows have several
 * labels, otherwise those of iso_builtin_model_objective, whose result it returns. Local. */
ISO_API int iso_pretrained_objective(const iso_pretrained *net, int outputs, iso_compile_options *options);

/* The rate with which transformers drops before an encoder's classifier with these settings: that of the file, or,
 * if it has none (classifier_dropout missing or null) or a DistilBERT classifies tokens, that of other layers. For
 * .bert.classifier_dropout, which iso_pretrained_read sets so, where .bert.head or .bert.dropout has been changed.
 * 0: net is NULL. Local. */
ISO_API double iso_pretrained_classifier_dropout(const iso_pretrained *net);

/* Loads weights into a gpt, llama, bert or vit (iso_gpt and so on, iso_builtin_model_create), on any mesh,
 * compiled or not. path: a folder, a .safetensors file or a .safetensors.index.json file. Each rank reads what its
 * slots need; F16, BF16, F32 and F64 are converted to the type of the variables. Names may lack "transformer.",
 * "model." or "bert.". A classifier that the files lack keeps its weights, and a warning names its tensors; other
 * heads in the files are ignored. ISO_INVALID: the model is another network, a tensor is missing, has another shape,
 * or is in the files and not in the model, or config.json of a folder says other numbers than the model's settings,
 * such as its heads; ISO_IO. All name the file and the tensor, or the key and both values. Collective. */
ISO_API iso_status iso_pretrained_load_weights(iso_model *model, const char *path);
/* Whether `path` is a .safetensors or .safetensors.index.json file, or a folder that has model.safetensors or
 * model.safetensors.index.json, as the chief sees it. ISO_INVALID: an argument is NULL. Collective. */
ISO_API iso_status iso_pretrained_has_weights(iso_context *ctx, const char *path, bool *has);

typedef struct iso_pretrained_save_options {
    const char *path; /* positional: a folder, or a .safetensors file for the weights alone */
    /* The folder that the model was read from: config.json keeps its kind of model, if that has the network, and its
     * other keys, and the files of the tokenizer are copied. NULL: none. */
    const char *source;
    /* The type of the stored weights: "float32", "float16", "bfloat16" or "float64". NULL: the type that config.json
     * of `source` names, or else that of the variables. Rounded to the nearest. */
    const char *dtype;
    /* The most bytes of weights in a file that has several tensors; 0: 50e9, as in transformers. More weights are
     * written to several files, model-00001-of-00002.safetensors and so on, which model.safetensors.index.json lists.
     * A .safetensors file for the weights alone holds all. */
    uint64_t max_shard_size;
} iso_pretrained_save_options;
/* Writes a gpt, llama, bert or vit to a folder, which is made if it is missing and which transformers'
 * from_pretrained() opens: config.json, and the weights. problem_type of a classifier of rows is that of the loss
 * with which the model is compiled, if transformers has it. All ranks write, each its own parts. Each file gets its
 * name when it is complete, config.json last; then weights that the folder had under other names are removed, and
 * those that a killed save had begun.
 * ISO_INVALID: the model is another network or has adapters that are not merged, the type is unknown, a number is too
 * large for it, or there would be more than 512 files; ISO_IO. Collective. */
ISO_API iso_status iso_pretrained_save_with(iso_model *model, const iso_pretrained_save_options *options,
                                            size_t size);
#define iso_pretrained_save(model, ...)                                                                      \
    iso_pretrained_save_with(model, ISO_OPTIONS_AFTER(iso_pretrained_save_options, path, __VA_ARGS__))
/* Checks whether a model can be saved so: ISO_INVALID as above. Local. */
ISO_API iso_status iso_pretrained_save_check(iso_model *model, const char *path);

/* An adapter of PEFT (low-rank adaptation). */
typedef struct iso_pretrained_adapter {
    int64_t rank;
    double alpha;
    char *target;  /* of iso_lora_begin: the layers that it adapts; owned: iso_free */
    char *trained; /* the same: the layers that it has as a whole, "": none; owned: iso_free */
} iso_pretrained_adapter;
/* Reads what a folder that PEFT's save_pretrained() wrote adapts, by adapter_config.json and the names in
 * adapter_model.safetensors: adapters of products of the models above, all of one rank, and whole layers
 * ("modules_to_save"), such as a classifier. The model is made with them by iso_builtin_model_create_adapted.
 * ISO_INVALID names the file, and the key or the tensor that is not supported; ISO_IO. Collective. */
ISO_API iso_status iso_pretrained_read_adapter(iso_context *ctx, const char *folder,
                                               iso_pretrained_adapter *adapter);
/* Loads the tensors of such a folder into a model with these adapters, on any mesh, compiled or not. Where their
 * model has several of our kernels in one (c_attn of GPT-2), each gets a copy of A, and its part of B. ISO_INVALID:
 * a matrix is missing, or a tensor has another shape, or is in the file and not in the model; ISO_IO. Collective. */
ISO_API iso_status iso_pretrained_load_adapter(iso_model *model, const char *folder);
/* Writes the adapters of a model, and the other layers that are trained, as such a folder, which PEFT's
 * PeftModel.from_pretrained() opens; a classifier in any case. base: the folder of the model without them, which
 * all ranks read and the file names; NULL: none. ISO_INVALID: the model has no adapters, or is another network; a
 * table or a layer with an adapter is trained; or ranks would differ because Hugging Face has some of the kernels in
 * one matrix. ISO_IO. Collective. */
ISO_API iso_status iso_pretrained_save_adapter(iso_model *model, const char *folder, const char *base);
/* Checks whether they can be saved so: ISO_INVALID as above. Local. */
ISO_API iso_status iso_pretrained_save_adapter_check(iso_model *model, const char *folder, const char *base);

#ifdef __cplusplus
}
#endif
#endif
