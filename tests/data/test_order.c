/* The order of rows: batch, shuffle, split, cache and the cursor, against expectations worked out by hand and
 * an independent simulation of tf.data's shuffle. Ranks: 1 */
#include "runtime/base/random.h"
#include "runtime/session/session.h"
#include "tests/data/data_test.h"
#include "tests/support/run_tests.h"

START_TEST(test_batches_and_tail)
{
    iso_dataset *ds = numbers(NULL, 7);
    OK(iso_dataset_batch(ds, 3));
    ck_assert(iso_dataset_batched(ds));
    ck_assert_int_eq(iso_dataset_batches(ds), 3);
    ck_assert_int_eq(iso_dataset_rows(ds), 7);
    ck_assert_int_eq(iso_dataset_batch_size(ds), 3);
    EXPECT_EPOCH(ds, 0, 1, 2, -1, 3, 4, 5, -1, 6, -1);
    iso_dataset_destroy(ds);
}
END_TEST

START_TEST(test_drop_remainder)
{
    iso_dataset *ds = numbers(NULL, 7);
    OK(iso_dataset_batch(ds, 3, .drop_remainder = true));
    ck_assert_int_eq(iso_dataset_batches(ds), 2);
    ck_assert_int_eq(iso_dataset_rows(ds), 6);
    EXPECT_EPOCH(ds, 0, 1, 2, -1, 3, 4, 5, -1);
    iso_dataset_destroy(ds);
}
END_TEST

START_TEST(test_without_batch)
{
    iso_dataset *ds = numbers(NULL, 3);
    ck_assert(!iso_dataset_batched(ds));
    ck_assert_int_eq(iso_dataset_batch_size(ds), 1);
    EXPECT_EPOCH(ds, 0, -1, 1, -1, 2, -1);
    iso_dataset_destroy(ds);
}
END_TEST

START_TEST(test_end_and_rewind)
{
    iso_dataset *ds = numbers(NULL, 2);
    const iso_batch *batch = NULL;
    OK(iso_dataset_batch(ds, 2));
    EXPECT_EPOCH(ds, 0, 1, -1);
    OK(iso_dataset_next(ds, &batch));
    ck_assert_ptr_null(batch); /* stays at the end */
    OK(iso_dataset_rewind(ds, 1));
    EXPECT_EPOCH(ds, 0, 1, -1);
    FAILS(iso_dataset_rewind(ds, -1), "-1");
    iso_dataset_destroy(ds);
}
END_TEST

static void expect_permutation(const int32_t *words, int rows)
{
    bool seen[MOST_ROWS] = {false};
    for (int i = 0; i < rows; i++) {
        ck_assert(words[i] >= 0 && words[i] < rows && !seen[words[i]]);
        seen[words[i]] = true;
    }
}

/* Without the marks between batches. */
static int read_rows(iso_dataset *ds, int32_t *rows)
{
    int32_t words[2 * MOST_ROWS];
    int count = 0, all = read_epoch(ds, words);
    for (int i = 0; i < all; i++)
        if (words[i] >= 0)
            rows[count++] = words[i];
    return count;
}

START_TEST(test_shuffle_all)
{
    enum { ROWS = 500 };
    int32_t first[ROWS], second[ROWS], again[ROWS];
    iso_dataset *ds = numbers(NULL, ROWS), *other = numbers(NULL, ROWS);
    int64_t expected[ROWS];
    OK(iso_dataset_shuffle(ds, 0));
    OK(iso_dataset_batch(ds, 32));
    ck_assert_int_eq(read_rows(ds, first), ROWS);
    expect_permutation(first, ROWS);
    OK(iso_dataset_rewind(ds, 1));
    ck_assert_int_eq(read_rows(ds, second), ROWS);
    expect_permutation(second, ROWS);
    ck_assert(memcmp(first, second, sizeof first) != 0);
    OK(iso_dataset_rewind(ds, 0));
    ck_assert_int_eq(read_rows(ds, again), ROWS);
    ck_assert(memcmp(first, again, sizeof first) == 0);
    /* A buffer of all elements, or more, is the same; the batch plays no part; the seed of a program without
     * a context is 1337. */
    OK(iso_dataset_shuffle(other, ROWS + 3));
    OK(iso_dataset_batch(other, 7));
    read_rows(other, again);
    ck_assert(memcmp(first, again, sizeof first) == 0);
    iso_random_permutation(iso_random_key(1337, "shuffle/0"), 1, ROWS, expected);
    for (int i = 0; i < ROWS; i++)
        ck_assert_int_eq(second[i], expected[i]);
    iso_dataset_destroy(ds);
    iso_dataset_destroy(other);
}
END_TEST

START_TEST(test_shuffle_seed_and_once)
{
    enum { ROWS = 100 };
    int32_t a[ROWS], b[ROWS], c[ROWS];
    iso_dataset *ds = numbers(NULL, ROWS), *other = numbers(NULL, ROWS);
    OK(iso_dataset_shuffle(ds, 0, .seed = 5, .once = true));
    OK(iso_dataset_shuffle(other, 0));
    read_rows(ds, a);
    read_rows(other, b);
    OK(iso_dataset_rewind(ds, 3));
    read_rows(ds, c);
    ck_assert(memcmp(a, b, sizeof a) != 0);
    ck_assert(memcmp(a, c, sizeof a) == 0);
    iso_dataset_destroy(ds);
    iso_dataset_destroy(other);
}
END_TEST

/* An order that is the same in each epoch is another one. */
START_TEST(test_hash_knows_once)
{
    iso_dataset *ds = numbers(NULL, 10), *other = numbers(NULL, 10);
    OK(iso_dataset_shuffle(ds, 0));
    OK(iso_dataset_shuffle(other, 0, .once = true));
    ck_assert(iso_dataset_order(ds) != iso_dataset_order(other));
    iso_dataset_destroy(ds);
    iso_dataset_destroy(other);
}
END_TEST

/* The order that another seed of the context gives is known beforehand; a shuffle's own seed is not replaced. */
START_TEST(test_hash_with_another_seed)
{
    const uint64_t seed = iso_seed(NULL) + 8;
    iso_dataset *ds = numbers(NULL, 10), *other = numbers(NULL, 10), *plain = numbers(NULL, 10);
    OK(iso_dataset_shuffle(ds, 0));
    OK(iso_dataset_batch(ds, 2));
    OK(iso_dataset_shuffle(ds, 3));
    OK(iso_dataset_shuffle(other, 0, .seed = seed));
    OK(iso_dataset_batch(other, 2));
    OK(iso_dataset_shuffle(other, 3, .seed = seed));
    OK(iso_dataset_batch(plain, 2));
    ck_assert(iso_dataset_order(ds) != iso_dataset_order(other));
    ck_assert(iso_dataset_order_with_seed(ds, seed) == iso_dataset_order(other));
    ck_assert(iso_dataset_order_with_seed(ds, iso_seed(NULL)) == iso_dataset_order(ds));
    ck_assert(iso_dataset_order_with_seed(other, seed + 1) == iso_dataset_order(other));
    ck_assert(iso_dataset_order_with_seed(plain, seed) == iso_dataset_order(plain));
    iso_dataset_destroy(ds);
    iso_dataset_destroy(other);
    iso_dataset_destroy(plain);
}
END_TEST

/* tf.data's buffer, written down as its documentation says it: a list from which one at random leaves, and
 * the next element comes in its place; towards the end the last of the list takes it. */
static void simulate_shuffle(uint64_t key, uint64_t epoch, int buffer, int n, int32_t *out)
{
    int32_t *list = calloc((size_t)n + 1, sizeof *list);
    int length = 0, next = 0;
    while (length < buffer && next < n)
        list[length++] = next++;
    for (int i = 0; i < n; i++) {
        iso_philox w = iso_philox_draw(key, (uint64_t)i, epoch);
        double fraction = ((double)w.word[0] + (double)w.word[1] / 0x1p32) / 0x1p32;
        int at = (int)(fraction * length);
        out[i] = list[at];
        list[at] = next < n ? next++ : list[--length];
    }
    free(list);
}

START_TEST(test_shuffle_buffer)
{
    enum { ROWS = 300, BUFFER = 20 };
    int32_t rows[ROWS], expected[ROWS];
    iso_dataset *ds = numbers(NULL, ROWS);
    OK(iso_dataset_shuffle(ds, BUFFER));
    OK(iso_dataset_batch(ds, 16));
    for (int epoch = 0; epoch < 3; epoch++) {
        OK(iso_dataset_rewind(ds, epoch));
        ck_assert_int_eq(read_rows(ds, rows), ROWS);
        expect_permutation(rows, ROWS);
        for (int i = 0; i < ROWS; i++)
            ck_assert_int_lt(rows[i], i + BUFFER); /* nothing leaves before it came in */
        simulate_shuffle(iso_random_key(1337, "shuffle/0"), (uint64_t)epoch, BUFFER, ROWS, expected);
        for (int i = 0; i < ROWS; i++)
            ck_assert_msg(rows[i] == expected[i], "epoch %d, %d: %d, not %d", epoch, i, rows[i], expected[i]);
    }
    iso_dataset_destroy(ds);
}
END_TEST

START_TEST(test_shuffle_buffer_of_one)
{
    iso_dataset *ds = numbers(NULL, 5);
    OK(iso_dataset_shuffle(ds, 1));
    OK(iso_dataset_batch(ds, 5));
    EXPECT_EPOCH(ds, 0, 1, 2, 3, 4, -1);
    iso_dataset_destroy(ds);
}
END_TEST

/* Whole batches change places; the shorter one may come anywhere. */
START_TEST(test_shuffle_behind_batch)
{
    enum { ROWS = 23, BATCH = 4, BATCHES = 6 };
    int places = 0;
    iso_dataset *ds = numbers(NULL, ROWS);
    OK(iso_dataset_batch(ds, BATCH));
    OK(iso_dataset_shuffle(ds, 0));
    for (int epoch = 0; epoch < 40; epoch++) {
        int32_t words[64];
        bool seen[BATCHES] = {false};
        OK(iso_dataset_rewind(ds, epoch));
        ck_assert_int_eq(read_epoch(ds, words), ROWS + BATCHES);
        for (int i = 0, number = 0; i < ROWS + BATCHES; number++) {
            int batch = words[i] / BATCH, rows = batch == BATCHES - 1 ? ROWS % BATCH : BATCH;
            ck_assert_int_eq(words[i] % BATCH, 0);
            ck_assert(!seen[batch]);
            seen[batch] = true;
            for (int k = 0; k < rows; k++)
                ck_assert_int_eq(words[i + k], batch * BATCH + k);
            ck_assert_int_eq(words[i + rows], -1);
            i += rows + 1;
            if (batch == BATCHES - 1)
                places |= 1 << number;
        }
    }
    ck_assert_int_eq(places, (1 << BATCHES) - 1);
    iso_dataset_destroy(ds);
}
END_TEST

/* Rows are permuted, then batches, then batches once more, all within the same first shuffle's order. */
START_TEST(test_shuffles_compose)
{
    enum { ROWS = 10, BATCH = 4 };
    int64_t rows[ROWS], batches[3], more[3];
    int32_t expected[ROWS + 3];
    int count = 0;
    iso_dataset *ds = numbers(NULL, ROWS);
    OK(iso_dataset_shuffle(ds, 0));
    OK(iso_dataset_batch(ds, BATCH));
    OK(iso_dataset_shuffle(ds, 0));
    OK(iso_dataset_shuffle(ds, 0));
    iso_random_permutation(iso_random_key(1337, "shuffle/0"), 2, ROWS, rows);
    iso_random_permutation(iso_random_key(1337, "shuffle/1"), 2, 3, batches);
    iso_random_permutation(iso_random_key(1337, "shuffle/2"), 2, 3, more);
    for (int b = 0; b < 3; b++) {
        int64_t batch = batches[more[b]];
        for (int64_t i = batch * BATCH; i < ROWS && i < (batch + 1) * BATCH; i++)
            expected[count++] = (int32_t)rows[i];
        expected[count++] = -1;
    }
    OK(iso_dataset_rewind(ds, 2));
    expect_epoch(ds, expected, count);
    iso_dataset_destroy(ds);
}
END_TEST

START_TEST(test_split)
{
    iso_dataset *ds = numbers(NULL, 10), *last = NULL, *middle = NULL;
    OK(iso_dataset_split(ds, 3, &last));
    OK(iso_dataset_split(ds, 2, &middle));
    OK(iso_dataset_batch(ds, 4));
    OK(iso_dataset_batch(last, 2));
    ck_assert_int_eq(iso_dataset_rows(ds), 5);
    EXPECT_EPOCH(ds, 0, 1, 2, 3, -1, 4, -1);
    EXPECT_EPOCH(last, 7, 8, -1, 9, -1);
    iso_dataset_destroy(ds); /* the others stay */
    EXPECT_EPOCH(middle, 5, -1, 6, -1);
    OK(iso_dataset_shuffle(middle, 0));
    OK(iso_dataset_rewind(last, 1));
    EXPECT_EPOCH(last, 7, 8, -1, 9, -1);
    iso_dataset_destroy(last);
    iso_dataset_destroy(middle);
}
END_TEST

START_TEST(test_split_then_shuffle)
{
    int32_t rows[16];
    bool seen[10] = {false};
    iso_dataset *ds = numbers(NULL, 10), *last = NULL;
    OK(iso_dataset_split(ds, 4, &last));
    OK(iso_dataset_shuffle(last, 0));
    OK(iso_dataset_shuffle(last, 2));
    ck_assert_int_eq(read_rows(last, rows), 4);
    for (int i = 0; i < 4; i++) {
        ck_assert(rows[i] >= 6 && rows[i] < 10 && !seen[rows[i]]);
        seen[rows[i]] = true;
    }
    iso_dataset_destroy(ds);
    iso_dataset_destroy(last);
}
END_TEST

/* A cache behind a shuffle keeps one order, which then may be split. */
START_TEST(test_cache_keeps_order)
{
    enum { ROWS = 50 };
    int32_t a[ROWS], b[ROWS], head[ROWS], tail[ROWS];
    iso_dataset *ds = numbers(NULL, ROWS), *last = NULL;
    OK(iso_dataset_shuffle(ds, 0));
    OK(iso_dataset_cache(ds, NULL));
    OK(iso_dataset_rewind(ds, 4));
    read_rows(ds, a);
    OK(iso_dataset_rewind(ds, 5));
    read_rows(ds, b);
    ck_assert(memcmp(a, b, sizeof a) == 0);
    OK(iso_dataset_split(ds, 20, &last));
    ck_assert_int_eq(read_rows(ds, head), 30);
    ck_assert_int_eq(read_rows(last, tail), 20);
    ck_assert(memcmp(a, head, 30 * sizeof a[0]) == 0);
    ck_assert(memcmp(a + 30, tail, 20 * sizeof a[0]) == 0);
    /* A part has shuffles of its own. */
    int64_t own[20];
    OK(iso_dataset_shuffle(last, 0));
    OK(iso_dataset_rewind(last, 0));
    read_rows(last, b);
    iso_random_permutation(iso_random_key(1337, "shuffle/1"), 0, 20, own);
    for (int i = 0; i < 20; i++)
        ck_assert_int_eq(b[i], tail[own[i]]);
    /* A shuffle behind the cache changes with the epoch again. */
    OK(iso_dataset_shuffle(ds, 0));
    OK(iso_dataset_rewind(ds, 0));
    read_rows(ds, a);
    OK(iso_dataset_rewind(ds, 1));
    read_rows(ds, b);
    ck_assert(memcmp(a, b, 30 * sizeof a[0]) != 0);
    iso_dataset_destroy(ds);
    iso_dataset_destroy(last);
}
END_TEST

START_TEST(test_cursor)
{
    enum { ROWS = 45, BATCH = 8 };
    int32_t all[2 * ROWS], rest[2 * ROWS];
    const iso_batch *batch = NULL;
    iso_dataset *ds = numbers(NULL, ROWS), *resumed = numbers(NULL, ROWS);
    OK(iso_dataset_shuffle(ds, 0));
    OK(iso_dataset_batch(ds, BATCH));
    OK(iso_dataset_shuffle(resumed, 0));
    OK(iso_dataset_batch(resumed, BATCH));
    OK(iso_dataset_rewind(ds, 3));
    for (int i = 0; i < 2; i++)
        OK(iso_dataset_next(ds, &batch));
    int64_t position = iso_dataset_position(ds);
    ck_assert_int_eq(position, 3 * 6 + 2);
    OK(iso_dataset_seek(resumed, position));
    ck_assert_int_eq(iso_dataset_position(resumed), position);
    int words = read_epoch(ds, all);
    ck_assert_int_eq(words, ROWS - 2 * BATCH + 4);
    ck_assert_int_eq(read_epoch(resumed, rest), words);
    ck_assert(memcmp(all, rest, (size_t)words * sizeof all[0]) == 0);
    /* The end of an epoch is the beginning of the next. */
    OK(iso_dataset_seek(resumed, iso_dataset_position(ds)));
    OK(iso_dataset_rewind(ds, 4));
    words = read_epoch(ds, all);
    ck_assert_int_eq(read_epoch(resumed, rest), words);
    ck_assert(memcmp(all, rest, (size_t)words * sizeof all[0]) == 0);
    FAILS(iso_dataset_seek(ds, -3), "-3");
    iso_dataset_destroy(ds);
    iso_dataset_destroy(resumed);
}
END_TEST

/* A part of a batch is those rows of the whole, for every component. */
START_TEST(test_parts_of_a_batch)
{
    enum { ROWS = 40 };
    int32_t all[ROWS], part[ROWS];
    double labels[ROWS];
    const iso_batch *batch = NULL;
    iso_dataset *ds = numbers(NULL, ROWS);
    OK(iso_dataset_shuffle(ds, 0));
    OK(iso_dataset_batch(ds, ROWS));
    OK(iso_dataset_next(ds, &batch));
    ck_assert_int_eq(batch->rows, ROWS);
    ck_assert_int_eq(batch->n_components, 2);
    OK(batch->read(batch, 0, 0, ROWS, ISO_I32, all));
    for (int64_t begin = 0; begin < ROWS; begin += 7) {
        int64_t count = begin + 7 < ROWS ? 7 : ROWS - begin;
        OK(batch->read(batch, 0, begin, count, ISO_I32, part));
        OK(batch->read(batch, 1, begin, count, ISO_F64, labels));
        for (int64_t i = 0; i < count; i++) {
            ck_assert_int_eq(part[i], all[begin + i]);
            ck_assert(labels[i] == 100 + part[i]);
        }
    }
    OK(batch->read(batch, 0, ROWS, 0, ISO_I32, part)); /* a slot without rows */
    FAILS(batch->read(batch, 0, 30, 11, ISO_I32, part), "[30, 30 + 11)");
    FAILS(batch->read(batch, 2, 0, 1, ISO_I32, part), "component 2");
    iso_dataset_destroy(ds);
}
END_TEST

START_TEST(test_stage_errors)
{
    iso_dataset *ds = numbers(NULL, 10), *last = NULL;
    const iso_batch *batch = NULL;
    FAILS(iso_dataset_batch(ds, 0), "a batch of 0 rows");
    FAILS(iso_dataset_next(ds, &batch), "a batch of 0 rows"); /* it stays */
    FAILS(iso_dataset_shuffle(ds, 0), "a batch of 0 rows");
    iso_dataset_destroy(ds);
    ds = numbers(NULL, 10);
    FAILS(iso_dataset_batch(ds, 11, .drop_remainder = true), "10 rows give no batch of 11");
    iso_dataset_destroy(ds);
    ds = numbers(NULL, 10);
    FAILS(iso_dataset_shuffle(ds, -1), "-1");
    iso_dataset_destroy(ds);
    ds = numbers(NULL, 10);
    OK(iso_dataset_batch(ds, 3));
    FAILS(iso_dataset_batch(ds, 2), "batches of 3 rows already");
    iso_dataset_destroy(ds);
    ds = numbers(NULL, 10);
    OK(iso_dataset_batch(ds, 3));
    FAILS(iso_dataset_split(ds, 3, &last), "before batch");
    iso_dataset_destroy(ds);
    ds = numbers(NULL, 10);
    OK(iso_dataset_shuffle(ds, 0));
    FAILS(iso_dataset_split(ds, 3, &last), "exchange rows");
    iso_dataset_destroy(ds);
    for (int64_t rows = -1; rows <= 11; rows += rows == 0 ? 10 : 1) {
        ds = numbers(NULL, 10);
        FAILS(iso_dataset_split(ds, rows, &last), "1 to 9 of the 10");
        iso_dataset_destroy(ds);
    }
    ck_assert_ptr_null(last);
}
END_TEST

int main(void)
{
    return RUN_TESTS("order", 0, test_batches_and_tail, test_drop_remainder, test_without_batch,
                     test_end_and_rewind, test_shuffle_all, test_shuffle_seed_and_once, test_hash_knows_once,
                     test_hash_with_another_seed, test_shuffle_buffer, test_shuffle_buffer_of_one,
                     test_shuffle_behind_batch, test_shuffles_compose, test_split, test_split_then_shuffle,
                     test_cache_keeps_order, test_cursor, test_parts_of_a_batch, test_stage_errors);
}
