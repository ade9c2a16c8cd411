/* Which ranks share memory, and how many cores each may use.
 *
 * ISOGRID_RANKS_PER_HOST=k cuts every machine into pretended hosts of k consecutive ranks, between which
 * messages travel as between machines: so that one machine can test what many do. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/session/session_impl.h"

static iso_status ranks_per_host(int *ranks)
{
    const char *text = getenv("ISOGRID_RANKS_PER_HOST");
    *ranks = 0;
    if (!text || !*text)
        return ISO_OK;
    char *end;
    long value = strtol(text, &end, 10);
    if (*end || value < 1 || value > 1 << 20)
        return iso_error(ISO_INVALID, "ISOGRID_RANKS_PER_HOST is '%s': it must be an integer from 1", text);
    *ranks = (int)value;
    return ISO_OK;
}

/* The cores that are this rank's share: each core of its mask counts for 1 / (ranks of the machine whose mask
 * has it). At least 1. */
static int count_cores(MPI_Comm machine)
{
    cpu_set_t mask;
    unsigned char mine[CPU_SETSIZE] = {0};
    int users[CPU_SETSIZE];
    if (sched_getaffinity(0, sizeof mask, &mask))
        return 1;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        users[cpu] = mine[cpu] = CPU_ISSET(cpu, &mask) != 0;
    if (machine != MPI_COMM_NULL)
        MPI_Allreduce(MPI_IN_PLACE, users, CPU_SETSIZE, MPI_INT, MPI_SUM, machine);
    double share = 1e-6; /* so that three thirds are one */
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        share += mine[cpu] ? 1.0 / users[cpu] : 0;
    return share < 1 ? 1 : (int)share;
}

/* Numbers hosts from 0 in order of their lowest rank. host_of_rank[r] comes as the lowest rank of r's host.
 */
static int number_hosts(int ranks, int *host_of_rank)
{
    int hosts = 0;
    for (int rank = 0; rank < ranks; rank++) {
        int lowest = host_of_rank[rank];
        host_of_rank[rank] = lowest == rank ? hosts++ : host_of_rank[lowest];
    }
    return hosts;
}

/* The lowest rank of this rank's host, pretended hosts counted. */
static int lowest_of_host(const iso_context *ctx, MPI_Comm machine, int per_host)
{
    int lowest = ctx->channel.rank, place;
    MPI_Comm host = machine;
    if (per_host > 0) {
        MPI_Comm_rank(machine, &place);
        MPI_Comm_split(machine, place / per_host, place, &host);
    }
    MPI_Bcast(&lowest, 1, MPI_INT, 0, host); /* ranks of a split keep their order */
    if (host != machine)
        MPI_Comm_free(&host);
    return lowest;
}

static void find_with_mpi(iso_context *ctx, int per_host)
{
    MPI_Comm machine;
    MPI_Comm_split_type(ctx->channel.communicator, MPI_COMM_TYPE_SHARED, ctx->channel.rank, MPI_INFO_NULL,
                        &machine);
    int lowest = lowest_of_host(ctx, machine, per_host);
    MPI_Allgather(&lowest, 1, MPI_INT, ctx->host_of_rank, 1, MPI_INT, ctx->channel.communicator);
    int cores = count_cores(machine);
    if (ctx->threads == 0)
        ctx->threads = cores;
    MPI_Comm_free(&machine);
    ctx->hosts = number_hosts(ctx->channel.ranks, ctx->host_of_rank);
}

iso_status iso_hosts_find(iso_context *ctx)
{
    int per_host;
    iso_status status = ranks_per_host(&per_host);
    if (ctx->channel.communicator != MPI_COMM_NULL)
        find_with_mpi(ctx, status == ISO_OK ? per_host : 0);
    else
        ctx->hosts = 1;
    if (ctx->threads == 0)
        ctx->threads = count_cores(MPI_COMM_NULL);
    ctx->host_ranks = 0;
    for (int rank = 0; rank < ctx->channel.ranks; rank++)
        ctx->host_ranks += ctx->host_of_rank[rank] == ctx->host_of_rank[ctx->channel.rank];
    return status;
}
