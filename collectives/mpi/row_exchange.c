/* Rows of other ranks, by request. A rank asks only the ranks that have the rows it needs, and no rank knows
 * in advance which ranks will ask. Requests are synchronous sends, so that a rank knows when all its requests
 * have been received. A nonblocking barrier then ends the round when this is so on all ranks (Hoefler,
 * Siebert, Lumsdaine 2010, "Scalable communication protocols for dynamic sparse data exchange"). Rows never
 * change, so a request of the next round that arrives early is answered at once. */
#include "collectives/row_exchange.h"

#include <inttypes.h>
#include <limits.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "collectives/mpi/call.h"
#include "collectives/mpi/wait.h"
#include "collectives/shm/barrier_impl.h"
#include "runtime/base/first_error.h"
#include "runtime/base/list.h"
#include "runtime/base/memory.h"

/* Tags on the caller's communicator: two for each exchange. Nothing else sends point-to-point messages
 * on it. */
enum { FIRST_TAG = 1000, TAG_PAIRS = 8192 };

/* An answer that is being sent. */
typedef struct answer {
    MPI_Request request; /* MPI_REQUEST_NULL: none */
    char *data;
    size_t room;
} answer;

struct iso_row_exchange {
    iso_watchdog *watchdog;
    MPI_Comm communicator; /* MPI_COMM_NULL: one rank */
    bool abandoned;        /* a rank is lost: MPI may still use our memory */
    int rank, n_ranks, tag;
    int64_t *first;
    size_t row_bytes;
    MPI_Datatype row;
    iso_pack_row pack;
    const void *share;
    MPI_Request *requests; /* [2 * requests]: the request messages, and the rows that are received */
    MPI_Status *status;
    int n_requests, request_room;
    int64_t *asked; /* the request that is being answered */
    size_t asked_room;
    answer *answers;
    int n_answers;
    iso_first_error failed; /* an MPI call in this round */
};

/* An error in a round does not end it: other ranks wait for this one. */
static bool succeeds(iso_row_exchange *x, iso_status status)
{
    iso_first_error_keep(&x->failed, status);
    return status == ISO_OK;
}

/* ---- making ---- */

static iso_status count_rows(iso_row_exchange *x)
{
    for (int r = 0; r < x->n_ranks; r++)
        if (__builtin_add_overflow(x->first[r], x->first[r + 1], &x->first[r + 1]))
            return iso_error(ISO_INVALID, "the rows of ranks 0 to %d overflow: more than %" PRId64, r,
                             INT64_MAX);
    return ISO_OK;
}

/* The first pair of tags that no rank has used. Contexts of several threads count together. */
static iso_status next_tag(iso_row_exchange *x)
{
    static _Atomic int used;
    int mine = atomic_load(&used), most = 0;
    iso_status status = iso_mpi_all_reduce(x->watchdog, &mine, &most, 1, MPI_INT, MPI_MAX, x->communicator);
    while (mine <= most && !atomic_compare_exchange_weak(&used, &mine, most + 1))
        ;
    x->tag = FIRST_TAG + 2 * (most % TAG_PAIRS);
    return status;
}

static iso_status make_type(iso_row_exchange *x)
{
    if (x->row_bytes > INT_MAX)
        return iso_error(ISO_INVALID, "a row of %zu bytes cannot be sent: at most %d", x->row_bytes, INT_MAX);
    iso_status status = ISO_MPI(MPI_Type_contiguous((int)x->row_bytes, MPI_BYTE, &x->row));
    return status != ISO_OK ? status : ISO_MPI(MPI_Type_commit(&x->row));
}

/* Collective. */
static iso_status connect(iso_row_exchange *x, iso_context *ctx, int64_t rows)
{
    x->first[x->rank + 1] = rows;
    if (x->communicator == MPI_COMM_NULL)
        return ISO_OK;
    iso_status status = iso_mpi_gather_all(x->watchdog, &rows, sizeof rows, x->first + 1, x->communicator);
    if (status == ISO_OK)
        status = count_rows(x);
    if (status == ISO_OK)
        status = make_type(x);
    status = iso_agree(ctx, status);
    return status == ISO_OK ? next_tag(x) : status;
}

iso_status iso_row_exchange_create(iso_context *ctx, void *communicator, int64_t rows, size_t row_bytes,
                                   iso_pack_row pack, const void *share, iso_row_exchange **exchange)
{
    iso_row_exchange *x = iso_new(sizeof *x);
    iso_status status = x ? ISO_OK : iso_no_memory("rows of other ranks");
    if (x) {
        *x = (iso_row_exchange){.watchdog = iso_context_watchdog(ctx),
                                .communicator = communicator ? *(MPI_Comm *)communicator : MPI_COMM_NULL,
                                .n_ranks = 1,
                                .row_bytes = row_bytes,
                                .row = MPI_DATATYPE_NULL,
                                .pack = pack,
                                .share = share};
        if (communicator)
            status = ISO_MPI(MPI_Comm_rank(x->communicator, &x->rank));
        if (communicator && status == ISO_OK)
            status = ISO_MPI(MPI_Comm_size(x->communicator, &x->n_ranks));
        x->first = iso_new((size_t)(x->n_ranks + 1) * sizeof *x->first);
        if (status == ISO_OK && !x->first)
            status = iso_no_memory("rows of other ranks");
    }
    status = iso_agree(ctx, status);
    if (status == ISO_OK)
        status = connect(x, ctx, rows);
    if (status == ISO_OK)
        *exchange = x;
    else
        iso_row_exchange_destroy(x);
    return status;
}

void iso_row_exchange_destroy(iso_row_exchange *x)
{
    if (!x || x->abandoned)
        return;
    if (x->row != MPI_DATATYPE_NULL && !iso_mpi_ended())
        ISO_MPI_IGNORE(MPI_Type_free(&x->row));
    for (int i = 0; i < x->n_answers; i++)
        iso_free(x->answers[i].data);
    iso_free(x->answers);
    iso_free(x->asked);
    iso_free(x->requests);
    iso_free(x->status);
    iso_free(x->first);
    iso_free(x);
}

const int64_t *iso_row_exchange_first(const iso_row_exchange *x)
{
    return x->first;
}

int iso_row_exchange_rank_of(const iso_row_exchange *x, int64_t row)
{
    int low = 0, high = x->n_ranks;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (x->first[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* ---- requests ---- */

static int64_t rows_of_one(const iso_row_exchange *x, const int64_t *rows, int64_t begin, int64_t count,
                           int *rank)
{
    int64_t end = begin;
    *rank = iso_row_exchange_rank_of(x, rows[begin]);
    while (end < count && rows[end] < x->first[*rank + 1])
        end++;
    return end - begin;
}

static iso_status reserve_requests(iso_row_exchange *x, int count)
{
    if (count <= x->request_room)
        return ISO_OK;
    iso_free(x->requests);
    iso_free(x->status);
    x->request_room = 0;
    x->requests = iso_new(2 * (size_t)count * sizeof *x->requests);
    x->status = iso_new((size_t)count * sizeof *x->status);
    if (!x->requests || !x->status)
        return iso_no_memory("rows of other ranks");
    x->request_room = count;
    return ISO_OK;
}

/* Asks `rank` for n rows. If the request cannot be sent, no answer is expected. */
static void ask_rank(iso_row_exchange *x, int rank, const int64_t *rows, int n, char *out, MPI_Request *sent,
                     MPI_Request *answered)
{
    if (!succeeds(x, ISO_MPI(MPI_Irecv(out, n, x->row, rank, x->tag + 1, x->communicator, answered))))
        *answered = MPI_REQUEST_NULL;
    else if (!succeeds(x, ISO_MPI(MPI_Issend(rows, n, MPI_INT64_T, rank, x->tag, x->communicator, sent)))) {
        *sent = MPI_REQUEST_NULL;
        ISO_MPI_IGNORE(MPI_Cancel(answered));
    }
}

static iso_status ask(iso_row_exchange *x, const int64_t *rows, int64_t count, char *out)
{
    int rank, owners = 0, number = 0;
    x->n_requests = 0;
    if (count > INT_MAX)
        return iso_error(ISO_INVALID, "%" PRId64 " rows of other ranks at once: at most %d", count, INT_MAX);
    for (int64_t i = 0; i < count; owners++)
        i += rows_of_one(x, rows, i, count, &rank);
    iso_status status = reserve_requests(x, owners);
    if (status != ISO_OK)
        return status;
    for (int64_t i = 0, n; i < count; i += n, number++) {
        n = rows_of_one(x, rows, i, count, &rank);
        x->requests[number] = x->requests[owners + number] = MPI_REQUEST_NULL;
        ask_rank(x, rank, rows + i, (int)n, out + (size_t)i * x->row_bytes, &x->requests[number],
                 &x->requests[owners + number]);
    }
    x->n_requests = owners;
    return ISO_OK;
}

/* A rank that could not answer has sent an empty answer. */
static iso_status take_answers(iso_row_exchange *x, const int64_t *rows, int64_t count)
{
    int rank, got;
    iso_status status = ISO_OK;
    if (x->n_requests == 0)
        return ISO_OK;
    succeeds(x, iso_mpi_await(x->watchdog, x->n_requests, x->requests + x->n_requests, x->status));
    for (int64_t i = 0, n, number = 0; i < count && x->failed.status == ISO_OK && status == ISO_OK;
         i += n, number++) {
        n = rows_of_one(x, rows, i, count, &rank);
        if (succeeds(x, ISO_MPI(MPI_Get_count(&x->status[number], x->row, &got))) && got != n)
            status = iso_error(
                ISO_NO_MEMORY,
                "rank %d could not send %" PRId64 " rows: it is out of memory, or MPI failed there", rank, n);
    }
    return status;
}

/* ---- answers ---- */

static bool reserve_bytes(void **memory, size_t *room, size_t bytes)
{
    if (bytes <= *room)
        return true;
    iso_free(*memory);
    *memory = iso_new(bytes);
    *room = *memory ? bytes : 0;
    return *memory != NULL;
}

/* An answer that is not being sent; NULL if out of memory. */
static answer *idle_answer(iso_row_exchange *x)
{
    for (int i = 0; i < x->n_answers; i++) {
        int done = 0;
        if (succeeds(x, ISO_MPI(MPI_Test(&x->answers[i].request, &done, MPI_STATUS_IGNORE))) && done)
            return &x->answers[i];
    }
    answer fresh = {.request = MPI_REQUEST_NULL};
    iso_status status = iso_list_add(x->answers, x->n_answers, fresh, "rows of other ranks");
    return status == ISO_OK ? &x->answers[x->n_answers - 1] : NULL;
}

/* False if out of memory, or if the rows cannot be sent. */
static bool give_rows(iso_row_exchange *x, int to, int count)
{
    answer *a = idle_answer(x);
    size_t bytes = (size_t)count * x->row_bytes;
    if (!a || !reserve_bytes((void **)&a->data, &a->room, bytes))
        return false;
    for (int i = 0; i < count; i++)
        x->pack(x->share, x->asked[i] - x->first[x->rank], a->data + (size_t)i * x->row_bytes);
    iso_status sent =
        ISO_MPI(MPI_Isend(a->data, count, x->row, to, x->tag + 1, x->communicator, &a->request));
    if (!succeeds(x, sent))
        a->request = MPI_REQUEST_NULL;
    return sent == ISO_OK;
}

static void give(iso_row_exchange *x, int to, int count)
{
    if (!give_rows(x, to, count))
        succeeds(x, ISO_MPI(MPI_Send(NULL, 0, x->row, to, x->tag + 1, x->communicator)));
}

/* Answers one request, if there is any. *answered: there was one. After an error the request is still
 * pending. */
static iso_status serve(iso_row_exchange *x, bool *answered)
{
    int there = 0, count;
    MPI_Status about;
    iso_status status = ISO_OK;
    *answered = false;
    ISO_TRY(ISO_MPI(MPI_Iprobe(MPI_ANY_SOURCE, x->tag, x->communicator, &there, &about)));
    if (!there)
        return ISO_OK;
    ISO_TRY(ISO_MPI(MPI_Get_count(&about, MPI_INT64_T, &count)));
    if (!reserve_bytes((void **)&x->asked, &x->asked_room, (size_t)count * sizeof *x->asked))
        return ISO_OK; /* there may be memory later */
    ISO_TRY(ISO_MPI(MPI_Recv(x->asked, count, MPI_INT64_T, about.MPI_SOURCE, x->tag, x->communicator,
                             MPI_STATUS_IGNORE)));
    give(x, about.MPI_SOURCE, count);
    *answered = true;
done:
    return status;
}

static void wait_for_answers(iso_row_exchange *x)
{
    for (int i = 0; i < x->n_answers; i++)
        succeeds(x, iso_mpi_await(x->watchdog, 1, &x->answers[i].request, MPI_STATUSES_IGNORE));
}

/* Tests whether all requests of this rank have been received. If so it starts the barrier (*waiting); later
 * calls test whether the barrier is complete (*over). */
static iso_status test_round(iso_row_exchange *x, MPI_Request *barrier, bool *waiting, bool *over)
{
    int done = 0;
    iso_status status = ISO_OK;
    if (*waiting) {
        ISO_TRY(ISO_MPI(MPI_Test(barrier, &done, MPI_STATUS_IGNORE)));
        *over = done;
        return ISO_OK;
    }
    ISO_TRY(ISO_MPI(MPI_Testall(x->n_requests, x->requests, &done, MPI_STATUSES_IGNORE)));
    if (done) {
        ISO_TRY(ISO_MPI(MPI_Ibarrier(x->communicator, barrier)));
        *waiting = true;
    }
done:
    return status;
}

/* Serves the others until no rank has a pending request, also after an error. Gives up if MPI keeps
 * failing, or after a loss. */
static void serve_all(iso_row_exchange *x)
{
    MPI_Request barrier = MPI_REQUEST_NULL;
    bool waiting = false, over = false, answered;
    iso_backoff backoff = {0};
    for (int failures = 0; !over && failures < ISO_MPI_TRIES;) {
        iso_status status = serve(x, &answered);
        if (answered) {
            backoff = (iso_backoff){0};
            continue;
        }
        if (status == ISO_OK)
            status = test_round(x, &barrier, &waiting, &over);
        failures = succeeds(x, status) ? 0 : failures + 1;
        if (iso_watchdog_check(x->watchdog) != ISO_OK)
            return;
        iso_backoff_wait(&backoff, true);
    }
}

/* Rows that have not come yet are not written to the caller's memory any more. */
static iso_status abandon(iso_row_exchange *x, iso_status lost)
{
    for (int i = x->n_requests; i < 2 * x->n_requests; i++)
        if (x->requests[i] != MPI_REQUEST_NULL)
            ISO_MPI_IGNORE(MPI_Cancel(&x->requests[i]));
    x->abandoned = true;
    return lost;
}

iso_status iso_row_exchange_fetch(iso_row_exchange *x, const int64_t *rows, int64_t count, void *out)
{
    if (x->communicator == MPI_COMM_NULL || x->n_ranks == 1)
        return ISO_OK;
    x->failed = (iso_first_error){0};
    iso_status status = ask(x, rows, count, out);
    serve_all(x);
    iso_status lost = iso_watchdog_check(x->watchdog);
    if (lost != ISO_OK)
        return abandon(x, lost);
    iso_status taken = take_answers(x, rows, count);
    wait_for_answers(x);
    lost = iso_watchdog_check(x->watchdog);
    if (lost != ISO_OK)
        return abandon(x, lost);
    if (x->failed.status != ISO_OK)
        return iso_first_error_get(&x->failed);
    return status != ISO_OK ? status : taken;
}
