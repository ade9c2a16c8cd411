/* Of a folder the newest checkpoint that is whole is found, open and verified; what is wrong with those
 * before is told.
 * Ranks: 1, 3, 5
 * Sanitize: 3 */
#include <fcntl.h>
#include <sys/stat.h>

#include "runtime/checkpoint/commit_record.h"
#include "runtime/checkpoint/saver.h"
#include "tests/support/checkpoints.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static char folder[64];
static iso_saver *saver;

static void set_up(void)
{
    check_ok(make_test_folder(ctx, folder));
    check_ok(iso_saver_create(ctx, &saver));
}

static void tear_down(void)
{
    iso_saver_destroy(saver);
    check_ok(remove_test_folder(ctx, folder));
}

static bool is_chief(void)
{
    return iso_rank(ctx) == 0;
}

/* Before and behind what one rank does to files alone. */
static void meet(void)
{
    check_ok(iso_agree(ctx, ISO_OK));
}

/* A version of the state under a name, with its number. */
static void save_version(const char *name, int version)
{
    made_state state;
    made_state_begin(&state, ctx, version);
    check_ok(iso_saver_save(saver, in_folder(folder, name), &state.contents, &state.shards, false, NULL));
    check_ok(iso_saver_wait(saver));
    made_state_end(&state);
}

static void expect_found(const char *pattern, const char *name, const char *passed_over)
{
    iso_saved_file *file = NULL;
    iso_text text = {0};
    check_ok(iso_checkpoint_find(ctx, folder, pattern, &file, &text));
    const char *path = file ? iso_saved_file_path(file) : NULL;
    if (name)
        ck_assert_msg(path && !strcmp(path, in_folder(folder, name)), "found %s, not %s; passed over: %s",
                      path, name, iso_text_get(&text));
    else
        ck_assert_ptr_null(path);
    if (passed_over)
        ck_assert_msg(strstr(iso_text_get(&text), passed_over), "'%s' is not in '%s'", passed_over,
                      iso_text_get(&text));
    else
        ck_assert_str_eq(iso_text_get(&text), "");
    iso_saved_file_close(file);
    iso_text_free(&text);
}

/* Changes a file by the chief: a byte, or its length. */
static void harm(const char *name, size_t offset, bool cut)
{
    if (is_chief()) {
        int file = open(in_folder(folder, name), O_RDWR);
        char byte;
        ck_assert_int_eq(pread(file, &byte, 1, (off_t)offset), 1);
        byte = (char)(byte ^ 1);
        ck_assert(cut ? ftruncate(file, (off_t)offset) == 0 : pwrite(file, &byte, 1, (off_t)offset) == 1);
        close(file);
    }
    meet();
}

/* The first byte of a tensor in the file. */
static size_t place_of(const char *name, int tensor)
{
    iso_commit_record record;
    bool found = false;
    int file = open(in_folder(folder, name), O_RDONLY);
    check_ok(iso_commit_record_read(file, name, &found, &record));
    size_t offset = (size_t)record.tensors[tensor].offset;
    iso_commit_record_free(&record);
    close(file);
    meet();
    return offset;
}

START_TEST(test_find)
{
    expect_found(NULL, NULL, NULL);
    for (int i = 1; i <= 5; i++) {
        char name[32];
        snprintf(name, sizeof name, "%d-%d.weights.h5", i, 10 - i);
        save_version(name, i);
    }
    save_version("other.weights.h5", 7);
    expect_found(NULL, "other.weights.h5", NULL);
    expect_found("{epoch}-{loss:.2f}.weights.h5", "5-5.weights.h5", NULL);
    harm("5-5.weights.h5", place_of("5-5.weights.h5", 2) + 5, false);
    expect_found("{epoch}-{loss}.weights.h5", "4-6.weights.h5",
                 "5-5.weights.h5': tensor '/layers/dense_1/vars/0' (dense_1/kernel) is not what was written");
    harm("4-6.weights.h5", 5000, true);
    expect_found("{epoch}-{loss}.weights.h5", "3-7.weights.h5",
                 "4-6.weights.h5' does not end with a commit record");
    harm("3-7.weights.h5", 9, false);
    expect_found("{epoch}-{loss}.weights.h5", "2-8.weights.h5", "3-7.weights.h5'");
    expect_found("{}-9.weights.h5", "1-9.weights.h5", NULL);
    expect_found("none{}", NULL, NULL);
}
END_TEST

/* By number first; among equals the youngest; and files without a record never. */
START_TEST(test_order_of_time)
{
    struct timespec old[2] = {{1000, 0}, {1000, 0}};
    save_version("b.weights.h5", 4);
    save_version("a.weights.h5", 4);
    save_version("late.weights.h5", 3);
    expect_found(NULL, "a.weights.h5", NULL);
    if (is_chief()) {
        ck_assert_int_eq(utimensat(AT_FDCWD, in_folder(folder, "a.weights.h5"), old, 0), 0);
        ck_assert_int_eq(mkfifo(in_folder(folder, "pipe.weights.h5"), 0600), 0);
        ck_assert_int_eq(mkdir(in_folder(folder, "folder.weights.h5"), 0700), 0);
        char command[512];
        snprintf(command, sizeof command, "cp tests/keras/weights/types.weights.h5 '%s/keras.weights.h5'",
                 folder);
        ck_assert_int_eq(system(command), 0);
    }
    meet();
    expect_found(NULL, "b.weights.h5", "keras.weights.h5' does not end with a commit record");
    expect_found(NULL, "b.weights.h5", "pipe.weights.h5' is not a regular file");
    expect_found(NULL, "b.weights.h5", "folder.weights.h5' is not a regular file");
}
END_TEST

START_TEST(test_no_folder)
{
    iso_saved_file *file = NULL;
    check_ok(iso_checkpoint_find(ctx, in_folder(folder, "none"), NULL, &file, NULL));
    ck_assert_ptr_null(file);
    save_version("a.weights.h5", 0);
    ck_assert_int_eq(iso_checkpoint_find(ctx, in_folder(folder, "a.weights.h5"), NULL, &file, NULL),
                     ISO_INVALID);
    ck_assert_ptr_null(file);
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    size_t held = iso_memory_held();
    if (status == ISO_OK &&
        RUN_TESTS_WITH("finding", 300, set_up, tear_down, test_find, test_order_of_time, test_no_folder))
        status = iso_error(ISO_FAILED, "a test failed");
    if (status == ISO_OK && iso_memory_held() != held)
        status = iso_error(ISO_FAILED, "%zu bytes are left", iso_memory_held() - held);
    return iso_finish(ctx, status);
}
