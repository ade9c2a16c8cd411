/* Large products, which libraries compute in blocks: near the exact product, and with the same bits on one thread and
 * on 2, 3 and 5. Ranks: 1 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/cpu/product.h"
#include "runtime/backend/division.h"
#include "runtime/base/memory.h"
#include "runtime/graph/ops/attrs.h"
#include "runtime/graph/ops/list.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

/* m, n, k, and how many products; the second is wide, the third tall, the last are many small ones. */
static const int64_t sizes[][4] = {
    {700, 911, 450, 1}, {33, 20011, 500, 1}, {9001, 65, 480, 1}, {513, 384, 1500, 1}, {40, 50, 60, 37}};
enum { SIZES = sizeof sizes / sizeof *sizes, FORMS = 3 };

typedef struct product_case {
    iso_product p;
    int64_t count;
    iso_dtype dtype;
    iso_matmul_attrs attrs;
    iso_array in[2], out;
} product_case;

static iso_array make_operand(iso_dtype dtype, int64_t count, int64_t rows, int64_t columns, bool transposed)
{
    iso_array array = {.dtype = dtype, .rank = count > 1 ? 3 : 2};
    const int64_t dim[] = {count, transposed ? columns : rows, transposed ? rows : columns};
    memcpy(array.dim, dim + 3 - array.rank, (size_t)array.rank * sizeof *dim);
    memcpy(array.global, array.dim, sizeof array.dim);
    check_ok(iso_alloc(iso_array_bytes(&array), "an operand", &array.data));
    return array;
}

static double element(const iso_array *array, int64_t i)
{
    return array->dtype == ISO_F32 ? (double)((const float *)array->data)[i]
                                   : ((const double *)array->data)[i];
}

static void fill(const iso_array *array)
{
    static uint64_t state = 1;
    for (int64_t i = 0; i < iso_array_count(array); i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        double value = (double)(state >> 40) * 0x1p-24 - 0.5;
        if (array->dtype == ISO_F32)
            ((float *)array->data)[i] = (float)value;
        else
            ((double *)array->data)[i] = value;
    }
}

static product_case make_case(int size, int form, iso_dtype dtype)
{
    const int64_t *s = sizes[size];
    product_case c = {
        .p = {.m = s[0], .n = s[1], .k = s[2], .transpose_a = form == 2, .transpose_b = form == 1},
        .count = s[3],
        .dtype = dtype};
    c.attrs = (iso_matmul_attrs){.transpose_a = c.p.transpose_a, .transpose_b = c.p.transpose_b};
    c.in[0] = make_operand(dtype, c.count, c.p.m, c.p.k, c.p.transpose_a);
    c.in[1] = make_operand(dtype, c.count, c.p.k, c.p.n, c.p.transpose_b);
    c.out = make_operand(dtype, c.count, c.p.m, c.p.n, false);
    fill(&c.in[0]);
    fill(&c.in[1]);
    return c;
}

static void give_back(product_case *c)
{
    iso_free(c->in[0].data);
    iso_free(c->in[1].data);
    iso_free(c->out.data);
}

/* Every so many elements. The bound of a sum of k terms in any order is about k/2 units in the last place of the sum
 * of their sizes (Higham 2002, section 3.1); rounding errors cancel, so that a few units are enough. */
static void check_elements(const product_case *c)
{
    const iso_product *p = &c->p;
    const int64_t each = p->m * p->n, all = c->count * each, step = all / 2999 + 1;
    const double unit = c->dtype == ISO_F32 ? 0x1p-24 : 0x1p-53;
    for (int64_t e = 0; e < all; e += step) {
        const int64_t of = e / each, i = e % each / p->n, j = e % p->n;
        double want = 0, size = 0;
        for (int64_t l = 0; l < p->k; l++) {
            double term =
                element(&c->in[0], of * p->m * p->k + (p->transpose_a ? l * p->m + i : i * p->k + l)) *
                element(&c->in[1], of * p->k * p->n + (p->transpose_b ? j * p->k + l : l * p->n + j));
            want += term;
            size += fabs(term);
        }
        double got = element(&c->out, e);
        ck_assert_msg(fabs(got - want) <= 4 * unit * size,
                      "[%lld, %lld, %lld]: element %lld is %.17g, not %.17g", (long long)p->m,
                      (long long)p->n, (long long)p->k, (long long)e, got, want);
    }
}

/* Runs the product in blocks, by this many threads, over what the whole gave; the bits are the same. */
static void check_threads(product_case *c, const iso_kernel *kernel, iso_kernel_call *call, int threads)
{
    const iso_op op = {.type = iso_op_type_find("matmul")};
    const size_t bytes = iso_array_bytes(&c->out);
    iso_thread_pool *pool;
    iso_division division;
    void *whole;
    check_ok(iso_thread_pool_create(threads, true, &pool));
    check_ok(iso_alloc(bytes, "the whole", &whole));
    memcpy(whole, c->out.data, bytes);
    memset(c->out.data, 0xa5, bytes);
    ck_assert(iso_division_choose(&op, kernel, call, threads, &division));
    check_ok(iso_alloc(iso_division_scratch(&division), "scratch memory", &call->scratch));
    ck_assert_int_ge(division.n_blocks, 2);
    iso_division_run(&division, pool, kernel, call);
    ck_assert_msg(memcmp(whole, c->out.data, bytes) == 0,
                  "%d threads gave other bits: %s of %lld x %lld x %lld", threads, kernel->name,
                  (long long)c->p.m, (long long)c->p.n, (long long)c->p.k);
    iso_free(call->scratch);
    iso_free(whole);
    iso_thread_pool_destroy(pool);
}

START_TEST(blocks_are_the_product)
{
    const iso_dtype dtype = _i / (SIZES * FORMS) ? ISO_F64 : ISO_F32;
    product_case c = make_case(_i % SIZES, _i / SIZES % FORMS, dtype);
    iso_fault fault = {0};
    iso_kernel_call call = {
        .attrs = &c.attrs, .n_inputs = 2, .n_outputs = 1, .in = c.in, .out = &c.out, .fault = &fault};
    const iso_kernel *kernel = iso_backend_cpu()->find("matmul", &call);
    ck_assert_ptr_nonnull(kernel);
    check_ok(iso_alloc(kernel->scratch ? kernel->scratch(&call) : 0, "scratch memory", &call.scratch));
    kernel->run(&call);
    iso_free(call.scratch);
    check_elements(&c);
    ck_assert(kernel->blocks || _i % SIZES > 0); /* the first one is a library's in any form */
    if (kernel->blocks)
        for (int threads = 2; threads <= 5; threads = 2 * threads - 1)
            check_threads(&c, kernel, &call, threads);
    ck_assert_int_eq(fault.code, ISO_FAULT_NONE);
    give_back(&c);
}
END_TEST

/* The blocks cover the product, each element once, for any shape. */
START_TEST(blocks_cover_every_element_once)
{
    static const int64_t shapes[][3] = {{1, 1, 300000000}, {1, 16000017, 17},  {7000001, 1, 80},
                                        {2, 3, 5},         {1000, 1000, 1000}, {24, 48, 1000000},
                                        {25, 49, 500000},  {997, 50021, 64}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        iso_product p = {.m = shapes[s][0], .n = shapes[s][1], .k = shapes[s][2]};
        const int64_t n_blocks = iso_product_blocks(&p, 1);
        int64_t elements = 0;
        ck_assert_int_ge(n_blocks, 1);
        for (int64_t i = 0; i < n_blocks; i++) {
            iso_product_block a = iso_product_block_at(&p, 1, i);
            const int64_t row = a.c / p.n, column = a.c % p.n;
            ck_assert_int_ge(a.product.m, 1);
            ck_assert_int_ge(a.product.n, 1);
            ck_assert_int_le(row + a.product.m, p.m);
            ck_assert_int_le(column + a.product.n, p.n);
            ck_assert_int_eq(a.a, row * p.k);
            ck_assert_int_eq(a.b, column);
            elements += a.product.m * a.product.n;
            for (int64_t j = 0; j < i; j++) {
                iso_product_block b = iso_product_block_at(&p, 1, j);
                bool apart = row >= b.c / p.n + b.product.m || b.c / p.n >= row + a.product.m ||
                             column >= b.c % p.n + b.product.n || b.c % p.n >= column + a.product.n;
                ck_assert(apart);
            }
        }
        ck_assert_int_eq(elements, p.m * p.n);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("divided products");
    TCase *tests = tcase_create("products");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, blocks_are_the_product, 0, 2 * SIZES * FORMS);
    tcase_add_test(tests, blocks_cover_every_element_once);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
