/* How much work the parts of an op have that threads divide: whole operands do not count, and parts that prepare them
 * are as large; scratch memory of blocks of rows; small products of a batch. Ranks: 1 */
#include "tests/backend/harness.h"
#include "tests/support/run_tests.h"

enum { THREADS = 16, LEAST = 1 << 16 /* bytes of a part */ };

/* The op's division, from shapes alone. False: one thread runs it. */
static bool divide(trial *t, iso_division *division, const iso_kernel **kernel, size_t *scratch)
{
    trial_op made;
    iso_kernel_call call = {.attrs = &t->attrs,
                            .n_inputs = t->inputs,
                            .n_outputs = t->outputs,
                            .in = t->in,
                            .out = t->out,
                            .info = &step_info};
    make_op(t, &made);
    *kernel = iso_backend_cpu()->find(t->op, &call);
    *scratch = (*kernel)->scratch ? (*kernel)->scratch(&call) : 0;
    return iso_division_choose(&made.op, *kernel, &call, THREADS, division);
}

static int64_t parts_of(trial *t, bool by_rows)
{
    iso_division division;
    const iso_kernel *kernel;
    size_t scratch;
    const int64_t parts = divide(t, &division, &kernel, &scratch) ? division.n_blocks : 1;
    ck_assert_msg(kernel->by_rows == by_rows, "%s: kernel %s", t->op, kernel->name);
    return parts;
}

static trial look_up(iso_dtype dtype, int64_t rows, int64_t columns, int64_t indices)
{
    trial t = {.op = "embedding"};
    t.attrs.embedding.rows = rows;
    input(&t, dtype, -1, 1, DIMS(rows, columns));
    t.in[0].global[0] = rows;
    input(&t, ISO_I32, 0, 1, DIMS(indices));
    output(&t, dtype, DIMS(indices, columns));
    return t;
}

START_TEST(whole_operands_do_not_count)
{
    trial few = look_up(ISO_F32, 100000, 64, 64), many = look_up(ISO_F32, 100000, 64, 4096);
    ck_assert_int_eq(parts_of(&few, true), 1);
    const int64_t bytes = 4096 * (64 + 1) * (int64_t)sizeof(float);
    ck_assert_int_eq(parts_of(&many, true), bytes / LEAST);
}
END_TEST

/* The table is converted to float32 in each part. */
START_TEST(converted_operands_are_no_larger_than_a_part)
{
    trial small = look_up(ISO_BF16, 100, 64, 40960), large = look_up(ISO_BF16, 10000, 64, 40960);
    const int64_t bytes = 40960 * (64 * 2 + 4);
    ck_assert_int_eq(parts_of(&small, true), 4 * THREADS);
    const int64_t parts = parts_of(&large, true);
    ck_assert_int_gt(parts, 1);
    ck_assert_int_le(parts * 10000 * 64 * 2, bytes);
}
END_TEST

/* b [n, k] is transposed in each part; in a batch of few products, each has its own. */
START_TEST(transposed_operands_are_no_larger_than_a_part)
{
    enum { M = 400, N = 8, K = 20000 };
    for (int batch = 0; batch < 2; batch++) {
        trial t = {.op = "matmul", .attrs.matmul.transpose_b = true};
        const int64_t a[] = {3, M, K}, b[] = {3, N, K}, c[] = {3, M, N};
        input(&t, ISO_F32, -1, 1, 2 + batch, a + !batch);
        input(&t, ISO_F32, -1, 1, 2 + batch, b + !batch);
        output(&t, ISO_F32, 2 + batch, c + !batch);
        const int64_t parts = parts_of(&t, true), products = batch ? 3 : 1;
        ck_assert_int_gt(parts, products);
        ck_assert_int_le(parts * N * K, products * M * (K + N));
    }
}
END_TEST

/* Blocks of few rows need scratch memory for these alone. */
START_TEST(blocks_of_a_recurrence_have_scratch_memory_of_their_rows)
{
    enum { ROWS = 640, STEPS = 10, UNITS = 64, BLOCKS = 16 };
    for (int gradient = 0; gradient < 2; gradient++) {
        trial t = {.op = gradient ? "recurrence_grad" : "recurrence"};
        t.attrs.recurrence = (iso_recurrence_attrs){.form = {.cell = ISO_CELL_SIMPLE}};
        if (!gradient)
            input(&t, ISO_F32, -1, 1, DIMS(ROWS, STEPS, UNITS));
        input(&t, ISO_F32, -1, 1, DIMS(UNITS, UNITS));
        for (int i = 0; i < 2 * gradient; i++)
            input(&t, ISO_F32, -1, 1, DIMS(ROWS, STEPS, UNITS));
        output(&t, ISO_F32, DIMS(ROWS, STEPS, UNITS));
        iso_division division;
        const iso_kernel *kernel;
        size_t scratch;
        ck_assert(divide(&t, &division, &kernel, &scratch));
        ck_assert_int_eq(division.n_blocks, BLOCKS);
        /* the state and the product of each row */
        const size_t of_rows = 2 * UNITS * sizeof(float) * (ROWS - ROWS / BLOCKS);
        ck_assert_uint_le(division.scratch + of_rows, scratch + 2048);
    }
}
END_TEST

/* Threads take many products of a batch at a time, each one call of the library. */
START_TEST(small_products_of_a_batch_are_taken_together)
{
    enum { COUNT = 100000, SIZE = 4, MOST = 10 };
    trial t = {.op = "matmul"};
    void *owner[MOST_ARRAYS];
    input(&t, ISO_F64, -1, 1, DIMS(COUNT, SIZE, SIZE));
    input(&t, ISO_F64, -1, 1, DIMS(COUNT, SIZE, SIZE));
    output(&t, ISO_F64, DIMS(COUNT, SIZE, SIZE));
    iso_division division;
    const iso_kernel *kernel;
    size_t scratch;
    ck_assert(divide(&t, &division, &kernel, &scratch));
    ck_assert_int_le(division.n_blocks, MOST);
    place_inputs(&t, 0, NULL, owner);
    result got = run_trial(&t, iso_backend_cpu(), 0);
    const double *a = t.in[0].data, *b = t.in[1].data, *c = got.out[0].data;
    for (int64_t e = 0; e < (int64_t)COUNT * SIZE * SIZE; e++) {
        const int64_t row = e / SIZE * SIZE, column = e / (SIZE * SIZE) * SIZE * SIZE + e % SIZE;
        double sum = 0;
        for (int64_t k = 0; k < SIZE; k++)
            sum += a[row + k] * b[column + k * SIZE];
        CHECK(fabs(sum - c[e]) <= 1e-14, "element %lld is %.17g, not %.17g", (long long)e, c[e], sum);
    }
    ck_assert(check_division(&t, &got));
    free_result(&t, &got);
    free_all(owner, t.inputs);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("division");
    TCase *tests = tcase_create("division");
    tcase_set_timeout(tests, 60);
    iso_cpu_limit_isa(iso_cpu_highest_isa());
    tcase_add_test(tests, whole_operands_do_not_count);
    tcase_add_test(tests, converted_operands_are_no_larger_than_a_part);
    tcase_add_test(tests, transposed_operands_are_no_larger_than_a_part);
    tcase_add_test(tests, blocks_of_a_recurrence_have_scratch_memory_of_their_rows);
    tcase_add_test(tests, small_products_of_a_batch_are_taken_together);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
