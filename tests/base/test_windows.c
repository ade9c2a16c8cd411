/* Windows over elements, and random numbers: at their ends. Ranks: 1 */
#include <check.h>

#include "runtime/base/random.h"
#include "runtime/base/types.h"
#include "runtime/base/window.h"
#include "tests/support/run_tests.h"

/* Four places of two elements each over nine: the last place covers what is left; no place covers nothing. */
START_TEST(elements_are_covered_once)
{
    const iso_sliding_window w = {.positions = 4, .size = 2, .stride = 2, .dilation = 1, .before = 0};
    int64_t begin, extent, covered = 0;
    for (int64_t first = 0; first < 4; first++) {
        iso_sliding_window_covers(&w, 9, first, 1, &begin, &extent);
        ck_assert_int_eq(begin, 2 * first);
        covered += extent;
    }
    ck_assert_int_eq(covered, 9);
    iso_sliding_window_covers(&w, 9, 4, 0, &begin, &extent);
    ck_assert_int_eq(extent, 0);
    iso_sliding_window_reads(&w, 9, 4, 0, &begin, &extent);
    ck_assert_int_eq(extent, 0);
}
END_TEST

/* 53 bits in (0, 1]: those of the high word, and the upper 21 of the low one. */
START_TEST(uniform_numbers)
{
    ck_assert_double_eq(iso_uniform_f64(0, 0), 0x1p-53);
    ck_assert_double_eq(iso_uniform_f64(0, 0x7ff), 0x1p-53);
    ck_assert_double_eq(iso_uniform_f64(0, 0xffffffffu), 0x1p-32);
    ck_assert_double_eq(iso_uniform_f64(0x80000000u, 0), 0.5 + 0x1p-53);
    ck_assert_double_eq(iso_uniform_f64(0xffffffffu, 0xffffffffu), 1);
}
END_TEST

int main(void)
{
    return RUN_TESTS("windows", 0, elements_are_covered_once, uniform_numbers);
}
