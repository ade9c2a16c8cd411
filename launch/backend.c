#include "launch/backend.h"

#include "runtime/backend/backend.h"

const char *iso_launch_backend(void)
{
    return iso_backend_cpu()->description;
}
