/* Warnings go to the handler of the program if it has set one, without prefix and newline, and else to stderr.
 * Ranks: 1 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/log.h"
#include "tests/support/run_tests.h"

static char taken[3000];

static void take(void *user, const char *text)
{
    ++*(int *)user;
    snprintf(taken, sizeof taken, "%s", text);
}

START_TEST(handler_gets_the_text)
{
    int count = 0;
    iso_set_warning_handler(take, &count);
    iso_warn("%d rows of %s", 7, "'x'");
    ck_assert_str_eq(taken, "7 rows of 'x'");
    iso_warn("%02000d", 1); /* longer than what iso_warn keeps on the stack */
    ck_assert_uint_eq(strlen(taken), 2000);
    ck_assert_int_eq(count, 2);
    iso_set_warning_handler(NULL, NULL);
    iso_warn("to stderr again");
    ck_assert_int_eq(count, 2);
}
END_TEST

int main(void)
{
    return RUN_TESTS("warnings", 0, handler_gets_the_text);
}
