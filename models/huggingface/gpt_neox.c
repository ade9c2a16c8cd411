/* GPT-NeoX, which Pythia is: rotary positions turn a part of each head, and each head of one matrix has queries, keys
 * and values. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/huggingface/rows_impl.h"

#define ATTENTION "gpt_neox.layers.#.attention."
static const iso_hf_tensor tensors[] = {
    MATRIX("token_embedding/embeddings", "gpt_neox.embed_in.weight", 1),
    VECTOR("block_#/attention_norm/gamma", "gpt_neox.layers.#.input_layernorm.weight"),
    VECTOR("block_#/attention_norm/beta", "gpt_neox.layers.#.input_layernorm.bias"),
    IN_HEADS("block_#/attention/query/kernel", ATTENTION "query_key_value.weight", 1, 0),
    IN_HEADS("block_#/attention/query/bias", ATTENTION "query_key_value.bias", 0, 0),
    IN_HEADS("block_#/attention/key/kernel", ATTENTION "query_key_value.weight", 1, 1),
    IN_HEADS("block_#/attention/key/bias", ATTENTION "query_key_value.bias", 0, 1),
    IN_HEADS("block_#/attention/value/kernel", ATTENTION "query_key_value.weight", 1, 2),
    IN_HEADS("block_#/attention/value/bias", ATTENTION "query_key_value.bias", 0, 2),
    TRANSPOSED("block_#/attention/attention_output/kernel", ATTENTION "dense.weight", 2),
    VECTOR("block_#/attention/attention_output/bias", ATTENTION "dense.bias"),
    VECTOR("block_#/norm/gamma", "gpt_neox.layers.#.post_attention_layernorm.weight"),
    VECTOR("block_#/norm/beta", "gpt_neox.layers.#.post_attention_layernorm.bias"),
    TRANSPOSED("block_#/up/kernel", "gpt_neox.layers.#.mlp.dense_h_to_4h.weight", 1),
    VECTOR("block_#/up/bias", "gpt_neox.layers.#.mlp.dense_h_to_4h.bias"),
    TRANSPOSED("block_#/down/kernel", "gpt_neox.layers.#.mlp.dense_4h_to_h.weight", 1),
    VECTOR("block_#/down/bias", "gpt_neox.layers.#.mlp.dense_4h_to_h.bias"),
    VECTOR("norm/gamma", "gpt_neox.final_layer_norm.weight"),
    VECTOR("norm/beta", "gpt_neox.final_layer_norm.bias"),
    TRANSPOSED("logits/kernel", "embed_out.weight", 1),
    {0}};

/* Masks and frequencies of older versions. */
static const char *const ignored[] = {ATTENTION "bias", ATTENTION "masked_bias",
                                      ATTENTION "rotary_emb.inv_freq", NULL};

static const iso_hf_key keys[] = {SETTING("num_hidden_layers", COUNT, "layers", 44, false),
                                  SETTING("num_attention_heads", COUNT, "heads", 64, false),
                                  SETTING("hidden_size", COUNT, "width", 6144, false),
                                  SETTING("intermediate_size", COUNT, "hidden", 24576, false),
                                  SETTING("max_position_embeddings", COUNT, "context", 2048, false),
                                  SETTING("layer_norm_eps", POSITIVE, "epsilon", 1e-5, false),
                                  SETTING("use_parallel_residual", FLAG, "parallel", 1, false),
                                  SETTING("hidden_dropout", REAL, "dropout", 0, false),
                                  SETTING("attention_dropout", REAL, "dropout", 0, false),
                                  FIXED("attention_bias", "true"),
                                  {0}};

/* ---- positions: from transformers 5 on "rope_parameters" has what keys of their own had ---- */

static iso_status check_type(const char *file, const json_t *config, const char *key)
{
    const json_t *scaling = json_object_get(config, key);
    const json_t *given = json_object_get(scaling, "rope_type");
    const char *type = json_string_value(given ? given : json_object_get(scaling, "type"));
    if (!scaling || json_is_null(scaling) || !type || strcmp(type, "default") == 0)
        return ISO_OK;
    return iso_hf_refuse(file, key, scaling, "of GPT-NeoX the type \"default\" is supported");
}

/* The object that has a number, which rope_parameters has by one name and the file by another. */
typedef struct holder {
    const json_t *object;
    const char *key;
} holder;

static holder holder_of(const json_t *config, const char *key, const char *own_key)
{
    const json_t *both = json_object_get(config, "rope_parameters");
    return json_object_get(both, key) ? (holder){both, key} : (holder){config, own_key};
}

static iso_status read_part(const char *file, const json_t *config, iso_gpt_options *o)
{
    const holder at = holder_of(config, "partial_rotary_factor", "rotary_pct");
    const int64_t features = o->width / o->heads;
    char text[120];
    double part = 0;
    iso_status status = iso_hf_positive(file, at.object, at.key, 0.25, &part);
    o->rotary = part <= 1 ? (int64_t)((double)features * part) : 0;
    if (status != ISO_OK || (o->rotary >= 2 && o->rotary % 2 == 0))
        return status;
    snprintf(text, sizeof text, "it must be an even number of the %lld features of a head",
             (long long)features);
    return iso_hf_refuse(file, at.key, json_object_get(at.object, at.key), text);
}

static iso_status read_positions(const char *file, const json_t *config, iso_gpt_options *o)
{
    const holder at = holder_of(config, "rope_theta", "rotary_emb_base");
    iso_status status;
    ISO_TRY(check_type(file, config, "rope_parameters"));
    ISO_TRY(check_type(file, config, "rope_scaling"));
    ISO_TRY(iso_hf_positive(file, at.object, at.key, 10000, &o->wavelength));
    ISO_TRY(read_part(file, config, o));
done:
    return status;
}

/* A part that is read as so many of the features of a head. */
static double rotary_part(const iso_gpt_options *o)
{
    const double features = (double)(o->width / o->heads), part = (double)o->rotary / features;
    return features * part < (double)o->rotary ? nextafter(part, 1) : part;
}

/* ---- all ---- */

static iso_status read_neox(const char *file, const json_t *config, iso_builtin_settings *settings)
{
    static const char *const rates[] = {"hidden_dropout", "attention_dropout", NULL};
    iso_gpt_options *o = &settings->gpt;
    bool tied = false;
    iso_status status;
    if (o->width % o->heads != 0)
        return iso_hf_refuse(file, "num_attention_heads", json_object_get(config, "num_attention_heads"),
                             "it must divide hidden_size");
    ISO_TRY(iso_hf_read_flag(file, config, "tie_word_embeddings", false, &tied));
    o->untied = !tied;
    ISO_TRY(iso_hf_read_gelu(file, config, "hidden_act", "gelu", &o->gelu_tanh));
    ISO_TRY(iso_hf_check_rates(file, config, rates, 0));
    ISO_TRY(read_positions(file, config, o));
done:
    return status;
}

/* Positions in the form that all versions of transformers read. */
static void write_neox(const iso_builtin_settings *settings, json_t *config)
{
    const iso_gpt_options *o = &settings->gpt;
    json_object_set_new(config, "hidden_act", json_string(o->gelu_tanh ? "gelu_new" : "gelu"));
    json_object_set_new(config, "tie_word_embeddings", json_boolean(!o->untied));
    json_object_set_new(config, "rotary_emb_base", json_real(o->wavelength));
    json_object_set_new(config, "rotary_pct", json_real(rotary_part(o)));
    json_object_del(config, "rope_parameters");
    json_object_del(config, "rope_scaling");
}

static bool has_neox(const iso_builtin_settings *settings)
{
    const iso_gpt_options *o = &settings->gpt;
    return o->rotary != 0 && o->kv_heads == o->heads && o->window == 0;
}

const iso_hf_architecture iso_hf_gpt_neox = {.type = "gpt_neox",
                                             .class = "GPTNeoXForCausalLM",
                                             .builtin = "gpt",
                                             .size = sizeof(iso_gpt_options),
                                             .prefix = "gpt_neox.",
                                             .tensors = tensors,
                                             .ignored = ignored,
                                             .table = "gpt_neox.embed_in.weight",
                                             .copy = "embed_out.weight",
                                             .task = "CAUSAL_LM",
                                             .keys = keys,
                                             .read = read_neox,
                                             .write = write_neox,
                                             .has = has_neox,
                                             .lacks = "this combination of the settings of gpt"};
