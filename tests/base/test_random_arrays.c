/* Arrays of random numbers: those of the C library's logarithm and cosine, and each number the same wherever it
 * is in an array. Ranks: 1 */
#include <check.h>
#include <math.h>

#include "runtime/base/random.h"
#include "runtime/base/random_arrays.h"
#include "tests/support/run_tests.h"

enum { MOST = 3000 };
static const uint64_t firsts[] = {0, 1, 4294967290u, UINT64_C(1) << 40}; /* also across 2^32 */
enum { FIRSTS = sizeof firsts / sizeof firsts[0] };

START_TEST(normal_numbers_are_those_of_the_c_library)
{
    double x[MOST];
    for (int f = 0; f < FIRSTS; f++) {
        iso_random_fill_normal(77, firsts[f], 5, MOST, x);
        for (int i = 0; i < MOST; i++) {
            iso_philox draw = iso_philox_draw(77, firsts[f] + (uint64_t)i, 5);
            long double u = iso_uniform_f64(draw.word[0], draw.word[1]),
                        v = iso_uniform_f64(draw.word[2], draw.word[3]);
            long double length = sqrtl(-2 * logl(u)), expected = length * cosl(2 * acosl(-1) * v);
            ck_assert_msg(fabsl(x[i] - expected) <= 4e-16L * length, "number %d of %llu: %.17g, not %.17Lg",
                          i, (unsigned long long)firsts[f], x[i], expected);
        }
    }
}
END_TEST

START_TEST(uniform_numbers_are_exact)
{
    double x[MOST];
    for (int f = 0; f < FIRSTS; f++) {
        iso_random_fill_uniform(78, firsts[f], 0, MOST, x);
        for (int i = 0; i < MOST; i++) {
            iso_philox draw = iso_philox_draw(78, firsts[f] + (uint64_t)i, 0);
            ck_assert(x[i] == iso_uniform_f64(draw.word[0], draw.word[1]));
        }
    }
}
END_TEST

/* Parts of any length, whose last elements are not computed in vectors. */
START_TEST(a_number_is_the_same_in_any_array)
{
    double whole[200], part[200];
    iso_random_fill_normal(79, 1000, 2, 200, whole);
    for (int count = 0; count <= 70; count++)
        for (int begin = 0; begin < 130; begin += 13) {
            part[count] = 3;
            iso_random_fill_normal(79, 1000 + (uint64_t)begin, 2, count, part);
            for (int i = 0; i < count; i++)
                ck_assert(part[i] == whole[begin + i]);
            ck_assert(part[count] == 3);
        }
}
END_TEST

int main(void)
{
    return RUN_TESTS("arrays of random numbers", 0, normal_numbers_are_those_of_the_c_library,
                     uniform_numbers_are_exact, a_number_is_the_same_in_any_array);
}
