/* GPT-2: its Conv1D has matrices as we have; queries, keys and values are side by side. */
#include <string.h>

#include "models/huggingface/rows_impl.h"

static const iso_hf_tensor gpt_tensors[] = {
    MATRIX("token_embedding/embeddings", "transformer.wte.weight", 1),
    MATRIX("position_embedding/embeddings", "transformer.wpe.weight", 1),
    VECTOR("block_#/attention_norm/gamma", "transformer.h.#.ln_1.weight"),
    VECTOR("block_#/attention_norm/beta", "transformer.h.#.ln_1.bias"),
    THIRD("block_#/attention/query/kernel", "transformer.h.#.attn.c_attn.weight", 1, 0),
    THIRD("block_#/attention/query/bias", "transformer.h.#.attn.c_attn.bias", 0, 0),
    THIRD("block_#/attention/key/kernel", "transformer.h.#.attn.c_attn.weight", 1, 1),
    THIRD("block_#/attention/key/bias", "transformer.h.#.attn.c_attn.bias", 0, 1),
    THIRD("block_#/attention/value/kernel", "transformer.h.#.attn.c_attn.weight", 1, 2),
    THIRD("block_#/attention/value/bias", "transformer.h.#.attn.c_attn.bias", 0, 2),
    MATRIX("block_#/attention/attention_output/kernel", "transformer.h.#.attn.c_proj.weight", 2),
    VECTOR("block_#/attention/attention_output/bias", "transformer.h.#.attn.c_proj.bias"),
    VECTOR("block_#/norm/gamma", "transformer.h.#.ln_2.weight"),
    VECTOR("block_#/norm/beta", "transformer.h.#.ln_2.bias"),
    MATRIX("block_#/up/kernel", "transformer.h.#.mlp.c_fc.weight", 1),
    VECTOR("block_#/up/bias", "transformer.h.#.mlp.c_fc.bias"),
    MATRIX("block_#/down/kernel", "transformer.h.#.mlp.c_proj.weight", 1),
    VECTOR("block_#/down/bias", "transformer.h.#.mlp.c_proj.bias"),
    VECTOR("norm/gamma", "transformer.ln_f.weight"),
    VECTOR("norm/beta", "transformer.ln_f.bias"),
    {0}};

/* Masks of older versions. */
static const char *const gpt_ignored[] = {"transformer.h.#.attn.bias", "transformer.h.#.attn.masked_bias",
                                          NULL};

static const iso_hf_key gpt_keys[] = {SETTING("n_layer", COUNT, "layers", 12, false),
                                      SETTING("n_head", COUNT, "heads", 12, false),
                                      SETTING("n_embd", COUNT, "width", 768, false),
                                      SETTING("n_positions", COUNT, "context", 1024, false),
                                      SETTING("n_inner", COUNT, "hidden", 0, true),
                                      SETTING("layer_norm_epsilon", POSITIVE, "epsilon", 1e-5, false),
                                      SETTING("resid_pdrop", REAL, "dropout", 0.1, false),
                                      SETTING("embd_pdrop", REAL, "dropout", 0.1, false),
                                      SETTING("attn_pdrop", REAL, "dropout", 0.1, false),
                                      FIXED("scale_attn_weights", "true"),
                                      FIXED("scale_attn_by_inverse_layer_idx", "false"),
                                      FIXED("add_cross_attention", "false"),
                                      FIXED("tie_word_embeddings", "true"),
                                      {0}};

static iso_status gpt_read(const char *file, const json_t *config, iso_builtin_settings *settings)
{
    static const char *const rates[] = {"embd_pdrop", "resid_pdrop", "attn_pdrop", NULL};
    iso_gpt_options *o = &settings->gpt;
    iso_status status;
    if (o->width % o->heads != 0)
        return iso_hf_refuse(file, "n_head", json_object_get(config, "n_head"), "it must divide n_embd");
    ISO_TRY(iso_hf_read_gelu(file, config, "activation_function", "gelu_new", &o->gelu_tanh));
    ISO_TRY(iso_hf_check_rates(file, config, rates, 0.1));
done:
    return status;
}

static void gpt_write(const iso_builtin_settings *settings, json_t *config)
{
    json_object_set_new(config, "activation_function",
                        json_string(settings->gpt.gelu_tanh ? "gelu_new" : "gelu"));
}

static bool gpt_has(const iso_builtin_settings *settings)
{
    const iso_gpt_options *o = &settings->gpt;
    return o->rotary == 0 && !o->parallel && !o->untied && o->kv_heads == o->heads && o->window == 0;
}

const iso_hf_architecture iso_hf_gpt2 = {.type = "gpt2",
                                         .class = "GPT2LMHeadModel",
                                         .builtin = "gpt",
                                         .size = sizeof(iso_gpt_options),
                                         .prefix = "transformer.",
                                         .tensors = gpt_tensors,
                                         .ignored = gpt_ignored,
                                         .table = "transformer.wte.weight",
                                         .copy = "lm_head.weight",
                                         .task = "CAUSAL_LM",
                                         .keys = gpt_keys,
                                         .read = gpt_read,
                                         .write = gpt_write,
                                         .has = gpt_has,
                                         .lacks = "this combination of the settings of gpt"};
