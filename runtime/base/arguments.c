#include "runtime/base/arguments.h"

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

void iso_options_copy(void *own, size_t own_size, const void *options, size_t size)
{
    size_t copied = !options ? 0 : size < own_size ? size : own_size;
    memset(own, 0, own_size);
    if (copied)
        memcpy(own, options, copied);
}
