#include "tests/support/run_tests.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}

/* A rank whose test failed has left its peers in the middle of a collective. They get a second to fail too and
 * to print what they found; then the job ends, instead of hanging until its time limit. */
static void end_job_of_several(void)
{
    int on = 0, ranks = 1;
    MPI_Initialized(&on);
    if (on)
        MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks == 1)
        return;
    fflush(stdout);
    sleep(1);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static int run_test(const char *name, double seconds, SFun set_up, SFun tear_down, const TTest *test)
{
    Suite *suite = suite_create(name);
    TCase *only = tcase_create(name);
    tcase_set_timeout(only, seconds);
    tcase_add_checked_fixture(only, set_up, tear_down);
    tcase_add_test(only, test);
    suite_add_tcase(suite, only);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_SILENT);
    int failed = srunner_ntests_failed(runner);
    if (failed) {
        srunner_print(runner, CK_NORMAL);
        end_job_of_several();
    }
    srunner_free(runner);
    return failed;
}

int run_tests(const char *name, double seconds, SFun set_up, SFun tear_down, const TTest *const *tests,
              int count)
{
    int failed = 0;
    for (int i = 0; i < count; i++)
        failed += run_test(name, seconds, set_up, tear_down, tests[i]);
    printf("%s: %d of %d tests passed\n", name, count - failed, count);
    return failed ? 1 : 0;
}

/* In place of Check's, with which every assertion that holds writes its position to a file: with as many assertions
 * as elements of tensors, that took half of the time. An assertion that fails has its position without it. */
void __wrap__mark_point(const char *file, int line);
void __wrap__mark_point(const char *file, int line)
{
    (void)file, (void)line;
}

bool takes_case(int ranks, int number)
{
    return ranks == 1 || getenv("ISOGRID_TEST_LONG") || number % 3 == ranks * ranks / 2 % 3;
}

void report_skipped(const char *what, const char *reason)
{
    printf("skipped: %s: %s\n", what, reason);
}
