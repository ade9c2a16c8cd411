/* Finds which ranks share memory, and how many cores each may use.
 *
 * ISOGRID_RANKS_PER_HOST=k divides every machine into simulated hosts of k consecutive ranks. Messages
 * between them are sent as between machines, so one machine can test what many do. */
#include <string.h>

#include "collectives/mpi/call.h"
#include "runtime/base/cores.h"
#include "runtime/base/environment.h"
#include "runtime/base/memory.h"
#include "runtime/session/session_impl.h"

static const char PER_HOST[] = "ISOGRID_RANKS_PER_HOST";

static iso_status ranks_per_host(int *ranks)
{
    return iso_environment_integer(PER_HOST, 1 << 20, ranks);
}

/* This rank's share of the cores: each core of its mask counts 1 / (ranks of the machine whose mask has it).
 * At least 1. */
static iso_status count_cores(MPI_Comm machine, int *cores)
{
    iso_cores mine;
    int users[ISO_MAX_CORES];
    *cores = 1;
    bool known = iso_cores_find(&mine);
    for (int cpu = 0; cpu < ISO_MAX_CORES; cpu++)
        users[cpu] = iso_cores_have(&mine, cpu);
    iso_status status = ISO_OK;
    if (machine != MPI_COMM_NULL)
        status = ISO_MPI(MPI_Allreduce(MPI_IN_PLACE, users, ISO_MAX_CORES, MPI_INT, MPI_SUM, machine));
    if (status != ISO_OK || !known)
        return status;
    double share = 1e-6; /* rounding: three thirds are one */
    for (int cpu = 0; cpu < ISO_MAX_CORES; cpu++)
        share += iso_cores_have(&mine, cpu) ? 1.0 / users[cpu] : 0;
    *cores = share < 1 ? 1 : (int)share;
    return ISO_OK;
}

/* Numbers hosts from 0 in the order of their lowest rank. On entry host_of_rank[r] is the lowest rank of r's
 * host. */
static int number_hosts(int ranks, int *host_of_rank)
{
    int hosts = 0;
    for (int rank = 0; rank < ranks; rank++) {
        int lowest = host_of_rank[rank];
        host_of_rank[rank] = lowest == rank ? hosts++ : host_of_rank[lowest];
    }
    return hosts;
}

/* The lowest rank of this rank's host, which may be a simulated one. */
static iso_status find_lowest(int rank, MPI_Comm machine, int per_host, int *lowest)
{
    int rank_on_machine;
    MPI_Comm host = MPI_COMM_NULL;
    iso_status status = ISO_OK;
    *lowest = rank;
    if (per_host > 0) {
        ISO_TRY(ISO_MPI(MPI_Comm_rank(machine, &rank_on_machine)));
        ISO_TRY(iso_mpi_split(machine, rank_on_machine / per_host, rank_on_machine, &host));
    }
    /* MPI_Comm_split keeps the order of ranks */
    status = ISO_MPI(MPI_Bcast(lowest, 1, MPI_INT, 0, per_host > 0 ? host : machine));
done:
    iso_mpi_free(&host);
    return status;
}

iso_status iso_hosts_share_cores(iso_context *ctx, MPI_Comm all)
{
    MPI_Comm machine = MPI_COMM_NULL;
    int cores;
    iso_status status;
    ISO_TRY(iso_mpi_split_shared(all, ctx->channel.rank, &machine));
    ISO_TRY(count_cores(machine, &cores));
    if (ctx->n_threads == 0)
        ctx->n_threads = cores;
done:
    iso_mpi_free(&machine);
    return status;
}

/* ISO_INVALID, on all ranks, if not all have the same ranks per host. value: [n_ranks], scratch. Collective. */
static iso_status check_per_host(const iso_channel *channel, int per_host, int *value)
{
    iso_status status = iso_comm_gather_all(channel->communicator, &per_host, sizeof per_host, value);
    for (int rank = 1; rank < channel->n_ranks && status == ISO_OK; rank++)
        if (value[rank] != value[0])
            status = iso_error(ISO_INVALID,
                               "%s is %d on rank 0 and %d on rank %d (0: not set); set it on all ranks",
                               PER_HOST, value[0], value[rank], rank);
    return status;
}

/* Finds the host of each rank of a channel; `machine`: its ranks that share memory with this one. Collective. */
static iso_status find_hosts(const iso_channel *channel, MPI_Comm machine, int per_host, int *host_of_rank,
                             int *n_hosts)
{
    int lowest;
    iso_status status = ISO_OK, found;
    ISO_TRY(check_per_host(channel, per_host, host_of_rank));
    found = find_lowest(channel->rank, machine, per_host, &lowest);
    /* after an error too: the other ranks wait for this one */
    ISO_TRY(iso_comm_gather_all(channel->communicator, &lowest, sizeof lowest, host_of_rank));
    ISO_TRY(found);
    *n_hosts = number_hosts(channel->n_ranks, host_of_rank);
done:
    return status;
}

static iso_status find_with_mpi(iso_context *ctx, int per_host)
{
    MPI_Comm machine = MPI_COMM_NULL;
    int cores;
    iso_status found, status = ISO_OK;
    ISO_TRY(iso_mpi_split_shared(iso_mpi_of(ctx->channel.communicator), ctx->channel.rank, &machine));
    found = find_hosts(&ctx->channel, machine, per_host, ctx->host_of_rank, &ctx->n_hosts);
    ISO_TRY(count_cores(machine, &cores));
    ISO_TRY(found);
    if (ctx->n_threads == 0)
        ctx->n_threads = cores;
done:
    iso_mpi_free(&machine);
    return status;
}

iso_status iso_hosts_find_job(iso_context *ctx, int *n_hosts)
{
    MPI_Comm machine = MPI_COMM_NULL;
    int per_host = 0;
    iso_status status = ISO_OK;
    ctx->job_hosts = iso_new((size_t)ctx->job.n_ranks * sizeof *ctx->job_hosts);
    bool room = ctx->job_hosts != NULL;
    ISO_TRY(iso_channel_agree(&ctx->job, room ? ranks_per_host(&per_host)
                                              : iso_no_memory("the hosts of %d ranks", ctx->job.n_ranks)));
    ISO_TRY(iso_mpi_split_shared(iso_mpi_of(ctx->job.communicator), ctx->job.rank, &machine));
    ISO_TRY(iso_channel_agree(&ctx->job, find_hosts(&ctx->job, machine, per_host, ctx->job_hosts, n_hosts)));
done:
    iso_mpi_free(&machine);
    return status;
}

iso_status iso_hosts_find(iso_context *ctx)
{
    int per_host, cores = 1;
    iso_status status = iso_channel_agree(&ctx->channel, ranks_per_host(&per_host));
    if (ctx->channel.communicator) {
        iso_status found = find_with_mpi(ctx, status == ISO_OK ? per_host : 0);
        if (found != ISO_OK)
            return found;
    } else
        ctx->n_hosts = 1;
    if (ctx->n_threads == 0) {
        count_cores(MPI_COMM_NULL, &cores); /* cannot fail without MPI */
        ctx->n_threads = cores;
    }
    ctx->n_host_ranks = 0;
    for (int rank = 0; rank < ctx->channel.n_ranks; rank++)
        ctx->n_host_ranks += ctx->host_of_rank[rank] == ctx->host_of_rank[ctx->channel.rank];
    return status;
}
