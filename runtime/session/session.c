#include "runtime/session/session.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/coll.h"
#include "collectives/control/control.h"
#include "collectives/mpi/aware.h"
#include "collectives/mpi/call.h"
#include "collectives/mpi/wait.h"
#include "runtime/backend/backend.h"
#include "runtime/base/arguments.h"
#include "runtime/base/build.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/session/roles.h"
#include "runtime/session/roles_impl.h"
#include "runtime/session/session_impl.h"
#include "runtime/session/session_mpi.h"
#include "runtime/session/tuning.h"

/* Makes a context of one rank without MPI, with its options taken. verbose: unless there is --verbose. */
static iso_status session_create(int verbose, int *argc, char ***argv, iso_context **out)
{
    *out = NULL;
    iso_context *ctx = iso_new(sizeof *ctx);
    if (!ctx)
        return iso_no_memory("the context (%zu bytes)", sizeof *ctx);
    ctx->channel = (iso_channel){.rank = 0, .n_ranks = 1};
    ctx->shutdown = MPI_COMM_NULL;
    atomic_init(&ctx->holders, 1);
    ctx->seed = ISO_DEFAULT_SEED;
    ctx->timeout = ISO_DEFAULT_TIMEOUT;
    ctx->verbose = verbose;
    ctx->n_hosts = ctx->n_host_ranks = 1;
    *out = ctx;
    iso_status status = iso_options_take(ctx, argc, argv);
    return status == ISO_OK ? iso_default_modes_check() : status;
}

/* Makes communicators of the ranks of one role. They are our own, so the caller's messages cannot match
 * ours. *so_far: of this rank; to be agreed. */
static iso_status session_join(iso_context *ctx, MPI_Comm communicator, const iso_role_claim *claim,
                               iso_status *so_far)
{
    if (communicator == MPI_COMM_NULL) {
        if (*so_far == ISO_OK)
            *so_far = iso_roles_check_alone(claim);
        ctx->role = claim->role;
        return ISO_OK;
    }
    iso_status status = iso_roles_join(ctx, communicator, claim, so_far);
    return status == ISO_OK ? iso_mpi_dup(iso_mpi_of(ctx->channel.communicator), &ctx->shutdown) : status;
}

/* Ranks that have different options or run different builds report this before anything else. Collective. */
static iso_status compare_ranks(iso_context *ctx)
{
    char text[1024];
    snprintf(text, sizeof text, "%s (build %s)", iso_version(), iso_build_id());
    iso_status status = iso_agree_same_text(ctx, "the builds of Isogrid", text);
    if (status != ISO_OK)
        return status;
    iso_options_describe(ctx, text, sizeof text);
    return iso_agree_same_text(ctx, "the options", text);
}

/* Ends the start: the watchdog watches from here on. */
static void end_start(void *ctx)
{
    iso_start_end(&((iso_context *)ctx)->start);
}

/* Watches all ranks of the job, those of the other role too. status: of this rank so far. Collective over the
 * job. */
static iso_status watch_ranks(iso_context *ctx, iso_status status)
{
    bool both = ctx->job.communicator;
    const iso_channel *all = both ? &ctx->job : &ctx->channel;
    iso_watchdog_settings settings = {.host_of_rank = ctx->host_of_rank,
                                      .n_hosts = ctx->n_hosts,
                                      .group = (int)ctx->role,
                                      .group_rank = ctx->channel.rank,
                                      .group_size = ctx->channel.n_ranks,
                                      .group_name = iso_job_has_workers(ctx) ? "evaluator" : "",
                                      .ends_process = ctx->began_mpi,
                                      .timeout = ctx->timeout,
                                      .times = !strcmp(iso_option(ctx, "verbose", "1"), "2"),
                                      .timeout_aborts = iso_option(ctx, "timeout-abort", NULL) != NULL,
                                      .begun = end_start,
                                      .user = ctx};
    if (both) {
        status = iso_channel_agree(all, status);
        if (status == ISO_OK)
            status = iso_hosts_find_job(ctx, &settings.n_hosts);
        settings.host_of_rank = ctx->job_hosts;
    }
    iso_start_enter(ctx->start, ISO_START_WATCH);
    if (status == ISO_OK)
        status = iso_watchdog_create(all, &settings, &ctx->channel.watchdog);
    iso_comm_set_watchdog(ctx->channel.communicator, ctx->channel.watchdog);
    return status;
}

/* Collective. */
static iso_status check_device_options(const iso_context *ctx)
{
    const iso_device *any = ctx->backend->device(0);
    if (!strcmp(iso_option(ctx, "collectives", "auto"), "nccl")) {
        iso_status status = iso_nccl_check_device(any);
        if (status != ISO_OK)
            return status;
    }
    if (!iso_option(ctx, "cuda-aware", NULL))
        return ISO_OK;
    if (!any->gather)
        return iso_error(
            ISO_INVALID,
            "--cuda-aware: the backend %s computes in the host's memory, whose addresses MPI gets in any "
            "case; the option is for --backend cuda",
            ctx->backend->name);
    return iso_mpi_query_device(&ctx->channel);
}

/* Gives the backend the options that are for it. Rank 0 warns of one that changes nothing. */
static void set_backend(const iso_context *ctx)
{
    bool tf32 = iso_option(ctx, "tf32", NULL) != NULL;
    if (ctx->backend->set)
        ctx->backend->set(&(iso_backend_settings){.tf32 = tf32});
    else if (tf32 && ctx->channel.rank == 0)
        iso_warn("--tf32 is not used: the backend %s has no TF32", ctx->backend->name);
}

/* `status`: of this rank's options; agreed as soon as there is a communicator. environment: TF_CONFIG counts.
 * Collective. */
static iso_status open_context(iso_context *ctx, MPI_Comm communicator, bool environment, iso_status status)
{
    iso_role_claim claim = {.role = ISO_WORKER};
    if (status == ISO_OK)
        status = iso_role_claim_read(ctx, environment, &claim);
    iso_start_enter(ctx->start, ISO_START_ROLES);
    iso_status joined = session_join(ctx, communicator, &claim, &status);
    if (joined != ISO_OK)
        return iso_agree(ctx, joined);
    ctx->host_of_rank = iso_new((size_t)ctx->channel.n_ranks * sizeof *ctx->host_of_rank);
    if (!ctx->host_of_rank)
        status = iso_no_memory("the hosts of %d ranks", ctx->channel.n_ranks);
    status = iso_agree(ctx, status);
    iso_start_enter(ctx->start, ISO_START_HOSTS);
    if (status == ISO_OK)
        status = iso_agree(ctx, iso_hosts_find(ctx));
    status = watch_ranks(ctx, status);
    if (status == ISO_OK)
        status = compare_ranks(ctx);
    if (status == ISO_OK)
        status = iso_processors_compare(ctx);
    if (status == ISO_OK)
        status = iso_agree_backend(ctx, &ctx->backend);
    if (status == ISO_OK)
        status = iso_devices_compare(ctx);
    if (status == ISO_OK && ctx->backend->load)
        ctx->backend->load();
    if (status == ISO_OK)
        set_backend(ctx);
    if (status == ISO_OK)
        status = check_device_options(ctx);
    if (status == ISO_OK)
        status = iso_tuning_read(ctx, ctx->backend);
    return status;
}

static iso_status begin_mpi(iso_context *ctx)
{
    int provided, ranks;
    iso_launcher_prepare();
    iso_status status = ISO_MPI(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided));
    if (status != ISO_OK)
        return status;
    ctx->began_mpi = true;
    status = iso_mpi_return_errors();
    if (status == ISO_OK)
        status = ISO_MPI(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
    if (status != ISO_OK)
        return status;
    if (iso_launcher_ranks() > 1 && ranks == 1)
        return iso_error(ISO_INVALID,
                         "the launcher started %d ranks, but MPI sees one: the launcher belongs to another "
                         "MPI than the program",
                         iso_launcher_ranks());
    return ISO_OK;
}

/* status: of this rank so far. */
static iso_status begin_and_open(iso_context *ctx, iso_status status)
{
    iso_launcher_location location = iso_launcher_find_location();
    ctx->start = iso_start_begin(&location, ctx->timeout, iso_option(ctx, "timeout-abort", NULL) != NULL);
    iso_status begun = begin_mpi(ctx);
    if (begun == ISO_OK)
        begun = open_context(ctx, MPI_COMM_WORLD, true, status);
    iso_start_end(&ctx->start);
    return begun;
}

/* Every collective call on a context whose start has failed returns the error. */
static iso_status keep_failure(iso_context *ctx, const char *who, iso_status status)
{
    iso_first_error failed = {0};
    if (!ctx || status == ISO_OK)
        return status;
    iso_first_error_keep(&failed, status);
    iso_agree_later(ctx, iso_error(ISO_INVALID, "the context cannot be used, because %s failed: %s", who,
                                   failed.message));
    return iso_first_error_get(&failed);
}

static iso_status init(int *argc, char ***argv, iso_context **out)
{
    int running;
    bool launched;
    iso_status status = session_create(1, argc, argv, out);
    if (!*out)
        return status;
    MPI_Initialized(&running); /* valid at any time, and does not fail */
    if (running)
        return iso_mpi_ended()
                   ? iso_error(ISO_INVALID, "iso_init: MPI has been finalized; it cannot begin again")
                   : open_context(*out, MPI_COMM_WORLD, true, status);
    if (status == ISO_OK)
        status = iso_launcher_check();
    iso_status found = iso_launcher_find(&launched);
    if (found != ISO_OK || !launched)
        return found != ISO_OK ? found : open_context(*out, MPI_COMM_NULL, true, status);
    return begin_and_open(*out, status);
}

iso_status iso_init(int *argc, char ***argv, iso_context **out)
{
    ISO_DEFAULT_MODES();
    ISO_NEED_AS("ctx", out);
    iso_status status = init(argc, argv, out);
    return keep_failure(*out, __func__, status);
}

/* Below MPI_THREAD_SERIALIZED no other thread than the one that started MPI may call it. */
static iso_status check_thread(void)
{
    int level, started;
    iso_status status = ISO_OK;
    ISO_TRY(ISO_MPI(MPI_Query_thread(&level))); /* any thread may call these two */
    ISO_TRY(ISO_MPI(MPI_Is_thread_main(&started)));
    if (level < MPI_THREAD_SERIALIZED && !started)
        status =
            iso_error(ISO_INVALID,
                      "iso_init_on: MPI was started with %s, so only the thread that started MPI may use "
                      "Isogrid; another thread needs MPI_THREAD_SERIALIZED, several at once need "
                      "MPI_THREAD_MULTIPLE",
                      level == MPI_THREAD_SINGLE ? "MPI_THREAD_SINGLE" : "MPI_THREAD_FUNNELED");
done:
    return status;
}

static iso_status init_on(MPI_Comm communicator, int *argc, char ***argv, iso_context **out)
{
    int running, between;
    iso_status status = session_create(0, argc, argv, out);
    if (!*out)
        return status;
    MPI_Initialized(&running);
    if (!running)
        return iso_error(ISO_INVALID, "iso_init_on: MPI is not initialized; call MPI_Init_thread first");
    if (iso_mpi_ended())
        return iso_error(ISO_INVALID, "iso_init_on: MPI has been finalized");
    iso_status allowed = check_thread();
    if (allowed != ISO_OK)
        return allowed;
    if (communicator == MPI_COMM_NULL)
        return iso_error(ISO_INVALID, "iso_init_on: the communicator is MPI_COMM_NULL");
    iso_status tested = ISO_MPI(MPI_Comm_test_inter(communicator, &between));
    if (tested != ISO_OK)
        return tested;
    if (between)
        return iso_error(ISO_INVALID,
                         "iso_init_on: the communicator joins two groups of ranks; it must have one");
    return open_context(*out, communicator, false, status);
}

iso_status iso_init_on(MPI_Comm communicator, int *argc, char ***argv, iso_context **out)
{
    ISO_DEFAULT_MODES();
    ISO_NEED_AS("ctx", out);
    iso_status status = init_on(communicator, argc, argv, out);
    return keep_failure(*out, __func__, status);
}

/* MPI may end a program that converts a handle while MPI does not run. */
iso_status iso_init_on_fortran(MPI_Fint communicator, int *argc, char ***argv, iso_context **out)
{
    int running;
    ISO_NEED_AS("ctx", out);
    MPI_Initialized(&running);
    return iso_init_on(running && !iso_mpi_ended() ? MPI_Comm_f2c(communicator) : MPI_COMM_NULL, argc, argv,
                       out);
}

const iso_channel *iso_context_channel(const iso_context *ctx)
{
    return ctx ? &ctx->channel : NULL;
}

iso_watchdog *iso_context_watchdog(const iso_context *ctx)
{
    return ctx ? ctx->channel.watchdog : NULL;
}

void iso_set_failure_handler(iso_context *ctx, void (*take)(void *user, const char *text), void *user)
{
    if (!ISO_ANY_NULL(ctx))
        iso_watchdog_set_callback(ctx->channel.watchdog, take, user);
}

void iso_agree_later(iso_context *ctx, iso_status status)
{
    if (ctx)
        iso_first_error_keep(&ctx->channel.failed, status);
}

static const char *backend_name(const iso_context *ctx)
{
    const char *named = ctx ? NULL : getenv("ISOGRID_BACKEND");
    return iso_option(ctx, "backend", named && *named ? named : "auto");
}

static iso_status find_backend(const iso_context *ctx, const iso_backend **backend)
{
    return iso_backend_find(backend_name(ctx), backend);
}

/* With `auto`, all ranks use the backend that every rank can use: the CPU if one of them has no GPU. */
static iso_status take_common(iso_context *ctx, const iso_backend **backend)
{
    int64_t number = iso_backend_number(*backend);
    iso_status status = iso_all_reduce(ctx, ISO_REDUCE_MAX, ISO_I64, &number, 1);
    if (status == ISO_OK && strcmp(backend_name(ctx), "auto") == 0)
        *backend = iso_backend_numbered((int)number);
    return status;
}

iso_status iso_agree_backend(iso_context *ctx, const iso_backend **backend)
{
    iso_status status = ISO_OK;
    ISO_TRY(iso_agree(ctx, find_backend(ctx, backend)));
    ISO_TRY(take_common(ctx, backend));
    ISO_TRY(iso_agree_same_text(ctx, "the backend", (*backend)->name));
    ISO_TRY(iso_agree(ctx, (*backend)->check ? (*backend)->check() : ISO_OK));
    int64_t level = (*backend)->level ? (*backend)->level() : 0;
    ISO_TRY(iso_all_reduce(ctx, ISO_REDUCE_MIN, ISO_I64, &level, 1));
    if ((*backend)->limit)
        (*backend)->limit((int)level);
    if ((*backend)->libraries)
        ISO_TRY(
            iso_agree_same_text(ctx, "the libraries of products and convolutions", (*backend)->libraries()));
done:
    return status;
}

const iso_backend *iso_context_backend(const iso_context *ctx)
{
    const iso_backend *backend = ctx ? ctx->backend : NULL;
    return backend || find_backend(NULL, &backend) == ISO_OK ? backend : iso_backend_cpu();
}

int iso_rank(const iso_context *ctx)
{
    return ctx ? ctx->channel.rank : 0;
}

int iso_ranks(const iso_context *ctx)
{
    return ctx ? ctx->channel.n_ranks : 1;
}

int iso_host_ranks(const iso_context *ctx)
{
    return ctx ? ctx->n_host_ranks : 1;
}

int iso_hosts(const iso_context *ctx)
{
    return ctx ? ctx->n_hosts : 1;
}

int iso_host_of_rank(const iso_context *ctx, int rank)
{
    if (rank < 0 || rank >= iso_ranks(ctx))
        return -1;
    return ctx && ctx->host_of_rank ? ctx->host_of_rank[rank] : 0;
}

int iso_threads(const iso_context *ctx)
{
    return ctx ? ctx->n_threads : 1;
}

static bool on_gpus(const iso_context *ctx)
{
    return ctx && ctx->backend && ctx->backend->devices;
}

int iso_local_devices(const iso_context *ctx)
{
    return on_gpus(ctx) ? ctx->backend->devices() : iso_threads(ctx);
}

const char *iso_local_device_kind(const iso_context *ctx)
{
    return on_gpus(ctx) ? "GPUs" : "threads";
}

int iso_verbose(const iso_context *ctx)
{
    return ctx ? ctx->verbose : 1;
}

void iso_set_seed(iso_context *ctx, uint64_t seed)
{
    if (ISO_ANY_NULL(ctx))
        return;
    ctx->seed = seed;
}

uint64_t iso_seed(const iso_context *ctx)
{
    return ctx ? ctx->seed : ISO_DEFAULT_SEED;
}

iso_role_kind iso_role(const iso_context *ctx)
{
    return ctx ? ctx->role : ISO_WORKER;
}

bool iso_is_chief(const iso_context *ctx)
{
    return !ctx || ctx->channel.rank == 0;
}

void *iso_communicator(const iso_context *ctx)
{
    return ctx ? iso_mpi_address(ctx->channel.communicator) : NULL;
}

/* MPI counts are ints, so at most 1 GiB is sent at once. */
iso_status iso_broadcast_unchecked(const iso_context *ctx, int root, void *data, size_t bytes)
{
    enum { PART = 1 << 30 };
    if (iso_ranks(ctx) == 1)
        return ISO_OK;
    iso_watchdog *watchdog = ctx->channel.watchdog;
    iso_watchdog_name name;
    iso_watchdog_name_set(&name, "a broadcast of", (int64_t)bytes, "bytes");
    name.signature += (uint64_t)root;
    iso_status status = iso_watchdog_enter(watchdog, &name);
    for (size_t at = 0; at < bytes && status == ISO_OK; at += PART) {
        size_t count = bytes - at < PART ? bytes - at : PART;
        status = iso_comm_broadcast(ctx->channel.communicator, root, (char *)data + at, count);
    }
    iso_watchdog_leave(watchdog);
    return status;
}

iso_status iso_broadcast_from(iso_context *ctx, int root, void *data, size_t bytes)
{
    char text[16];
    if (bytes > 0)
        ISO_NEED_AGREED(ctx, data);
    snprintf(text, sizeof text, "%d", root);
    iso_status status = iso_agree_same(ctx, "iso_broadcast_from's root", (uint64_t)root, text);
    if (status != ISO_OK)
        return status;
    if (root < 0 || root >= iso_ranks(ctx))
        return iso_error(ISO_INVALID, "iso_broadcast_from: there is no rank %d among %d ranks", root,
                         iso_ranks(ctx));
    return iso_broadcast_unchecked(ctx, root, data, bytes);
}

iso_status iso_broadcast(iso_context *ctx, void *data, size_t bytes)
{
    if (bytes > 0)
        ISO_NEED_AGREED(ctx, data);
    return iso_broadcast_unchecked(ctx, 0, data, bytes);
}

static iso_status gather_all(const iso_channel *channel, const void *mine, int bytes, void *all)
{
    iso_status status = iso_watchdog_enter_named(channel->watchdog, "a gathering of", bytes, "bytes");
    if (status == ISO_OK)
        status = iso_comm_gather_all(channel->communicator, mine, (size_t)bytes, all);
    iso_watchdog_leave(channel->watchdog);
    return status;
}

iso_status iso_gather_all(iso_context *ctx, const void *mine, size_t bytes, void *all)
{
    int ranks = iso_ranks(ctx);
    if (bytes == 0)
        return ISO_OK;
    ISO_NEED_AGREED(ctx, mine, all);
    char *out = all;
    iso_status status = ISO_OK;
    if (ranks > 1 && bytes <= INT_MAX)
        return gather_all(&ctx->channel, mine, (int)bytes, all);
    memcpy(out + (size_t)iso_rank(ctx) * bytes, mine, bytes);
    for (int rank = 0; rank < ranks && ranks > 1 && status == ISO_OK; rank++)
        status = iso_broadcast_unchecked(ctx, rank, out + (size_t)rank * bytes, bytes);
    return status;
}

/* The first rank of this rank's host. */
static int leader_of_host(const iso_context *ctx)
{
    int leader = 0;
    while (iso_host_of_rank(ctx, leader) != iso_host_of_rank(ctx, iso_rank(ctx)))
        leader++;
    return leader;
}

bool iso_is_host_leader(const iso_context *ctx)
{
    return leader_of_host(ctx) == iso_rank(ctx);
}

iso_status iso_broadcast_in_hosts(iso_context *ctx, void *data, size_t bytes)
{
    ISO_NEED_AGREED(ctx, data);
    char *all = iso_new((size_t)iso_ranks(ctx) * bytes);
    iso_status status = iso_agree(ctx, all ? ISO_OK : iso_no_memory("%zu bytes of each rank", bytes));
    if (status == ISO_OK)
        status = iso_gather_all(ctx, data, bytes, all);
    if (status == ISO_OK)
        memcpy(data, all + (size_t)leader_of_host(ctx) * bytes, bytes);
    iso_free(all);
    return status;
}

static iso_status reduce_over_ranks(const iso_context *ctx, MPI_Op op, MPI_Datatype type, char *values,
                                    size_t count)
{
    enum { PART = 1 << 16, ELEMENT = 8 }; /* keeps the memory that MPI needs for a call small */
    iso_watchdog *watchdog = ctx->channel.watchdog;
    iso_status status = iso_watchdog_enter_named(watchdog, "a reduction of", (int64_t)count, "values");
    for (size_t at = 0; at < count && status == ISO_OK; at += PART) {
        int n = count - at < PART ? (int)(count - at) : PART;
        status = iso_mpi_all_reduce(watchdog, MPI_IN_PLACE, values + at * ELEMENT, n, type, op,
                                    iso_mpi_of(ctx->channel.communicator));
    }
    iso_watchdog_leave(watchdog);
    return status;
}

iso_status iso_all_reduce(iso_context *ctx, iso_reduction how, iso_dtype dtype, void *values, size_t count)
{
    ISO_DEFAULT_MODES();
    static const MPI_Op op[] = {MPI_SUM, MPI_MIN, MPI_MAX, MPI_BOR};
    bool integers = dtype == ISO_I64, wraps = how == ISO_REDUCE_SUM || how == ISO_REDUCE_OR;
    if (count > 0)
        ISO_NEED_AGREED(ctx, values);
    if ((unsigned)how > ISO_REDUCE_OR || !(integers || (dtype == ISO_F64 && how != ISO_REDUCE_OR)))
        return iso_error(ISO_INVALID, "iso_all_reduce: there is no reduction %d of %s", (int)how,
                         iso_dtype_name(dtype));
    if (iso_ranks(ctx) == 1)
        return ISO_OK;
    MPI_Datatype type = !integers ? MPI_DOUBLE : wraps ? MPI_UINT64_T : MPI_INT64_T;
    return reduce_over_ranks(ctx, op[how], type, values, count);
}
