#include "runtime/base/list.h"

#include <limits.h>
#include <stdint.h>
#include <string.h>

enum { FEWEST = 8 };

iso_status iso_list_reserve_bytes(void *list, size_t count, size_t more, size_t size, const char *what)
{
    void *array;
    memcpy(&array, list, sizeof array);
    size_t room = iso_memory_room(array) / size;
    if (count <= room && more <= room - count)
        return ISO_OK;
    size_t wanted;
    if (__builtin_add_overflow(count, more, &wanted))
        wanted = SIZE_MAX; /* iso_grow refuses what overflows */
    wanted = wanted < 2 * room ? 2 * room : wanted;
    wanted = wanted < FEWEST ? FEWEST : wanted;
    void *grown = iso_grow(array, count, wanted, size);
    if (!grown)
        return iso_no_memory("%s (%zu items)", what, wanted);
    memcpy(list, &grown, sizeof grown);
    return ISO_OK;
}

iso_status iso_list_add_bytes(void *list, int *count, size_t size, const void *item, const char *what)
{
    if (*count == INT_MAX)
        return iso_no_memory("%s (%zu items)", what, (size_t)INT_MAX + 1);
    iso_status status = iso_list_reserve_bytes(list, (size_t)*count, 1, size, what);
    if (status != ISO_OK)
        return status;
    void *array;
    memcpy(&array, list, sizeof array);
    memcpy((char *)array + (size_t)*count * size, item, size);
    (*count)++;
    return ISO_OK;
}
