/* Temporary files: one process makes them, others only open them, and those that nobody writes are removed, whatever
 * happens to their names meanwhile.
 * Ranks: 1
 * Sanitize: 1 */
#include <fcntl.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/checkpoint/folder_impl.h"
#include "tests/support/checkpoints.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static char folder[64], name[128];

static void set_up(void)
{
    check_ok(make_test_folder(ctx, folder));
    snprintf(name, sizeof name, "%s/.a.weights.h5.saving-0123abcd", folder);
}

static void tear_down(void)
{
    check_ok(remove_test_folder(ctx, folder));
}

/* Stands in for the C library's: the next lock that a remover wants comes after the file has lost its name to another
 * one, which is written. */
static bool swaps;
static int other = -1;

int flock(int file, int how)
{
    if (swaps && (how & LOCK_EX)) {
        swaps = false;
        unlink(name);
        other = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
        syscall(SYS_flock, other, LOCK_SH);
    }
    return (int)syscall(SYS_flock, file, how);
}

static bool is_there(void)
{
    return access(name, F_OK) == 0;
}

static int make(void)
{
    int file = -1;
    check_ok(iso_temporary_make(name, &file));
    return file;
}

START_TEST(test_removed)
{
    int writer = make();
    iso_folder_remove_stale(folder);
    ck_assert(is_there());
    close(writer);
    iso_folder_remove_stale(folder);
    ck_assert(!is_there());
}
END_TEST

START_TEST(test_name_of_another)
{
    close(make());
    swaps = true;
    iso_folder_remove_stale(folder);
    ck_assert(!swaps && other >= 0);
    ck_assert_msg(is_there(), "a file that is written was removed instead of an older one of its name");
    check_ok(iso_temporary_check(name, other));
    close(other);
}
END_TEST

START_TEST(test_made_by_one)
{
    int file = -1, second = -1;
    ck_assert_int_eq(iso_temporary_open(name, &file), ISO_IO);
    ck_assert_msg(strstr(iso_error_message(), name) &&
                      strstr(iso_error_message(), "it was removed, or the folder"),
                  "%s", iso_error_message());
    ck_assert(!is_there() && file < 0);
    close(make());
    file = make(); /* one that was left has its name */
    check_ok(iso_temporary_open(name, &second));
    check_ok(iso_temporary_check(name, second));
    check_ok(iso_temporary_check(name, file));
    unlink(name);
    ck_assert_int_eq(iso_temporary_check(name, file), ISO_IO);
    int third = make();
    ck_assert_int_eq(iso_temporary_check(name, file), ISO_IO);
    ck_assert_msg(strstr(iso_error_message(), "removed or replaced while it was written"), "%s",
                  iso_error_message());
    close(file);
    close(second);
    close(third);
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK && RUN_TESTS_WITH("temporary files", 60, set_up, tear_down, test_removed,
                                           test_name_of_another, test_made_by_one))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
