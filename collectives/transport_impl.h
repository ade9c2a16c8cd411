/* Transports: how messages get from the slots that have the data to memory that its readers can load. The list is in
 * transport.c: a transport is one file and one line there. */
#ifndef ISO_TRANSPORT_IMPL_H
#define ISO_TRANSPORT_IMPL_H

#include <stdbool.h>

#include "collectives/comm.h"

typedef struct iso_messages iso_messages;

typedef struct iso_transport {
    const char *name;
    bool within_host, between_hosts; /* where it joins domains */
    bool of_devices;                 /* messages are sent from areas of devices (endpoints_impl.h) */
    bool
        in_place; /* senders write where the readers load: there is nothing to open, and no other function is called */
    /* Opens the transfers of one exchange: the requests with which this rank sends and receives its messages, whose
     * addresses are known. The messages of this transport have its number. Called if this rank has any. Local. */
    iso_status (*open)(const iso_messages *messages, int number, const iso_comm *ranks, int tag,
                       void **transfers);
    void (*close)(void *transfers);
    /* The functions of a run, called by one thread: receive; then send for each message of `messages->out` that
     * this rank has packed (for devices: whose packs are queued); then test until *done: all messages have been
     * sent and received (for devices: their copies to the device are queued). After an error the others must still
     * be called. */
    iso_status (*receive)(void *transfers);
    iso_status (*send)(void *transfers, int message);
    iso_status (*test)(void *transfers, int *done);
} iso_transport;

enum { ISO_MOST_TRANSPORTS = 4 };
/* [*count], the preferred ones first. */
const iso_transport *const *iso_transports(int *count);
/* The number of the transport between the domains of a host, or between hosts; with `devices` from areas of
 * devices, otherwise from memory of the host. */
int iso_transport_between(bool hosts, bool devices);

extern const iso_transport iso_transport_memory; /* shm/memory.c */
extern const iso_transport iso_transport_mpi;    /* mpi/requests.c */
extern const iso_transport iso_transport_device; /* mpi/chunks.c */

#endif
