/* Ranges of a box's order as boxes: they cover the range, in its order, whatever the box and the range.
 * Ranks: 1
 * Sanitize: 1 */
#include <check.h>

#include "runtime/checkpoint/runs_impl.h"
#include "runtime/checkpoint/write/parts_impl.h"
#include "tests/support/dice.h"
#include "tests/support/run_tests.h"

static void check_range(const iso_box *box, const iso_shape *shape, int64_t begin, int64_t count)
{
    iso_box boxes[ISO_MOST_RANGE_BOXES];
    int64_t at = begin;
    int n = iso_range_boxes(box, begin, count, boxes);
    ck_assert_int_le(n, box->rank ? 2 * box->rank - 1 : 1);
    for (int b = 0; b < n; b++) {
        ck_assert_int_gt(iso_box_count(&boxes[b]), 0);
        for (int64_t i = 0; i < iso_box_count(&boxes[b]); i++, at++)
            ck_assert_int_eq(iso_box_global_index(&boxes[b], shape, i), iso_box_global_index(box, shape, at));
    }
    ck_assert_int_eq(at, begin + count);
}

/* The runs of the same range, one after the other. */
static void check_runs(const iso_box *box, const iso_shape *shape, int64_t begin, int64_t count)
{
    iso_state_shard shard = {.path = "x",
                             .dtype = ISO_F32,
                             .shape = *shape,
                             .box = *box,
                             .begin = begin,
                             .count = count,
                             .writer = true};
    iso_runs runs = iso_runs_of(&shard);
    int64_t own, global, n, at = 0, end = -1;
    while (iso_runs_next(&runs, &own, &global, &n)) {
        ck_assert_int_eq(own, at);
        ck_assert_int_gt(n, 0);
        ck_assert_int_gt(global, end); /* else it would be one run */
        for (int64_t i = 0; i < n; i++)
            ck_assert_int_eq(global + i, iso_box_global_index(box, shape, begin + at + i));
        at += n;
        end = global + n;
    }
    ck_assert_int_eq(at, count);
}

START_TEST(test_ranges)
{
    dice d = dice_for(_i);
    iso_shape shape = {.rank = throw_dice(&d, 5)};
    iso_box box = {.rank = shape.rank};
    for (int i = 0; i < shape.rank; i++) {
        box.offset[i] = throw_dice(&d, 4);
        box.extent[i] = throw_dice(&d, 5);
        shape.dim[i] = box.offset[i] + box.extent[i] + throw_dice(&d, 2);
    }
    int64_t all = iso_box_count(&box);
    int64_t begin = throw_dice(&d, (int)all + 1), count = throw_dice(&d, (int)(all - begin) + 1);
    check_range(&box, &shape, begin, count);
    check_range(&box, &shape, 0, all);
    check_runs(&box, &shape, 0, all);
    check_runs(&box, &shape, begin, count);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ranges");
    TCase *all = tcase_create("ranges");
    tcase_add_loop_test(all, test_ranges, 0, 2000);
    suite_add_tcase(suite, all);
    return run_suite(suite);
}
