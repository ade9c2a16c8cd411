/* A state whose every bit follows from the checkpoint's number, to be saved and compared. */
#ifndef TESTS_SUPPORT_KNOWN_STATE_H
#define TESTS_SUPPORT_KNOWN_STATE_H

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/saver.h"
#include "runtime/session/session.h"

enum { KNOWN_TENSORS = 6, KNOWN_PIECES = 5 };

/* Tensors sharded by rows and by columns, copies of which each rank writes a part, a number of the last rank, a
 * constant, a tensor without elements; ranks may have no part of some. */
typedef struct known_state {
    iso_context *ctx;
    void *memory[KNOWN_TENSORS];
    iso_state_shard shard[KNOWN_PIECES];
    iso_state_shards shards; /* of this rank */
    char text[64];
} known_state;

void known_state_begin(known_state *k, iso_context *ctx);
void known_state_end(known_state *k);
/* Fills the shards with the values of the checkpoint of this number. */
void known_state_fill(known_state *k, int number);
/* The contents of the checkpoint of this number; valid until the next call. */
iso_file_spec known_state_contents(known_state *k, int number);
/* Opens a checkpoint and compares every bit: its number, or -1, and why in iso_error_message(). Collective.
 */
int known_state_of(iso_context *ctx, const char *path);

#endif
