/* Files of text and of tokens that stay in the file: the rows are those of the same file in memory, also in parts and
 * shuffled; a file that is larger than the memory; files that are truncated or replaced while they are in use.
 * Ranks: 1, 3 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>

#include "collectives/control/control.h"
#include "runtime/session/session.h"
#include "tests/data/data_test.h"
#include "tests/support/folder.h"
#include "tests/support/run_tests.h"

enum { TOKENS = 20001, CONTEXT = 9, VOCABULARY = 40000, HEADER = 512 };

static iso_context *ctx;
static char folder[64], path[128], other[128];

static void make_folder(void)
{
    OK(make_test_folder(ctx, folder));
    snprintf(path, sizeof path, "%s/a.bin", folder);
    snprintf(other, sizeof other, "%s/b.bin", folder);
}

static void remove_folder(void)
{
    OK(remove_test_folder(ctx, folder));
}

static uint16_t token(size_t i)
{
    return (uint16_t)(i * 7919 % VOCABULARY);
}

/* ---- the first rank changes a file when no rank reads it; all wait for it ---- */

/* Token i is token(first + i), after the words of a header. */
static void write_words(const char *name, const uint16_t *header, size_t words, size_t first)
{
    OK(iso_agree(ctx, ISO_OK));
    if (iso_rank(ctx) == 0) {
        FILE *file = fopen(name, "wb");
        ck_assert_ptr_nonnull(file);
        if (words > 0)
            ck_assert_uint_eq(fwrite(header, 2, words, file), words);
        for (size_t i = 0; i < TOKENS; i++) {
            uint8_t bytes[2] = {(uint8_t)token(first + i), (uint8_t)(token(first + i) >> 8)};
            ck_assert_uint_eq(fwrite(bytes, 1, 2, file), 2);
        }
        ck_assert_int_eq(fclose(file), 0);
    }
    OK(iso_agree(ctx, ISO_OK));
}

static void at_first_rank(int (*change)(const char *name, off_t bytes), const char *name, off_t bytes)
{
    OK(iso_agree(ctx, ISO_OK));
    if (iso_rank(ctx) == 0)
        ck_assert_int_eq(change(name, bytes), 0);
    OK(iso_agree(ctx, ISO_OK));
}

static iso_dataset *open_within(const char *name, int64_t vocabulary, size_t limit)
{
    iso_dataset *data = NULL;
    OK(iso_dataset_open(ctx, name, ISO_TRAIN, &data, .context = CONTEXT, .vocabulary = vocabulary,
                        .memory_limit = limit));
    return data;
}

static iso_dataset *open_tokens(const char *name, size_t limit)
{
    return open_within(name, VOCABULARY, limit);
}

/* All rows of both are equal, batch by batch: inputs and targets, as int32 and as float64. */
static void expect_same(iso_dataset *a, iso_dataset *b)
{
    enum { ROWS = 100, MOST = ROWS * CONTEXT };
    const iso_batch *one = NULL, *two = NULL;
    int64_t rows = 0;
    OK(iso_dataset_batch(a, ROWS));
    OK(iso_dataset_batch(b, ROWS));
    for (;; rows += one->rows) {
        OK(iso_dataset_next(a, &one));
        OK(iso_dataset_next(b, &two));
        ck_assert_int_eq(one == NULL, two == NULL);
        if (!one)
            break;
        ck_assert_int_eq(one->rows, two->rows);
        for (int component = 0; component < 2; component++) {
            static int32_t have[MOST], want[MOST];
            static double wide[MOST];
            OK(one->read(one, component, 0, one->rows, ISO_I32, have));
            OK(two->read(two, component, 0, two->rows, ISO_I32, want));
            OK(one->read(one, component, 0, one->rows, ISO_F64, wide));
            ck_assert_int_eq(memcmp(have, want, (size_t)(one->rows * CONTEXT) * sizeof *have), 0);
            for (int64_t i = 0; i < one->rows * CONTEXT; i++)
                ck_assert_double_eq(wide[i], want[i]);
        }
        check_parts(one, &ISO_SHAPE(CONTEXT));
    }
    ck_assert_int_gt(rows, ROWS);
    iso_dataset_destroy(a);
    iso_dataset_destroy(b);
}

/* With and without llm.c's header, and as text, in the order of the file and shuffled. */
START_TEST(rows_are_those_in_memory)
{
    uint16_t header[HEADER] = {20240520 & 0xffff, 20240520 >> 16, 1, 0, TOKENS};
    for (int k = 0; k < 6; k++) {
        char name[160];
        snprintf(name, sizeof name, "%s/%d.%s", folder, k, k % 3 == 2 ? "txt" : "bin");
        write_words(name, header, k % 3 == 1 ? HEADER : 0, 0);
        iso_dataset *in_file = open_tokens(name, 1), *in_memory = open_tokens(name, 0);
        if (k >= 3) {
            OK(iso_dataset_shuffle(in_file, 0));
            OK(iso_dataset_shuffle(in_memory, 0));
        }
        expect_same(in_file, in_memory);
    }
}
END_TEST

/* The tokens 3 token(i), with the header of llm.c's files for Llama 3 or none. */
static void write_wide(const char *name, bool header)
{
    OK(iso_agree(ctx, ISO_OK));
    if (iso_rank(ctx) == 0) {
        static uint32_t words[HEADER / 2 + TOKENS] = {20240801, 7, TOKENS};
        for (size_t i = 0; i < TOKENS; i++)
            words[HEADER / 2 + i] = 3U * token(i);
        const size_t first = header ? 0 : HEADER / 2, count = HEADER / 2 + TOKENS - first;
        FILE *file = fopen(name, "wb");
        ck_assert_ptr_nonnull(file);
        ck_assert_uint_eq(fwrite(words + first, sizeof *words, count, file), count);
        ck_assert_int_eq(fclose(file), 0);
    }
    OK(iso_agree(ctx, ISO_OK));
}

/* A file without a header has them if the vocabulary needs them. */
START_TEST(tokens_of_32_bits)
{
    for (int header = 0; header < 2; header++) {
        const iso_batch *batch = NULL;
        int32_t got[CONTEXT];
        write_wide(path, header);
        iso_dataset *in_file = open_within(path, 3 * VOCABULARY, 1);
        OK(iso_dataset_batch(in_file, 50));
        OK(iso_dataset_next(in_file, &batch));
        OK(batch->read(batch, 1, 49, 1, ISO_I32, got));
        for (int i = 0; i < CONTEXT; i++)
            ck_assert_int_eq(got[i], 3 * token((size_t)(49 * CONTEXT + 1 + i)));
        iso_dataset_destroy(in_file);
        expect_same(open_within(path, 3 * VOCABULARY, 1), open_within(path, 3 * VOCABULARY, 0));
    }
}
END_TEST

/* The first token is the 5th of the rows as they are numbered. */
START_TEST(rows_have_their_tokens)
{
    write_words(path, NULL, 0, 5);
    iso_dataset *data = open_tokens(path, 1);
    const iso_batch *batch = NULL;
    int32_t got[CONTEXT];
    OK(iso_dataset_batch(data, 50));
    OK(iso_dataset_next(data, &batch));
    for (int64_t row = 0; row < 50; row += 7)
        for (int component = 0; component < 2; component++) {
            OK(batch->read(batch, component, row, 1, ISO_I32, got));
            for (int i = 0; i < CONTEXT; i++)
                ck_assert_int_eq(got[i], token((size_t)(5 + row * CONTEXT + component + i)));
        }
    uint8_t narrow[CONTEXT];
    FAILS(batch->read(batch, 0, 0, 1, ISO_U8, narrow), "a.bin");
    iso_dataset_destroy(data);
}
END_TEST

static void put_token(const char *name, off_t at, uint16_t value)
{
    OK(iso_agree(ctx, ISO_OK));
    if (iso_rank(ctx) == 0) {
        int file = open(name, O_WRONLY);
        ck_assert_int_eq(pwrite(file, &value, 2, 2 * at), 2);
        close(file);
    }
    OK(iso_agree(ctx, ISO_OK));
}

/* Without targets no token is needed after the last row, and none after it is checked. */
START_TEST(rows_without_targets)
{
    enum { ROWS = TOKENS / CONTEXT, USED = ROWS * CONTEXT };
    const size_t limits[] = {1, 0};
    write_words(path, NULL, 0, 0);
    for (int spare = 0; spare < 2; spare++) {
        at_first_rank(truncate, path, 2 * (USED + spare));
        for (int i = 0; i < 2; i++) {
            iso_dataset *data = NULL, *with = NULL;
            const iso_batch *batch = NULL;
            int32_t got[CONTEXT];
            OK(iso_dataset_open(ctx, path, ISO_TRAIN, &data, .context = CONTEXT, .vocabulary = VOCABULARY,
                                .memory_limit = limits[i], .no_targets = true));
            OK(iso_dataset_open(ctx, path, ISO_TRAIN, &with, .context = CONTEXT, .memory_limit = limits[i]));
            ck_assert_int_eq(iso_dataset_components(data), 1);
            ck_assert_int_eq(iso_dataset_targets(data), 0);
            ck_assert_int_eq(iso_dataset_rows(data), ROWS);
            ck_assert_int_eq(iso_dataset_rows(with), ROWS - 1 + spare);
            OK(iso_dataset_batch(data, ROWS));
            OK(iso_dataset_next(data, &batch));
            OK(batch->read(batch, 0, ROWS - 1, 1, ISO_I32, got));
            for (int k = 0; k < CONTEXT; k++)
                ck_assert_int_eq(got[k], token((size_t)(USED - CONTEXT + k)));
            iso_dataset_destroy(data);
            iso_dataset_destroy(with);
        }
    }
    put_token(path, USED, UINT16_MAX);
    iso_dataset *data = NULL;
    OK(iso_dataset_open(ctx, path, ISO_TRAIN, &data, .context = CONTEXT, .vocabulary = VOCABULARY,
                        .no_targets = true));
    iso_dataset_destroy(data);
    data = NULL;
    FAILS(iso_dataset_open(ctx, path, ISO_TRAIN, &data, .context = CONTEXT, .vocabulary = VOCABULARY,
                           .vocabulary_of = "of a test"),
          "token 65535 at position 19998 (counted from 0) is not in the vocabulary, which has 40000 tokens "
          "(of a test)");
}
END_TEST

/* ---- a file that is larger than the memory ---- */

static size_t address_space(void)
{
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%zu", &pages), 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* 96 MiB may be allocated, the file has 256 MiB of zeros; the check of the vocabulary reads all of them. */
START_TEST(files_larger_than_the_memory)
{
    const off_t tokens = (off_t)128 << 20, last = (tokens - 1) / CONTEXT * CONTEXT;
    struct rlimit before, less;
    iso_dataset *data = NULL;
    const iso_batch *batch = NULL;
    int32_t got[CONTEXT];
    write_words(path, NULL, 0, 0);
    at_first_rank(truncate, path, 2 * tokens);
    put_token(path, last, 123);
    getrlimit(RLIMIT_AS, &before);
    less = before;
    less.rlim_cur = address_space() + ((rlim_t)96 << 20);
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &less), 0);
    data = open_tokens(path, 0);
    OK(iso_dataset_batch(data, 1 << 20));
    do
        OK(iso_dataset_next(data, &batch));
    while (batch->rows == 1 << 20);
    OK(batch->read(batch, 1, batch->rows - 1, 1, ISO_I32, got));
    ck_assert_int_eq(got[CONTEXT - 1], 123);
    iso_dataset_destroy(data);
    put_token(path, last, VOCABULARY);
    FAILS(iso_dataset_open(ctx, path, ISO_TRAIN, &data, .context = CONTEXT, .vocabulary = VOCABULARY),
          "token 40000 at position 134217720");
    ck_assert_int_eq(
        iso_dataset_open(ctx, path, ISO_TRAIN, &data, .context = CONTEXT, .memory_limit = SIZE_MAX),
        ISO_NO_MEMORY);
    setrlimit(RLIMIT_AS, &before);
}
END_TEST

/* ---- files that change ---- */

START_TEST(truncated_files_are_errors)
{
    write_words(path, NULL, 0, 0);
    iso_dataset *data = open_tokens(path, 1);
    const iso_batch *batch = NULL;
    static int32_t got[1000 * CONTEXT];
    OK(iso_dataset_batch(data, 1000));
    OK(iso_dataset_next(data, &batch));
    at_first_rank(truncate, path, 2 * 99 + 1);
    OK(batch->read(batch, 0, 0, 11, ISO_I32, got));
    ck_assert_int_eq(got[98], token(98));
    ck_assert_int_eq(batch->read(batch, 0, 0, 12, ISO_I32, got), ISO_IO);
    ck_assert_msg(strstr(iso_error_message(),
                         "a.bin': token 99 cannot be read: the file had 40002 bytes when "
                         "it was opened, and has 199 now"),
                  "'%s'", iso_error_message());
    iso_dataset_destroy(data);
}
END_TEST

static int replace_file(const char *name, off_t unused)
{
    (void)unused;
    return rename(name, path);
}

START_TEST(replaced_files_are_read_on)
{
    write_words(path, NULL, 0, 0);
    write_words(other, NULL, 0, 1);
    iso_dataset *data = open_tokens(path, 1), *fresh;
    at_first_rank(replace_file, other, 0);
    const iso_batch *batch = NULL, *next = NULL;
    int32_t got[CONTEXT];
    OK(iso_dataset_next(data, &batch));
    OK(batch->read(batch, 0, 0, 1, ISO_I32, got));
    ck_assert_int_eq(got[0], token(0));
    fresh = open_tokens(path, 1);
    OK(iso_dataset_next(fresh, &next));
    OK(next->read(next, 0, 0, 1, ISO_I32, got));
    ck_assert_int_eq(got[0], token(1));
    iso_dataset_destroy(data);
    iso_dataset_destroy(fresh);
}
END_TEST

START_TEST(bad_files)
{
    iso_dataset *data = NULL;
    uint16_t header[HEADER] = {20240520 & 0xffff, 20240520 >> 16, 1, 0, TOKENS + 1};
    write_words(path, header, HEADER, 0);
    FAILS(iso_dataset_open(ctx, path, ISO_TRAIN, &data, .context = CONTEXT, .memory_limit = 1),
          "its header says 20002 tokens, it has 20001");
    at_first_rank(truncate, path, 1000);
    FAILS(iso_dataset_open(ctx, path, ISO_TRAIN, &data, .context = CONTEXT, .memory_limit = 1),
          "has 1000 of the 1024 bytes of their header");
    write_words(path, NULL, 0, 0);
    at_first_rank(truncate, path, 1001);
    FAILS(iso_dataset_open(ctx, path, ISO_TRAIN, &data, .context = CONTEXT, .memory_limit = 1),
          "has 1001 bytes, which are no whole number of 16-bit tokens");
    at_first_rank(truncate, path, 2 * CONTEXT);
    FAILS(iso_dataset_open(ctx, path, ISO_TRAIN, &data, .context = CONTEXT, .memory_limit = 1),
          "has 9 tokens; a row of 9 and the target of its last one need 10");
    at_first_rank(truncate, path, 2 * (CONTEXT - 1));
    FAILS(iso_dataset_open(ctx, path, ISO_TRAIN, &data, .context = CONTEXT, .no_targets = true),
          "has 8 tokens; a row needs 9");
    ck_assert_ptr_null(data);
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS_WITH("tokens", 0, make_folder, remove_folder, rows_are_those_in_memory, tokens_of_32_bits,
                       rows_have_their_tokens, rows_without_targets, files_larger_than_the_memory,
                       truncated_files_are_errors, replaced_files_are_read_on, bad_files))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
