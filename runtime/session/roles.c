/* The roles of a job's ranks. Workers train; evaluators follow the checkpoints. Each role's ranks get their own
 * communicator, and its rank 0 leads it: the chief leads the workers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "collectives/mpi/call.h"
#include "runtime/base/clock.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/session/roles.h"
#include "runtime/session/roles_impl.h"

/* ---- claims ---- */

static const char *const names[] = {"worker", "evaluator"};
#define RANK "{rank}"
#define ROLE "{role}"

/* The length of the name up to its extension, or up to its end if it has none. */
static size_t stem_of(const char *path)
{
    const char *name = iso_file_name(path), *dot = strrchr(name, '.');
    return dot && dot > name ? (size_t)(dot - path) : strlen(path);
}

/* Adds what stands for the braces at *at, and steps over them; false: nothing stands for them. */
static bool add_value(const iso_context *ctx, iso_role_kind role, const char **at, iso_text *text)
{
    if (!strncmp(*at, RANK, sizeof RANK - 1)) {
        iso_text_add(text, "%d", iso_rank(ctx));
        *at += sizeof RANK - 1;
        return true;
    }
    if (strncmp(*at, ROLE, sizeof ROLE - 1) != 0)
        return false;
    iso_text_add(text, "%s", names[role]);
    *at += sizeof ROLE - 1;
    return true;
}

/* own: where the evaluator's suffix comes, or NULL. */
static iso_status make_path(const iso_context *ctx, iso_role_kind role, const char *path, const char *own,
                            char **name)
{
    iso_text text = {0};
    for (const char *at = path; at == own || *at;) {
        if (at == own) {
            iso_text_add(&text, "-%s", names[role]);
            own = NULL;
        } else if (!add_value(ctx, role, &at, &text))
            iso_text_add(&text, "%c", *at++);
    }
    *name = text.failed ? NULL : iso_strdup(iso_text_get(&text));
    iso_text_free(&text);
    return *name ? ISO_OK : iso_no_memory("the name '%s'", path);
}

iso_status iso_role_path(const iso_context *ctx, iso_role_kind role, const char *path, char **name)
{
    return make_path(ctx, role, path, NULL, name);
}

iso_status iso_role_file(const iso_context *ctx, iso_role_kind role, const char *path, char **name)
{
    bool own = role == ISO_EVALUATOR && !strstr(path, ROLE);
    return make_path(ctx, role, path, own ? path + stem_of(path) : NULL, name);
}

static const char *tf_config(void)
{
    const char *text = getenv("TF_CONFIG");
    return text && *text ? text : NULL;
}

iso_status iso_role_claim_read(const iso_context *ctx, bool environment, iso_role_claim *claim)
{
    const char *option = iso_option(ctx, "role", "auto"), *text = environment ? tf_config() : NULL;
    bool automatic = strcmp(option, "auto") == 0, evaluates = strcmp(option, "evaluator") == 0;
    *claim = (iso_role_claim){.role = evaluates ? ISO_EVALUATOR : ISO_WORKER};
    if (!automatic && !evaluates && strcmp(option, "worker") != 0)
        return iso_error(ISO_INVALID, "--role '%s': it must be auto, worker or evaluator", option);
    iso_status status = text ? iso_tf_task_read(text, &claim->task) : ISO_OK;
    if (status != ISO_OK || !claim->task.given)
        return status;
    if (!automatic && claim->task.role != claim->role)
        return iso_error(ISO_INVALID, "--role %s, but TF_CONFIG says that this process is %s %d", option,
                         claim->task.type, claim->task.index);
    claim->role = claim->task.role;
    return ISO_OK;
}

/* ---- what TF_CONFIG says of all ranks ---- */

/* The entry of a rank in the exchange of roles. */
typedef struct entry {
    uint64_t cluster;
    int32_t role, given, order, n_training, index;
    char type[12];
} entry;

static entry entry_of(const iso_role_claim *claim)
{
    const iso_tf_task *task = &claim->task;
    entry e = {task->cluster,    (int32_t)claim->role, task->given, task->order,
               task->n_training, task->index,          ""};
    snprintf(e.type, sizeof e.type, "%s", task->given ? task->type : "");
    return e;
}

static iso_status too_few(int n_training, int started)
{
    iso_text line = {0};
    if (tf_config())
        iso_tf_add_command(tf_config(), &line);
    iso_status status =
        iso_error(ISO_INVALID,
                  "TF_CONFIG names a cluster of %d training tasks, but %d %s started. One "
                  "command starts them all: %s",
                  n_training, started, started == 1 ? "rank was" : "ranks were", iso_text_get(&line));
    iso_text_free(&line);
    return status;
}

/* Compares a rank with an earlier one. */
static iso_status compare(const entry *all, int first, int rank)
{
    const entry *a = &all[first], *b = &all[rank];
    if (a->given != b->given)
        return iso_error(ISO_INVALID, "TF_CONFIG names a task for rank %d, and none for rank %d",
                         a->given ? first : rank, a->given ? rank : first);
    if (a->cluster != b->cluster || a->n_training != b->n_training)
        return iso_error(ISO_INVALID, "TF_CONFIG: rank %d has another cluster than rank %d", rank, first);
    return ISO_OK;
}

static iso_status same_task(const entry *e, int first, int second)
{
    return iso_error(
        ISO_INVALID,
        "TF_CONFIG makes ranks %d and %d both %s %d. Each rank needs its own task; without TF_CONFIG, "
        "mpirun and srun order the ranks, and rank 0 is the chief",
        first, second, e->type, e->index);
}

/* Whether the ranks that train are the cluster. rank_of [n_training]: for this function. */
static iso_status check_training(const entry *all, int ranks, int first, int *rank_of)
{
    int started = 0;
    for (int order = 0; order < all[first].n_training; order++)
        rank_of[order] = -1;
    for (int rank = first; rank < ranks; rank++) {
        if (all[rank].role != ISO_WORKER)
            continue;
        iso_status status = compare(all, first, rank);
        if (status != ISO_OK || !all[rank].given)
            return status;
        int *taken = &rank_of[all[rank].order];
        if (*taken >= 0)
            return same_task(&all[rank], *taken, rank);
        *taken = rank;
        started++;
    }
    return started < all[first].n_training ? too_few(all[first].n_training, started) : ISO_OK;
}

/* TF_CONFIG names at most one evaluator, as in TensorFlow. */
static iso_status check_evaluators(const entry *all, int ranks)
{
    int first = -1;
    for (int rank = 0; rank < ranks; rank++) {
        if (all[rank].role != ISO_EVALUATOR || !all[rank].given)
            continue;
        if (first >= 0)
            return same_task(&all[rank], first, rank);
        first = rank;
    }
    return ISO_OK;
}

static iso_status check_entries(const entry *all, int ranks)
{
    int first = 0, most = 1;
    iso_status status = check_evaluators(all, ranks);
    while (first < ranks && all[first].role != ISO_WORKER)
        first++;
    if (status != ISO_OK || first == ranks)
        return status;
    most = all[first].n_training > 0 ? all[first].n_training : 1;
    int *rank_of = iso_new((size_t)most * sizeof *rank_of);
    if (!rank_of)
        return iso_no_memory("the ranks of %d tasks", most);
    status = check_training(all, ranks, first, rank_of);
    iso_free(rank_of);
    return status;
}

iso_status iso_roles_check_alone(const iso_role_claim *claim)
{
    entry mine = entry_of(claim);
    return check_entries(&mine, 1);
}

/* Whether a rank has failed so far. Collective. */
static iso_status has_failed(MPI_Comm communicator, iso_status so_far, int *failed)
{
    *failed = so_far != ISO_OK;
    return ISO_MPI(MPI_Allreduce(MPI_IN_PLACE, failed, 1, MPI_INT, MPI_MAX, communicator));
}

/* The same check on every rank, so all get the same error. *failed: on any rank. Returns errors of MPI.
 * Collective. */
static iso_status check_together(MPI_Comm communicator, const iso_role_claim *claim, iso_status *checked,
                                 int *failed)
{
    int ranks;
    entry mine = entry_of(claim), *all = NULL;
    iso_status status;
    ISO_TRY(ISO_MPI(MPI_Comm_size(communicator, &ranks)));
    all = iso_new((size_t)ranks * sizeof *all);
    *checked = all ? ISO_OK : iso_no_memory("the roles of %d ranks", ranks);
    ISO_TRY(has_failed(communicator, *checked, failed));
    if (*failed)
        goto done;
    ISO_TRY(ISO_MPI(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, communicator)));
    *checked = check_entries(all, ranks);
    ISO_TRY(has_failed(communicator, *checked, failed));
done:
    iso_free(all);
    return status;
}

/* ---- groups ---- */

/* Facts about the ranks: each is true if it holds for any rank. */
enum { FAILED, TRAINS, EVALUATES, HAS_TASK, FACTS };

static iso_status gather_facts(MPI_Comm communicator, const iso_role_claim *claim, iso_status so_far,
                               int facts[FACTS])
{
    facts[FAILED] = so_far != ISO_OK;
    facts[TRAINS] = claim->role == ISO_WORKER;
    facts[EVALUATES] = claim->role == ISO_EVALUATOR;
    facts[HAS_TASK] = claim->task.given;
    return ISO_MPI(MPI_Allreduce(MPI_IN_PLACE, facts, FACTS, MPI_INT, MPI_MAX, communicator));
}

/* Joins the group of a role, in the order of `key`. */
static iso_status join_group(iso_context *ctx, MPI_Comm communicator, iso_role_kind role, int key)
{
    iso_channel *channel = &ctx->channel;
    ctx->role = role;
    iso_status status = iso_mpi_split_as(communicator, (int)role, key, &channel->communicator);
    channel->rank = iso_comm_rank(channel->communicator);
    channel->n_ranks = iso_comm_size(channel->communicator);
    return status;
}

/* Finds the leader of the other role, and the share of the cores in a job where both roles run. */
static iso_status join_job(iso_context *ctx, MPI_Comm communicator)
{
    iso_channel *job = &ctx->job;
    int leaders[2] = {-1, -1};
    iso_status status;
    ISO_TRY(iso_comm_dup(&communicator, NULL, &job->communicator));
    job->rank = iso_comm_rank(job->communicator);
    job->n_ranks = iso_comm_size(job->communicator);
    if (ctx->channel.rank == 0)
        leaders[ctx->role] = job->rank;
    ISO_TRY(iso_comm_reduce(job->communicator, ISO_COMM_MAX, ISO_COMM_INT, leaders, 2));
    ctx->other_leader = leaders[ctx->role == ISO_WORKER ? ISO_EVALUATOR : ISO_WORKER];
    ISO_TRY(iso_hosts_share_cores(ctx, iso_mpi_of(job->communicator)));
done:
    return status;
}

iso_status iso_roles_join(iso_context *ctx, MPI_Comm communicator, const iso_role_claim *claim,
                          iso_status *so_far)
{
    int facts[FACTS], rank;
    iso_status status;
    ISO_TRY(ISO_MPI(MPI_Comm_rank(communicator, &rank)));
    ISO_TRY(gather_facts(communicator, claim, *so_far, facts));
    if (!facts[FAILED] && facts[HAS_TASK])
        ISO_TRY(check_together(communicator, claim, so_far, &facts[FAILED]));
    if (facts[FAILED]) /* together, to agree on the error */
        return join_group(ctx, communicator, ISO_WORKER, rank);
    ISO_TRY(join_group(ctx, communicator, claim->role, claim->task.given ? claim->task.order : rank));
    if (facts[TRAINS] && facts[EVALUATES])
        ISO_TRY(join_job(ctx, communicator));
done:
    return status;
}

/* ---- the end of the workers ---- */

enum { ENDED = 1 }; /* the tag of the message */

static iso_status receive_end(iso_context *ctx)
{
    iso_status status = ISO_MPI(MPI_Recv(&ctx->workers_status, 1, MPI_INT, ctx->other_leader, ENDED,
                                         iso_mpi_of(ctx->job.communicator), MPI_STATUS_IGNORE));
    ctx->workers_ended = status == ISO_OK;
    return status;
}

static bool awaits_workers(const iso_context *ctx)
{
    return iso_job_has_workers(ctx) && ctx->channel.rank == 0 && !ctx->workers_ended;
}

iso_status iso_workers_ended(iso_context *ctx, bool *ended, iso_status *how)
{
    int arrived = 0;
    iso_status status = ISO_OK;
    if (awaits_workers(ctx)) {
        ISO_TRY(ISO_MPI(MPI_Iprobe(ctx->other_leader, ENDED, iso_mpi_of(ctx->job.communicator), &arrived,
                                   MPI_STATUS_IGNORE)));
        if (arrived)
            ISO_TRY(receive_end(ctx));
    }
    *ended = ctx && ctx->workers_ended;
    *how = ctx ? (iso_status)ctx->workers_status : ISO_OK;
done:
    return status;
}

bool iso_job_has_workers(const iso_context *ctx)
{
    return ctx && ctx->job.communicator && ctx->role == ISO_EVALUATOR;
}

void iso_workers_notify_end(iso_context *ctx, iso_status status)
{
    int how = (int)status;
    if (ctx->job.communicator && ctx->role == ISO_WORKER && ctx->channel.rank == 0)
        /* a few bytes, which leave at once */
        ISO_MPI_IGNORE(
            MPI_Send(&how, 1, MPI_INT, ctx->other_leader, ENDED, iso_mpi_of(ctx->job.communicator)));
}

/* Sleeps longer the longer it waits, up to 20 ms: the workers may train for days. */
static void job_rest(double waited)
{
    double seconds = waited / 50 < 0.02 ? waited / 50 : 0.02;
    nanosleep(&(struct timespec){0, 100000 + (long)(1e9 * seconds)}, NULL);
}

static void warn_of_evaluator(const iso_context *ctx, double waited, int *warned)
{
    if (ctx->role != ISO_WORKER || ctx->channel.rank != 0 || waited < ctx->timeout * (*warned + 1))
        return;
    iso_warn("the workers have ended %.0f seconds ago and wait for the evaluator", waited);
    (*warned)++;
}

iso_status iso_roles_barrier(iso_context *ctx)
{
    int done = 0, failures = 0, warned = 0;
    double begun = iso_clock();
    MPI_Request request;
    iso_status status = ISO_MPI(MPI_Ibarrier(iso_mpi_of(ctx->job.communicator), &request));
    while (status == ISO_OK && !done) {
        status = ISO_MPI(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
        if (status != ISO_OK && ++failures < ISO_MPI_TRIES)
            status = ISO_OK;
        if (status == ISO_OK && !done)
            status = iso_watchdog_check(ctx->channel.watchdog);
        if (status == ISO_OK && !done && iso_watchdog_rank_is_missing(ctx->channel.watchdog))
            status = iso_error(ISO_FAILED, "a rank of the job has not reached iso_finish");
        if (status == ISO_OK && !done) {
            warn_of_evaluator(ctx, iso_clock() - begun, &warned);
            job_rest(iso_clock() - begun);
        }
    }
    return status == ISO_OK && awaits_workers(ctx) ? receive_end(ctx) : status;
}
