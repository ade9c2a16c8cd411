/* Isogrid inside another MPI program, whose thread level is the argument (single, funneled: the default,
 * serialized, multiple). Training, checkpoints and files leave nothing of the process changed: signals,
 * environment, locale, floating-point modes, affinity, threads of OpenMP and OpenBLAS, random numbers, open
 * files, threads, shared memory, HDF5's error printing, MPI's error handlers and attributes. Nothing is printed.
 * Contexts of several sizes work side by side, and on other threads as the level allows.
 * tests/session/test_thread_levels runs it at each level. Ranks: 1, 3 */
#include <check.h>
#include <dirent.h>
#include <dlfcn.h>
#include <fenv.h>
#include <hdf5.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "models/keras/keras.h"
#include "models/models.h"
#include "runtime/base/text.h"
#include "runtime/isogrid_mpi.h"
#include "tests/support/folder.h"
#include "tests/support/modes.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { ROWS = 61, INPUTS = 13, OUTPUTS = 3 };

extern char **environ;
static int level, rank;
static MPI_Comm callers;

__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0"; /* MPI keeps memory */
}

/* ---- the state of the process, as lines of text ---- */

static int (*omp_most)(void), (*blas_threads)(void);

static void find(void *library, const char *name, void *function)
{
    void *address = dlsym(library, name);
    memcpy(function, &address, sizeof address);
}

static void add_signals(iso_text *text)
{
    sigset_t blocked;
    stack_t stack;
    sigaltstack(NULL, &stack);
    iso_text_add(text, "stack of signals: %p, flags %x\n", stack.ss_sp, (unsigned)stack.ss_flags);
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    for (int s = 1; s < NSIG; s++) {
        struct sigaction is;
        if (sigaction(s, NULL, &is) == 0)
            iso_text_add(text, "signal %d: handler %p, flags %x, %s\n", s, (void *)(size_t)is.sa_handler,
                         (unsigned)is.sa_flags, sigismember(&blocked, s) ? "blocked" : "not blocked");
    }
}

static void add_modes(iso_text *text)
{
    cpu_set_t cores;
    iso_text_add(text, "rounding %d, modes %llx\n", fegetround(),
                 (unsigned long long)number_modes_now().modes);
    iso_text_add(text, "locale %s\n", setlocale(LC_ALL, NULL));
    sched_getaffinity(0, sizeof cores, &cores);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &cores))
            iso_text_add(text, "core %d\n", i);
    iso_text_add(text, "OpenMP's threads %d, OpenBLAS's %d\n", omp_most ? omp_most() : 0,
                 blas_threads ? blas_threads() : 0);
}

static void add_limits(iso_text *text)
{
    char folder[1000];
    mode_t mask = umask(0);
    struct rlimit limit;
    struct itimerval timer;
    umask(mask);
    iso_text_add(text, "umask %o, folder %s, priority %d\n", mask, getcwd(folder, sizeof folder),
                 getpriority(PRIO_PROCESS, 0));
    for (int i = 0; i < (int)RLIM_NLIMITS; i++)
        if (getrlimit((__rlimit_resource_t)i, &limit) == 0)
            iso_text_add(text, "limit %d: %lld\n", i, (long long)limit.rlim_cur);
    for (int i = ITIMER_REAL; i <= ITIMER_PROF; i++)
        if (getitimer(i, &timer) == 0)
            iso_text_add(text, "timer %d: %ld\n", i, (long)timer.it_value.tv_sec);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a folder of /proc, and what they point to. */
static void add_names(iso_text *text, const char *folder, bool links)
{
    char *line[1000], path[400], target[400];
    int count = 0;
    DIR *open = opendir(folder);
    for (struct dirent *entry = readdir(open); entry && count < 1000; entry = readdir(open)) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        ssize_t length = links ? readlink(path, target, sizeof target - 1) : 0;
        target[length > 0 ? length : 0] = 0;
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(open) &&
            asprintf(&line[count], "%s %s", path, target) > 0)
            count++;
    }
    closedir(open);
    qsort(line, (size_t)count, sizeof *line, by_text);
    for (int i = 0; i < count; i++) {
        iso_text_add(text, "%s\n", line[i]);
        free(line[i]);
    }
}

/* Memory that is shared with other processes. */
static void add_maps(iso_text *text)
{
    char line[1000];
    FILE *file = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, file))
        if (strstr(line, "/dev/shm") || strstr(line, "memfd") || strstr(line, "isogrid"))
            iso_text_add(text, "mapped %s", strchr(line, '/'));
    fclose(file);
}

static void add_libraries(iso_text *text)
{
    H5E_auto2_t print;
    void *data;
    MPI_Errhandler handler;
    MPI_Comm all[] = {callers, MPI_COMM_WORLD, MPI_COMM_SELF};
    H5Eget_auto2(H5E_DEFAULT, &print, &data);
    iso_text_add(text, "HDF5 prints errors with %p, has %d objects\n", (void *)(size_t)print,
                 (int)H5Fget_obj_count((hid_t)H5F_OBJ_ALL, H5F_OBJ_ALL));
    for (int i = 0; i < 3; i++) {
        MPI_Comm_get_errhandler(all[i], &handler);
        iso_text_add(text, "error handler %d: %s\n", i,
                     handler == MPI_ERRORS_ARE_FATAL ? "fatal"
                     : handler == MPI_ERRORS_RETURN  ? "return"
                                                     : "another");
        MPI_Errhandler_free(&handler);
    }
}

static char *state_of_process(void)
{
    iso_text text = {0};
    for (char **variable = environ; *variable; variable++)
        iso_text_add(&text, "environment %s\n", *variable);
    add_signals(&text);
    add_modes(&text);
    add_limits(&text);
    add_names(&text, "/proc/self/fd", true);
    add_names(&text, "/proc/self/task", false);
    add_maps(&text);
    add_libraries(&text);
    char *copy = strdup(iso_text_get(&text));
    iso_text_free(&text);
    return copy;
}

/* A thread that has been joined may be listed for a moment. */
static void check_state(const char *before)
{
    char *after = state_of_process();
    for (int i = 0; i < 1000 && strcmp(before, after) != 0; i++) {
        free(after);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        after = state_of_process();
    }
    const char *a = before, *b = after;
    while (*a && strcspn(a, "\n") == strcspn(b, "\n") && !strncmp(a, b, strcspn(a, "\n") + 1)) {
        a += strcspn(a, "\n") + 1;
        b += strcspn(b, "\n") + (*b != 0);
    }
    ck_assert_msg(!*a && !*b, "the state of rank %d was '%.*s' and is '%.*s'", rank, (int)strcspn(a, "\n"), a,
                  (int)strcspn(b, "\n"), b);
    free(after);
}

/* ---- attributes of communicators, which the program has none of ---- */

static int keys;

int MPI_Comm_create_keyval(MPI_Comm_copy_attr_function *copy, MPI_Comm_delete_attr_function *drop, int *key,
                           void *extra)
{
    keys++;
    return PMPI_Comm_create_keyval(copy, drop, key, extra);
}

int MPI_Comm_set_attr(MPI_Comm communicator, int key, void *value)
{
    ck_assert_msg(communicator != callers, "an attribute was set on the caller's communicator");
    return PMPI_Comm_set_attr(communicator, key, value);
}

/* ---- work ---- */

static iso_dataset *open_share(iso_context *ctx)
{
    static float x[ROWS * INPUTS];
    static int32_t y[ROWS];
    iso_dataset *data = NULL;
    int64_t first = (int64_t)ROWS * iso_rank(ctx) / iso_ranks(ctx);
    int64_t rows = (int64_t)ROWS * (iso_rank(ctx) + 1) / iso_ranks(ctx) - first;
    for (int i = 0; i < ROWS * INPUTS; i++)
        x[i] = (float)((i * 7919) % 101) / 101;
    for (int i = 0; i < ROWS; i++)
        y[i] = i % OUTPUTS;
    check_ok(iso_dataset_arrays(ctx, &data, .local = true,
                                .x = {x + first * INPUTS, ISO_F32, ISO_SHAPE(rows, INPUTS)},
                                .y = {y + first, ISO_I32, ISO_SHAPE(rows, 1)}));
    check_ok(iso_dataset_shuffle(data, 0));
    check_ok(iso_dataset_batch(data, 7));
    return data;
}

/* On the same mesh in every context, so with the same bits. */
static iso_model *make_model(iso_context *ctx, iso_dtype precision)
{
    iso_mesh *mesh;
    iso_distribution *distribution;
    check_ok(iso_mesh_create(ctx, "data=4", &mesh));
    check_ok(iso_data_parallel_create(mesh, &distribution));
    iso_graph *g = iso_graph_create(ctx);
    iso_graph_set_precision(g, precision);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(INPUTS));
    iso_tensor *h = iso_dropout(iso_batch_norm(iso_dense(x, 40, .activation = ISO_RELU)), 0.2);
    iso_model *model = iso_model_create(g, x, iso_dense(h, OUTPUTS, .activation = ISO_SOFTMAX));
    check_ok(iso_compile(model, .optimizer = iso_adam(), .loss = ISO_LOSS_SPARSE_CROSSENTROPY,
                         .distribution = distribution));
    iso_distribution_destroy(distribution);
    iso_mesh_destroy(mesh);
    return model;
}

static iso_fingerprint fingerprint_of(iso_model *model)
{
    iso_fingerprint sum;
    check_ok(iso_graph_fingerprint(iso_model_graph(model), &sum));
    return sum;
}

/* All that writes files or starts threads. */
static void use_files(iso_context *ctx, iso_model *model, iso_dataset *data, const char *folder)
{
    char path[4][100];
    static const char *const name[] = {"{epoch}.weights.h5", "events", "log.csv", "predicted.h5"};
    for (int i = 0; i < 4; i++)
        snprintf(path[i], sizeof path[i], "%s/%s", folder, name[i]);
    iso_callback *callbacks[] = {iso_model_checkpoint(path[0], .keep = 1), iso_tensorboard(path[1]),
                                 iso_csv_logger(path[2]), NULL};
    check_ok(iso_fit(model, data, .epochs = 2, .validation = data, .callbacks = callbacks));
    check_ok(iso_evaluate(model, data));
    check_ok(iso_predict(model, data, .file = path[3]));
    snprintf(path[3], sizeof path[3], "%s/2.weights.h5", folder);
    check_ok(iso_model_load_weights(model, path[3]));
    snprintf(path[3], sizeof path[3], "%s/model.keras", folder);
    check_ok(iso_keras_save(model, path[3]));
    snprintf(path[3], sizeof path[3], "%s/none.weights.h5", folder);
    ck_assert_int_ne(iso_model_load_weights(model, path[3]), ISO_OK); /* a value, not a message */
    check_ok(iso_broadcast(ctx, path, sizeof path));
}

static void work_on(MPI_Comm communicator, iso_dtype precision, const char *folder)
{
    iso_context *ctx;
    check_ok(iso_init_on(communicator, NULL, NULL, &ctx));
    iso_model *model = make_model(ctx, precision);
    iso_dataset *data = open_share(ctx);
    use_files(ctx, model, data, folder);
    iso_model_destroy(model);
    iso_dataset_destroy(data);
    ck_assert_int_eq(iso_finish(ctx, ISO_OK), 0);
}

/* ---- tests ---- */

static void handle(int number)
{
    (void)number;
}

/* A program with settings of its own. */
static void set_up_program(void)
{
    void (*set)(int) = NULL;
    void *blas = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_GLOBAL);
    find(RTLD_DEFAULT, "omp_get_max_threads", &omp_most);
    find(RTLD_DEFAULT, "omp_set_num_threads", &set);
    if (set)
        set(5);
    if (blas) {
        find(blas, "openblas_get_num_threads", &blas_threads);
        find(blas, "openblas_set_num_threads", &set);
        set(3);
    }
    signal(SIGUSR1, handle);
    signal(SIGTERM, handle);
    signal(SIGPIPE, SIG_IGN);
    setlocale(LC_ALL, "C.UTF-8");
    umask(027);
    H5open(); /* it sets an attribute of MPI_COMM_SELF, in any program that uses it */
    keys = 0;
    srand(7);
}

START_TEST(test_nothing_is_left)
{
    char folder[64] = "";
    double sum = rank;
    if (rank == 0)
        check_ok(make_test_folder(NULL, folder));
    MPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, callers);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, callers);
    set_up_program();
    int wanted = rand();
    srand(7);
    char *before = state_of_process();
    work_on(callers, ISO_F32, folder);
    check_state(before);
    work_on(callers, ISO_F64, folder);
    check_state(before);
    ck_assert_int_eq(rand(), wanted);
    ck_assert_int_eq(keys, 0);
    MPI_Barrier(callers);
    free(before);
    if (rank == 0)
        check_ok(remove_test_folder(NULL, folder));
}
END_TEST

/* ---- several contexts ---- */

static iso_fingerprint train_alone(MPI_Comm communicator)
{
    iso_context *ctx;
    check_ok(iso_init_on(communicator, NULL, NULL, &ctx));
    iso_model *model = make_model(ctx, ISO_F32);
    iso_dataset *data = open_share(ctx);
    check_ok(iso_fit(model, data, .epochs = 2));
    iso_fingerprint sum = fingerprint_of(model);
    iso_model_destroy(model);
    iso_dataset_destroy(data);
    ck_assert_int_eq(iso_finish(ctx, ISO_OK), 0);
    return sum;
}

/* All ranks, the halves (of different sizes), and each rank alone, epoch by epoch in turn. */
START_TEST(test_contexts_of_several_sizes)
{
    enum { CONTEXTS = 3 };
    MPI_Comm halves, on[CONTEXTS];
    iso_context *ctx[CONTEXTS];
    iso_model *model[CONTEXTS];
    iso_dataset *data[CONTEXTS];
    iso_fingerprint first;
    MPI_Comm_split(callers, rank % 2, rank, &halves);
    on[0] = callers;
    on[1] = halves;
    on[2] = MPI_COMM_SELF;
    for (int i = 0; i < CONTEXTS; i++) {
        check_ok(iso_init_on(on[i], NULL, NULL, &ctx[i]));
        model[i] = make_model(ctx[i], ISO_F32);
        data[i] = open_share(ctx[i]);
    }
    for (int epoch = 0; epoch < 2; epoch++)
        for (int i = 0; i < CONTEXTS; i++)
            check_ok(iso_fit(model[i], data[i], .initial_epoch = epoch, .epochs = epoch + 1));
    for (int i = 0; i < CONTEXTS; i++) { /* the first one first */
        iso_fingerprint sum = fingerprint_of(model[i]);
        iso_model_destroy(model[i]);
        iso_dataset_destroy(data[i]);
        ck_assert_int_eq(iso_finish(ctx[i], ISO_OK), 0);
        iso_fingerprint alone = train_alone(on[i]);
        ck_assert_mem_eq(&sum, &alone, sizeof sum);
        first = i == 0 ? sum : first;
        ck_assert_mem_eq(&sum, &first, sizeof sum); /* the mesh is the same */
    }
    MPI_Comm_free(&halves);
}
END_TEST

/* ---- other threads ---- */

typedef struct trainer {
    MPI_Comm communicator;
    iso_fingerprint sum;
    iso_status status;
    char message[512];
} trainer;

static void *train_on_thread(void *user)
{
    trainer *t = user;
    iso_context *ctx = NULL;
    if (level >= MPI_THREAD_SERIALIZED) {
        t->sum = train_alone(t->communicator);
        return NULL;
    }
    t->status = iso_init_on(t->communicator, NULL, NULL, &ctx);
    snprintf(t->message, sizeof t->message, "%s", iso_error_message());
    iso_finish(ctx, ISO_OK);
    return NULL;
}

static void start(trainer *t, pthread_t *thread)
{
    MPI_Comm_dup(callers, &t->communicator);
    ck_assert_int_eq(pthread_create(thread, NULL, train_on_thread, t), 0);
}

static void stop(trainer *t, pthread_t thread)
{
    pthread_join(thread, NULL);
    MPI_Comm_free(&t->communicator);
}

/* multiple: two at once; serialized: one after the other; below: refused, because MPI may not be called. */
START_TEST(test_other_threads)
{
    trainer t[2] = {0};
    pthread_t thread[2];
    iso_fingerprint alone = train_alone(callers);
    for (int i = 0; i < 2; i++) {
        start(&t[i], &thread[i]);
        if (level < MPI_THREAD_MULTIPLE)
            stop(&t[i], thread[i]);
    }
    for (int i = 0; i < 2 && level == MPI_THREAD_MULTIPLE; i++)
        stop(&t[i], thread[i]);
    for (int i = 0; i < 2 && level >= MPI_THREAD_SERIALIZED; i++)
        ck_assert_mem_eq(&t[i].sum, &alone, sizeof alone);
    for (int i = 0; i < 2 && level < MPI_THREAD_SERIALIZED; i++) {
        ck_assert_int_eq(t[i].status, ISO_INVALID);
        ck_assert_msg(strstr(t[i].message, "so only the thread that started MPI may use Isogrid") &&
                          strstr(t[i].message, level == MPI_THREAD_SINGLE ? "_SINGLE" : "_FUNNELED"),
                      "%s", t[i].message);
    }
}
END_TEST

/* ---- output ---- */

static FILE *printed;
static int kept[2];

static void begin_silence(void)
{
    printed = tmpfile();
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        kept[i] = dup(i + 1);
        dup2(fileno(printed), i + 1);
    }
}

static void end_silence(void)
{
    char text[1000];
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        dup2(kept[i], i + 1);
        close(kept[i]);
    }
    rewind(printed);
    text[fread(text, 1, sizeof text - 1, printed)] = 0;
    fclose(printed);
    ck_assert_msg(!text[0], "rank %d printed: %s", rank, text);
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"single", "funneled", "serialized", "multiple"};
    static const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED,
                                 MPI_THREAD_MULTIPLE};
    int chosen = 1;
    for (int i = 0; i < 4 && argc > 1; i++)
        if (!strcmp(argv[1], names[i]))
            chosen = i;
    MPI_Init_thread(&argc, &argv, levels[chosen], &level);
    MPI_Comm_dup(MPI_COMM_WORLD, &callers);
    MPI_Comm_rank(callers, &rank);
    int failed = level != levels[chosen] ||
                 RUN_TESTS_WITH("no traces", 100, begin_silence, end_silence, test_nothing_is_left,
                                test_contexts_of_several_sizes, test_other_threads);
    MPI_Comm_free(&callers);
    MPI_Finalize();
    return failed;
}
