#include "runtime/base/arguments.h"

#include <stdatomic.h>
#include <string.h>

iso_status iso_null_argument(const char *function, const char *names, size_t index)
{
    size_t length = strlen(function);
    if (length > 5 && !strcmp(function + length - 5, "_with"))
        length -= 5;
    for (; index > 0; index--)
        names = strchr(names, ',') + 1;
    names += strspn(names, " ");
    return iso_error(ISO_INVALID, "%.*s: %.*s is NULL", (int)length, function, (int)strcspn(names, ","),
                     names);
}

static _Atomic(const char *)
    newer; /* the first function that was given options it does not know, until reported */

static bool is_zero(const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i])
            return false;
    return true;
}

void iso_options_copy_of(const char *function, void *own, size_t own_size, const void *options, size_t size)
{
    const char *none = NULL;
    size_t copied = !options ? 0 : size < own_size ? size : own_size;
    memset(own, 0, own_size);
    if (copied)
        memcpy(own, options, copied);
    if (options && size > own_size && !is_zero((const char *)options + own_size, size - own_size))
        atomic_compare_exchange_strong(&newer, &none, function);
}

iso_status iso_options_check(void)
{
    const char *function = atomic_exchange(&newer, NULL);
    if (!function)
        return ISO_OK;
    size_t length = strlen(function);
    if (length > 5 && !strcmp(function + length - 5, "_with"))
        length -= 5;
    return iso_error(
        ISO_INVALID,
        "%.*s was given options that Isogrid %s does not know: the program was built for a newer Isogrid",
        (int)length, function, ISO_VERSION);
}
