/* Copies of regions between dense boxes, by one thread and by several: as element by element. Ranks: 1 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/backend/box_copy.h"
#include "tests/support/dice.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { CASES = 40, MOST_ELEMENTS = 1 << 20 };

/* The index of the element at `position` of the tensor in a box. */
static int64_t index_in(const iso_box *box, const int64_t *position)
{
    int64_t index = 0;
    for (int d = 0; d < box->rank; d++)
        index = index * box->extent[d] + position[d] - box->offset[d];
    return index;
}

/* Boxes of about 4 MB, one dimension of which is long, with a region that both have; every third case copies all, and
 * others clear or copy nothing. */
static iso_box_copy random_copy(dice *d, int number)
{
    iso_box_copy copy = {.element = 4, .whole = number % 3 == 0, .zero = number % 3 == 1};
    const int rank = 1 + throw_dice(d, 4), longest = throw_dice(d, rank);
    int64_t rest = MOST_ELEMENTS;
    copy.region.rank = copy.from_box.rank = copy.to_box.rank = rank;
    for (int i = 0; i < rank; i++)
        if (i != longest)
            rest /= copy.region.extent[i] = 1 + throw_dice(d, 12);
    copy.region.extent[longest] = rest;
    for (int i = 0; i < rank; i++) {
        const int64_t before = copy.whole ? 0 : throw_dice(d, 3), after = copy.whole ? 0 : throw_dice(d, 3);
        copy.region.offset[i] = 5;
        copy.from_box.offset[i] = 5 - before;
        copy.from_box.extent[i] = copy.region.extent[i] + before;
        copy.to_box.offset[i] = copy.zero ? 5 - after : 5;
        copy.to_box.extent[i] = copy.region.extent[i] + (copy.zero ? 2 * after : 0);
    }
    copy.empty = copy.zero && number % 2;
    return copy;
}

/* What the copy leaves in its target, which holds ones. */
static int32_t *expected(const iso_box_copy *copy, int64_t count)
{
    int32_t *want = malloc((size_t)count * sizeof *want);
    for (int64_t i = 0; i < count; i++)
        want[i] = copy->zero ? 0 : 1;
    for (int64_t i = 0; !copy->empty && i < iso_box_count(&copy->region); i++) {
        int64_t position[ISO_MAX_RANK], at = i;
        for (int d = copy->region.rank - 1; d >= 0; at /= copy->region.extent[d--])
            position[d] = copy->region.offset[d] + at % copy->region.extent[d];
        want[index_in(&copy->to_box, position)] =
            ((const int32_t *)copy->from)[index_in(&copy->from_box, position)];
    }
    return want;
}

START_TEST(threads_copy_the_region)
{
    iso_thread_pool *pool;
    dice d = dice_for(7);
    check_ok(iso_thread_pool_create(3, true, &pool));
    for (int number = 0; number < CASES; number++) {
        iso_box_copy copy = random_copy(&d, number);
        const int64_t from = iso_box_count(&copy.from_box), to = iso_box_count(&copy.to_box);
        int32_t *source = malloc((size_t)from * sizeof *source),
                *target = malloc((size_t)to * sizeof *target);
        for (int64_t i = 0; i < from; i++)
            source[i] = (int32_t)(i + 2);
        copy.from = source;
        copy.to = target;
        int32_t *want = expected(&copy, to);
        for (int threads = 1; threads <= 3; threads += 2) {
            for (int64_t i = 0; i < to; i++)
                target[i] = 1;
            iso_box_copy_divide(&copy, threads > 1 ? pool : NULL);
            ck_assert_msg(memcmp(want, target, (size_t)to * sizeof *want) == 0, "case %d, %d threads", number,
                          threads);
        }
        free(want);
        free(source);
        free(target);
    }
    iso_thread_pool_destroy(pool);
}
END_TEST

int main(void)
{
    return RUN_TESTS("box_copy", 60, threads_copy_the_region);
}
