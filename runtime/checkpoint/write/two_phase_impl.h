/* Two-phase writes. A tensor that is sharded into short runs (a matrix by columns) is redistributed before it
 * is written: each rank that has parts of it gets a stretch of its rows from the others. So every rank writes
 * long contiguous stretches of the file instead of a few bytes at a time between those of the others.
 *
 * The redistribution proceeds in rounds, one window of each rank's stretch per round, after the state has
 * been copied and concurrently with the training. The caller's thread, the only one that calls MPI, starts
 * rounds and notes arrivals whenever it is called; the writing thread takes the windows. */
#ifndef ISO_CHECKPOINT_WRITE_TWO_PHASE_IMPL_H
#define ISO_CHECKPOINT_WRITE_TWO_PHASE_IMPL_H

#include <mpi.h>
#include <stdatomic.h>

#include "runtime/base/first_error.h"
#include "runtime/checkpoint/saver.h"
#include "runtime/checkpoint/write/parts_impl.h"

enum {
    ISO_TWO_PHASE_WINDOW = 1 << 20, /* bytes of a stretch per round */
    ISO_TWO_PHASE_DEPTH = 16,       /* concurrent rounds: enough for a training that polls once a step */
};

/* The elements of a part that one rank sends to another in one round. */
typedef struct iso_two_phase_item {
    int tensor, round, rank; /* the other rank, or this one */
    int order;               /* among the items with these three numbers */
    int part;                /* of a sent item: the number of its part */
    iso_state_shard shard;
} iso_two_phase_item;

typedef struct iso_two_phase_items {
    int count;
    iso_two_phase_item *items;
} iso_two_phase_items;

/* A round sends the items [out, out_end) and receives the items [in, in_end). */
typedef struct iso_two_phase_round {
    int tensor, number;
    int out, out_end, in, in_end;
} iso_two_phase_round;

/* The buffers of a round in progress. */
typedef struct iso_two_phase_buffer {
    iso_two_phase_round round;
    char *fresh; /* the received bytes, item by item */
    MPI_Request *requests;
    int n_requests;
} iso_two_phase_buffer;

typedef struct iso_two_phase {
    MPI_Comm communicator; /* MPI_COMM_NULL: this rank is alone */
    int rank, n_ranks;
    iso_two_phase_items here; /* of tensors that only this rank has */
    iso_two_phase_items out, in;
    struct {
        int64_t begin, end;
    } * stretch; /* [n_tensors] elements that this rank gets */
    char *window, *fresh;
    MPI_Request *request;
    int depth;
    iso_two_phase_buffer buffer[ISO_TWO_PHASE_DEPTH];

    /* The save in progress. Round n uses buffer n modulo depth. */
    const iso_save_parts *parts;
    iso_two_phase_round last_here, last; /* the last rounds that were begun */
    long posted;
    int failures;           /* consecutive failed tests */
    iso_first_error failed; /* the first MPI call that failed, in the caller's thread */
    atomic_long arrived;    /* rounds that the writing thread may take */
    atomic_long taken;
    atomic_bool over; /* no more rounds will arrive */
} iso_two_phase;

/* Plans the redistribution and flags the parts that leave this rank. two_phase is freed by
 * iso_two_phase_free. Collective. */
iso_status iso_two_phase_make(iso_context *ctx, MPI_Comm communicator, const iso_file_spec *spec,
                              iso_save_parts *parts, iso_two_phase *two_phase);
void iso_two_phase_free(iso_two_phase *two_phase);

/* The round after this one ({0}: the first). False: there is none. */
bool iso_two_phase_round_next(const iso_two_phase_items *out, const iso_two_phase_items *in,
                              iso_two_phase_round *round);

/* Begins a save of these parts, whose data must stay valid until the save ends. */
void iso_two_phase_begin(iso_two_phase *two_phase, const iso_save_parts *parts);
/* Instead of the calls below: no rank writes. */
void iso_two_phase_skip(iso_two_phase *two_phase);
/* Called by the caller's thread until the save ends: starts rounds and hands over those that have arrived.
 * Does not wait. Continues after an error, because other ranks wait for this one; `failed` has the error. */
void iso_two_phase_progress(iso_two_phase *two_phase);
/* Called by the writing thread: the next window of this rank's stretches, in the order of the file, when it
 * has arrived; false: there are no more. The window is valid until the next call, and all windows must be
 * taken. drives: no other thread calls iso_two_phase_progress, so this one does. */
bool iso_two_phase_take(iso_two_phase *two_phase, bool drives, iso_save_part *window);

#endif
