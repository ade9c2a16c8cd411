/* The main program of a test in one process: MPI does not survive Check's fork. */
#ifndef ISO_TESTS_SUPPORT_RUN_TESTS_H
#define ISO_TESTS_SUPPORT_RUN_TESTS_H

#include <check.h>
#include <stdbool.h>

/* Runs a suite and frees it; returns the exit code of the program. */
int run_suite(Suite *suite);
/* The tests of a suite, each with `seconds` at most (0: Check's own limit), after set_up and before tear_down
 * (may be NULL). */
int run_tests(const char *name, double seconds, SFun set_up, SFun tear_down, const TTest *const *tests,
              int count);

/* Prints that a part of the tests is skipped; tests/programs counts and lists these lines. On one rank. */
void report_skipped(const char *what, const char *reason);

/* Whether a job of so many ranks tries this case of a table. One rank tries all of them; several try a third, 2, 3
 * and 5 ranks all three thirds; all with ISOGRID_TEST_LONG. */
bool takes_case(int ranks, int number);

#define RUN_TESTS(name, seconds, ...) RUN_TESTS_WITH(name, seconds, NULL, NULL, __VA_ARGS__)
#define RUN_TESTS_WITH(name, seconds, set_up, tear_down, ...)                                                \
    run_tests(name, seconds, set_up, tear_down, (const TTest *const[]){__VA_ARGS__},                         \
              (int)(sizeof((const TTest *const[]){__VA_ARGS__}) / sizeof(TTest *)))

#endif
