#include "collectives/method_impl.h"

#include <string.h>

#include "collectives/coll_impl.h"

static const iso_method *const list[] = {
    &iso_method_mpi,
    &iso_method_nccl,
};

const iso_method *const *iso_methods(int *count)
{
    *count = (int)(sizeof list / sizeof *list);
    return list;
}

iso_status iso_fabric_use(iso_fabric *fabric, const char *name)
{
    int count;
    const iso_method *const *methods = iso_methods(&count);
    for (int m = 0; m < count; m++)
        if (!strcmp(methods[m]->name, name))
            return methods[m]->open(fabric, &fabric->methods[m]);
    return iso_error(ISO_INVALID, "there are no collectives '%s'", name);
}
