/* isogrid inspect of a .keras file: its metadata and config, and the weights in it. */
#include <stdio.h>
#include <string.h>

#include "launch/inspect_impl.h"
#include "models/keras/keras.h"
#include "runtime/base/file.h"
#include "runtime/base/memory.h"

bool iso_inspect_is_keras(const char *path)
{
    return iso_file_name_ends(path, ".keras");
}

/* A member's text as JSON; NULL: the file has none. */
static iso_status read_member(const char *path, const char *member, json_t **root)
{
    char *text = NULL, name[512];
    size_t bytes = 0;
    iso_status status = iso_keras_read_member(path, member, &text, &bytes);
    snprintf(name, sizeof name, "'%s': %s", path, member);
    if (status == ISO_OK && text)
        status = iso_json_parse(name, text, bytes, root);
    iso_free(text);
    return status;
}

/* ["conv: Conv2D", ...] */
static json_t *list_layers(const json_t *config)
{
    json_t *names = json_array(), *layer;
    size_t i;
    char text[300];
    json_array_foreach(json_object_get(config, "layers"), i, layer)
    {
        const char *class = json_string_value(json_object_get(layer, "class_name"));
        const char *name = json_string_value(json_object_get(json_object_get(layer, "config"), "name"));
        snprintf(text, sizeof text, "%.140s: %.140s", name ? name : "?", class ? class : "?");
        json_array_append_new(names, json_string_nocheck(text));
    }
    return names;
}

/* The name of a layer's policy, which Keras writes as a name or as an object; NULL: it has none of its own. */
static const char *policy_of(const json_t *layer)
{
    const char *class = json_string_value(json_object_get(layer, "class_name"));
    const json_t *dtype = json_object_get(json_object_get(layer, "config"), "dtype");
    if (class && strcmp(class, "InputLayer") == 0) /* it has a type */
        return NULL;
    return json_string_value(json_is_object(dtype) ? json_object_get(json_object_get(dtype, "config"), "name")
                                                   : dtype);
}

/* Adds to {"mixed_bfloat16": 3, ...}, how many layers have each policy, those of models within the model too. */
static void count_policies(const json_t *config, json_t *counts)
{
    json_t *layer;
    size_t i;
    json_array_foreach(json_object_get(config, "layers"), i, layer)
    {
        const json_t *own = json_object_get(layer, "config");
        const char *policy = json_object_get(own, "layers") ? NULL : policy_of(layer);
        if (policy)
            json_object_set_new(counts, policy,
                                json_integer(json_integer_value(json_object_get(counts, policy)) + 1));
        count_policies(own, counts);
    }
}

/* Used instead of a checkpoint's state. */
static iso_status inspect_keras_describe(const char *path, json_t **state)
{
    json_t *metadata = NULL, *config = NULL, *made = json_object(), *policies = json_object();
    iso_status status = ISO_OK;
    ISO_TRY(read_member(path, "metadata.json", &metadata));
    ISO_TRY(read_member(path, "config.json", &config));
    if (!json_is_object(config))
        ISO_TRY(iso_error(ISO_INVALID, "'%s': config.json: it is not the config of a model of Keras", path));
    const json_t *inner = json_object_get(config, "config");
    json_object_update(made, metadata);
    json_object_set(made, "class", json_object_get(config, "class_name"));
    json_object_set(made, "name", json_object_get(inner, "name"));
    json_object_set_new(made, "layers", list_layers(inner));
    count_policies(inner, policies);
    if (json_object_size(policies))
        json_object_set(made, "policies", policies);
    *state = json_incref(made);
done:
    json_decref(made);
    json_decref(policies);
    json_decref(metadata);
    json_decref(config);
    return status;
}

iso_status iso_inspect_open_keras(iso_inspection *inspection)
{
    iso_keras_unpacked weights = {.file = -1};
    const char *unpacked = weights.path;
    iso_status status = ISO_OK;
    ISO_TRY(inspect_keras_describe(inspection->path, &inspection->state));
    ISO_TRY(iso_keras_unpack_weights(inspection->path, &weights));
    ISO_TRY(iso_saved_file_open(NULL, unpacked, &inspection->file));
done:
    iso_keras_unpacked_remove(&weights);
    if (status != ISO_OK && *unpacked && strstr(iso_error_message(), unpacked)) {
        char *message = iso_strdup(iso_error_message());
        const char *rest = message ? strstr(message, unpacked) + strlen(unpacked) : "";
        iso_error(status, "'%s: the weights in it%s", inspection->path, rest);
        iso_free(message);
    }
    return status;
}
