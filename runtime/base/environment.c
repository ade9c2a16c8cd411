#include "runtime/base/environment.h"

#include <stdlib.h>

iso_status iso_environment_integer(const char *name, int most, int *value)
{
    const char *text = getenv(name);
    *value = 0;
    if (!text || !*text)
        return ISO_OK;
    char *end;
    long read = strtol(text, &end, 10);
    if (*end || read < 1 || read > most)
        return iso_error(ISO_INVALID, "%s is '%s': it must be an integer from 1 to %d", name, text, most);
    *value = (int)read;
    return ISO_OK;
}
