#include "tests/support/run_tests.h"

#include <stdio.h>

int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}

int run_tests(const char *name, double seconds, SFun set_up, SFun tear_down, const TTest *const *tests,
              int count)
{
    Suite *suite = suite_create(name);
    TCase *all = tcase_create(name);
    tcase_set_timeout(all, seconds);
    tcase_add_checked_fixture(all, set_up, tear_down);
    for (int i = 0; i < count; i++)
        tcase_add_test(all, tests[i]);
    suite_add_tcase(suite, all);
    return run_suite(suite);
}

void report_skipped(const char *what, const char *reason)
{
    printf("skipped: %s: %s\n", what, reason);
}
