/* The end of a context.
 *
 * Ranks meet on a communicator of their own, which no other collective uses, and tell each other how they
 * ended. A rank with an error waits for the others only a few seconds: those that do not come are stuck in a
 * collective that waits for this rank, so the job is aborted (if MPI is ours). A rank without an error waits
 * as long as it takes, as MPI_Finalize would. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "runtime/base/clock.h"
#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/session/session_impl.h"

/* How a rank ended. */
typedef struct ending {
    uint64_t message; /* hash of the error's; 0 where all went well */
    int32_t status, rank;
} ending;

static const double patience = 5; /* seconds; --timeout may make it less */

/* Waits until all ranks have come; with `seconds` above 0 at most so long. */
static bool wait_for_all(MPI_Request *request, double seconds)
{
    double end = iso_clock() + seconds;
    int done = 0, tries = 0;
    for (;;) {
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (done || (seconds > 0 && iso_clock() > end))
            return done;
        if (++tries > 100)
            nanosleep(&(struct timespec){0, 200000}, NULL);
    }
}

/* One write, so that the lines of several ranks do not mix. */
static void print_error(int rank, const char *message)
{
    char line[5000];
    int length = rank < 0 ? snprintf(line, sizeof line, "isogrid: error: %s\n", message)
                          : snprintf(line, sizeof line, "isogrid: error: rank %d: %s\n", rank, message);
    if (length > 0) {
        fflush(stdout);
        fwrite(line, 1, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1, stderr);
        fflush(stderr);
    }
}

/* Each message is printed once, by the lowest rank that has it; without the rank where all have the same.
 * Returns the status of the lowest failing rank. */
static iso_status tell(const iso_context *ctx, const ending *endings)
{
    const ending *mine = &endings[ctx->channel.rank];
    bool alike = true, first = true;
    iso_status status = ISO_OK;
    for (int rank = 0; rank < ctx->channel.ranks; rank++) {
        const ending *other = &endings[rank];
        bool same = other->status == mine->status && other->message == mine->message;
        alike = alike && same;
        first = first && !(same && rank < ctx->channel.rank);
        if (status == ISO_OK)
            status = (iso_status)other->status;
    }
    if (mine->status != ISO_OK && first)
        print_error(alike ? -1 : ctx->channel.rank, iso_error_message());
    return status;
}

/* Meets the other ranks; false where they did not come in time. *status becomes that of the job. */
static bool meet(iso_context *ctx, iso_status *status)
{
    int ranks = ctx->channel.ranks;
    ending *endings = iso_new((size_t)(ranks + 1) * sizeof *endings), *mine = &endings[ranks];
    if (!endings)
        return false;
    *mine = (ending){*status == ISO_OK ? 0 : iso_hash_text(0, iso_error_message()), (int32_t)*status,
                     ctx->channel.rank};
    MPI_Request request;
    MPI_Iallgather(mine, sizeof *mine, MPI_BYTE, endings, sizeof *mine, MPI_BYTE, ctx->farewell, &request);
    double limit = *status == ISO_OK ? 0 : ctx->timeout < patience ? ctx->timeout : patience;
    if (!wait_for_all(&request, limit))
        return false; /* the message is still under way: its memory stays */
    *status = tell(ctx, endings);
    iso_free(endings);
    return true;
}

static void free_context(iso_context *ctx)
{
    iso_options_free(ctx);
    iso_free(ctx->host_of_rank);
    iso_free(ctx);
}

int iso_finish(iso_context *ctx, iso_status status)
{
    bool met = true, began = ctx && ctx->began_mpi;
    if (ctx && ctx->farewell != MPI_COMM_NULL)
        met = meet(ctx, &status);
    else if (status != ISO_OK)
        print_error(-1, iso_error_message());
    if (!met) {
        if (status != ISO_OK)
            print_error(ctx->channel.rank, iso_error_message());
        if (began)
            MPI_Abort(MPI_COMM_WORLD, iso_status_exit_code(status));
    } else if (ctx && ctx->farewell != MPI_COMM_NULL) {
        MPI_Comm_free(&ctx->farewell);
        MPI_Comm_free(&ctx->channel.communicator);
    }
    if (ctx)
        free_context(ctx);
    if (began)
        MPI_Finalize();
    return iso_status_exit_code(status);
}
