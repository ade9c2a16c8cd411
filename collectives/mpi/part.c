#include "collectives/mpi/part.h"

#include <string.h>

#include "collectives/mpi/call.h"
#include "collectives/mpi/wait.h"
#include "runtime/base/memory.h"

enum {
    TAG = 32767, /* no exchange has it (exchange.c) */
    CHUNK = 512, /* bytes that each rank sends at once */
};

struct iso_mpi_part {
    MPI_Comm communicator;
    int rank, size;
    int *member;           /* [size] ranks of the communicator */
    MPI_Request *requests; /* [2 size] */
    char *room;            /* [size][CHUNK] */
    bool abandoned;        /* MPI may still use this memory */
};

/* ---- making ---- */

/* Whether choice a stands before b. */
static bool precedes(const iso_mpi_choice *choices, int a, int b)
{
    return choices[a].key != choices[b].key ? choices[a].key < choices[b].key : a < b;
}

/* The number of choices of the color that stand before this one. */
static int index_of(const iso_mpi_choice *choices, int count, int at)
{
    int index = 0;
    for (int i = 0; i < count; i++)
        index += choices[i].color == choices[at].color && precedes(choices, i, at);
    return index;
}

iso_mpi_part *iso_mpi_part_create(MPI_Comm communicator, const iso_mpi_choice *choices, int count, int own)
{
    iso_mpi_part *part = iso_new(sizeof *part);
    int size = 0;
    if (!part)
        return NULL;
    for (int i = 0; i < count; i++)
        size += choices[i].color == choices[own].color;
    part->communicator = communicator;
    part->size = size;
    part->rank = index_of(choices, count, own);
    part->member = iso_new((size_t)size * sizeof *part->member);
    part->requests = iso_new(2 * (size_t)size * sizeof *part->requests);
    part->room = iso_new((size_t)size * CHUNK);
    for (int i = 0; i < count && part->member; i++)
        if (choices[i].color == choices[own].color)
            part->member[index_of(choices, count, i)] = choices[i].rank;
    if (!part->member || !part->requests || !part->room)
        iso_mpi_part_free(&part);
    return part;
}

void iso_mpi_part_free(iso_mpi_part **of)
{
    iso_mpi_part *part = *of;
    *of = NULL;
    if (!part)
        return;
    iso_free(part->member);
    if (!part->abandoned) {
        iso_free(part->requests);
        iso_free(part->room);
    }
    iso_free(part);
}

int iso_mpi_part_rank(const iso_mpi_part *part)
{
    return part->rank;
}

int iso_mpi_part_size(const iso_mpi_part *part)
{
    return part->size;
}

int iso_mpi_part_member(const iso_mpi_part *part, int rank)
{
    return part->member[rank];
}

/* ---- calls ---- */

/* The other ranks wait for this one, so a call that fails is made again. tries: so far. */
static bool again(iso_status status, int *tries)
{
    return status != ISO_OK && ++*tries < ISO_MPI_TRIES;
}

static iso_status send_chunk(iso_mpi_part *part, int to, int bytes, MPI_Request *request)
{
    iso_status status;
    int tries = 0;
    do
        status = ISO_MPI(MPI_Isend(part->room + (size_t)part->rank * CHUNK, bytes, MPI_BYTE, part->member[to],
                                   TAG, part->communicator, request));
    while (again(status, &tries));
    return status;
}

static iso_status receive_chunk(iso_mpi_part *part, int from, int bytes, MPI_Request *request)
{
    iso_status status;
    int tries = 0;
    do
        status = ISO_MPI(MPI_Irecv(part->room + (size_t)from * CHUNK, bytes, MPI_BYTE, part->member[from],
                                   TAG, part->communicator, request));
    while (again(status, &tries));
    return status;
}

/* Begins to pass one chunk, from `root` or (-1) from all ranks, and counts the requests. */
static iso_status start_chunk(iso_mpi_part *part, int root, int bytes, int *count)
{
    iso_status status = ISO_OK;
    *count = 0;
    for (int other = 0; other < part->size; other++) {
        if (other != part->rank && (root < 0 || root == other))
            ISO_TRY(receive_chunk(part, other, bytes, &part->requests[(*count)++]));
        if (other != part->rank && (root < 0 || root == part->rank))
            ISO_TRY(send_chunk(part, other, bytes, &part->requests[(*count)++]));
    }
done:
    return status;
}

/* Passes rows of `room` between the ranks: that of `root`, or (-1) those of all ranks. */
static iso_status pass_chunk(iso_mpi_part *part, const iso_watchdog *watchdog, int root, int bytes)
{
    int count;
    iso_status status = iso_watchdog_check(watchdog);
    if (part->abandoned)
        status = iso_error(ISO_FAILED, "an earlier call of these ranks has failed");
    if (status != ISO_OK)
        return status;
    status = start_chunk(part, root, bytes, &count);
    if (status == ISO_OK)
        status = iso_mpi_await(watchdog, count, part->requests, MPI_STATUSES_IGNORE);
    part->abandoned = status != ISO_OK;
    return status;
}

static size_t chunk_at(size_t at, size_t bytes)
{
    return bytes - at < CHUNK ? bytes - at : CHUNK;
}

iso_status iso_mpi_part_gather_all(iso_mpi_part *part, const iso_watchdog *watchdog, const void *mine,
                                   size_t bytes, void *all)
{
    size_t at = 0;
    do {
        size_t chunk = chunk_at(at, bytes);
        if (chunk > 0)
            memcpy(part->room + (size_t)part->rank * CHUNK, (const char *)mine + at, chunk);
        iso_status status = pass_chunk(part, watchdog, -1, (int)chunk);
        if (status != ISO_OK)
            return status;
        for (int rank = 0; rank < part->size && chunk > 0; rank++)
            memcpy((char *)all + (size_t)rank * bytes + at, part->room + (size_t)rank * CHUNK, chunk);
        at += chunk;
    } while (at < bytes);
    return ISO_OK;
}

iso_status iso_mpi_part_broadcast(iso_mpi_part *part, const iso_watchdog *watchdog, int root, void *data,
                                  size_t bytes)
{
    char *room = part->room + (size_t)root * CHUNK;
    for (size_t at = 0; at < bytes;) {
        size_t chunk = chunk_at(at, bytes);
        memcpy(room, (char *)data + at, chunk); /* the others' is replaced */
        iso_status status = pass_chunk(part, watchdog, root, (int)chunk);
        if (status != ISO_OK)
            return status;
        memcpy((char *)data + at, room, chunk);
        at += chunk;
    }
    return ISO_OK;
}

/* values: of this rank on entry, their reduction afterwards. */
static iso_status reduce_chunk(iso_mpi_part *part, const iso_watchdog *watchdog, MPI_Op op, MPI_Datatype type,
                               void *values, int count, size_t bytes)
{
    memcpy(part->room + (size_t)part->rank * CHUNK, values, bytes);
    iso_status status = pass_chunk(part, watchdog, -1, (int)bytes);
    if (status == ISO_OK)
        memcpy(values, part->room, bytes);
    int tries = 0;
    for (int rank = 1; rank < part->size && status == ISO_OK; rank++)
        do
            status = ISO_MPI(MPI_Reduce_local(part->room + (size_t)rank * CHUNK, values, count, type, op));
        while (again(status, &tries));
    return status;
}

iso_status iso_mpi_part_reduce(iso_mpi_part *part, const iso_watchdog *watchdog, MPI_Op op, MPI_Datatype type,
                               void *values, int count)
{
    int size, tries = 0;
    iso_status status;
    do
        status = ISO_MPI(MPI_Type_size(type, &size));
    while (again(status, &tries));
    for (int at = 0; at < count && status == ISO_OK;) {
        int some = count - at < CHUNK / size ? count - at : CHUNK / size;
        status = reduce_chunk(part, watchdog, op, type, (char *)values + (size_t)at * (size_t)size, some,
                              (size_t)some * (size_t)size);
        at += some;
    }
    return status;
}

iso_status iso_mpi_part_sum_before(iso_mpi_part *part, const iso_watchdog *watchdog, int value, int *before)
{
    memcpy(part->room + (size_t)part->rank * CHUNK, &value, sizeof value);
    iso_status status = pass_chunk(part, watchdog, -1, sizeof value);
    *before = 0;
    for (int rank = 0; rank < part->rank && status == ISO_OK; rank++) {
        memcpy(&value, part->room + (size_t)rank * CHUNK, sizeof value);
        *before += value;
    }
    return status;
}
