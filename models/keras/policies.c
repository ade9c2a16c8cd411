/* The policies of layers: Keras's `dtype`, a name, a DTypePolicy, or a DTypePolicyMap of policies by path. */
#include <string.h>

#include "models/keras/network_impl.h"

static const char mixed[] = "mixed_bfloat16";

static iso_status unsupported(const iso_keras_network *net, const json_t *dtype)
{
    char text[160];
    return iso_keras_refuse(net->reader,
                            "dtype is %s; supported: \"float32\", \"mixed_bfloat16\", and with "
                            "--precision float64 \"float64\"",
                            iso_json_shown(dtype, text, sizeof text));
}

/* The name of a policy that is a name or a DTypePolicy (in older files a FloatDTypePolicy); NULL: it is neither. */
static const char *name_of(const json_t *dtype)
{
    bool custom;
    if (json_is_string(dtype))
        return json_string_value(dtype);
    const char *type = iso_keras_class(dtype, &custom);
    bool plain = type && !custom && (!strcmp(type, "DTypePolicy") || !strcmp(type, "FloatDTypePolicy"));
    return plain ? iso_keras_text(json_object_get(dtype, "config"), "name") : NULL;
}

bool iso_keras_same_policy(const json_t *a, const json_t *b)
{
    const char *one = name_of(a), *other = name_of(b);
    return !a || !b || (one && other ? strcmp(one, other) == 0 : json_equal(a, b));
}

/* ---- maps ---- */

/* A key that matches no path but itself. Other keys are regular expressions. */
static bool is_plain(const char *key)
{
    return !key[strcspn(key, "\\^$.|?*+()[]{}")];
}

/* A layer's parts ("mha/query") may have other policies than the layer in Keras. Here a layer has one. */
static iso_status check_keys(const iso_keras_network *net, const json_t *map, const char *name)
{
    const char *key;
    json_t *policy;
    size_t length = strlen(name);
    json_object_foreach((json_t *)(uintptr_t)map, key, policy)
    {
        if (!is_plain(key))
            return iso_keras_refuse(net->reader,
                                    "dtype is a DTypePolicyMap with the key '%.80s'; regular expressions are "
                                    "not supported",
                                    key);
        if (!strncmp(key, name, length) && key[length] == '/')
            return iso_keras_refuse(net->reader,
                                    "dtype is a DTypePolicyMap with the key '%.80s'; a part of a layer "
                                    "cannot have a policy of its own",
                                    key);
    }
    return ISO_OK;
}

/* The policy that a layer has of a map: that of its name, which is its path when a file is loaded, or the default. */
static iso_status look_up(const iso_keras_network *net, const char *name, const json_t **dtype)
{
    bool custom;
    const char *type = iso_keras_class(*dtype, &custom);
    if (!type || custom || strcmp(type, "DTypePolicyMap") != 0)
        return ISO_OK;
    const json_t *config = json_object_get(*dtype, "config"), *map = json_object_get(config, "policy_map");
    const json_t *own = json_object_get(map, name);
    iso_status status = check_keys(net, map, name);
    *dtype = own ? own : json_object_get(config, "default_policy");
    return status;
}

/* ---- a layer ---- */

/* float32, Keras's default, is computed in any precision, unless some layers of the model have another policy. */
static iso_status find_type(const iso_keras_network *net, const json_t *config, const char *name,
                            iso_dtype *type)
{
    const json_t *dtype = json_object_get(config, "dtype");
    iso_status status = look_up(net, name, &dtype);
    if (status != ISO_OK)
        return status;
    *type = iso_graph_compute_type(net->graph);
    if (!dtype || json_is_null(dtype))
        return ISO_OK;
    const char *policy = name_of(dtype);
    if (policy && !strcmp(policy, mixed))
        *type = net->reader->no_policies ? *type : ISO_BF16;
    else if (policy && !strcmp(policy, "float32"))
        *type = net->reader->policies ? ISO_F32 : *type;
    else if (!policy || strcmp(policy, "float64") != 0 || iso_graph_precision(net->graph) != ISO_F64)
        return unsupported(net, dtype);
    return ISO_OK;
}

iso_status iso_keras_policy_begin(const iso_keras_network *net, const json_t *config, const char *name)
{
    iso_dtype type;
    iso_status status = find_type(net, config, name ? name : "", &type);
    if (status == ISO_OK)
        iso_policy_begin(net->graph, type);
    return status;
}

iso_status iso_keras_policy_check(const iso_keras_network *net)
{
    iso_dtype type;
    const char *name = iso_keras_text(net->config, "name");
    return find_type(net, net->config, name ? name : "", &type);
}

/* ---- a model ---- */

/* Whether a policy, or some policy of a map, is mixed_bfloat16. */
static bool is_mixed(const json_t *dtype)
{
    const char *name = name_of(dtype), *key;
    const json_t *config = json_object_get(dtype, "config");
    json_t *policy;
    bool found = name && !strcmp(name, mixed);
    if (name || !config)
        return found;
    json_object_foreach(json_object_get(config, "policy_map"), key, policy) found |= is_mixed(policy);
    return found || is_mixed(json_object_get(config, "default_policy"));
}

bool iso_keras_names_mixed(const json_t *config)
{
    size_t i;
    const char *key;
    json_t *value;
    bool found = is_mixed(json_object_get(config, "dtype"));
    json_array_foreach(config, i, value) found = found || iso_keras_names_mixed(value);
    json_object_foreach((json_t *)(uintptr_t)config, key, value) found =
        found || (strcmp(key, "dtype") != 0 && iso_keras_names_mixed(value));
    return found;
}
