/* SmolLM3: LLaMA, but every fourth block has no rotary positions. */
#include <string.h>

#include "models/huggingface/decoders_impl.h"

enum { INTERVAL = 4, WAVELENGTH = 2000000 }; /* as in transformers */

static const iso_hf_key keys[] = {SIZES(36, 16, 2048),
                                  DECODER_KEYS("intermediate_size", 11008, 1e-6, 1),
                                  FIXED("hidden_act", "\"silu\""),
                                  SETTING("max_position_embeddings", COUNT, "context", 32768, false),
                                  SETTING("attention_bias", FLAG, "qkv_bias", 0, false),
                                  FIXED("mlp_bias", "false"),
                                  FIXED("use_sliding_window", "false"),
                                  {0}};

/* Whether a list has a 0 for every n-th block and a 1 for the others. */
static bool is_periodic(const json_t *list, int64_t layers, int64_t n)
{
    for (int64_t i = 0; i < layers; i++) {
        const json_t *value = json_array_get(list, (size_t)i);
        if (!json_is_integer(value) || json_integer_value(value) != (n == 0 || i % n != n - 1))
            return false;
    }
    return true;
}

/* The number of the first block with a 0, counted from 1; 0: none has it. */
static int64_t first_without(const json_t *list, int64_t layers)
{
    for (int64_t i = 0; i < layers; i++) {
        const json_t *value = json_array_get(list, (size_t)i);
        if (json_is_integer(value) && json_integer_value(value) == 0)
            return i + 1;
    }
    return 0;
}

static iso_status read_positions(const char *file, const json_t *config, iso_llama_options *o)
{
    static const char key[] = "no_rope_layers";
    const json_t *list = json_object_get(config, key);
    if (!list || json_is_null(list))
        return iso_hf_count(file, config, "no_rope_layer_interval", INTERVAL, &o->nope_every);
    o->nope_every = first_without(list, o->layers);
    return is_periodic(list, o->layers, o->nope_every)
               ? ISO_OK
               : iso_hf_refuse(file, key, list, "supported: for each layer 1, but for every n-th one 0");
}

static iso_status read_smollm3(const char *file, const json_t *config, iso_builtin_settings *settings)
{
    static const iso_hf_heads heads = {.kv_heads = 4, .null_kv_heads = true};
    iso_llama_options *o = &settings->llama;
    iso_status status;
    o->output_bias = o->qkv_bias;
    o->wavelength = WAVELENGTH;
    ISO_TRY(iso_hf_check_width(file, config, o));
    ISO_TRY(iso_hf_read_llama(file, config, &heads, o));
    ISO_TRY(read_positions(file, config, o));
    ISO_TRY(iso_hf_check_full(file, config, o)); /* they count without use_sliding_window, too */
done:
    return status;
}

static void write_smollm3(const iso_builtin_settings *settings, json_t *config)
{
    const iso_llama_options *o = &settings->llama;
    json_t *list = json_array();
    for (int64_t i = 0; i < o->layers; i++)
        json_array_append_new(list,
                              json_integer(o->nope_every == 0 || i % o->nope_every != o->nope_every - 1));
    iso_hf_write_llama(settings, config);
    json_object_set_new(config, "no_rope_layers", list);
    json_object_del(config, "no_rope_layer_interval"); /* the list counts */
    iso_hf_write_windows(o, config);
}

static bool has_smollm3(const iso_builtin_settings *settings)
{
    iso_llama_options o = settings->llama;
    o.nope_every = 0;
    return iso_hf_is_plain(&o) && iso_hf_has_rotary(&o) && o.window == 0 && o.qkv_bias == o.output_bias &&
           !o.qk_norm && o.width % o.heads == 0;
}

const iso_hf_architecture iso_hf_smollm3 = {LLAMA_LIKE("smollm3", "SmolLM3ForCausalLM", iso_hf_llama_tensors),
                                            .keys = keys, .read = read_smollm3, .write = write_smollm3,
                                            .has = has_smollm3};
