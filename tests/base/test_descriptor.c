/* Rows of descriptors: found by name and by Keras's class, misspelt names with the nearest, and settings as
 * members of structs. Ranks: 1
 * Sanitize: 1 */
#include <check.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "runtime/base/descriptor.h"
#include "runtime/base/options.h"
#include "tests/support/run_tests.h"

typedef struct values {
    bool before, flag, after;
    double real;
    int64_t count;
    int whole, behind;
} values;

static const iso_setting settings[] = {
    ISO_SETTING(values, REAL, real, 0.5),
    {"count", ISO_SETTING_COUNT, offsetof(values, count), 7, .keras = "how_many"},
    ISO_SETTING(values, INT, whole, 3),
    ISO_SETTING(values, FLAG, flag, 1),
    {0},
};

static const iso_descriptor adam = {"adam", "Adam", settings}, adamw = {"adamw", "AdamW", settings},
                            own = {"own", NULL, NULL};
static const iso_descriptor *const rows[] = {&own, &adam, &adamw, NULL};

START_TEST(found_by_name)
{
    const iso_descriptor *row = NULL;
    ck_assert_ptr_eq(iso_descriptor_of(rows, "adamw"), &adamw);
    ck_assert_ptr_null(iso_descriptor_of(rows, "Adam"));
    ck_assert_int_eq(iso_descriptor_find(rows, "optimizer", "own", &row), ISO_OK);
    ck_assert_ptr_eq(row, &own);
    ck_assert_int_eq(iso_descriptor_find(rows, "optimizer", "adan", &row), ISO_INVALID);
    ck_assert_ptr_eq(row, &own);
    ck_assert_msg(strstr(iso_error_message(), "unknown optimizer 'adan'; did you mean 'adam'"), "%s",
                  iso_error_message());
}
END_TEST

START_TEST(found_by_class)
{
    ck_assert_ptr_eq(iso_descriptor_of_keras(rows, "AdamW"), &adamw);
    ck_assert_ptr_eq(iso_descriptor_of_keras(rows, "adam_w"), &adamw);
    ck_assert_ptr_eq(iso_descriptor_of_keras(rows, "adam"), &adam);
    ck_assert_ptr_null(iso_descriptor_of_keras(rows, "adamw"));
    ck_assert_ptr_null(iso_descriptor_of_keras(rows, "own"));
}
END_TEST

START_TEST(names)
{
    iso_text text = {0};
    iso_descriptor_add_names(rows, false, &text);
    iso_text_add(&text, "; ");
    iso_descriptor_add_names(rows, true, &text);
    ck_assert_str_eq(iso_text_get(&text), "own, adam, adamw; Adam, AdamW");
    iso_text_free(&text);
}
END_TEST

/* Each kind reads what it wrote and nothing beside it. */
START_TEST(members)
{
    values v = {.before = true, .after = true, .behind = 9};
    for (int i = 0; settings[i].name; i++) {
        ck_assert_double_eq(iso_setting_get(&settings[i], &v), 0);
        iso_setting_set(&settings[i], &v, 1);
        ck_assert_double_eq(iso_setting_get(&settings[i], &v), 1);
    }
    ck_assert(v.flag && v.real == 1 && v.count == 1 && v.whole == 1);
    iso_setting_set(&settings[3], &v, 0);
    ck_assert(v.before && !v.flag && v.after && v.behind == 9);
    ck_assert_str_eq(iso_setting_keras(&settings[0]), "real");
    ck_assert_str_eq(iso_setting_keras(&settings[1]), "how_many");
}
END_TEST

START_TEST(options)
{
    values v = {.real = ISO_ZERO, .whole = ISO_ZERO};
    ck_assert_double_eq(iso_setting_option(&settings[0], &v), 0);
    ck_assert_double_eq(iso_setting_option(&settings[1], &v), 7);
    ck_assert_double_eq(iso_setting_option(&settings[2], &v), 0);
    ck_assert_double_eq(iso_setting_option(&settings[3], &v), 0);
    v.real = 0;
    ck_assert_double_eq(iso_setting_option(&settings[0], &v), 0.5);
}
END_TEST

START_TEST(whole_numbers_stay_in_range)
{
    static const double wrong[] = {1e30, INFINITY};
    values v;
    for (int i = 0; i < 2; i++) {
        iso_setting_set(&settings[1], &v, wrong[i]);
        iso_setting_set(&settings[2], &v, -wrong[i]);
        ck_assert(v.count == (int64_t)1 << 53);
        ck_assert_int_eq(v.whole, -INT_MAX);
    }
    iso_setting_set(&settings[2], &v, NAN);
    ck_assert_int_eq(v.whole, 0);
    iso_setting_set(&settings[2], &v, -2.75);
    ck_assert_int_eq(v.whole, -2);
}
END_TEST

int main(void)
{
    return RUN_TESTS("rows", 0, found_by_name, found_by_class, names, members, options,
                     whole_numbers_stay_in_range);
}
