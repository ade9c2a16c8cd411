/* Hash tables: map a 64-bit hash to a number that is not negative, typically the index of an item in an
 * array of the caller. Open addressing, at most half full. A zeroed table is empty. */
#ifndef ISO_BASE_TABLE_H
#define ISO_BASE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/memory.h"

typedef struct iso_table {
    size_t count, room;            /* room: a power of two, or 0 */
    struct iso_table_entry *entry; /* [room] */
} iso_table;

/* True if the item of this number is the one that is looked up: `key` is what the caller gave. */
typedef bool iso_table_equal(const void *key, int number);

/* The number of an entry, -1 if there is none. equal NULL: the hash is the key. */
int iso_table_find(const iso_table *table, uint64_t hash, iso_table_equal *equal, const void *key);
/* Adds an entry that the table does not have. Out of memory: ISO_NO_MEMORY, "no memory for <what> (<n>
 * entries)", and the table is unchanged. */
iso_status iso_table_add(iso_table *table, uint64_t hash, int number, const char *what);
/* Copies a table; `to` must be empty. Errors: as iso_table_add. */
iso_status iso_table_copy(const iso_table *from, iso_table *to, const char *what);
/* Removes all entries and keeps the memory. */
void iso_table_clear(iso_table *table);
void iso_table_free(iso_table *table);

#endif
