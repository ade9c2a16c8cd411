#include "runtime/base/host.h"

#include <string.h>
#include <unistd.h>

void iso_host_name(char name[ISO_HOST_NAME])
{
    memset(name, 0, ISO_HOST_NAME);
    if (gethostname(name, ISO_HOST_NAME) || !*name)
        memcpy(name, "?", 2);
    name[ISO_HOST_NAME - 1] = 0;
}
