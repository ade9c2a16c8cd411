/* Layout maps: layouts by path, with the meaning of Keras 3.14's LayoutMap. */
#include <string.h>

#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/spmd/pattern.h"
#include "runtime/spmd/spmd_impl.h"

typedef struct map_entry {
    char *key;
    char *text;
    iso_layout layout;
    iso_pattern *pattern;
    bool of_optimizer; /* for slots of optimizers, not for variables and outputs */
    bool used, reported;
} map_entry;

static const char optimizer_prefix[] = "optimizer:";

struct iso_layout_map {
    iso_mesh *mesh;
    bool strict;
    int count, capacity;
    map_entry *entries;
};

iso_status iso_layout_map_create(iso_mesh *mesh, iso_layout_map **out)
{
    if (!mesh)
        return iso_error(ISO_INVALID, "a layout map needs a mesh");
    iso_layout_map *map = iso_new(sizeof *map);
    if (!map)
        return iso_error(ISO_NO_MEMORY, "no memory for a layout map");
    map->mesh = mesh;
    *out = map;
    return ISO_OK;
}

void iso_layout_map_destroy(iso_layout_map *map)
{
    if (!map)
        return;
    for (int i = 0; i < map->count; i++) {
        iso_free(map->entries[i].key);
        iso_free(map->entries[i].text);
        iso_pattern_destroy(map->entries[i].pattern);
    }
    iso_free(map->entries);
    iso_free(map);
}

iso_mesh *iso_layout_map_mesh(const iso_layout_map *map)
{
    return map->mesh;
}

void iso_layout_map_set_strict(iso_layout_map *map, bool strict)
{
    map->strict = strict;
}

static iso_status add_entry(iso_layout_map *map, map_entry fresh)
{
    if (map->count == map->capacity) {
        size_t wanted = map->capacity ? (size_t)map->capacity * 2 : 8;
        map_entry *grown = iso_grow(map->entries, (size_t)map->count, wanted, sizeof *grown);
        if (!grown)
            return iso_error(ISO_NO_MEMORY, "no memory for a layout map of %zu keys", wanted);
        map->entries = grown;
        map->capacity = (int)wanted;
    }
    map->entries[map->count++] = fresh;
    return ISO_OK;
}

iso_status iso_layout_map_set(iso_layout_map *map, const char *key, const char *layout)
{
    iso_status status;
    map_entry fresh = {0};
    for (int i = 0; i < map->count; i++)
        if (strcmp(map->entries[i].key, key) == 0)
            return iso_error(ISO_INVALID, "layout key '%s' is set twice: to '%s' and to '%s'", key,
                             map->entries[i].text, layout);
    ISO_TRY(iso_layout_parse(map->mesh, layout, &fresh.layout));
    ISO_TRY(iso_pattern_create(key, &fresh.pattern));
    fresh.of_optimizer = strncmp(key, optimizer_prefix, sizeof optimizer_prefix - 1) == 0;
    fresh.key = iso_strdup(key);
    fresh.text = iso_strdup(layout);
    if (!fresh.key || !fresh.text)
        ISO_TRY(iso_error(ISO_NO_MEMORY, "no memory for the layout key '%s'", key));
    ISO_TRY(add_entry(map, fresh));
    return ISO_OK;
done:
    iso_free(fresh.key);
    iso_free(fresh.text);
    iso_pattern_destroy(fresh.pattern);
    return iso_error_prefix(status, "layout key '%s': ", key);
}

/* The entry whose key is the path, or the one whose expression matches all of it; NULL where none does. */
static iso_status look_up(iso_layout_map *map, const char *path, bool of_optimizer, map_entry **found)
{
    *found = NULL;
    for (int i = 0; i < map->count; i++)
        if (strcmp(map->entries[i].key, path) == 0) {
            *found = &map->entries[i];
            return ISO_OK;
        }
    for (int i = 0; i < map->count; i++) {
        bool matches = false;
        iso_status status = map->entries[i].of_optimizer == of_optimizer
                                ? iso_pattern_match(map->entries[i].pattern, path, &matches)
                                : ISO_OK;
        if (status != ISO_OK)
            return iso_error_prefix(status, "layout key '%s': ", map->entries[i].key);
        if (matches && *found)
            return iso_error(ISO_INVALID, "two layout keys match '%s': '%s' and '%s'", path, (*found)->key,
                             map->entries[i].key);
        *found = matches ? &map->entries[i] : *found;
    }
    return ISO_OK;
}

static iso_status find(iso_layout_map *map, const char *path, bool of_optimizer, const iso_shape *shape,
                       iso_layout *layout, const char **matched)
{
    map_entry *found = NULL;
    char text[160];
    iso_status status = map ? look_up(map, path, of_optimizer, &found) : ISO_OK;
    if (status != ISO_OK)
        return status;
    if (matched)
        *matched = found ? found->key : NULL;
    *layout = found ? found->layout : iso_layout_whole(shape->rank);
    if (found)
        found->used = true;
    if (layout->rank != shape->rank)
        return iso_error(ISO_INVALID, "layout '%s' of key '%s' has %d entr%s, but '%s' has the shape %s",
                         found->text, found->key, layout->rank, layout->rank == 1 ? "y" : "ies", path,
                         iso_shape_text(shape, text, sizeof text));
    return ISO_OK;
}

iso_status iso_layout_map_find(iso_layout_map *map, const char *path, const iso_shape *shape,
                               iso_layout *layout, const char **matched)
{
    return find(map, path, false, shape, layout, matched);
}

iso_status iso_layout_map_find_optimizer(iso_layout_map *map, const char *variable, const char *slot,
                                         const iso_shape *shape, iso_layout *layout, const char **matched)
{
    iso_text path = {0};
    iso_text_add(&path, "%s%s/%s", optimizer_prefix, variable, slot);
    iso_status status = path.failed
                            ? iso_error(ISO_NO_MEMORY, "no memory for the path of a slot of '%s'", variable)
                            : find(map, iso_text_get(&path), true, shape, layout, matched);
    iso_text_free(&path);
    return status;
}

iso_status iso_layout_map_report_unused(iso_layout_map *map, const char *const *paths, int count, bool chief)
{
    iso_status status = ISO_OK;
    for (int i = 0; map && i < map->count && status == ISO_OK; i++) {
        map_entry *entry = &map->entries[i];
        if (entry->used || entry->reported)
            continue;
        entry->reported = true;
        iso_text message = {0};
        iso_text_add(&message, "layout key '%s' matches no variable and no layer output", entry->key);
        iso_text_add_nearest(&message, entry->key, paths, count);
        if (map->strict)
            status = iso_error(ISO_INVALID, "%s", iso_text_get(&message));
        else if (chief)
            iso_warn("%s", iso_text_get(&message));
        iso_text_free(&message);
    }
    return status;
}
