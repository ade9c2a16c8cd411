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
#include "runtime/base/status.h"

/* What a part of a message is, as both of its ends compute it: a 128-bit hash. */
typedef struct iso_part_key {
    uint64_t word[2];
} iso_part_key;

typedef struct iso_part {
    int message;   /* number among the messages of its direction */
    size_t offset; /* in the message */
    iso_part_key key;
} iso_part;

typedef struct iso_message {
    int from, to; /* ranks */
    size_t bytes;
    char *data;                  /* NULL: not this rank's to send */
    int requests, first_request; /* long messages travel in several; of this rank's only */
} iso_message;

/* The messages of one direction, and their parts by key. */
typedef struct iso_mailbox {
    iso_message *message;
    int messages;
    iso_part *part;
    int parts, room;
    int *table; /* hash table of part numbers + 1 */
    int table_size;
} iso_mailbox;

typedef struct iso_messages {
    iso_mailbox in, out;   /* to and from all ranks of this host */
    iso_window landing;    /* of the host: all that comes in */
    char *outgoing;        /* of this rank: all that it sends */
    size_t bytes;          /* of both, as this rank holds them */
    MPI_Request *requests; /* of this rank, the incoming ones first; persistent */
    int request_count, incoming_requests;
} iso_messages;

/* Finds the part of this key or makes one of so many bytes at the end of the message of these ranks (*fresh).
 * All ranks of both hosts make the same calls in the same order, so they agree on offsets. Returns its
 * number. */
iso_status iso_mailbox_part(iso_mailbox *box, int from, int to, iso_part_key key, size_t bytes, int *number,
                            bool *fresh);

/* After the last part: buffers and requests. Collective over host, but for errors. */
iso_status iso_messages_commit(iso_messages *messages, MPI_Comm communicator, MPI_Comm host, int rank,
                               int tag);
void iso_messages_free(iso_messages *messages);

/* To be called by one thread: start_receiving, start_sending of each of its messages once that is packed,
 * finish. */
void iso_messages_start_receiving(iso_messages *messages);
void iso_messages_start_sending(iso_messages *messages, int number);
void iso_messages_finish(iso_messages *messages, bool crowded);

#endif
