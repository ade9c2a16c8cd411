/* Masked tokens: how many are hidden and how, which never are, others in each epoch, and the same ones on any ranks,
 * threads and behind any stages. Ranks: 1, 3 */
#include <math.h>

#include "collectives/control/control.h"
#include "runtime/session/session.h"
#include "tests/data/data_test.h"
#include "tests/support/run_tests.h"

enum { ROWS = 400, LENGTH = 250, TOKENS = ROWS * LENGTH, VOCABULARY = 50, MASK = 4, ABSENT = -100 };

static iso_context *ctx;
static int32_t tokens[TOKENS]; /* any of the vocabulary */
static const int32_t special[] = {0, 2, 3};

static void make_tokens(void)
{
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = (int32_t)(iso_random_word(5, 0, (uint64_t)i) % VOCABULARY);
}

static bool is_special(int32_t token)
{
    return token == MASK || token == special[0] || token == special[1] || token == special[2];
}

static iso_dataset *rows_of(int64_t rows)
{
    iso_dataset *ds = NULL;
    OK(iso_dataset_arrays(ctx, &ds, .x = {tokens, ISO_I32, ISO_SHAPE(rows, LENGTH)}));
    return ds;
}

#define MASKED(ds, ...)                                                                                      \
    OK(iso_dataset_mask_tokens(ds, MASK, .vocabulary = VOCABULARY, .special = special, .special_count = 3,   \
                               __VA_ARGS__))

/* x and y of the rows of an epoch, in the order in which they come. */
static void read_rows(iso_dataset *ds, int64_t epoch, int32_t *x, int32_t *y)
{
    const iso_batch *batch = NULL;
    OK(iso_dataset_rewind(ds, epoch));
    for (int64_t at = 0;;) {
        OK(iso_dataset_next(ds, &batch));
        if (!batch)
            return;
        OK(batch->read(batch, 0, 0, batch->rows, ISO_I32, x + at));
        OK(batch->read(batch, 1, 0, batch->rows, ISO_I32, y + at));
        at += batch->rows * LENGTH;
    }
}

/* `hits` of `count` draws of probability p: within 4.5 standard deviations. */
static void check_part(const char *what, int hits, int count, double p)
{
    const double most = 4.5 * sqrt(count * p * (1 - p));
    ck_assert_msg(fabs(hits - count * p) <= most, "%s: %d of %d, not %g within %g", what, hits, count,
                  count * p, most);
}

static void check_statistics(double rate, double hidden, double random, const int32_t *x, const int32_t *y)
{
    int ordinary = 0, counted = 0, masked = 0, same = 0, drawn[VOCABULARY] = {0};
    for (int i = 0; i < TOKENS; i++) {
        ordinary += !is_special(tokens[i]);
        if (y[i] == ABSENT) {
            ck_assert_int_eq(x[i], tokens[i]);
            continue;
        }
        ck_assert_int_eq(y[i], tokens[i]); /* labels are the former tokens */
        ck_assert(!is_special(tokens[i]));
        ck_assert(x[i] >= 0 && x[i] < VOCABULARY);
        counted++;
        masked += x[i] == MASK;
        same += x[i] == tokens[i];
        drawn[x[i]] += x[i] != tokens[i];
    }
    /* A random token is the mask token, or the former one, once in VOCABULARY draws. */
    check_part("counted", counted, ordinary, rate);
    check_part("masked", masked, counted, hidden + random / VOCABULARY);
    check_part("same", same, counted, 1 - hidden - random + random / VOCABULARY);
    for (int token = 0; token < VOCABULARY; token++)
        if (token != MASK)
            check_part("drawn", drawn[token], counted,
                       random / VOCABULARY * (is_special(token) ? 1 : 1 - 1.0 / (VOCABULARY - 4)));
}

static int32_t x[TOKENS], y[TOKENS], other_x[TOKENS], other_y[TOKENS];

START_TEST(test_statistics)
{
    iso_dataset *ds = rows_of(ROWS), *more = rows_of(ROWS);
    MASKED(ds, .rate = 0);
    OK(iso_dataset_batch(ds, 64));
    read_rows(ds, 0, x, y);
    check_statistics(0.15, 0.8, 0.1, x, y);
    MASKED(more, .rate = 0.4, .hidden = ISO_ZERO, .random = 0.7, .seed = 9);
    read_rows(more, 0, x, y);
    check_statistics(0.4, 0, 0.7, x, y);
    ck_assert_int_eq(iso_dataset_inputs(more), 1);
    ck_assert_int_eq(iso_dataset_targets(more), 1);
    iso_dataset_destroy(more);
    iso_dataset_destroy(ds);
}
END_TEST

/* How many labels two data sets both have: chance alone, if what one hides says nothing of the other. */
static void check_independent(const int32_t *a, const int32_t *b)
{
    int ordinary = 0, both = 0;
    for (int i = 0; i < TOKENS; i++) {
        ordinary += !is_special(tokens[i]);
        both += a[i] != ABSENT && b[i] != ABSENT;
    }
    check_part("both", both, ordinary, 0.15 * 0.15);
}

START_TEST(test_epochs_and_seeds)
{
    iso_dataset *ds = rows_of(ROWS), *seeded = rows_of(ROWS), *once = rows_of(ROWS);
    MASKED(ds, .rate = 0);
    MASKED(seeded, .seed = iso_seed(ctx) + 1);
    MASKED(once, .once = true);
    read_rows(ds, 0, x, y);
    read_rows(ds, 1, other_x, other_y);
    check_independent(y, other_y);
    read_rows(seeded, 0, other_x, other_y);
    check_independent(y, other_y);
    read_rows(once, 3, other_x, other_y);
    ck_assert(memcmp(x, other_x, sizeof x) == 0 && memcmp(y, other_y, sizeof y) == 0);
    /* a row says nothing of the next one, nor a position */
    memcpy(other_y, y + LENGTH, sizeof y - LENGTH * sizeof *y);
    memcpy(other_y + TOKENS - LENGTH, y, LENGTH * sizeof *y);
    int both = 0, pairs = 0;
    for (int i = 0; i + LENGTH < TOKENS; i++) {
        pairs += !is_special(tokens[i]) && !is_special(tokens[i + LENGTH]);
        both += y[i] != ABSENT && other_y[i] != ABSENT;
    }
    check_part("next rows", both, pairs, 0.15 * 0.15);
    iso_dataset_destroy(once);
    iso_dataset_destroy(seeded);
    iso_dataset_destroy(ds);
}
END_TEST

/* Each row of a shuffled data set is masked as without a shuffle behind the stage; threads, batches, int64, shares of
 * the ranks, and the position from which a run goes on change nothing. */
START_TEST(test_same_anywhere)
{
    enum { FEW = 37, COUNT = FEW * LENGTH, SIZE = COUNT * sizeof(int32_t) };
    static int64_t wide[COUNT];
    iso_dataset *ds = rows_of(FEW), *batches = rows_of(FEW), *shares = NULL, *words = NULL;
    const int64_t begin = FEW * iso_rank(ctx) / iso_ranks(ctx),
                  end = FEW * (iso_rank(ctx) + 1) / iso_ranks(ctx);
    for (int i = 0; i < COUNT; i++)
        wide[i] = tokens[i];
    OK(iso_dataset_arrays(ctx, &words, .x = {wide, ISO_I64, ISO_SHAPE(FEW, LENGTH)}));
    OK(iso_dataset_arrays(ctx, &shares, .local = true,
                          .x = {tokens + begin * LENGTH, ISO_I32, ISO_SHAPE(end - begin, LENGTH)}));
    MASKED(ds, .rate = 0);
    MASKED(batches, .rate = 0);
    MASKED(words, .rate = 0);
    MASKED(shares, .rate = 0);
    OK(iso_dataset_batch(batches, 5));
    OK(iso_dataset_prefetch(batches, 2));
    read_rows(ds, 2, x, y);
    read_rows(batches, 2, other_x, other_y);
    ck_assert(memcmp(x, other_x, SIZE) == 0 && memcmp(y, other_y, SIZE) == 0);
    read_rows(words, 2, other_x, other_y);
    ck_assert(memcmp(x, other_x, SIZE) == 0 && memcmp(y, other_y, SIZE) == 0);

    /* one row of the shares after the other: each rank gets all rows */
    const iso_batch *batch = NULL;
    OK(iso_dataset_seek(shares, 2 * FEW + 3));
    for (int row = 3; row < FEW; row++) {
        OK(iso_dataset_next(shares, &batch));
        OK(batch->prepare(batch, &(iso_row_range){0, 1}, 1));
        OK(batch->read(batch, 0, 0, 1, ISO_I32, other_x));
        ck_assert_int_eq(memcmp(x + (size_t)row * LENGTH, other_x, LENGTH * sizeof *x), 0);
    }

    /* a shuffle behind it moves whole rows */
    OK(iso_dataset_shuffle(ds, 0));
    read_rows(ds, 2, other_x, other_y);
    ck_assert_int_ne(memcmp(x, other_x, SIZE), 0);
    for (int row = 0; row < FEW; row++) {
        int at = 0;
        while (at < FEW &&
               memcmp(x + (size_t)at * LENGTH, other_x + (size_t)row * LENGTH, LENGTH * sizeof *x) != 0)
            at++;
        ck_assert_int_lt(at, FEW);
    }
    iso_dataset_destroy(shares);
    iso_dataset_destroy(words);
    iso_dataset_destroy(batches);
    iso_dataset_destroy(ds);
}
END_TEST

/* A cache keeps the tokens of epoch 0. */
START_TEST(test_cached)
{
    iso_dataset *ds = rows_of(ROWS);
    MASKED(ds, .rate = 0);
    read_rows(ds, 0, x, y);
    OK(iso_dataset_cache(ds, NULL));
    read_rows(ds, 4, other_x, other_y);
    ck_assert(memcmp(x, other_x, sizeof x) == 0 && memcmp(y, other_y, sizeof y) == 0);
    iso_dataset_destroy(ds);
}
END_TEST

/* A run that is resumed by a newer version needs the same bits. The sum is that of the same formulas in Python, with
 * a Philox of its own. */
START_TEST(test_known_bits)
{
    iso_dataset *ds = rows_of(2);
    uint32_t sum = 0;
    MASKED(ds, .seed = 1);
    read_rows(ds, 1, x, y);
    for (int i = 0; i < 2 * LENGTH; i++)
        sum = 31 * sum + (uint32_t)(x[i] * 1000 + y[i]);
    ck_assert_uint_eq(sum, 1382586862);
    iso_dataset_destroy(ds);
}
END_TEST

/* The same settings on all ranks, or an error of all. */
START_TEST(test_ranks_agree)
{
    iso_dataset *ds = rows_of(ROWS), *same = rows_of(ROWS);
    if (iso_ranks(ctx) > 1) {
        MASKED(ds, .rate = iso_rank(ctx) == 1 ? 0.2 : 0.15);
        FAILS(iso_dataset_agree_order(ds, "the data"), "settings");
    }
    MASKED(same, .rate = 0.2);
    OK(iso_dataset_agree_order(same, "the data"));
    iso_dataset_destroy(same);
    iso_dataset_destroy(ds);
}
END_TEST

/* ---- what cannot be ---- */

#define REFUSED(text, ...)                                                                                   \
    do {                                                                                                     \
        iso_dataset *bad = rows_of(3);                                                                       \
        FAILS(iso_dataset_mask_tokens(bad, __VA_ARGS__), text);                                              \
        iso_dataset_destroy(bad);                                                                            \
    } while (0)

START_TEST(test_refuses_settings)
{
    REFUSED("the rate is 1.5", MASK, .vocabulary = VOCABULARY, .rate = 1.5);
    REFUSED("the rate is -0.1", MASK, .vocabulary = VOCABULARY, .rate = -0.1);
    REFUSED("the rate is 0", MASK, .vocabulary = VOCABULARY, .rate = ISO_ZERO);
    REFUSED("the rate is nan", MASK, .vocabulary = VOCABULARY, .rate = NAN);
    REFUSED("hidden is 0.8 and random is 0.3", MASK, .vocabulary = VOCABULARY, .random = 0.3);
    REFUSED("hidden is -1", MASK, .vocabulary = VOCABULARY, .hidden = -1);
    REFUSED("the vocabulary is 0", MASK, .rate = 0);
    REFUSED("the mask token is 50; it must be below the vocabulary, 50", VOCABULARY,
            .vocabulary = VOCABULARY);
    REFUSED("the mask token is -1", -1, .vocabulary = VOCABULARY);
    REFUSED("special[1] is 3; it must be below the vocabulary, 3", 1, .vocabulary = 3, .special = special + 1,
            .special_count = 2);
    REFUSED("special_count is 2, and special is NULL", MASK, .vocabulary = VOCABULARY, .special_count = 2);
    REFUSED("special_count is -1", MASK, .vocabulary = VOCABULARY, .special = special, .special_count = -1);
}
END_TEST

START_TEST(test_refuses_rows)
{
    static const float fractions[LENGTH];
    const iso_batch *batch = NULL;
    iso_dataset *ds = NULL;
    OK(iso_dataset_arrays(ctx, &ds, .x = {tokens, ISO_I32, ISO_SHAPE(3, 5)},
                          .y = {tokens, ISO_I32, ISO_SHAPE(3)}));
    FAILS(iso_dataset_mask_tokens(ds, MASK, .vocabulary = VOCABULARY), "has 2 components; it must have one");
    iso_dataset_destroy(ds);
    OK(iso_dataset_arrays(ctx, &ds, .x = {tokens, ISO_I32, ISO_SHAPE(3, 5, 2)}));
    FAILS(iso_dataset_mask_tokens(ds, MASK, .vocabulary = VOCABULARY),
          "is int32 [5, 2]; it must be integers, [t]");
    iso_dataset_destroy(ds);
    OK(iso_dataset_arrays(ctx, &ds, .x = {fractions, ISO_F32, ISO_SHAPE(3, 5)}));
    FAILS(iso_dataset_mask_tokens(ds, MASK, .vocabulary = VOCABULARY), "is float32 [5]; it must be integers");
    iso_dataset_destroy(ds);
    ds = rows_of(9);
    OK(iso_dataset_batch(ds, 3));
    FAILS(iso_dataset_mask_tokens(ds, MASK, .vocabulary = VOCABULARY), "mask tokens before batch");
    iso_dataset_destroy(ds);

    int32_t bad[] = {1, 5, 6, 7, 1, -1};
    for (int first = 3; first >= 0; first -= 3) { /* row 1 has the token 7, then row 1 has -1 */
        OK(iso_dataset_arrays(ctx, &ds, .x = {bad, ISO_I32, ISO_SHAPE(2, 3)}));
        OK(iso_dataset_mask_tokens(ds, 1, .vocabulary = 7));
        OK(iso_dataset_batch(ds, 2));
        OK(iso_dataset_next(ds, &batch));
        FAILS(batch->read(batch, 0, 0, 2, ISO_I32, x),
              first ? "map of element 1: token 7 at position 0 is not in 0 to 6 (the vocabulary)"
                    : "map of element 1: token -1 at position 2");
        iso_dataset_destroy(ds);
        bad[3] = 1;
    }
    const int64_t large[] = {1, 1, INT64_C(1) << 32};
    OK(iso_dataset_arrays(ctx, &ds, .x = {large, ISO_I64, ISO_SHAPE(1, 3)}));
    OK(iso_dataset_mask_tokens(ds, 1, .vocabulary = 7));
    OK(iso_dataset_next(ds, &batch));
    FAILS(batch->read(batch, 1, 0, 1, ISO_I32, x), "the token at position 2 is no value of int32");
    iso_dataset_destroy(ds);
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    make_tokens();
    if (status == ISO_OK &&
        RUN_TESTS("mask_tokens", 0, test_statistics, test_epochs_and_seeds, test_same_anywhere, test_cached,
                  test_known_bits, test_ranks_agree, test_refuses_settings, test_refuses_rows))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
