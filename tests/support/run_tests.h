/* The main program of a test in one process. */
#ifndef ISO_TESTS_SUPPORT_RUN_TESTS_H
#define ISO_TESTS_SUPPORT_RUN_TESTS_H

#include <check.h>

/* Runs the tests of a suite, each with `seconds` at most; returns the exit code of the program. */
int run_tests(const char *name, double seconds, const TTest *const *tests, int count);

#define RUN_TESTS(name, seconds, ...)                                                                        \
    run_tests(name, seconds, (const TTest *const[]){__VA_ARGS__},                                            \
              (int)(sizeof((const TTest *const[]){__VA_ARGS__}) / sizeof(TTest *)))

#endif
