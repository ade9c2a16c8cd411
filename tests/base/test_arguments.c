/* Arguments of public functions: options of callers that were compiled with an older or a newer header, and
 * the words for a pointer that is NULL. Ranks: 1   Sanitize: 1 */
#include <check.h>
#include <string.h>

#include "runtime/base/arguments.h"
#include "tests/support/run_tests.h"

typedef struct older {
    int a;
    double b;
} older;
typedef struct options {
    int a;
    double b;
    const char *c;
} options;
typedef struct newer {
    int a;
    double b;
    const char *c;
    char more[64];
} newer;

START_TEST(older_and_newer_options_are_taken)
{
    options own;
    older before = {3, 0.5};
    newer after = {.a = 4, .b = 1.5, .c = "text"};

    memset(&own, 0xff, sizeof own);
    iso_options_copy(&own, sizeof own, &before, sizeof before);
    ck_assert(own.a == 3 && own.b == 0.5 && own.c == NULL);

    struct {
        options own;
        char behind[64];
    } guarded;
    memset(&guarded, 0x55, sizeof guarded);
    iso_options_copy(&guarded.own, sizeof guarded.own, &after, sizeof after);
    ck_assert(guarded.own.a == 4 && guarded.own.b == 1.5 && guarded.own.c == after.c);
    for (size_t i = 0; i < sizeof guarded.behind; i++)
        ck_assert_int_eq(guarded.behind[i], 0x55);

    memset(&own, 0xff, sizeof own);
    iso_options_copy(&own, sizeof own, NULL, sizeof own);
    ck_assert(own.a == 0 && own.b == 0 && own.c == NULL);

    /* what is not known may be there, but must be zero */
    ck_assert_int_eq(iso_options_check(), ISO_OK);
    after.more[63] = 1;
    iso_options_copy(&own, sizeof own, &after, sizeof after);
    ck_assert_int_eq(iso_options_check(), ISO_INVALID);
    ck_assert_ptr_nonnull(strstr(iso_error_message(), "the program was built for a newer Isogrid"));
    ck_assert_int_eq(iso_options_check(), ISO_OK); /* reported once */
}
END_TEST

START_TEST(the_pointer_that_is_null_is_named)
{
    ck_assert_int_eq(iso_null_argument("iso_fit_with", "model, data", 1), ISO_INVALID);
    ck_assert_str_eq(iso_error_message(), "iso_fit: data is NULL");
    ck_assert_int_eq(iso_null_argument("iso_evaluate", "model, data", 0), ISO_INVALID);
    ck_assert_str_eq(iso_error_message(), "iso_evaluate: model is NULL");
}
END_TEST

int main(void)
{
    return RUN_TESTS("arguments", 0, older_and_newer_options_are_taken, the_pointer_that_is_null_is_named);
}
