/* Convolutions and pools: values against loops written for the test, gradients against finite differences.
 * Ranks: 1 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/graph/op.h"
#include "tests/support/probe.h"
#include "tests/support/run_tests.h"

typedef struct conv_case {
    int64_t n, h, w, c, r, s, f;
    iso_conv_geometry geometry;
} conv_case;

static const conv_case conv_cases[] = {
    {2, 5, 4, 3, 3, 3, 2, {{1, 1}, {1, 1}, {1, 1}, {1, 1}, 1}}, /* same */
    {1, 6, 7, 2, 3, 2, 3, {{2, 3}, {1, 1}, {0, 1}, {1, 0}, 1}}, /* strides, one-sided padding */
    {2, 7, 6, 1, 3, 2, 2, {{1, 2}, {2, 3}, {2, 0}, {0, 3}, 1}}, /* dilation */
    {1, 4, 5, 4, 2, 3, 6, {{1, 1}, {1, 1}, {1, 0}, {0, 2}, 2}}, /* two groups */
    {2, 3, 3, 3, 2, 2, 6, {{2, 1}, {1, 1}, {0, 0}, {0, 0}, 3}}, /* a group for each channel, twice as many
                                                                   filters */
    {1, 3, 2, 2, 5, 4, 1, {{3, 3}, {1, 1}, {4, 3}, {3, 4}, 1}}, /* a kernel larger than x; taps all on padding
                                                                 */
    {3, 1, 1, 1, 1, 1, 1, {{4, 5}, {1, 1}, {0, 0}, {0, 0}, 1}}, /* one element */
    {1, 2, 2, 1, 1, 1, 70, {{1, 1}, {1, 1}, {0, 0}, {0, 0}, 1}}, /* many filters */
};
enum { CONV_CASES = sizeof conv_cases / sizeof *conv_cases };

/* Scatters every element of x to the places whose windows have it: the other way round than kernels do. */
static void scatter(const conv_case *k, const double *x, const double *kernel, double *y, int64_t height,
                    int64_t width)
{
    const iso_conv_geometry *g = &k->geometry;
    int64_t cg = k->c / g->groups, fg = k->f / g->groups;
    for (int64_t i = 0; i < k->n * height * width * k->f; i++)
        y[i] = 0;
    for (int64_t at = 0; at < k->n * k->h * k->w * k->c; at++) {
        int64_t c = at % k->c, col = at / k->c % k->w, row = at / k->c / k->w % k->h,
                n = at / k->c / k->w / k->h;
        for (int64_t tap = 0; tap < k->r * k->s * fg; tap++) {
            int64_t f = c / cg * fg + tap % fg, i = tap / fg / k->s, j = tap / fg % k->s;
            int64_t down = row + g->pad_before[0] - i * g->dilation[0];
            int64_t right = col + g->pad_before[1] - j * g->dilation[1];
            int64_t p = down / g->stride[0], q = right / g->stride[1];
            if (down < 0 || right < 0 || down % g->stride[0] || right % g->stride[1] || p >= height ||
                q >= width)
                continue;
            y[((n * height + p) * width + q) * k->f + f] +=
                x[at] * kernel[((i * k->s + j) * cg + c % cg) * k->f + f];
        }
    }
}

static iso_tensor *conv(probe *p, const conv_case *k, iso_tensor **x, iso_tensor **kernel)
{
    *x = probe_input(p, "x", ISO_SHAPE(k->h, k->w, k->c));
    *kernel = probe_variable(p, "kernel", ISO_SHAPE(k->r, k->s, k->c / k->geometry.groups, k->f));
    return iso_conv2d_op(*x, *kernel, &k->geometry);
}

static void check_conv(const conv_case *k, iso_dtype precision, double tolerance)
{
    probe p;
    iso_tensor *x, *kernel;
    probe_begin(&p, k->n, precision);
    iso_tensor *y = conv(&p, k, &x, &kernel);
    double *computed = probe_evaluate(&p, y);
    int64_t count = probe_count(&p, y);
    double *expected = malloc((size_t)count * sizeof *expected);
    scatter(k, probe_values(&p, x), probe_values(&p, kernel), expected, y->shape.dim[1], y->shape.dim[2]);
    check_close(computed, expected, count, tolerance);
    free(expected);
    probe_end(&p);
}

START_TEST(conv_values)
{
    check_conv(&conv_cases[_i], ISO_F64, 1e-13);
    check_conv(&conv_cases[_i], ISO_F32, 2e-6);
}
END_TEST

START_TEST(conv_gradients)
{
    probe p;
    iso_tensor *x, *kernel;
    probe_begin(&p, conv_cases[_i].n, ISO_F64);
    iso_tensor *y = conv(&p, &conv_cases[_i], &x, &kernel);
    probe_check_gradients(&p, y);
    probe_end(&p);
}
END_TEST

/* The gradient of a loss that is made of gradients. */
START_TEST(conv_second_gradients)
{
    probe p;
    iso_tensor *x, *kernel, *gradients[2];
    probe_begin(&p, 1, ISO_F64);
    iso_tensor *y = conv(&p, &conv_cases[3], &x, &kernel);
    iso_gradients(iso_sum(iso_square(y)), (iso_tensor *[]){x, kernel}, 2, gradients);
    iso_tensor *both = iso_add(iso_sum(iso_square(gradients[0])), iso_sum(iso_square(gradients[1])));
    probe_check_gradients(&p, iso_affine(both, 1e-3, 0));
    probe_end(&p);
}
END_TEST

/* An empty batch gives an empty y and a gradient of zeros. */
START_TEST(conv_no_rows)
{
    probe p;
    iso_tensor *x, *kernel, *gradient;
    probe_begin(&p, 0, ISO_F32);
    iso_tensor *y = conv(&p, &conv_cases[0], &x, &kernel);
    iso_gradients(iso_sum(y), &kernel, 1, &gradient);
    double *computed = probe_evaluate(&p, gradient);
    for (int64_t i = 0; i < probe_count(&p, gradient); i++)
        ck_assert(computed[i] == 0);
    probe_end(&p);
}
END_TEST

typedef struct pool_case {
    int64_t n, h, w, c;
    iso_pool_geometry geometry;
} pool_case;

static const pool_case pool_cases[] = {
    {2, 4, 6, 2, {{2, 2}, {2, 2}, {0, 0}, {0, 0}}},
    {1, 5, 5, 3, {{3, 3}, {1, 1}, {1, 1}, {1, 1}}}, /* windows overlap */
    {1, 5, 4, 1, {{3, 2}, {2, 3}, {2, 0}, {1, 1}}}, /* one-sided padding, a stride beyond the window */
    {2, 3, 7, 2, {{3, 7}, {1, 1}, {0, 0}, {0, 0}}}, /* the whole of x */
    {1, 2, 2, 1, {{4, 4}, {1, 1}, {3, 3}, {3, 3}}}, /* windows larger than x */
};
enum { POOL_CASES = sizeof pool_cases / sizeof *pool_cases };

/* The mean, or the largest, of the elements of channel c in the window at place (p, q). */
static double window_value(const pool_case *k, const double *x, int64_t n, int64_t p, int64_t q, int64_t c,
                           bool largest)
{
    const iso_pool_geometry *g = &k->geometry;
    double sum = 0, most = -INFINITY;
    int inside = 0;
    for (int64_t row = 0; row < k->h; row++)
        for (int64_t col = 0; col < k->w; col++) {
            int64_t down = row + g->pad_before[0] - p * g->stride[0];
            int64_t right = col + g->pad_before[1] - q * g->stride[1];
            if (down < 0 || down >= g->size[0] || right < 0 || right >= g->size[1])
                continue;
            double value = x[((n * k->h + row) * k->w + col) * k->c + c];
            most = fmax(most, value);
            sum += value;
            inside++;
        }
    return largest ? most : sum / inside;
}

static iso_tensor *pool(probe *p, const pool_case *k, bool largest, iso_tensor **x)
{
    *x = probe_input(p, "x", ISO_SHAPE(k->h, k->w, k->c));
    return largest ? iso_max_pool2d_op(*x, &k->geometry) : iso_average_pool2d_op(*x, &k->geometry);
}

static void check_pool(const pool_case *k, bool largest)
{
    probe p;
    iso_tensor *x;
    probe_begin(&p, k->n, ISO_F64);
    iso_tensor *y = pool(&p, k, largest, &x);
    double *computed = probe_evaluate(&p, y);
    int64_t height = y->shape.dim[1], width = y->shape.dim[2];
    for (int64_t i = 0; i < probe_count(&p, y); i++) {
        int64_t c = i % k->c, q = i / k->c % width, row = i / k->c / width % height,
                n = i / k->c / width / height;
        double expected = window_value(k, probe_values(&p, x), n, row, q, c, largest);
        check_close(&computed[i], &expected, 1, 1e-14);
    }
    probe_check_gradients(&p, y);
    probe_end(&p);
}

START_TEST(max_pools)
{
    check_pool(&pool_cases[_i], true);
}
END_TEST

START_TEST(average_pools)
{
    check_pool(&pool_cases[_i], false);
}
END_TEST

/* Of equal elements the first, row by row, gets the gradient; both windows give to the one they share. */
START_TEST(max_pool_ties)
{
    probe p;
    const double values[] = {1, 3, 3, /**/ 3, 3, 0};
    const double expected[] = {0, 2, 0, /**/ 0, 0, 0};
    probe_begin(&p, 1, ISO_F64);
    iso_tensor *x = probe_given(&p, "x", ISO_F32, ISO_SHAPE(2, 3, 1), values), *gradient;
    iso_pool_geometry geometry = {.size = {2, 2}, .stride = {1, 1}};
    iso_gradients(iso_sum(iso_max_pool2d_op(x, &geometry)), &x, 1, &gradient);
    check_close(probe_evaluate(&p, gradient), expected, 6, 0);
    probe_end(&p);
}
END_TEST

START_TEST(max_pool_nan)
{
    probe p;
    const double values[] = {1, NAN, 3, 4};
    probe_begin(&p, 1, ISO_F32);
    iso_tensor *x = probe_given(&p, "x", ISO_F32, ISO_SHAPE(4, 1, 1), values);
    iso_pool_geometry geometry = {.size = {2, 1}, .stride = {2, 1}};
    double *y = probe_evaluate(&p, iso_max_pool2d_op(x, &geometry));
    ck_assert(isnan(y[0]));
    ck_assert(y[1] == 4);
    probe_end(&p);
}
END_TEST

/* Shapes and geometries that do not fit are errors of the graph that say so. */
typedef struct bad_conv {
    iso_shape x, kernel;
    iso_conv_geometry geometry;
    const char *message;
} bad_conv;

static const bad_conv bad_convs[] = {
    {{2, {8, 8}}, {4, {3, 3, 1, 4}}, {{1, 1}, {1, 1}, {0}, {0}, 1}, "4 dimensions"},
    {{3, {8, 8, 3}}, {4, {3, 3, 2, 4}}, {{1, 1}, {1, 1}, {0}, {0}, 1}, "for 2 channels"},
    {{3, {8, 8, 4}}, {4, {3, 3, 2, 3}}, {{1, 1}, {1, 1}, {0}, {0}, 2}, "2 groups"},
    {{3, {8, 8, 4}}, {4, {3, 3, 4, 3}}, {{1, 1}, {1, 1}, {0}, {0}, 0}, "0 groups"},
    {{3, {8, 2, 1}},
     {4, {3, 3, 1, 3}},
     {{1, 1}, {1, 1}, {0}, {0}, 1},
     "width: a window of 3 does not fit into 2"},
    {{3, {8, 8, 1}}, {4, {3, 3, 1, 3}}, {{1, 1}, {4, 1}, {0}, {0}, 1}, "height: a window of 9"},
    {{3, {8, 8, 1}}, {4, {3, 3, 1, 3}}, {{0, 1}, {1, 1}, {0}, {0}, 1}, "stride 0"},
    {{3, {8, 8, 1}}, {4, {3, 3, 1, 3}}, {{1, 1}, {1, 1}, {-1, 0}, {0}, 1}, "padding -1"},
    {{3, {8, 8, 1}}, {4, {3, 3, 1, 3}}, {{1, 1}, {INT64_MAX, 1}, {0}, {0}, 1}, "dilation"},
};
enum { BAD_CONVS = sizeof bad_convs / sizeof *bad_convs };

static void check_refused(iso_graph *graph, const char *message)
{
    ck_assert_int_eq(iso_graph_error(graph), ISO_INVALID);
    ck_assert_msg(strstr(iso_error_message(), message) != NULL, "'%s' lacks '%s'", iso_error_message(),
                  message);
    iso_graph_destroy(graph);
}

START_TEST(convs_refused)
{
    iso_graph *graph = iso_graph_create(NULL);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, bad_convs[_i].x);
    iso_tensor *kernel = iso_variable_value(
        iso_variable_create(graph, "kernel", ISO_F32, bad_convs[_i].kernel, (iso_initializer){0}, true));
    iso_conv2d_op(x, kernel, &bad_convs[_i].geometry);
    check_refused(graph, bad_convs[_i].message);
}
END_TEST

START_TEST(pools_refused)
{
    iso_graph *graph = iso_graph_create(NULL);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(8, 8, 2));
    iso_pool_geometry geometry = {.size = {2, 2}, .stride = {1, 1}, .pad_after = {0, 2}};
    iso_max_pool2d_op(x, &geometry);
    check_refused(graph, "below the window's size 2");
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("convolution");
    TCase *tests = tcase_create("values and gradients");
    tcase_add_loop_test(tests, conv_values, 0, CONV_CASES);
    tcase_add_loop_test(tests, conv_gradients, 0, CONV_CASES);
    tcase_add_test(tests, conv_second_gradients);
    tcase_add_test(tests, conv_no_rows);
    tcase_add_loop_test(tests, max_pools, 0, POOL_CASES);
    tcase_add_loop_test(tests, average_pools, 0, POOL_CASES);
    tcase_add_test(tests, max_pool_ties);
    tcase_add_test(tests, max_pool_nan);
    tcase_add_loop_test(tests, convs_refused, 0, BAD_CONVS);
    tcase_add_test(tests, pools_refused);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void)
{
    return run_suite(suite());
}
