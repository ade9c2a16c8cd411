/* Warnings go to the handler of the program if it has set one, without prefix and newline, and else to stderr. They
 * hold no control characters. Ranks: 1 */
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
    iso_warn("a file's name: \033[31m, two\nlines, \xC2\x9B, \x9B, \xC3\xA9");
    ck_assert_str_eq(taken, "a file's name: ?[31m, two\nlines, ??, ?, \xC3\xA9");
    ck_assert_int_eq(count, 3);
    iso_set_warning_handler(NULL, NULL);
    iso_warn("to stderr again");
    ck_assert_int_eq(count, 3);
}
END_TEST

int main(void)
{
    return RUN_TESTS("warnings", 0, handler_gets_the_text);
}
