/* The stand-in for NCCL: data between ranks, on the thread of a stream. Sums are made in the order of ranks, so their
 * bits differ from those of a tree over more than two. */
#ifdef TESTS_HAVE_NCCL
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/standin/nccl_impl.h"

/* A message between this rank and another. */
typedef struct transfer {
    bool out;
    int peer;
    char *memory; /* where the stand-in reaches it */
    size_t bytes, done;
    const char *call;
} transfer;

enum { MOST_TRANSFERS = 4096 };

typedef struct transfers {
    transfer list[MOST_TRANSFERS];
    int count;
} transfers;

size_t standin_type_bytes(ncclDataType_t type)
{
    switch (type) {
    case ncclInt8:
    case ncclUint8:
        return 1;
    case ncclFloat16:
    case ncclBfloat16:
        return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
        return 4;
    default:
        return 8;
    }
}

/* ---- transfers ---- */

static void add_transfer(transfers *t, bool out, int peer, char *memory, size_t bytes, const char *call)
{
    if (bytes == 0)
        return;
    if (t->count == MOST_TRANSFERS)
        standin_stop("more than %d transfers in a group", MOST_TRANSFERS);
    t->list[t->count++] = (transfer){out, peer, memory, bytes, 0, call};
}

static bool step_out(standin_channel *channel, transfer *t)
{
    uint64_t written = atomic_load_explicit(&channel->written, memory_order_relaxed);
    if (atomic_load_explicit(&channel->read, memory_order_acquire) != written)
        return false;
    channel->total = t->bytes;
    channel->bytes = t->bytes - t->done < STANDIN_CHUNK ? t->bytes - t->done : STANDIN_CHUNK;
    snprintf(channel->call, sizeof channel->call, "%s", t->call);
    memcpy(channel->data, t->memory + t->done, channel->bytes);
    t->done += channel->bytes;
    atomic_store_explicit(&channel->written, written + 1, memory_order_release);
    return true;
}

static bool step_in(const struct ncclComm *comm, standin_channel *channel, transfer *t)
{
    uint64_t read = atomic_load_explicit(&channel->read, memory_order_relaxed);
    if (atomic_load_explicit(&channel->written, memory_order_acquire) == read)
        return false;
    if (channel->total != t->bytes || strcmp(channel->call, t->call) != 0)
        standin_stop("NCCL: rank %d waits for %zu bytes of '%s', and rank %d sends %llu of '%s'", comm->rank,
                     t->bytes, t->call, t->peer, (unsigned long long)channel->total, channel->call);
    memcpy(t->memory + t->done, channel->data, channel->bytes);
    t->done += channel->bytes;
    atomic_store_explicit(&channel->read, read + 1, memory_order_release);
    return true;
}

/* Transfers between two ranks are made in the order of their calls. */
static bool is_next(const transfers *t, int i)
{
    for (int before = 0; before < i; before++)
        if (t->list[before].done < t->list[before].bytes && t->list[before].peer == t->list[i].peer &&
            t->list[before].out == t->list[i].out)
            return false;
    return true;
}

static bool step(const struct ncclComm *comm, transfers *t, int i)
{
    transfer *at = &t->list[i];
    int from = at->out ? comm->rank : at->peer, to = at->out ? at->peer : comm->rank;
    standin_channel *channel = &comm->segment->channels[from * comm->count + to];
    if (at->done == at->bytes || !is_next(t, i))
        return false;
    return at->out ? step_out(channel, at) : step_in(comm, channel, at);
}

static void run_transfers(ncclComm_t comm, transfers *t)
{
    for (bool left = true; left && !atomic_load(&comm->aborted);) {
        bool moved = false;
        left = false;
        for (int i = 0; i < t->count; i++) {
            moved |= step(comm, t, i);
            left |= t->list[i].done < t->list[i].bytes;
        }
        if (left && !moved)
            usleep(20);
    }
    t->count = 0;
}

/* ---- sums ---- */

static float float_of(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static uint16_t bf16_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#define COMBINE(type)                                                                                        \
    for (size_t i = 0; i < count; i++) {                                                                     \
        type a = ((type *)to)[i], b = ((const type *)from)[i];                                               \
        ((type *)to)[i] = op == ncclSum ? a + b : a > b ? a : b;                                             \
    }

static void combine_bf16(uint16_t *to, const uint16_t *from, size_t count, ncclRedOp_t op)
{
    for (size_t i = 0; i < count; i++) {
        float a = float_of(to[i]), b = float_of(from[i]);
        to[i] = bf16_of(op == ncclSum ? a + b : a > b ? a : b);
    }
}

static void combine(void *to, const void *from, size_t count, ncclDataType_t type, ncclRedOp_t op)
{
    if (op != ncclSum && op != ncclMax)
        standin_stop("NCCL: the stand-in has sums and maxima alone");
    switch (type) {
    case ncclFloat32:
        COMBINE(float)
        break;
    case ncclFloat64:
        COMBINE(double)
        break;
    case ncclInt32:
        COMBINE(int32_t)
        break;
    case ncclInt64:
        COMBINE(int64_t)
        break;
    case ncclBfloat16:
        combine_bf16(to, from, count, op);
        break;
    default:
        standin_stop("NCCL: the stand-in does not add elements of type %d", (int)type);
    }
}

/* to = the parts of all ranks, of which `parts` has those of `bytes` each. */
static void combine_parts(const struct ncclComm *comm, const standin_operation *o, const char *parts,
                          size_t bytes, char *to)
{
    memcpy(to, parts, bytes);
    for (int r = 1; r < comm->count; r++)
        combine(to, parts + (size_t)r * bytes, o->count, o->type, o->op);
}

/* ---- sums of all ranks ---- */

static void gather_parts(ncclComm_t comm, transfers *t, const char *from, size_t stride, char *to,
                         size_t bytes, const char *call)
{
    for (int r = 0; r < comm->count; r++) {
        add_transfer(t, true, r, (char *)(uintptr_t)from + (size_t)r * stride, bytes, call);
        add_transfer(t, false, r, to + (size_t)r * bytes, bytes, call);
    }
    run_transfers(comm, t);
}

static void run_sum(ncclComm_t comm, transfers *t, const standin_operation *o)
{
    size_t bytes = o->count * standin_type_bytes(o->type), n = (size_t)comm->count;
    char *from = standin_reach(o->from, o->kind == STANDIN_SCATTER ? bytes * n : bytes);
    char *to = standin_reach(o->to, bytes), *parts = malloc(bytes * n + 1), call[48];
    if (!parts)
        standin_stop("no memory for a sum of NCCL");
    snprintf(call, sizeof call, "sum %d of type %d, %d", (int)o->kind, (int)o->type, (int)o->op);
    gather_parts(comm, t, from, o->kind == STANDIN_SCATTER ? bytes : 0, parts, bytes, call);
    if (!atomic_load(&comm->aborted))
        combine_parts(comm, o, parts, bytes, to);
    free(parts);
}

static void wait_for_abort(ncclComm_t comm)
{
    while (!atomic_load(&comm->aborted))
        usleep(100);
}

/* Messages of a group are under way together; the sums follow. */
void standin_comm_run(ncclComm_t comm, const standin_operation *list, int count)
{
    int lost = (int)standin_ordered("nccl");
    if (lost) {
        atomic_store(&comm->state, lost);
        wait_for_abort(comm);
        return;
    }
    transfers *t = calloc(1, sizeof *t);
    if (!t)
        standin_stop("no memory for the transfers of NCCL");
    for (int i = 0; i < count; i++) {
        const standin_operation *o = &list[i];
        size_t bytes = o->count * standin_type_bytes(o->type);
        if (o->kind == STANDIN_SEND)
            add_transfer(t, true, o->peer, standin_reach(o->from, bytes), bytes, "send");
        else if (o->kind == STANDIN_RECEIVE)
            add_transfer(t, false, o->peer, standin_reach(o->to, bytes), bytes, "send");
    }
    run_transfers(comm, t);
    for (int i = 0; i < count; i++)
        if (list[i].kind > STANDIN_RECEIVE)
            run_sum(comm, t, &list[i]);
    free(t);
}
#else
typedef int standin_without_nccl_run;
#endif
