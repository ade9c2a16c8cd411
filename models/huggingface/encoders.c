/* The encoders: BERT, RoBERTa, DistilBERT and ViT. Names and their meaning are those of
 * transformers' models/bert, roberta, xlm_roberta, distilbert and vit. */
#include <string.h>

#include "models/huggingface/rows_impl.h"
#include "runtime/base/arguments.h"

/* ---- BERT and RoBERTa: PyTorch's Linear has matrices [outputs, inputs] ---- */

#define TOKEN_CLASSIFIER                                                                                     \
    OPTIONAL_TRANSPOSED("classifier/kernel", "classifier.weight", 1),                                        \
        OPTIONAL_VECTOR("classifier/bias", "classifier.bias")
#define BERT_TENSORS(model)                                                                                  \
    MATRIX("token_embedding/embeddings", model ".embeddings.word_embeddings.weight", 1),                     \
        MATRIX("position_embedding/embeddings", model ".embeddings.position_embeddings.weight", 1),          \
        MATRIX("type_embedding/embeddings", model ".embeddings.token_type_embeddings.weight", 1),            \
        VECTOR("embedding_norm/gamma", model ".embeddings.LayerNorm.weight"),                                \
        VECTOR("embedding_norm/beta", model ".embeddings.LayerNorm.bias"),                                   \
        TRANSPOSED("block_#/attention/query/kernel", model ".encoder.layer.#.attention.self.query.weight",   \
                   1),                                                                                       \
        VECTOR("block_#/attention/query/bias", model ".encoder.layer.#.attention.self.query.bias"),          \
        TRANSPOSED("block_#/attention/key/kernel", model ".encoder.layer.#.attention.self.key.weight", 1),   \
        VECTOR("block_#/attention/key/bias", model ".encoder.layer.#.attention.self.key.bias"),              \
        TRANSPOSED("block_#/attention/value/kernel", model ".encoder.layer.#.attention.self.value.weight",   \
                   1),                                                                                       \
        VECTOR("block_#/attention/value/bias", model ".encoder.layer.#.attention.self.value.bias"),          \
        TRANSPOSED("block_#/attention/attention_output/kernel",                                              \
                   model ".encoder.layer.#.attention.output.dense.weight", 2),                               \
        VECTOR("block_#/attention/attention_output/bias",                                                    \
               model ".encoder.layer.#.attention.output.dense.bias"),                                        \
        VECTOR("block_#/attention_norm/gamma", model ".encoder.layer.#.attention.output.LayerNorm.weight"),  \
        VECTOR("block_#/attention_norm/beta", model ".encoder.layer.#.attention.output.LayerNorm.bias"),     \
        TRANSPOSED("block_#/up/kernel", model ".encoder.layer.#.intermediate.dense.weight", 1),              \
        VECTOR("block_#/up/bias", model ".encoder.layer.#.intermediate.dense.bias"),                         \
        TRANSPOSED("block_#/down/kernel", model ".encoder.layer.#.output.dense.weight", 1),                  \
        VECTOR("block_#/down/bias", model ".encoder.layer.#.output.dense.bias"),                             \
        VECTOR("block_#/norm/gamma", model ".encoder.layer.#.output.LayerNorm.weight"),                      \
        VECTOR("block_#/norm/beta", model ".encoder.layer.#.output.LayerNorm.bias")
static const iso_hf_tensor bert_tensors[] = {
    BERT_TENSORS("bert"),
    OPTIONAL_TRANSPOSED("pooler/kernel", "bert.pooler.dense.weight", 1),
    OPTIONAL_VECTOR("pooler/bias", "bert.pooler.dense.bias"),
    OPTIONAL_TRANSPOSED("classifier/kernel", "classifier.weight", 1),
    OPTIONAL_VECTOR("classifier/bias", "classifier.bias"),
    {0}};
static const iso_hf_tensor roberta_tensors[] = {
    BERT_TENSORS("roberta"),
    OPTIONAL_TRANSPOSED("pooler/kernel", "classifier.dense.weight", 1),
    OPTIONAL_VECTOR("pooler/bias", "classifier.dense.bias"),
    OPTIONAL_TRANSPOSED("classifier/kernel", "classifier.out_proj.weight", 1),
    OPTIONAL_VECTOR("classifier/bias", "classifier.out_proj.bias"),
    {0}};

/* With a classifier of tokens. */
static const iso_hf_tensor bert_tokens_tensors[] = {BERT_TENSORS("bert"), TOKEN_CLASSIFIER, {0}};
static const iso_hf_tensor roberta_tokens_tensors[] = {BERT_TENSORS("roberta"), TOKEN_CLASSIFIER, {0}};

/* For masked tokens. */
#define MASKED_TENSORS(dense, norm, bias)                                                                    \
    OPTIONAL_TRANSPOSED("transform/kernel", dense ".weight", 1),                                             \
        OPTIONAL_VECTOR("transform/bias", dense ".bias"),                                                    \
        OPTIONAL_VECTOR("transform_norm/gamma", norm ".weight"),                                             \
        OPTIONAL_VECTOR("transform_norm/beta", norm ".bias"), OPTIONAL_VECTOR("logits/bias", bias)
static const iso_hf_tensor bert_masked_tensors[] = {BERT_TENSORS("bert"),
                                                    MASKED_TENSORS("cls.predictions.transform.dense",
                                                                   "cls.predictions.transform.LayerNorm",
                                                                   "cls.predictions.bias"),
                                                    {0}};
static const iso_hf_tensor roberta_masked_tensors[] = {
    BERT_TENSORS("roberta"), MASKED_TENSORS("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"), {0}};

/* Heads of pretraining, numbers of older versions, and a pooler that RoBERTa's classifier does not use. */
static const char *const bert_ignored[] = {"bert.embeddings.position_ids", "bert.embeddings.token_type_ids",
                                           "cls.*", NULL};
static const char *const bert_tokens_ignored[] = {
    "bert.embeddings.position_ids", "bert.embeddings.token_type_ids", "bert.pooler.*", "cls.*", NULL};
/* The head for pairs of texts, too. */
static const char *const bert_masked_ignored[] = {"bert.embeddings.position_ids",
                                                  "bert.embeddings.token_type_ids", "bert.pooler.*",
                                                  "cls.seq_relationship.*", NULL};
static const char *const roberta_masked_ignored[] = {
    "roberta.embeddings.position_ids", "roberta.embeddings.token_type_ids", "roberta.pooler.*", NULL};
static const char *const roberta_ignored[] = {"roberta.embeddings.position_ids",
                                              "roberta.embeddings.token_type_ids", "roberta.pooler.*",
                                              "lm_head.*", NULL};

#define BERT_KEYS(vocabulary, epsilon)                                                                       \
    SETTING("vocab_size", COUNT, "vocabulary", vocabulary, false),                                           \
        SETTING("num_hidden_layers", COUNT, "layers", 12, false),                                            \
        SETTING("num_attention_heads", COUNT, "heads", 12, false),                                           \
        SETTING("hidden_size", COUNT, "width", 768, false),                                                  \
        SETTING("intermediate_size", COUNT, "hidden", 3072, false),                                          \
        SETTING("type_vocab_size", COUNT, "token_types", 2, false),                                          \
        SETTING("layer_norm_eps", POSITIVE, "epsilon", epsilon, false),                                      \
        SETTING("hidden_dropout_prob", REAL, "dropout", 0.1, false),                                         \
        SETTING("attention_probs_dropout_prob", REAL, "attention_dropout", 0.1, false),                      \
        FIXED("is_decoder", "false"), FIXED("add_cross_attention", "false"),                                 \
        FIXED("position_embedding_type", "\"absolute\"")
static const iso_hf_key bert_keys[] = {
    BERT_KEYS(30522, 1e-12), SETTING("max_position_embeddings", COUNT, "context", 512, false), {0}};
static const iso_hf_key roberta_keys[] = {BERT_KEYS(50265, 1e-12), {0}};
static const iso_hf_key xlm_roberta_keys[] = {BERT_KEYS(30522, 1e-12), {0}};
static const iso_hf_key bert_masked_keys[] = {
    BERT_KEYS(30522, 1e-12),
    SETTING("max_position_embeddings", COUNT, "context", 512, false),
    FIXED("tie_word_embeddings", "true"),
    {0}};
static const iso_hf_key roberta_masked_keys[] = {
    BERT_KEYS(50265, 1e-12), FIXED("tie_word_embeddings", "true"), {0}};
static const iso_hf_key xlm_roberta_masked_keys[] = {
    BERT_KEYS(30522, 1e-12), FIXED("tie_word_embeddings", "true"), {0}};

/* A token from 0 on. A file may lack it; null: no token is padding, by which RoBERTa would not have positions. */
static iso_status read_pad(const char *file, const json_t *config, int64_t fallback, iso_bert_options *o)
{
    double pad = -1;
    o->pad = ISO_BERT_NO_PAD;
    if (o->kind != ISO_BERT_ROBERTA && json_is_null(json_object_get(config, "pad_token_id")))
        return ISO_OK;
    if (!iso_hf_number(config, "pad_token_id", (double)fallback, &pad) || !(pad >= 0) ||
        pad >= (double)o->vocabulary || pad != (double)(int64_t)pad)
        return iso_hf_refuse(file, "pad_token_id", json_object_get(config, "pad_token_id"),
                             "it must be a token of the vocabulary");
    o->pad = (int64_t)pad;
    return ISO_OK;
}

static iso_status check_heads(const char *file, const json_t *config, const char *key, int64_t width,
                              int64_t heads)
{
    return width % heads == 0 ? ISO_OK
                              : iso_hf_refuse(file, key, json_object_get(config, key),
                                              "it must divide the features of the model");
}

static void write_activation(bool tanh, const char *key, json_t *config)
{
    json_object_set_new(config, key, json_string(tanh ? "gelu_new" : "gelu"));
}

/* What those of texts have in common; the keys' names differ. */
static iso_status read_all(const char *file, const json_t *config, const char *heads, const char *activation,
                           int64_t pad, iso_bert_options *o)
{
    iso_status status;
    ISO_TRY(check_heads(file, config, heads, o->width, o->heads));
    ISO_TRY(iso_hf_read_gelu(file, config, activation, "gelu", &o->gelu_tanh));
    ISO_TRY(read_pad(file, config, pad, o));
done:
    return status;
}

double iso_pretrained_classifier_dropout(const iso_pretrained *net)
{
    if (ISO_ANY_NULL(net))
        return 0;
    const iso_bert_options *o = &net->settings.bert;
    const bool is_other = o->kind == ISO_BERT_DISTILBERT && o->head == ISO_BERT_TOKEN_CLASSIFICATION;
    return net->classifier_dropout < 0 || is_other ? o->dropout : net->classifier_dropout;
}

/* Of BERT and RoBERTa null, too, is the rate of other layers. */
iso_status iso_hf_read_classifier_dropout(const char *file, const json_t *config, iso_pretrained *net)
{
    const bool distilbert = net->settings.bert.kind == ISO_BERT_DISTILBERT;
    const char *key = distilbert ? "seq_classif_dropout" : "classifier_dropout";
    const json_t *value = json_object_get(config, key);
    double rate = 0.2; /* as in transformers */
    if (!distilbert && (!value || json_is_null(value)))
        rate = -1;
    else if (!iso_hf_number(config, key, rate, &rate) || rate < 0)
        return iso_hf_refuse(file, key, value, "it must be a number, 0 or more");
    net->classifier_dropout = rate;
    net->settings.bert.classifier_dropout = iso_pretrained_classifier_dropout(net);
    return ISO_OK;
}

static iso_status bert_read(const char *file, const json_t *config, iso_builtin_settings *settings)
{
    return read_all(file, config, "num_attention_heads", "hidden_act", 0, &settings->bert);
}

/* The table of positions has rows for pad and the tokens before it, which no position has. */
static iso_status roberta_read(const char *file, const json_t *config, iso_builtin_settings *settings)
{
    iso_bert_options *o = &settings->bert;
    o->kind = ISO_BERT_ROBERTA;
    iso_status status = read_all(file, config, "num_attention_heads", "hidden_act", 1, o);
    if (status == ISO_OK)
        status = iso_hf_count(file, config, "max_position_embeddings", 512, &o->context);
    o->context -= o->pad + 1;
    if (status == ISO_OK && o->context < 1)
        status =
            iso_hf_refuse(file, "max_position_embeddings", json_object_get(config, "max_position_embeddings"),
                          "it must be more than pad_token_id + 1");
    return status;
}

static void write_all(const iso_bert_options *o, const char *activation, json_t *config)
{
    write_activation(o->gelu_tanh, activation, config);
    json_object_set_new(config, "pad_token_id",
                        o->pad == ISO_BERT_NO_PAD ? json_null() : json_integer((json_int_t)o->pad));
}

static void bert_write(const iso_builtin_settings *settings, json_t *config)
{
    write_all(&settings->bert, "hidden_act", config);
    json_object_set_new(config, "classifier_dropout", json_real(settings->bert.classifier_dropout));
}

static void roberta_write(const iso_builtin_settings *settings, json_t *config)
{
    const iso_bert_options *o = &settings->bert;
    bert_write(settings, config);
    json_object_set_new(config, "max_position_embeddings",
                        json_integer((json_int_t)(o->context + o->pad + 1)));
}

/* The same networks with other heads. */
#define READ(name, read_rows, of_head)                                                                       \
    static iso_status name(const char *file, const json_t *config, iso_builtin_settings *settings)           \
    {                                                                                                        \
        settings->bert.head = of_head;                                                                       \
        return read_rows(file, config, settings);                                                            \
    }
READ(bert_tokens_read, bert_read, ISO_BERT_TOKEN_CLASSIFICATION)
READ(bert_masked_read, bert_read, ISO_BERT_MASKED_LM)
READ(roberta_tokens_read, roberta_read, ISO_BERT_TOKEN_CLASSIFICATION)
READ(roberta_masked_read, roberta_read, ISO_BERT_MASKED_LM)

static bool is_kind(const iso_builtin_settings *settings, iso_bert_kind kind, iso_bert_head head)
{
    return settings->bert.kind == kind && settings->bert.head == head;
}

#define HAS(name, kind, head)                                                                                \
    static bool name(const iso_builtin_settings *settings)                                                   \
    {                                                                                                        \
        return is_kind(settings, kind, head);                                                                \
    }
HAS(bert_has, ISO_BERT_PLAIN, ISO_BERT_SEQUENCE_CLASSIFICATION)
HAS(bert_tokens_has, ISO_BERT_PLAIN, ISO_BERT_TOKEN_CLASSIFICATION)
HAS(bert_masked_has, ISO_BERT_PLAIN, ISO_BERT_MASKED_LM)
HAS(roberta_has, ISO_BERT_ROBERTA, ISO_BERT_SEQUENCE_CLASSIFICATION)
HAS(roberta_tokens_has, ISO_BERT_ROBERTA, ISO_BERT_TOKEN_CLASSIFICATION)
HAS(roberta_masked_has, ISO_BERT_ROBERTA, ISO_BERT_MASKED_LM)

/* ---- DistilBERT ---- */

#define DISTILBERT_TENSORS                                                                                   \
    MATRIX("token_embedding/embeddings", "distilbert.embeddings.word_embeddings.weight", 1),                 \
        MATRIX("position_embedding/embeddings", "distilbert.embeddings.position_embeddings.weight", 1),      \
        VECTOR("embedding_norm/gamma", "distilbert.embeddings.LayerNorm.weight"),                            \
        VECTOR("embedding_norm/beta", "distilbert.embeddings.LayerNorm.bias"),                               \
        TRANSPOSED("block_#/attention/query/kernel",                                                         \
                   "distilbert.transformer.layer.#.attention.q_lin.weight", 1),                              \
        VECTOR("block_#/attention/query/bias", "distilbert.transformer.layer.#.attention.q_lin.bias"),       \
        TRANSPOSED("block_#/attention/key/kernel", "distilbert.transformer.layer.#.attention.k_lin.weight",  \
                   1),                                                                                       \
        VECTOR("block_#/attention/key/bias", "distilbert.transformer.layer.#.attention.k_lin.bias"),         \
        TRANSPOSED("block_#/attention/value/kernel",                                                         \
                   "distilbert.transformer.layer.#.attention.v_lin.weight", 1),                              \
        VECTOR("block_#/attention/value/bias", "distilbert.transformer.layer.#.attention.v_lin.bias"),       \
        TRANSPOSED("block_#/attention/attention_output/kernel",                                              \
                   "distilbert.transformer.layer.#.attention.out_lin.weight", 2),                            \
        VECTOR("block_#/attention/attention_output/bias",                                                    \
               "distilbert.transformer.layer.#.attention.out_lin.bias"),                                     \
        VECTOR("block_#/attention_norm/gamma", "distilbert.transformer.layer.#.sa_layer_norm.weight"),       \
        VECTOR("block_#/attention_norm/beta", "distilbert.transformer.layer.#.sa_layer_norm.bias"),          \
        TRANSPOSED("block_#/up/kernel", "distilbert.transformer.layer.#.ffn.lin1.weight", 1),                \
        VECTOR("block_#/up/bias", "distilbert.transformer.layer.#.ffn.lin1.bias"),                           \
        TRANSPOSED("block_#/down/kernel", "distilbert.transformer.layer.#.ffn.lin2.weight", 1),              \
        VECTOR("block_#/down/bias", "distilbert.transformer.layer.#.ffn.lin2.bias"),                         \
        VECTOR("block_#/norm/gamma", "distilbert.transformer.layer.#.output_layer_norm.weight"),             \
        VECTOR("block_#/norm/beta", "distilbert.transformer.layer.#.output_layer_norm.bias")
static const iso_hf_tensor distilbert_tensors[] = {
    DISTILBERT_TENSORS,
    OPTIONAL_TRANSPOSED("pooler/kernel", "pre_classifier.weight", 1),
    OPTIONAL_VECTOR("pooler/bias", "pre_classifier.bias"),
    TOKEN_CLASSIFIER,
    {0}};
static const iso_hf_tensor distilbert_tokens_tensors[] = {DISTILBERT_TENSORS, TOKEN_CLASSIFIER, {0}};
static const iso_hf_tensor distilbert_masked_tensors[] = {
    DISTILBERT_TENSORS, MASKED_TENSORS("vocab_transform", "vocab_layer_norm", "vocab_projector.bias"), {0}};

static const char *const distilbert_ignored[] = {"distilbert.embeddings.position_ids", "vocab_*", NULL};
static const char *const distilbert_masked_ignored[] = {"distilbert.embeddings.position_ids", NULL};

#define DISTILBERT_KEYS                                                                                      \
    SETTING("vocab_size", COUNT, "vocabulary", 30522, false),                                                \
        SETTING("n_layers", COUNT, "layers", 6, false), SETTING("n_heads", COUNT, "heads", 12, false),       \
        SETTING("dim", COUNT, "width", 768, false), SETTING("hidden_dim", COUNT, "hidden", 3072, false),     \
        SETTING("max_position_embeddings", COUNT, "context", 512, false),                                    \
        SETTING("dropout", REAL, "dropout", 0.1, false),                                                     \
        SETTING("attention_dropout", REAL, "attention_dropout", 0.1, false)
static const iso_hf_key distilbert_keys[] = {DISTILBERT_KEYS, {0}};
static const iso_hf_alias distilbert_aliases[] = {{"hidden_size", "dim"},
                                                  {"num_attention_heads", "n_heads"},
                                                  {"num_hidden_layers", "n_layers"},
                                                  {NULL, NULL}};
static const iso_hf_key distilbert_masked_keys[] = {
    DISTILBERT_KEYS, FIXED("tie_word_embeddings", "true"), {0}};

static iso_status distilbert_read(const char *file, const json_t *config, iso_builtin_settings *settings)
{
    iso_bert_options *o = &settings->bert;
    o->kind = ISO_BERT_DISTILBERT;
    return read_all(file, config, "n_heads", "activation", 0, o);
}

READ(distilbert_tokens_read, distilbert_read, ISO_BERT_TOKEN_CLASSIFICATION)
READ(distilbert_masked_read, distilbert_read, ISO_BERT_MASKED_LM)

static void distilbert_write(const iso_builtin_settings *settings, json_t *config)
{
    const iso_bert_options *o = &settings->bert;
    write_all(o, "activation", config);
    if (o->head == ISO_BERT_SEQUENCE_CLASSIFICATION)
        json_object_set_new(config, "seq_classif_dropout", json_real(o->classifier_dropout));
}

/* A classifier of tokens drops as other layers do. */
static iso_status distilbert_tokens_check(const char *path, const iso_builtin_settings *settings)
{
    const iso_bert_options *o = &settings->bert;
    return o->classifier_dropout == o->dropout
               ? ISO_OK
               : iso_error(ISO_INVALID,
                           "'%s': classifier_dropout is %g and dropout is %g; config.json has one rate for "
                           "both of a DistilBERT that classifies tokens",
                           path, o->classifier_dropout, o->dropout);
}

/* Its epsilon is no key. */
#define DISTILBERT_HAS(name, head)                                                                           \
    static bool name(const iso_builtin_settings *settings)                                                   \
    {                                                                                                        \
        return is_kind(settings, ISO_BERT_DISTILBERT, head) && settings->bert.epsilon == 1e-12;              \
    }
DISTILBERT_HAS(distilbert_has, ISO_BERT_SEQUENCE_CLASSIFICATION)
DISTILBERT_HAS(distilbert_tokens_has, ISO_BERT_TOKEN_CLASSIFICATION)
DISTILBERT_HAS(distilbert_masked_has, ISO_BERT_MASKED_LM)

/* ---- ViT ---- */

static const iso_hf_tensor vit_tensors[] = {
    LEADING_ONE("class_token/embeddings", "vit.embeddings.cls_token"),
    LEADING_ONE("position_embedding/embeddings", "vit.embeddings.position_embeddings"),
    PATCHES("patch_embedding/kernel", "vit.embeddings.patch_embeddings.projection.weight"),
    VECTOR("patch_embedding/bias", "vit.embeddings.patch_embeddings.projection.bias"),
    VECTOR("block_#/attention_norm/gamma", "vit.encoder.layer.#.layernorm_before.weight"),
    VECTOR("block_#/attention_norm/beta", "vit.encoder.layer.#.layernorm_before.bias"),
    TRANSPOSED("block_#/attention/query/kernel", "vit.encoder.layer.#.attention.attention.query.weight", 1),
    VECTOR("block_#/attention/query/bias", "vit.encoder.layer.#.attention.attention.query.bias"),
    TRANSPOSED("block_#/attention/key/kernel", "vit.encoder.layer.#.attention.attention.key.weight", 1),
    VECTOR("block_#/attention/key/bias", "vit.encoder.layer.#.attention.attention.key.bias"),
    TRANSPOSED("block_#/attention/value/kernel", "vit.encoder.layer.#.attention.attention.value.weight", 1),
    VECTOR("block_#/attention/value/bias", "vit.encoder.layer.#.attention.attention.value.bias"),
    TRANSPOSED("block_#/attention/attention_output/kernel",
               "vit.encoder.layer.#.attention.output.dense.weight", 2),
    VECTOR("block_#/attention/attention_output/bias", "vit.encoder.layer.#.attention.output.dense.bias"),
    VECTOR("block_#/norm/gamma", "vit.encoder.layer.#.layernorm_after.weight"),
    VECTOR("block_#/norm/beta", "vit.encoder.layer.#.layernorm_after.bias"),
    TRANSPOSED("block_#/up/kernel", "vit.encoder.layer.#.intermediate.dense.weight", 1),
    VECTOR("block_#/up/bias", "vit.encoder.layer.#.intermediate.dense.bias"),
    TRANSPOSED("block_#/down/kernel", "vit.encoder.layer.#.output.dense.weight", 1),
    VECTOR("block_#/down/bias", "vit.encoder.layer.#.output.dense.bias"),
    VECTOR("norm/gamma", "vit.layernorm.weight"),
    VECTOR("norm/beta", "vit.layernorm.bias"),
    OPTIONAL_TRANSPOSED("classifier/kernel", "classifier.weight", 1),
    OPTIONAL_VECTOR("classifier/bias", "classifier.bias"),
    {0}};

/* A pooler, which its classifier does not use. */
static const char *const vit_ignored[] = {"vit.pooler.*", NULL};

static const iso_hf_key vit_keys[] = {
    SETTING("num_hidden_layers", COUNT, "layers", 12, false),
    SETTING("num_attention_heads", COUNT, "heads", 12, false),
    SETTING("hidden_size", COUNT, "width", 768, false),
    SETTING("intermediate_size", COUNT, "hidden", 3072, false),
    SETTING("patch_size", SIDE, "patch", 16, false),
    SETTING("image_size", SIDE, "image", 224, false),
    SETTING("num_channels", COUNT, "channels", 3, false),
    SETTING("layer_norm_eps", POSITIVE, "epsilon", 1e-12, false),
    SETTING("hidden_dropout_prob", REAL, "dropout", 0, false),
    SETTING("attention_probs_dropout_prob", REAL, "attention_dropout", 0, false),
    FIXED("qkv_bias", "true"),
    {0}};

static iso_status vit_read(const char *file, const json_t *config, iso_builtin_settings *settings)
{
    iso_vit_options *o = &settings->vit;
    iso_status status;
    ISO_TRY(check_heads(file, config, "num_attention_heads", o->width, o->heads));
    ISO_TRY(iso_hf_read_gelu(file, config, "hidden_act", "gelu", &o->gelu_tanh));
    if (o->image % o->patch != 0)
        status = iso_hf_refuse(file, "patch_size", json_object_get(config, "patch_size"),
                               "it must divide image_size");
done:
    return status;
}

static void vit_write(const iso_builtin_settings *settings, json_t *config)
{
    write_activation(settings->vit.gelu_tanh, "hidden_act", config);
}

/* Images of it are squares. */
static bool vit_has(const iso_builtin_settings *settings)
{
    return settings->vit.image != 0;
}

/* ---- all ---- */

#define ENCODER(name, class_name)                                                                            \
    .type = name, .class = class_name, .builtin = "bert", .size = sizeof(iso_bert_options)
#define ROWS(name, class_name)                                                                               \
    ENCODER(name, class_name "ForSequenceClassification"), .labels = true, .task = "SEQ_CLS"
#define TOKENS(name, class_name)                                                                             \
    ENCODER(name, class_name "ForTokenClassification"), .labels = true, .task = "TOKEN_CLS"
#define MASKED(name, class_name, prefix, its_copy)                                                           \
    ENCODER(name, class_name "ForMaskedLM"), .table = prefix "embeddings.word_embeddings.weight",            \
                                             .copy = its_copy
#define LACKS_EPSILON .lacks = "an epsilon of DistilBERT other than 1e-12"

const iso_hf_architecture iso_hf_bert = {ROWS("bert", "Bert"),    .prefix = "bert.", .tensors = bert_tensors,
                                         .ignored = bert_ignored, .keys = bert_keys, .read = bert_read,
                                         .write = bert_write,     .has = bert_has};
const iso_hf_architecture iso_hf_roberta = {
    ROWS("roberta", "Roberta"), .prefix = "roberta.", .tensors = roberta_tensors, .ignored = roberta_ignored,
    .keys = roberta_keys,       .read = roberta_read, .write = roberta_write,     .has = roberta_has};
const iso_hf_architecture iso_hf_xlm_roberta = {ROWS("xlm-roberta", "XLMRoberta"),
                                                .prefix = "roberta.",
                                                .tensors = roberta_tensors,
                                                .ignored = roberta_ignored,
                                                .keys = xlm_roberta_keys,
                                                .read = roberta_read,
                                                .write = roberta_write,
                                                .has = roberta_has};
const iso_hf_architecture iso_hf_distilbert = {ROWS("distilbert", "DistilBert"),
                                               .prefix = "distilbert.",
                                               .tensors = distilbert_tensors,
                                               .ignored = distilbert_ignored,
                                               .keys = distilbert_keys,
                                               .aliases = distilbert_aliases,
                                               .read = distilbert_read,
                                               .write = distilbert_write,
                                               .has = distilbert_has,
                                               LACKS_EPSILON};

const iso_hf_architecture iso_hf_bert_tokens = {TOKENS("bert", "Bert"),
                                                .prefix = "bert.",
                                                .tensors = bert_tokens_tensors,
                                                .ignored = bert_tokens_ignored,
                                                .keys = bert_keys,
                                                .read = bert_tokens_read,
                                                .write = bert_write,
                                                .has = bert_tokens_has};
const iso_hf_architecture iso_hf_roberta_tokens = {
    TOKENS("roberta", "Roberta"), .prefix = "roberta.",     .tensors = roberta_tokens_tensors,
    .ignored = roberta_ignored,   .keys = roberta_keys,     .read = roberta_tokens_read,
    .write = roberta_write,       .has = roberta_tokens_has};
const iso_hf_architecture iso_hf_xlm_roberta_tokens = {TOKENS("xlm-roberta", "XLMRoberta"),
                                                       .prefix = "roberta.",
                                                       .tensors = roberta_tokens_tensors,
                                                       .ignored = roberta_ignored,
                                                       .keys = xlm_roberta_keys,
                                                       .read = roberta_tokens_read,
                                                       .write = roberta_write,
                                                       .has = roberta_tokens_has};
const iso_hf_architecture iso_hf_distilbert_tokens = {TOKENS("distilbert", "DistilBert"),
                                                      .prefix = "distilbert.",
                                                      .tensors = distilbert_tokens_tensors,
                                                      .ignored = distilbert_ignored,
                                                      .keys = distilbert_keys,
                                                      .aliases = distilbert_aliases,
                                                      .read = distilbert_tokens_read,
                                                      .write = distilbert_write,
                                                      .has = distilbert_tokens_has,
                                                      .check = distilbert_tokens_check,
                                                      LACKS_EPSILON};

const iso_hf_architecture iso_hf_bert_masked = {
    MASKED("bert", "Bert", "bert.", "cls.predictions.decoder.weight"),
    .prefix = "bert.",
    .tensors = bert_masked_tensors,
    .ignored = bert_masked_ignored,
    .keys = bert_masked_keys,
    .read = bert_masked_read,
    .write = bert_write,
    .has = bert_masked_has};
const iso_hf_architecture iso_hf_roberta_masked = {
    MASKED("roberta", "Roberta", "roberta.", "lm_head.decoder.weight"),
    .prefix = "roberta.",
    .tensors = roberta_masked_tensors,
    .ignored = roberta_masked_ignored,
    .keys = roberta_masked_keys,
    .read = roberta_masked_read,
    .write = roberta_write,
    .has = roberta_masked_has};
const iso_hf_architecture iso_hf_xlm_roberta_masked = {
    MASKED("xlm-roberta", "XLMRoberta", "roberta.", "lm_head.decoder.weight"),
    .prefix = "roberta.",
    .tensors = roberta_masked_tensors,
    .ignored = roberta_masked_ignored,
    .keys = xlm_roberta_masked_keys,
    .read = roberta_masked_read,
    .write = roberta_write,
    .has = roberta_masked_has};
const iso_hf_architecture iso_hf_distilbert_masked = {
    MASKED("distilbert", "DistilBert", "distilbert.", "vocab_projector.weight"),
    .prefix = "distilbert.",
    .tensors = distilbert_masked_tensors,
    .ignored = distilbert_masked_ignored,
    .keys = distilbert_masked_keys,
    .aliases = distilbert_aliases,
    .read = distilbert_masked_read,
    .write = distilbert_write,
    .has = distilbert_masked_has,
    LACKS_EPSILON};

const iso_hf_architecture iso_hf_vit = {.type = "vit",
                                        .class = "ViTForImageClassification",
                                        .builtin = "vit",
                                        .size = sizeof(iso_vit_options),
                                        .labels = true,
                                        .task = "SEQ_CLS",
                                        .prefix = "vit.",
                                        .tensors = vit_tensors,
                                        .ignored = vit_ignored,
                                        .keys = vit_keys,
                                        .read = vit_read,
                                        .write = vit_write,
                                        .has = vit_has,
                                        .lacks = "images of ViT that are no squares"};
