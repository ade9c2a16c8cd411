/* The messages of one exchange that concern this host. They are received into memory that the host's ranks
 * share, so that a region that several of its slots pull is sent once. Every rank of both hosts therefore
 * knows all messages between them; it sends and receives its own, by a transport (transport_impl.h). */
#ifndef ISO_MESSAGES_IMPL_H
#define ISO_MESSAGES_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/buffers.h"
#include "collectives/transport_impl.h"
#include "runtime/base/hash.h"
#include "runtime/base/table.h"

typedef struct iso_fragment {
    int message;      /* number of the message in its mailbox */
    size_t offset;    /* in the message */
    iso_hash_key key; /* computed in the same way by sender and receiver */
} iso_fragment;

typedef struct iso_endpoint iso_endpoint; /* endpoints_impl.h */
typedef struct iso_endpoints iso_endpoints;

/* The route of a message. All fragments with the same route are sent in one message. */
typedef struct iso_route {
    int from, to;               /* ranks; in place: both are the sender's */
    int transport;              /* its number */
    int from_domain, to_domain; /* in whose area of a device's memory it is; -1: in memory of the host */
} iso_route;

typedef struct iso_message {
    iso_route route;
    size_t bytes;
    size_t position;              /* in the area */
    char *data;                   /* NULL: not this rank's to send */
    const iso_endpoint *endpoint; /* NULL: `data` is memory of the host, or another rank's to copy */
    char *staging;                /* chunks of it in pinned memory; NULL: MPI gets `data` itself */
} iso_message;

/* The messages of one direction, and their fragments by key. */
typedef struct iso_mailbox {
    iso_message *messages;
    int n_messages;
    iso_fragment *fragments;
    int n_fragments;
    iso_table index;  /* fragments by key */
    iso_table routes; /* messages by route */
} iso_mailbox;

struct iso_messages {
    iso_mailbox in, out;            /* to and from all ranks of this host */
    int rank;                       /* this one */
    const iso_endpoints *endpoints; /* the fabric's; NULL: it has none */
    size_t bytes_in;                /* received by the host, in its memory */
    size_t bytes_out;               /* in memory of this rank: what it sends, or chunks of what devices do */
    iso_window incoming;            /* receive buffer of the host; {0} if exchanges share buffers */
    char *outgoing;                 /* send buffer of this rank, likewise */
    bool device_failed;             /* of this host: what is sent says so (iso_messages_replace) */
    bool uses[ISO_MOST_TRANSPORTS]; /* this rank sends or receives by it */
    void *transfers[ISO_MOST_TRANSPORTS]; /* the transports'; NULL: none */
};

/* Whether this rank receives message i of `in`, or sends message i of `out`, by transport `number`. */
bool iso_message_is_received(const iso_messages *messages, int i, int number);
bool iso_message_is_sent(const iso_messages *messages, int i, int number);

/* Finds the fragment with this key, or adds one of `bytes` bytes at the end of the message on this route (*fresh: it
 * was added). All ranks of both hosts make the same calls in the same order, so they agree on offsets. *number: its
 * number in the mailbox. */
iso_status iso_mailbox_fragment(iso_mailbox *box, const iso_route *route, iso_hash_key key, size_t bytes,
                                int *number, bool *fresh);
void iso_mailbox_free(iso_mailbox *box);

/* Computes the bytes, and the transports that need progress. To be called after the last fragment was added. */
void iso_messages_close(iso_messages *messages, int rank);
/* Allocates the exchange's own buffers, after iso_messages_close, for the slots of a device. Collective over host,
 * except for errors. */
iso_status iso_messages_allocate(iso_messages *messages, const iso_comm *host, const iso_device *device);
/* Places received and sent messages in these buffers and opens the transfers, also again for other buffers. */
iso_status iso_messages_bind(iso_messages *messages, char *incoming, char *outgoing, const iso_comm *ranks,
                             int tag);
void iso_messages_free(iso_messages *messages, const iso_device *device);
/* Whether this rank sends or receives messages that need progress. */
bool iso_messages_need_progress(const iso_messages *messages);

/* Before `data` is sent: replaces it if a device of this host was known to have failed when the exchange was started,
 * so that other hosts see a fault, and by zeros if it could not be copied: then a fault that not all hosts would see
 * is hidden, and the next step tells it. */
void iso_messages_replace(const iso_messages *messages, char *data, size_t bytes, bool copied);
/* One thread calls start_receiving, then start_sending for each of its messages after it has been packed, then
 * finish. In between it may call progress at any time. After an error the other functions must still be called, and
 * the received data must not be used. */
iso_status iso_messages_start_receiving(iso_messages *messages);
iso_status iso_messages_start_sending(iso_messages *messages, int number);
/* *done: all of them have arrived. */
iso_status iso_messages_progress(iso_messages *messages, int *done);
/* check(arg) is called between tests: its error ends the wait. */
iso_status iso_messages_finish(iso_messages *messages, iso_status (*check)(void *arg), void *arg,
                               bool crowded);

#endif
