/* Ranks: 1. What the ops compute: cases worked out by hand, plain loops in C, and float32 against float64 for
 * every op.
 * Sanitize: 1 */
#include <check.h>
#include <math.h>
#include <string.h>

#include "runtime/base/random.h"
#include "runtime/graph/ops/attrs.h"
#include "runtime/graph/ops/list.h"
#include "runtime/graph/ops/ops_impl.h"
#include "tests/support/run_tests.h"
#include "tests/support/samples.h"

/* ---- small graphs over given values ---- */
enum { MOST = 5 };
typedef struct bench {
    iso_graph *graph;
    iso_tensor *x[MOST];
    const double *values[MOST];
    int inputs;
} bench;

static bench bench_begin(void)
{
    return (bench){.graph = iso_graph_create(NULL)};
}

/* A variable, or where the shape begins with ISO_BATCH an input, that holds these values. */
static iso_tensor *given(bench *b, iso_dtype dtype, iso_shape shape, const double *values)
{
    char name[8] = {'x', (char)('0' + b->inputs), 0};
    iso_tensor *x;
    if (shape.rank > 0 && shape.dim[0] == ISO_BATCH) {
        iso_shape row = {.rank = shape.rank - 1};
        memcpy(row.dim, shape.dim + 1, sizeof row.dim - sizeof *row.dim);
        x = iso_input(b->graph, name, dtype, row);
    } else {
        x = iso_variable_value(iso_variable_create(b->graph, name, dtype, shape, (iso_initializer){0}, true));
    }
    b->x[b->inputs] = x;
    b->values[b->inputs++] = values;
    return x;
}

/* Checks type and shape of y, with `rows` rows, and its values (NaN equals NaN); frees the graph. */
static void expect(bench *b, iso_tensor *y, iso_dtype dtype, iso_shape shape, int64_t rows,
                   const double *want)
{
    char have_text[160], want_text[160];
    interpreter *in = interpreter_create(b->graph, iso_backend_reference(), rows);
    for (int i = 0; i < b->inputs; i++)
        interpreter_set(in, b->x[i], b->values[i]);
    ck_assert_msg(iso_shape_equal(&y->shape, &shape), "%s gives %s, not %s", y->producer->type->name,
                  iso_shape_text(&y->shape, have_text, sizeof have_text),
                  iso_shape_text(&shape, want_text, sizeof want_text));
    ck_assert_str_eq(iso_dtype_name(y->dtype), iso_dtype_name(dtype));
    const iso_array *have = interpreter_get(in, y);
    for (int64_t i = 0, n = array_count(have); i < n; i++) {
        double value = array_get(have, i), tolerance = dtype == ISO_F32 ? 3e-7 : 1e-14;
        bool same = isnan(want[i])
                        ? isnan(value)
                        : value == want[i] || fabs(value - want[i]) <= tolerance * (1 + fabs(want[i]));
        ck_assert_msg(same, "%s: element %lld is %.17g, not %.17g", y->producer->type->name, (long long)i,
                      value, want[i]);
    }
    interpreter_destroy(in);
    iso_graph_destroy(b->graph);
}

#define VALUES(...) ((const double[]){__VA_ARGS__})

/* ---- functions of one operand, at -2, -0.5, 0, 1, 3: computed with Python's math in 17 digits ---- */
static void expect_function(iso_tensor *(*build)(iso_tensor *), const double *want)
{
    bench b = bench_begin();
    iso_tensor *x = given(&b, ISO_F64, ISO_SHAPE(5), VALUES(-2, -0.5, 0, 1, 3));
    expect(&b, build(x), ISO_F64, ISO_SHAPE(5), 1, want);
}

static iso_tensor *leaky(iso_tensor *x)
{
    return iso_leaky_relu(x, 0.25);
}

static iso_tensor *elu(iso_tensor *x)
{
    return iso_elu(x, 0.5);
}

static iso_tensor *gelu(iso_tensor *x)
{
    return iso_gelu(x, false);
}

static iso_tensor *gelu_approximate(iso_tensor *x)
{
    return iso_gelu(x, true);
}

static iso_tensor *line(iso_tensor *x)
{
    return iso_affine(x, 2, -1);
}

START_TEST(functions)
{
    expect_function(iso_negate, VALUES(2, 0.5, 0, -1, -3));
    expect_function(iso_abs, VALUES(2, 0.5, 0, 1, 3));
    expect_function(iso_sign, VALUES(-1, -1, 0, 1, 1));
    expect_function(iso_square, VALUES(4, 0.25, 0, 1, 9));
    expect_function(
        iso_exp, VALUES(0.1353352832366127, 0.60653065971263342, 1, 2.7182818284590451, 20.085536923187668));
    expect_function(iso_log, VALUES(NAN, NAN, -INFINITY, 0, 1.0986122886681098));
    expect_function(iso_sqrt, VALUES(NAN, NAN, 0, 1, 1.7320508075688772));
    expect_function(iso_rsqrt, VALUES(NAN, NAN, INFINITY, 1, 0.57735026918962584));
    expect_function(iso_relu, VALUES(0, 0, 0, 1, 3));
    expect_function(leaky, VALUES(-0.5, -0.125, 0, 1, 3));
    expect_function(elu, VALUES(-0.43233235838169365, -0.19673467014368329, 0, 1, 3));
    expect_function(iso_sigmoid, VALUES(0.11920292202211755, 0.37754066879814541, 0.5, 0.7310585786300049,
                                        0.95257412682243336));
    expect_function(iso_tanh, VALUES(-0.9640275800758169, -0.46211715726000974, 0, 0.76159415595576485,
                                     0.99505475368673046));
    expect_function(gelu, VALUES(-0.045500263896358417, -0.15426876936299344, 0, 0.84134474606854293,
                                 2.9959503059051098));
    expect_function(gelu_approximate, VALUES(-0.045402305912224938, -0.15428599017485606, 0,
                                             0.84119199060827676, 2.9963626079182268));
    expect_function(iso_silu, VALUES(-0.23840584404423509, -0.1887703343990727, 0, 0.7310585786300049,
                                     2.8577223804672998));
    expect_function(iso_softplus, VALUES(0.12692801104297249, 0.47407698418010669, 0.69314718055994529,
                                         1.3132616875182228, 3.0485873515737421));
    expect_function(line, VALUES(-5, -2, -1, 1, 5));
}
END_TEST

/* Large arguments neither overflow nor lose themselves; a NaN comes out as one. */
START_TEST(functions_at_the_ends)
{
    const double ends[] = {-1000, 1000, NAN};
    iso_tensor *(*const build[])(iso_tensor *) = {iso_sigmoid, iso_softplus, iso_tanh, iso_silu, elu,
                                                  iso_relu,    leaky,        iso_abs,  iso_sign};
    const double want[][3] = {{0, 1, NAN},       {0, 1000, NAN},    {-1, 1, NAN},
                              {0, 1000, NAN},    {-0.5, 1000, NAN}, {0, 1000, NAN},
                              {-250, 1000, NAN}, {1000, 1000, NAN}, {-1, 1, NAN}};
    for (int i = 0; i < 9; i++)
        for (int type = 0; type < 2; type++) {
            iso_dtype dtype = type ? ISO_F64 : ISO_F32;
            bench b = bench_begin();
            iso_tensor *x = given(&b, dtype, ISO_SHAPE(3), ends);
            expect(&b, build[i](x), dtype, ISO_SHAPE(3), 1, want[i]);
        }
}
END_TEST

/* ---- two operands ---- */
START_TEST(broadcasting)
{
    bench b = bench_begin();
    iso_tensor *x = given(&b, ISO_F32, ISO_SHAPE(ISO_BATCH, 3), VALUES(1, 2, 3, 4, 5, 6));
    iso_tensor *y = given(&b, ISO_F32, ISO_SHAPE(3), VALUES(10, 20, 30));
    expect(&b, iso_add(x, y), ISO_F32, ISO_SHAPE(ISO_BATCH, 3), 2, VALUES(11, 22, 33, 14, 25, 36));
    b = bench_begin();
    x = given(&b, ISO_F32, ISO_SHAPE(2, 1), VALUES(1, 2));
    y = given(&b, ISO_F32, ISO_SHAPE(3), VALUES(10, 20, 30));
    expect(&b, iso_subtract(x, y), ISO_F32, ISO_SHAPE(2, 3), 1, VALUES(-9, -19, -29, -8, -18, -28));
    b = bench_begin();
    x = given(&b, ISO_I32, ISO_SHAPE(2, 1, 2), VALUES(1, 2, 3, 4));
    y = given(&b, ISO_I32, ISO_SHAPE(2, 1), VALUES(5, -6));
    expect(&b, iso_multiply(x, y), ISO_I32, ISO_SHAPE(2, 2, 2), 1, VALUES(5, 10, -6, -12, 15, 20, -18, -24));
    b = bench_begin();
    x = given(&b, ISO_F64, ISO_SCALAR, VALUES(12));
    y = given(&b, ISO_F64, ISO_SHAPE(3), VALUES(2, -4, 0));
    expect(&b, iso_divide(x, y), ISO_F64, ISO_SHAPE(3), 1, VALUES(6, -3, INFINITY));
}
END_TEST

static void expect_pair(iso_tensor *(*build)(iso_tensor *, iso_tensor *), iso_dtype dtype, const double *want)
{
    bench b = bench_begin();
    iso_tensor *x = given(&b, ISO_F32, ISO_SHAPE(4), VALUES(1, 2, 3, NAN));
    iso_tensor *y = given(&b, ISO_F32, ISO_SHAPE(4), VALUES(2, 2, 2, 1));
    expect(&b, build(x, y), dtype, ISO_SHAPE(4), 1, want);
}

START_TEST(pairs)
{
    expect_pair(iso_maximum, ISO_F32, VALUES(2, 2, 3, NAN));
    expect_pair(iso_minimum, ISO_F32, VALUES(1, 2, 2, NAN));
    expect_pair(iso_power, ISO_F32, VALUES(1, 4, 9, NAN));
    expect_pair(iso_equal, ISO_BOOL, VALUES(0, 1, 0, 0));
    expect_pair(iso_not_equal, ISO_BOOL, VALUES(1, 0, 1, 1));
    expect_pair(iso_less, ISO_BOOL, VALUES(1, 0, 0, 0));
    expect_pair(iso_less_equal, ISO_BOOL, VALUES(1, 1, 0, 0));
    expect_pair(iso_greater, ISO_BOOL, VALUES(0, 0, 1, 0));
    expect_pair(iso_greater_equal, ISO_BOOL, VALUES(0, 1, 1, 0));
}
END_TEST

/* An integer that float32 cannot hold is compared in float64. */
START_TEST(comparisons_of_types)
{
    bench b = bench_begin();
    iso_tensor *x = given(&b, ISO_I32, ISO_SHAPE(2), VALUES(16777217, 3));
    iso_tensor *y = given(&b, ISO_F32, ISO_SHAPE(2), VALUES(16777216, 3));
    expect(&b, iso_equal(x, y), ISO_BOOL, ISO_SHAPE(2), 1, VALUES(0, 1));
    b = bench_begin();
    x = given(&b, ISO_U8, ISO_SHAPE(2), VALUES(200, 3));
    y = given(&b, ISO_I64, ISO_SHAPE(2), VALUES(-56, 4));
    expect(&b, iso_less(x, y), ISO_BOOL, ISO_SHAPE(2), 1, VALUES(0, 1));
}
END_TEST

START_TEST(logic)
{
    bench b = bench_begin();
    iso_tensor *x = given(&b, ISO_BOOL, ISO_SHAPE(2, 1), VALUES(0, 1));
    iso_tensor *y = given(&b, ISO_BOOL, ISO_SHAPE(2), VALUES(0, 1));
    iso_tensor *either = iso_logical_or(x, y), *both = iso_logical_and(x, y);
    iso_tensor *one = iso_logical_and(either, iso_logical_not(both));
    expect(&b, one, ISO_BOOL, ISO_SHAPE(2, 2), 1, VALUES(0, 1, 1, 0));
    b = bench_begin();
    x = given(&b, ISO_BOOL, ISO_SHAPE(ISO_BATCH, 1), VALUES(1, 0));
    iso_tensor *a = given(&b, ISO_F32, ISO_SHAPE(3), VALUES(1, 2, 3));
    iso_tensor *other = given(&b, ISO_F32, ISO_SCALAR, VALUES(-1));
    expect(&b, iso_where(x, a, other), ISO_F32, ISO_SHAPE(ISO_BATCH, 3), 2, VALUES(1, 2, 3, -1, -1, -1));
}
END_TEST

static void expect_cast(iso_dtype from, iso_dtype to, const double *want)
{
    bench b = bench_begin();
    iso_tensor *x = given(&b, from, ISO_SHAPE(6), VALUES(-1.75, 0.5, 300.5, 1e20, -1e20, NAN));
    expect(&b, iso_cast(x, to), to, ISO_SHAPE(6), 1, want);
}

START_TEST(casts)
{
    expect_cast(ISO_F64, ISO_F32, VALUES(-1.75, 0.5, 300.5, 1e20, -1e20, NAN));
    expect_cast(ISO_F32, ISO_F64, VALUES(-1.75, 0.5, 300.5, (double)1e20f, (double)-1e20f, NAN));
    expect_cast(ISO_F32, ISO_I32, VALUES(-1, 0, 300, INT32_MAX, INT32_MIN, 0));
    expect_cast(ISO_F64, ISO_I64, VALUES(-1, 0, 300, (double)INT64_MAX, (double)INT64_MIN, 0));
    expect_cast(ISO_F32, ISO_U8, VALUES(0, 0, 255, 255, 0, 0));
    expect_cast(ISO_F32, ISO_BOOL, VALUES(1, 1, 1, 1, 1, 1));
    bench b = bench_begin();
    iso_tensor *x = given(&b, ISO_U8, ISO_SHAPE(3), VALUES(0, 7, 255));
    expect(&b, iso_cast(x, ISO_F32), ISO_F32, ISO_SHAPE(3), 1, VALUES(0, 7, 255));
    b = bench_begin(); /* float32 stands for the graph's precision */
    iso_graph_set_precision(b.graph, ISO_F64);
    x = given(&b, ISO_U8, ISO_SHAPE(3), VALUES(0, 7, 255));
    expect(&b, iso_cast(x, ISO_F32), ISO_F64, ISO_SHAPE(3), 1, VALUES(0, 7, 255));
}
END_TEST

/* ---- reductions ---- */

/* x: [2, 3, 2] */
static const double numbers[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, -12};

static iso_tensor *cube(bench *b)
{
    return given(b, ISO_F32, ISO_SHAPE(ISO_BATCH, 3, 2), numbers);
}

START_TEST(reductions)
{
    bench b = bench_begin();
    expect(&b, iso_reduce_sum(cube(&b), (int[]){1}, 1, false), ISO_F32, ISO_SHAPE(ISO_BATCH, 2), 2,
           VALUES(9, 12, 27, 6));
    b = bench_begin();
    expect(&b, iso_reduce_sum(cube(&b), (int[]){0, 2}, 2, true), ISO_F32, ISO_SHAPE(1, 3, 1), 2,
           VALUES(18, 26, 10));
    b = bench_begin();
    expect(&b, iso_reduce_mean(cube(&b), (int[]){-1, -2}, 2, false), ISO_F32, ISO_SHAPE(ISO_BATCH), 2,
           VALUES(3.5, 5.5));
    b = bench_begin();
    expect(&b, iso_reduce_mean(cube(&b), (int[]){0}, 1, false), ISO_F32, ISO_SHAPE(3, 2), 2,
           VALUES(4, 5, 6, 7, 8, -3));
    b = bench_begin();
    expect(&b, iso_reduce_max(cube(&b), (int[]){1, 2}, 2, false), ISO_F32, ISO_SHAPE(ISO_BATCH), 2,
           VALUES(6, 11));
    b = bench_begin();
    expect(&b, iso_reduce_min(cube(&b), (int[]){0}, 1, true), ISO_F32, ISO_SHAPE(1, 3, 2), 2,
           VALUES(1, 2, 3, 4, 5, -12));
    b = bench_begin();
    expect(&b, iso_sum(cube(&b)), ISO_F32, ISO_SCALAR, 2, VALUES(54));
    b = bench_begin();
    expect(&b, iso_mean(cube(&b)), ISO_F32, ISO_SCALAR, 2, VALUES(4.5));
    b = bench_begin();
    iso_tensor *flags = given(&b, ISO_BOOL, ISO_SHAPE(ISO_BATCH), VALUES(1, 0, 1, 1));
    expect(&b, iso_sum(flags), ISO_I32, ISO_SCALAR, 4, VALUES(3));
    b = bench_begin();
    flags = given(&b, ISO_BOOL, ISO_SHAPE(ISO_BATCH), VALUES(1, 0, 1, 1));
    expect(&b, iso_mean(flags), ISO_F32, ISO_SCALAR, 4, VALUES(0.75));
}
END_TEST

/* In float32 the sum of 2^24 and many ones would stay 2^24. */
START_TEST(sums_are_gathered_in_float64)
{
    double values[1001] = {16777216};
    for (int i = 1; i <= 1000; i++)
        values[i] = 1;
    bench b = bench_begin();
    iso_tensor *x = given(&b, ISO_F32, ISO_SHAPE(ISO_BATCH), values);
    iso_tensor *sum = iso_sum(x);
    ck_assert_int_eq(sum->producer->inputs[0]->dtype, ISO_F64);
    expect(&b, sum, ISO_F32, ISO_SCALAR, 1001, VALUES(16778216));
}
END_TEST

START_TEST(places_of_the_largest)
{
    bench b = bench_begin();
    iso_tensor *x = given(&b, ISO_F32, ISO_SHAPE(ISO_BATCH, 3), VALUES(1, 5, 5, -1, -3, -2));
    expect(&b, iso_argmax(x, -1), ISO_I32, ISO_SHAPE(ISO_BATCH), 2, VALUES(1, 0));
    b = bench_begin();
    expect(&b, iso_argmax(cube(&b), 1), ISO_I32, ISO_SHAPE(ISO_BATCH, 2), 2, VALUES(2, 2, 2, 1));
    /* ties at the border count, as in tf.math.in_top_k; what is not finite, or no class, does not */
    b = bench_begin();
    x = given(&b, ISO_F32, ISO_SHAPE(ISO_BATCH, 3), VALUES(3, 2, 2, 3, 2, 2, 3, 2, 1, NAN, 9, 1, 3, 2, 1));
    iso_tensor *targets = given(&b, ISO_I32, ISO_SHAPE(ISO_BATCH), VALUES(1, 2, 2, 1, 3));
    expect(&b, iso_in_top_k(x, targets, 2), ISO_BOOL, ISO_SHAPE(ISO_BATCH), 5, VALUES(1, 1, 0, 0, 0));
}
END_TEST

/* Of equals the first comes first; NaN comes before all numbers. */
START_TEST(largest_of_rows)
{
    iso_tensor *index;
    bench b = bench_begin();
    iso_tensor *x = given(&b, ISO_F32, ISO_SHAPE(ISO_BATCH, 4),
                          VALUES(2, 5, 5, 3, -1, -INFINITY, -1, -1, 0, NAN, INFINITY, NAN));
    iso_top_k(x, 3, &index);
    expect(&b, index, ISO_I32, ISO_SHAPE(ISO_BATCH, 3), 3, VALUES(1, 2, 3, 0, 2, 3, 1, 3, 2));
    b = bench_begin();
    x = given(&b, ISO_F32, ISO_SHAPE(ISO_BATCH, 3), VALUES(2, 5, 3, -1, 0, -INFINITY));
    expect(&b, iso_top_k(x, 3, NULL), ISO_F32, ISO_SHAPE(ISO_BATCH, 3), 2, VALUES(5, 3, 2, 0, -1, -INFINITY));
}
END_TEST

/* Two experts of one hidden feature: x up is 2 x0 + x1 or -x1; relu; down gives (1, 3) or (10, 20) of it. */
START_TEST(experts_of_rows)
{
    bench b = bench_begin();
    iso_tensor *x = given(&b, ISO_F32, ISO_SHAPE(ISO_BATCH, 2), VALUES(1, 2, 3, -1, 5, 7)),
               *choice = given(&b, ISO_I32, ISO_SHAPE(ISO_BATCH, 2), VALUES(0, 1, 1, 0, 0, 0)),
               *share = given(&b, ISO_F32, ISO_SHAPE(ISO_BATCH, 2), VALUES(1, 2, 0.5, 0.25, 1, -1)),
               *up = given(&b, ISO_F32, ISO_SHAPE(2, 2, 1), VALUES(2, 1, 0, -1)),
               *down = given(&b, ISO_F32, ISO_SHAPE(2, 1, 2), VALUES(1, 3, 10, 20));
    const iso_experts_form form = {.up = up, .down = down, .activation = ISO_EXPERTS_RELU};
    expect(&b, iso_experts_op(x, choice, share, &form), ISO_F32, ISO_SHAPE(ISO_BATCH, 2), 3,
           VALUES(4, 12, 6.25, 13.75, 0, 0));
}
END_TEST

/* Extremes over no rows are what changes no other slot's. */
START_TEST(no_rows)
{
    bench b = bench_begin();
    expect(&b, iso_reduce_max(cube(&b), (int[]){0}, 1, false), ISO_F32, ISO_SHAPE(3, 2), 0,
           VALUES(-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY));
    b = bench_begin();
    expect(&b, iso_sum(cube(&b)), ISO_F32, ISO_SCALAR, 0, VALUES(0));
}
END_TEST

/* ---- shapes ---- */
START_TEST(shapes)
{
    bench b = bench_begin();
    expect(&b, iso_reshape_to(cube(&b), ISO_SHAPE(ISO_BATCH, -1)), ISO_F32, ISO_SHAPE(ISO_BATCH, 6), 2,
           numbers);
    b = bench_begin();
    expect(&b, iso_transpose(cube(&b), (int[]){2, 0, 1}), ISO_F32, ISO_SHAPE(2, ISO_BATCH, 3), 2,
           VALUES(1, 3, 5, 7, 9, 11, 2, 4, 6, 8, 10, -12));
    b = bench_begin();
    expect(&b, iso_flip(cube(&b), 1), ISO_F32, ISO_SHAPE(ISO_BATCH, 3, 2), 2,
           VALUES(5, 6, 3, 4, 1, 2, 11, -12, 9, 10, 7, 8));
    b = bench_begin();
    expect(&b, iso_slice(cube(&b), (int64_t[]){1, 1}, (int64_t[]){-1, 1}), ISO_F32,
           ISO_SHAPE(ISO_BATCH, 2, 1), 2, VALUES(4, 6, 10, -12));
    b = bench_begin();
    iso_tensor *x = given(&b, ISO_U8, ISO_SHAPE(2, 1), VALUES(1, 2)),
               *y = given(&b, ISO_U8, ISO_SHAPE(2, 2), VALUES(3, 4, 5, 6));
    expect(&b, iso_concat((iso_tensor *[]){x, y, x}, 3, -1), ISO_U8, ISO_SHAPE(2, 4), 1,
           VALUES(1, 3, 4, 1, 2, 5, 6, 2));
    b = bench_begin();
    enum { PAIRS = 150 }; /* more than the inputs of an op, and than the inputs of as many */
    iso_tensor *many[2 * PAIRS];
    double joined[3 * PAIRS];
    x = given(&b, ISO_F64, ISO_SHAPE(1), VALUES(1));
    y = given(&b, ISO_F64, ISO_SHAPE(2), VALUES(2, 3));
    for (int i = 0; i < PAIRS; i++) {
        many[2 * i] = iso_affine(x, 1 + i, 0);
        many[2 * i + 1] = y;
        memcpy(joined + 3 * i, VALUES(1 + i, 2, 3), 3 * sizeof *joined);
    }
    expect(&b, iso_concat(many, 2 * PAIRS, 0), ISO_F64, ISO_SHAPE(3 * PAIRS), 1, joined);
    b = bench_begin();
    x = given(&b, ISO_F64, ISO_SHAPE(2, 1), VALUES(1, 2));
    expect(&b, iso_broadcast_to(x, ISO_SHAPE(ISO_BATCH, 2, 3)), ISO_F64, ISO_SHAPE(ISO_BATCH, 2, 3), 2,
           VALUES(1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2));
    b = bench_begin();
    x = given(&b, ISO_I64, ISO_SHAPE(ISO_BATCH), VALUES(2, 0, 3, -1));
    expect(&b, iso_one_hot(x, 3, ISO_F32), ISO_F32, ISO_SHAPE(ISO_BATCH, 3), 4,
           VALUES(0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0));
    b = bench_begin();
    const iso_slice_attrs frame = {.begin = {1, 0}, .shape = ISO_SHAPE(3, 2)};
    x = given(&b, ISO_F32, ISO_SHAPE(1, 2), VALUES(7, 8));
    expect(&b, iso_op_1(&iso_op_pad, x, &frame), ISO_F32, ISO_SHAPE(3, 2), 1, VALUES(0, 0, 7, 8, 0, 0));
    b = bench_begin();
    expect(&b, iso_sum_to_shape(cube(&b), &ISO_SHAPE(3, 1)), ISO_F32, ISO_SHAPE(3, 1), 2, VALUES(18, 26, 10));
}
END_TEST

/* ---- products, against plain loops ---- */
static void check_product(int64_t m, int64_t k, int64_t n, bool transpose_a, bool transpose_b)
{
    double a[64], c[64], want[64] = {0};
    for (int i = 0; i < 64; i++) {
        a[i] = (double)iso_random_word(1, 0, (uint64_t)i) / 0x1p32 - 0.5;
        c[i] = (double)iso_random_word(2, 0, (uint64_t)i) / 0x1p32 - 0.5;
    }
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t l = 0; l < k; l++)
                want[i * n + j] +=
                    a[transpose_a ? l * m + i : i * k + l] * c[transpose_b ? j * k + l : l * n + j];
    bench b = bench_begin();
    iso_tensor *x = given(&b, ISO_F64, transpose_a ? ISO_SHAPE(k, m) : ISO_SHAPE(m, k), a);
    iso_tensor *y = given(&b, ISO_F64, transpose_b ? ISO_SHAPE(n, k) : ISO_SHAPE(k, n), c);
    expect(&b, iso_matmul_with(x, y, transpose_a, transpose_b), ISO_F64, ISO_SHAPE(m, n), 1, want);
}

START_TEST(products)
{
    for (int flags = 0; flags < 4; flags++) {
        check_product(3, 4, 5, flags & 1, flags & 2);
        check_product(1, 7, 2, flags & 1, flags & 2);
    }
    bench b = bench_begin(); /* two products at once; a row times a matrix; the gradient of a weight */
    iso_tensor *x = given(&b, ISO_F32, ISO_SHAPE(ISO_BATCH, 1, 2), VALUES(1, 2, 3, 4));
    iso_tensor *y = given(&b, ISO_F32, ISO_SHAPE(ISO_BATCH, 2, 1), VALUES(5, 6, 7, 8));
    expect(&b, iso_matmul(x, y), ISO_F32, ISO_SHAPE(ISO_BATCH, 1, 1), 2, VALUES(17, 53));
    b = bench_begin();
    x = given(&b, ISO_F32, ISO_SHAPE(2), VALUES(1, 2));
    y = given(&b, ISO_F32, ISO_SHAPE(2, 3), VALUES(1, 2, 3, 4, 5, 6));
    expect(&b, iso_matmul(x, y), ISO_F32, ISO_SHAPE(3), 1, VALUES(9, 12, 15));
    b = bench_begin();
    const iso_matmul_attrs contract = {.contract = true};
    x = given(&b, ISO_F32, ISO_SHAPE(ISO_BATCH, 2, 1), VALUES(1, 2, 3, 4));
    y = given(&b, ISO_F32, ISO_SHAPE(ISO_BATCH, 2, 2), VALUES(1, 0, 0, 1, 1, 1, 2, 0));
    expect(&b, iso_op_2(&iso_op_matmul, x, y, &contract), ISO_F32, ISO_SHAPE(1, 2), 2, VALUES(12, 5));
}
END_TEST

/* ---- float32 against float64 for every op ---- */
START_TEST(float32_is_near_float64)
{
    for (int i = 0; sample_at(i); i++) {
        sample_case single, twice;
        sample_begin(&single, sample_at(i), iso_backend_reference(), ISO_F32);
        sample_begin(&twice, sample_at(i), iso_backend_reference(), ISO_F64);
        for (int o = 0; o < single.op->n_outputs; o++) {
            const iso_array *have = interpreter_get(single.in, single.op->outputs[o]);
            const iso_array *want = interpreter_get(twice.in, twice.op->outputs[o]);
            double largest = 1;
            ck_assert_int_eq(array_count(have), array_count(want));
            for (int64_t k = 0; k < array_count(want); k++)
                largest = fmax(largest, fabs(array_get(want, k)));
            for (int64_t k = 0; k < array_count(want); k++)
                ck_assert_msg(fabs(array_get(have, k) - array_get(want, k)) <= 1e-5 * largest,
                              "%s: element %lld is %.9g in float32, %.9g in float64", sample_at(i)->op,
                              (long long)k, array_get(have, k), array_get(want, k));
        }
        sample_end(&single);
        sample_end(&twice);
    }
}
END_TEST

int main(void)
{
    return RUN_TESTS("values", 60, functions, functions_at_the_ends, broadcasting, pairs,
                     comparisons_of_types, logic, casts, reductions, sums_are_gathered_in_float64,
                     places_of_the_largest, largest_of_rows, experts_of_rows, no_rows, shapes, products,
                     float32_is_near_float64);
}
