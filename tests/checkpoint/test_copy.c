/* Copies past the caches are copies: of any length, from and to any place, and not a byte beyond. Ranks: 1 */
#include <check.h>
#include <string.h>

#include "runtime/checkpoint/write/parts_impl.h"
#include "tests/support/run_tests.h"

enum { ROOM = 1 << 17, AROUND = 96 };

static unsigned char from[ROOM + 2 * AROUND], to[ROOM + 2 * AROUND];

static void check_copy(size_t bytes, size_t at, size_t source)
{
    memset(to, 0xA5, sizeof to);
    iso_copy_nontemporal(to + at, from + source, bytes);
    ck_assert_mem_eq(to + at, from + source, bytes);
    for (size_t i = 0; i < sizeof to; i++)
        if ((i < at || i >= at + bytes) && to[i] != 0xA5)
            ck_abort_msg("byte %zu was written by a copy of %zu bytes to %zu", i, bytes, at);
}

START_TEST(test_copies)
{
    static const size_t bytes[] = {0,     1,     63,    4096,  16384,  32767, 32768,
                                   32769, 49152, 65535, 65537, 100003, ROOM};
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)(i * 7 + i / 251);
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
        for (size_t at = 0; at < AROUND; at += 13)
            check_copy(bytes[i], at, (at * 5 + i) % AROUND);
}
END_TEST

int main(void)
{
    return RUN_TESTS("copy", 60, test_copies);
}
