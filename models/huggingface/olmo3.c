/* OLMo 3: OLMo 2 with a window in all blocks but every fourth, whose rotary positions alone may be stretched. */
#include <string.h>

#include "models/huggingface/decoders_impl.h"

enum { PATTERN = 4, WAVELENGTH = 500000 }; /* as in transformers */

static const iso_hf_key keys[] = {LLAMA_KEYS(11008, 1e-5),
                                  SETTING("max_position_embeddings", COUNT, "context", 2048, false),
                                  SETTING("attention_bias", FLAG, "qkv_bias", 0, false),
                                  {0}};

/* The base of blocks with a window that have none of their own: WAVELENGTH in transformers 5, before rope_theta. */
static iso_status check_local_base(const char *file, const json_t *config, const iso_llama_options *o)
{
    const json_t *own = json_object_get(json_object_get(config, "rope_parameters"), "sliding_attention"),
                 *theta = json_object_get(config, "rope_theta");
    return o->window == 0 || !theta || json_object_get(own, "rope_theta") ||
                   json_number_value(theta) == WAVELENGTH
               ? ISO_OK
               : iso_hf_refuse(file, "rope_theta", theta,
                               "versions of transformers differ in the base of layers with a window: "
                               "rope_parameters must hold the rope_theta of \"sliding_attention\"");
}

static iso_status read_olmo3(const char *file, const json_t *config, iso_builtin_settings *settings)
{
    static const iso_hf_heads heads = {.null_kv_heads = true};
    iso_llama_options *o = &settings->llama;
    iso_status status;
    o->post_norm = o->no_pre_norm = true;
    o->qk_norm = o->qk_norm_whole = true;
    o->output_bias = o->qkv_bias;
    o->wavelength = WAVELENGTH;
    ISO_TRY(iso_hf_read_heads(file, config, &heads, o));
    ISO_TRY(iso_hf_read_windows(file, config, PATTERN, o));
    ISO_TRY(check_local_base(file, config, o));
    o->local_wavelength = WAVELENGTH;
    ISO_TRY(iso_hf_read_two_rotaries(file, config, o));
done:
    return status;
}

/* transformers before version 5 reads "rope_theta" and "rope_scaling", later ones "rope_parameters" before them. */
static void write_olmo3(const iso_builtin_settings *settings, json_t *config)
{
    const iso_llama_options *o = &settings->llama;
    iso_hf_write_llama(settings, config);
    const json_t *scaling = json_object_get(config, "rope_scaling");
    json_t *full =
        json_is_object(scaling) ? json_copy((json_t *)scaling) : json_pack("{s:s}", "rope_type", "default");
    json_object_set_new(full, "rope_theta", json_real(o->wavelength));
    json_object_set_new(config, "rope_parameters",
                        json_pack("{s:o, s:{s:s, s:f}}", "full_attention", full, "sliding_attention",
                                  "rope_type", "default", "rope_theta",
                                  o->local_wavelength != 0 ? o->local_wavelength : o->wavelength));
    iso_hf_write_windows(o, config);
}

static bool has_olmo3(const iso_builtin_settings *settings)
{
    iso_llama_options o = settings->llama;
    const bool windows = (o.window == 0 || o.full_layers == 0) && iso_hf_has_two_rotaries(&o);
    o.full_every = 0, o.local_wavelength = 0;
    return windows && iso_hf_is_like_llama(&o) && o.experts == 0 && iso_hf_has_rotary(&o) && o.post_norm &&
           o.no_pre_norm && o.qk_norm && o.qk_norm_whole && o.qkv_bias == o.output_bias;
}

const iso_hf_architecture iso_hf_olmo3 = {LLAMA_LIKE("olmo3", "Olmo3ForCausalLM", iso_hf_olmo2_tensors),
                                          .keys = keys, .read = read_olmo3, .write = write_olmo3,
                                          .has = has_olmo3};
