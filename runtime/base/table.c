#include "runtime/base/table.h"

#include <string.h>

enum { FEWEST = 32 };

struct iso_table_entry {
    uint64_t hash;
    int number_plus_1; /* 0: free */
};
typedef struct iso_table_entry entry;

static size_t next_of(const iso_table *table, size_t at)
{
    return (at + 1) & (table->room - 1);
}

int iso_table_find(const iso_table *table, uint64_t hash, iso_table_equal *equal, const void *key)
{
    if (table->count == 0)
        return -1;
    for (size_t at = (size_t)hash & (table->room - 1);; at = next_of(table, at)) {
        const entry *e = &table->entry[at];
        if (e->number_plus_1 == 0)
            return -1;
        if (e->hash == hash && (!equal || equal(key, e->number_plus_1 - 1)))
            return e->number_plus_1 - 1;
    }
}

static void put(iso_table *table, entry fresh)
{
    size_t at = (size_t)fresh.hash & (table->room - 1);
    while (table->entry[at].number_plus_1 != 0)
        at = next_of(table, at);
    table->entry[at] = fresh;
    table->count++;
}

/* A table with room for `room` entries, all free. */
static iso_status create(size_t room, const char *what, iso_table *table)
{
    size_t bytes;
    bool fits = room > 0 && !__builtin_mul_overflow(room, sizeof *table->entry, &bytes);
    *table = (iso_table){.room = room, .entry = fits ? iso_new(bytes) : NULL};
    return table->entry ? ISO_OK : iso_no_memory("%s (%zu entries)", what, room);
}

static iso_status make_room(iso_table *table, const char *what)
{
    iso_table larger;
    if (table->count < table->room / 2)
        return ISO_OK;
    iso_status status = create(table->room ? 2 * table->room : FEWEST, what, &larger);
    if (status != ISO_OK)
        return status;
    for (size_t i = 0; i < table->room; i++)
        if (table->entry[i].number_plus_1 != 0)
            put(&larger, table->entry[i]);
    iso_free(table->entry);
    *table = larger;
    return ISO_OK;
}

iso_status iso_table_add(iso_table *table, uint64_t hash, int number, const char *what)
{
    iso_status status = make_room(table, what);
    if (status == ISO_OK)
        put(table, (entry){hash, number + 1});
    return status;
}

iso_status iso_table_copy(const iso_table *from, iso_table *to, const char *what)
{
    iso_status status = from->room ? create(from->room, what, to) : ISO_OK;
    if (status == ISO_OK && from->room) {
        memcpy(to->entry, from->entry, from->room * sizeof *from->entry);
        to->count = from->count;
    }
    return status;
}

void iso_table_clear(iso_table *table)
{
    if (table->room)
        memset(table->entry, 0, table->room * sizeof *table->entry);
    table->count = 0;
}

void iso_table_free(iso_table *table)
{
    iso_free(table->entry);
    *table = (iso_table){0};
}
