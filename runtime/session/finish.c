/* The end of a context.
 *
 * The ranks exchange how they ended on a communicator of their own, which no other collective uses. A rank
 * with an error waits only a few seconds for the others: ranks that do not arrive are stuck in a collective
 * that waits for this rank, so the job is aborted (if iso_init began MPI). A rank without an error waits as
 * long as necessary, as MPI_Finalize would. This is done by each role for itself; then the roles wait for each
 * other, and the watchdog still watches: a rank that dies at the end is reported too. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "collectives/mpi/call.h"
#include "runtime/base/clock.h"
#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/base/printable.h"
#include "runtime/base/program_call.h"
#include "runtime/base/remote_error.h"
#include "runtime/base/thread_modes.h"
#include "runtime/session/roles.h"
#include "runtime/session/roles_impl.h"
#include "runtime/session/session_impl.h"
#include "runtime/session/tuning_choices_impl.h"

/* The status with which a rank ended. */
typedef struct ending {
    uint64_t message; /* hash of the error's message; 0 without an error */
    uint64_t named;   /* the same of the message with the rank where the error is from */
    int32_t status, rank;
} ending;

static const double patience = 5; /* seconds */
/* Of a longer time between two tests, this counts: the machine was paused, and the other ranks too. Seconds. */
static const double longest_look = 0.5;

/* The result of the exchange. */
typedef enum finish_barrier {
    MET,
    LATE, /* the others did not arrive in time, or MPI failed; the message is still in flight */
    LOST, /* MPI could not send, or a rank was lost; no message is in flight */
} finish_barrier;

/* Waits for all ranks; at most `seconds` if that is above 0. If MPI fails or a rank is lost, *failed is the
 * error. All may arrive after the report too: a launcher that ends the job lets a stopped rank go on. */
static finish_barrier wait_for_all(const iso_watchdog *watchdog, MPI_Request *request, double seconds,
                                   iso_status *failed)
{
    double waited = 0, last = iso_clock();
    for (int done = 0, tries = 0, failures = 0;; tries++) {
        *failed = ISO_MPI(MPI_Test(request, &done, MPI_STATUS_IGNORE));
        double now = iso_clock();
        waited += fmin(now - last, longest_look);
        last = now;
        if (*failed != ISO_OK && ++failures == ISO_MPI_TRIES)
            return LATE;
        if (*failed == ISO_OK) {
            *failed = iso_watchdog_check(watchdog);
            if (*failed != ISO_OK)
                return done ? LOST : LATE;
            if (done || (seconds > 0 && waited > seconds))
                return done ? MET : LATE;
        }
        if (tries >= 100)
            nanosleep(&(struct timespec){0, 200000}, NULL);
    }
}

/* "rank 2: "; nothing below 0. Where workers print too, ranks of the evaluator are named as such. */
static const char *speaker(const iso_context *ctx, int rank, char *text, size_t size)
{
    char number[32] = "";
    if (rank >= 0)
        snprintf(number, sizeof number, "rank %d", rank);
    bool evaluates = iso_job_has_workers(ctx);
    snprintf(text, size, "%s%s%s%s", evaluates ? "evaluator" : "", evaluates && rank >= 0 ? ", " : "", number,
             evaluates || rank >= 0 ? ": " : "");
    return text;
}

/* Whether the watchdog has reported a loss. */
static bool is_lost(const iso_context *ctx)
{
    const atomic_int *word = iso_watchdog_flag(ctx->channel.watchdog);
    return word && atomic_load(word);
}

/* The rank to name in front of a message of this rank; -1: the message names one, or there are no others. */
static int rank_to_name(const iso_context *ctx, const char *message)
{
    return !ctx || ctx->channel.n_ranks == 1 || iso_error_names_rank(message) ? -1 : ctx->channel.rank;
}

/* One write, so that lines of different ranks do not mix. */
static void print_end(const iso_context *ctx, iso_status status, int rank, const char *message)
{
    char line[5000], who[64];
    const char *kind = status == ISO_STOPPED || status == ISO_INTERRUPTED ? "" : "error: ";
    int length =
        snprintf(line, sizeof line, "isogrid: %s%s%s\n", kind, speaker(ctx, rank, who, sizeof who), message);
    if (length > 0) {
        iso_text_disarm(line);
        fflush(stdout);
        fwrite(line, 1, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1, stderr);
        fflush(stderr);
    }
}

static ending ending_of(const iso_context *ctx, iso_status status)
{
    ending mine = {.status = (int32_t)status, .rank = ctx->channel.rank};
    const char *message = iso_error_message();
    char text[5000];
    if (status == ISO_OK)
        return mine;
    if (iso_error_names_rank(message))
        snprintf(text, sizeof text, "%s", message);
    else
        snprintf(text, sizeof text, "rank %d: %s", ctx->channel.rank, message);
    mine.message = iso_hash_text(0, message);
    mine.named = iso_hash_text(0, text);
    return mine;
}

/* Prints each message once, from the lowest rank that has it, and without the rank if all ranks have the
 * same. An error that the ranks have agreed on, "rank 1: no disk", is the same as rank 1's own "no disk", which that
 * rank may have recorded again. Returns the status of the lowest failing rank. */
static iso_status tell(const iso_context *ctx, const ending *endings)
{
    const ending *mine = &endings[ctx->channel.rank];
    bool alike = true, first = true;
    iso_status status = ISO_OK;
    for (int rank = 0; rank < ctx->channel.n_ranks; rank++) {
        const ending *other = &endings[rank];
        bool equal = other->status == mine->status && other->message == mine->message;
        bool same = equal || (other->status == mine->status && other->named == mine->named);
        alike = alike && equal;
        first = first && !(same && rank < ctx->channel.rank);
        if (status == ISO_OK)
            status = (iso_status)other->status;
    }
    if (mine->status != ISO_OK && first)
        print_end(ctx, mine->status, alike ? -1 : rank_to_name(ctx, iso_error_message()),
                  iso_error_message());
    return status;
}

/* Exchanges the ranks' endings. *status becomes the job's status. */
static finish_barrier meet(iso_context *ctx, iso_status *status)
{
    int ranks = ctx->channel.n_ranks;
    ending *endings = iso_new((size_t)(ranks + 1) * sizeof *endings);
    if (!endings) {
        *status = *status == ISO_OK ? iso_no_memory("the endings of %d ranks", ranks) : *status;
        return LATE;
    }
    ending *mine = &endings[ranks];
    *mine = ending_of(ctx, *status);
    MPI_Request request;
    char message[4096];
    snprintf(message, sizeof message, "%s", iso_error_message());
    if (*status != ISO_OK)
        iso_watchdog_set_phase(ctx->channel.watchdog, ISO_WATCHDOG_FAILS);
    iso_status failed = iso_watchdog_enter_named(ctx->channel.watchdog, "iso_finish", -1, NULL);
    if (failed == ISO_OK)
        failed = ISO_MPI(MPI_Iallgather(mine, sizeof *mine, MPI_BYTE, endings, sizeof *mine, MPI_BYTE,
                                        ctx->shutdown, &request));
    finish_barrier how = failed != ISO_OK ? LOST
                                          : wait_for_all(ctx->channel.watchdog, &request,
                                                         *status == ISO_OK ? 0 : patience, &failed);
    if (how == MET) {
        iso_watchdog_leave(ctx->channel.watchdog);
        *status = tell(ctx, endings);
    } else if (failed != ISO_OK) /* the program's own error takes precedence */
        *status = *status == ISO_OK ? failed : iso_error(*status, "%s", message);
    if (how != LATE) /* otherwise MPI still uses its memory */
        iso_free(endings);
    return how;
}

/* Waits for the ranks of the other role. From here on no rank is missed when it ends. */
static finish_barrier finish_job(iso_context *ctx, iso_status *status)
{
    iso_status met = ISO_OK;
    if (ctx->job.communicator) {
        iso_watchdog_set_phase(ctx->channel.watchdog, ISO_WATCHDOG_RUNS);
        met = iso_roles_barrier(ctx);
    }
    if (met != ISO_OK) {
        /* otherwise the program's own error has been printed, or the report */
        if (*status == ISO_OK && !is_lost(ctx))
            print_end(ctx, met, rank_to_name(ctx, iso_error_message()), iso_error_message());
        *status = *status == ISO_OK ? met : *status;
        return LATE;
    }
    iso_watchdog_set_phase(ctx->channel.watchdog, ISO_WATCHDOG_ENDED);
    return MET;
}

iso_context *iso_context_hold(iso_context *ctx)
{
    if (ctx)
        atomic_fetch_add(&ctx->holders, 1);
    return ctx;
}

size_t *iso_context_kept(iso_context *ctx)
{
    return ctx ? &ctx->kept : NULL;
}

void iso_context_release(iso_context *ctx)
{
    if (!ctx || atomic_fetch_sub(&ctx->holders, 1) > 1)
        return;
    iso_free(ctx->host_of_rank);
    iso_free(ctx->job_hosts);
    iso_free(ctx);
}

iso_status iso_context_check(const iso_context *ctx)
{
    if (!ctx || !ctx->ended)
        return ISO_OK;
    return iso_error(ISO_INVALID, "its context has ended: after iso_finish() objects can only be destroyed");
}

/* Objects may still hold it: to them it is a context of this rank alone. */
static void end_context(iso_context *ctx)
{
    iso_watchdog_destroy(ctx->channel.watchdog);
    iso_options_free(ctx);
    iso_tuning_choices_free(ctx);
    ctx->channel = (iso_channel){.n_ranks = 1};
    ctx->ended = true;
    iso_context_release(ctx);
}

/* Whether Isogrid began MPI and the job has other ranks, which may be waiting for this one. */
static bool may_abort(const iso_context *ctx)
{
    int ranks = 1;
    return ctx && ctx->began_mpi && ISO_MPI(MPI_Comm_size(MPI_COMM_WORLD, &ranks)) == ISO_OK && ranks > 1;
}

/* Ends a context whose communicators could not be made. */
static finish_barrier end_alone(const iso_context *ctx, iso_status status)
{
    if (status == ISO_OK)
        return MET;
    print_end(ctx, status, rank_to_name(ctx, iso_error_message()), iso_error_message());
    return may_abort(ctx) ? LOST : MET;
}

/* iso_stopped has agreed on the signal. */
static int exit_code(const iso_context *ctx, iso_status status)
{
    if (ctx && is_lost(ctx))
        return ISO_WATCHDOG_LOST;
    bool known = status == ISO_INTERRUPTED && ctx && ctx->stop.signal > 0;
    return known ? 128 + ctx->stop.signal : iso_status_exit_code(status);
}

int iso_finish(iso_context *ctx, iso_status status)
{
    ISO_DEFAULT_MODES();
    bool began = ctx && ctx->began_mpi, joined = ctx && ctx->shutdown != MPI_COMM_NULL;
    if (status != ISO_OK && !*iso_error_message())
        iso_error(status, "the program ended with status %d (%s) and recorded no message", (int)status,
                  iso_status_name(status));
    finish_barrier how = joined ? meet(ctx, &status) : end_alone(ctx, status);
    if (how != MET && joined && status != ISO_OK && !is_lost(ctx)) /* the report has told of a loss */
        print_end(ctx, status, rank_to_name(ctx, iso_error_message()), iso_error_message());
    if (joined)
        iso_workers_notify_end(ctx, status);
    if (joined && how == MET)
        how = finish_job(ctx, &status);
    if (how != MET && began)
        ISO_MPI_IGNORE(MPI_Abort(MPI_COMM_WORLD, exit_code(ctx, status)));
    if (ctx && how != LATE && !is_lost(ctx)) {
        iso_comm_free(&ctx->job.communicator);
        iso_mpi_free(&ctx->shutdown);
        iso_comm_free(&ctx->channel.communicator);
    }
    int code = exit_code(ctx, status);
    bool on_signals = ctx && ctx->stop.on_signals;
    if (ctx)
        end_context(ctx);
    if (began && ISO_MPI(MPI_Finalize()) != ISO_OK) {
        print_end(NULL, ISO_FAILED, -1, iso_error_message());
        code = code == 0 ? iso_status_exit_code(ISO_FAILED) : code;
    }
    if (on_signals) /* a signal that a launcher sends again must not change the exit code */
        iso_stop_end();
    return code;
}
