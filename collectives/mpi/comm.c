#include "collectives/comm.h"

#include <limits.h>
#include <string.h>

#include "collectives/mpi/call.h"
#include "collectives/mpi/part.h"
#include "collectives/mpi/wait.h"
#include "runtime/base/host.h"
#include "runtime/base/memory.h"

struct iso_comm {
    MPI_Comm mpi; /* MPI_COMM_NULL if there is a part */
    int rank, size;
    const iso_watchdog *watchdog;
    iso_mpi_part *part; /* these ranks have no communicator of MPI; or NULL */
    MPI_Comm whole;     /* that in which they are a part */
};

MPI_Comm iso_mpi_of(const iso_comm *comm)
{
    return comm ? comm->mpi : MPI_COMM_NULL;
}

void *iso_mpi_address(iso_comm *comm)
{
    return comm ? &comm->mpi : NULL;
}

/* ---- making ---- */

/* Takes over a communicator that was made. status: of the call that made it. Without memory it is left, because
 * freeing it is collective. */
static iso_status adopt(iso_status status, MPI_Comm mpi, const iso_watchdog *watchdog, iso_comm **made)
{
    iso_comm *comm = status == ISO_OK ? iso_new(sizeof *comm) : NULL;
    *made = NULL;
    if (!comm)
        return status == ISO_OK ? iso_no_memory("a communicator") : status;
    comm->mpi = mpi;
    comm->watchdog = watchdog;
    ISO_TRY(ISO_MPI(MPI_Comm_rank(mpi, &comm->rank)));
    ISO_TRY(ISO_MPI(MPI_Comm_size(mpi, &comm->size)));
    *made = comm;
    return ISO_OK;
done:
    iso_comm_free(&comm);
    return status;
}

iso_status iso_comm_dup(const void *mpi, const iso_watchdog *watchdog, iso_comm **made)
{
    MPI_Comm fresh;
    iso_status status = iso_mpi_dup_on(watchdog, *(const MPI_Comm *)mpi, &fresh);
    return adopt(status, fresh, watchdog, made);
}

iso_status iso_mpi_split_as(MPI_Comm communicator, int color, int key, iso_comm **made)
{
    MPI_Comm fresh;
    iso_status status = iso_mpi_split(communicator, color, key, &fresh);
    return adopt(status, fresh, NULL, made);
}

/* choices: [size], of all ranks. */
static iso_status adopt_part(const iso_comm *comm, const iso_mpi_choice *choices, iso_comm **made)
{
    iso_comm *part = iso_new(sizeof *part);
    if (!part)
        return iso_no_memory("a communicator");
    *part = (iso_comm){
        .mpi = MPI_COMM_NULL, .watchdog = comm->watchdog, .whole = comm->part ? comm->whole : comm->mpi};
    part->part = iso_mpi_part_create(part->whole, choices, comm->size, comm->rank);
    if (!part->part) {
        iso_free(part);
        return iso_no_memory("a communicator");
    }
    part->rank = iso_mpi_part_rank(part->part);
    part->size = iso_mpi_part_size(part->part);
    *made = part;
    return ISO_OK;
}

/* A part instead of a communicator of MPI. Without memory at one rank there is none on any. */
static iso_status split_off(const iso_comm *comm, int color, int key, iso_comm **made)
{
    iso_mpi_choice mine = {color, key, comm->part ? iso_mpi_part_member(comm->part, comm->rank) : comm->rank};
    iso_mpi_choice *choices = iso_new((size_t)comm->size * sizeof *choices);
    bool room;
    iso_status status = iso_comm_all(comm, choices != NULL, &room);
    if (status == ISO_OK && !room)
        status = iso_no_memory("the choices of ranks");
    if (status == ISO_OK)
        status = iso_comm_gather_all(comm, &mine, sizeof mine, choices);
    iso_status adopted = status == ISO_OK ? adopt_part(comm, choices, made) : status;
    if (status == ISO_OK)
        status = iso_comm_all(comm, adopted == ISO_OK, &room);
    if (status == ISO_OK && !room)
        status = adopted != ISO_OK ? adopted : iso_no_memory("a communicator");
    if (status != ISO_OK)
        iso_comm_free(made);
    iso_free(choices);
    return status;
}

static iso_status split_mpi(const iso_comm *comm, int color, int key, iso_comm **made)
{
    iso_status status = iso_mpi_split_as(comm->mpi, color, key, made);
    if (*made)
        (*made)->watchdog = comm->watchdog;
    return status;
}

iso_status iso_comm_split(const iso_comm *comm, int color, int key, iso_comm **made)
{
    *made = NULL;
    if (!comm)
        return ISO_OK;
    return iso_watchdog_errors_return(comm->watchdog) ? split_off(comm, color, key, made)
                                                      : split_mpi(comm, color, key, made);
}

iso_status iso_comm_split_for_mpi(const iso_comm *comm, int color, int key, iso_comm **made)
{
    *made = NULL;
    if (!comm)
        return ISO_OK;
    iso_status status = iso_mpi_gate(comm->watchdog, comm->mpi);
    return status == ISO_OK ? split_mpi(comm, color, key, made) : status;
}

/* Ranks share memory on machines of the same name, as for MPI. The color is the lowest rank with this rank's name.
 * Without memory at one rank there is none on any. */
static iso_status find_machine(const iso_comm *comm, int *color)
{
    char mine[ISO_HOST_NAME], (*names)[ISO_HOST_NAME] = iso_new((size_t)comm->size * sizeof *names);
    bool room;
    iso_host_name(mine);
    iso_status status = iso_comm_all(comm, names != NULL, &room);
    if (status == ISO_OK && !room)
        status = iso_no_memory("the names of the hosts of %d ranks", comm->size);
    if (status == ISO_OK)
        status = iso_comm_gather_all(comm, mine, sizeof mine, names);
    for (*color = 0; status == ISO_OK && strcmp(names[*color], mine) != 0;)
        ++*color;
    iso_free(names);
    return status;
}

iso_status iso_comm_split_shared(const iso_comm *comm, int key, iso_comm **made)
{
    MPI_Comm fresh;
    int color;
    *made = NULL;
    if (!comm)
        return ISO_OK;
    if (iso_watchdog_errors_return(comm->watchdog)) {
        iso_status found = find_machine(comm, &color);
        return found == ISO_OK ? split_off(comm, color, key, made) : found;
    }
    iso_status status = iso_mpi_split_shared(comm->mpi, key, &fresh);
    return adopt(status, fresh, comm->watchdog, made);
}

void iso_comm_free(iso_comm **comm)
{
    if (!*comm)
        return;
    iso_mpi_part_free(&(*comm)->part);
    iso_mpi_free(&(*comm)->mpi);
    iso_free(*comm);
    *comm = NULL;
}

void iso_comm_set_watchdog(iso_comm *comm, const iso_watchdog *watchdog)
{
    if (comm)
        comm->watchdog = watchdog;
}

int iso_comm_rank(const iso_comm *comm)
{
    return comm ? comm->rank : 0;
}

int iso_comm_size(const iso_comm *comm)
{
    return comm ? comm->size : 1;
}

/* ---- calls ---- */

static iso_status check_bytes(size_t bytes)
{
    return bytes <= INT_MAX ? ISO_OK
                            : iso_error(ISO_INVALID, "%zu bytes at once: at most %d", bytes, INT_MAX);
}

iso_status iso_comm_barrier(const iso_comm *comm)
{
    if (!comm)
        return ISO_OK;
    return comm->part ? iso_mpi_part_gather_all(comm->part, comm->watchdog, NULL, 0, NULL)
                      : iso_mpi_barrier(comm->watchdog, comm->mpi);
}

iso_status iso_comm_broadcast(const iso_comm *comm, int root, void *data, size_t bytes)
{
    iso_status status = check_bytes(bytes);
    if (!comm || status != ISO_OK)
        return status;
    return comm->part ? iso_mpi_part_broadcast(comm->part, comm->watchdog, root, data, bytes)
                      : iso_mpi_broadcast(comm->watchdog, data, (int)bytes, MPI_BYTE, root, comm->mpi);
}

iso_status iso_comm_gather_all(const iso_comm *comm, const void *mine, size_t bytes, void *all)
{
    iso_status status = check_bytes(bytes);
    if (status != ISO_OK)
        return status;
    if (comm && comm->part)
        return iso_mpi_part_gather_all(comm->part, comm->watchdog, mine, bytes, all);
    if (comm)
        return iso_mpi_gather_all(comm->watchdog, mine, (int)bytes, all, comm->mpi);
    memcpy(all, mine, bytes);
    return ISO_OK;
}

static MPI_Datatype mpi_type(iso_comm_type type)
{
    return type == ISO_COMM_INT   ? MPI_INT
           : type == ISO_COMM_I64 ? MPI_INT64_T
           : type == ISO_COMM_U64 ? MPI_UINT64_T
                                  : MPI_BYTE;
}

static MPI_Op mpi_op(iso_comm_op op)
{
    return op == ISO_COMM_SUM   ? MPI_SUM
           : op == ISO_COMM_MAX ? MPI_MAX
           : op == ISO_COMM_MIN ? MPI_MIN
                                : MPI_BOR;
}

iso_status iso_comm_reduce(const iso_comm *comm, iso_comm_op op, iso_comm_type type, void *values, int count)
{
    if (!comm)
        return ISO_OK;
    return comm->part
               ? iso_mpi_part_reduce(comm->part, comm->watchdog, mpi_op(op), mpi_type(type), values, count)
               : iso_mpi_all_reduce(comm->watchdog, MPI_IN_PLACE, values, count, mpi_type(type), mpi_op(op),
                                    comm->mpi);
}

iso_status iso_comm_all(const iso_comm *comm, bool mine, bool *all)
{
    int least = mine;
    iso_status status = iso_comm_reduce(comm, ISO_COMM_MIN, ISO_COMM_INT, &least, 1);
    *all = status == ISO_OK && least;
    return status;
}

/* MPI leaves the result of rank 0 undefined. */
iso_status iso_comm_sum_before(const iso_comm *comm, int value, int *before)
{
    *before = 0;
    if (!comm)
        return ISO_OK;
    if (comm->part)
        return iso_mpi_part_sum_before(comm->part, comm->watchdog, value, before);
    iso_status status = iso_mpi_sum_before(comm->watchdog, &value, before, comm->mpi);
    if (comm->rank == 0)
        *before = 0;
    return status;
}
