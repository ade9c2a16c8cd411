/* The layers of a model in the state of a checkpoint, and how those of another model differ from them. */
#include <string.h>

#include "runtime/base/text.h"
#include "runtime/graph/layer.h"
#include "runtime/graph/lora.h"
#include "runtime/train/keras/weight_paths.h"
#include "runtime/train/state_impl.h"

/* ---- as JSON ---- */

static json_t *json_of(const iso_attribute *value);

static json_t *members_of(const iso_attribute *object)
{
    json_t *members = json_object();
    for (const iso_attribute *a = object ? object->first : NULL; a; a = a->next)
        json_object_set_new(members, a->name, json_of(a));
    return members;
}

static json_t *items_of(const iso_attribute *list)
{
    json_t *items = json_array();
    for (const iso_attribute *a = list->first; a; a = a->next)
        json_array_append_new(items, json_of(a));
    return items;
}

static json_t *json_of(const iso_attribute *value)
{
    switch (value->kind) {
    case ISO_ATTRIBUTE_NONE:
        break;
    case ISO_ATTRIBUTE_FLAG:
        return json_boolean(value->integer != 0);
    case ISO_ATTRIBUTE_INTEGER:
        return json_integer(value->integer);
    case ISO_ATTRIBUTE_REAL:
        return iso_json_number(value->real);
    case ISO_ATTRIBUTE_TEXT:
        return json_string(value->text);
    case ISO_ATTRIBUTE_INPUT:
        return json_pack("{s:I}", "input", (json_int_t)value->integer);
    case ISO_ATTRIBUTE_LIST:
        return items_of(value);
    case ISO_ATTRIBUTE_OBJECT:
        return members_of(value);
    }
    return json_null();
}

static void add_layer(json_t *layers, const char *group, const iso_layer_record *layer)
{
    json_t *one = json_pack("{s:s, s:s}", "class", layer->type, "name", layer->name);
    json_object_set_new(one, "config", members_of(layer->config));
    if (layer->call)
        json_object_set_new(one, "call", members_of(layer->call));
    json_object_set_new(layers, group, one);
}

/* The adapters of a model, as a layer: outputs depend on alpha, which no variable shows. One that has adapters of
 * several ranks or alphas has a setting for each kernel. */
static void add_adapters(json_t *layers, const iso_model *model)
{
    json_t *config = json_object(), *each = json_object();
    for (int i = 0; !model->merged && i < iso_graph_variable_count(model->graph); i++) {
        const iso_variable *variable = iso_graph_variable(model->graph, i);
        const iso_adapter *adapter = iso_variable_adapter(variable);
        if (!adapter)
            continue;
        json_t *one = json_pack("{s:I, s:o}", "rank", (json_int_t)adapter->rank, "alpha",
                                iso_json_number(adapter->scale * (double)adapter->rank));
        json_object_set(each, iso_variable_path(variable), one);
        if (json_object_size(each) == 1)
            json_object_update(config, one);
        else if (!json_equal(config, one))
            json_object_clear(config);
        json_decref(one);
    }
    if (json_object_size(each) > 0)
        json_object_set_new(layers, "/lora",
                            json_pack("{s:s, s:s, s:O}", "class", "LoRA", "name", "--lora", "config",
                                      json_object_size(config) > 0 ? config : each));
    json_decref(config);
    json_decref(each);
}

iso_status iso_state_layers(iso_model *model, json_t **layers)
{
    iso_weight_paths paths = {0};
    iso_status status = iso_weight_paths_create(model, &paths);
    if (status != ISO_OK)
        return status;
    *layers = json_object();
    for (int i = 0; i < paths.n_groups; i++)
        if (paths.layer[i] >= 0)
            add_layer(*layers, paths.groups[i].h5_path, iso_graph_layer(model->graph, paths.layer[i]));
    iso_weight_paths_free(&paths);
    add_adapters(*layers, model);
    return ISO_OK;
}

/* ---- differences ---- */

enum { SHOWN = 3, LONGEST_VALUE = 60 };

/* The differences found so far. */
typedef struct differences {
    iso_text *text;
    int found;
    bool every;
} differences;

/* Whether the list, which ends with NULL, has the text. */
static bool is_among(const char *const *list, const char *text)
{
    while (*list && strcmp(*list, text) != 0)
        list++;
    return *list;
}

/* Layers that do nothing in inference. */
static bool trains_only(const json_t *layer)
{
    static const char *const classes[] = {"Dropout", "GaussianNoise", NULL};
    const char *type = json_string_value(json_object_get(layer, "class"));
    return type && is_among(classes, type);
}

/* Settings with which weights are made and trained, and names: inference does not depend on them. */
static bool is_of_training(const char *key)
{
    static const char *const keys[] = {"dropout", "momentum", "seed", "name", NULL};
    static const char *const ends[] = {"initializer", "regularizer", "constraint"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t length = strlen(key), end = strlen(ends[i]);
        if (length >= end && strcmp(key + length - end, ends[i]) == 0)
            return true;
    }
    return is_among(keys, key);
}

/* Begins one more difference; false if enough are shown. */
static bool begin(differences *d)
{
    if (++d->found > SHOWN)
        return false;
    iso_text_add(d->text, "%s", d->found > 1 ? "; " : "");
    return true;
}

static const char *member(const json_t *layer, const char *key)
{
    const char *text = json_string_value(json_object_get(layer, key));
    return text ? text : "";
}

static void add_value(iso_text *text, const json_t *value)
{
    char shown[LONGEST_VALUE + 1];
    iso_text_add(text, "%s", iso_json_shown(value, shown, sizeof shown));
}

static void compare_members(differences *d, const json_t *layer, json_t *theirs, json_t *ours);

/* The name of a layer of which another is made; NULL: the value is none. */
static const char *name_of_part(const json_t *value)
{
    return json_string_value(json_object_get(json_object_get(value, "config"), "name"));
}

/* Whether two values are such layers of one class: then their settings are compared. */
static bool compare_parts(differences *d, const json_t *theirs, const json_t *ours)
{
    const char *name = name_of_part(ours);
    if (!name || !name_of_part(theirs) ||
        strcmp(member(theirs, "class_name"), member(ours, "class_name")) != 0)
        return false;
    json_t *layer = json_pack("{s:s, s:s}", "class", member(ours, "class_name"), "name", name);
    compare_members(d, layer, json_object_get(theirs, "config"), json_object_get(ours, "config"));
    json_decref(layer);
    return true;
}

static void compare_setting(differences *d, const json_t *layer, const char *key, const json_t *theirs,
                            const json_t *ours)
{
    if (compare_parts(d, theirs, ours))
        return;
    bool equal = theirs && ours ? json_equal(theirs, ours) : json_is_null(theirs ? theirs : ours);
    if (equal || (!d->every && is_of_training(key)) || !begin(d))
        return;
    iso_text_add(d->text, "the %s '%s' has %s ", member(layer, "class"), member(layer, "name"), key);
    add_value(d->text, ours);
    iso_text_add(d->text, ", the file's has ");
    add_value(d->text, theirs);
}

static void compare_members(differences *d, const json_t *layer, json_t *theirs, json_t *ours)
{
    const char *key;
    json_t *value;
    json_object_foreach(ours, key, value) compare_setting(d, layer, key, json_object_get(theirs, key), value);
    json_object_foreach(theirs, key, value) if (!json_object_get(ours, key))
        compare_setting(d, layer, key, value, NULL);
}

static int count_type(json_t *layers, const char *type)
{
    int count = 0;
    const char *path;
    json_t *layer;
    json_object_foreach(layers, path, layer) count += strcmp(member(layer, "class"), type) == 0;
    return count;
}

/* Whether layers of one path correspond. Keras's files have layers where a network may have bare ops, such as an
 * Activation: if one model has more of them than the other, their numbers are not those of the other's. */
static bool corresponds(const differences *d, json_t *theirs, json_t *ours, const json_t *layer)
{
    const char *type = member(layer, "class");
    return d->every || (!trains_only(layer) && count_type(theirs, type) == count_type(ours, type));
}

static void compare_layer(differences *d, const json_t *theirs, const json_t *ours)
{
    if (d->every)
        compare_setting(d, ours, "name", json_object_get(theirs, "name"), json_object_get(ours, "name"));
    compare_members(d, ours, json_object_get(theirs, "config"), json_object_get(ours, "config"));
    compare_members(d, ours, json_object_get(theirs, "call"), json_object_get(ours, "call"));
}

static void add_missing(differences *d, const json_t *layer, const char *with, const char *without)
{
    if (d->every && begin(d))
        iso_text_add(d->text, "%s has the %s '%s', %s has not", with, member(layer, "class"),
                     member(layer, "name"), without);
}

static void compare_layers(differences *d, json_t *theirs, json_t *ours)
{
    const char *path;
    json_t *layer, *other;
    json_object_foreach(ours, path, layer)
    {
        other = json_object_get(theirs, path);
        if (!other)
            add_missing(d, layer, "this model", "the file's");
        else if (corresponds(d, theirs, ours, layer))
            compare_layer(d, other, layer);
    }
    json_object_foreach(theirs, path, layer) if (!json_object_get(ours, path))
        add_missing(d, layer, "the file's model", "this one");
    if (d->found > SHOWN)
        iso_text_add(d->text, " and %d more", d->found - SHOWN);
}

iso_status iso_state_layer_differences(const json_t *state, iso_model *model, bool every, iso_text *text)
{
    json_t *theirs = json_object_get(state, "layers"), *ours;
    if (!json_is_object(theirs))
        return ISO_OK;
    iso_status status = iso_state_layers(model, &ours);
    if (status != ISO_OK)
        return status;
    compare_layers(&(differences){.text = text, .every = every}, theirs, ours);
    json_decref(ours);
    return ISO_OK;
}
