/* The parts of the reader and writer of Hugging Face's files. For models/huggingface only. */
#ifndef ISO_MODELS_HUGGINGFACE_HUGGINGFACE_IMPL_H
#define ISO_MODELS_HUGGINGFACE_HUGGINGFACE_IMPL_H

#include "models/huggingface/huggingface.h"
#include "models/huggingface/weight_files.h"
#include "runtime/base/json.h"
#include "runtime/base/shards.h"
#include "runtime/checkpoint/safetensors.h"

#define ISO_HF_CONFIG "config.json"
#define ISO_HF_WEIGHTS "model.safetensors"
#define ISO_HF_INDEX "model.safetensors.index.json"

/* ---- architectures (architectures.c) ---- */

/* The dimensions of their tensor. */
typedef enum iso_hf_form {
    ISO_HF_PLAIN,       /* a vector or a matrix */
    ISO_HF_LEADING_ONE, /* [1, rows, columns] */
    ISO_HF_PATCHES,     /* of a matrix [width, channels patch patch]: [width, channels, patch, patch] */
} iso_hf_form;

/* How several variables are in one of their matrices, of outputs. */
typedef enum iso_hf_order {
    ISO_HF_EQUAL,    /* side by side, and all of one length */
    ISO_HF_BY_HEADS, /* side by side, and as long as queries, keys and values of llama */
    ISO_HF_IN_HEADS, /* each head has its part of each, side by side */
} iso_hf_order;

/* Where a variable is in their files. '#' stands for the number of a block. Their tensor is a vector, or a matrix
 * whose rows are the first `inputs` dimensions of ours and whose columns are the others (transposed: the other way
 * round). With experts, the first dimension of ours counts experts, of which each has a tensor: '@' stands for its
 * number, and the rest is said of the other dimensions. */
typedef struct iso_hf_tensor {
    const char *ours, *theirs;
    int inputs; /* 0: a vector */
    bool transposed;
    int part, parts; /* ours is this one of parts of their outputs; parts 0: the whole */
    iso_hf_order order;
    bool optional; /* of a classifier: if the files lack it, ours stays as it was drawn */
    iso_hf_form form;
    bool experts;
    int input_part, input_parts; /* ours is this one of parts of their inputs; input_parts 0: the whole */
} iso_hf_tensor;

typedef enum iso_hf_kind {
    ISO_HF_COUNT,
    ISO_HF_SIDE, /* of a square: a count, or a list of two equal ones */
    ISO_HF_REAL,
    ISO_HF_POSITIVE,
    ISO_HF_FLAG,
    ISO_HF_FIXED
} iso_hf_kind;

/* A key of config.json. */
typedef struct iso_hf_key {
    const char *key;
    iso_hf_kind kind;
    const char *setting; /* of the built-in model */
    double fallback;     /* if the file lacks the key */
    const char *fixed;   /* of ISO_HF_FIXED: the only value that we have, as JSON; a file may lack the key */
    bool zero_is_null;   /* a setting of 0 is null in the file; ISO_HF_FIXED: null is accepted */
} iso_hf_key;

/* Another name of a key of config.json. */
typedef struct iso_hf_alias {
    const char *alias, *key;
} iso_hf_alias;

typedef struct iso_hf_architecture {
    const char *type, *class; /* in config.json: "gpt2", "GPT2LMHeadModel" */
    const char *builtin;
    size_t size;                  /* of the model's options */
    bool labels;                  /* its outputs are the labels of id2label; otherwise tokens */
    const char *prefix;           /* of the names, which files of the bare model lack */
    const iso_hf_tensor *tensors; /* ends with NULL */
    const char *const *ignored;   /* tensors that hold nothing that the model has; ends with NULL */
    /* Of tokens, of which files of a model with tied tables may have a copy, and its name; NULL: none has. */
    const char *table, *copy;
    const char *task;            /* of PEFT; NULL: none */
    const iso_hf_key *keys;      /* ends with NULL */
    const iso_hf_alias *aliases; /* ends with NULL; NULL: there are none */
    /* What no row says. file: for messages. Reads settings, which have the values of the rows; adds keys to an object
     * that has those of the rows. */
    iso_status (*read)(const char *file, const json_t *config, iso_builtin_settings *settings);
    void (*write)(const iso_builtin_settings *settings, json_t *config);
    /* Whether it has a network of these settings; NULL: it has all. */
    bool (*has)(const iso_builtin_settings *settings);
    const char *lacks; /* for messages: what it has not; NULL: it has all */
    /* Whether a config.json can say the settings of such a network with which it is trained; path: for messages.
     * NULL: it can. */
    iso_status (*check)(const char *path, const iso_builtin_settings *settings);
} iso_hf_architecture;

/* Those of gpt2.c, gpt_neox.c, starcoder2.c, decoders.c, mixtures.c, gemma.c, olmo3.c and smollm3.c, in the order of
 * iso_hf_architectures. */
extern const iso_hf_architecture iso_hf_gpt2, iso_hf_gpt_neox, iso_hf_starcoder2, iso_hf_llama,
    iso_hf_mistral, iso_hf_qwen2, iso_hf_qwen3, iso_hf_phi3, iso_hf_mixtral, iso_hf_qwen3_moe, iso_hf_gemma,
    iso_hf_gemma2, iso_hf_gemma3, iso_hf_olmo2, iso_hf_granite, iso_hf_olmoe, iso_hf_qwen2_moe, iso_hf_olmo3,
    iso_hf_smollm3;
#define ISO_HF_DECODERS                                                                                      \
    &iso_hf_gpt2, &iso_hf_gpt_neox, &iso_hf_starcoder2, &iso_hf_llama, &iso_hf_mistral, &iso_hf_qwen2,       \
        &iso_hf_qwen3, &iso_hf_phi3, &iso_hf_mixtral, &iso_hf_qwen3_moe, &iso_hf_gemma, &iso_hf_gemma2,      \
        &iso_hf_gemma3, &iso_hf_olmo2, &iso_hf_granite, &iso_hf_olmoe, &iso_hf_qwen2_moe, &iso_hf_olmo3,     \
        &iso_hf_smollm3
/* Those of encoders.c, likewise: of one type the first classifies rows. */
extern const iso_hf_architecture iso_hf_bert, iso_hf_roberta, iso_hf_xlm_roberta, iso_hf_distilbert,
    iso_hf_vit, iso_hf_bert_tokens, iso_hf_roberta_tokens, iso_hf_xlm_roberta_tokens,
    iso_hf_distilbert_tokens, iso_hf_bert_masked, iso_hf_roberta_masked, iso_hf_xlm_roberta_masked,
    iso_hf_distilbert_masked;
#define ISO_HF_ENCODERS                                                                                      \
    &iso_hf_bert, &iso_hf_roberta, &iso_hf_xlm_roberta, &iso_hf_distilbert, &iso_hf_vit,                     \
        &iso_hf_bert_tokens, &iso_hf_roberta_tokens, &iso_hf_xlm_roberta_tokens, &iso_hf_distilbert_tokens,  \
        &iso_hf_bert_masked, &iso_hf_roberta_masked, &iso_hf_xlm_roberta_masked, &iso_hf_distilbert_masked

/* All; ends with NULL. */
extern const iso_hf_architecture *const iso_hf_architectures[];
/* The first architecture that has a model, and its settings. ISO_INVALID: none has it; `use` begins the message. */
iso_status iso_hf_architecture_of(iso_model *model, const char *use, const iso_hf_architecture **architecture,
                                  iso_builtin_settings *settings);
/* Whether another one has the same model. */
bool iso_hf_architecture_fits(const iso_hf_architecture *other, const iso_hf_architecture *architecture,
                              const iso_builtin_settings *settings);
/* The value in a file of JSON of at most `most` bytes; owned by the caller: json_decref. */
iso_status iso_hf_read_json(const char *path, size_t most, json_t **value);
/* Writes an object as the file `name` of a folder, in place of an older one, and frees it; NULL: its creation
 * failed. */
iso_status iso_hf_write_json(const char *folder, const char *name, json_t *object);
/* The architecture that a config.json names by its model_type and, if one has it, the class in "architectures";
 * NULL: none. */
const iso_hf_architecture *iso_hf_architecture_find(const json_t *config);
/* The first one of the model_type of a config.json that has the model of another architecture; NULL: none. */
const iso_hf_architecture *iso_hf_architecture_like(const json_t *config, const iso_hf_architecture *other,
                                                    const iso_builtin_settings *settings);
/* The row of a variable and the number of its block (0 if it is in none). NULL: there is none. */
const iso_hf_tensor *iso_hf_tensor_of(const iso_hf_architecture *architecture, const char *path,
                                      int64_t *block);
/* Writes the name of a tensor, with the numbers in the places of '#' and '@'. */
enum { ISO_HF_NAME = 200 };
char *iso_hf_name(const iso_hf_tensor *row, int64_t block, int64_t expert, char text[ISO_HF_NAME]);
/* Whether a tensor of a row may have this name; the path of ours then. */
bool iso_hf_name_fits(const iso_hf_tensor *row, const char *name, char ours[ISO_HF_NAME]);
/* Whether a variable is one that their files have: neither the optimizer's nor an adapter's. */
bool iso_hf_is_theirs(const iso_variable *variable);
/* Whether a name, perhaps without the prefix, is that of a tensor of one of the graph's variables. */
bool iso_hf_is_known(const iso_hf_architecture *architecture, iso_graph *graph, const char *name);
/* Whether a name is that of a tensor of a head of this architecture, or of another one of its type. */
bool iso_hf_is_of_head(const iso_hf_architecture *architecture, const char *name);
/* Whether a tensor of a file holds nothing that the model has. */
bool iso_hf_is_ignored(const iso_hf_architecture *architecture, const char *name);

/* ---- config.json (config.c) ---- */

/* Makes a network from the text of a config.json, which messages call `name`. Local. */
iso_status iso_hf_config_parse(const char *name, const char *text, size_t bytes, iso_pretrained *net);
/* Whether a model of these settings, of a built-in one of this name, is the network of a folder's config.json, if it
 * has one of a network that can be this one. ISO_INVALID names the key and both values. Local. */
iso_status iso_hf_check_config(const char *folder, const char *builtin, const iso_builtin_settings *settings);
/* The keys of a model's config.json, added to those of `config`. dtype: the name of the type of its weights. */
void iso_hf_config_write(const iso_hf_architecture *architecture, const iso_builtin_settings *settings,
                         const char *dtype, json_t *config);
/* The error ISO_INVALID: "FILE: KEY is VALUE; SUPPORTED". */
iso_status iso_hf_refuse(const char *file, const char *key, const json_t *value, const char *supported);
/* The number of labels of a config.json, and what they are for; and the keys of a model with `count` labels: the
 * names that `config` has if they are as many, otherwise those of transformers. ISO_INVALID: iso_hf_refuse. */
iso_status iso_hf_read_labels(const char *file, const json_t *config, iso_pretrained *net);
void iso_hf_write_labels(int64_t count, json_t *config);
/* Sets the problem_type of a classifier of rows that was trained with a loss, unless `config` says so already. */
void iso_hf_write_problem(iso_loss loss, int64_t labels, json_t *config);
/* The rate before the classifier of an encoder, whose other settings have been read. ISO_INVALID: iso_hf_refuse. */
iso_status iso_hf_read_classifier_dropout(const char *file, const json_t *config, iso_pretrained *net);
/* A number that a key has; false: it has another value, such as null, which transformers takes of few keys. A key
 * that is missing has the fallback. */
bool iso_hf_number(const json_t *config, const char *key, double fallback, double *number);

/* A key that is true or false, or missing. ISO_INVALID: iso_hf_refuse. */
iso_status iso_hf_read_flag(const char *file, const json_t *config, const char *key, bool fallback,
                            bool *flag);
/* The activation of a perceptron, whether gelu is computed by tanh. A key that is missing has the fallback.
 * ISO_INVALID: it is another one. */
iso_status iso_hf_read_gelu(const char *file, const json_t *config, const char *key, const char *fallback,
                            bool *tanh);
/* A rate of dropout that several keys must have, the last of them NULL. A key that is missing has the fallback. */
iso_status iso_hf_check_rates(const char *file, const json_t *config, const char *const *keys,
                              double fallback);
/* A count from 1 to ISO_BUILTIN_MOST, and a number above 0. A key that is missing has the fallback.
 * ISO_INVALID: iso_hf_refuse. */
iso_status iso_hf_count(const char *file, const json_t *config, const char *key, int64_t fallback,
                        int64_t *count);
iso_status iso_hf_positive(const char *file, const json_t *config, const char *key, double fallback,
                           double *number);

/* ---- rotary positions (rotary.c) ---- */

/* The keys of rotary positions, to settings of llama, whose `context` is max_position_embeddings, and back.
 * ISO_INVALID: iso_hf_refuse. */
iso_status iso_hf_read_rotary(const char *file, const json_t *config, iso_llama_options *o);
/* The same with one kind of positions for blocks with a window and another for those without; o->wavelength and
 * o->local_wavelength have the values of files that lack them. */
iso_status iso_hf_read_two_rotaries(const char *file, const json_t *config, iso_llama_options *o);
void iso_hf_write_two_rotaries(const iso_llama_options *o, double local_wavelength, json_t *config);
void iso_hf_write_rotary(const iso_llama_options *o, json_t *config);
/* Whether these keys can say what the settings do. */
bool iso_hf_has_rotary(const iso_llama_options *o);

/* ---- files (files.c) ---- */

/* The file and the number in it of a tensor with this name, with the name without the prefix, or with an older name;
 * -1: none has it. */
int iso_hf_files_find(const iso_hf_files *files, const char *prefix, const char *name, iso_saved_file **file);
/* Writes the name that transformers writes for another one that it reads: of older files, whose normalisations have
 * gamma and beta, or of a copy of the bias of logits. */
char *iso_hf_new_name(const char *name, char text[ISO_HF_NAME]);
/* Removes a folder's index, if it has one, and adds the paths of the files that it named to `paths`, each with a
 * newline. Local. */
iso_status iso_hf_remove_index(const char *folder, iso_text *paths);
/* Whether a folder has a file of this name. Local. */
bool iso_hf_is_there(const char *folder, const char *name);
/* The text of a file of at most `most` bytes; iso_free. Local. */
iso_status iso_hf_read_text(const char *path, size_t most, char **text, size_t *bytes);

/* ---- elements (placement.c) ---- */

/* How many tensors a variable of this shape has in their files, and the part of a shard that is in one of them. Its
 * `count` may be 0. */
int64_t iso_hf_tensor_count(const iso_hf_tensor *row, const iso_shape *ours);
iso_state_shard iso_hf_part(const iso_hf_tensor *row, const iso_state_shard *shard, int64_t tensor);
/* The shape of their tensors for a variable of this shape, of a model of these settings. */
iso_shape iso_hf_shape(const iso_hf_tensor *row, const iso_builtin_settings *settings,
                       const iso_shape *variable);
/* Reads the elements of iso_hf_part from their tensor, which has this shape. */
iso_status iso_hf_read_shard(const iso_hf_tensor *row, const iso_builtin_settings *settings,
                             iso_saved_file *file, int tensor, const iso_state_shard *shard);
/* The tensors of a file that is to be written. Initialised with {0}. */
typedef struct iso_hf_list {
    int count;
    iso_saved_tensor *tensors; /* their names are the list's, and begin with '/' */
} iso_hf_list;
/* The number of the tensor with this name, without a '/'; -1: none. */
int iso_hf_list_find(const iso_hf_list *list, const char *name);
/* Adds a variable's tensor, which the row says, unless the list has it. */
iso_status iso_hf_list_tensor(iso_hf_list *list, const iso_hf_tensor *row,
                              const iso_builtin_settings *settings, const iso_variable *variable,
                              const char *name);
void iso_hf_list_free(iso_hf_list *list);
/* Writes the elements of iso_hf_part to their tensor, in parts that are contiguous in it. */
iso_status iso_hf_write_shard(const iso_hf_tensor *row, const iso_builtin_settings *settings,
                              const iso_state_shard *shard, iso_safetensors *file, int tensor);

#endif
