/* Growing arrays: a pointer to items and a count, both held by the caller. The memory knows its own size,
 * so an array may be shortened, or grown here and elsewhere. Begin with NULL and 0; free the pointer with
 * iso_free. */
#ifndef ISO_BASE_LIST_H
#define ISO_BASE_LIST_H

#include <stddef.h>

#include "runtime/base/memory.h"

/* Reserves room for `more` items after the first `count`. The memory at least doubles when it grows, so
 * that appending n items one by one takes time proportional to n. It never shrinks. Out of memory, or if
 * the size overflows: ISO_NO_MEMORY, "no memory for <what> (<n> items)", and the array is unchanged. */
#define iso_list_reserve(array, count, more, what)                                                           \
    iso_list_reserve_bytes(&(array), (size_t)(count), (size_t)(more), sizeof *(array), what)

/* Appends an item, an lvalue or a compound literal in parentheses; `count` is an int. Errors: as
 * iso_list_reserve. */
#define iso_list_add(array, count, item, what)                                                               \
    iso_list_add_bytes(&(array), &(count), sizeof(*(array) = (item)), &(item), what)

/* The function behind the macros. list: the address of the pointer to the items, of `size` bytes each. */
iso_status iso_list_reserve_bytes(void *list, size_t count, size_t more, size_t size, const char *what);
iso_status iso_list_add_bytes(void *list, int *count, size_t size, const void *item, const char *what);

#endif
