#include "runtime/spmd/distribution_json.h"

#include <string.h>

#include "runtime/base/text.h"
#include "runtime/graph/graph_impl.h"
#include "runtime/session/session.h"
#include "runtime/spmd/spmd_impl.h"

static const char data_parallel[] = "data parallel", model_parallel[] = "model parallel",
                  callbacks[] = "callbacks";

/* ---- to JSON ---- */

/* Axes joined by '+', of `length` characters, or '-', as Keras has them: null, "a", or ["a", "b"]. */
static json_t *dimension(const char *text, size_t length)
{
    json_t *axes = json_array();
    while (length) {
        size_t name = strcspn(text, "+, ");
        name = name < length ? name : length;
        if (name && !(name == 1 && *text == '-'))
            json_array_append_new(axes, json_stringn(text, name));
        size_t step = name < length ? name + 1 : name;
        text += step;
        length -= step;
    }
    json_t *only = json_array_size(axes) == 1 ? json_incref(json_array_get(axes, 0)) : NULL;
    json_t *value = json_array_size(axes) == 0 ? json_null() : only ? only : json_incref(axes);
    json_decref(axes);
    return value;
}

json_t *iso_layout_json(const char *layout)
{
    if (strchr(layout, ';'))
        return json_string(layout);
    json_t *list = json_array();
    while (*layout) {
        size_t length = strcspn(layout, ",");
        json_array_append_new(list, dimension(layout, length));
        layout += length + (layout[length] == ',');
    }
    return list;
}

static json_t *layouts_of(const iso_layout_map *map)
{
    json_t *object = json_object();
    for (int i = 0; i < iso_layout_map_count(map); i++)
        json_object_set_new(object, iso_layout_map_key(map, i),
                            iso_layout_json(iso_layout_map_layout(map, i)));
    return object;
}

static const char *kind_of(const iso_distribution *distribution)
{
    const iso_distribution_options *how = &distribution->how;
    if (how->data || how->variable || how->output || how->optimizer)
        return callbacks;
    return distribution->map || distribution->batch_axis >= 0 ? model_parallel : data_parallel;
}

json_t *iso_distribution_json(const iso_graph *graph)
{
    const iso_distribution *distribution = graph->distribution;
    int zero = distribution && distribution->zero > 1 ? distribution->zero : 1;
    json_t *rules = json_object();
    json_object_set_new(rules, "kind", json_string(distribution ? kind_of(distribution) : data_parallel));
    json_object_set_new(rules, "zero", json_integer(zero));
    if (distribution && kind_of(distribution) == model_parallel) {
        json_object_set_new(rules, "batch_axis",
                            json_string(iso_mesh_axis_name(distribution->mesh, distribution->batch_axis)));
        json_object_set_new(rules, "layouts",
                            distribution->map ? layouts_of(distribution->map) : json_object());
    }
    return rules;
}

void iso_layout_file_add(iso_text *text, const json_t *layouts, int indent)
{
    const char *key, *separator = "";
    json_t *layout;
    iso_text_add(text, "%*s{", indent, "");
    json_object_foreach((json_t *)(uintptr_t)layouts, key, layout)
    {
        iso_text_add(text, "%s\n%*s", separator, indent + 4, "");
        iso_json_add(text, json_string(key), 0);
        iso_text_add(text, ": ");
        iso_json_add(text, json_incref(layout), 0);
        separator = ",";
    }
    if (*separator)
        iso_text_add(text, "\n%*s", indent, "");
    iso_text_add(text, "}\n");
}

int iso_mesh_most_slots_of_host(const iso_mesh *mesh)
{
    int most = 0;
    for (int h = 0; h < iso_hosts(mesh->ctx); h++) {
        int slots = 0;
        for (int s = 0; s < mesh->n_slots; s++)
            slots += iso_host_of_rank(mesh->ctx, mesh->rank_of_slot[s]) == h;
        most = slots > most ? slots : most;
    }
    return most;
}

/* ---- from JSON ---- */

static iso_status read_map(iso_mesh *mesh, const char *name, const json_t *layouts, iso_layout_map **map)
{
    iso_text text = {0};
    iso_status status;
    ISO_TRY(iso_layout_map_create(mesh, map));
    iso_layout_file_add(&text, layouts, 0);
    if (text.failed)
        ISO_TRY(iso_no_memory("%s", name));
    ISO_TRY(iso_layout_map_parse(*map, name, iso_text_get(&text), text.length));
done:
    iso_text_free(&text);
    return status;
}

static iso_status read_model_parallel(iso_mesh *mesh, const char *name, const json_t *rules,
                                      iso_distribution **distribution)
{
    iso_layout_map *map = NULL;
    iso_status status;
    ISO_TRY(read_map(mesh, name, json_object_get(rules, "layouts"), &map));
    status = iso_model_parallel_create(map, distribution,
                                       .batch_axis = json_string_value(json_object_get(rules, "batch_axis")));
    if (status != ISO_OK)
        status = iso_error_prefix(status, "%s: ", name);
done:
    iso_layout_map_destroy(map);
    return status;
}

iso_status iso_distribution_from_json(iso_mesh *mesh, const char *name, const json_t *rules,
                                      iso_distribution **distribution)
{
    const char *kind = json_string_value(json_object_get(rules, "kind"));
    iso_distribution *made = NULL;
    iso_status status;
    if (kind && !strcmp(kind, callbacks))
        return iso_error(ISO_INVALID, "%s: they are callbacks of a program, which no file holds", name);
    if (kind && !strcmp(kind, data_parallel))
        ISO_TRY(iso_data_parallel_create(mesh, &made));
    else if (kind && !strcmp(kind, model_parallel))
        ISO_TRY(read_model_parallel(mesh, name, rules, &made));
    else
        return iso_error(ISO_INVALID, "%s: unknown kind '%s'", name, kind ? kind : "");
    ISO_TRY(iso_distribution_set_zero(made, (int)json_integer_value(json_object_get(rules, "zero"))));
    *distribution = made;
    made = NULL;
done:
    iso_distribution_destroy(made);
    return status;
}
