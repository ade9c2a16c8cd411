/* Caches in files: made once, made anew when they are broken or of other rows, and whole or not there.
 * Ranks: 1 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "tests/data/counted_map.h"
#include "tests/support/folder.h"
#include "tests/support/run_tests.h"

static char folder[64], path[128];

static void make_folder(void)
{
    OK(make_test_folder(NULL, folder));
    snprintf(path, sizeof path, "%s/rows.cache", folder);
    forget();
}

static void remove_folder(void)
{
    const char *names = names_in(folder);
    ck_assert_msg(!*names || !strcmp(names, "rows.cache"), "left beside the cache: %s", names);
    OK(remove_test_folder(NULL, folder));
}

static iso_dataset *cached(int rows, int threads)
{
    iso_dataset *ds = numbers(NULL, rows);
    OK(iso_dataset_map(ds, ten_times, .threads = threads));
    OK(iso_dataset_batch(ds, 3));
    OK(iso_dataset_cache(ds, path));
    return ds;
}

static void expect_seven(iso_dataset *ds)
{
    EXPECT_EPOCH(ds, 1, 11, 21, -1, 31, 41, 51, -1, 61, -1);
    OK(iso_dataset_rewind(ds, 1));
    EXPECT_EPOCH(ds, 1, 11, 21, -1, 31, 41, 51, -1, 61, -1);
    iso_dataset_destroy(ds);
}

START_TEST(test_cache_file)
{
    expect_seven(cached(7, 3));
    ck_assert_int_eq(calls, 7);
    expect_seven(cached(7, 0)); /* read, not made */
    ck_assert_int_eq(calls, 7);
    iso_dataset_destroy(cached(8, 0)); /* other rows: made anew */
    ck_assert_int_eq(calls, 15);
    expect_seven(cached(7, 0));
    ck_assert_int_eq(calls, 22);
}
END_TEST

/* Rows of the same shape that have other values, or another order, are other rows. */
START_TEST(test_cache_file_knows_its_source)
{
    int32_t x[4] = {1, 2, 3, 4};
    for (int round = 0; round < 3; round++) {
        iso_dataset *ds = NULL;
        OK(iso_dataset_arrays(NULL, &ds, .x = {x, ISO_I32, ISO_SHAPE(4)}));
        if (round == 2)
            OK(iso_dataset_shuffle(ds, 0, .seed = 3));
        OK(iso_dataset_cache(ds, path));
        if (round == 1)
            EXPECT_EPOCH(ds, 1, -1, 2, -1, 7, -1, 4, -1);
        if (round == 2) {
            int32_t words[8];
            read_epoch(ds, words);
            ck_assert(words[0] != 1 || words[2] != 2 || words[4] != 7);
        }
        iso_dataset_destroy(ds);
        x[2] = 7;
    }
}
END_TEST

static void damage(long at, int truncate_to)
{
    FILE *f = fopen(path, "r+b");
    ck_assert_ptr_nonnull(f);
    if (truncate_to >= 0) {
        ck_assert_int_eq(ftruncate(fileno(f), truncate_to), 0);
    } else {
        fseek(f, at, SEEK_SET);
        int byte = fgetc(f);
        fseek(f, at, SEEK_SET);
        fputc(byte ^ 0x40, f);
    }
    fclose(f);
}

START_TEST(test_broken_cache_files)
{
    static const int cuts[] = {0, 10, 4096, 4100};
    static const int flips[] = {0, 9, 40, 4096, 4100, 4096 + 64};
    expect_seven(cached(7, 0));
    int expected = 7;
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        damage(0, cuts[i]);
        expect_seven(cached(7, 0));
        ck_assert_int_eq(calls, expected += 7);
    }
    for (size_t i = 0; i < sizeof flips / sizeof flips[0]; i++) {
        damage(flips[i], -1);
        expect_seven(cached(7, 0));
        ck_assert_int_eq(calls, expected += 7);
    }
}
END_TEST

START_TEST(test_cache_file_fails)
{
    char where[160];
    iso_dataset *ds = numbers(NULL, 12);
    OK(iso_dataset_map(ds, fail_at_seven, .threads = 2));
    FAILS(iso_dataset_cache(ds, path), "seven is not liked");
    ck_assert_int_ne(access(path, F_OK), 0);
    iso_dataset_destroy(ds);
    ds = numbers(NULL, 12);
    snprintf(where, sizeof where, "%s/nowhere/rows.cache", folder);
    ck_assert_int_eq(iso_dataset_cache(ds, where), ISO_IO);
    ck_assert(strstr(iso_error_message(), where));
    iso_dataset_destroy(ds);
    ds = numbers(NULL, 12);
    FAILS(iso_dataset_cache(ds, folder), "is not a file");
    iso_dataset_destroy(ds);
}
END_TEST

static void check_refused(const char *message)
{
    struct stat before, after;
    iso_dataset *ds = numbers(NULL, 7);
    ck_assert_int_eq(lstat(path, &before), 0);
    OK(iso_dataset_map(ds, ten_times));
    FAILS(iso_dataset_cache(ds, path), message);
    ck_assert_int_eq(lstat(path, &after), 0);
    ck_assert(before.st_ino == after.st_ino && before.st_mode == after.st_mode);
    iso_dataset_destroy(ds);
    ck_assert_int_eq(unlink(path), 0);
}

/* A pipe has no writer, so that a reader would wait. A good cache is read through a link. */
START_TEST(test_what_is_no_file_stays)
{
    char good[160];
    snprintf(good, sizeof good, "%s/good.cache", folder);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    check_refused("is not a file");
    ck_assert_int_eq(symlink("/dev/null", path), 0);
    check_refused("is not a file");
    ck_assert_int_eq(symlink("nowhere", path), 0);
    check_refused("it is a symbolic link, which the file would replace");
    ck_assert_int_eq(calls, 0);
    iso_dataset_destroy(cached(8, 0));
    ck_assert_int_eq(rename(path, good), 0);
    ck_assert_int_eq(symlink("good.cache", path), 0);
    iso_dataset_destroy(cached(8, 0));
    ck_assert_int_eq(calls, 8);
    check_refused("it is a symbolic link, which the file would replace"); /* of other rows */
    ck_assert_int_eq(unlink(good), 0);
}
END_TEST

static iso_status put_a_pipe_there(const iso_element *in, void *const *out, void *user)
{
    mkfifo(path, 0600);
    return ten_times(in, out, user);
}

START_TEST(test_a_pipe_that_comes_while_rows_are_written_stays)
{
    struct stat about;
    iso_dataset *ds = numbers(NULL, 7);
    OK(iso_dataset_map(ds, put_a_pipe_there, .threads = 1));
    ck_assert_int_ne(iso_dataset_cache(ds, path), ISO_OK);
    ck_assert_msg(strstr(iso_error_message(), "rows.cache': "), "%s", iso_error_message());
    ck_assert(lstat(path, &about) == 0 && S_ISFIFO(about.st_mode));
    iso_dataset_destroy(ds);
}
END_TEST

static iso_status look_beside(const iso_element *in, void *const *out, void *user)
{
    const char *names = names_in(folder);
    const bool *replaces = user;
    ck_assert_msg(!strcmp(names, *replaces ? "rows.cache" : ""), "while rows are written there are: %s",
                  names);
    return ten_times(in, out, NULL);
}

/* A job that is killed leaves nothing: while the rows are written, the file has no name. */
START_TEST(test_cache_file_has_no_name_until_it_is_whole)
{
    int fd = open(folder, O_TMPFILE | O_RDWR, 0600);
    if (fd < 0) {
        report_skipped("caches without a name", "the file system has no such files");
        return;
    }
    close(fd);
    for (int round = 0; round < 2; round++) {
        bool replaces = round > 0;
        iso_dataset *ds = numbers(NULL, 7 + round);
        OK(iso_dataset_map(ds, look_beside, .user = &replaces, .threads = 1));
        OK(iso_dataset_cache(ds, path));
        ck_assert_str_eq(names_in(folder), "rows.cache");
        iso_dataset_destroy(ds);
    }
    ck_assert_int_eq(calls, 15);
}
END_TEST

/* Behind a shuffle of batches the order is kept, the place of the shorter batch with it; another shuffle may
 * follow. */
START_TEST(test_cache_file_of_shuffled_batches)
{
    int32_t a[32], b[32], c[32];
    for (uint64_t seed = 1; seed < 8; seed++) {
        iso_dataset *ds[2];
        for (int i = 0; i < 2; i++) {
            ds[i] = numbers(NULL, 10);
            OK(iso_dataset_batch(ds[i], 4));
            OK(iso_dataset_shuffle(ds[i], 0, .seed = seed));
            if (i == 0)
                OK(iso_dataset_cache(ds[i], path));
        }
        ck_assert_int_eq(read_epoch(ds[0], a), 13);
        ck_assert_int_eq(read_epoch(ds[1], b), 13);
        ck_assert(memcmp(a, b, 13 * sizeof a[0]) == 0);
        OK(iso_dataset_rewind(ds[0], 3));
        read_epoch(ds[0], c);
        ck_assert(memcmp(a, c, 13 * sizeof a[0]) == 0);
        OK(iso_dataset_map(ds[0], ten_times));
        OK(iso_dataset_shuffle(ds[0], 0));
        ck_assert_int_eq(read_epoch(ds[0], c), 13);
        iso_dataset_destroy(ds[0]);
        iso_dataset_destroy(ds[1]);
    }
}
END_TEST

int main(void)
{
    return RUN_TESTS_WITH("cache files", 0, make_folder, remove_folder, test_cache_file,
                          test_cache_file_knows_its_source, test_broken_cache_files, test_cache_file_fails,
                          test_what_is_no_file_stays, test_a_pipe_that_comes_while_rows_are_written_stays,
                          test_cache_file_has_no_name_until_it_is_whole, test_cache_file_of_shuffled_batches);
}
