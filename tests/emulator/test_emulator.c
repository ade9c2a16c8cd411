/* The emulator of CUDA: kernels compute what they should in every order of threads and blocks, a barrier
 * that is left out shows in their results, and what CUDA does not define is reported. Ranks: 1 Sanitize: 1 */
#include <check.h>
#include <math.h>
#include <string.h>

#include "runtime/base/bf16.h"
#include "tests/emulator/emulator.h"
#include "tests/emulator/samples.h"
#include "tests/support/run_tests.h"

enum { ROWS = 7, COLUMNS = 301, INNER = 50, SEEDS = 3 };

static const float *numbers(int count, uint64_t seed)
{
    static float x[2][ROWS * COLUMNS + INNER * COLUMNS];
    float *filled = x[seed % 2];
    for (int i = 0; i < count; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        filled[i] = (float)(seed >> 40) * 0x1p-23f - 0.5f;
    }
    return filled;
}

static double largest_difference(int count, const float *got, const double *want)
{
    double largest = 0;
    for (int i = 0; i < count; i++) {
        double difference = fabs(got[i] - want[i]);
        largest = difference <= largest ? largest : difference; /* NaN stays */
    }
    return largest;
}

static bool row_sums_right(int missing)
{
    const float *x = numbers(ROWS * COLUMNS, 1);
    static float y[ROWS * COLUMNS];
    static double want[ROWS * COLUMNS];
    for (int r = 0; r < ROWS; r++) {
        double mean = 0, distance = 0;
        for (int c = 0; c < COLUMNS; c++)
            mean += x[r * COLUMNS + c] / (double)COLUMNS;
        for (int c = 0; c < COLUMNS; c++)
            distance += fabs(x[r * COLUMNS + c] - mean) / COLUMNS;
        for (int c = 0; c < COLUMNS; c++)
            want[r * COLUMNS + c] = (x[r * COLUMNS + c] - mean) / distance;
    }
    sample_row_sums(missing, ROWS, COLUMNS, x, y);
    return largest_difference(ROWS * COLUMNS, y, want) < 1e-4;
}

static bool columns_right(int missing)
{
    const float *x = numbers(INNER * COLUMNS, 2);
    float y[COLUMNS];
    double want[COLUMNS] = {0};
    for (int i = 0; i < INNER * COLUMNS; i++)
        want[i % COLUMNS] += x[i];
    sample_columns(missing, INNER, COLUMNS, x, y);
    return largest_difference(COLUMNS, y, want) < 1e-4;
}

static bool product_right(int missing)
{
    const float *a = numbers(ROWS * INNER, 1), *b = numbers(INNER * COLUMNS, 2);
    static float c[ROWS * COLUMNS];
    static double want[ROWS * COLUMNS];
    memset(want, 0, sizeof want);
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < INNER; k++)
            for (int j = 0; j < COLUMNS; j++)
                want[i * COLUMNS + j] += (double)a[i * INNER + k] * b[k * COLUMNS + j];
    sample_product(missing, ROWS, COLUMNS, INNER, a, b, c);
    return largest_difference(ROWS * COLUMNS, c, want) < 1e-4;
}

/* Whether the kernel with this barrier gives the right result without it. */
static bool right_without(int missing)
{
    bool right = missing <= SAMPLE_OF_SUMS     ? row_sums_right(missing)
                 : missing <= SAMPLE_OF_COLUMN ? columns_right(missing)
                                               : product_right(missing);
    ck_assert_ptr_null(emulator_error());
    return right;
}

/* In order, backward, and at random with several seeds. */
static void set_order(int number)
{
    emulator_set_order(number == 0   ? EMULATOR_IN_ORDER
                       : number == 1 ? EMULATOR_BACKWARD
                                     : EMULATOR_RANDOM,
                       (uint64_t)number);
}

START_TEST(kernels_are_right_in_every_order)
{
    for (int order = 0; order < 2 + SEEDS; order++) {
        set_order(order);
        ck_assert_msg(row_sums_right(0) && columns_right(0) && product_right(0), "wrong in order %d", order);
        ck_assert_ptr_null(emulator_error());
    }
}
END_TEST

START_TEST(random_orders_find_each_missing_barrier)
{
    for (int missing = 1; missing <= SAMPLE_BARRIERS; missing++)
        for (int seed = 0; seed < SEEDS; seed++) {
            set_order(2 + seed);
            ck_assert_msg(!right_without(missing), "barrier %d is not missed with seed %d", missing,
                          2 + seed);
        }
}
END_TEST

START_TEST(votes_and_atomics)
{
    for (int order = 0; order < 2 + SEEDS; order++) {
        int y[5] = {0}, total = 0, greatest = 0;
        set_order(order);
        sample_votes(5, y, &total, &greatest);
        ck_assert_ptr_null(emulator_error());
        for (int b = 0; b < 5; b++)
            ck_assert_int_eq(y[b], 4);
        ck_assert_int_eq(total, 64 * 65 / 2);
        ck_assert_int_eq(greatest, 63);
    }
}
END_TEST

enum { SIZE = 16 };

/* The operands of sample_fragments, and c = 1 + a b. */
typedef struct fragments_case {
    _Alignas(16) uint16_t a[SIZE * SIZE], b[SIZE * SIZE], b_rows[SIZE / 2 * SIZE];
    float c[SIZE * SIZE];
    double want[SIZE * SIZE];
} fragments_case;

static void begin_fragments(fragments_case *f)
{
    const float *x = numbers(2 * SIZE * SIZE, 3);
    for (int i = 0; i < SIZE * SIZE; i++) {
        f->a[i] = iso_bf16_of_float(x[i]);
        f->b[i] = iso_bf16_of_float(x[SIZE * SIZE + i]);
        f->c[i] = 1;
    }
    for (int i = 0; i < SIZE / 2 * SIZE; i++)
        f->b_rows[i] = f->b[i % SIZE * SIZE + SIZE / 2 + i / SIZE];
    for (int i = 0; i < SIZE * SIZE; i++) {
        f->want[i] = 1;
        for (int k = 0; k < SIZE; k++)
            f->want[i] += (double)iso_bf16_to_float(f->a[i / SIZE * SIZE + k]) *
                          iso_bf16_to_float(f->b[k * SIZE + i % SIZE]);
    }
}

/* In each order, with fragments that the lanes load in different ways. */
START_TEST(tensor_cores_multiply)
{
    for (int order = 0; order < 2 + SEEDS; order++)
        for (int how = SAMPLE_BY_ELEMENT; how <= SAMPLE_TOO_EARLY; how++) {
            fragments_case f;
            set_order(order);
            begin_fragments(&f);
            ck_assert_int_eq(sample_fragments((sample_loads)how, f.a, f.b, f.b_rows, f.c), 0);
            ck_assert_ptr_null(emulator_error());
            bool right = largest_difference(SIZE * SIZE, f.c, f.want) < 1e-6;
            ck_assert_msg(right == (how != SAMPLE_TOO_EARLY), "loads %d, order %d", how, order);
        }
}
END_TEST

START_TEST(matrices_at_odd_addresses_are_reported)
{
    fragments_case f;
    begin_fragments(&f);
    ck_assert_int_eq(sample_fragments(SAMPLE_ODD_ADDRESS, f.a, f.b, f.b_rows, f.c), 719);
    const char *text = emulator_error();
    ck_assert_ptr_nonnull(text);
    ck_assert_msg(strstr(text, "no multiple of 16") != NULL, "%s", text);
}
END_TEST

/* What the report of a fault says. */
static const struct {
    const char *parts[4];
    int error;
} reports[SAMPLE_FAULTS] = {
    [SAMPLE_DEADLOCK] = {{"deadlock: 64 of 64 threads are left", "wait at a barrier, (", "in deadlock at",
                          "samples.cu:"},
                         719},
    [SAMPLE_TWO_BARRIERS] = {{"threads of the block are at two barriers", "samples.cu:", "block (",
                              "thread ("},
                             719},
    [SAMPLE_PAST_SHARED] =
        {{"block (1 0 0), thread (3 0 0): it wrote past the 256 bytes of dynamic shared memory",
          "it met others last in past_shared at", "samples.cu:", ""},
         719},
    [SAMPLE_TWO_OPERATIONS] = {{"lanes of the warp are at two operations", "samples.cu:", "block (",
                                "thread ("},
                               719},
    [SAMPLE_OUTSIDE_MASK] = {{"a shuffle from lane 9, which is not in the mask 0000000f",
                              "in outside_mask at", "block (0 0 0), thread (", "samples.cu:"},
                             719},
    [SAMPLE_ENDED_LANE] = {{"deadlock: ", " wait for lanes of their warp", "in ended_lane at", "samples.cu:"},
                           719},
    [SAMPLE_TOO_MANY] = {{"a launch of 1 x 1 x 1 blocks of 1025 x 1 x 1 threads", "", "", ""}, 9},
};

START_TEST(faults_are_reported)
{
    for (int fault = 0; fault < SAMPLE_FAULTS; fault++)
        for (int order = 0; order < 2 + SEEDS; order++) {
            set_order(order);
            ck_assert_int_eq(sample_run_fault((sample_fault)fault), reports[fault].error);
            const char *text = emulator_error();
            ck_assert_msg(text != NULL, "fault %d is not reported in order %d", fault, order);
            for (int i = 0; i < 4; i++)
                ck_assert_msg(strstr(text, reports[fault].parts[i]) != NULL,
                              "fault %d, order %d: '%s' is not in '%s'", fault, order,
                              reports[fault].parts[i], text);
            ck_assert_msg(columns_right(0), "a kernel is wrong after fault %d", fault);
            ck_assert_ptr_null(emulator_error());
        }
}
END_TEST

START_TEST(shared_memory_is_nan_at_first)
{
    for (int i = 0; i < 2; i++) {
        uint32_t fixed = 0, dynamic = 0;
        sample_poison(&fixed, &dynamic);
        ck_assert_uint_eq(fixed, UINT32_MAX);
        ck_assert_uint_eq(dynamic, UINT32_MAX);
    }
}
END_TEST

int main(void)
{
    return RUN_TESTS("emulator", 60, kernels_are_right_in_every_order,
                     random_orders_find_each_missing_barrier, votes_and_atomics, tensor_cores_multiply,
                     matrices_at_odd_addresses_are_reported, faults_are_reported,
                     shared_memory_is_nan_at_first);
}
