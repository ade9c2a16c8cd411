/* Reading past the kernel's cache: the same bytes as through it, from any place, to any place, wherever the
 * file ends and whatever the disk refuses. Ranks: 1 */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "runtime/checkpoint/read/direct_io_impl.h"
#include "tests/support/dice.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { BYTES = (24 << 20) + 1234, ROOM = BYTES + 4096 };

static char path[] = "/tmp/iso-uncached-XXXXXX";
static int file;
static char *expected, *out;
static iso_direct_io uncached;

/* On the disk, and not in the cache. */
static void forget(void)
{
    ck_assert_int_eq(fsync(file), 0);
    ck_assert_int_eq(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED), 0);
}

static void set_up(void)
{
    dice d = dice_for(7);
    strcpy(path + sizeof path - 7, "XXXXXX");
    ck_assert_int_ge(file = mkstemp(path), 0);
    expected = malloc(BYTES);
    out = malloc(ROOM);
    for (int i = 0; i < BYTES; i++)
        expected[i] = (char)throw_dice(&d, 256);
    ck_assert_int_eq(write(file, expected, BYTES), BYTES);
    forget();
}

static void tear_down(void)
{
    iso_direct_io_end(&uncached);
    close(file);
    unlink(path);
    free(expected);
    free(out);
}

static bool has_a_disk(void)
{
    struct stat about;
    int again = open(path, O_RDONLY | O_DIRECT);
    bool opens = again >= 0;
    if (opens)
        close(again);
    return opens && fstat(file, &about) == 0 && major(about.st_dev) != 0;
}

/* Of the file's pages, the part that the cache holds. */
static double part_cached(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (BYTES + page - 1) / page, held = 0;
    unsigned char *is = malloc(pages);
    void *map = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, file, 0);
    ck_assert_ptr_ne(map, MAP_FAILED);
    ck_assert_int_eq(mincore(map, BYTES, is), 0);
    for (size_t i = 0; i < pages; i++)
        held += is[i] & 1;
    munmap(map, BYTES);
    free(is);
    return (double)held / (double)pages;
}

/* The kernel may keep pages that it works on: it is asked again. False: it keeps some of them. */
static bool is_forgotten(void)
{
    for (int tries = 0; tries < 200 && part_cached() > 0; tries++) {
        forget();
        usleep(10000);
    }
    return part_cached() == 0;
}

static void check_read(size_t offset, size_t bytes, size_t to)
{
    memset(out, 0x5A, ROOM);
    check_ok(iso_direct_io_read(&uncached, file, path, out + to, bytes, offset));
    ck_assert_msg(memcmp(out + to, expected + offset, bytes) == 0, "%zu bytes at %zu differ", bytes, offset);
    for (size_t i = 0; i < to; i++)
        ck_assert_int_eq(out[i], 0x5A);
    for (size_t i = to + bytes; i < to + bytes + 64; i++)
        ck_assert_int_eq(out[i], 0x5A);
}

START_TEST(test_any_place)
{
    dice d = dice_for(11);
    for (int k = 0; k < 30; k++) {
        size_t offset = (size_t)throw_dice(&d, BYTES), left = BYTES - offset;
        forget();
        check_read(offset, k % 2 ? left : (size_t)throw_dice(&d, (int)left), (size_t)throw_dice(&d, 1000));
    }
    check_read(0, BYTES, 0);
    check_read(4096, 16 << 20, 64);
    check_read(BYTES, 0, 0);
}
END_TEST

/* What is not in the cache does not get there; what is there is taken from there. */
START_TEST(test_past_the_cache)
{
    bool forgotten = is_forgotten();
    check_read(100, 20 << 20, 0);
    if (!has_a_disk() || !forgotten) {
        report_skipped("reading past the cache", forgotten ? "/tmp is on no disk of this host"
                                                           : "the kernel keeps the file in its cache");
        return;
    }
    ck_assert_int_ge(uncached.file, 0);
    ck_assert_ptr_nonnull(uncached.window);
    ck_assert_double_lt(part_cached(), 0.2);
    iso_direct_io_end(&uncached);
    ck_assert_int_eq(pread(file, out, BYTES, 0), BYTES);
    check_read(100, 20 << 20, 0);
    ck_assert_ptr_null(uncached.window);
}
END_TEST

/* The file ends before what is wanted, within a window and at its edge. */
START_TEST(test_too_short)
{
    static const size_t ends[] = {BYTES, (16 << 20) + 1, 16 << 20, 8 << 20, 4096, 0};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char message[64];
        ck_assert_int_eq(ftruncate(file, (off_t)ends[i]), 0);
        forget();
        snprintf(message, sizeof message, "ends at %zu, %zu bytes too early", ends[i], BYTES + 99 - ends[i]);
        ck_assert_int_eq(iso_direct_io_read(&uncached, file, path, out, BYTES + 99, 0), ISO_INVALID);
        ck_assert_msg(strstr(iso_error_message(), message), "%s", iso_error_message());
        ck_assert(memcmp(out, expected, ends[i]) == 0);
    }
}
END_TEST

/* A disk that refuses to be read so. */
START_TEST(test_refused)
{
    uncached = (iso_direct_io){.tried = true, .file = open(path, O_WRONLY)};
    ck_assert_int_ge(uncached.file, 0);
    check_read(5, 20 << 20, 3);
    iso_direct_io_end(&uncached);
    uncached = (iso_direct_io){.tried = true, .file = -1};
    check_read(5, 20 << 20, 3);
}
END_TEST

int main(void)
{
    return RUN_TESTS_WITH("uncached", 120, set_up, tear_down, test_any_place, test_past_the_cache,
                          test_too_short, test_refused);
}
