#include "collectives/mpi/wait.h"

#include <string.h>

#include "collectives/mpi/call.h"
#include "runtime/base/memory.h"
#include "runtime/base/wait.h"

static int count_active(int count, const MPI_Request *requests)
{
    int active = 0;
    for (int i = 0; i < count; i++)
        active += requests[i] != MPI_REQUEST_NULL;
    return active;
}

/* A test that fails is made again, because other ranks may wait for requests that are still in progress. The
 * error of a request that has ended counts. */
iso_status iso_mpi_await(const iso_watchdog *watchdog, int count, MPI_Request *requests, MPI_Status *statuses)
{
    iso_backoff backoff = {0};
    int active = count_active(count, requests);
    for (int failures = 0;;) {
        int done = 0;
        iso_status status = ISO_MPI(MPI_Testall(count, requests, &done, statuses));
        bool again = status != ISO_OK && !done && count_active(count, requests) == active &&
                     ++failures < ISO_MPI_TRIES;
        if ((status != ISO_OK && !again) || done)
            return status;
        status = iso_watchdog_check(watchdog);
        if (status != ISO_OK)
            return status;
        iso_backoff_wait(&backoff, true);
    }
}

/* ---- a call on copies of its memory ---- */

typedef struct staged {
    const iso_watchdog *watchdog;
    char *memory; /* the copies; NULL: there was no memory for them, and the call uses the caller's */
    const void *in;
    void *out, *result; /* of the call, and of the caller */
    size_t out_bytes;
    MPI_Request request;
} staged;

/* False: the blocking call is to be used. in may be MPI_IN_PLACE. */
static bool begin(const iso_watchdog *watchdog, const void *in, size_t in_bytes, void *out, size_t out_bytes,
                  staged *s)
{
    if (!iso_watchdog_errors_return(watchdog))
        return false;
    *s = (staged){watchdog, iso_new(in_bytes + out_bytes + 1), in, out, out, out_bytes, MPI_REQUEST_NULL};
    if (s->memory && out_bytes > 0)
        s->out = memcpy(s->memory, out, out_bytes);
    if (s->memory && in != MPI_IN_PLACE && in_bytes > 0)
        s->in = memcpy(s->memory + out_bytes, in, in_bytes);
    return true;
}

/* started: of the nonblocking call. */
static iso_status end(staged *s, iso_status started)
{
    if (started == ISO_OK)
        started = iso_mpi_await(s->watchdog, 1, &s->request, MPI_STATUSES_IGNORE);
    if (started == ISO_OK && s->memory && s->out_bytes > 0)
        memcpy(s->result, s->out, s->out_bytes);
    if (started == ISO_OK || s->request == MPI_REQUEST_NULL)
        iso_free(s->memory);
    return started;
}

static size_t bytes_of(int count, MPI_Datatype type)
{
    int size = 0;
    return ISO_MPI(MPI_Type_size(type, &size)) == ISO_OK ? (size_t)count * (size_t)size : 0;
}

iso_status iso_mpi_all_reduce(const iso_watchdog *watchdog, const void *in, void *out, int count,
                              MPI_Datatype type, MPI_Op op, MPI_Comm communicator)
{
    staged s;
    iso_status status = iso_watchdog_check(watchdog);
    size_t bytes = bytes_of(count, type);
    if (status != ISO_OK)
        return status;
    if (!begin(watchdog, in, in == MPI_IN_PLACE ? 0 : bytes, out, bytes, &s))
        return ISO_MPI(MPI_Allreduce(in, out, count, type, op, communicator));
    return end(&s, ISO_MPI(MPI_Iallreduce(s.in, s.out, count, type, op, communicator, &s.request)));
}

iso_status iso_mpi_broadcast(const iso_watchdog *watchdog, void *data, int count, MPI_Datatype type, int root,
                             MPI_Comm communicator)
{
    staged s;
    iso_status status = iso_watchdog_check(watchdog);
    if (status != ISO_OK)
        return status;
    if (!begin(watchdog, NULL, 0, data, bytes_of(count, type), &s))
        return ISO_MPI(MPI_Bcast(data, count, type, root, communicator));
    return end(&s, ISO_MPI(MPI_Ibcast(s.out, count, type, root, communicator, &s.request)));
}

/* The size of a communicator, unless a rank is lost. */
static iso_status count_ranks(const iso_watchdog *watchdog, MPI_Comm communicator, int *ranks)
{
    iso_status status = iso_watchdog_check(watchdog);
    return status == ISO_OK ? ISO_MPI(MPI_Comm_size(communicator, ranks)) : status;
}

iso_status iso_mpi_gather_all(const iso_watchdog *watchdog, const void *in, int bytes, void *out,
                              MPI_Comm communicator)
{
    staged s;
    int ranks = 0;
    iso_status status = count_ranks(watchdog, communicator, &ranks);
    if (status != ISO_OK)
        return status;
    if (!begin(watchdog, in, (size_t)bytes, out, (size_t)ranks * (size_t)bytes, &s))
        return ISO_MPI(MPI_Allgather(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, communicator));
    return end(
        &s, ISO_MPI(MPI_Iallgather(s.in, bytes, MPI_BYTE, s.out, bytes, MPI_BYTE, communicator, &s.request)));
}

iso_status iso_mpi_sum_before(const iso_watchdog *watchdog, const int *in, int *out, MPI_Comm communicator)
{
    staged s;
    iso_status status = iso_watchdog_check(watchdog);
    if (status != ISO_OK)
        return status;
    if (!begin(watchdog, in, sizeof *in, out, sizeof *out, &s))
        return ISO_MPI(MPI_Exscan(in, out, 1, MPI_INT, MPI_SUM, communicator));
    return end(&s, ISO_MPI(MPI_Iexscan(s.in, s.out, 1, MPI_INT, MPI_SUM, communicator, &s.request)));
}

iso_status iso_mpi_barrier(const iso_watchdog *watchdog, MPI_Comm communicator)
{
    staged s;
    iso_status status = iso_watchdog_check(watchdog);
    if (status != ISO_OK)
        return status;
    if (!begin(watchdog, NULL, 0, NULL, 0, &s))
        return ISO_MPI(MPI_Barrier(communicator));
    return end(&s, ISO_MPI(MPI_Ibarrier(communicator, &s.request)));
}

iso_status iso_mpi_gate(const iso_watchdog *watchdog, MPI_Comm communicator)
{
    return iso_watchdog_errors_return(watchdog) ? iso_mpi_barrier(watchdog, communicator) : ISO_OK;
}

/* MPI may still write the communicator after a loss, so it has memory of its own. */
iso_status iso_mpi_dup_on(const iso_watchdog *watchdog, MPI_Comm communicator, MPI_Comm *made)
{
    if (!iso_watchdog_errors_return(watchdog))
        return iso_mpi_dup(communicator, made);
    MPI_Comm *own = iso_new(sizeof *own), *fresh = own ? own : made;
    MPI_Request request = MPI_REQUEST_NULL;
    *made = *fresh = MPI_COMM_NULL;
    iso_status status = iso_watchdog_check(watchdog);
    if (status == ISO_OK)
        status = iso_mpi_begin_dup(communicator, fresh, &request);
    if (status == ISO_OK)
        status = iso_mpi_await(watchdog, 1, &request, MPI_STATUSES_IGNORE);
    if (status == ISO_OK)
        *made = *fresh;
    if (request == MPI_REQUEST_NULL)
        iso_free(own);
    return status == ISO_OK ? iso_mpi_return_errors_of(made) : status;
}

iso_status iso_mpi_swap_counts(const iso_watchdog *watchdog, const int *in, int *out, MPI_Comm communicator)
{
    staged s;
    int ranks = 0;
    iso_status status = count_ranks(watchdog, communicator, &ranks);
    if (status != ISO_OK)
        return status;
    if (!begin(watchdog, in, (size_t)ranks * sizeof *in, out, (size_t)ranks * sizeof *out, &s))
        return ISO_MPI(MPI_Alltoall(in, 1, MPI_INT, out, 1, MPI_INT, communicator));
    return end(&s, ISO_MPI(MPI_Ialltoall(s.in, 1, MPI_INT, s.out, 1, MPI_INT, communicator, &s.request)));
}

static size_t most(const int *count, const int *at, int ranks)
{
    size_t bytes = 0;
    for (int r = 0; r < ranks; r++)
        if ((size_t)at[r] + (size_t)count[r] > bytes)
            bytes = (size_t)at[r] + (size_t)count[r];
    return bytes;
}

/* Open MPI copies counts and offsets when the call starts. */
iso_status iso_mpi_all_to_all(const iso_watchdog *watchdog, const void *in, const int *in_count,
                              const int *in_at, void *out, const int *out_count, const int *out_at,
                              MPI_Comm communicator)
{
    staged s;
    int ranks = 0;
    iso_status status = count_ranks(watchdog, communicator, &ranks);
    if (status != ISO_OK)
        return status;
    if (!begin(watchdog, in, most(in_count, in_at, ranks), out, most(out_count, out_at, ranks), &s))
        return ISO_MPI(
            MPI_Alltoallv(in, in_count, in_at, MPI_BYTE, out, out_count, out_at, MPI_BYTE, communicator));
    return end(&s, ISO_MPI(MPI_Ialltoallv(s.in, in_count, in_at, MPI_BYTE, s.out, out_count, out_at, MPI_BYTE,
                                          communicator, &s.request)));
}
