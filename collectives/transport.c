#include "collectives/transport_impl.h"

static const iso_transport *const list[] = {
    &iso_transport_memory,
    &iso_transport_mpi,
    &iso_transport_device,
};

const iso_transport *const *iso_transports(int *count)
{
    *count = (int)(sizeof list / sizeof *list);
    return list;
}

int iso_transport_between(bool hosts, bool devices)
{
    int number = 0;
    while (hosts ? !list[number]->between_hosts || list[number]->of_devices != devices
                 : !list[number]->within_host)
        number++;
    return number;
}
