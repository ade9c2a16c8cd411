/* Maps, caches and prefetching: their order has meaning, threads do not change results, and nothing is made
 * twice or in vain. Ranks: 1 */
#include <pthread.h>

#include "tests/data/counted_map.h"
#include "tests/data/data_test.h"
#include "tests/support/run_tests.h"

START_TEST(test_map_of_rows)
{
    iso_dataset *ds = numbers(NULL, 5);
    OK(iso_dataset_map(ds, ten_times));
    OK(iso_dataset_batch(ds, 3));
    EXPECT_EPOCH(ds, 1, 11, 21, -1, 31, 41, -1);
    iso_dataset_destroy(ds);
}
END_TEST

START_TEST(test_map_of_batches)
{
    iso_dataset *ds = numbers(NULL, 5);
    OK(iso_dataset_batch(ds, 3));
    OK(iso_dataset_map(ds, ten_times));
    EXPECT_EPOCH(ds, 3, 13, 23, -1, 32, 42, -1);
    iso_dataset_destroy(ds);
}
END_TEST

/* Rows, then batches, then batches that change places, the shorter one among them. */
START_TEST(test_maps_of_both)
{
    int32_t words[16];
    iso_dataset *ds = numbers(NULL, 5);
    OK(iso_dataset_map(ds, ten_times));
    OK(iso_dataset_batch(ds, 2));
    OK(iso_dataset_shuffle(ds, 0));
    OK(iso_dataset_map(ds, ten_times));
    OK(iso_dataset_shuffle(ds, 0));
    OK(iso_dataset_map(ds, ten_times));
    for (int epoch = 0; epoch < 20; epoch++) {
        bool seen[3] = {false};
        OK(iso_dataset_rewind(ds, epoch));
        ck_assert_int_eq(read_epoch(ds, words), 8);
        for (int i = 0; i < 8;) {
            int batch = words[i] / 2000, rows = batch == 2 ? 1 : 2;
            ck_assert(!seen[batch]);
            seen[batch] = true;
            for (int k = 0; k < rows; k++)
                ck_assert_int_eq(words[i + k], 10 * (10 * (10 * (2 * batch + k) + 1) + rows) + rows);
            ck_assert_int_eq(words[i + rows], -1);
            i += rows + 1;
        }
    }
    iso_dataset_destroy(ds);
}
END_TEST

/* The rows that arrive at a map are those of this epoch's order, wherever the shuffle stands. */
START_TEST(test_map_follows_the_order)
{
    enum { ROWS = 50 };
    for (int place = 0; place < 3; place++) {
        iso_dataset *plain = numbers(NULL, ROWS), *ds = numbers(NULL, ROWS);
        for (int stage = 0; stage < 3; stage++) {
            if (stage == place)
                OK(iso_dataset_map(ds, ten_times));
            if (stage == 0)
                OK(iso_dataset_shuffle(ds, 0));
            if (stage == 1)
                OK(iso_dataset_batch(ds, 8));
        }
        OK(iso_dataset_shuffle(plain, 0));
        OK(iso_dataset_batch(plain, 8));
        for (int epoch = 0; epoch < 3; epoch++) {
            int32_t expected[2 * ROWS], words[2 * ROWS];
            OK(iso_dataset_rewind(plain, epoch));
            OK(iso_dataset_rewind(ds, epoch));
            int count = read_epoch(plain, expected);
            ck_assert_int_eq(read_epoch(ds, words), count);
            for (int i = 0; i < count; i++) {
                int rows = place < 2 ? 1 : i < count - 3 ? 8 : 2;
                ck_assert_int_eq(words[i], expected[i] < 0 ? -1 : 10 * expected[i] + rows);
            }
        }
        iso_dataset_destroy(plain);
        iso_dataset_destroy(ds);
    }
}
END_TEST

START_TEST(test_split_behind_shuffle_and_map)
{
    iso_dataset *ds = numbers(NULL, 10), *last = NULL;
    OK(iso_dataset_shuffle(ds, 0));
    OK(iso_dataset_map(ds, ten_times));
    FAILS(iso_dataset_split(ds, 3, &last), "exchange rows");
    ck_assert_ptr_null(last);
    iso_dataset_destroy(ds);
}
END_TEST

/* [] -> [2] of doubles, one component instead of two, and another type. */
static iso_status pair(const iso_element *in, void *const *out, void *user)
{
    double *to = out[0];
    to[0] = *(const int32_t *)in->data[0];
    to[1] = *(double *)user * (double)in->index + 1000 * (double)in->epoch;
    return ISO_OK;
}

START_TEST(test_map_declares_its_output)
{
    double half = 0.5, values[6];
    const iso_batch *batch = NULL;
    iso_dataset *ds = numbers(NULL, 3);
    OK(iso_dataset_map(ds, pair, .user = &half, .components = 1, .dtype = {ISO_F64},
                       .shape = {ISO_SHAPE(2)}));
    OK(iso_dataset_batch(ds, 3));
    ck_assert_int_eq(iso_dataset_components(ds), 1);
    ck_assert(iso_shape_equal(iso_dataset_shape(ds, 0), &ISO_SHAPE(2)));
    for (int epoch = 0; epoch < 2; epoch++) {
        OK(iso_dataset_rewind(ds, epoch));
        OK(iso_dataset_next(ds, &batch));
        OK(batch->read(batch, 0, 0, 3, ISO_F64, values));
        for (int i = 0; i < 3; i++) {
            ck_assert(values[2 * i] == i);
            ck_assert(values[2 * i + 1] == 0.5 * i + 1000 * epoch);
        }
    }
    iso_dataset_destroy(ds);
}
END_TEST

START_TEST(test_map_refuses)
{
    iso_dataset *ds = numbers(NULL, 3);
    FAILS(iso_dataset_map(ds, NULL), "function is NULL");
    iso_dataset_destroy(ds);
    ds = numbers(NULL, 3);
    FAILS(iso_dataset_map(ds, ten_times, .components = 3), "component 2 needs a shape and a type");
    iso_dataset_destroy(ds);
    ds = numbers(NULL, 3);
    FAILS(iso_dataset_map(ds, ten_times, .threads = -1), "-1 threads");
    iso_dataset_destroy(ds);
    ds = numbers(NULL, 3);
    FAILS(iso_dataset_map(ds, ten_times, .dtype = {ISO_F32}, .shape = {ISO_SHAPE(3, 0)}), "dimension 1 is 0");
    iso_dataset_destroy(ds);
}
END_TEST

START_TEST(test_map_error)
{
    for (int threads = 0; threads < 3; threads++) {
        int32_t values[4];
        const iso_batch *batch = NULL;
        iso_dataset *ds = numbers(NULL, 12);
        OK(iso_dataset_map(ds, fail_at_seven, .threads = threads));
        OK(iso_dataset_batch(ds, 4));
        OK(iso_dataset_prefetch(ds, 2));
        OK(iso_dataset_next(ds, &batch));
        OK(batch->read(batch, 0, 0, 4, ISO_I32, values));
        OK(iso_dataset_next(ds, &batch));
        OK(batch->read(batch, 0, 0, 3, ISO_I32, values)); /* the rows before it are fine */
        FAILS(batch->read(batch, 0, 0, 4, ISO_I32, values), "arrays: map of element 7: seven is not liked");
        FAILS(batch->read(batch, 0, 3, 1, ISO_I32, values), "seven is not liked");
        OK(iso_dataset_next(ds, &batch));
        OK(batch->read(batch, 0, 0, 4, ISO_I32, values));
        ck_assert_int_eq(values[3], 11);
        iso_dataset_destroy(ds);
    }
}
END_TEST

/* What nobody reads is not made, and what two components need is made once. */
START_TEST(test_map_is_lazy)
{
    int32_t values[8];
    uint8_t labels[8];
    const iso_batch *batch = NULL;
    iso_dataset *ds = numbers(NULL, 32);
    forget();
    OK(iso_dataset_map(ds, ten_times));
    OK(iso_dataset_batch(ds, 16));
    OK(iso_dataset_next(ds, &batch));
    OK(iso_dataset_next(ds, &batch));
    ck_assert_int_eq(calls, 0);
    OK(batch->read(batch, 0, 4, 8, ISO_I32, values));
    OK(batch->read(batch, 1, 4, 8, ISO_U8, labels));
    ck_assert_int_eq(calls, 8);
    for (int i = 0; i < 8; i++) {
        ck_assert_int_eq(values[i], 10 * (16 + 4 + i) + 1);
        ck_assert_int_eq(labels[i], 100 + 16 + 4 + i);
    }
    iso_dataset_destroy(ds);
}
END_TEST

/* Several threads read parts of one batch, as slots do. */
typedef struct reader {
    const iso_batch *batch;
    int64_t begin, count;
    int32_t *values;
    uint8_t *labels;
} reader;

static void *read_part(void *argument)
{
    reader *r = argument;
    OK(r->batch->read(r->batch, 0, r->begin, r->count, ISO_I32, r->values + r->begin));
    OK(r->batch->read(r->batch, 1, r->begin, r->count, ISO_U8, r->labels + r->begin));
    return NULL;
}

static void read_by_threads(const iso_batch *batch, int32_t *values, uint8_t *labels)
{
    enum { READERS = 4 };
    pthread_t thread[READERS];
    reader part[READERS];
    int64_t each = (batch->rows + READERS - 1) / READERS;
    for (int i = 0; i < READERS; i++) {
        int64_t begin = i * each < batch->rows ? i * each : batch->rows;
        part[i] =
            (reader){batch, begin, begin + each < batch->rows ? each : batch->rows - begin, values, labels};
        ck_assert_int_eq(pthread_create(&thread[i], NULL, read_part, &part[i]), 0);
    }
    for (int i = 0; i < READERS; i++)
        pthread_join(thread[i], NULL);
}

typedef iso_dataset *(*build_fn)(int threads, int prefetch);

static iso_dataset *map_rows(int threads, int prefetch)
{
    iso_dataset *ds = numbers(NULL, 150);
    OK(iso_dataset_shuffle(ds, 0));
    OK(iso_dataset_map(ds, ten_times, .threads = threads));
    OK(iso_dataset_shuffle(ds, 20));
    OK(iso_dataset_batch(ds, 16));
    OK(iso_dataset_prefetch(ds, prefetch));
    return ds;
}

static iso_dataset *map_batches(int threads, int prefetch)
{
    iso_dataset *ds = numbers(NULL, 150);
    OK(iso_dataset_shuffle(ds, 0));
    OK(iso_dataset_batch(ds, 16));
    OK(iso_dataset_map(ds, ten_times, .threads = threads));
    OK(iso_dataset_shuffle(ds, 0));
    OK(iso_dataset_prefetch(ds, prefetch));
    return ds;
}

static iso_dataset *cached_rows(int threads, int prefetch)
{
    iso_dataset *ds = numbers(NULL, 150);
    OK(iso_dataset_map(ds, ten_times, .threads = threads));
    OK(iso_dataset_cache(ds, NULL));
    OK(iso_dataset_shuffle(ds, 0));
    OK(iso_dataset_batch(ds, 16));
    OK(iso_dataset_prefetch(ds, prefetch));
    return ds;
}

static iso_dataset *cached_batches(int threads, int prefetch)
{
    iso_dataset *ds = numbers(NULL, 150);
    OK(iso_dataset_shuffle(ds, 0));
    OK(iso_dataset_batch(ds, 16));
    OK(iso_dataset_map(ds, ten_times, .threads = threads));
    OK(iso_dataset_cache(ds, NULL));
    OK(iso_dataset_shuffle(ds, 0));
    OK(iso_dataset_map(ds, ten_times));
    OK(iso_dataset_prefetch(ds, prefetch));
    return ds;
}

static const build_fn builds[] = {map_rows, map_batches, cached_rows, cached_batches};

/* Threads and prefetching change nothing but time. */
START_TEST(test_threads_change_nothing)
{
    for (int prefetch = 0; prefetch < 8; prefetch += 3)
        for (int threads = 0; threads < 4; threads++) {
            iso_dataset *plain = builds[_i](0, 0), *ds = builds[_i](threads, prefetch);
            for (int epoch = 0; epoch < 3; epoch++) {
                const iso_batch *expected = NULL, *batch = NULL;
                OK(iso_dataset_rewind(plain, epoch));
                OK(iso_dataset_rewind(ds, epoch));
                for (;;) {
                    int32_t values[16] = {0}, right[16] = {0};
                    uint8_t labels[16] = {0}, right_labels[16] = {0};
                    OK(iso_dataset_next(plain, &expected));
                    OK(iso_dataset_next(ds, &batch));
                    ck_assert_int_eq(!expected, !batch);
                    if (!batch)
                        break;
                    ck_assert_int_eq(batch->rows, expected->rows);
                    OK(expected->read(expected, 0, 0, expected->rows, ISO_I32, right));
                    OK(expected->read(expected, 1, 0, expected->rows, ISO_U8, right_labels));
                    read_by_threads(batch, values, labels);
                    ck_assert(memcmp(values, right, sizeof values) == 0);
                    ck_assert(memcmp(labels, right_labels, sizeof labels) == 0);
                    if (epoch == 1 && iso_dataset_position(ds) % 10 == 4)
                        break; /* leaves in the middle, with work going on */
                }
            }
            iso_dataset_destroy(plain);
            iso_dataset_destroy(ds);
        }
}
END_TEST

/* Prefetching makes the rows that this rank has read before, and no others. */
START_TEST(test_prefetch_makes_what_is_read)
{
    int32_t values[16];
    const iso_batch *batch = NULL;
    iso_dataset *ds = numbers(NULL, 64);
    forget();
    OK(iso_dataset_map(ds, ten_times, .threads = 2));
    OK(iso_dataset_batch(ds, 16));
    OK(iso_dataset_prefetch(ds, 2));
    OK(iso_dataset_next(ds, &batch));
    OK(batch->read(batch, 0, 4, 4, ISO_I32, values));
    for (int i = 0; i < 60000 && calls < 12; i++) /* a minute at most */
        usleep(1000);
    usleep(20000); /* nothing more comes */
    ck_assert_int_eq(calls, 12);
    for (int i = 0; i < 64; i++)
        ck_assert_int_eq(made[i], i < 48 && i % 16 >= 4 && i % 16 < 8);
    OK(iso_dataset_next(ds, &batch));
    OK(batch->read(batch, 0, 4, 4, ISO_I32, values));
    OK(iso_dataset_next(ds, &batch));
    OK(iso_dataset_next(ds, &batch));
    OK(batch->read(batch, 0, 4, 4, ISO_I32, values));
    ck_assert_int_eq(calls, 16);
    iso_dataset_destroy(ds);
}
END_TEST

START_TEST(test_cache_in_memory)
{
    int32_t words[64];
    iso_dataset *ds = cached_rows(_i, _i);
    forget();
    for (int epoch = 0; epoch < 4; epoch++) {
        const iso_batch *batch = NULL;
        OK(iso_dataset_rewind(ds, epoch));
        for (;;) {
            OK(iso_dataset_next(ds, &batch));
            if (!batch)
                break;
            OK(batch->read(batch, 0, 0, batch->rows, ISO_I32, words));
        }
    }
    ck_assert_int_eq(calls, 150);
    for (int i = 0; i < 150; i++)
        ck_assert_int_eq(made[i], 1);
    iso_dataset_destroy(ds);
}
END_TEST

static iso_status slow_ten_times(const iso_element *in, void *const *out, void *user)
{
    usleep(2000);
    return ten_times(in, out, user);
}

static void *read_everything(void *argument)
{
    reader *r = argument;
    OK(r->batch->read(r->batch, 0, 0, r->batch->rows, ISO_I32, r->values));
    return NULL;
}

/* Threads that want the same rows at once wait for the one that makes them: with a cache, and without. */
START_TEST(test_threads_that_want_the_same)
{
    enum { READERS = 4, ROWS = 12 };
    int32_t values[READERS][ROWS] = {{0}};
    pthread_t thread[READERS];
    reader r[READERS];
    const iso_batch *batch = NULL;
    iso_dataset *ds = numbers(NULL, ROWS);
    forget();
    OK(iso_dataset_map(ds, slow_ten_times));
    if (_i)
        OK(iso_dataset_cache(ds, NULL));
    OK(iso_dataset_batch(ds, ROWS));
    OK(iso_dataset_next(ds, &batch));
    for (int i = 0; i < READERS; i++) {
        r[i] = (reader){.batch = batch, .values = values[i]};
        ck_assert_int_eq(pthread_create(&thread[i], NULL, read_everything, &r[i]), 0);
    }
    for (int i = 0; i < READERS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < READERS * ROWS; i++)
        ck_assert_int_eq(values[i / ROWS][i % ROWS], 10 * (i % ROWS) + 1);
    ck_assert_int_eq(calls, ROWS);
    iso_dataset_destroy(ds);
}
END_TEST

/* A map between split and the source is shared; its results are those of each part. */
START_TEST(test_split_behind_map_and_cache)
{
    iso_dataset *ds = numbers(NULL, 6), *last = NULL;
    forget();
    OK(iso_dataset_map(ds, ten_times));
    OK(iso_dataset_cache(ds, NULL));
    OK(iso_dataset_split(ds, 2, &last));
    OK(iso_dataset_batch(ds, 3));
    EXPECT_EPOCH(last, 41, -1, 51, -1);
    EXPECT_EPOCH(ds, 1, 11, 21, -1, 31, -1);
    OK(iso_dataset_rewind(last, 1));
    EXPECT_EPOCH(last, 41, -1, 51, -1);
    ck_assert_int_eq(calls, 6);
    iso_dataset_destroy(ds);
    iso_dataset_destroy(last);
}
END_TEST

/* No step allocates. */
START_TEST(test_steps_allocate_nothing)
{
    iso_dataset *ds = builds[_i](1, 2);
    int32_t words[16];
    size_t held = 0, peak = 0;
    for (int epoch = 0; epoch < 3; epoch++) {
        const iso_batch *batch = NULL;
        OK(iso_dataset_rewind(ds, epoch));
        for (;;) {
            OK(iso_dataset_next(ds, &batch));
            if (!batch)
                break;
            OK(batch->read(batch, 0, 0, batch->rows, ISO_I32, words));
        }
        if (epoch < 2) {
            held = iso_memory_held();
            peak = iso_memory_peak();
        }
    }
    ck_assert_uint_eq(iso_memory_held(), held);
    ck_assert_uint_eq(iso_memory_peak(), peak);
    iso_dataset_destroy(ds);
    ck_assert_uint_eq(iso_memory_held(), 0);
}
END_TEST

int main(void)
{
    TCase *maps = tcase_create("maps");
    tcase_set_timeout(maps, 60);
    tcase_add_test(maps, test_map_of_rows);
    tcase_add_test(maps, test_map_of_batches);
    tcase_add_test(maps, test_maps_of_both);
    tcase_add_test(maps, test_map_follows_the_order);
    tcase_add_test(maps, test_split_behind_shuffle_and_map);
    tcase_add_loop_test(maps, test_threads_that_want_the_same, 0, 2);
    tcase_add_test(maps, test_map_declares_its_output);
    tcase_add_test(maps, test_map_refuses);
    tcase_add_test(maps, test_map_error);
    tcase_add_test(maps, test_map_is_lazy);
    tcase_add_loop_test(maps, test_threads_change_nothing, 0, 4);
    tcase_add_test(maps, test_prefetch_makes_what_is_read);
    tcase_add_loop_test(maps, test_cache_in_memory, 0, 3);
    tcase_add_test(maps, test_split_behind_map_and_cache);
    tcase_add_loop_test(maps, test_steps_allocate_nothing, 0, 4);
    Suite *suite = suite_create("pipeline");
    suite_add_tcase(suite, maps);
    return run_suite(suite);
}
