/* Layout maps: layouts by path, with the meaning of Keras 3.14's LayoutMap. */
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/base/list.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/spmd/layout_map_impl.h"

iso_status iso_layout_map_create(iso_mesh *mesh, iso_layout_map **out)
{
    ISO_NEED_AS("mesh, map", mesh, out);
    iso_layout_map *map = iso_new(sizeof *map);
    if (!map)
        return iso_no_memory("a layout map");
    map->holders = 1;
    map->mesh = iso_mesh_hold(mesh);
    *out = map;
    return ISO_OK;
}

static void free_entry(iso_map_entry *entry)
{
    iso_free(entry->given);
    iso_free(entry->text);
    iso_pattern_destroy(entry->pattern);
}

iso_layout_map *iso_layout_map_hold(iso_layout_map *map)
{
    if (map)
        map->holders++;
    return map;
}

void iso_layout_map_destroy(iso_layout_map *map)
{
    if (!map || --map->holders > 0)
        return;
    for (int i = 0; i < map->count; i++)
        free_entry(&map->entries[i]);
    iso_free(map->entries);
    iso_mesh_destroy(map->mesh);
    iso_free(map);
}

iso_mesh *iso_layout_map_mesh(const iso_layout_map *map)
{
    return map->mesh;
}

void iso_layout_map_set_strict(iso_layout_map *map, bool strict)
{
    if (ISO_ANY_NULL(map))
        return;
    map->strict = strict;
}

/* The key without the mark that it may match nothing. */
static const char *unmarked(const char *key)
{
    return key + (*key == '?');
}

static iso_status add_entry(iso_layout_map *map, iso_map_entry fresh)
{
    return iso_list_add(map->entries, map->count, fresh, "the keys of a layout map");
}

iso_status iso_layout_map_set(iso_layout_map *map, const char *key, const char *layout)
{
    ISO_NEED(map, key, layout);
    const char *given = key;
    iso_status status;
    iso_map_entry fresh = {0};
    key = unmarked(given);
    if (key != given && !*key)
        return iso_error(ISO_INVALID, "layout key '?': the key after the '?' is missing");
    for (int i = 0; i < map->count; i++)
        if (strcmp(map->entries[i].key, key) == 0)
            return iso_error(ISO_INVALID, "layout key '%s' is set twice: to '%s' and to '%s'", key,
                             map->entries[i].text, layout);
    ISO_TRY(iso_layout_parse(map->mesh, layout, &fresh.layout));
    fresh.layout.mesh = map->mesh;
    ISO_TRY(iso_pattern_create(key, &fresh.pattern));
    fresh.plain = iso_pattern_is_plain(key);
    fresh.of_optimizer = iso_path_of_optimizer(key);
    fresh.optional = key != given;
    fresh.given = iso_strdup(given);
    fresh.text = iso_strdup(layout);
    if (!fresh.given || !fresh.text)
        ISO_TRY(iso_no_memory("the layout key '%s'", key));
    fresh.key = unmarked(fresh.given);
    ISO_TRY(add_entry(map, fresh));
    return ISO_OK;
done:
    free_entry(&fresh);
    return iso_error_prefix(status, "layout key '%s': ", key);
}

static iso_status no_such_key(const iso_layout_map *map, const char *key)
{
    iso_text message = {0};
    const char **keys = iso_new(((size_t)map->count + 1) * sizeof *keys);
    for (int i = 0; keys && i < map->count; i++)
        keys[i] = map->entries[i].key;
    iso_text_add(&message, "the map has no layout key '%s'", key);
    if (keys)
        iso_text_add_nearest(&message, key, keys, map->count);
    iso_status status = iso_error(ISO_INVALID, "%s", iso_text_get(&message));
    iso_text_free(&message);
    iso_free(keys);
    return status;
}

iso_status iso_layout_map_remove(iso_layout_map *map, const char *key)
{
    ISO_NEED(map, key);
    int at = 0;
    key = unmarked(key);
    while (at < map->count && strcmp(map->entries[at].key, key) != 0)
        at++;
    if (at == map->count)
        return no_such_key(map, key);
    free_entry(&map->entries[at]);
    map->count--;
    memmove(&map->entries[at], &map->entries[at + 1], (size_t)(map->count - at) * sizeof map->entries[at]);
    return ISO_OK;
}

int iso_layout_map_count(const iso_layout_map *map)
{
    if (ISO_ANY_NULL(map))
        return 0;
    return map->count;
}

const char *iso_layout_map_key(const iso_layout_map *map, int index)
{
    if (ISO_ANY_NULL(map))
        return NULL;
    return index >= 0 && index < map->count ? map->entries[index].given : NULL;
}

const char *iso_layout_map_layout(const iso_layout_map *map, int index)
{
    if (ISO_ANY_NULL(map))
        return NULL;
    return index >= 0 && index < map->count ? map->entries[index].text : NULL;
}

bool iso_path_of_optimizer(const char *path)
{
    return strncmp(path, ISO_OPTIMIZER_PREFIX, sizeof ISO_OPTIMIZER_PREFIX - 1) == 0;
}

iso_status iso_map_entry_match(const iso_map_entry *entry, const char *path, bool *found)
{
    *found = strcmp(entry->key, path) == 0;
    if (*found || entry->plain || entry->of_optimizer != iso_path_of_optimizer(path))
        return ISO_OK;
    iso_status status = iso_pattern_match(entry->pattern, path, found);
    return status == ISO_OK ? ISO_OK : iso_error_prefix(status, "layout key '%s': ", entry->key);
}

/* The entry whose key is the path, or else the one whose expression matches all of it; NULL if none does. */
static iso_status look_up(iso_layout_map *map, const char *path, iso_map_entry **found)
{
    *found = NULL;
    for (int i = 0; i < map->count; i++)
        if (strcmp(map->entries[i].key, path) == 0) {
            *found = &map->entries[i];
            return ISO_OK;
        }
    for (int i = 0; i < map->count; i++) {
        bool matches;
        iso_status status = iso_map_entry_match(&map->entries[i], path, &matches);
        if (status != ISO_OK)
            return status;
        if (matches && *found)
            return iso_error(ISO_INVALID, "two layout keys match '%s': '%s' and '%s'", path, (*found)->key,
                             map->entries[i].key);
        *found = matches ? &map->entries[i] : *found;
    }
    return ISO_OK;
}

iso_status iso_layout_map_get(iso_layout_map *map, const char *path, const iso_layout **layout)
{
    iso_map_entry *found;
    ISO_NEED(map, path, layout);
    iso_status status = look_up(map, path, &found);
    if (status == ISO_OK)
        *layout = found ? &found->layout : NULL;
    return status;
}

iso_status iso_layout_map_find(iso_layout_map *map, const char *path, const iso_shape *shape,
                               iso_layout *layout, const char **matched)
{
    iso_map_entry *found = NULL;
    char text[160];
    iso_status status = map ? look_up(map, path, &found) : ISO_OK;
    if (status != ISO_OK)
        return status;
    if (matched)
        *matched = found ? found->key : NULL;
    *layout = found ? found->layout : iso_layout_whole(shape->rank);
    if (found)
        found->used = true;
    layout->mesh = NULL; /* as within programs */
    if (layout->rank != shape->rank)
        return iso_error(ISO_INVALID, "layout '%s' of key '%s' has %d entr%s, but '%s' has the shape %s",
                         found->text, found->key, layout->rank, layout->rank == 1 ? "y" : "ies", path,
                         iso_shape_text(shape, text, sizeof text));
    return ISO_OK;
}
