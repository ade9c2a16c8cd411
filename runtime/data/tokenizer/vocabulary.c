/* Hash tables of a tokenizer: open addressing, at most half full. */
#include "runtime/base/hash.h"
#include "runtime/base/list.h"
#include "runtime/data/tokenizer/model_impl.h"

enum { LEAST_ROOM = 64 };

typedef struct iso_vocabulary_entry {
    uint32_t begin, size; /* in names */
    int32_t id;
} iso_vocabulary_entry;

uint64_t iso_short_hash(const char *text, size_t size)
{
    uint64_t hash = size * 0x9E3779B97F4A7C15u, word;
    for (; size >= 8; size -= 8, text += 8) {
        memcpy(&word, text, 8);
        hash = (hash ^ word) * 0xC2B2AE3D27D4EB4Fu;
        hash ^= hash >> 32;
    }
    word = 0;
    for (size_t i = 0; i < size; i++)
        word |= (uint64_t)(uint8_t)text[i] << 8 * i;
    hash = (hash ^ word) * 0xC2B2AE3D27D4EB4Fu;
    return hash ^ hash >> 29;
}

/* The slot of a text, or the free one where it belongs. */
static size_t find_slot(const iso_vocabulary *v, const char *name, size_t size)
{
    size_t slot = iso_short_hash(name, size) & (v->room - 1);
    for (; v->slot[slot]; slot = (slot + 1) & (v->room - 1)) {
        const iso_vocabulary_entry *e = &v->entry[v->slot[slot] - 1];
        if (e->size == size && memcmp(v->names.data + e->begin, name, size) == 0)
            break;
    }
    return slot;
}

int32_t iso_vocabulary_find(const iso_vocabulary *v, const char *name, size_t size)
{
    if (v->room == 0)
        return -1;
    const uint32_t entry = v->slot[find_slot(v, name, size)];
    return entry ? v->entry[entry - 1].id : -1;
}

static iso_status enlarge(iso_vocabulary *v)
{
    const size_t room = v->room ? 2 * v->room : LEAST_ROOM;
    uint32_t *slot = iso_new(room * sizeof *slot);
    if (!slot)
        return iso_no_memory("a vocabulary of %zu tokens", v->count);
    iso_free(v->slot);
    v->slot = slot;
    v->room = room;
    for (size_t i = 0; i < v->count; i++)
        v->slot[find_slot(v, v->names.data + v->entry[i].begin, v->entry[i].size)] = (uint32_t)i + 1;
    return ISO_OK;
}

iso_status iso_vocabulary_add(iso_vocabulary *v, const char *name, size_t size, int32_t id)
{
    iso_status status = ISO_OK;
    if (2 * (v->count + 1) > v->room)
        ISO_TRY(enlarge(v));
    size_t slot = find_slot(v, name, size);
    v->ids = v->ids > id ? v->ids : (int64_t)id + 1;
    if (v->slot[slot]) {
        v->entry[v->slot[slot] - 1].id = id;
        return ISO_OK;
    }
    const iso_vocabulary_entry entry = {(uint32_t)v->names.size, (uint32_t)size, id};
    if (v->names.size + size > UINT32_MAX)
        return iso_error(ISO_INVALID, "a vocabulary of more than 4 GiB");
    ISO_TRY(iso_list_reserve(v->entry, v->count, 1, "a vocabulary"));
    iso_bytes_add(&v->names, name, size);
    iso_bytes_add(&v->names, "", 1); /* for who gets it as a text */
    if (v->names.failed)
        return iso_no_memory("a vocabulary of %zu tokens", v->count);
    v->entry[v->count++] = entry;
    v->slot[slot] = (uint32_t)v->count;
done:
    return status;
}

iso_status iso_vocabulary_index(iso_vocabulary *v)
{
    v->entry_of = iso_new(((size_t)v->ids + 1) * sizeof *v->entry_of);
    if (!v->entry_of)
        return iso_no_memory("a vocabulary of %lld ids", (long long)v->ids);
    for (int64_t i = 0; i < v->ids; i++)
        v->entry_of[i] = -1;
    for (size_t i = 0; i < v->count; i++)
        v->entry_of[v->entry[i].id] = (int32_t)i;
    return ISO_OK;
}

const char *iso_vocabulary_name(const iso_vocabulary *v, int32_t id, size_t *size)
{
    if (id < 0 || id >= v->ids || !v->entry_of || v->entry_of[id] < 0)
        return NULL;
    const iso_vocabulary_entry *e = &v->entry[v->entry_of[id]];
    *size = e->size;
    return e->size ? v->names.data + e->begin : "";
}

void iso_vocabulary_free(iso_vocabulary *v)
{
    iso_bytes_free(&v->names);
    iso_free(v->entry);
    iso_free(v->slot);
    iso_free(v->entry_of);
    *v = (iso_vocabulary){0};
}

/* ---- pairs ---- */

typedef struct iso_pair_entry {
    uint32_t first, second;
    iso_pair_value value; /* rank -1: the entry is free */
} iso_pair_entry;

static iso_pair_entry *find_pair(const iso_pairs *pairs, uint32_t first, uint32_t second)
{
    const uint64_t hash = ((uint64_t)first << 32 | second) * 0x9E3779B97F4A7C15u;
    size_t slot = (hash ^ hash >> 32) & (pairs->room - 1);
    while (pairs->entry[slot].value.rank >= 0 &&
           (pairs->entry[slot].first != first || pairs->entry[slot].second != second))
        slot = (slot + 1) & (pairs->room - 1);
    return &pairs->entry[slot];
}

const iso_pair_value *iso_pairs_find(const iso_pairs *pairs, uint32_t first, uint32_t second)
{
    if (pairs->room == 0)
        return NULL;
    const iso_pair_entry *entry = find_pair(pairs, first, second);
    return entry->value.rank >= 0 ? &entry->value : NULL;
}

static iso_status enlarge_pairs(iso_pairs *pairs)
{
    const iso_pairs old = *pairs;
    const size_t room = old.room ? 2 * old.room : LEAST_ROOM;
    iso_pair_entry *entry = iso_new(room * sizeof *entry);
    if (!entry)
        return iso_no_memory("%zu pairs of tokens", pairs->count);
    for (size_t i = 0; i < room; i++)
        entry[i].value.rank = -1;
    pairs->entry = entry;
    pairs->room = room;
    for (size_t i = 0; i < old.room; i++)
        if (old.entry[i].value.rank >= 0)
            *find_pair(pairs, old.entry[i].first, old.entry[i].second) = old.entry[i];
    iso_free(old.entry);
    return ISO_OK;
}

iso_status iso_pairs_set(iso_pairs *pairs, uint32_t first, uint32_t second, iso_pair_value value)
{
    if (2 * (pairs->count + 1) > pairs->room) {
        iso_status status = enlarge_pairs(pairs);
        if (status != ISO_OK)
            return status;
    }
    iso_pair_entry *entry = find_pair(pairs, first, second);
    pairs->count += entry->value.rank < 0;
    *entry = (iso_pair_entry){first, second, value};
    return ISO_OK;
}
