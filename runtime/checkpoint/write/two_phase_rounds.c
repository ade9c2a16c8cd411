/* The rounds of a two-phase write. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "collectives/mpi/call.h"
#include "runtime/checkpoint/runs_impl.h"
#include "runtime/checkpoint/write/two_phase_impl.h"

enum { TAG = 1 };
static const struct timespec nap = {0, 200000};
static const iso_two_phase_items none;

/* ---- which rounds ---- */

static const iso_two_phase_item *item_at(const iso_two_phase_items *items, int at)
{
    return at < items->count ? &items->items[at] : NULL;
}

static int end_of(const iso_two_phase_items *items, int at, const iso_two_phase_round *round)
{
    while (at < items->count && items->items[at].tensor == round->tensor &&
           items->items[at].round == round->number)
        at++;
    return at;
}

bool iso_two_phase_round_next(const iso_two_phase_items *out, const iso_two_phase_items *in,
                              iso_two_phase_round *round)
{
    const iso_two_phase_item *a = item_at(out, round->out_end), *b = item_at(in, round->in_end),
                             *first = a ? a : b;
    if (!first)
        return false;
    if (a && b && (b->tensor != a->tensor ? b->tensor < a->tensor : b->round < a->round))
        first = b;
    *round = (iso_two_phase_round){
        .tensor = first->tensor, .number = first->round, .out = round->out_end, .in = round->in_end};
    round->out_end = end_of(out, round->out, round);
    round->in_end = end_of(in, round->in, round);
    return true;
}

/* ---- sending and receiving: in the caller's thread ---- */

static size_t bytes_of(const iso_two_phase_item *item)
{
    return (size_t)item->shard.count * iso_dtype_size(item->shard.dtype);
}

static const char *data_of(const iso_two_phase *x, const iso_two_phase_item *item)
{
    const iso_state_shard *shard = &x->parts->parts[item->part].shard;
    return (const char *)shard->data +
           (size_t)(item->shard.begin - shard->begin) * iso_dtype_size(shard->dtype);
}

void iso_two_phase_begin(iso_two_phase *x, const iso_save_parts *parts)
{
    x->parts = parts;
    x->last_here = x->last = (iso_two_phase_round){0};
    x->posted = 0;
    x->failures = 0;
    x->failed = (iso_first_error){0};
    atomic_store(&x->arrived, 0);
    atomic_store(&x->taken, 0);
    atomic_store(&x->over, x->depth == 0);
}

void iso_two_phase_skip(iso_two_phase *x)
{
    atomic_store(&x->over, true);
}

static bool succeeds(iso_two_phase *x, iso_status status)
{
    iso_first_error_keep(&x->failed, status);
    return status == ISO_OK;
}

static void post(iso_two_phase *x, iso_two_phase_buffer *buffer)
{
    char *to = buffer->fresh;
    buffer->round = x->last;
    buffer->n_requests = 0;
    for (int i = buffer->round.in; i < buffer->round.in_end; i++) {
        const iso_two_phase_item *item = &x->in.items[i];
        buffer->n_requests +=
            succeeds(x, ISO_MPI(MPI_Irecv(to, (int)bytes_of(item), MPI_BYTE, item->rank, TAG, x->communicator,
                                          &buffer->requests[buffer->n_requests])));
        to += bytes_of(item);
    }
    for (int i = buffer->round.out; i < buffer->round.out_end; i++) {
        const iso_two_phase_item *item = &x->out.items[i];
        if (item->rank != x->rank)
            buffer->n_requests +=
                succeeds(x, ISO_MPI(MPI_Isend(data_of(x, item), (int)bytes_of(item), MPI_BYTE, item->rank,
                                              TAG, x->communicator, &buffer->requests[buffer->n_requests])));
    }
}

static bool post_next(iso_two_phase *x)
{
    bool room = x->posted - atomic_load(&x->taken) < x->depth;
    if (!room || !iso_two_phase_round_next(&x->out, &x->in, &x->last))
        return false;
    post(x, &x->buffer[x->posted++ % x->depth]);
    return true;
}

/* Tests again after an error, unless MPI keeps failing: then the round counts as over. */
static bool is_over(iso_two_phase *x, iso_two_phase_buffer *buffer)
{
    int done = 0;
    if (succeeds(x, ISO_MPI(MPI_Testall(buffer->n_requests, buffer->requests, &done, MPI_STATUSES_IGNORE)))) {
        x->failures = 0;
        return done;
    }
    return ++x->failures >= ISO_MPI_TRIES;
}

/* The oldest round in progress: windows are taken in the order of the file. */
static bool next_arrived(iso_two_phase *x)
{
    long arrived = atomic_load(&x->arrived);
    iso_two_phase_buffer *buffer = &x->buffer[arrived % x->depth];
    bool done = arrived < x->posted && is_over(x, buffer);
    if (done)
        atomic_store(&x->arrived, arrived + 1);
    return done;
}

static bool is_last(const iso_two_phase *x)
{
    return x->last.out_end == x->out.count && x->last.in_end == x->in.count;
}

void iso_two_phase_progress(iso_two_phase *x)
{
    if (atomic_load(&x->over))
        return;
    while (post_next(x) || next_arrived(x))
        ;
    if (is_last(x) && atomic_load(&x->arrived) == x->posted)
        atomic_store(&x->over, true);
}

/* ---- assembling windows: in the writing thread ---- */

/* Puts an item's elements, which are dense at `from`, into the window. */
static void two_phase_rounds_put(const iso_state_shard *window, const iso_two_phase_item *item,
                                 const char *from)
{
    size_t element = iso_dtype_size(window->dtype);
    int64_t own, global, count;
    iso_runs runs = iso_runs_of(&item->shard);
    while (iso_runs_next(&runs, &own, &global, &count))
        memcpy((char *)window->data + (size_t)(global - window->begin) * element,
               from + (size_t)own * element, (size_t)count * element);
}

/* False: this rank's stretch has ended, and those of others have not. */
static bool find_window(const iso_two_phase *x, const iso_two_phase_round *round, const iso_state_shard *any,
                        iso_save_part *window)
{
    int64_t most = ISO_TWO_PHASE_WINDOW / (int64_t)iso_dtype_size(any->dtype),
            end = x->stretch[round->tensor].end;
    int64_t begin = x->stretch[round->tensor].begin + round->number * most;
    *window = (iso_save_part){.tensor = round->tensor, .shard = *any};
    window->shard.box = iso_box_whole(&any->shape);
    window->shard.begin = begin;
    window->shard.count = end - begin < most ? end - begin : most;
    window->shard.data = x->window;
    return begin < end;
}

static bool two_phase_rounds_fill(const iso_two_phase *x, const iso_two_phase_items *out,
                                  const iso_two_phase_items *in, const iso_two_phase_round *round,
                                  const char *fresh, iso_save_part *window)
{
    const iso_two_phase_item *any =
        round->out < round->out_end ? &out->items[round->out] : &in->items[round->in];
    if (!find_window(x, round, &any->shard, window))
        return false;
    for (int i = round->out; i < round->out_end; i++)
        if (out->items[i].rank == x->rank)
            two_phase_rounds_put(&window->shard, &out->items[i], data_of(x, &out->items[i]));
    for (int i = round->in; i < round->in_end; i++) {
        two_phase_rounds_put(&window->shard, &in->items[i], fresh);
        fresh += bytes_of(&in->items[i]);
    }
    return true;
}

/* Waits for the next round; false: there are no more. */
static bool wait_for_next(iso_two_phase *x, bool drives)
{
    while (atomic_load(&x->taken) == atomic_load(&x->arrived)) {
        if (atomic_load(&x->over)) /* rounds that arrived before `over` was set are visible now */
            return atomic_load(&x->taken) < atomic_load(&x->arrived);
        if (drives)
            iso_two_phase_progress(x);
        else
            nanosleep(&nap, NULL);
    }
    return true;
}

bool iso_two_phase_take(iso_two_phase *x, bool drives, iso_save_part *window)
{
    bool whole = false;
    if (iso_two_phase_round_next(&x->here, &none, &x->last_here))
        return two_phase_rounds_fill(x, &x->here, &none, &x->last_here, NULL, window);
    while (!whole && wait_for_next(x, drives)) {
        const iso_two_phase_buffer *buffer = &x->buffer[atomic_load(&x->taken) % x->depth];
        whole = two_phase_rounds_fill(x, &x->out, &x->in, &buffer->round, buffer->fresh, window);
        atomic_fetch_add(&x->taken, 1);
    }
    return whole;
}
