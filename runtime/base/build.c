#include "runtime/base/build.h"

const char *iso_version(void)
{
    return ISO_VERSION;
}
