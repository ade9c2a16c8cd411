/* The stand-in for NCCL does what it is for, between GPUs of one process and of several: messages, sums and splits
 * are right with every seed of delays, captured too; it refuses what the library refuses; where a caller does not
 * wait until a call has begun, some seeds give a wrong result; an error that is ordered holds the stream until the
 * communicator is aborted; one that is whole is finalized and destroyed. Ranks: 1, 2, 3   Sanitize: 1 */
#include <stdio.h>

#ifdef TESTS_HAVE_NCCL
#include <check.h>
#include <nccl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collectives/control/channel.h"
#include "runtime/session/session.h"
#include "tests/standin/standin.h"
#include "tests/support/run_tests.h"

enum { MEMBERS = 3, N = 30000, SEEDS = 5 };
#define GOOD(call) ck_assert_int_eq((call), cudaSuccess)

static iso_context *ctx;

/* A member: a GPU, on rank number % ranks. */
typedef struct member {
    int number;
    ncclComm_t comm;
    cudaStream_t stream;
    float *a, *b; /* [MEMBERS * N], [N] of the device */
    float *host;  /* [MEMBERS * N], pinned */
} member;

static member all[MEMBERS];
static int own; /* of this rank */

static void set(const char *name, int value)
{
    char text[20];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static ncclResult_t settle(ncclComm_t comm)
{
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
        ck_assert_int_eq(ncclCommGetAsyncError(comm, &state), ncclSuccess);
        usleep(50);
    }
    return state;
}

static void settle_all(void)
{
    for (int i = 0; i < own; i++)
        ck_assert_int_eq(settle(all[i].comm), ncclSuccess);
}

static bool is_good(ncclResult_t result)
{
    return result == ncclSuccess || result == ncclInProgress;
}

static ncclUniqueId share_key(void)
{
    ncclUniqueId id;
    memset(&id, 0, sizeof id);
    if (iso_rank(ctx) == 0)
        ck_assert_int_eq(ncclGetUniqueId(&id), ncclSuccess);
    ck_assert_int_eq(iso_comm_broadcast(iso_context_channel(ctx)->communicator, 0, &id, sizeof id), ISO_OK);
    return id;
}

static void refuse_before_it_is_ready(const member *m)
{
    ck_assert_int_eq(ncclSend(m->a, N, ncclFloat32, 0, m->comm, m->stream), ncclInvalidArgument);
    ck_assert_ptr_nonnull(strstr(ncclGetLastError(m->comm), "before the previous operation"));
}

/* gpus: the members take GPUs modulo this number. */
static void begin_to_join(int gpus)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id = share_key();
    config.blocking = 0;
    own = 0;
    for (int m = iso_rank(ctx); m < MEMBERS; m += iso_ranks(ctx)) {
        member *fresh = &all[own++];
        *fresh = (member){.number = m};
        GOOD(cudaSetDevice(m % gpus));
        GOOD(cudaStreamCreateWithFlags(&fresh->stream, cudaStreamNonBlocking));
        GOOD(cudaMalloc((void **)&fresh->a, MEMBERS * N * sizeof(float)));
        GOOD(cudaMalloc((void **)&fresh->b, MEMBERS * N * sizeof(float)));
        GOOD(cudaHostAlloc((void **)&fresh->host, MEMBERS * N * sizeof(float), 0));
        ck_assert_int_eq(ncclCommInitRankConfig(&fresh->comm, MEMBERS, id, m, &config), ncclInProgress);
        if (own == 1 && m + iso_ranks(ctx) < MEMBERS) /* another member of this rank is missing */
            refuse_before_it_is_ready(fresh);
    }
}

static void begin(int seed)
{
    set("STANDIN_SEED", seed);
    begin_to_join(MEMBERS);
    settle_all();
}

static void finish(void)
{
    for (int i = 0; i < own; i++)
        ck_assert(is_good(ncclCommAbort(all[i].comm)));
    for (int i = 0; i < own; i++) {
        GOOD(cudaSetDevice(all[i].number));
        GOOD(cudaStreamDestroy(all[i].stream));
        GOOD(cudaFree(all[i].a));
        GOOD(cudaFree(all[i].b));
        GOOD(cudaFreeHost(all[i].host));
    }
    ck_assert_int_eq(iso_comm_barrier(iso_context_channel(ctx)->communicator), ISO_OK);
}

/* Small integers, so that sums are exact. */
static float value_of(int number, int i)
{
    return (float)((i * 7 + number * 13) % 101);
}

static void write_a(int count)
{
    for (int m = 0; m < own; m++) {
        for (int i = 0; i < count; i++)
            all[m].host[i] = value_of(all[m].number, i);
        GOOD(cudaMemcpyAsync(all[m].a, all[m].host, (size_t)count * sizeof(float), cudaMemcpyHostToDevice,
                             all[m].stream));
    }
}

/* How many elements of b, [count], are not as expected of a member. */
static int wrong_b(member *m, int count, float (*expected)(int number, int i))
{
    int wrong = 0;
    GOOD(cudaMemcpyAsync(m->host, m->b, (size_t)count * sizeof(float), cudaMemcpyDeviceToHost, m->stream));
    GOOD(cudaStreamSynchronize(m->stream));
    for (int i = 0; i < count; i++)
        wrong += m->host[i] != expected(m->number, i);
    return wrong;
}

static void check_b(int count, float (*expected)(int number, int i))
{
    for (int m = 0; m < own; m++)
        ck_assert_int_eq(wrong_b(&all[m], count, expected), 0);
}

/* ---- what it does ---- */

static float of_the_one_before(int number, int i)
{
    return value_of((number + MEMBERS - 1) % MEMBERS, i);
}

static void send_around(void)
{
    ck_assert_int_eq(ncclGroupStart(), ncclSuccess);
    for (int m = 0; m < own; m++) {
        int number = all[m].number;
        ck_assert_int_eq(
            ncclSend(all[m].a, N, ncclFloat32, (number + 1) % MEMBERS, all[m].comm, all[m].stream),
            ncclSuccess);
        ck_assert_int_eq(
            ncclRecv(all[m].b, N, ncclFloat32, (number + MEMBERS - 1) % MEMBERS, all[m].comm, all[m].stream),
            ncclSuccess);
    }
    ck_assert_int_eq(ncclGroupEnd(), ncclInProgress);
}

START_TEST(messages_of_a_group_arrive)
{
    for (int seed = 1; seed <= SEEDS; seed++) {
        begin(seed);
        write_a(N);
        send_around();
        settle_all();
        check_b(N, of_the_one_before);
        finish();
    }
}
END_TEST

static float sum_of_all(int number, int i)
{
    float sum = 0;
    (void)number;
    for (int m = 0; m < MEMBERS; m++)
        sum += value_of(m, i);
    return sum;
}

static float sum_of_own_part(int number, int i)
{
    return sum_of_all(0, number * N + i);
}

static float maximum_of_all(int number, int i)
{
    float most = 0;
    (void)number;
    for (int m = 0; m < MEMBERS; m++)
        most = value_of(m, i) > most ? value_of(m, i) : most;
    return most;
}

static void reduce(ncclRedOp_t op)
{
    ck_assert_int_eq(ncclGroupStart(), ncclSuccess);
    for (int m = 0; m < own; m++)
        ck_assert(is_good(ncclAllReduce(all[m].a, all[m].b, N, ncclFloat32, op, all[m].comm, all[m].stream)));
    ck_assert(is_good(ncclGroupEnd()));
    settle_all();
}

START_TEST(sums_are_those_of_all)
{
    begin(1);
    write_a(MEMBERS * N);
    reduce(ncclSum);
    check_b(N, sum_of_all);
    reduce(ncclMax);
    check_b(N, maximum_of_all);
    write_a(MEMBERS * N);
    ck_assert_int_eq(ncclGroupStart(), ncclSuccess);
    for (int m = 0; m < own; m++)
        ck_assert(is_good(
            ncclReduceScatter(all[m].a, all[m].b, N, ncclFloat32, ncclSum, all[m].comm, all[m].stream)));
    ck_assert(is_good(ncclGroupEnd()));
    settle_all();
    check_b(N, sum_of_own_part);
    finish();
}
END_TEST

static float sum_of_the_ends(int number, int i)
{
    return number == 1 ? value_of(1, i) : value_of(0, i) + value_of(2, i);
}

START_TEST(a_split_has_the_members_of_a_color)
{
    ncclComm_t made[MEMBERS], whole[MEMBERS];
    begin(1);
    for (int m = 0; m < own; m++)
        ck_assert_int_eq(ncclCommSplit(all[m].comm, all[m].number % 2, 0, &made[m], NULL), ncclInProgress);
    settle_all();
    for (int m = 0; m < own; m++) {
        whole[m] = all[m].comm;
        all[m].comm = made[m];
        ck_assert_int_eq(settle(made[m]), ncclSuccess);
    }
    write_a(N);
    reduce(ncclSum);
    check_b(N, sum_of_the_ends);
    for (int m = 0; m < own; m++)
        ck_assert(is_good(ncclCommAbort(whole[m])));
    finish(); /* aborts those that were split */
}
END_TEST

START_TEST(a_captured_group_is_repeated)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec[MEMBERS];
    begin(1);
    for (int m = 0; m < own; m++) {
        GOOD(cudaStreamBeginCapture(all[m].stream, cudaStreamCaptureModeThreadLocal));
        ck_assert(
            is_good(ncclAllReduce(all[m].a, all[m].b, N, ncclFloat32, ncclSum, all[m].comm, all[m].stream)));
        ck_assert_int_eq(settle(all[m].comm), ncclSuccess);
        GOOD(cudaStreamEndCapture(all[m].stream, &graph));
        GOOD(cudaGraphInstantiate(&exec[m], graph, 0));
        GOOD(cudaGraphDestroy(graph));
    }
    for (int run = 0; run < 3; run++) {
        write_a(N);
        for (int m = 0; m < own; m++)
            GOOD(cudaGraphLaunch(exec[m], all[m].stream));
        check_b(N, sum_of_all);
    }
    for (int m = 0; m < own; m++)
        GOOD(cudaGraphExecDestroy(exec[m]));
    finish();
}
END_TEST

/* ---- what a caller may not do ---- */

/* What is queued after a call that has not begun may come before it. */
START_TEST(a_caller_that_does_not_wait_shows)
{
    int wrong = 0;
    for (int seed = 1; seed <= 20; seed++) {
        begin(seed);
        write_a(N);
        for (int m = 0; m < own; m++)
            GOOD(cudaMemsetAsync(all[m].b, 0, N * sizeof(float), all[m].stream));
        send_around();
        for (int m = 0; m < own; m++)
            wrong += wrong_b(&all[m], N, of_the_one_before) != 0;
        settle_all();
        check_b(N, of_the_one_before);
        finish();
    }
    ck_assert_int_gt(wrong, 0);
}
END_TEST

START_TEST(a_gpu_is_taken_once)
{
    begin_to_join(MEMBERS - 1); /* the first and the last member */
    for (int i = 0; i < own; i++) {
        ck_assert_int_eq(settle(all[i].comm), ncclInvalidUsage);
        all[i].number %= MEMBERS - 1;
    }
    finish();
}
END_TEST

START_TEST(wrong_calls_are_refused)
{
    float *a, *host;
    ncclComm_t comm;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER, none = {0};
    begin(1);
    member *m = &all[0];
    a = m->a, host = m->host, comm = m->comm;
    ck_assert_int_eq(ncclGroupEnd(), ncclInvalidUsage);
    ck_assert_int_eq(ncclSend(a, N, ncclFloat32, 0, NULL, m->stream), ncclInvalidArgument);
    ck_assert_int_eq(ncclSend(a, N, ncclFloat32, MEMBERS, comm, m->stream), ncclInvalidArgument);
    ck_assert_int_eq(ncclSend(a, N, ncclNumTypes, 0, comm, m->stream), ncclInvalidArgument);
    ck_assert_int_eq(ncclSend(host, N, ncclFloat32, 0, comm, m->stream), ncclInvalidArgument);
    ck_assert_str_ne(ncclGetLastError(comm), "");
    ck_assert_int_eq(ncclSend(a, N, ncclFloat32, 0, comm, NULL), ncclInvalidUsage);
    ck_assert_int_eq(ncclAllReduce(a, m->b, N, ncclFloat32, ncclNumOps, comm, m->stream),
                     ncclInvalidArgument);
    ck_assert_int_eq(ncclCommSplit(comm, -5, 0, &comm, NULL), ncclInvalidArgument);
    ck_assert_int_eq(ncclCommInitRankConfig(&comm, MEMBERS, (ncclUniqueId){{0}}, MEMBERS, &config),
                     ncclInvalidArgument);
    ck_assert_int_eq(ncclCommInitRankConfig(&comm, MEMBERS, (ncclUniqueId){{0}}, 0, &none),
                     ncclInvalidArgument);
    ck_assert_int_eq(ncclGroupStart(), ncclSuccess); /* nothing of a group with a refused call is done */
    ck_assert_int_eq(ncclSend(a, N, ncclFloat32, 0, m->comm, m->stream), ncclSuccess);
    ck_assert_int_eq(ncclRecv(m->b, N, ncclFloat32, -1, m->comm, m->stream), ncclInvalidArgument);
    ck_assert_int_eq(ncclGroupEnd(), ncclInvalidArgument);
    GOOD(cudaStreamSynchronize(m->stream));
    ck_assert_int_eq(iso_comm_barrier(iso_context_channel(ctx)->communicator), ISO_OK);
    finish();
}
END_TEST

/* An error that is ordered: the work does not end, and the communicator says so, until it is aborted. */
START_TEST(a_lost_member_holds_the_stream_until_abort)
{
    begin(1);
    write_a(N);
    setenv("STANDIN_FAIL", "nccl:6:1", 1);
    send_around();
    for (int m = 0; m < own; m++) {
        ncclResult_t state = ncclSuccess;
        while (state == ncclSuccess || state == ncclInProgress)
            ck_assert_int_eq(ncclCommGetAsyncError(all[m].comm, &state), ncclSuccess);
        ck_assert_int_eq(state, ncclRemoteError);
        ck_assert_int_eq(cudaStreamQuery(all[m].stream), cudaErrorNotReady);
        ck_assert_int_eq(ncclSend(all[m].a, N, ncclFloat32, 0, all[m].comm, all[m].stream), ncclRemoteError);
    }
    unsetenv("STANDIN_FAIL");
    finish(); /* it waits for the streams */
}
END_TEST

START_TEST(a_split_may_fail_after_its_call)
{
    ncclComm_t made[MEMBERS];
    begin(1);
    setenv("STANDIN_FAIL", "ncclJob:2", 1);
    for (int i = 0; i < own; i++)
        ck_assert_int_eq(ncclCommSplit(all[i].comm, 0, 0, &made[i], NULL), ncclInProgress);
    for (int i = 0; i < own; i++) {
        ck_assert_int_eq(settle(all[i].comm), ncclSystemError);
        ck_assert(is_good(ncclCommAbort(made[i])));
    }
    unsetenv("STANDIN_FAIL");
    finish();
}
END_TEST

START_TEST(a_finalized_communicator_is_destroyed)
{
    begin(1);
    write_a(N);
    reduce(ncclSum);
    for (int i = 0; i < own; i++) {
        ck_assert_int_eq(ncclCommDestroy(all[i].comm), ncclInvalidArgument);
        ck_assert_int_eq(ncclCommFinalize(all[i].comm), ncclInProgress);
        ck_assert_int_eq(ncclCommFinalize(all[i].comm), ncclInvalidArgument);
        ck_assert_int_eq(settle(all[i].comm), ncclSuccess);
        ck_assert_int_eq(cudaStreamQuery(all[i].stream), cudaSuccess);
        ck_assert_int_eq(ncclCommDestroy(all[i].comm), ncclSuccess);
        all[i].comm = NULL;
    }
    check_b(N, sum_of_all);
    finish();
}
END_TEST

/* Of a communicator that has one member and blocks. */
static void wait_for_error(ncclComm_t comm, ncclResult_t error)
{
    ncclResult_t state = ncclSuccess;
    for (int waited = 0; waited < 50000 && state != error; waited++) {
        usleep(200);
        ck_assert_int_eq(ncclCommGetAsyncError(comm, &state), ncclSuccess);
    }
    ck_assert_msg(state == error, "the communicator has no error after 10 s");
}

START_TEST(an_error_that_comes_in_a_split_stays)
{
    float *memory;
    cudaStream_t stream;
    GOOD(cudaMalloc((void **)&memory, N * sizeof(float)));
    setenv("STANDIN_FAIL", "nccl:6:1", 1);
    for (int seed = 1; seed <= 20; seed++) {
        ncclUniqueId id;
        ncclComm_t comm, part = NULL;
        set("STANDIN_SEED", seed);
        GOOD(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        ck_assert_int_eq(ncclGetUniqueId(&id), ncclSuccess);
        ck_assert_int_eq(ncclCommInitRankConfig(&comm, 1, id, 0, NULL), ncclSuccess);
        ncclAllReduce(memory, memory, N, ncclFloat32, ncclSum, comm, stream);
        ncclCommSplit(comm, 0, 0, &part, NULL);
        wait_for_error(comm, ncclRemoteError);
        ck_assert_int_eq(ncclGroupStart(), ncclSuccess); /* the end of `part` waits for that of `comm` */
        ck_assert_int_eq(ncclCommAbort(part), ncclSuccess);
        ck_assert_int_eq(ncclCommAbort(comm), ncclSuccess);
        ck_assert_int_eq(ncclGroupEnd(), ncclSuccess);
        GOOD(cudaStreamDestroy(stream));
    }
    unsetenv("STANDIN_FAIL");
    GOOD(cudaFree(memory));
}
END_TEST

/* To itself: other bytes than are expected. */
static int send_too_little(void)
{
    ncclUniqueId id;
    ncclComm_t comm;
    cudaStream_t stream;
    float *memory;
    if (cudaSetDevice(0) || cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) ||
        cudaMalloc((void **)&memory, 1000) || ncclGetUniqueId(&id) ||
        ncclCommInitRankConfig(&comm, 1, id, 0, NULL))
        return 1;
    ncclGroupStart();
    ncclSend(memory, 10, ncclFloat32, 0, comm, stream);
    ncclRecv(memory + 100, 11, ncclFloat32, 0, comm, stream);
    ncclGroupEnd();
    return cudaStreamSynchronize(stream);
}

START_TEST(other_counts_end_the_process)
{
    char out[1000] = {0};
    int ends[2], code;
    if (iso_ranks(ctx) > 1) /* MPI does not survive a fork */
        return;
    ck_assert_int_eq(pipe(ends), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        _exit(send_too_little());
    }
    close(ends[1]);
    ck_assert_int_gt(read(ends[0], out, sizeof out - 1), 0);
    close(ends[0]);
    ck_assert_int_eq(waitpid(pid, &code, 0), pid);
    ck_assert(WIFSIGNALED(code));
    ck_assert_msg(strstr(out, "rank 0 waits for 44 bytes of 'send', and rank 0 sends 40 of 'send'") != NULL,
                  "the report is '%s'", out);
}
END_TEST

int main(int argc, char **argv)
{
    set("STANDIN_GPUS", MEMBERS);
    set("STANDIN_DELAY", 300);
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS("NCCL", 300, other_counts_end_the_process, messages_of_a_group_arrive,
                  sums_are_those_of_all, a_split_has_the_members_of_a_color, a_captured_group_is_repeated,
                  a_caller_that_does_not_wait_shows, a_gpu_is_taken_once, wrong_calls_are_refused,
                  a_lost_member_holds_the_stream_until_abort, a_split_may_fail_after_its_call,
                  a_finalized_communicator_is_destroyed, an_error_that_comes_in_a_split_stays))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
#else
#include "tests/support/run_tests.h"
int main(void)
{
    report_skipped("the stand-in for NCCL", "this build has no headers of NCCL");
    return 77;
}
#endif
