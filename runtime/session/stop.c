/* Requests to stop: signals. A handler only notes the signal; in the next step all ranks agree on it. */
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "runtime/base/clock.h"
#include "runtime/base/signal_stack.h"
#include "runtime/base/thread_modes.h"
#include "runtime/session/roles.h"
#include "runtime/session/session_impl.h"

/* ---- handlers: one set for the process ---- */

enum { HANDLED = 3 };
static const int handled[HANDLED] = {SIGTERM, SIGINT, SIGUSR1};
static const char *const handled_name[HANDLED] = {"SIGTERM", "SIGINT", "SIGUSR1"};
static struct sigaction before[HANDLED], pipe_before;
static bool pipe_ignored;
static _Atomic int users; /* contexts that handle signals */
/* Set before the handlers are installed: */
static bool forwards; /* the launcher gives the ranks SIGUSR1 for each request to the job */
static bool goes_on;  /* this rank is an evaluator, which ends after the workers of its job */
/* Written by the handler alone while it is installed. It may run in several threads at a time, so what one writes
 * first another one must see first. Atomic operations without locks are safe in a handler. */
static atomic_int received;        /* the first signal; 0: none */
static _Atomic double received_at; /* iso_clock(); set before `received` */
static atomic_int of_job;          /* the launcher has forwarded a request */
static atomic_int alone;           /* the last signal that the launcher did not forward; 0: none */

/* Signals within this time of the first one count as one. mpirun and srun may both deliver a signal that was
 * sent to the job. */
static const double same_request = 1; /* seconds */

/* Asks to stop; a later signal ends the process with the signal's own action. Only functions that are safe in
 * a handler are called.
 *
 * The first signal that the launcher forwards is the first one of the job, also if this rank has got one before: the
 * ranks save their state together. An evaluator is ended only by the second one of the job, since its end would end
 * the workers before they have saved.
 *
 * mpirun also sends SIGTERM to the ranks that survive a rank's death. Those do not complete another step, so
 * the request has no effect, and the watchdog reports the lost rank and ends the job. */
static void on_signal(int signal_number, siginfo_t *info, void *context)
{
    (void)context;
    bool forwarded = forwards && signal_number == SIGUSR1 && info->si_pid == getppid();
    bool first = !received || (forwarded && !of_job);
    if (forwarded)
        of_job = 1;
    else
        alone = signal_number;
    if (first) {
        received_at = iso_clock();
        received = signal_number;
    } else if ((forwarded || !goes_on) && iso_clock() - received_at > same_request) {
        signal(signal_number, SIG_DFL);
        raise(signal_number); /* delivered when this function returns */
    }
}

static void install(void)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < HANDLED; i++)
        sigaddset(&action.sa_mask, handled[i]);
    iso_signal_stack_use();
    received = of_job = alone = 0;
    for (int i = 0; i < HANDLED; i++) {
        sigaction(handled[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN)
            sigaction(handled[i], &action, NULL);
    }
}

/* When a host is lost, mpirun closes the output of the ranks that are left. A line of output must not end them
 * before the watchdog has reported the loss. */
static void ignore_broken_pipe(void)
{
    struct sigaction action = {.sa_handler = SIG_IGN};
    pipe_ignored = sigaction(SIGPIPE, &action, &pipe_before) == 0;
}

static iso_status check_owner(const iso_context *ctx)
{
    if (!ctx->channel.communicator || ctx->began_mpi)
        return ISO_OK;
    return iso_error(ISO_INVALID, "iso_stop_on_signals: the program has initialised MPI, so signals are its "
                                  "own; let iso_init initialise MPI");
}

iso_status iso_stop_on_signals(iso_context *ctx)
{
    ISO_NEED(ctx);
    iso_status status = iso_agree(ctx, check_owner(ctx));
    if (status != ISO_OK || ctx->stop.on_signals)
        return status;
    ctx->stop.on_signals = true;
    if (users++ == 0) {
        forwards = iso_launcher_forwards_signals();
        goes_on = iso_job_has_workers(ctx);
        install();
    }
    if (iso_ranks(ctx) > 1 && !pipe_ignored)
        ignore_broken_pipe();
    return ISO_OK;
}

void iso_stop_end(void)
{
    if (--users > 0)
        return;
    for (int i = 0; i < HANDLED; i++)
        sigaction(handled[i], &before[i], NULL);
    if (pipe_ignored)
        sigaction(SIGPIPE, &pipe_before, NULL);
    pipe_ignored = false;
}

/* ---- the time limit ---- */

static iso_status set_deadline(iso_context *ctx, double seconds)
{
    double left, whole;
    if (!(seconds > 0))
        return iso_error(ISO_INVALID, "iso_stop_before_limit: %g seconds; a number above 0 is wanted",
                         seconds);
    iso_status status = iso_time_limit_query(&left, &whole);
    if (status != ISO_OK)
        return status;
    if (whole > 0 && seconds >= whole)
        return iso_error(
            ISO_INVALID,
            "stopping %g s before the time limit of the Slurm job leaves no time: the job has %g s "
            "in all",
            seconds, whole);
    ctx->stop.deadline = iso_clock() + left - seconds;
    return ISO_OK;
}

iso_status iso_stop_before_limit(iso_context *ctx, double seconds)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(ctx);
    iso_status status = iso_agree(ctx, iso_rank(ctx) == 0 ? set_deadline(ctx, seconds) : ISO_OK);
    ctx->stop.limited = ctx->stop.limited || status == ISO_OK;
    return status;
}

/* ---- requests ---- */

static bool is_signalled(const iso_context *ctx)
{
    return ctx->stop.on_signals && received != 0;
}

/* Whether the step after the one that begins now would end too late, if it takes as long as the last one. */
static bool time_is_up(iso_stop *stop)
{
    if (stop->deadline == 0)
        return false;
    double now = iso_clock(), step = stop->last_step > 0 ? now - stop->last_step : 0;
    stop->last_step = now;
    return now + 2 * step > stop->deadline;
}

/* An evaluator in the workers' job goes on until they end. */
bool iso_stop_wanted(iso_context *ctx)
{
    return ctx && !iso_job_has_workers(ctx) &&
           (is_signalled(ctx) || time_is_up(&ctx->stop) || ctx->stop.wanted);
}

void iso_stop_want(iso_context *ctx)
{
    if (ctx)
        ctx->stop.wanted = true;
}

void iso_stop_withdraw(iso_context *ctx)
{
    if (!ctx)
        return;
    ctx->stop.wanted = ctx->stop.agreed = false;
    iso_stop_agree(ctx); /* otherwise the next step tells of a request */
}

void iso_stop_acknowledge(iso_context *ctx)
{
    ctx->stop.agreed = true;
}

iso_status iso_stop_agree(iso_context *ctx)
{
    if (!ctx || !(ctx->stop.on_signals || ctx->stop.limited)) /* the same on all ranks */
        return ISO_OK;
    int64_t asked = iso_stop_wanted(ctx); /* bit 0; bit n: signal n has asked an evaluator that goes on */
    if (ctx->stop.on_signals && goes_on && alone)
        asked |= INT64_C(1) << alone;
    iso_status status = iso_all_reduce(ctx, ISO_REDUCE_OR, ISO_I64, &asked, 1);
    ctx->stop.agreed = ctx->stop.agreed || (asked & 1) != 0;
    for (int i = 0; i < HANDLED; i++)
        if (asked >> handled[i] & 1)
            ctx->stop.refused = handled_name[i];
    return status;
}

const char *iso_stop_refused(const iso_context *ctx)
{
    return ctx ? ctx->stop.refused : NULL;
}

bool iso_stop_requested(const iso_context *ctx)
{
    return ctx && ctx->stop.agreed;
}

/* ---- the end ---- */

/* launch/mpirun hands on each signal as SIGUSR1, so who asked is not known. */
static const char *reason(int signal_number)
{
    if (signal_number == SIGUSR1 && iso_launcher_forwards_signals())
        return "on request";
    for (int i = 0; i < HANDLED; i++)
        if (signal_number == handled[i])
            return handled_name[i];
    return "the time limit of the Slurm job is near";
}

iso_status iso_stopped(iso_context *ctx, const char *saved)
{
    if (!iso_stop_requested(ctx))
        return iso_error(ISO_INVALID, "iso_stopped: nothing has asked the program to stop");
    int64_t number = is_signalled(ctx) ? received : 0;
    iso_status status = iso_all_reduce(ctx, ISO_REDUCE_MAX, ISO_I64, &number, 1);
    if (status != ISO_OK)
        return status;
    ctx->stop.signal = (int)number;
    if (saved && !*saved)
        return iso_error(ISO_STOPPED, "%s: stopped before there was anything to save; run again to continue",
                         reason(ctx->stop.signal));
    if (saved)
        return iso_error(ISO_STOPPED, "%s: stopped, and saved '%s'; run again to continue",
                         reason(ctx->stop.signal), saved);
    return iso_error(ISO_INTERRUPTED, "%s: stopped; nothing was saved", reason(ctx->stop.signal));
}
