/* Whether a model is the network that the config.json beside its weights says. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/huggingface/huggingface_impl.h"
#include "runtime/base/descriptor.h"
#include "runtime/base/file.h"
#include "runtime/base/memory.h"

enum { MOST_CONFIG = 4 << 20, NUMBER = 48 };

/* What may differ: the length of rows, what training alone uses, and what no config.json says. */
static const char *const free_settings[] = {"context",
                                            "recompute",
                                            "dropout",
                                            "attention_dropout",
                                            "classifier_dropout",
                                            "balance",
                                            "image",
                                            "separator",
                                            "scale",
                                            "offset",
                                            "head"};

/* The keys of settings that no row has. */
static const struct {
    const char *setting, *key;
} keys[] = {
    {"kv_heads", "num_key_value_heads"}, {"head_dim", "head_dim"},        {"wavelength", "rope_theta"},
    {"rope_factor", "rope_scaling"},     {"rope_low", "rope_scaling"},    {"rope_high", "rope_scaling"},
    {"rope_context", "rope_scaling"},    {"rope_yarn", "rope_scaling"},   {"rope_linear", "rope_scaling"},
    {"rope_attention", "rope_scaling"},  {"window", "sliding_window"},    {"full_layers", "layer_types"},
    {"full_every", "layer_types"},       {"qkv_bias", "attention_bias"},  {"rotary", "rotary_pct"},
    {"untied", "tie_word_embeddings"},   {"nope_every", "no_rope_layers"}};

static bool may_differ(const iso_setting *setting)
{
    bool may = false;
    for (size_t i = 0; i < sizeof free_settings / sizeof *free_settings; i++)
        may = may || strcmp(setting->name, free_settings[i]) == 0;
    return may;
}

/* The key that a setting is read from; its own name if that cannot be told. */
static const char *key_of(const iso_hf_architecture *a, const char *setting)
{
    for (const iso_hf_key *key = a->keys; key->key; key++)
        if (key->setting && strcmp(key->setting, setting) == 0)
            return key->key;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i].setting, setting) == 0)
            return keys[i].key;
    return setting;
}

/* Gives settings that stand for others, or have no effect, one value each. */
static void simplify_llama(iso_llama_options *o)
{
    if (o->rope_factor == 0)
        o->rope_low = o->rope_high = 0, o->rope_context = 0, o->rope_yarn = false;
    if (!o->rope_yarn)
        o->rope_attention = 0;
    else if (o->rope_attention == 0)
        o->rope_attention = o->rope_factor > 1 ? 0.1 * log(o->rope_factor) + 1 : 1;
    if (o->window == 0)
        o->full_layers = o->full_every = 0, o->local_wavelength = 0;
    if (o->experts == 0)
        o->experts_per_token = 0, o->raw_shares = false, o->shared_hidden = 0;
    if (o->head_dim == 0)
        o->head_dim = o->width / o->heads;
    if (o->attention_scale == 0)
        o->attention_scale = 1 / sqrt((double)o->head_dim);
}

static void simplify_gpt(iso_gpt_options *o)
{
    if (o->kv_heads == 0)
        o->kv_heads = o->heads;
    if (o->rotary == 0)
        o->wavelength = 0;
}

static void simplify(const iso_builtin_model *model, iso_builtin_settings *settings)
{
    enum { WIDER = 4 };
    const iso_setting *hidden = iso_setting_of(model->settings, "hidden");
    for (const iso_setting *s = model->settings; s->name; s++)
        iso_setting_set(s, settings, iso_setting_option(s, settings));
    if (iso_setting_get(hidden, settings) == 0)
        iso_setting_set(hidden, settings,
                        WIDER * iso_setting_get(iso_setting_of(model->settings, "width"), settings));
    if (strcmp(model->name, "llama") == 0)
        simplify_llama(&settings->llama);
    else if (strcmp(model->name, "gpt") == 0)
        simplify_gpt(&settings->gpt);
}

static const char *text_of(const iso_setting *setting, double value, char text[NUMBER])
{
    if (setting->kind == ISO_SETTING_CHOICE)
        return setting->words[(int)value];
    snprintf(text, NUMBER, "%.10g", value);
    return text;
}

/* net: of the file */
static iso_status compare(const char *file, const iso_hf_architecture *a, iso_pretrained *net,
                          iso_builtin_settings *ours)
{
    char of_file[NUMBER], of_model[NUMBER];
    simplify(net->model, &net->settings);
    for (const iso_setting *s = net->model->settings; s->name; s++) {
        const double theirs = iso_setting_get(s, &net->settings), own = iso_setting_get(s, ours);
        if (may_differ(s) || fabs(theirs - own) <= 1e-6 * fabs(theirs))
            continue;
        return iso_error(ISO_INVALID, "'%s': by its %s, %s is %s; the model has %s=%s", file,
                         key_of(a, s->name), s->name, text_of(s, theirs, of_file), s->name,
                         text_of(s, own, of_model));
    }
    return ISO_OK;
}

static iso_status check_text(const char *file, const char *text, size_t bytes, const char *builtin,
                             const iso_builtin_settings *settings)
{
    json_t *config = NULL;
    iso_pretrained net = {0};
    iso_builtin_settings ours = *settings;
    iso_status status = iso_json_parse(file, text, bytes, &config);
    const iso_hf_architecture *a = status == ISO_OK ? iso_hf_architecture_find(config) : NULL;
    json_decref(config);
    if (!a || strcmp(a->builtin, builtin) != 0) /* another network, as the names of the tensors will tell */
        return status;
    status = iso_hf_config_parse(file, text, bytes, &net);
    if (status != ISO_OK)
        return status;
    simplify(net.model, &ours);
    return compare(file, a, &net, &ours);
}

iso_status iso_hf_check_config(const char *folder, const char *builtin, const iso_builtin_settings *settings)
{
    char *file = iso_file_join(folder, ISO_HF_CONFIG), *text = NULL;
    size_t bytes = 0;
    iso_status status = file ? ISO_OK : iso_no_memory("the name of '%s'", folder);
    if (file && iso_hf_is_there(folder, ISO_HF_CONFIG))
        status = iso_hf_read_text(file, MOST_CONFIG, &text, &bytes);
    if (text)
        status = check_text(file, text, bytes, builtin, settings);
    iso_free(text);
    iso_free(file);
    return status;
}
