/* Texts: JSON that any reader takes, sizes for people, names in snake case and names that come near. Ranks: 1
 * Sanitize: 1 */
#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/json.h"
#include "runtime/base/text.h"
#include "tests/support/run_tests.h"

/* ---- JSON ---- */

static void check_json(const char *value)
{
    iso_text text = {0};
    json_error_t error;
    iso_json_add_text(&text, value);
    json_t *read = json_loads(iso_text_get(&text), JSON_DECODE_ANY, &error);
    ck_assert_msg(read != NULL, "%s is no JSON: %s", iso_text_get(&text), error.text);
    ck_assert_str_eq(json_string_value(read), value);
    json_decref(read);
    iso_text_free(&text);
}

/* Values keep every bit of their numbers; one that could not be made fails the text, which stays JSON. */
START_TEST(values_come_back_from_json)
{
    static const double numbers[] = {0.1, -1e-7, 1.0 / 3, 1e300, 0x1p-1074, 5};
    iso_text text = {0};
    json_error_t error;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        iso_text_add(&text, "%s", i ? "," : "[");
        iso_json_add(&text, iso_json_number(numbers[i]), 0);
    }
    iso_text_add(&text, "]");
    ck_assert(!text.failed);
    json_t *read = json_loads(iso_text_get(&text), 0, &error);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        ck_assert(json_number_value(json_array_get(read, i)) == numbers[i]);
    json_decref(read);
    iso_json_add(&text, NULL, 0);
    ck_assert(text.failed);
    iso_text_free(&text);
}
END_TEST

/* Members and elements, empty lists, keys to be escaped and numbers of every kind, written part by part. */
START_TEST(parts_make_a_document)
{
    static const char *const numbers[] = {"nan", "inf", "-inf"};
    iso_text text = {0};
    json_error_t error;
    double number = 0;
    iso_text_add(&text, "{");
    iso_json_put(&text, "count", "%d", 3);
    iso_json_put_text(&text, "a \"key\"", "a \\ value");
    iso_json_put(&text, "empty", "[]");
    iso_json_put(&text, "list", "[");
    for (int i = 0; i < 3; i++)
        iso_json_put_number(&text, NULL, strtod(numbers[i], NULL));
    iso_json_put_number(&text, NULL, 1.0 / 3);
    iso_text_add(&text, "]");
    iso_json_put(&text, "inner", "{");
    iso_json_put(&text, "last", "true}}");
    json_t *read = json_loads(iso_text_get(&text), JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(read != NULL, "%s is no JSON: %s", iso_text_get(&text), error.text);
    ck_assert_uint_eq(json_object_size(read), 5);
    ck_assert_int_eq(json_integer_value(json_object_get(read, "count")), 3);
    ck_assert_str_eq(json_string_value(json_object_get(read, "a \"key\"")), "a \\ value");
    ck_assert_uint_eq(json_array_size(json_object_get(read, "empty")), 0);
    const json_t *list = json_object_get(read, "list");
    for (size_t i = 0; i < 3; i++)
        ck_assert_str_eq(json_string_value(json_array_get(list, i)), numbers[i]);
    ck_assert(iso_json_get_number(json_array_get(list, 3), &number) && number == 1.0 / 3);
    ck_assert(json_is_true(json_object_get(json_object_get(read, "inner"), "last")));
    json_decref(read);
    iso_text_free(&text);
}
END_TEST

/* Jansson reads back what was written: each character alone, between others, twice, first and last. */
START_TEST(texts_come_back_from_json)
{
    check_json("");
    check_json("größer, 最");
    for (char c = 1; c > 0 && c < 127; c++) {
        check_json((char[]){c, 0});
        check_json((char[]){c, c, 0});
        check_json((char[]){'a', c, 'b', 0});
        check_json((char[]){c, 'n', c, 0});
    }
    check_json("C:\\new\\table \"x\"\\");
}
END_TEST

/* ---- for people ---- */

START_TEST(sizes_have_three_digits)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0, "0 B"},         {999, "999 B"},        {999.4, "999 B"},      {999.6, "1 kB"},
                 {1000, "1 kB"},     {1005, "1 kB"},        {1015, "1.01 kB"},     {999400, "999 kB"},
                 {999700, "1 MB"},   {12345678, "12.3 MB"}, {999499999, "999 MB"}, {999500001, "1 GB"},
                 {2.5e12, "2.5 TB"}, {7e15, "7 PB"},        {9.99e17, "999 PB"}};
    char text[40];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_str_eq(iso_text_scaled(cases[i].value, "B", text, sizeof text), cases[i].text);
}
END_TEST

START_TEST(times_have_three_digits)
{
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {{0, "0 us"},          {1.234e-7, "0.123 us"}, {9.994e-4, "999 us"}, {9.996e-4, "1 ms"},
                 {0.01234, "12.3 ms"}, {0.9996, "1 s"},        {1169.6, "1170 s"},   {1e6, "1000000 s"}};
    char text[40];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_str_eq(iso_text_seconds(cases[i].seconds, text, sizeof text), cases[i].text);
}
END_TEST

/* Of keras/src/utils/naming.py: to_snake_case. */
START_TEST(names_are_in_snake_case)
{
    static const char *const cases[][2] = {
        {"Dense", "dense"},
        {"GlobalAveragePooling2D", "global_average_pooling2d"},
        {"MultiHeadAttention", "multi_head_attention"},
        {"ReLU", "re_lu"},
        {"PReLU", "p_re_lu"},
        {"ELU", "elu"},
        {"already_snake", "already_snake"},
    };
    char text[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        iso_text_snake_case(cases[i][0], text, sizeof text);
        ck_assert_str_eq(text, cases[i][1]);
    }
    iso_text_snake_case("Dense", text, 4); /* cut off, and ended */
    ck_assert_uint_lt(strlen(text), 4);
}
END_TEST

START_TEST(the_nearest_names_come_first)
{
    static const char *const names[] = {"mlp", "convnet", "dense", "dtensor", "convnets"};
    static const struct {
        const char *wrong, *text;
    } cases[] = {{"convent", "; did you mean 'convnet'?"},
                 {"dens", "; did you mean 'dense'?"},
                 {"xyzzy", "; there are: mlp, convnet, dense, dtensor, convnets"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        iso_text text = {0};
        iso_text_add_nearest(&text, cases[i].wrong, names, 5);
        ck_assert_str_eq(iso_text_get(&text), cases[i].text);
        iso_text_free(&text);
    }
}
END_TEST

int main(void)
{
    return RUN_TESTS("text", 0, texts_come_back_from_json, values_come_back_from_json, parts_make_a_document,
                     sizes_have_three_digits, times_have_three_digits, names_are_in_snake_case,
                     the_nearest_names_come_first);
}
