#include "collectives/components_impl.h"

#include <string.h>

#include "collectives/coll_impl.h"

static const iso_coll_component *const list[] = {
    &iso_coll_component_mpi,
    &iso_coll_component_nccl,
};

const iso_coll_component *const *iso_coll_components(int *count)
{
    *count = (int)(sizeof list / sizeof *list);
    return list;
}

iso_status iso_fabric_use(iso_fabric *fabric, const char *name)
{
    int count;
    const iso_coll_component *const *components = iso_coll_components(&count);
    for (int c = 0; c < count; c++)
        if (!strcmp(components[c]->name, name))
            return components[c]->open(fabric, &fabric->modules[c]);
    return iso_error(ISO_INVALID, "there are no collectives '%s'", name);
}
