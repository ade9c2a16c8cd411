/* Two threads of a process, each with a context on a communicator of its own, train at once: the bits of both
 * are those of a thread that trains alone. After the first context of the process nothing sets an environment
 * variable, not even training in float64, whose products are OpenBLAS's. After MPI_Finalize a context is refused.
 * Ranks: 1, 3 */
#include <check.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "runtime/isogrid_mpi.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { THREADS = 2, ROWS = 96 };

/* Open MPI, which begins here without a launcher too, keeps memory: AddressSanitizer looks for no leaks. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

typedef struct trainer {
    MPI_Comm communicator;
    iso_status status;
    char message[512], fingerprint[33];
} trainer;

static iso_status train(iso_context *ctx, char *fingerprint)
{
    iso_status status;
    iso_dataset *data = NULL;
    iso_fingerprint sum;
    iso_graph *g = iso_graph_create(ctx);
    iso_graph_set_precision(g, ISO_F64);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(40));
    iso_tensor *y = iso_dropout(iso_dense(x, 64, .activation = ISO_RELU), 0.2);
    iso_model *model = iso_model_create(g, x, iso_dense(y, 3));
    ISO_TRY(iso_dataset_random(ctx, ROWS, &data, .shape = ISO_SHAPE(40), .targets = ISO_SHAPE(3)));
    ISO_TRY(iso_dataset_batch(data, 16));
    ISO_TRY(iso_compile(model, .optimizer = iso_adam(), .loss = ISO_LOSS_MSE));
    ISO_TRY(iso_fit(model, data, .epochs = 20, .verbose = ISO_ZERO));
    ISO_TRY(iso_graph_fingerprint(g, &sum));
    iso_fingerprint_text(&sum, fingerprint);
done:
    iso_model_destroy(model);
    iso_dataset_destroy(data);
    return status;
}

/* ---- calls that change the environment ---- */

static atomic_int changes;

int setenv(const char *name, const char *value, int overwrite)
{
    int (*real)(const char *, const char *, int);
    void *address = dlsym(RTLD_NEXT, "setenv");
    memcpy(&real, &address, sizeof real);
    changes++;
    return real(name, value, overwrite);
}

int unsetenv(const char *name)
{
    int (*real)(const char *);
    void *address = dlsym(RTLD_NEXT, "unsetenv");
    memcpy(&real, &address, sizeof real);
    changes++;
    return real(name);
}

static void *run(void *user)
{
    trainer *t = user;
    iso_context *ctx = NULL;
    t->status = iso_init_on(t->communicator, NULL, NULL, &ctx);
    if (t->status == ISO_OK)
        t->status = train(ctx, t->fingerprint);
    if (t->status != ISO_OK)
        strncpy(t->message, iso_error_message(), sizeof t->message - 1);
    iso_finish(ctx, t->status);
    return NULL;
}

START_TEST(contexts_of_two_threads_train_at_once)
{
    trainer at_once[THREADS] = {0}, alone = {0};
    pthread_t thread[THREADS];
    iso_context *first;
    check_ok(iso_init_on(MPI_COMM_SELF, NULL, NULL, &first));
    ck_assert_int_gt(changes, 0); /* those of OpenBLAS are seen */
    changes = 0;
    for (int i = 0; i < THREADS; i++) {
        MPI_Comm_dup(MPI_COMM_SELF, &at_once[i].communicator);
        ck_assert_int_eq(pthread_create(&thread[i], NULL, run, &at_once[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    MPI_Comm_dup(MPI_COMM_SELF, &alone.communicator);
    run(&alone);
    ck_assert_msg(alone.status == ISO_OK, "%s", alone.message);
    for (int i = 0; i < THREADS; i++) {
        ck_assert_msg(at_once[i].status == ISO_OK, "%s", at_once[i].message);
        ck_assert_str_eq(at_once[i].fingerprint, alone.fingerprint);
        MPI_Comm_free(&at_once[i].communicator);
    }
    MPI_Comm_free(&alone.communicator);
    ck_assert_int_eq(changes, 0);
    ck_assert_int_eq(iso_finish(first, ISO_OK), 0);
}
END_TEST

/* A context that is asked for after MPI_Finalize is an error; MPI itself would end the process. */
static bool is_refused_after_mpi(void)
{
    iso_context *late;
    bool refused = iso_init_on(MPI_COMM_WORLD, NULL, NULL, &late) == ISO_INVALID &&
                   !strcmp(iso_error_message(), "iso_init_on: MPI has been finalized");
    iso_finish(late, ISO_OK);
    return refused;
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    int failed = provided < MPI_THREAD_MULTIPLE ||
                 RUN_TESTS("two contexts", 60, contexts_of_two_threads_train_at_once);
    MPI_Finalize();
    return failed || !is_refused_after_mpi();
}
