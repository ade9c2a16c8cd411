/* Rotary positions in config.json: "rope_theta" and "rope_scaling", or, from transformers 5 on, both in
 * "rope_parameters". The types are those of transformers' modeling_rope_utils.py. */
#include <math.h>
#include <string.h>

#include "models/huggingface/huggingface_impl.h"

#define ORIGINAL "original_max_position_embeddings"

/* What a type reads: the object that has the type, and the settings to fill. */
typedef struct rotary {
    const char *file;
    const json_t *config, *scaling;
    iso_llama_options *o;
} rotary;

/* A number that is 0 if it is missing or null. */
static bool read_number(const json_t *scaling, const char *key, double *number)
{
    *number = 0;
    return json_is_null(json_object_get(scaling, key)) || iso_hf_number(scaling, key, 0, number);
}

static iso_status read_default(const rotary *r)
{
    (void)r;
    return ISO_OK;
}

/* All positions are divided by the factor. */
static iso_status read_linear(const rotary *r)
{
    return iso_hf_positive(r->file, r->scaling, "factor", 0, &r->o->rope_linear);
}

/* It changes rows longer than max_position_embeddings alone, which llama does not take. */
static iso_status read_dynamic(const rotary *r)
{
    double factor;
    return iso_hf_positive(r->file, r->scaling, "factor", 0, &factor);
}

/* As in transformers, the network's own key counts if there are two. fallback: 0: one must be there. */
static iso_status read_original(const rotary *r, int64_t fallback)
{
    const json_t *own = json_object_get(r->config, ORIGINAL);
    const json_t *holder = own && !json_is_null(own) ? r->config : r->scaling;
    return iso_hf_count(r->file, holder, ORIGINAL, fallback, &r->o->rope_context);
}

static iso_status read_llama3(const rotary *r)
{
    iso_llama_options *o = r->o;
    iso_status status;
    ISO_TRY(iso_hf_positive(r->file, r->scaling, "factor", 8, &o->rope_factor));
    ISO_TRY(iso_hf_positive(r->file, r->scaling, "low_freq_factor", 1, &o->rope_low));
    ISO_TRY(iso_hf_positive(r->file, r->scaling, "high_freq_factor", 4, &o->rope_high));
    ISO_TRY(read_original(r, 0));
done:
    return status;
}

/* A number that has the fallback if it is 0 or null, too. */
static iso_status read_beta(const rotary *r, const char *key, double fallback, double *beta)
{
    bool is_number = read_number(r->scaling, key, beta);
    *beta = *beta == 0 ? fallback : *beta;
    if (is_number && *beta > 0)
        return ISO_OK;
    return iso_hf_refuse(r->file, key, json_object_get(r->scaling, key), "it must be positive");
}

/* DeepSeek's attention factor: the quotient of two of YaRN's with other weights. */
static double quotient_of_scales(double factor, double scale, double scale_all)
{
    const double log_factor = factor > 1 ? log(factor) : 0;
    return (0.1 * scale * log_factor + 1) / (0.1 * scale_all * log_factor + 1);
}

static iso_status read_attention_factor(const rotary *r)
{
    iso_llama_options *o = r->o;
    double scale = 0, scale_all = 0;
    const json_t *given = json_object_get(r->scaling, "attention_factor");
    if (given && !json_is_null(given))
        return iso_hf_positive(r->file, r->scaling, "attention_factor", 0, &o->rope_attention);
    if (!read_number(r->scaling, "mscale", &scale) || scale < 0)
        return iso_hf_refuse(r->file, "mscale", json_object_get(r->scaling, "mscale"), "it must be a number");
    if (!read_number(r->scaling, "mscale_all_dim", &scale_all) || scale_all < 0)
        return iso_hf_refuse(r->file, "mscale_all_dim", json_object_get(r->scaling, "mscale_all_dim"),
                             "it must be a number");
    if (scale > 0 && scale_all > 0)
        o->rope_attention = quotient_of_scales(o->rope_factor, scale, scale_all);
    return ISO_OK;
}

static iso_status read_yarn(const rotary *r)
{
    iso_llama_options *o = r->o;
    const json_t *truncate = json_object_get(r->scaling, "truncate");
    iso_status status;
    if (truncate && !json_is_true(truncate))
        return iso_hf_refuse(r->file, "truncate", truncate, "only true is supported");
    o->rope_yarn = true;
    ISO_TRY(read_original(r, o->context));
    ISO_TRY(iso_hf_positive(r->file, r->scaling, "factor", (double)o->context / (double)o->rope_context,
                            &o->rope_factor));
    ISO_TRY(read_beta(r, "beta_slow", 1, &o->rope_low));
    ISO_TRY(read_beta(r, "beta_fast", 32, &o->rope_high));
    if (o->rope_low >= o->rope_high)
        ISO_TRY(iso_hf_refuse(r->file, "beta_fast", json_object_get(r->scaling, "beta_fast"),
                              "it must be above beta_slow"));
    ISO_TRY(read_attention_factor(r));
done:
    return status;
}

static const struct {
    const char *type;
    iso_status (*read)(const rotary *r);
} types[] = {{"default", read_default},
             {"linear", read_linear},
             {"dynamic", read_dynamic},
             {"llama3", read_llama3},
             {"yarn", read_yarn}};

/* The object with the type, and its key. As in transformers, "rope_scaling" counts if a file has both. */
static const json_t *scaling_in(const json_t *config, const char **key)
{
    const json_t *older = json_object_get(config, "rope_scaling");
    *key = older && !json_is_null(older) ? "rope_scaling" : "rope_parameters";
    const json_t *scaling = json_object_get(config, *key);
    return json_is_null(scaling) ? NULL : scaling;
}

static const char *type_of(const json_t *scaling)
{
    const json_t *given = json_object_get(scaling, "rope_type");
    return json_string_value(given ? given : json_object_get(scaling, "type"));
}

/* Whether all features are turned. */
static iso_status check_whole(const char *file, const json_t *holder)
{
    static const char key[] = "partial_rotary_factor";
    double part;
    return iso_hf_number(holder, key, 1, &part) && part == 1
               ? ISO_OK
               : iso_hf_refuse(file, key, json_object_get(holder, key), "only 1 is supported");
}

/* The object that has the base of the frequencies. */
static const json_t *theta_holder(const json_t *config, const json_t *own, const json_t *scaling)
{
    return json_object_get(scaling, "rope_theta") ? scaling
           : json_object_get(own, "rope_theta")   ? own
                                                  : config;
}

iso_status iso_hf_read_rotary(const char *file, const json_t *config, iso_llama_options *o)
{
    const json_t *own = json_object_get(config, "rope_parameters");
    const char *key;
    const rotary r = {file, config, scaling_in(config, &key), o};
    const char *type = r.scaling ? type_of(r.scaling) : "default";
    iso_status status;
    ISO_TRY(iso_hf_positive(file, theta_holder(config, own, r.scaling), "rope_theta", o->wavelength,
                            &o->wavelength));
    ISO_TRY(check_whole(file, config));
    ISO_TRY(check_whole(file, r.scaling));
    for (size_t i = 0; type && i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].type, type) == 0)
            return types[i].read(&r);
    status = iso_hf_refuse(file, key, r.scaling,
                           "the types \"default\", \"linear\", \"dynamic\", \"llama3\" and \"yarn\" are "
                           "supported");
done:
    return status;
}

/* ---- two kinds of positions, as in Gemma 3 ---- */

#define WITHOUT_WINDOW "full_attention"
#define WITH_WINDOW "sliding_attention"
#define LOCAL_BASE "rope_local_base_freq"

/* A config that has the positions of blocks without a window alone. As in transformers, what "rope_scaling" has
 * counts before what "rope_parameters" has. */
static json_t *config_without_window(const json_t *config)
{
    static const char *const kept[] = {ORIGINAL, "partial_rotary_factor", "rope_theta"};
    const json_t *own = json_object_get(json_object_get(config, "rope_parameters"), WITHOUT_WINDOW),
                 *older = json_object_get(config, "rope_scaling");
    json_t *alone = json_object(), *both = json_is_object(own) ? json_copy((json_t *)own) : json_object();
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (json_object_get(config, kept[i]))
            json_object_set(alone, kept[i], json_object_get(config, kept[i]));
    if (json_is_object(older))
        json_object_update(both, (json_t *)older);
    if (json_object_size(both) > 0)
        json_object_set(alone, "rope_parameters", both);
    json_decref(both);
    return alone;
}

static iso_status read_local(const char *file, const json_t *config, iso_llama_options *o)
{
    const json_t *own = json_object_get(json_object_get(config, "rope_parameters"), WITH_WINDOW);
    const char *type = json_is_object(own) ? type_of(own) : NULL;
    const bool has_base = json_object_get(own, "rope_theta") != NULL;
    if (type && strcmp(type, "default") != 0)
        return iso_hf_refuse(file, WITH_WINDOW, own, "the type \"default\" is supported");
    return iso_hf_positive(file, has_base ? own : config, has_base ? "rope_theta" : LOCAL_BASE,
                           o->local_wavelength, &o->local_wavelength);
}

/* Each is an object, null or missing. */
static iso_status check_objects(const char *file, const json_t *config)
{
    const json_t *older = json_object_get(config, "rope_scaling"),
                 *both = json_object_get(config, "rope_parameters"),
                 *of[] = {both, json_object_get(both, WITHOUT_WINDOW), json_object_get(both, WITH_WINDOW)};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (of[i] && !json_is_null(of[i]) && !json_is_object(of[i]))
            return iso_hf_refuse(file, "rope_parameters", both, "it must hold objects");
    if (older && !json_is_null(older) && !json_is_object(older))
        return iso_hf_refuse(file, "rope_scaling", older, "it must be an object");
    /* As in transformers, a type or a base beside both objects does not count. */
    if (!(json_is_object(of[1]) && json_is_object(of[2])) &&
        (type_of(both) || json_object_get(both, "rope_theta")))
        return iso_hf_refuse(file, "rope_parameters", both,
                             "it must hold the objects \"" WITHOUT_WINDOW "\" and \"" WITH_WINDOW "\"");
    return ISO_OK;
}

iso_status iso_hf_read_two_rotaries(const char *file, const json_t *config, iso_llama_options *o)
{
    json_t *alone = NULL;
    iso_status status;
    ISO_TRY(check_objects(file, config));
    ISO_TRY(read_local(file, config, o));
    alone = config_without_window(config);
    ISO_TRY(iso_hf_read_rotary(file, alone, o));
done:
    json_decref(alone);
    return status;
}

/* ---- writing ---- */

static json_t *yarn_of(const iso_llama_options *o)
{
    json_t *yarn =
        json_pack("{s:s, s:f, s:f, s:f, s:I}", "rope_type", "yarn", "factor", o->rope_factor, "beta_slow",
                  o->rope_low, "beta_fast", o->rope_high, ORIGINAL, (json_int_t)o->rope_context);
    if (o->rope_attention != 0)
        json_object_set_new(yarn, "attention_factor", json_real(o->rope_attention));
    return yarn;
}

/* before: the one in the file, which may be of the type "dynamic": no setting says so. */
static json_t *scaling_of(const iso_llama_options *o, const json_t *before)
{
    const char *type = type_of(before);
    if (o->rope_linear != 1)
        return json_pack("{s:s, s:f}", "rope_type", "linear", "factor", o->rope_linear);
    if (o->rope_factor != 0 && o->rope_yarn)
        return yarn_of(o);
    if (o->rope_factor != 0)
        return json_pack("{s:s, s:f, s:f, s:f, s:I}", "rope_type", "llama3", "factor", o->rope_factor,
                         "low_freq_factor", o->rope_low, "high_freq_factor", o->rope_high, ORIGINAL,
                         (json_int_t)o->rope_context);
    if (type && strcmp(type, "dynamic") == 0)
        return json_pack("{s:s, s:O}", "rope_type", "dynamic", "factor", json_object_get(before, "factor"));
    return json_null();
}

/* In the form that all versions of transformers read. */
void iso_hf_write_rotary(const iso_llama_options *o, json_t *config)
{
    const char *key;
    const json_t *before = scaling_in(config, &key), *own = json_object_get(before, WITHOUT_WINDOW);
    json_t *scaling = scaling_of(o, own ? own : before);
    json_object_set_new(config, "rope_theta", json_real(o->wavelength));
    json_object_del(config, "rope_parameters");
    json_object_del(config, ORIGINAL); /* it would count instead of that in rope_scaling */
    json_object_set_new(config, "rope_scaling", scaling);
}

void iso_hf_write_two_rotaries(const iso_llama_options *o, double local_wavelength, json_t *config)
{
    iso_hf_write_rotary(o, config);
    json_object_set_new(config, LOCAL_BASE, json_real(local_wavelength));
}

bool iso_hf_has_rotary(const iso_llama_options *o)
{
    const bool linear = o->rope_linear != 1, stretched = o->rope_factor != 0;
    return !(linear && stretched) && (o->rope_attention == 0 || (stretched && o->rope_yarn));
}
