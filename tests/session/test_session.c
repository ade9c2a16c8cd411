/* Contexts: options, hosts, agreement, communicators of callers. Also the program behind
 * tests/session/test_endings, where the environment says how to end. Ranks: 1, 3, 8, 9, 10   More: 2, 5
 * Sanitize: 1, 3 */
#include <check.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/coll.h"
#include "collectives/control/control.h"
#include "collectives/control/watchdog.h"
#include "runtime/base/memory.h"
#include "runtime/base/remote_error.h"
#include "runtime/isogrid.h"
#include "runtime/session/session_mpi.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;

enum { MOST_ARGUMENTS = 16 };

/* Begins a context with these arguments (of a list that ends with NULL) beside that of the test; what is left
 * of them stays in argv. */
static iso_status begin_with(const char *const *arguments, int *argc, char *argv[MOST_ARGUMENTS],
                             iso_context **other)
{
    static char text[MOST_ARGUMENTS][256];
    char **list = argv;
    *argc = 0;
    for (; arguments[*argc]; ++*argc) {
        snprintf(text[*argc], sizeof text[0], "%s", arguments[*argc]);
        argv[*argc] = text[*argc];
    }
    argv[*argc] = NULL;
    return iso_init(argc, &list, other);
}

#define BEGIN(...) begin_with((const char *const[]){"program", __VA_ARGS__, NULL}, &argc, argv, &other)

START_TEST(options_are_taken_out)
{
    int argc;
    char *argv[MOST_ARGUMENTS];
    iso_context *other;
    ck_assert(BEGIN("a", "--mesh=data=2,model=4", "--meshes", "--seed", "7", "b", "--threads=3", "--verbose",
                    "2", "--roles=x", "--", "--seed", "x") == ISO_OK);
    ck_assert_int_eq(argc, 8);
    const char *const left[] = {"program", "a", "--meshes", "b", "--roles=x", "--", "--seed", "x"};
    for (int i = 0; i < argc; i++)
        ck_assert_str_eq(argv[i], left[i]);
    ck_assert_ptr_null(argv[argc]);
    ck_assert_str_eq(iso_option(other, "mesh", "-"), "data=2,model=4");
    ck_assert_str_eq(iso_option(other, "verbose", "1"), "2");
    ck_assert_str_eq(iso_option(other, "roles", "none"), "none");
    ck_assert_uint_eq(iso_seed(other), 7);
    ck_assert_int_eq(iso_threads(other), 3);
    ck_assert_int_eq(iso_finish(other, ISO_OK), 0);
    ck_assert(BEGIN("--seed", "1", "--seed=18446744073709551615") == ISO_OK);
    ck_assert_uint_eq(iso_seed(other), UINT64_MAX);
    iso_finish(other, ISO_OK);
}
END_TEST

START_TEST(wrong_options_are_named)
{
    static const char *const wrong[] = {"--seed=-1",   "--seed=1x",   "--seed=18446744073709551616",
                                        "--seed=",     "--threads=0", "--threads=x",
                                        "--verbose=3", "--mesh=",     "--mesh"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int argc;
        char *argv[MOST_ARGUMENTS], name[7];
        iso_context *other;
        ck_assert_msg(BEGIN("left", wrong[i]) == ISO_INVALID, "%s", wrong[i]);
        snprintf(name, sizeof name, "%s", wrong[i]);
        ck_assert_msg(strstr(iso_error_message(), name), "%s: %s", wrong[i], iso_error_message());
        ck_assert_str_eq(argv[1], "left");
        ck_assert_int_eq(iso_finish(other, ISO_OK), 0);
    }
    int argc; /* an option is no value of the one before */
    char *argv[MOST_ARGUMENTS];
    iso_context *other;
    ck_assert(BEGIN("--seed", "--threads", "2") == ISO_INVALID);
    ck_assert_msg(strstr(iso_error_message(), "--seed needs a value"), "%s", iso_error_message());
    iso_finish(other, ISO_OK);
}
END_TEST

START_TEST(hosts_are_numbered_by_their_ranks)
{
    const char *cut[] = {"1", "2", "3", NULL};
    if (iso_hosts(ctx) > 1) {
        if (iso_is_chief(ctx))
            report_skipped("numbers of hosts",
                           "the ranks are on several real hosts, of which nothing is known");
        return;
    }
    for (int i = 0; cut[i]; i++) {
        iso_context *other;
        setenv("ISOGRID_RANKS_PER_HOST", cut[i], 1);
        ck_assert(iso_init(NULL, NULL, &other) == ISO_OK);
        int size = atoi(cut[i]), ranks = iso_ranks(ctx), rank = iso_rank(ctx);
        ck_assert_int_eq(iso_hosts(other), (ranks + size - 1) / size);
        for (int r = 0; r < ranks; r++)
            ck_assert_int_eq(iso_host_of_rank(other, r), r / size);
        int last = ranks - rank / size * size;
        ck_assert_int_eq(iso_host_ranks(other), last < size ? last : size);
        ck_assert(iso_is_host_leader(other) == (rank % size == 0));
        int first = rank;
        ck_assert(iso_broadcast_in_hosts(other, &first, sizeof first) == ISO_OK);
        ck_assert_int_eq(first, rank / size * size);
        iso_finish(other, ISO_OK);
    }
    unsetenv("ISOGRID_RANKS_PER_HOST");
    ck_assert_int_eq(iso_hosts(ctx), 1);
    ck_assert_int_eq(iso_host_ranks(ctx), iso_ranks(ctx));
    ck_assert_int_ge(iso_threads(ctx), 1);
    /* the ranks of a machine share its cores, where they are not bound to their own */
    cpu_set_t mask;
    ck_assert_int_eq(sched_getaffinity(0, sizeof mask, &mask), 0);
    int cores = CPU_COUNT(&mask), most = cores > iso_ranks(ctx) ? cores : iso_ranks(ctx);
    ck_assert_int_le(iso_threads(ctx) * iso_ranks(ctx), most);
}
END_TEST

START_TEST(bad_environment_is_named)
{
    iso_context *other;
    const char *const names[] = {"ISOGRID_RANKS_PER_HOST", "ISOGRID_THREADS"};
    for (int i = 0; i < 2; i++) {
        setenv(names[i], "0", 1);
        ck_assert(iso_init(NULL, NULL, &other) == ISO_INVALID);
        ck_assert(strstr(iso_error_message(), names[i]));
        iso_finish(other, ISO_OK);
        unsetenv(names[i]);
    }
    for (int set = 1; set < 3 && iso_ranks(ctx) > 1; set++) { /* on one rank alone; another value there */
        if (set == 2)
            setenv(names[0], "1", 1);
        if (iso_rank(ctx) == iso_ranks(ctx) - 1)
            setenv(names[0], "2", 1);
        ck_assert(iso_init(NULL, NULL, &other) == ISO_INVALID);
        char wanted[100];
        snprintf(wanted, sizeof wanted, "ISOGRID_RANKS_PER_HOST is %d on rank 0 and 2 on rank %d", set - 1,
                 iso_ranks(ctx) - 1);
        ck_assert_msg(strstr(iso_error_message(), wanted), "%s", iso_error_message());
        iso_finish(other, ISO_OK);
        unsetenv(names[0]);
    }
    setenv("ISOGRID_THREADS", "5", 1);
    ck_assert(iso_init(NULL, NULL, &other) == ISO_OK);
    ck_assert_int_eq(iso_threads(other), 5);
    iso_finish(other, ISO_OK);
    unsetenv("ISOGRID_THREADS");
}
END_TEST

START_TEST(ranks_agree_on_the_first_failure)
{
    int ranks = iso_ranks(ctx), rank = iso_rank(ctx);
    ck_assert(iso_agree(ctx, ISO_OK) == ISO_OK);
    for (int first = 0; first < ranks; first++) {
        iso_error(ISO_OK, "nothing");
        iso_status status =
            rank < first ? ISO_OK : iso_error(rank % 2 ? ISO_IO : ISO_NO_MEMORY, "disk %d is full", rank);
        char message[100];
        if (ranks > 1)
            snprintf(message, sizeof message, "rank %d: disk %d is full", first, first);
        else
            snprintf(message, sizeof message, "disk 0 is full");
        ck_assert(iso_agree(ctx, status) == (first % 2 ? ISO_IO : ISO_NO_MEMORY));
        ck_assert_str_eq(iso_error_message(), message);
        ck_assert(iso_agree(ctx, ISO_FAILED) ==
                  ISO_FAILED); /* all say the same by now: no further rank in front */
        ck_assert_str_eq(iso_error_message(), message);
    }
    /* the rank is named already: an agreement of some ranks, whose error one of them has kept */
    for (int i = 0; i < 2; i++) {
        const char *text = i ? "no data: rank 12: disk 12 is full" : "rank 12: disk 12 is full";
        ck_assert(iso_agree(ctx, rank == 0 ? iso_error(ISO_IO, "%s", text) : ISO_OK) == ISO_IO);
        ck_assert_str_eq(iso_error_message(), text);
    }
    ck_assert(iso_agree(ctx, rank == 0 ? iso_error(ISO_IO, "rank 1 has no disk") : ISO_OK) == ISO_IO);
    ck_assert_str_eq(iso_error_message(), ranks > 1 ? "rank 0: rank 1 has no disk" : "rank 1 has no disk");
    /* one status, other words */
    ck_assert(iso_agree(ctx, iso_error(ISO_IO, "disk %d is full", rank)) == ISO_IO);
    ck_assert_str_eq(iso_error_message(), ranks > 1 ? "rank 0: disk 0 is full" : "disk 0 is full");
    ck_assert(iso_agree(ctx, iso_error(ISO_INVALID, "all alike")) == ISO_INVALID);
    ck_assert_str_eq(iso_error_message(), "all alike");
}
END_TEST

/* The last rank knows what is wrong, and the others that something is. */
START_TEST(ranks_agree_on_the_one_that_knows)
{
    int last = iso_ranks(ctx) - 1;
    iso_status status = iso_error(ISO_IO, "no disk");
    if (iso_rank(ctx) < last)
        status = iso_error_remote(iso_no_memory("a disk of another rank"));
    char message[100];
    snprintf(message, sizeof message, last > 0 ? "rank %d: no disk" : "no disk", last);
    ck_assert_int_eq(iso_agree(ctx, status), ISO_IO);
    ck_assert_str_eq(iso_error_message(), message);
    ck_assert_int_eq(iso_agree(ctx, iso_error_remote(iso_no_memory("a disk"))), ISO_NO_MEMORY);
    ck_assert_str_eq(iso_error_message(), "no memory for a disk");
}
END_TEST

/* A rank without an error of its own ends with the exit code of the lowest rank that has one. */
START_TEST(exit_codes_are_those_of_the_job)
{
    int last = iso_ranks(ctx) - 1, rank = iso_rank(ctx);
    for (int failing = 0; failing <= last; failing++) {
        iso_context *other;
        ck_assert(iso_init(NULL, NULL, &other) == ISO_OK);
        iso_status own = ISO_OK;
        if (rank == failing)
            own = iso_error(ISO_DIVERGED, "a test of exit codes: rank %d of %d", rank, last + 1);
        else if (rank == last)
            own = iso_error(ISO_IO, "a test of exit codes: the last rank");
        ck_assert_int_eq(iso_finish(other, own), iso_status_exit_code(ISO_DIVERGED));
    }
}
END_TEST

START_TEST(ranks_that_differ_are_named)
{
    int ranks = iso_ranks(ctx), rank = iso_rank(ctx);
    ck_assert(iso_agree_same(ctx, "the options", 17, "x") == ISO_OK);
    if (ranks == 1)
        return;
    bool odd = rank == ranks - 1;
    char place[100];
    snprintf(place, sizeof place, "rank %d differs from rank 0 in the options: ", ranks - 1);
    ck_assert(iso_agree_same(ctx, "the options", odd ? 1 : UINT64_MAX, odd ? "--seed 1" : "--seed 2") ==
              ISO_INVALID);
    ck_assert_msg(strstr(iso_error_message(), place), "%s", iso_error_message());
    ck_assert(strstr(iso_error_message(), "'--seed 1'") && strstr(iso_error_message(), "'--seed 2'"));
    ck_assert(iso_agree_same(ctx, "the builds", (uint64_t)rank, NULL) == ISO_INVALID);
    static const char *const lists[] = {[2] = "rank 1 differs",
                                        [3] = "ranks 1, 2 differ",
                                        [5] = "ranks 1, 2, 3, 4 differ",
                                        [9] = "ranks 1, 2, 3, 4, 5, 6, 7, 8 differ",
                                        [10] = "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 1 more differ"};
    snprintf(place, sizeof place, "%s from rank 0 in the builds",
             ranks <= 10 && lists[ranks] ? lists[ranks] : "");
    ck_assert_msg(strstr(iso_error_message(), place), "%s", iso_error_message());
}
END_TEST

START_TEST(different_options_are_refused)
{
    int argc, ranks = iso_ranks(ctx);
    char *argv[MOST_ARGUMENTS];
    iso_context *other;
    iso_status status = BEGIN(iso_rank(ctx) == ranks - 1 ? "--seed=1" : "--seed=2");
    ck_assert(status == (ranks > 1 ? ISO_INVALID : ISO_OK));
    iso_finish(other, ISO_OK);
    ck_assert(BEGIN(iso_rank(ctx) == ranks - 1 ? "--threads=1" : "--threads=2") == ISO_OK); /* may differ */
    iso_finish(other, ISO_OK);
    status = BEGIN(iso_rank(ctx) == ranks - 1 ? "--seed=z" : "--seed=2");
    ck_assert(status == ISO_INVALID && strstr(iso_error_message(), "'z'"));
    iso_finish(other, ISO_OK);
}
END_TEST

START_TEST(bytes_travel)
{
    int ranks = iso_ranks(ctx), rank = iso_rank(ctx);
    double value = rank == 0 ? 3.5 : 0, mine[3] = {rank, rank + 0.5, -rank},
           *all = calloc((size_t)ranks, sizeof mine);
    ck_assert(iso_broadcast(ctx, &value, sizeof value) == ISO_OK);
    ck_assert(value == 3.5);
    ck_assert(iso_gather_all(ctx, mine, sizeof mine, all) == ISO_OK);
    for (int r = 0; r < ranks; r++)
        ck_assert(all[3 * r] == r && all[3 * r + 1] == r + 0.5 && all[3 * r + 2] == -r);
    free(all);
}
END_TEST

START_TEST(bytes_travel_from_any_rank)
{
    int ranks = iso_ranks(ctx);
    for (int root = 0; root < ranks; root++) {
        int value[2] = {iso_rank(ctx), 7 * iso_rank(ctx)};
        ck_assert(iso_broadcast_from(ctx, root, value, sizeof value) == ISO_OK);
        ck_assert(value[0] == root && value[1] == 7 * root);
    }
    int value = 5;
    ck_assert(iso_broadcast_from(ctx, ranks, &value, sizeof value) == ISO_INVALID);
    ck_assert(iso_broadcast_from(ctx, -1, &value, sizeof value) == ISO_INVALID);
    ck_assert(strstr(iso_error_message(), "rank -1") != NULL);
    if (ranks > 1) { /* the last rank has another root, which may be none */
        int last = iso_rank(ctx) == ranks - 1;
        ck_assert(iso_broadcast_from(ctx, last ? ranks : 0, &value, sizeof value) == ISO_INVALID);
        ck_assert(iso_broadcast_from(ctx, last, &value, sizeof value) == ISO_INVALID);
        ck_assert(strstr(iso_error_message(),
                         "differs from rank 0 in iso_broadcast_from's root: rank 0 has '0'") != NULL);
    }
    ck_assert_int_eq(value, 5);
}
END_TEST

enum { MANY = (1 << 16) + 37 }; /* more than travel at once */

static int64_t integer_of(int rank, int i)
{
    return (int64_t)(rank * 31 + i * 7) % 13 - 6;
}

/* Sums, extremes and bits of all ranks, from what each rank is known to have. */
START_TEST(ranks_reduce_integers)
{
    static int64_t values[4][MANY];
    int ranks = iso_ranks(ctx), rank = iso_rank(ctx);
    size_t peak = iso_memory_peak();
    for (int how = ISO_REDUCE_SUM; how <= ISO_REDUCE_OR; how++) {
        for (int i = 0; i < MANY; i++)
            values[how][i] =
                how == ISO_REDUCE_OR ? (int64_t)((uint64_t)1 << (rank * 5 + i) % 64) : integer_of(rank, i);
        ck_assert(iso_all_reduce(ctx, (iso_reduction)how, ISO_I64, values[how], MANY) == ISO_OK);
    }
    ck_assert_uint_eq(iso_memory_peak(), peak); /* no memory for each rank */
    for (int i = 0; i < MANY; i++) {
        int64_t sum = 0, least = INT64_MAX, most = INT64_MIN;
        uint64_t bits = 0;
        for (int r = 0; r < ranks; r++) {
            int64_t theirs = integer_of(r, i);
            sum += theirs;
            least = theirs < least ? theirs : least;
            most = theirs > most ? theirs : most;
            bits |= (uint64_t)1 << (r * 5 + i) % 64;
        }
        ck_assert(values[ISO_REDUCE_SUM][i] == sum && values[ISO_REDUCE_MIN][i] == least);
        ck_assert(values[ISO_REDUCE_MAX][i] == most && (uint64_t)values[ISO_REDUCE_OR][i] == bits);
    }
    uint64_t wraps = UINT64_MAX;
    ck_assert(iso_all_reduce(ctx, ISO_REDUCE_SUM, ISO_I64, &wraps, 1) == ISO_OK);
    ck_assert(wraps == 0 - (uint64_t)ranks);
}
END_TEST

START_TEST(ranks_reduce_doubles)
{
    int ranks = iso_ranks(ctx), rank = iso_rank(ctx);
    double sum[3] = {rank, -0.5, 1e15}, least[2] = {-rank, INFINITY}, most[2] = {rank - 0.25, -INFINITY};
    ck_assert(iso_all_reduce(ctx, ISO_REDUCE_SUM, ISO_F64, sum, 3) == ISO_OK);
    ck_assert(iso_all_reduce(ctx, ISO_REDUCE_MIN, ISO_F64, least, 2) == ISO_OK);
    ck_assert(iso_all_reduce(ctx, ISO_REDUCE_MAX, ISO_F64, most, 2) == ISO_OK);
    ck_assert(sum[0] == ranks * (ranks - 1) / 2.0 && sum[1] == -0.5 * ranks && sum[2] == 1e15 * ranks);
    ck_assert(least[0] == 1 - ranks && least[1] == INFINITY);
    ck_assert(most[0] == ranks - 1.25 && most[1] == -INFINITY);
}
END_TEST

/* One rank gives NULL: all fail, nothing changes, and the next call works. */
START_TEST(a_reduction_fails_on_all_ranks)
{
    int ranks = iso_ranks(ctx), last = ranks - 1;
    int64_t value = 3;
    double number = 3;
    void *given = iso_rank(ctx) == last ? NULL : &value;
    ck_assert(iso_all_reduce(ctx, ISO_REDUCE_SUM, ISO_I64, given, 1) == ISO_INVALID);
    ck_assert_msg(strstr(iso_error_message(), "values") != NULL, "%s", iso_error_message());
    ck_assert(iso_broadcast_from(ctx, last, given, sizeof value) == ISO_INVALID);
    ck_assert(strstr(iso_error_message(), "iso_broadcast_from: data is NULL") != NULL);
    ck_assert(iso_broadcast(ctx, given, sizeof value) == ISO_INVALID);
    ck_assert(strstr(iso_error_message(), "iso_broadcast: data is NULL") != NULL);
    ck_assert_int_eq(value, 3);
    ck_assert(iso_all_reduce(ctx, ISO_REDUCE_OR, ISO_F64, &number, 1) == ISO_INVALID);
    ck_assert(iso_all_reduce(ctx, ISO_REDUCE_SUM, ISO_F32, &number, 1) == ISO_INVALID);
    ck_assert(iso_all_reduce(ctx, (iso_reduction)4, ISO_I64, &value, 1) == ISO_INVALID);
    ck_assert(iso_all_reduce(ctx, ISO_REDUCE_MAX, ISO_I64, NULL, 0) == ISO_OK);
    ck_assert(iso_all_reduce(ctx, ISO_REDUCE_SUM, ISO_I64, &value, 1) == ISO_OK);
    ck_assert_int_eq(value, 3 * ranks);
}
END_TEST

/* No context is a program of one rank, and each rank is its own. */
START_TEST(no_context_is_one_rank)
{
    int64_t value = 3, all = 0;
    ck_assert(iso_all_reduce(NULL, ISO_REDUCE_SUM, ISO_I64, &value, 1) == ISO_OK);
    ck_assert(iso_broadcast(NULL, &value, sizeof value) == ISO_OK);
    ck_assert(iso_gather_all(NULL, &value, sizeof value, &all) == ISO_OK);
    ck_assert(value == 3 && all == 3);
    ck_assert(iso_broadcast(NULL, NULL, 1) == ISO_INVALID);
    ck_assert(iso_rank(NULL) == 0 && iso_ranks(NULL) == 1 && iso_is_chief(NULL) && iso_seed(NULL) == 1337);
}
END_TEST

/* Ranks are counted within their role; collectives stay within it. */
static void check_role(iso_context *other, iso_role_kind role, int rank, int ranks)
{
    int64_t sum = 1 << iso_rank(ctx);
    ck_assert(iso_role(other) == role);
    ck_assert_int_eq(iso_rank(other), rank);
    ck_assert_int_eq(iso_ranks(other), ranks);
    ck_assert_int_eq(iso_is_chief(other), rank == 0);
    ck_assert_int_eq(iso_host_ranks(other), ranks);
    ck_assert(iso_all_reduce(other, ISO_REDUCE_SUM, ISO_I64, &sum, 1) == ISO_OK);
    int64_t last = 1 << (iso_ranks(ctx) - 1), all = 2 * last - 1;
    ck_assert_int_eq(sum, ranks == iso_ranks(ctx) ? all : role == ISO_WORKER ? all - last : last);
}

START_TEST(ranks_are_divided_by_role)
{
    int argc, ranks = iso_ranks(ctx), rank = iso_rank(ctx);
    bool last = rank == ranks - 1;
    char *argv[MOST_ARGUMENTS];
    iso_context *other;
    ck_assert(BEGIN("x") == ISO_OK);
    check_role(other, ISO_WORKER, rank, ranks);
    ck_assert_int_eq(iso_finish(other, ISO_OK), 0);
    ck_assert(BEGIN("--role", "evaluator", "x") == ISO_OK);
    ck_assert_int_eq(argc, 2);
    check_role(other, ISO_EVALUATOR, rank, ranks);
    ck_assert_int_eq(iso_finish(other, ISO_OK), 0);
    ck_assert(BEGIN("--role", last ? "evaluator" : "auto") == ISO_OK);
    if (ranks == 1)
        check_role(other, ISO_EVALUATOR, 0, 1);
    else
        check_role(other, last ? ISO_EVALUATOR : ISO_WORKER, last ? 0 : rank, last ? 1 : ranks - 1);
    ck_assert_int_eq(iso_finish(other, ISO_OK), 0);
}
END_TEST

/* A role that is wrong on one rank is an error on all. */
START_TEST(a_wrong_role_is_named)
{
    int argc;
    char *argv[MOST_ARGUMENTS];
    iso_context *other;
    bool first = iso_rank(ctx) == 0;
    ck_assert(BEGIN("--role", first ? "ps" : "evaluator") == ISO_INVALID);
    ck_assert(strstr(iso_error_message(), "--role 'ps': it must be auto, worker or evaluator"));
    iso_finish(other, ISO_OK);
}
END_TEST

START_TEST(callers_bring_communicators)
{
    MPI_Comm *world = iso_communicator(ctx), half;
    iso_context *other;
    if (!world) {
        ck_assert(iso_init_on(MPI_COMM_NULL, NULL, NULL, &other) == ISO_INVALID); /* MPI is not running */
        iso_finish(other, ISO_OK);
        return;
    }
    int ranks = iso_ranks(ctx), rank = iso_rank(ctx);
    MPI_Comm_split(*world, rank % 2, -rank, &half); /* backwards */
    ck_assert(iso_init_on(half, NULL, NULL, &other) == ISO_OK);
    int expected = (ranks - rank % 2 + 1) / 2;
    ck_assert_int_eq(iso_ranks(other), expected);
    ck_assert_int_eq(iso_rank(other), expected - 1 - rank / 2);
    ck_assert_int_eq(iso_finish(other, ISO_OK), 0);
    MPI_Comm_free(&half);
    ck_assert(iso_init_on(MPI_COMM_NULL, NULL, NULL, &other) == ISO_INVALID);
    iso_finish(other, ISO_OK);
    MPI_Barrier(*world); /* MPI still runs */
}
END_TEST

/* Whatever is made with it fails, on all ranks and with the reason. */
START_TEST(a_context_that_failed_is_refused)
{
    char program[] = "program", option[] = "--threads", value[] = "abc";
    char *words[] = {program, option, value, NULL}, **argv = words;
    int argc = 3;
    iso_context *other;
    MPI_Comm *world = iso_communicator(ctx);
    iso_mesh *mesh;
    iso_dataset *data;
    iso_function *function;
    iso_status status = world ? iso_init_on(*world, &argc, &argv, &other) : iso_init(&argc, &argv, &other);
    ck_assert_int_eq(status, ISO_INVALID);
    ck_assert_ptr_nonnull(strstr(iso_error_message(), "--threads 'abc'"));
    iso_graph *graph = iso_graph_create(other);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(2));
    iso_model *model = iso_model_create(graph, x, iso_dense(x, 3));
    for (int i = 0; i < 4; i++) {
        status = i == 0   ? iso_function_create(graph, &function, .inputs = {x}, .outputs = {x})
                 : i == 1 ? iso_compile(model, .loss = ISO_LOSS_MSE, .optimizer = iso_sgd(0.1))
                 : i == 2 ? iso_mesh_create(other, "data=2", &mesh)
                          : iso_dataset_random(other, 8, &data, .shape = ISO_SHAPE(2));
        ck_assert_int_eq(status, ISO_INVALID);
        ck_assert_ptr_nonnull(strstr(iso_error_message(), "the context cannot be used, because iso_init"));
        ck_assert_ptr_nonnull(strstr(iso_error_message(), "--threads 'abc'"));
    }
    iso_model_destroy(model);
    ck_assert_int_eq(iso_finish(other, ISO_OK), 0);
}
END_TEST

/* ---- endings ---- */

/* A rank that fails lets go of what it shares with others, who wait for it elsewhere. */
static iso_status fail_with_a_fabric(bool second)
{
    int slots[8] = {0, 1, 2, 3, 4, 5, 6, 7}, hosts[8] = {0};
    iso_topology topology = {.n_slots = iso_ranks(ctx),
                             .n_ranks = iso_ranks(ctx),
                             .rank = iso_rank(ctx),
                             .rank_of_slot = slots,
                             .host_of_rank = hosts,
                             .n_threads = 1,
                             .watchdog = iso_context_watchdog(ctx)};
    iso_fabric *fabric = NULL;
    iso_status status = iso_fabric_create(&topology, iso_communicator(ctx), NULL, NULL, &fabric);
    if (status == ISO_OK)
        status = iso_fabric_reserve(fabric, 100000, (size_t[8]){100000});
    if (status == ISO_OK && !second)
        status = iso_agree(ctx, ISO_OK);
    iso_fabric_destroy(fabric);
    return second ? iso_error(ISO_IO, "no disk") : status;
}

/* A rank's part in an ending: what it returns, or where it hangs. */
static iso_status end_as(const char *ending)
{
    bool second = iso_rank(ctx) == 1;
    if (!strcmp(ending, "says"))
        printf("%d ranks\n", iso_ranks(ctx));
    if (!strcmp(ending, "role"))
        printf("%s %d of %d ranks\n", iso_role(ctx) == ISO_EVALUATOR ? "evaluator" : "worker", iso_rank(ctx),
               iso_ranks(ctx));
    if (!strcmp(ending, "of roles")) /* each for itself */
        return iso_role(ctx) == ISO_EVALUATOR ? iso_error(ISO_IO, "no disk") : iso_agree(ctx, ISO_OK);
    if (!strcmp(ending, "of workers"))
        return iso_role(ctx) == ISO_EVALUATOR ? ISO_OK : iso_error(ISO_DIVERGED, "loss is NaN");
    if (!strcmp(ending, "alone")) /* the others wait in a collective that never comes about */
        return second ? iso_error(ISO_IO, "no disk") : iso_agree(ctx, ISO_OK);
    if (!strcmp(ending, "fabric"))
        return fail_with_a_fabric(second);
    if (!strcmp(ending, "agreed"))
        return iso_agree(ctx, second ? iso_error(ISO_INVALID, "no data") : ISO_OK);
    if (!strcmp(ending, "alike"))
        return iso_error(ISO_DIVERGED, "loss is NaN");
    if (!strcmp(ending, "unlike"))
        return iso_error(ISO_FAILED, "part %d", iso_rank(ctx) / 2);
    if (!strcmp(ending, "again")) { /* rank 1 records its error again */
        iso_status status = iso_agree(ctx, second ? iso_error(ISO_IO, "no disk") : ISO_OK);
        return second ? iso_error(ISO_IO, "no disk") : status;
    }
    if (!strcmp(ending, "late") && second)
        sleep(6); /* longer than a failing rank would wait */
    return ISO_OK;
}

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    const char *ending = getenv("ISOGRID_TEST_ENDING");
    if (status != ISO_OK || ending)
        return iso_finish(ctx, status == ISO_OK ? end_as(ending) : status);
    if (RUN_TESTS("session", 0, options_are_taken_out, wrong_options_are_named,
                  hosts_are_numbered_by_their_ranks, bad_environment_is_named,
                  ranks_agree_on_the_first_failure, ranks_agree_on_the_one_that_knows,
                  ranks_that_differ_are_named, different_options_are_refused, bytes_travel,
                  bytes_travel_from_any_rank, ranks_reduce_integers, ranks_reduce_doubles,
                  a_reduction_fails_on_all_ranks, no_context_is_one_rank, ranks_are_divided_by_role,
                  a_wrong_role_is_named, callers_bring_communicators, a_context_that_failed_is_refused,
                  exit_codes_are_those_of_the_job))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
