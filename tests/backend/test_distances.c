/* The list of distances names every op that has kernels once, and docs/gpu.md has it as its table. Ranks: 1 */
#include <check.h>
#include <stdio.h>

#include "runtime/graph/ops/list.h"
#include "tests/backend/distances.h"
#include "tests/support/run_tests.h"

START_TEST(each_op_is_in_one_row)
{
    for (int i = 0; i < iso_op_type_count(); i++) {
        const iso_op_type *type = iso_op_type_at(i);
        int rows = 0, cancelling = 0;
        for (int row = 0; row < DISTANCES; row++)
            *(distances[row].cancels ? &cancelling : &rows) += distance_names(&distances[row], type->name);
        ck_assert_msg(rows == !type->no_kernel && cancelling <= rows, "op %s is in %d rows", type->name,
                      rows);
    }
}
END_TEST

START_TEST(each_name_is_an_op)
{
    for (int row = 0; row < DISTANCES; row++)
        for (const char *name = distances[row].ops, *end; *name; name = *end ? end + 1 : end) {
            char op[100];
            end = name + strcspn(name, " ");
            snprintf(op, sizeof op, "%.*s", (int)(end - name), name);
            const iso_op_type *type = iso_op_type_find(op);
            ck_assert_msg(type != NULL && !type->no_kernel, "row %d names '%s', which is no op with kernels",
                          row, op);
        }
}
END_TEST

/* ---- the page ---- */

/* A row of the page's table. */
static void print_row(const distance *row, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "| ");
    for (const char *name = row->ops, *end; *name; name = *end ? end + 1 : end) {
        end = name + strcspn(name, " ");
        used += (size_t)snprintf(text + used, size - used, "%s`%.*s`", name == row->ops ? "" : ", ",
                                 (int)(end - name), name);
    }
    if (row->note[0])
        used += (size_t)snprintf(text + used, size - used, "%s%s", row->cancels ? " " : ", ", row->note);
    used += distance_is_none(row)
                ? (size_t)snprintf(text + used, size - used, " | the same bits | |\n")
                : (size_t)snprintf(text + used, size - used, " | %s | %s |\n", row->relative, row->largest);
    ck_assert_uint_lt(used, size);
}

static void print_table(char *text, size_t size)
{
    size_t used =
        (size_t)snprintf(text, size, "| ops | of the element | of the largest element |\n|---|---|---|\n");
    for (int row = 0; row < DISTANCES; row++) {
        print_row(&distances[row], text + used, size - used);
        used += strlen(text + used);
    }
}

static void check_says(const char *page, const char *sentence)
{
    ck_assert_msg(strstr(page, sentence) != NULL, "docs/gpu.md does not say: %s", sentence);
}

START_TEST(the_page_has_the_table)
{
    static char page[1 << 17], table[1 << 13], sentence[200];
    FILE *file = fopen("docs/gpu.md", "r");
    ck_assert_msg(file != NULL, "docs/gpu.md cannot be opened: start the test in the repository's folder");
    size_t length = fread(page, 1, sizeof page - 1, file);
    ck_assert(length > 0 && feof(file));
    fclose(file);
    print_table(table, sizeof table);
    const char *found = strstr(page, table);
    ck_assert_msg(found && found[strlen(table)] != '|',
                  "the table of docs/gpu.md is not that of tests/backend/distances.h, which is\n%s", table);
    snprintf(
        sentence, sizeof sentence,
        "In float64 the distances are these times %s. In bfloat16 a result may be the neighbouring number "
        "(relative 2^-%d)",
        FLOAT64_FACTOR, BFLOAT16_BITS);
    check_says(page, sentence);
    snprintf(sentence, sizeof sentence,
             "With `--tf32`, products and convolutions are within %s of the largest", TF32_LARGEST);
    check_says(page, sentence);
    snprintf(sentence, sizeof sentence, "Attention of bfloat16 is within %s of the largest",
             BFLOAT16_ATTENTION_LARGEST);
    check_says(page, sentence);
    snprintf(sentence, sizeof sentence, "and where `%s` computes it within %s of that", FUSED_ATTENTION,
             FUSED_ATTENTION_LARGEST);
    check_says(page, sentence);
    snprintf(sentence, sizeof sentence, "Experts of bfloat16 are within %s of the largest",
             BFLOAT16_EXPERTS_LARGEST);
    check_says(page, sentence);
}
END_TEST

int main(void)
{
    return RUN_TESTS("distances", 60, each_op_is_in_one_row, each_name_is_an_op, the_page_has_the_table);
}
