#include "runtime/session/session.h"

#include <limits.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/build.h"
#include "runtime/base/memory.h"
#include "runtime/session/session_impl.h"
#include "runtime/session/session_mpi.h"

/* A context of one rank without MPI, its options taken. */
static iso_status create(int *argc, char ***argv, iso_context **out)
{
    *out = NULL;
    iso_context *ctx = iso_new(sizeof *ctx);
    if (!ctx)
        return iso_error(ISO_NO_MEMORY, "no memory for the context (%zu bytes)", sizeof *ctx);
    ctx->channel = (iso_channel){.communicator = MPI_COMM_NULL, .rank = 0, .ranks = 1};
    ctx->farewell = MPI_COMM_NULL;
    ctx->seed = 1337;
    ctx->timeout = 60;
    ctx->hosts = ctx->host_ranks = 1;
    *out = ctx;
    return iso_options_take(ctx, argc, argv);
}

/* Makes communicators of the ranks of one role. Our own, so that no message of the caller's can meet ours. */
static void join(iso_context *ctx, MPI_Comm communicator)
{
    int rank;
    MPI_Comm_rank(communicator, &rank);
    MPI_Comm_split(communicator, ctx->role, rank, &ctx->channel.communicator);
    MPI_Comm_rank(ctx->channel.communicator, &ctx->channel.rank);
    MPI_Comm_size(ctx->channel.communicator, &ctx->channel.ranks);
    MPI_Comm_dup(ctx->channel.communicator, &ctx->farewell);
}

/* Ranks that were given different options or run different builds say so before anything else. Collective. */
static iso_status compare_ranks(iso_context *ctx)
{
    char text[1024];
    iso_options_describe(ctx, text, sizeof text);
    iso_status status = iso_agree_same_text(ctx, "the options", text);
    if (status != ISO_OK)
        return status;
    return iso_agree_same_text(ctx, "the builds of Isogrid", iso_build_id());
}

/* `status`: how this rank's options fared; all ranks hear of it once there is a communicator. Collective. */
static iso_status open_context(iso_context *ctx, MPI_Comm communicator, iso_status status)
{
    if (communicator != MPI_COMM_NULL)
        join(ctx, communicator);
    ctx->host_of_rank = iso_new((size_t)ctx->channel.ranks * sizeof *ctx->host_of_rank);
    if (!ctx->host_of_rank)
        status = iso_error(ISO_NO_MEMORY, "no memory for the hosts of %d ranks", ctx->channel.ranks);
    status = iso_agree(ctx, status);
    if (status == ISO_OK)
        status = iso_agree(ctx, iso_hosts_find(ctx));
    return status == ISO_OK ? compare_ranks(ctx) : status;
}

static iso_status begin_mpi(iso_context *ctx)
{
    int provided, ranks;
    iso_launcher_prepare();
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS)
        return iso_error(ISO_FAILED, "MPI_Init failed");
    ctx->began_mpi = true;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (iso_launcher_ranks() > 1 && ranks == 1)
        return iso_error(ISO_INVALID,
                         "the launcher started %d ranks, but MPI sees one: the launcher belongs to another "
                         "MPI than the program",
                         iso_launcher_ranks());
    return ISO_OK;
}

iso_status iso_init(int *argc, char ***argv, iso_context **out)
{
    int running, over;
    bool launched;
    iso_status status = create(argc, argv, out);
    if (!*out)
        return status;
    MPI_Initialized(&running);
    MPI_Finalized(&over);
    if (running)
        return over ? iso_error(ISO_INVALID, "iso_init: MPI has been finalized; it cannot begin again")
                    : open_context(*out, MPI_COMM_WORLD, status);
    iso_status found = iso_launcher_find(&launched);
    if (found != ISO_OK || !launched)
        return found != ISO_OK ? found : open_context(*out, MPI_COMM_NULL, status);
    iso_status begun = begin_mpi(*out);
    return begun != ISO_OK ? begun : open_context(*out, MPI_COMM_WORLD, status);
}

iso_status iso_init_on(MPI_Comm communicator, int *argc, char ***argv, iso_context **out)
{
    int running, between;
    iso_status status = create(argc, argv, out);
    if (!*out)
        return status;
    MPI_Initialized(&running);
    if (!running)
        return iso_error(ISO_INVALID, "iso_init_on: MPI is not running");
    if (communicator == MPI_COMM_NULL)
        return iso_error(ISO_INVALID, "iso_init_on: the communicator is MPI_COMM_NULL");
    MPI_Comm_test_inter(communicator, &between);
    if (between)
        return iso_error(ISO_INVALID,
                         "iso_init_on: the communicator joins two groups of ranks; it must have one");
    return open_context(*out, communicator, status);
}

int iso_rank(const iso_context *ctx)
{
    return ctx->channel.rank;
}

int iso_ranks(const iso_context *ctx)
{
    return ctx->channel.ranks;
}

int iso_host_ranks(const iso_context *ctx)
{
    return ctx->host_ranks;
}

int iso_hosts(const iso_context *ctx)
{
    return ctx->hosts;
}

int iso_host_of_rank(const iso_context *ctx, int rank)
{
    return ctx->host_of_rank ? ctx->host_of_rank[rank] : 0;
}

int iso_threads(const iso_context *ctx)
{
    return ctx->threads;
}

void iso_set_seed(iso_context *ctx, uint64_t seed)
{
    ctx->seed = seed;
}

uint64_t iso_seed(const iso_context *ctx)
{
    return ctx->seed;
}

iso_role_kind iso_role(const iso_context *ctx)
{
    return ctx->role;
}

bool iso_is_chief(const iso_context *ctx)
{
    return ctx->role == ISO_WORKER && ctx->channel.rank == 0;
}

void *iso_communicator(const iso_context *ctx)
{
    return ctx->channel.communicator == MPI_COMM_NULL ? NULL : (void *)&ctx->channel.communicator;
}

/* MPI counts in int: parts of at most 1 GiB. */
static void broadcast_from(const iso_context *ctx, int root, void *data, size_t bytes)
{
    enum { PART = 1 << 30 };
    for (size_t at = 0; at < bytes; at += PART) {
        int count = bytes - at < PART ? (int)(bytes - at) : PART;
        MPI_Bcast((char *)data + at, count, MPI_BYTE, root, ctx->channel.communicator);
    }
}

iso_status iso_broadcast(iso_context *ctx, void *data, size_t bytes)
{
    if (ctx->channel.ranks > 1)
        broadcast_from(ctx, 0, data, bytes);
    return ISO_OK;
}

iso_status iso_gather_all(iso_context *ctx, const void *mine, size_t bytes, void *all)
{
    char *out = all;
    if (ctx->channel.ranks > 1 && bytes <= INT_MAX) {
        MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, ctx->channel.communicator);
        return ISO_OK;
    }
    memcpy(out + (size_t)ctx->channel.rank * bytes, mine, bytes);
    for (int rank = 0; rank < ctx->channel.ranks && ctx->channel.ranks > 1; rank++)
        broadcast_from(ctx, rank, out + (size_t)rank * bytes, bytes);
    return ISO_OK;
}
