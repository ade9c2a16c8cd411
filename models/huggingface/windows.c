/* Decoders whose blocks have a window but for every n-th one, as Gemma 2, Gemma 3 and OLMo 3: "layer_types" and
 * "sliding_window" of config.json. */
#include <string.h>

#include "models/huggingface/decoders_impl.h"

static const char *type_of_block(const iso_llama_options *o, int64_t number)
{
    const bool full = o->window == 0 || (o->full_every > 0 && number % o->full_every == o->full_every - 1);
    return full ? "full_attention" : "sliding_attention";
}

/* Whether layer_types are those of the settings. */
static bool are_types(const json_t *types, const iso_llama_options *o)
{
    if ((int64_t)json_array_size(types) != o->layers)
        return false;
    for (int64_t i = 0; i < o->layers; i++) {
        const char *type = json_string_value(json_array_get(types, (size_t)i));
        if (!type || strcmp(type, type_of_block(o, i)) != 0)
            return false;
    }
    return true;
}

/* The number of the first block without a window, counted from 1; 0: all have one. */
static int64_t first_full(const json_t *types)
{
    const size_t count = json_array_size(types);
    for (size_t i = 0; i < count; i++) {
        const char *type = json_string_value(json_array_get(types, i));
        if (type && strcmp(type, "full_attention") == 0)
            return (int64_t)i + 1;
    }
    return 0;
}

iso_status iso_hf_read_windows(const char *file, const json_t *config, int64_t pattern, iso_llama_options *o)
{
    const json_t *types = json_object_get(config, "layer_types");
    const bool listed = types && !json_is_null(types);
    iso_status status = ISO_OK;
    o->full_every = listed ? first_full(types) : pattern;
    o->window = 1;
    if (listed && !are_types(types, o))
        return iso_hf_refuse(file, "layer_types", types,
                             "supported: for each layer \"sliding_attention\", but for every n-th one "
                             "\"full_attention\"");
    o->window = 0;
    if (o->full_every == 1)
        o->full_every = 0;
    else
        status = iso_hf_count(file, config, "sliding_window", 4096, &o->window);
    return status;
}

void iso_hf_write_windows(const iso_llama_options *o, json_t *config)
{
    json_t *types = json_array();
    for (int64_t i = 0; i < o->layers; i++)
        json_array_append_new(types, json_string(type_of_block(o, i)));
    json_object_set_new(config, "layer_types", types);
    if (o->window != 0)
        json_object_set_new(config, "sliding_window", json_integer((json_int_t)o->window));
}

iso_status iso_hf_check_full(const char *file, const json_t *config, const iso_llama_options *o)
{
    const iso_llama_options full = {.layers = o->layers};
    const json_t *types = json_object_get(config, "layer_types");
    return !types || json_is_null(types) || are_types(types, &full)
               ? ISO_OK
               : iso_hf_refuse(file, "layer_types", types, "it must be \"full_attention\" for each layer");
}

bool iso_hf_has_two_rotaries(const iso_llama_options *o)
{
    return o->window == 0 || o->local_wavelength != 0 || (o->rope_factor == 0 && o->rope_linear == 1);
}
