/* Layout maps: layouts by variable path, with the meaning of Keras 3.14's LayoutMap. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/spmd/spmd_impl.h"

typedef struct map_entry {
    char *key;
    char *text;
    iso_layout layout;
    pcre2_code *pattern; /* NULL: the key is no regular expression and matches exactly only */
    bool used, reported;
} map_entry;

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
        pcre2_code_free(map->entries[i].pattern);
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

static iso_status compile_key(const char *key, pcre2_code **pattern)
{
    int code;
    PCRE2_SIZE position;
    PCRE2_UCHAR why[128];
    *pattern = pcre2_compile((PCRE2_SPTR)key, PCRE2_ZERO_TERMINATED, PCRE2_ANCHORED | PCRE2_ENDANCHORED,
                             &code, &position, NULL);
    if (*pattern)
        return ISO_OK;
    pcre2_get_error_message(code, why, sizeof why);
    return iso_error(ISO_INVALID, "layout key '%s' is no regular expression: %s at position %zu", key,
                     (char *)why, position + 1);
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
    ISO_TRY(compile_key(key, &fresh.pattern));
    fresh.key = iso_strdup(key);
    fresh.text = iso_strdup(layout);
    if (!fresh.key || !fresh.text)
        ISO_TRY(iso_error(ISO_NO_MEMORY, "no memory for the layout key '%s'", key));
    ISO_TRY(add_entry(map, fresh));
    return ISO_OK;
done:
    iso_free(fresh.key);
    iso_free(fresh.text);
    pcre2_code_free(fresh.pattern);
    return iso_error_prefix(status, "layout key '%s': ", key);
}

static bool matches(const map_entry *entry, const char *path)
{
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(entry->pattern, NULL);
    int found =
        data ? pcre2_match(entry->pattern, (PCRE2_SPTR)path, PCRE2_ZERO_TERMINATED, 0, 0, data, NULL) : -1;
    pcre2_match_data_free(data);
    return found >= 0;
}

/* The entry for a path in *found, NULL where none matches. */
static iso_status look_up(iso_layout_map *map, const char *path, map_entry **found)
{
    *found = NULL;
    for (int i = 0; i < map->count; i++)
        if (strcmp(map->entries[i].key, path) == 0) {
            *found = &map->entries[i];
            return ISO_OK;
        }
    for (int i = 0; i < map->count; i++) {
        if (!matches(&map->entries[i], path))
            continue;
        if (*found)
            return iso_error(ISO_INVALID, "two layout keys match '%s': '%s' and '%s'", path, (*found)->key,
                             map->entries[i].key);
        *found = &map->entries[i];
    }
    return ISO_OK;
}

iso_status iso_layout_map_find(iso_layout_map *map, const char *path, const iso_shape *shape,
                               iso_layout *layout, const char **matched)
{
    map_entry *found = NULL;
    char text[160];
    if (matched)
        *matched = NULL;
    if (map) {
        iso_status status = look_up(map, path, &found);
        if (status != ISO_OK)
            return status;
    }
    if (!found) {
        *layout = iso_layout_whole(shape->rank);
        return ISO_OK;
    }
    found->used = true;
    if (found->layout.rank != shape->rank)
        return iso_error(ISO_INVALID, "layout '%s' of key '%s' has %d entries, but '%s' has the shape %s",
                         found->text, found->key, found->layout.rank, path,
                         iso_shape_text(shape, text, sizeof text));
    *layout = found->layout;
    if (matched)
        *matched = found->key;
    return ISO_OK;
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
