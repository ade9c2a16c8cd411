/* The transport between the domains of a host: the sender packs into memory that the host's ranks share. */
#include "collectives/transport_impl.h"

const iso_transport iso_transport_memory = {.name = "memory", .within_host = true, .in_place = true};
