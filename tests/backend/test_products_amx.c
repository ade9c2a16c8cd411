/* Products by AMX: of float32 as near to exact ones as an ordinary product in float32, of bfloat16 with sums in
 * float32, at sizes that fill tiles and that do not. Skipped where the processor has no AMX. Ranks: 1 */
#include "runtime/backend/cpu/amx.h"
#include "tests/backend/harness.h"
#include "tests/support/run_tests.h"

typedef struct matrices {
    iso_product shape;
    iso_dtype of, to;
    void *a, *b, *c, *owner[3];
} matrices;

static void *room(iso_dtype dtype, int64_t count, void **owner)
{
    iso_array array = make_array(dtype, 1, &count);
    array.data = room_for(&array, 0, owner);
    return array.data;
}

/* Random elements of a and b, and NaN behind them. */
static matrices make(iso_product shape, iso_dtype of, iso_dtype to)
{
    matrices x = {.shape = shape, .of = of, .to = to};
    const int64_t counts[] = {shape.m * shape.k, shape.k * shape.n};
    void **at[] = {&x.a, &x.b};
    for (int i = 0; i < 2; i++) {
        *at[i] = room(of, counts[i], &x.owner[i]);
        iso_array array = make_array(of, 1, &counts[i]);
        array.data = *at[i];
        fill(&array, false, -1, 1);
        memset((char *)array.data + bytes_of(&array), 0xff, GUARD);
    }
    x.c = room(to, shape.m * shape.n, &x.owner[2]);
    memset(x.c, 0xa5, (size_t)(shape.m * shape.n) * iso_dtype_size(to) + GUARD);
    return x;
}

static void give_back(matrices *x)
{
    free_all(x->owner, 3);
}

static bool multiply(matrices *x)
{
    size_t bytes = iso_amx_product_scratch(&x->shape, x->of, x->to);
    char *scratch = aligned_alloc(64, (bytes + 2 * GUARD) / 64 * 64);
    ck_assert_ptr_nonnull(scratch);
    memset(scratch, 0xa5, (bytes + 2 * GUARD) / 64 * 64);
    bool good = iso_amx_product(&x->shape, x->of, x->a, x->b, x->to, x->c, scratch);
    for (int i = 0; i < GUARD; i++) {
        ck_assert_int_eq((unsigned char)scratch[bytes + (size_t)i], 0xa5);
        ck_assert_int_eq(
            ((unsigned char *)x->c)[(size_t)(x->shape.m * x->shape.n) * iso_dtype_size(x->to) + (size_t)i],
            0xa5);
    }
    free(scratch);
    return good;
}

static double element(iso_dtype dtype, const void *data, int64_t i)
{
    return dtype == ISO_F32 ? (double)((const float *)data)[i]
                            : (double)iso_bf16_to_float(((const uint16_t *)data)[i]);
}

/* Element (i, j) of the product, and the sum of the sizes of its terms, in float64. */
static double exact(const matrices *x, int64_t i, int64_t j, double *sizes)
{
    const iso_product *p = &x->shape;
    double sum = 0;
    *sizes = 0;
    for (int64_t l = 0; l < p->k; l++) {
        double term = element(x->of, x->a, p->transpose_a ? l * p->m + i : i * p->k + l) *
                      element(x->of, x->b, p->transpose_b ? j * p->k + l : l * p->n + j);
        sum += term;
        *sizes += fabs(term);
    }
    return sum;
}

/* Every so many elements. The bound of a sum of k terms in any order is about k/2 units in the last place of the sum
 * of their sizes (Higham 2002, section 3.1); rounding errors cancel, so that a few units are enough at every k. */
static void check_elements(const matrices *x, double units)
{
    const iso_product *p = &x->shape;
    const int64_t count = p->m * p->n, step = count > 3000 ? count / 2999 : 1;
    for (int64_t e = 0; e < count; e += step) {
        double sizes, want = exact(x, e / p->n, e % p->n, &sizes), got = element(x->to, x->c, e);
        double most = units * 0x1p-24 * sizes + (x->to == ISO_BF16 ? 0x1p-8 * fabs(want) : 0);
        CHECK(fabs(got - want) <= most,
              "[%lld, %lld, %lld] transposed %d %d: element %lld is %.9g, not %.9g (most %g)",
              (long long)p->m, (long long)p->n, (long long)p->k, p->transpose_a, p->transpose_b, (long long)e,
              got, want, most);
    }
}

static const int64_t sizes[][3] = {{1, 1, 1},       {16, 16, 32},    {32, 32, 32},   {33, 17, 31},
                                   {64, 48, 2},     {5, 100, 70},    {100, 77, 333}, {129, 300, 520},
                                   {31, 64, 1500},  {200, 40, 1024}, {70, 2000, 65}, {300, 33, 2500},
                                   {2100, 50, 1100}};

START_TEST(near_the_exact_product)
{
    static const iso_dtype types[][2] = {{ISO_F32, ISO_F32}, {ISO_BF16, ISO_F32}, {ISO_BF16, ISO_BF16}};
    for (int form = 0; form < 4; form++)
        for (int t = 0; t < 3; t++) {
            iso_product shape = {.m = sizes[_i][0],
                                 .n = sizes[_i][1],
                                 .k = sizes[_i][2],
                                 .transpose_a = form & 1,
                                 .transpose_b = form & 2};
            matrices x = make(shape, types[t][0], types[t][1]);
            ck_assert(multiply(&x));
            check_elements(&x, 4);
            give_back(&x);
        }
}
END_TEST

/* Every bit of a float counts: products of 1 + 2^-i and 1 + 2^-j, one for each element of c. */
START_TEST(all_bits_of_floats)
{
    matrices x = make((iso_product){.m = 24, .n = 24, .k = 1}, ISO_F32, ISO_F32);
    for (int i = 0; i < 24; i++)
        ((float *)x.a)[i] = ((float *)x.b)[i] = 1 + ldexpf(1, -i);
    ck_assert(multiply(&x));
    check_elements(&x, 1);
    give_back(&x);
}
END_TEST

static bool multiply_scaled(float a, float b, int64_t k, bool of_a, float special)
{
    matrices x = make((iso_product){.m = 70, .n = 65, .k = k}, ISO_F32, ISO_F32);
    for (int64_t i = 0; i < 70 * k; i++)
        ((float *)x.a)[i] *= a;
    for (int64_t i = 0; i < 65 * k; i++)
        ((float *)x.b)[i] *= b;
    if (special != 0)
        ((float *)(of_a ? x.a : x.b))[65 * k - 1] = special;
    bool good = multiply(&x);
    if (good)
        check_elements(&x, 4);
    give_back(&x);
    return good;
}

/* Infinite and NaN elements are refused, and products whose sums might become infinite or lose what is small. Others
 * give right results. */
START_TEST(ends_of_the_range)
{
    const float refused[] = {INFINITY, -INFINITY, NAN, -NAN, 0x1.fffffep127f, -0x1.fffp127f, 0x1p122f};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        for (int of_a = 0; of_a < 2; of_a++)
            ck_assert(!multiply_scaled(1, 1, 67, of_a, refused[i]));
    for (int exponent = -37; exponent <= 59; exponent++)
        ck_assert(multiply_scaled(ldexpf(1, exponent), ldexpf(1, exponent), 67, false, 0));
    for (int exponent = -70; exponent <= 110; exponent += 5)
        ck_assert(multiply_scaled(ldexpf(1, exponent), 1, 67, false, 0));
    for (int exponent = -60; exponent <= -40; exponent++)
        ck_assert(!multiply_scaled(ldexpf(1, exponent), ldexpf(1, exponent), 67, false, 0));
    for (int exponent = 61; exponent <= 120; exponent++)
        ck_assert(!multiply_scaled(ldexpf(1, exponent), ldexpf(1, exponent), 67, false, 0));
    ck_assert(multiply_scaled(0, 1, 67, false, 0));
    ck_assert(multiply_scaled(1, 0, 67, false, 0));
    ck_assert(multiply_scaled(0x1p-20f, 0x1p-20f, 600, false, 0x1p100f));
}
END_TEST

/* What sgemm makes of finite elements whose products are infinite, in whole products and in those that are computed
 * part by part; and its results just below infinity, and those that are small. */
START_TEST(results_at_the_ends)
{
    static const float scales[][2] = {
        {0x1p100f, 0x1p100f}, {0x1p63f, 0x1p63f}, {0x1p-60f, 0x1p-60f}, {0x1p-70f, 0x1p-5f}};
    for (size_t s = 0; s < sizeof scales / sizeof *scales; s++)
        for (int form = 0; form < 2; form++) {
            const int64_t k = 80, m = 96, n = 70;
            trial t = {.op = "matmul"};
            void *owner[MOST_ARRAYS];
            t.attrs.matmul.contract = form;
            input(&t, ISO_F32, 1, 2, 2, form ? (int64_t[]){k, m} : (int64_t[]){m, k});
            input(&t, ISO_F32, 1, 2, DIMS(k, n));
            output(&t, ISO_F32, DIMS(m, n));
            place_inputs(&t, 0, NULL, owner);
            for (int i = 0; i < 2; i++)
                for (int64_t e = 0; e < iso_array_count(&t.in[i]); e++)
                    ((float *)t.in[i].data)[e] *= scales[s][i];
            result r = run_trial(&t, iso_backend_cpu(), 0);
            ck_assert_str_eq(r.kernel, form ? "AMX, bf16_x6, parts" : "AMX, bf16_x6");
            result want = run_trial(&t, iso_backend_reference(), 0);
            for (int64_t e = 0; e < m * n; e++) {
                float a = ((float *)r.out[0].data)[e], b = ((float *)want.out[0].data)[e];
                CHECK(a == b || fabsf(a - b) <= 1e-6f * fabsf(b), "scales %g, %g: element %lld is %g, not %g",
                      scales[s][0], scales[s][1], (long long)e, a, b);
            }
            free_result(&t, &r);
            free_result(&t, &want);
            free_all(owner, t.inputs);
        }
}
END_TEST

/* The kernel of matmul leaves infinite elements to a library: inf where one number of the row is, elsewhere the bits
 * of an ordinary product. */
START_TEST(infinite_elements)
{
    trial t = {.op = "matmul"};
    void *owner[MOST_ARRAYS];
    input(&t, ISO_F32, 1, 2, DIMS(80, 90));
    input(&t, ISO_F32, 1, 2, DIMS(90, 100));
    output(&t, ISO_F32, DIMS(80, 100));
    place_inputs(&t, 0, NULL, owner);
    ((float *)t.in[0].data)[5 * 90 + 7] = INFINITY;
    ((float *)t.in[0].data)[6 * 90 + 7] = NAN;
    result r = run_trial(&t, iso_backend_cpu(), 0);
    ck_assert_str_eq(r.kernel, "AMX, bf16_x6");
    for (int64_t i = 0; i < 80 * 100; i++) {
        float got = ((float *)r.out[0].data)[i];
        if (i / 100 == 5)
            ck_assert(isinf(got) && got > 0);
        else if (i / 100 == 6)
            ck_assert(isnan(got));
        else
            CHECK(got > 90 && got < 360, "element %lld is %g", (long long)i, got);
    }
    free_result(&t, &r);
    free_all(owner, t.inputs);
}
END_TEST

int main(void)
{
    if (iso_cpu_isa() < ISO_ISA_AMX) {
        report_skipped("products by AMX", "this processor has no AMX");
        return 0;
    }
    Suite *suite = suite_create("products_amx");
    TCase *tests = tcase_create("products_amx");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, near_the_exact_product, 0, sizeof sizes / sizeof *sizes);
    tcase_add_test(tests, all_bits_of_floats);
    tcase_add_test(tests, ends_of_the_range);
    tcase_add_test(tests, results_at_the_ends);
    tcase_add_test(tests, infinite_elements);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
