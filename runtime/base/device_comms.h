/* Communicators of devices, which need not reach each other's memory (NCCL): a part of device.h's interface.
 *
 * A communicator has members, each a device; a process has one or several of them. A call begins work and does not
 * wait for other processes: before the next call of the same communicator, `test` must say that the work has begun.
 * Functions are local, except that the members of a communicator join, split and run alike. One thread at a time
 * calls them. */
#ifndef ISO_BASE_DEVICE_COMMS_H
#define ISO_BASE_DEVICE_COMMS_H

#include "runtime/base/device.h"

enum { ISO_DEVICE_COMM_KEY = 128 };

typedef struct iso_device_comm iso_device_comm;

typedef enum iso_device_operation_kind {
    ISO_DEVICE_SEND,           /* from, to member `peer` */
    ISO_DEVICE_RECEIVE,        /* to, from member `peer` */
    ISO_DEVICE_ALL_REDUCE,     /* to = the sum of `from` of all members */
    ISO_DEVICE_REDUCE_SCATTER, /* from: [members][count]; to: the sum of the parts with this member's number */
} iso_device_operation_kind;

/* Addresses are in the memory of the member's device. */
typedef struct iso_device_operation {
    iso_device_operation_kind kind;
    iso_device_comm *comm;
    iso_stream *stream;
    const void *from;
    void *to;
    size_t count; /* elements; of `from` or `to`, whichever is smaller */
    iso_dtype dtype;
    bool maximum; /* instead of the sum */
    int peer;
} iso_device_operation;

typedef struct iso_device_comms {
    /* Opens the library: ISO_FAILED with the reason if it cannot be used. The others are called after ISO_OK; they
     * are NULL in a build without the library. */
    iso_status (*open)(void);
    const char *(*description)(void); /* "NCCL 2.28.9 (libnccl.so.2)"; constant */
    bool (*adds)(iso_dtype dtype);    /* whether it has sums of this type */
    iso_status (*make_key)(unsigned char key[ISO_DEVICE_COMM_KEY]);
    /* Begins to join the communicator of this key, which one process has made, as member `number` of `count`. */
    iso_status (*join)(const iso_device *device, const unsigned char key[ISO_DEVICE_COMM_KEY], int count,
                       int number, iso_device_comm **comm);
    /* Begins to make the communicator of the members that give the same color, in the order of their numbers. To be
     * tested after `comm`, and aborted before it. */
    iso_status (*split)(iso_device_comm *comm, int color, iso_device_comm **made);
    /* *begun: what was asked for last has been done or is queued on its streams. ISO_FAILED, with the library's text:
     * the communicator has failed, and what is queued may never end before abort. */
    iso_status (*test)(iso_device_comm *comm, bool *begun);
    /* Queues operations as one, of communicators that have been tested. */
    iso_status (*run)(const iso_device_operation *list, int count);
    /* Begins to end a member whose work is done. To be tested; then `destroy` frees it. */
    iso_status (*finalize)(iso_device_comm *comm);
    void (*destroy)(iso_device_comm *comm);
    /* Ends what is queued, with any result, and frees the member. Does nothing with NULL. */
    void (*abort)(iso_device_comm *comm);
    /* The members that are destroyed or aborted between the two end together, until end_group returns. Their end
     * waits for what other communicators have queued on the device, so all that may never end are aborted in one
     * group; and until the other processes of the host end their members. Groups may contain groups. */
    void (*begin_group)(void);
    void (*end_group)(void);
} iso_device_comms;

#endif
