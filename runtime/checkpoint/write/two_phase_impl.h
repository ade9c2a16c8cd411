/* Tensors that are cut into short runs (a matrix by its columns) change hands before they are written: each
 * of the ranks that have parts of one gets a stretch of its rows from the others, so that all write whole
 * stretches of the file and none writes a few bytes at a time between those of the others.
 *
 * They do so round by round, a window of each rank's stretch in each, after the copy of the state and beside
 * the training: the caller's thread, which alone calls MPI, sets rounds going and notes what has come
 * whenever it is asked to; the thread that writes takes the windows. */
#ifndef ISO_CHECKPOINT_WRITE_TWO_PHASE_IMPL_H
#define ISO_CHECKPOINT_WRITE_TWO_PHASE_IMPL_H

#include <mpi.h>
#include <stdatomic.h>

#include "runtime/base/first_error.h"
#include "runtime/checkpoint/saver.h"
#include "runtime/checkpoint/write/parts_impl.h"

enum {
    ISO_TWO_PHASE_WINDOW = 1 << 20, /* bytes of a stretch in a round */
    ISO_TWO_PHASE_DEPTH =
        16, /* rounds under way at once: what comes in beside a training that asks once a step */
};

/* A part of a part that goes from one rank to another in one round. */
typedef struct iso_two_phase_item {
    int tensor, round, rank; /* the other rank, or this one */
    int order;               /* among those of these three */
    int part;                /* of what goes out: the number of the part it is of */
    iso_state_shard shard;
} iso_two_phase_item;

typedef struct iso_two_phase_items {
    int count;
    iso_two_phase_item *items;
} iso_two_phase_items;

/* The items [out, out_end) of what goes out and [in, in_end) of what comes in. */
typedef struct iso_two_phase_round {
    int tensor, number;
    int out, out_end, in, in_end;
} iso_two_phase_round;

/* What a round under way needs. */
typedef struct iso_two_phase_buffer {
    iso_two_phase_round round;
    char *fresh; /* what comes in, item by item */
    MPI_Request *requests;
    int n_requests;
} iso_two_phase_buffer;

typedef struct iso_two_phase {
    MPI_Comm communicator; /* MPI_COMM_NULL: this rank is alone */
    int rank, n_ranks;
    iso_two_phase_items here; /* of tensors that this rank alone has */
    iso_two_phase_items out, in;
    struct {
        int64_t begin, end;
    } * stretch; /* [n_tensors] elements that this rank gets */
    char *window, *fresh;
    MPI_Request *request;
    int depth;
    iso_two_phase_buffer buffer[ISO_TWO_PHASE_DEPTH];

    /* The save under way. Round n is in lane n modulo lanes. */
    const iso_save_parts *parts;
    iso_two_phase_round last_here, last; /* the last that were begun */
    long posted;
    int failures;           /* of tests in a row */
    iso_first_error failed; /* a call of MPI; of the caller's thread */
    atomic_long arrived;    /* these the thread that writes may take */
    atomic_long taken;
    atomic_bool over; /* no more will arrive */
} iso_two_phase;

/* Marks the parts of such tensors, which leave. The exchange is freed by iso_two_phase_free. Collective.
 */
iso_status iso_two_phase_make(iso_context *ctx, MPI_Comm communicator, const iso_file_spec *spec,
                              iso_save_parts *parts, iso_two_phase *two_phase);
void iso_two_phase_free(iso_two_phase *two_phase);

/* The round after this one, {0} being before the first; false: there is none. */
bool iso_two_phase_round_next(const iso_two_phase_items *out, const iso_two_phase_items *in,
                              iso_two_phase_round *round);

/* A save begins: the parts, which have their data until all is over. */
void iso_two_phase_begin(iso_two_phase *two_phase, const iso_save_parts *parts);
/* Instead of the rest: no rank writes. */
void iso_two_phase_skip(iso_two_phase *two_phase);
/* By the caller's thread, until all is over: sets rounds going, hands over those that have come. Does not
 * wait. Goes on after an error, for others wait for this rank; `failed` tells of it. */
void iso_two_phase_progress(iso_two_phase *two_phase);
/* By the thread that writes: the next window of this rank's stretches, in the order of the file, once it has
 * come; false: there are no more. It lasts until the next call, and all must be taken. drives: no other
 * thread goes on with the exchange, so this one does. */
bool iso_two_phase_take(iso_two_phase *two_phase, bool drives, iso_save_part *window);

#endif
