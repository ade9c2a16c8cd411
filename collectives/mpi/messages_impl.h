/* The messages of one exchange: one to and from every rank of another host that this rank has something for.
 * A transport of another kind (NCCL between GPUs, say) would have the same few calls. */
#ifndef ISO_MPI_MESSAGES_IMPL_H
#define ISO_MPI_MESSAGES_IMPL_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
    int peer;
    size_t bytes;
    char *data;
    int requests, first_request; /* long messages travel in several */
} iso_message;

/* The messages of one direction, and their parts by key. */
typedef struct iso_mailbox {
    iso_message *message;
    int messages;
    iso_part *part;
    int parts, room;
    int *table; /* hash table of part numbers + 1 */
    int table_size;
    char *data; /* of all messages */
    size_t bytes;
} iso_mailbox;

typedef struct iso_messages {
    iso_mailbox in, out;
    MPI_Request *requests; /* the incoming ones first; persistent */
    int request_count, incoming_requests;
} iso_messages;

/* Finds the part of this key to or from `peer`, or makes one of so many bytes at the end of its message
 * (*fresh). Both ends make the same calls in the same order, so they agree on offsets. Returns its number. */
iso_status iso_mailbox_part(iso_mailbox *box, int peer, iso_part_key key, size_t bytes, int *number,
                            bool *fresh);

/* After the last part: buffers and requests. */
iso_status iso_messages_commit(iso_messages *messages, MPI_Comm communicator, int tag);
void iso_messages_free(iso_messages *messages);

/* To be called by one thread: start_receiving, start_sending of each message once it is packed, finish. */
void iso_messages_start_receiving(iso_messages *messages);
void iso_messages_start_sending(iso_messages *messages, int number);
void iso_messages_finish(iso_messages *messages, bool crowded);

#endif
