#include "tests/support/run_tests.h"

int run_tests(const char *name, double seconds, const TTest *const *tests, int count)
{
    Suite *suite = suite_create(name);
    TCase *all = tcase_create(name);
    tcase_set_timeout(all, seconds);
    for (int i = 0; i < count; i++)
        tcase_add_test(all, tests[i]);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
