/* A program with MPI of its own that loses a rank while the others wait in a call of Isogrid, for
 * tests/faults/test_embedded.
 *
 *   embedded CALL VICTIM SIGNAL END [NUMBER]
 *
 * CALL: fit, save (fit that saves after each batch), evaluate, compile, setup, gather, agree, finish, or outside,
 * where the others wait in MPI. VICTIM sends itself the SIGNAL (KILL or STOP): in fit and save in the fifth batch,
 * or NUMBER microseconds after the first one if it is given; in setup when it makes its NUMBER-th call, from 1,
 * that takes part in the making of communicators; otherwise instead of the call. Each survivor writes what the
 * call returned (of finish, the message), "rank 2: status 4: the message", into the file rank-2 of the folder
 * ANSWERS: mpirun may lose what a rank prints while it ends a job. COLLECTIVES: the option --collectives.
 *
 * END: exit ends the survivor with 40 + its rank; abort calls MPI_Abort with 42; handler has a function for
 * losses, which calls MPI_Abort with 43. */
#include <isogrid_mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/isogrid.h"

enum { ROWS = 60, WIDTH = 7 };

static iso_context *ctx;
static const char *call;
static int victim, number, delay = -1;
static int making_calls = -1; /* counted from 0 on */

/* mpirun lets a stopped rank go on when it ends the job. */
static void lose(void)
{
    kill(getpid(), number);
}

static void *lose_later(void *arg)
{
    usleep((useconds_t)delay);
    lose();
    return arg;
}

/* Calls with which communicators are made; what is sent in steps, too. */
static void make_call(void)
{
    if (making_calls >= 0 && ++making_calls == delay && iso_rank(ctx) == victim)
        lose();
}

#define BEFORE(name, parameters, arguments)                                                                  \
    int MPI_##name parameters                                                                                \
    {                                                                                                        \
        make_call();                                                                                         \
        return PMPI_##name arguments;                                                                        \
    }
BEFORE(Comm_split, (MPI_Comm c, int color, int key, MPI_Comm *made), (c, color, key, made))
BEFORE(Comm_split_type, (MPI_Comm c, int type, int key, MPI_Info info, MPI_Comm *made),
       (c, type, key, info, made))
BEFORE(Comm_dup, (MPI_Comm c, MPI_Comm *made), (c, made))
BEFORE(Comm_idup, (MPI_Comm c, MPI_Comm *made, MPI_Request *request), (c, made, request))
BEFORE(Isend, (const void *data, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *request),
       (data, n, t, to, tag, c, request))

static bool is_victim(void)
{
    return iso_rank(ctx) == victim;
}

static iso_status lose_in_batch(void *user, iso_fit_state *state)
{
    (void)user;
    pthread_t thread;
    if (is_victim() && delay < 0 && state->batch == 4)
        lose();
    if (is_victim() && delay >= 0 && state->epoch == 0 && state->batch == 0)
        pthread_create(&thread, NULL, lose_later, NULL);
    return ISO_OK;
}

static iso_status fit(iso_model *model, iso_dataset *data, bool saves)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/{epoch}-{batch}.weights.h5", getenv("CHECKPOINTS"));
    iso_callback *callbacks[3] = {iso_callback_create(.batch_end = lose_in_batch, .collective = true)};
    if (saves)
        callbacks[1] = iso_model_checkpoint(path, .save_freq = 1);
    return iso_fit(model, data, .epochs = 100000, .callbacks = callbacks);
}

static iso_status make_data(iso_dataset **data)
{
    static float x[ROWS * WIDTH], y[ROWS];
    int64_t rows = iso_rank(ctx) == 0 ? 0 : ROWS / iso_rank(ctx); /* the first rank has none */
    iso_status status = ISO_OK;
    for (int i = 0; i < ROWS * WIDTH; i++)
        x[i] = (float)i / ROWS;
    ISO_TRY(iso_dataset_arrays(ctx, data, .local = true, .x = {x, ISO_F32, ISO_SHAPE(rows, WIDTH)},
                               .y = {y, ISO_F32, ISO_SHAPE(rows, 1)}));
    ISO_TRY(iso_dataset_shuffle(*data, 0));
    ISO_TRY(iso_dataset_batch(*data, 11));
done:
    return status;
}

static iso_status compile(iso_model **model)
{
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(WIDTH));
    *model = iso_model_create(g, x, iso_dense(iso_dense(x, 300, .activation = ISO_TANH), 1));
    return iso_compile(*model, .optimizer = iso_adam(1e-3), .loss = ISO_LOSS_MSE);
}

static iso_status do_call(void)
{
    iso_dataset *data = NULL;
    iso_model *model = NULL;
    double loss;
    char all[64];
    iso_status status = ISO_OK;
    ISO_TRY(make_data(&data));
    bool now = is_victim() && delay < 0;
    if (now && !strcmp(call, "compile"))
        lose();
    making_calls = !strcmp(call, "setup") ? 0 : -1;
    ISO_TRY(compile(&model));
    while (!strcmp(call, "setup")) /* until the victim is lost */
        ISO_TRY(iso_fit(model, data));
    if (!strcmp(call, "fit") || !strcmp(call, "save"))
        ISO_TRY(fit(model, data, !strcmp(call, "save")));
    if (now)
        lose();
    /* these go on until the victim is lost */
    while (!strcmp(call, "evaluate"))
        ISO_TRY(iso_evaluate(model, data, .loss = &loss));
    while (!strcmp(call, "gather"))
        ISO_TRY(iso_gather_all(ctx, "4567", 4, all));
    while (!strcmp(call, "agree"))
        ISO_TRY(iso_all_reduce(ctx, ISO_REDUCE_SUM, ISO_I64, all, 1));
    if (!strcmp(call, "outside"))
        MPI_Barrier(MPI_COMM_WORLD);
done:
    iso_model_destroy(model);
    iso_dataset_destroy(data);
    return status;
}

static void tell(int rank, int status, const char *message)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/rank-%d", getenv("ANSWERS"), rank);
    FILE *file = fopen(path, "a");
    if (!file || fprintf(file, "rank %d: status %d: %s\n", rank, status, message) < 0 || fclose(file) != 0)
        _exit(9);
}

static void on_loss(void *user, const char *text)
{
    tell(*(int *)user, ISO_FAILED, text);
    MPI_Abort(MPI_COMM_WORLD, 43);
}

int main(int argc, char **argv)
{
    int provided, rank;
    if (argc < 5)
        return 2;
    call = argv[1];
    victim = atoi(argv[2]);
    number = !strcmp(argv[3], "KILL") ? SIGKILL : SIGSTOP;
    if (argc > 5)
        delay = atoi(argv[5]);
    signal(SIGTERM, SIG_IGN); /* mpirun sends it to the survivors */
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    char *options[] = {argv[0], "--collectives", getenv("COLLECTIVES"), NULL}, **given = options;
    int count = options[2] ? 3 : 1;
    iso_status status = iso_init_on(MPI_COMM_WORLD, &count, &given, &ctx);
    if (!strcmp(argv[4], "handler"))
        iso_set_failure_handler(ctx, on_loss, &rank);
    if (status == ISO_OK)
        status = do_call();
    if (status != ISO_OK)
        tell(rank, (int)status, iso_error_message());
    int code = iso_finish(ctx, status);
    if (status == ISO_OK)
        tell(rank, ISO_FAILED, iso_error_message());
    if (code != 74)
        fprintf(stderr, "rank %d: iso_finish returns %d\n", rank, code);
    if (!strcmp(argv[4], "abort"))
        MPI_Abort(MPI_COMM_WORLD, 42);
    _exit(40 + rank);
}
