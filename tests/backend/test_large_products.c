/* Products that are large enough for several blocks or parts: threads that divide them give the bits of one thread,
 * and some elements are sums in float64. Ranks: 1 */
#include "runtime/backend/cpu/product.h"
#include "tests/backend/harness.h"
#include "tests/support/run_tests.h"

typedef enum form { PLAIN, TRANSPOSED_A, TRANSPOSED_B, TRANSPOSED_BOTH, CONTRACTED, BATCH, FORMS } form;

typedef struct product_case {
    int64_t m, n, k;
    iso_dtype of, to;
    unsigned forms; /* bits */
} product_case;

enum { ALL = (1 << FORMS) - 1 };
static const product_case cases[] = {
    {1100, 1300, 900, ISO_F32, ISO_F32, ALL & ~(1u << BATCH)},
    {1100, 1300, 900, ISO_BF16, ISO_F32, ALL & ~(1u << BATCH)},
    {1100, 1300, 900, ISO_BF16, ISO_BF16, ALL},
    {33, 20011, 500, ISO_F32, ISO_F32, 1u << PLAIN | 1u << TRANSPOSED_A}, /* wide, and tall */
    {9001, 65, 480, ISO_F32, ISO_F32, 1u << PLAIN | 1u << TRANSPOSED_B},
    {600, 700, 640, ISO_F64, ISO_F64, 1u << PLAIN | 1u << TRANSPOSED_BOTH},
    {700, 900, 100, ISO_F32, ISO_F32, 1u << CONTRACTED}, /* of few rows: b is packed, or not */
    {901, 200, 61, ISO_F32, ISO_F32, 1u << CONTRACTED},
    {700, 900, 100, ISO_BF16, ISO_F32, 1u << CONTRACTED},
    {40, 3000, 300, ISO_F32, ISO_F32, 1u << TRANSPOSED_B}, /* tiles of the transpose */
    {17, 2000, 300, ISO_F32, ISO_F32, 1u << TRANSPOSED_B | 1u << BATCH},
};

static iso_array *matrix(trial *t, iso_dtype dtype, bool batch, int64_t rows, int64_t columns)
{
    const int64_t dim[] = {3, rows, columns};
    input(t, dtype, -1, 1, 2 + batch, dim + !batch);
    return &t->in[t->inputs - 1];
}

static void make(trial *t, const product_case *c, form f, bool transpose_b)
{
    const bool ta = f == TRANSPOSED_A || f == TRANSPOSED_BOTH, batch = f == BATCH;
    const bool tb = f == TRANSPOSED_B || f == TRANSPOSED_BOTH || (batch && transpose_b);
    const int64_t dim[] = {3, c->m, c->n};
    t->attrs.matmul = (iso_matmul_attrs){ta, tb, f == CONTRACTED};
    if (ta || f == CONTRACTED)
        matrix(t, c->of, batch, c->k, c->m);
    else
        matrix(t, c->of, batch, c->m, c->k);
    if (tb)
        matrix(t, c->of, batch, c->n, c->k);
    else
        matrix(t, c->of, batch, c->k, c->n);
    output(t, c->to, 2 + batch, dim + !batch);
}

/* Every so many elements of the last product. */
static void check_elements(const trial *t, const product_case *c, const result *got)
{
    const iso_matmul_attrs *attrs = &t->attrs.matmul;
    const bool ta = attrs->transpose_a || attrs->contract;
    const int64_t last = t->out[0].rank == 3 ? 2 : 0;
    for (int64_t e = 0; e < c->m * c->n; e += 7919) {
        const int64_t i = e / c->n, j = e % c->n;
        double sum = 0, sizes = 0;
        for (int64_t l = 0; l < c->k; l++) {
            int64_t a = ta ? l * c->m + i : i * c->k + l,
                    b = attrs->transpose_b ? j * c->k + l : l * c->n + j;
            double term = iso_index_element(&t->in[0], last * c->m * c->k + a) *
                          iso_index_element(&t->in[1], last * c->k * c->n + b);
            sum += term;
            sizes += fabs(term);
        }
        double value = iso_index_element(&got->out[0], last * c->m * c->n + e);
        double most = 1e-6 * sizes + (c->to == ISO_BF16 ? 0x1p-8 * fabs(sum) : 0);
        CHECK(fabs(value - sum) <= most, "%s: kernel %s: element %lld is %.9g, not %.9g", describe(t),
              got->kernel, (long long)e, value, sum);
    }
}

START_TEST(divided_products)
{
    const product_case *c = &cases[_i];
    iso_cpu_limit_isa(iso_cpu_highest_isa()); /* also if it is slow (isa.c) */
    if (c->of == ISO_BF16 && (iso_cpu_isa() < ISO_ISA_AVX512_BF16 || !ISO_WITH_DNNL)) {
        report_skipped("products of bfloat16", "this processor has no instructions for them");
        return;
    }
    for (form f = PLAIN; f < FORMS; f++) {
        if (!(c->forms >> f & 1))
            continue;
        trial t = {.op = "matmul"};
        void *owner[MOST_ARRAYS];
        make(&t, c, f, c->m == 17);
        place_inputs(&t, 0, NULL, owner);
        result got = run_trial(&t, iso_backend_cpu(), 0);
        check_elements(&t, c, &got);
        CHECK(check_division(&t, &got), "%s: kernel %s is not divided", describe(&t), got.kernel);
        free_result(&t, &got);
        free_all(owner, t.inputs);
    }
}
END_TEST

/* AMX leaves a product to the library if an element is infinite, in whichever block it is. */
START_TEST(divided_products_with_an_infinite_element)
{
    trial t = {.op = "matmul"};
    void *owner[MOST_ARRAYS];
    iso_cpu_limit_isa(iso_cpu_highest_isa());
    make(&t, &cases[0], PLAIN, false);
    place_inputs(&t, 0, NULL, owner);
    ((float *)t.in[0].data)[iso_array_count(&t.in[0]) - 1] = INFINITY;
    result got = run_trial(&t, iso_backend_cpu(), 0);
    ck_assert(isinf(((float *)got.out[0].data)[iso_array_count(&t.out[0]) - 1]));
    ck_assert(isfinite(((float *)got.out[0].data)[0]));
    ck_assert(check_division(&t, &got));
    free_result(&t, &got);
    free_all(owner, t.inputs);
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
    Suite *suite = suite_create("large_products");
    TCase *tests = tcase_create("large_products");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, divided_products, 0, sizeof cases / sizeof *cases);
    tcase_add_test(tests, divided_products_with_an_infinite_element);
    tcase_add_test(tests, blocks_cover_every_element_once);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
