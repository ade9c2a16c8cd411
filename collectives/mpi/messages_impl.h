/* The messages of one exchange that concern this host. What comes in lands in memory that the host's ranks
 * share, so that a region which several of its slots pull crosses once. Every rank of both hosts therefore
 * knows all messages between them; it sends and receives its own. A transport of another kind (NCCL between
 * GPUs, say) would have the same few calls. */
#ifndef ISO_MPI_MESSAGES_IMPL_H
#define ISO_MPI_MESSAGES_IMPL_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/shm/window_impl.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/base/table.h"

typedef struct iso_fragment {
    int message;      /* number among the messages of its direction */
    size_t offset;    /* in the message */
    iso_hash_key key; /* as both of its ends compute it */
} iso_fragment;

typedef struct iso_message {
    int from, to; /* ranks */
    size_t bytes;
    char *data;                    /* NULL: not this rank's to send */
    int n_requests, first_request; /* long messages travel in several; of this rank's only */
} iso_message;

/* The messages of one direction, and their parts by key. */
typedef struct iso_mailbox {
    iso_message *messages;
    int n_messages;
    iso_fragment *fragments;
    int n_fragments;
    iso_table index; /* of parts by key */
} iso_mailbox;

typedef struct iso_messages {
    iso_mailbox in, out;   /* to and from all ranks of this host */
    size_t bytes_in;       /* of all that comes to the host */
    size_t bytes_out;      /* of all that this rank sends */
    iso_window landing;    /* of the host, for what comes in; none where the buffers are shared with others */
    char *outgoing;        /* of this rank, likewise */
    size_t bytes;          /* of what this rank takes and sends, in buffers of its own */
    MPI_Request *requests; /* of this rank, the incoming ones first; persistent */
    int n_requests, n_incoming_requests;
} iso_messages;

/* Finds the part of this key or makes one of so many bytes at the end of the message of these ranks (*fresh).
 * All ranks of both hosts make the same calls in the same order, so they agree on offsets. Returns its
 * number. */
iso_status iso_mailbox_fragment(iso_mailbox *box, int from, int to, iso_hash_key key, size_t bytes,
                                int *number, bool *fresh);

/* After the last part: how many bytes there are, and which requests. */
void iso_messages_close(iso_messages *messages, int rank);
/* Then buffers of its own. Collective over host, but for errors. */
iso_status iso_messages_allocate(iso_messages *messages, MPI_Comm host, int rank);
/* Puts what comes in and what goes out into these buffers and makes the requests, again where they have been
 * made for others. */
iso_status iso_messages_place(iso_messages *messages, char *landing, char *outgoing, MPI_Comm communicator,
                              int rank, int tag);
void iso_messages_free(iso_messages *messages);

/* To be called by one thread: start_receiving, start_sending of each of its messages once that is packed,
 * finish. In between, progress as often as one likes. After an error the others are called all the same; what
 * the messages bring is not to be used. */
iso_status iso_messages_start_receiving(iso_messages *messages);
iso_status iso_messages_start_sending(iso_messages *messages, int number);
iso_status iso_messages_progress(iso_messages *messages);
iso_status iso_messages_finish(iso_messages *messages, bool crowded);

#endif
