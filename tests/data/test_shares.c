/* Rows in shares on the ranks (.local): every stage gives what it gives for the same rows on all ranks,
 * whoever has them. Ranks: 1, 3, 8   More: 2 */
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>

#include "collectives/control/control.h"
#include "runtime/session/session.h"
#include "tests/data/data_test.h"
#include "tests/support/folder.h"
#include "tests/support/run_tests.h"

enum { ROWS = 53, WIDTH = 3 };

static iso_context *ctx;

/* x: [ROWS, WIDTH], y: [ROWS] bytes, as all ranks know them. */
static float x[ROWS * WIDTH];
static uint8_t y[ROWS];

static void fill(void)
{
    for (int i = 0; i < ROWS * WIDTH; i++)
        x[i] = (float)i * 0.25f;
    for (int i = 0; i < ROWS; i++)
        y[i] = (uint8_t)(200 - i);
}

/* ---- who has what ---- */

enum { ON_RANK_0, ON_THE_LAST, EVEN, UNEVEN, EVERY_OTHER, SHARES };

/* The rows [begin, begin + count) of this rank. */
static void cut(int kind, int64_t *begin, int64_t *count)
{
    int ranks = iso_ranks(ctx), rank = iso_rank(ctx);
    int64_t weight[64], all = 0, before = 0;
    for (int r = 0; r < ranks; r++) {
        weight[r] = kind == ON_RANK_0     ? r == 0
                    : kind == ON_THE_LAST ? r == ranks - 1
                    : kind == EVEN        ? 1
                    : kind == UNEVEN      ? 1 + (r * 7) % 5
                                          : r % 2 == 0;
        all += weight[r];
        before += r < rank ? weight[r] : 0;
    }
    *begin = ROWS * before / all;
    *count = ROWS * (before + weight[rank]) / all - *begin;
}

static iso_dataset *local(int kind, bool lend)
{
    iso_dataset *ds = NULL;
    int64_t begin, count;
    cut(kind, &begin, &count);
    if (count == 0 && kind == EVERY_OTHER) /* no arrays at all */
        OK(iso_dataset_arrays(ctx, &ds, .local = true));
    else
        OK(iso_dataset_arrays(ctx, &ds, .local = true, .lend = lend,
                              .x = {count ? x + begin * WIDTH : NULL, ISO_F32, ISO_SHAPE(count, WIDTH)},
                              .y = {count ? y + begin : NULL, ISO_U8, ISO_SHAPE(count)}));
    ck_assert_int_eq(iso_dataset_rows(ds), ROWS);
    return ds;
}

static iso_dataset *whole(void)
{
    iso_dataset *ds = NULL;
    OK(iso_dataset_arrays(ctx, &ds, .x = {x, ISO_F32, ISO_SHAPE(ROWS, WIDTH)},
                          .y = {y, ISO_U8, ISO_SHAPE(ROWS)}));
    return ds;
}

/* ---- pipelines ---- */

/* Twice the row, and what the epoch adds. */
static iso_status twice(const iso_element *in, void *const *out, void *user)
{
    const float *from = in->data[0];
    (void)user;
    for (int64_t i = 0; i < in->rows * WIDTH; i++)
        ((float *)out[0])[i] = 2 * from[i] + (float)in->epoch;
    memcpy(out[1], in->data[1], (size_t)in->rows);
    return ISO_OK;
}

static iso_status copy_row(const iso_element *in, void *const *out, void *user)
{
    const int64_t *bytes = user;
    memcpy(out[0], in->data[0], (size_t)(in->rows * *bytes));
    return ISO_OK;
}

static char folder[64];

static void stages(iso_dataset *ds, int kind)
{
    char path[128];
    snprintf(path, sizeof path, "%s/cache", folder);
    if (kind == 1 || kind == 2 || kind == 7)
        OK(iso_dataset_shuffle(ds, kind == 7 ? 10 : 0, .seed = 5));
    if (kind == 2)
        OK(iso_dataset_map(ds, twice, .threads = 2));
    if (kind == 3)
        OK(iso_dataset_map(ds, twice));
    if (kind == 3)
        OK(iso_dataset_cache(ds, NULL));
    if (kind == 3)
        OK(iso_dataset_shuffle(ds, 0));
    if (kind == 6)
        OK(iso_dataset_map(ds, twice, .threads = 2));
    if (kind == 6)
        OK(iso_dataset_cache(ds, path));
    OK(iso_dataset_batch(ds, kind == 4 ? ROWS + 1 : 8, .drop_remainder = kind == 1));
    if (kind == 5)
        OK(iso_dataset_map(ds, twice));
    if (kind == 5)
        OK(iso_dataset_shuffle(ds, 0));
    if (kind == 2 || kind == 5)
        OK(iso_dataset_prefetch(ds, 3));
}
enum { KINDS = 8 };

/* Some rows of a batch: other parts on each rank, none on some. */
static int parts_of(int64_t rows, iso_row_range *range)
{
    int rank = iso_rank(ctx);
    if (rank == 1)
        return 0;
    if (rank == 2 && rows > 4) {
        range[0] = (iso_row_range){1, 1};
        range[1] = (iso_row_range){3, rows - 4};
        return 2;
    }
    range[0] = (iso_row_range){0, rows};
    return 1;
}

static void compare_batches(const iso_batch *a, const iso_batch *b)
{
    float have[ROWS * WIDTH], want[ROWS * WIDTH];
    int32_t labels[ROWS], wanted[ROWS];
    iso_row_range range[2];
    int ranges = parts_of(a->rows, range);
    ck_assert_int_eq(a->rows, b->rows);
    if (b->prepare)
        OK(b->prepare(b, range, ranges));
    for (int i = 0; i < ranges; i++) {
        int64_t begin = range[i].begin, count = range[i].count;
        iso_box part = {.rank = 1, .offset = {1}, .extent = {2}};
        OK(a->read(a, 0, begin, count, ISO_F32, want));
        OK(b->read(b, 0, begin, count, ISO_F32, have));
        ck_assert(!memcmp(want, have, (size_t)count * WIDTH * sizeof(float)));
        OK(a->read(a, 1, begin, count, ISO_I32, wanted));
        OK(b->read(b, 1, begin, count, ISO_I32, labels));
        ck_assert(!memcmp(wanted, labels, (size_t)count * sizeof(int32_t)));
        OK(a->read_part(a, 0, begin, count, &part, ISO_F32, want));
        OK(b->read_part(b, 0, begin, count, &part, ISO_F32, have));
        ck_assert(!memcmp(want, have, (size_t)count * 2 * sizeof(float)));
    }
}

/* The rest of the epoch of both. */
static void compare(iso_dataset *a, iso_dataset *b)
{
    for (;;) {
        const iso_batch *one, *other;
        OK(iso_dataset_next(a, &one));
        OK(iso_dataset_next(b, &other));
        ck_assert((one == NULL) == (other == NULL));
        if (!one)
            return;
        compare_batches(one, other);
    }
}

static void remove_cache(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/cache", folder);
    OK(iso_agree(ctx, ISO_OK));
    if (iso_rank(ctx) == 0)
        unlink(path);
    OK(iso_agree(ctx, ISO_OK));
}

START_TEST(test_stages)
{
    for (int kind = 0; kind < KINDS; kind++)
        for (int shares = 0; shares < SHARES; shares++) {
            iso_dataset *a = whole(), *b = local(shares, kind % 2);
            remove_cache();
            stages(a, kind);
            remove_cache();
            stages(b, kind);
            ck_assert_int_eq(iso_dataset_batches(a), iso_dataset_batches(b));
            ck_assert(iso_dataset_order(a) == iso_dataset_order(b));
            for (int epoch = 0; epoch < 2; epoch++) {
                OK(iso_dataset_rewind(a, epoch));
                OK(iso_dataset_rewind(b, epoch));
                compare(a, b);
            }
            int64_t position = 2 * iso_dataset_batches(a) + iso_dataset_batches(a) / 2;
            OK(iso_dataset_seek(a, position));
            OK(iso_dataset_seek(b, position));
            compare(a, b);
            iso_dataset_destroy(a);
            iso_dataset_destroy(b);
        }
}
END_TEST

/* A file that a run has made serves the next, whoever has the rows then. */
START_TEST(test_cache_file_is_used_again)
{
    iso_dataset *a = NULL, *b = NULL;
    char path[128];
    size_t held = iso_memory_held();
    struct stat first, now;
    snprintf(path, sizeof path, "%s/again", folder);
    for (int shares = 0; shares < SHARES; shares++) {
        b = local(shares, false);
        OK(iso_dataset_shuffle(b, 0, .once = true));
        OK(iso_dataset_cache(b, path));
        OK(iso_dataset_batch(b, 7));
        iso_dataset_destroy(b);
        ck_assert(stat(path, shares ? &now : &first) == 0);
        ck_assert(shares == 0 || now.st_ino == first.st_ino);
    }
    a = whole();
    b = local(EVEN, false);
    OK(iso_dataset_shuffle(b, 0, .once = true));
    OK(iso_dataset_cache(b, path));
    OK(iso_dataset_batch(b, 7));
    OK(iso_dataset_shuffle(a, 0, .once = true));
    OK(iso_dataset_batch(a, 7));
    compare(a, b);
    iso_dataset_destroy(b);
    iso_dataset_destroy(a);
    ck_assert_uint_eq(iso_memory_held(), held);
}
END_TEST

/* The two parts of a split share one source; each has what it needs while both are read in turn. */
START_TEST(test_split)
{
    for (int shares = 0; shares < SHARES; shares++) {
        iso_dataset *a = whole(), *b = local(shares, false), *last_a, *last_b;
        OK(iso_dataset_split(a, 11, &last_a));
        OK(iso_dataset_split(b, 11, &last_b));
        for (int i = 0; i < 2; i++) {
            iso_dataset *training = i ? b : a, *rest = i ? last_b : last_a;
            OK(iso_dataset_shuffle(training, 0));
            OK(iso_dataset_map(training, twice, .threads = 1));
            OK(iso_dataset_batch(training, 5));
            OK(iso_dataset_prefetch(training, 2));
            OK(iso_dataset_batch(rest, 4));
        }
        for (int epoch = 0; epoch < 2; epoch++) {
            const iso_batch *one, *other;
            for (int i = 0; i < 3; i++) { /* not to its end */
                OK(iso_dataset_next(a, &one));
                OK(iso_dataset_next(b, &other));
                compare_batches(one, other);
            }
            compare(last_a, last_b);
            OK(iso_dataset_rewind(last_a, epoch + 1));
            OK(iso_dataset_rewind(last_b, epoch + 1));
        }
        compare(a, b);
        iso_dataset_destroy(b); /* before the other half */
        iso_dataset_rewind(last_a, 0);
        iso_dataset_rewind(last_b, 0);
        compare(last_a, last_b);
        iso_dataset_destroy(last_b);
        iso_dataset_destroy(a);
        iso_dataset_destroy(last_a);
    }
}
END_TEST

/* What a rank holds beside its share is the rows of a batch. */
START_TEST(test_memory)
{
    enum { MANY = 2000, WIDE = 100 };
    int ranks = iso_ranks(ctx);
    int64_t begin, count;
    iso_part_range(MANY, ranks, iso_rank(ctx), &begin, &count);
    float *mine = calloc((size_t)count * WIDE + 1, sizeof *mine);
    iso_dataset *ds = NULL;
    const iso_batch *batch;
    size_t before = iso_memory_held(), most = 0;
    OK(iso_dataset_arrays(ctx, &ds, .local = true, .lend = true,
                          .x = {mine, ISO_F32, ISO_SHAPE(count, WIDE)}));
    OK(iso_dataset_shuffle(ds, 0));
    OK(iso_dataset_batch(ds, 20));
    for (OK(iso_dataset_next(ds, &batch)); batch; OK(iso_dataset_next(ds, &batch))) {
        OK(batch->prepare(batch, &(iso_row_range){0, 20}, 1));
        most = iso_memory_held() > most ? iso_memory_held() : most;
    }
    size_t order = 3 * MANY * sizeof(int64_t), rows = 4 * 20 * WIDE * sizeof(float);
    ck_assert_msg(most - before < order + rows * (size_t)(1 + ranks) + 65536, "%zu bytes held",
                  most - before);
    iso_dataset_destroy(ds);
    free(mine);
}
END_TEST

/* ---- errors ---- */

static void expect_error(iso_status status, const char *text)
{
    ck_assert_int_eq(status, ISO_INVALID);
    ck_assert_msg(strstr(iso_error_message(), text), "'%s' is not in '%s'", text, iso_error_message());
    iso_status agreed = iso_agree(ctx, status);
    ck_assert_int_eq(agreed, ISO_INVALID);
}

START_TEST(test_shares_that_do_not_fit)
{
    iso_dataset *ds = NULL;
    int ranks = iso_ranks(ctx);
    bool odd = iso_rank(ctx) == ranks - 1 && ranks > 1;
    char text[200];
    expect_error(iso_dataset_arrays(ctx, &ds, .local = true), "no rank has a row");
    expect_error(iso_dataset_arrays(ctx, &ds, .local = true, .x = {NULL, ISO_F32, ISO_SHAPE(0, 3)}),
                 "no rank has a row");
    expect_error(iso_dataset_arrays(ctx, &ds, .local = true, .x = {x, ISO_F32, ISO_SHAPE(4, 3)},
                                    .y = {y, ISO_U8, ISO_SHAPE(3)}),
                 "y has 3 rows, x has 4");
    expect_error(iso_dataset_arrays(ctx, &ds, .local = true, .x = {NULL, ISO_F32, ISO_SHAPE(4, 3)}),
                 "has no data");
    expect_error(iso_dataset_arrays(ctx, &ds, .local = true, .x = {x, ISO_F32, ISO_SHAPE(INT64_MAX, 3)}),
                 "overflow");
    if (ranks == 1)
        return;
    expect_error(iso_dataset_arrays(ctx, &ds, .local = true, .lend = true,
                                    .x = {x, ISO_U8, ISO_SHAPE(INT64_MAX / ranks + 1)}),
                 "overflow");
    snprintf(text, sizeof text,
             "rank 0 has '%d rows of 1 + 0 components: float32 [3]', rank %d has '%d rows of 1 + "
             "0 components: float32 [4]'",
             2 * ranks, ranks - 1, 2 * ranks);
    expect_error(iso_dataset_arrays(ctx, &ds, .local = true, .x = {x, ISO_F32, ISO_SHAPE(2, odd ? 4 : 3)}),
                 text);
    expect_error(
        iso_dataset_arrays(ctx, &ds, .local = true, .x = {x, odd ? ISO_I32 : ISO_F32, ISO_SHAPE(2, 3)}),
        "int32 [3]");
    expect_error(iso_dataset_arrays(ctx, &ds, .local = odd, .x = {x, ISO_F32, ISO_SHAPE(2, 3)}),
                 "rank 0 has 'no .local'");
    ck_assert_ptr_null(ds);
}
END_TEST

/* Rows that nobody asked for are not at hand; the message says what to do. */
START_TEST(test_reading_unprepared)
{
    float out[ROWS * WIDTH];
    const iso_batch *batch;
    iso_dataset *ds = local(EVEN, false);
    OK(iso_dataset_batch(ds, ROWS));
    OK(iso_dataset_next(ds, &batch));
    iso_status status = batch->read(batch, 0, 0, ROWS, ISO_F32, out);
    ck_assert_int_eq(status, iso_ranks(ctx) > 1 ? ISO_INVALID : ISO_OK);
    if (status != ISO_OK)
        ck_assert_msg(strstr(iso_error_message(), "prepare"), "%s", iso_error_message());
    status =
        batch->prepare(batch, &(iso_row_range){0, ROWS + 1}, 1); /* too many: an error, and no rank waits */
    ck_assert_int_eq(status, ISO_INVALID);
    iso_dataset_destroy(ds);
}
END_TEST

/* A rank that wants nothing, or has failed, serves the others. */
START_TEST(test_taking_part)
{
    float out[ROWS * WIDTH];
    const iso_batch *batch;
    iso_dataset *ds = local(ON_RANK_0, false);
    OK(iso_dataset_batch(ds, ROWS));
    if (iso_rank(ctx) == 0) {
        OK(iso_dataset_serve(ds));
    } else {
        OK(iso_dataset_next(ds, &batch));
        OK(batch->prepare(batch, &(iso_row_range){0, ROWS}, 1));
        OK(batch->read(batch, 0, 0, ROWS, ISO_F32, out));
        ck_assert(!memcmp(out, x, sizeof x));
    }
    iso_dataset_destroy(ds);
}
END_TEST

START_TEST(test_check)
{
    for (int bad = -1; bad < ROWS; bad += 26)
        for (int shares = 0; shares < SHARES; shares++) {
            fill();
            if (bad >= 0)
                x[bad * WIDTH + 1] = bad % 2 ? INFINITY : NAN;
            iso_dataset *ds = local(shares, false);
            OK(iso_dataset_shuffle(ds, 0));
            OK(iso_dataset_map(ds, twice));
            OK(iso_dataset_batch(ds, 4));
            iso_status status = iso_dataset_check(ds);
            ck_assert_int_eq(status, bad < 0 ? ISO_OK : ISO_INVALID);
            if (bad >= 0)
                ck_assert_msg(strstr(iso_error_message(), bad % 2 ? ": inf" : "nan"), "%s",
                              iso_error_message());
            iso_dataset_destroy(ds);
        }
    fill();
}
END_TEST

static void set_up(void)
{
    OK(make_test_folder(ctx, folder));
    fill();
}

static void tear_down(void)
{
    OK(remove_test_folder(ctx, folder));
}

/* Rows so long that a cache is written in several rounds, by ranks that map with different numbers of threads. */
START_TEST(test_cache_of_long_rows)
{
    enum { LONG_ROWS = 24, LONG = 150000 };
    int64_t begin = LONG_ROWS * iso_rank(ctx) / iso_ranks(ctx);
    int64_t count = LONG_ROWS * (iso_rank(ctx) + 1) / iso_ranks(ctx) - begin;
    float *rows = calloc((size_t)count * LONG, sizeof *rows), *row = malloc(LONG * sizeof *row);
    iso_dataset *ds = NULL;
    const iso_batch *batch = NULL;
    int64_t bytes = LONG * sizeof *row;
    char path[128];
    ck_assert(rows && row);
    for (int64_t i = 0; i < count * LONG; i++)
        rows[i] = (float)(begin + i / LONG) + (float)(i % LONG) / LONG;
    snprintf(path, sizeof path, "%s/long", folder);
    OK(iso_dataset_arrays(ctx, &ds, .local = true, .x = {rows, ISO_F32, ISO_SHAPE(count, LONG)}));
    OK(iso_dataset_map(ds, copy_row, .user = &bytes, .threads = iso_rank(ctx) + 1));
    OK(iso_dataset_cache(ds, path));
    OK(iso_dataset_batch(ds, 1));
    for (int64_t i = 0; i < LONG_ROWS; i++) {
        OK(iso_dataset_next(ds, &batch));
        OK(batch->read(batch, 0, 0, 1, ISO_F32, row));
        for (int64_t k = 0; k < LONG; k++)
            ck_assert(row[k] == (float)i + (float)k / LONG);
    }
    iso_dataset_destroy(ds);
    free(rows);
    free(row);
}
END_TEST

int main(int argc, char **argv)
{
    if (iso_init(&argc, &argv, &ctx) != ISO_OK)
        return iso_finish(ctx, ISO_INVALID);
    int code = RUN_TESTS_WITH("shares", 120, set_up, tear_down, test_stages, test_cache_file_is_used_again,
                              test_cache_of_long_rows, test_split, test_memory, test_shares_that_do_not_fit,
                              test_reading_unprepared, test_taking_part, test_check);
    int end = iso_finish(ctx, ISO_OK);
    return code ? code : end;
}
