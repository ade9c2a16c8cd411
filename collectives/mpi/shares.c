/* Rows of other ranks, by request. A rank asks only the ranks that have the rows it needs, and no rank knows
 * in advance which ranks will ask. Requests are synchronous sends, so that a rank knows when all its requests
 * have been received. A nonblocking barrier then ends the round when this is so on all ranks (Hoefler,
 * Siebert, Lumsdaine 2010, "Scalable communication protocols for dynamic sparse data exchange"). Rows never
 * change, so a request of the next round that arrives early is answered at once. */
#include "collectives/shares.h"

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

/* Tags on the caller's communicator: two for each set of shares. Nothing else sends point-to-point messages
 * on it. */
enum { FIRST_TAG = 1000, TAG_PAIRS = 8192 };

/* An answer that is being sent. */
typedef struct answer {
    MPI_Request request; /* MPI_REQUEST_NULL: none */
    char *data;
    size_t room;
} answer;

struct iso_shares {
    iso_watch *watch;
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
static bool shares_succeeds(iso_shares *s, iso_status status)
{
    iso_first_error_keep(&s->failed, status);
    return status == ISO_OK;
}

/* ---- making ---- */

static iso_status count_rows(iso_shares *s)
{
    for (int r = 0; r < s->n_ranks; r++)
        if (__builtin_add_overflow(s->first[r], s->first[r + 1], &s->first[r + 1]))
            return iso_error(ISO_INVALID, "the rows of ranks 0 to %d overflow: more than %" PRId64, r,
                             INT64_MAX);
    return ISO_OK;
}

/* The first pair of tags that no rank has used. Contexts of several threads count together. */
static iso_status next_tag(iso_shares *s)
{
    static _Atomic int used;
    int mine = atomic_load(&used), most = 0;
    iso_status status = iso_mpi_all_reduce(s->watch, &mine, &most, 1, MPI_INT, MPI_MAX, s->communicator);
    while (mine <= most && !atomic_compare_exchange_weak(&used, &mine, most + 1))
        ;
    s->tag = FIRST_TAG + 2 * (most % TAG_PAIRS);
    return status;
}

static iso_status make_type(iso_shares *s)
{
    if (s->row_bytes > INT_MAX)
        return iso_error(ISO_INVALID, "a row of %zu bytes cannot be sent: at most %d", s->row_bytes, INT_MAX);
    iso_status status = ISO_MPI(MPI_Type_contiguous((int)s->row_bytes, MPI_BYTE, &s->row));
    return status != ISO_OK ? status : ISO_MPI(MPI_Type_commit(&s->row));
}

/* Collective. */
static iso_status shares_join(iso_shares *s, iso_context *ctx, int64_t rows)
{
    s->first[s->rank + 1] = rows;
    if (s->communicator == MPI_COMM_NULL)
        return ISO_OK;
    iso_status status = iso_mpi_gather_all(s->watch, &rows, sizeof rows, s->first + 1, s->communicator);
    if (status == ISO_OK)
        status = count_rows(s);
    if (status == ISO_OK)
        status = make_type(s);
    status = iso_agree(ctx, status);
    return status == ISO_OK ? next_tag(s) : status;
}

iso_status iso_shares_create(iso_context *ctx, void *communicator, int64_t rows, size_t row_bytes,
                             iso_pack_row pack, const void *share, iso_shares **shares)
{
    iso_shares *s = iso_new(sizeof *s);
    iso_status status = s ? ISO_OK : iso_no_memory("rows of other ranks");
    if (s) {
        *s = (iso_shares){.watch = iso_context_watch(ctx),
                          .communicator = communicator ? *(MPI_Comm *)communicator : MPI_COMM_NULL,
                          .n_ranks = 1,
                          .row_bytes = row_bytes,
                          .row = MPI_DATATYPE_NULL,
                          .pack = pack,
                          .share = share};
        if (communicator)
            status = ISO_MPI(MPI_Comm_rank(s->communicator, &s->rank));
        if (communicator && status == ISO_OK)
            status = ISO_MPI(MPI_Comm_size(s->communicator, &s->n_ranks));
        s->first = iso_new((size_t)(s->n_ranks + 1) * sizeof *s->first);
        if (status == ISO_OK && !s->first)
            status = iso_no_memory("rows of other ranks");
    }
    status = iso_agree(ctx, status);
    if (status == ISO_OK)
        status = shares_join(s, ctx, rows);
    if (status == ISO_OK)
        *shares = s;
    else
        iso_shares_destroy(s);
    return status;
}

void iso_shares_destroy(iso_shares *s)
{
    if (!s || s->abandoned)
        return;
    if (s->row != MPI_DATATYPE_NULL && !iso_mpi_ended())
        ISO_MPI_IGNORE(MPI_Type_free(&s->row));
    for (int i = 0; i < s->n_answers; i++)
        iso_free(s->answers[i].data);
    iso_free(s->answers);
    iso_free(s->asked);
    iso_free(s->requests);
    iso_free(s->status);
    iso_free(s->first);
    iso_free(s);
}

const int64_t *iso_shares_first(const iso_shares *s)
{
    return s->first;
}

int iso_shares_rank_of(const iso_shares *s, int64_t row)
{
    int low = 0, high = s->n_ranks;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (s->first[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* ---- requests ---- */

static int64_t rows_of_one(const iso_shares *s, const int64_t *rows, int64_t begin, int64_t count, int *rank)
{
    int64_t end = begin;
    *rank = iso_shares_rank_of(s, rows[begin]);
    while (end < count && rows[end] < s->first[*rank + 1])
        end++;
    return end - begin;
}

static iso_status reserve_requests(iso_shares *s, int count)
{
    if (count <= s->request_room)
        return ISO_OK;
    iso_free(s->requests);
    iso_free(s->status);
    s->request_room = 0;
    s->requests = iso_new(2 * (size_t)count * sizeof *s->requests);
    s->status = iso_new((size_t)count * sizeof *s->status);
    if (!s->requests || !s->status)
        return iso_no_memory("rows of other ranks");
    s->request_room = count;
    return ISO_OK;
}

/* Asks `rank` for n rows. If the request cannot be sent, no answer is expected. */
static void ask_rank(iso_shares *s, int rank, const int64_t *rows, int n, char *out, MPI_Request *sent,
                     MPI_Request *answered)
{
    if (!shares_succeeds(s, ISO_MPI(MPI_Irecv(out, n, s->row, rank, s->tag + 1, s->communicator, answered))))
        *answered = MPI_REQUEST_NULL;
    else if (!shares_succeeds(
                 s, ISO_MPI(MPI_Issend(rows, n, MPI_INT64_T, rank, s->tag, s->communicator, sent)))) {
        *sent = MPI_REQUEST_NULL;
        ISO_MPI_IGNORE(MPI_Cancel(answered));
    }
}

static iso_status shares_ask(iso_shares *s, const int64_t *rows, int64_t count, char *out)
{
    int rank, owners = 0, number = 0;
    s->n_requests = 0;
    if (count > INT_MAX)
        return iso_error(ISO_INVALID, "%" PRId64 " rows of other ranks at once: at most %d", count, INT_MAX);
    for (int64_t i = 0; i < count; owners++)
        i += rows_of_one(s, rows, i, count, &rank);
    iso_status status = reserve_requests(s, owners);
    if (status != ISO_OK)
        return status;
    for (int64_t i = 0, n; i < count; i += n, number++) {
        n = rows_of_one(s, rows, i, count, &rank);
        s->requests[number] = s->requests[owners + number] = MPI_REQUEST_NULL;
        ask_rank(s, rank, rows + i, (int)n, out + (size_t)i * s->row_bytes, &s->requests[number],
                 &s->requests[owners + number]);
    }
    s->n_requests = owners;
    return ISO_OK;
}

/* A rank that could not answer has sent an empty answer. */
static iso_status take_answers(iso_shares *s, const int64_t *rows, int64_t count)
{
    int rank, got;
    iso_status status = ISO_OK;
    if (s->n_requests == 0)
        return ISO_OK;
    shares_succeeds(s, iso_mpi_await(s->watch, s->n_requests, s->requests + s->n_requests, s->status));
    for (int64_t i = 0, n, number = 0; i < count && s->failed.status == ISO_OK && status == ISO_OK;
         i += n, number++) {
        n = rows_of_one(s, rows, i, count, &rank);
        if (shares_succeeds(s, ISO_MPI(MPI_Get_count(&s->status[number], s->row, &got))) && got != n)
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
static answer *idle_answer(iso_shares *s)
{
    for (int i = 0; i < s->n_answers; i++) {
        int done = 0;
        if (shares_succeeds(s, ISO_MPI(MPI_Test(&s->answers[i].request, &done, MPI_STATUS_IGNORE))) && done)
            return &s->answers[i];
    }
    answer fresh = {.request = MPI_REQUEST_NULL};
    iso_status status = iso_list_add(s->answers, s->n_answers, fresh, "rows of other ranks");
    return status == ISO_OK ? &s->answers[s->n_answers - 1] : NULL;
}

/* False if out of memory, or if the rows cannot be sent. */
static bool give_rows(iso_shares *s, int to, int count)
{
    answer *a = idle_answer(s);
    size_t bytes = (size_t)count * s->row_bytes;
    if (!a || !reserve_bytes((void **)&a->data, &a->room, bytes))
        return false;
    for (int i = 0; i < count; i++)
        s->pack(s->share, s->asked[i] - s->first[s->rank], a->data + (size_t)i * s->row_bytes);
    iso_status sent =
        ISO_MPI(MPI_Isend(a->data, count, s->row, to, s->tag + 1, s->communicator, &a->request));
    if (!shares_succeeds(s, sent))
        a->request = MPI_REQUEST_NULL;
    return sent == ISO_OK;
}

static void shares_give(iso_shares *s, int to, int count)
{
    if (!give_rows(s, to, count))
        shares_succeeds(s, ISO_MPI(MPI_Send(NULL, 0, s->row, to, s->tag + 1, s->communicator)));
}

/* Answers one request, if there is any. *answered: there was one. After an error the request is still
 * pending. */
static iso_status serve(iso_shares *s, bool *answered)
{
    int there = 0, count;
    MPI_Status about;
    iso_status status = ISO_OK;
    *answered = false;
    ISO_TRY(ISO_MPI(MPI_Iprobe(MPI_ANY_SOURCE, s->tag, s->communicator, &there, &about)));
    if (!there)
        return ISO_OK;
    ISO_TRY(ISO_MPI(MPI_Get_count(&about, MPI_INT64_T, &count)));
    if (!reserve_bytes((void **)&s->asked, &s->asked_room, (size_t)count * sizeof *s->asked))
        return ISO_OK; /* there may be memory later */
    ISO_TRY(ISO_MPI(MPI_Recv(s->asked, count, MPI_INT64_T, about.MPI_SOURCE, s->tag, s->communicator,
                             MPI_STATUS_IGNORE)));
    shares_give(s, about.MPI_SOURCE, count);
    *answered = true;
done:
    return status;
}

static void wait_for_answers(iso_shares *s)
{
    for (int i = 0; i < s->n_answers; i++)
        shares_succeeds(s, iso_mpi_await(s->watch, 1, &s->answers[i].request, MPI_STATUSES_IGNORE));
}

/* Tests whether all requests of this rank have been received. If so it starts the barrier (*waiting); later
 * calls test whether the barrier is complete (*over). */
static iso_status test_round(iso_shares *s, MPI_Request *barrier, bool *waiting, bool *over)
{
    int done = 0;
    iso_status status = ISO_OK;
    if (*waiting) {
        ISO_TRY(ISO_MPI(MPI_Test(barrier, &done, MPI_STATUS_IGNORE)));
        *over = done;
        return ISO_OK;
    }
    ISO_TRY(ISO_MPI(MPI_Testall(s->n_requests, s->requests, &done, MPI_STATUSES_IGNORE)));
    if (done) {
        ISO_TRY(ISO_MPI(MPI_Ibarrier(s->communicator, barrier)));
        *waiting = true;
    }
done:
    return status;
}

/* Serves the others until no rank has a pending request, also after an error. Gives up if MPI keeps
 * failing, or after a loss. */
static void serve_all(iso_shares *s)
{
    MPI_Request barrier = MPI_REQUEST_NULL;
    bool waiting = false, over = false, answered;
    iso_patience patience = {0};
    for (int failures = 0; !over && failures < ISO_MPI_TRIES;) {
        iso_status status = serve(s, &answered);
        if (answered) {
            patience = (iso_patience){0};
            continue;
        }
        if (status == ISO_OK)
            status = test_round(s, &barrier, &waiting, &over);
        failures = shares_succeeds(s, status) ? 0 : failures + 1;
        if (iso_watch_check(s->watch) != ISO_OK)
            return;
        iso_patience_pass(&patience, true);
    }
}

/* Rows that have not come yet are not written to the caller's memory any more. */
static iso_status abandon(iso_shares *s, iso_status lost)
{
    for (int i = s->n_requests; i < 2 * s->n_requests; i++)
        if (s->requests[i] != MPI_REQUEST_NULL)
            ISO_MPI_IGNORE(MPI_Cancel(&s->requests[i]));
    s->abandoned = true;
    return lost;
}

iso_status iso_shares_fetch(iso_shares *s, const int64_t *rows, int64_t count, void *out)
{
    if (s->communicator == MPI_COMM_NULL || s->n_ranks == 1)
        return ISO_OK;
    s->failed = (iso_first_error){0};
    iso_status status = shares_ask(s, rows, count, out);
    serve_all(s);
    iso_status lost = iso_watch_check(s->watch);
    if (lost != ISO_OK)
        return abandon(s, lost);
    iso_status taken = take_answers(s, rows, count);
    wait_for_answers(s);
    lost = iso_watch_check(s->watch);
    if (lost != ISO_OK)
        return abandon(s, lost);
    if (s->failed.status != ISO_OK)
        return iso_first_error_get(&s->failed);
    return status != ISO_OK ? status : taken;
}
