#include "collectives/gather_kernels_impl.h"

static const iso_gather_kernels *const list[] = {
    &iso_gather_kernels_device,
    &iso_gather_kernels_shared_memory,
};

const iso_gather_kernels *iso_gather_kernels_for(const iso_device *device)
{
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (list[i]->supports(device))
            return list[i];
    return NULL;
}
