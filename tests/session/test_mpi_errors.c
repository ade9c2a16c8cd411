/* Calls of MPI that fail: this program stands between Isogrid and MPI (it defines MPI_Bcast and the others,
 * which call PMPI_Bcast) and fails the k-th call of each function in turn, from iso_init_on to iso_finish of
 * a training with rows in shares and checkpoints. Every rank gets a status with MPI's text, nothing hangs,
 * nothing is left behind, and the caller's error handler is as it was. Ranks: 1, 3 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/control/control.h"
#include "models/models.h"
#include "runtime/isogrid_mpi.h"
#include "tests/support/folder.h"
#include "tests/support/run_tests.h"

static MPI_Comm callers; /* the caller's communicator; the test itself speaks on MPI_COMM_WORLD */
static int rank, ranks;
static char folder[64];

/* MPI keeps what could not be freed because the call failed: AddressSanitizer looks for no leaks here. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

/* ---- the layer between ---- */

typedef enum kind {
    EVERYWHERE, /* of all ranks of the job: fails on all, and nothing is done */
    ON_A_HOST,  /* of fewer ranks: fails on all of these */
    ON_ONE,     /* of one rank alone: fails on the last rank, and nothing is done */
    DONE,       /* of one rank alone: is done, and says that it failed */
    KINDS
} kind;

static struct {
    const char *function; /* NULL: none fails */
    kind kind;
    int number; /* of the call that fails, from 1 */
    int seen;
    bool failed;
    bool watched;                         /* a context is there */
    int communicators, types, operations; /* made, and not freed */
} plan;

static bool is_whole(MPI_Comm communicator)
{
    int size = 0;
    PMPI_Comm_size(communicator, &size);
    return size == ranks;
}

/* Whether this call has to fail. */
static bool must_fail(const char *function, MPI_Comm communicator)
{
    if (!plan.watched || !plan.function || strcmp(function, plan.function) != 0)
        return false;
    if (plan.kind <= ON_A_HOST && is_whole(communicator) != (plan.kind == EVERYWHERE))
        return false;
    if (++plan.seen != plan.number || (plan.kind >= ON_ONE && rank != ranks - 1))
        return false;
    return plan.failed = true;
}

/* What the function returns. */
static int play(bool fails, int code)
{
    return fails ? MPI_ERR_INTERN : code;
}

#define BETWEEN(name, communicator, parameters, arguments)                                                   \
    BETWEEN_AS("MPI_" #name, name, communicator, parameters, arguments)
/* called: what the plan calls it. */
#define BETWEEN_AS(called, name, communicator, parameters, arguments)                                        \
    int MPI_##name parameters                                                                                \
    {                                                                                                        \
        bool fails = must_fail(called, communicator);                                                        \
        return play(fails, fails && plan.kind != DONE ? MPI_SUCCESS : PMPI_##name arguments);                \
    }
/* The same of those that make and free. */
#define MAKES(name, count, communicator, parameters, arguments)                                              \
    int MPI_##name parameters                                                                                \
    {                                                                                                        \
        bool fails = must_fail("MPI_" #name, communicator), done = !fails || plan.kind == DONE;              \
        plan.count += plan.watched && done;                                                                  \
        return play(fails, done ? PMPI_##name arguments : MPI_SUCCESS);                                      \
    }
#define FREES(name, count, type)                                                                             \
    int MPI_##name(type *what)                                                                               \
    {                                                                                                        \
        bool fails = must_fail("MPI_" #name, MPI_COMM_WORLD);                                                \
        plan.count -= plan.watched;                                                                          \
        return play(fails, PMPI_##name(what));                                                               \
    }

BETWEEN(Allreduce, c, (const void *a, void *b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c),
        (a, b, n, t, o, c))
BETWEEN(Bcast, c, (void *a, int n, MPI_Datatype t, int root, MPI_Comm c), (a, n, t, root, c))
BETWEEN(Allgather, c, (const void *a, int n, MPI_Datatype t, void *b, int m, MPI_Datatype u, MPI_Comm c),
        (a, n, t, b, m, u, c))
BETWEEN(Alltoall, c, (const void *a, int n, MPI_Datatype t, void *b, int m, MPI_Datatype u, MPI_Comm c),
        (a, n, t, b, m, u, c))
BETWEEN(Alltoallv, c,
        (const void *a, const int n[], const int at[], MPI_Datatype t, void *b, const int m[], const int to[],
         MPI_Datatype u, MPI_Comm c),
        (a, n, at, t, b, m, to, u, c))
BETWEEN(Exscan, c, (const void *a, void *b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), (a, b, n, t, o, c))
BETWEEN(Barrier, c, (MPI_Comm c), (c))
BETWEEN(Iallgather, c,
        (const void *a, int n, MPI_Datatype t, void *b, int m, MPI_Datatype u, MPI_Comm c, MPI_Request *r),
        (a, n, t, b, m, u, c, r))
BETWEEN(Ireduce, c,
        (const void *a, void *b, int n, MPI_Datatype t, MPI_Op o, int root, MPI_Comm c, MPI_Request *r),
        (a, b, n, t, o, root, c, r))
BETWEEN(Ibcast, c, (void *a, int n, MPI_Datatype t, int root, MPI_Comm c, MPI_Request *r),
        (a, n, t, root, c, r))
BETWEEN(Ibarrier, c, (MPI_Comm c, MPI_Request *r), (c, r))
BETWEEN(Iallreduce, c, (const void *a, void *b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c, MPI_Request *r),
        (a, b, n, t, o, c, r))
BETWEEN(Iexscan, c, (const void *a, void *b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c, MPI_Request *r),
        (a, b, n, t, o, c, r))
BETWEEN(Ialltoall, c,
        (const void *a, int n, MPI_Datatype t, void *b, int m, MPI_Datatype u, MPI_Comm c, MPI_Request *r),
        (a, n, t, b, m, u, c, r))
BETWEEN(Ialltoallv, c,
        (const void *a, const int n[], const int at[], MPI_Datatype t, void *b, const int m[], const int to[],
         MPI_Datatype u, MPI_Comm c, MPI_Request *r),
        (a, n, at, t, b, m, to, u, c, r))
BETWEEN(Comm_rank, c, (MPI_Comm c, int *r), (c, r))
BETWEEN(Comm_size, c, (MPI_Comm c, int *n), (c, n))
BETWEEN(Comm_test_inter, c, (MPI_Comm c, int *is), (c, is))
BETWEEN(Comm_set_errhandler, c, (MPI_Comm c, MPI_Errhandler h), (c, h))
BETWEEN(Type_commit, MPI_COMM_WORLD, (MPI_Datatype * t), (t))
BETWEEN(Type_size, MPI_COMM_WORLD, (MPI_Datatype t, int *n), (t, n))
BETWEEN(Recv_init, c, (void *a, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Request *r),
        (a, n, t, from, tag, c, r))
BETWEEN(Send_init, c, (const void *a, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *r),
        (a, n, t, to, tag, c, r))
BETWEEN(Startall, MPI_COMM_WORLD, (int n, MPI_Request r[]), (n, r))
BETWEEN(Testall, MPI_COMM_WORLD, (int n, MPI_Request r[], int *done, MPI_Status s[]), (n, r, done, s))
BETWEEN(Test, MPI_COMM_WORLD, (MPI_Request * r, int *done, MPI_Status *s), (r, done, s))
BETWEEN(Wait, MPI_COMM_WORLD, (MPI_Request * r, MPI_Status *s), (r, s))
BETWEEN(Waitall, MPI_COMM_WORLD, (int n, MPI_Request r[], MPI_Status s[]), (n, r, s))
/* Those between ranks that have no communicator of their own (collectives/mpi/part.h) have this tag. */
#define CALLED(name, tag) ((tag) == 32767 ? "MPI_" #name " of a part" : "MPI_" #name)
BETWEEN_AS(CALLED(Isend, tag), Isend, c,
           (const void *a, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *r),
           (a, n, t, to, tag, c, r))
BETWEEN(Issend, c, (const void *a, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *r),
        (a, n, t, to, tag, c, r))
BETWEEN_AS(CALLED(Irecv, tag), Irecv, c,
           (void *a, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Request *r),
           (a, n, t, from, tag, c, r))
BETWEEN(Recv, c, (void *a, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Status *s),
        (a, n, t, from, tag, c, s))
BETWEEN(Iprobe, c, (int from, int tag, MPI_Comm c, int *there, MPI_Status *s), (from, tag, c, there, s))
BETWEEN(Get_count, MPI_COMM_WORLD, (const MPI_Status *s, MPI_Datatype t, int *n), (s, t, n))
BETWEEN(Reduce_local, MPI_COMM_WORLD, (const void *a, void *b, int n, MPI_Datatype t, MPI_Op o),
        (a, b, n, t, o))
MAKES(Comm_dup, communicators, c, (MPI_Comm c, MPI_Comm *m), (c, m))
MAKES(Comm_idup, communicators, c, (MPI_Comm c, MPI_Comm *m, MPI_Request *r), (c, m, r))
MAKES(Comm_split, communicators, c, (MPI_Comm c, int color, int key, MPI_Comm *m), (c, color, key, m))
MAKES(Comm_split_type, communicators, c, (MPI_Comm c, int t, int key, MPI_Info i, MPI_Comm *m),
      (c, t, key, i, m))
MAKES(Type_contiguous, types, MPI_COMM_WORLD, (int n, MPI_Datatype t, MPI_Datatype *m), (n, t, m))
MAKES(Op_create, operations, MPI_COMM_WORLD, (MPI_User_function * f, int commutes, MPI_Op *m),
      (f, commutes, m))
FREES(Comm_free, communicators, MPI_Comm)
FREES(Type_free, types, MPI_Datatype)
FREES(Op_free, operations, MPI_Op)

int MPI_Abort(MPI_Comm communicator, int code)
{
    fprintf(stderr, "rank %d aborts, after %s failed\n", rank, plan.function ? plan.function : "nothing");
    return PMPI_Abort(communicator, code);
}

/* A rank that left a test would leave the others waiting: the job ends. */
#define CHECK(holds, ...)                                                                                    \
    do {                                                                                                     \
        if (!(holds)) {                                                                                      \
            fprintf(stderr, "%s:%d: rank %d: ", __FILE__, __LINE__, rank);                                   \
            fprintf(stderr, __VA_ARGS__);                                                                    \
            fprintf(stderr, "\n");                                                                           \
            PMPI_Abort(MPI_COMM_WORLD, 1);                                                                   \
        }                                                                                                    \
    } while (0)

/* ---- what is run ---- */

enum { ROWS = 12, COLUMNS = 3 };

/* Rows in shares, a mesh over all ranks (which are two hosts, where there are three), checkpoints beside the
 * training and waited for. */
static iso_status train(iso_context *ctx)
{
    static float x[ROWS * COLUMNS], y[ROWS];
    char path[100];
    iso_mesh *mesh = NULL;
    iso_distribution *distribution = NULL;
    iso_dataset *data = NULL;
    iso_model *model = NULL;
    iso_status status = ISO_OK;
    int begin = ROWS * rank / ranks, count = ROWS * (rank + 1) / ranks - begin;
    for (int i = 0; i < ROWS * COLUMNS; i++)
        x[i] = (float)(i * 7 % 11) / 11;
    snprintf(path, sizeof path, "%s/{epoch}.weights.h5", folder);
    iso_callback *callbacks[2] = {NULL};
    ISO_TRY(iso_mesh_create(ctx, ranks == 3 ? "data=3,model=2" : "data=2", &mesh));
    ISO_TRY(iso_data_parallel_create(mesh, &distribution));
    ISO_TRY(iso_dataset_arrays(ctx, &data, .local = true,
                               .x = {x + begin * COLUMNS, ISO_F32, ISO_SHAPE(count, COLUMNS)},
                               .y = {y + begin, ISO_F32, ISO_SHAPE(count, 1)}));
    ISO_TRY(iso_dataset_shuffle(data, 0));
    ISO_TRY(iso_dataset_batch(data, 6));
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *in = iso_input(g, "x", ISO_F32, ISO_SHAPE(COLUMNS));
    model = iso_model_create(g, in, iso_dense(iso_dense(in, 4), 1));
    ISO_TRY(
        iso_compile(model, .optimizer = iso_adam(1e-2), .loss = ISO_LOSS_MSE, .distribution = distribution));
    callbacks[0] = iso_model_checkpoint(path, .stop_on_error = true); /* iso_fit frees it */
    ISO_TRY(iso_fit(model, data, .epochs = 1, .callbacks = callbacks, .verbose = ISO_ZERO));
done:
    iso_model_destroy(model);
    iso_dataset_destroy(data);
    iso_distribution_destroy(distribution);
    iso_mesh_destroy(mesh);
    return status;
}

/* Steps that accumulate gradients, and between which the ranks agree on nothing. A slot on each rank. */
static iso_status accumulate(iso_context *ctx)
{
    iso_mesh *mesh = NULL;
    iso_distribution *distribution = NULL;
    iso_dataset *data = NULL;
    iso_function *step = NULL;
    iso_graph *g = iso_graph_create(ctx);
    iso_status status = ISO_OK;
    char text[32];
    snprintf(text, sizeof text, "data=%d", ranks);
    ISO_TRY(iso_mesh_create(ctx, text, &mesh));
    ISO_TRY(iso_data_parallel_create(mesh, &distribution));
    ISO_TRY(iso_dataset_random(ctx, ROWS, &data, .shape = ISO_SHAPE(COLUMNS), .classes = 2));
    ISO_TRY(iso_dataset_batch(data, 2));
    iso_graph_distribute(g, distribution);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(COLUMNS));
    iso_tensor *loss = iso_mean(iso_square(iso_dense(x, 4)));
    ISO_TRY(iso_function_create(g, &step, .inputs = {x}, .outputs = {loss}, .training = true,
                                .updates = {iso_minimize(loss, iso_adam(1e-2, .accumulation = 2))}));
    for (int i = 0; i < ROWS / 2; i++) {
        const iso_batch *batch;
        double value;
        ISO_TRY(iso_dataset_next(data, &batch));
        ISO_TRY(iso_function_run(step, batch, &value));
    }
    ISO_TRY(iso_agree(ctx, ISO_OK)); /* of the last step's messages too */
done:
    iso_function_destroy(step);
    iso_graph_destroy(g);
    iso_dataset_destroy(data);
    iso_distribution_destroy(distribution);
    iso_mesh_destroy(mesh);
    return status;
}

static iso_status (*work)(iso_context *ctx) = train;

/* ---- one failure ---- */

/* What a call that fails leads to. */
typedef enum expected {
    NAMED, /* to an error with its name and MPI's text */
    FAILS, /* to an error */
    ANYTHING,
} expected;

typedef struct ending {
    iso_status status;
    int code;
    char message[1000];
} ending;

static ending run_all(void)
{
    ending e;
    iso_context *ctx;
    plan.watched = true;
    e.status = iso_init_on(callers, NULL, NULL, &ctx);
    if (e.status == ISO_OK)
        e.status = work(ctx);
    snprintf(e.message, sizeof e.message, "%s", iso_error_message());
    e.code = iso_finish(ctx, e.status);
    if (e.status == ISO_OK && e.code != 0) /* it failed at the end */
        snprintf(e.message, sizeof e.message, "%s", iso_error_message());
    plan.watched = false;
    return e;
}

static int on_any_rank(int value)
{
    PMPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return value;
}

static void check_nothing_left(const char *function, int number)
{
    int there = 0;
    PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, callers, &there, MPI_STATUS_IGNORE);
    CHECK(!there, "%s, call %d: a message on the caller's communicator", function, number);
    CHECK(plan.communicators == 0, "%s, call %d: %d communicators are left", function, number,
          plan.communicators);
    CHECK(plan.types == 0 && plan.operations == 0, "%s, call %d: types or operations are left", function,
          number);
}

/* Fails call `number`; false where there are not so many. */
static bool fail_call(const char *function, kind how, int number, expected expects)
{
    memset(&plan, 0, sizeof plan);
    plan.function = function;
    plan.kind = how;
    plan.number = number;
    ending e = run_all();
    bool failed = plan.failed;
    plan.function = NULL;
    char text[100];
    snprintf(text, sizeof text, "%s: MPI_ERR_INTERN: internal error", function);
    if (failed && expects != ANYTHING)
        CHECK(e.code != 0, "%s, call %d: exit code 0", function, number);
    if (failed && expects == NAMED)
        CHECK(strstr(e.message, text), "%s, call %d: '%s'", function, number, e.message);
    check_nothing_left(function, number);
    bool reached = on_any_rank(failed);
    if (reached && expects != ANYTHING) /* nobody takes it for a success */
        CHECK(e.code != 0, "%s, call %d: exit code 0 on a rank whose call did not fail", function, number);
    if (!reached)
        CHECK(e.status == ISO_OK && e.code == 0, "without a failure: %s", e.message);
    return reached;
}

/* All calls of a function, one after the other. */
static void fail_each(const char *function, kind how, expected expects)
{
    for (int number = 1; fail_call(function, how, number, expects); number++)
        ;
}

static void fail_all(const char *const *functions, kind how, expected expects)
{
    for (int i = 0; functions[i]; i++)
        fail_each(functions[i], how, expects);
}

/* ---- the tests ---- */

START_TEST(nothing_fails)
{
    memset(&plan, 0, sizeof plan);
    ending e = run_all();
    CHECK(e.status == ISO_OK && e.code == 0, "%s", e.message);
    check_nothing_left("none", 0);
}
END_TEST

START_TEST(collective_calls_fail)
{
    static const char *const functions[] = {"MPI_Comm_test_inter",
                                            "MPI_Comm_rank",
                                            "MPI_Comm_size",
                                            "MPI_Comm_split",
                                            "MPI_Comm_dup",
                                            "MPI_Comm_idup",
                                            "MPI_Comm_set_errhandler",
                                            "MPI_Comm_split_type",
                                            "MPI_Allreduce",
                                            "MPI_Bcast",
                                            "MPI_Allgather",
                                            "MPI_Alltoall",
                                            "MPI_Alltoallv",
                                            "MPI_Exscan",
                                            "MPI_Barrier",
                                            "MPI_Ireduce",
                                            "MPI_Ibcast",
                                            "MPI_Iallreduce",
                                            "MPI_Iexscan",
                                            "MPI_Ialltoall",
                                            "MPI_Ialltoallv",
                                            "MPI_Iallgather",
                                            "MPI_Ibarrier",
                                            NULL};
    fail_all(functions, EVERYWHERE, NAMED);
}
END_TEST

START_TEST(calls_of_a_host_fail)
{
    static const char *const functions[] = {"MPI_Allreduce", "MPI_Bcast",      "MPI_Exscan",
                                            "MPI_Barrier",   "MPI_Iallreduce", "MPI_Ibcast",
                                            "MPI_Iexscan",   "MPI_Ibarrier",   NULL};
    if (ranks > 1)
        fail_all(functions, ON_A_HOST, NAMED);
}
END_TEST

START_TEST(calls_of_one_rank_fail)
{
    static const char *const functions[] = {
        "MPI_Type_contiguous", "MPI_Type_commit", "MPI_Op_create", "MPI_Recv_init",
        "MPI_Send_init",       "MPI_Recv",        "MPI_Get_count", NULL};
    static const char *const answers[] = {"MPI_Isend", NULL}; /* who asked for rows may tell of it first */
    fail_all(functions, ON_ONE, NAMED);
    fail_all(answers, ON_ONE, FAILS);
}
END_TEST

/* They are made again. */
START_TEST(calls_of_parts_fail)
{
    static const char *const functions[] = {"MPI_Isend of a part", "MPI_Irecv of a part", "MPI_Reduce_local",
                                            NULL};
    for (int i = 0; functions[i]; i++)
        for (int number = 1; number <= 41; number += 10)
            fail_call(functions[i], ON_ONE, number, ANYTHING);
}
END_TEST

/* Others get what they wait for, but this rank cannot rely on it. */
START_TEST(messages_fail_when_sent)
{
    static const char *const functions[] = {"MPI_Startall", NULL};
    fail_all(functions, DONE, NAMED);
}
END_TEST

/* A rank that has lost the end of a step counts one step less than the others, but sends weights when they do. */
START_TEST(messages_fail_while_gradients_accumulate)
{
    static const char *const functions[] = {"MPI_Startall", NULL};
    work = accumulate;
    fail_all(functions, DONE, NAMED);
    work = train;
}
END_TEST

/* How often requests are tested is a matter of time, and a test that fails is made again. */
START_TEST(tests_of_requests_fail)
{
    static const char *const functions[] = {"MPI_Test", "MPI_Testall", "MPI_Iprobe", NULL};
    for (int i = 0; functions[i]; i++)
        for (int number = 1; number <= 41; number += 8)
            fail_call(functions[i], ON_ONE, number, ANYTHING);
}
END_TEST

START_TEST(what_is_freed_may_fail)
{
    static const char *const functions[] = {"MPI_Comm_free", "MPI_Type_free", "MPI_Op_free", NULL};
    fail_all(functions, DONE, ANYTHING);
}
END_TEST

/* An error of MPI itself, on a communicator of ours, comes back; on the caller's it calls his handler. */
static int handled;

static void handle(MPI_Comm *communicator, int *code, ...)
{
    (void)communicator;
    (void)code;
    handled++;
}

START_TEST(handlers_stay)
{
    MPI_Errhandler handler, now;
    iso_context *ctx;
    int value = 0;
    memset(&plan, 0, sizeof plan);
    PMPI_Comm_create_errhandler(handle, &handler);
    PMPI_Comm_set_errhandler(callers, handler);
    ck_assert(iso_init_on(callers, NULL, NULL, &ctx) == ISO_OK);
    ck_assert(PMPI_Bcast(&value, 1, MPI_INT, -17, *(MPI_Comm *)iso_communicator(ctx)) != MPI_SUCCESS);
    ck_assert_int_eq(handled, 0);
    ck_assert(train(ctx) == ISO_OK);
    ck_assert_int_eq(iso_finish(ctx, ISO_OK), 0);
    PMPI_Comm_get_errhandler(callers, &now);
    ck_assert(now == handler);
    PMPI_Bcast(&value, 1, MPI_INT, -17, callers);
    ck_assert_int_eq(handled, 1);
    PMPI_Errhandler_free(&now);
    PMPI_Comm_set_errhandler(callers, MPI_ERRORS_RETURN);
    PMPI_Errhandler_free(&handler);
}
END_TEST

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
    PMPI_Comm_dup(MPI_COMM_WORLD, &callers);
    if (ranks > 1)
        setenv("ISOGRID_RANKS_PER_HOST", "2", 1);
    snprintf(folder, sizeof folder, "/dev/shm/isogrid-mpi-errors-XXXXXX");
    bool made = rank > 0 || mkdtemp(folder);
    PMPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, MPI_COMM_WORLD);
    int code = !made || RUN_TESTS("mpi errors", 0, nothing_fails, collective_calls_fail, calls_of_a_host_fail,
                                  calls_of_one_rank_fail, calls_of_parts_fail, messages_fail_when_sent,
                                  messages_fail_while_gradients_accumulate, tests_of_requests_fail,
                                  what_is_freed_may_fail, handlers_stay);
    PMPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        remove_test_folder(NULL, folder);
    PMPI_Comm_free(&callers);
    PMPI_Finalize();
    return code;
}
