/* Which slots use which copy of a variable. Variables of one shape and layout have one table of this. */
#include "runtime/base/hash.h"
#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/exec/memory/runtime_impl.h"

/* The shape and layout that are searched. */
typedef struct wanted {
    const iso_runtime *runtime;
    const iso_shape *shape;
    const iso_layout *layout;
} wanted;

static bool is_wanted(const void *key, int number)
{
    const wanted *w = key;
    const iso_copy_map *had = w->runtime->copy_maps[number];
    return iso_shape_equal(&had->shape, w->shape) && iso_layout_equal(&had->layout, w->layout);
}

/* Keys by which slots with the same box are found; by_domain: only those of the same domain. */
static void make_keys(const iso_runtime *runtime, const iso_copy_map *map, bool by_domain, iso_hash_key *key)
{
    for (int s = 0; s < runtime->mesh->n_slots; s++) {
        iso_box box = iso_layout_box(runtime->mesh, &map->layout, &map->shape, s);
        for (int i = 0; i < 2; i++) {
            uint64_t hash = by_domain ? (uint64_t)runtime->domains.of_slot[s] + 2 : 0;
            hash = iso_hash_bytes(hash + (uint64_t)i, box.offset, (size_t)box.rank * sizeof *box.offset);
            key[s].word[i] = iso_hash_bytes(hash, box.extent, (size_t)box.rank * sizeof *box.extent);
        }
    }
}

/* Numbers the copies, in the order of the first slots that use them. */
static void number_copies(iso_copy_map *map, int slots)
{
    for (int s = 0; s < slots; s++) {
        int first = map->copy[s]; /* so far: the first slot of the domain with the same box */
        map->copy[s] = first == s ? map->n_copies : map->copy[first];
        if (first == s)
            map->first[map->n_copies++] = s;
    }
}

static bool find_copies(const iso_runtime *runtime, iso_copy_map *map, iso_hash_key *key)
{
    int slots = runtime->mesh->n_slots;
    make_keys(runtime, map, false, key);
    if (!iso_hash_firsts(key, slots, map->box_of))
        return false;
    make_keys(runtime, map, true, key);
    if (!iso_hash_firsts(key, slots, map->copy))
        return false;
    number_copies(map, slots);
    return true;
}

static void copy_map_free(iso_copy_map *map)
{
    if (!map)
        return;
    iso_free(map->box_of);
    iso_free(map->copy);
    iso_free(map->first);
    iso_free(map);
}

/* NULL: no memory. */
static iso_copy_map *copy_map_create(const iso_runtime *runtime, const iso_shape *shape,
                                     const iso_layout *layout)
{
    size_t slots = (size_t)runtime->mesh->n_slots;
    iso_copy_map *map = iso_new(sizeof *map);
    iso_hash_key *key = iso_new(slots * sizeof *key);
    bool made = map && key;
    if (made) {
        *map = (iso_copy_map){.shape = *shape,
                              .layout = *layout,
                              .box_of = iso_new(slots * sizeof *map->box_of),
                              .copy = iso_new(slots * sizeof *map->copy),
                              .first = iso_new(slots * sizeof *map->first)};
        made = map->box_of && map->copy && map->first && find_copies(runtime, map, key);
    }
    iso_free(key);
    if (!made)
        copy_map_free(map);
    return made ? map : NULL;
}

const iso_copy_map *iso_runtime_copy_map(iso_runtime *runtime, const iso_shape *shape,
                                         const iso_layout *layout)
{
    static const char WHAT[] = "the copies of variables";
    uint64_t hash =
        iso_hash_bytes((uint64_t)shape->rank, shape->dim, (size_t)shape->rank * sizeof *shape->dim);
    int found = iso_table_find(&runtime->copy_map_index, hash, is_wanted, &(wanted){runtime, shape, layout});
    if (found >= 0)
        return runtime->copy_maps[found];
    iso_copy_map *fresh = copy_map_create(runtime, shape, layout);
    if (!fresh || iso_list_reserve(runtime->copy_maps, runtime->n_copy_maps, 1, WHAT) != ISO_OK ||
        iso_table_add(&runtime->copy_map_index, hash, runtime->n_copy_maps, WHAT) != ISO_OK) {
        copy_map_free(fresh);
        return NULL;
    }
    return runtime->copy_maps[runtime->n_copy_maps++] = fresh;
}

void iso_runtime_free_copy_maps(iso_runtime *runtime)
{
    for (int i = 0; i < runtime->n_copy_maps; i++)
        copy_map_free(runtime->copy_maps[i]);
    iso_free(runtime->copy_maps);
    iso_table_free(&runtime->copy_map_index);
}
