/* Layers that change images at random: what is drawn, and what becomes of an image. tests/models/test_layers_keras
 * compares the changes themselves with Keras. Ranks: 1 */
#include <check.h>
#include <math.h>
#include <string.h>

#include "models/layers.h"
#include "tests/support/probe.h"
#include "tests/support/run_tests.h"

enum { ROWS = 40, H = 4, W = 5, C = 2, PIXELS = H * W, IMAGE = PIXELS * C };

static probe p;
static iso_tensor *x;
static const double *from;

static void begin(void)
{
    probe_begin(&p, ROWS, ISO_F64);
    p.in->training = true;
    iso_graph_set_seed(p.graph, 3);
    x = probe_input(&p, "x", ISO_SHAPE(H, W, C));
    from = probe_values(&p, x);
}

/* Whether image n of y is that of x, whose pixel in row i and column j is where `place` says. */
static bool is_moved(const double *y, int n, int (*place)(int i, int j))
{
    for (int pixel = 0; pixel < PIXELS; pixel++)
        for (int c = 0; c < C; c++)
            if (y[n * IMAGE + pixel * C + c] != from[n * IMAGE + place(pixel / W, pixel % W) * C + c])
                return false;
    return true;
}

static int same(int i, int j)
{
    return i * W + j;
}
static int left_right(int i, int j)
{
    return i * W + W - 1 - j;
}
static int upside_down(int i, int j)
{
    return (H - 1 - i) * W + j;
}
static int both(int i, int j)
{
    return (H - 1 - i) * W + W - 1 - j;
}

/* Some images are mirrored and the others as they were; a further step and another layer choose others. */
START_TEST(flips)
{
    static int (*const places[])(int i, int j) = {both, left_right, upside_down};
    bool last[ROWS];
    int differ = 0;
    begin();
    for (int k = 0; k < 6; k++) {
        const iso_flip_mode mode = (iso_flip_mode)(k % 3);
        p.step = (uint64_t)k;
        const double *y = probe_evaluate(&p, iso_random_flip(x, mode));
        int flipped = 0;
        for (int n = 0; n < ROWS; n++) {
            const bool other = is_moved(y, n, places[mode]);
            ck_assert_msg(other || is_moved(y, n, same), "mode %d, image %d is neither", (int)mode, n);
            flipped += other;
            differ += k > 0 && other != last[n];
            last[n] = other;
        }
        ck_assert_msg(flipped > ROWS / 5 && flipped < ROWS - ROWS / 5, "mode %d: %d of %d", (int)mode,
                      flipped, ROWS);
    }
    ck_assert_msg(differ > ROWS, "only %d choices differ", differ);
    probe_end(&p);
}
END_TEST

/* Numbers of a row: in their range, their own, and no others in a batch with other rows before them. */
START_TEST(numbers)
{
    double first[ROWS];
    begin();
    iso_tensor *zeros = iso_reduce_sum(iso_affine(x, 0, 0), (const int[]){1, 2, 3}, 3, false);
    const double *u = probe_evaluate(&p, iso_uniform_op(zeros, -1, 3, ISO_UNIFORM_VALUE, "u"));
    double sum = 0, squares = 0;
    for (int n = 0; n < ROWS; n++) {
        ck_assert(u[n] >= -1 && u[n] < 3);
        first[n] = u[n];
        sum += u[n];
        squares += u[n] * u[n];
        for (int k = 0; k < n; k++)
            ck_assert(u[k] != u[n]);
    }
    /* Within four standard errors of the mean 1, and of the mean square 1 + 16 / 12. */
    ck_assert_msg(fabs(sum / ROWS - 1) < 4 * sqrt(16.0 / 12 / ROWS), "mean %g", sum / ROWS);
    ck_assert_msg(fabs(squares / ROWS - 7.0 / 3) < 4 * 2.4 / sqrt(ROWS), "mean square %g", squares / ROWS);
    const double *cosine = probe_evaluate(&p, iso_uniform_op(zeros, -1, 3, ISO_UNIFORM_COSINE, "u"));
    const double *sine = probe_evaluate(&p, iso_uniform_op(zeros, -1, 3, ISO_UNIFORM_SINE, "u"));
    for (int n = 0; n < ROWS; n++) {
        ck_assert(fabs(cosine[n] - cos(2 * acos(-1) * first[n])) < 1e-13);
        ck_assert(fabs(sine[n] - sin(2 * acos(-1) * first[n])) < 1e-13);
    }
    p.step = 1;
    u = probe_evaluate(&p, iso_uniform_op(zeros, -1, 3, ISO_UNIFORM_VALUE, "u"));
    for (int n = 0; n < ROWS; n++)
        ck_assert(u[n] != first[n]);
    probe_end(&p);
}
END_TEST

/* The sign of a shear is drawn for each image: it is that of iso_warp_op with either. */
START_TEST(shears)
{
    int negative = 0;
    begin();
    const double *y = probe_evaluate(&p, iso_random_shear(x, {0.5, 0.5}, {0.25, 0.25}));
    const double *z[2];
    for (int k = 0; k < 2; k++) {
        const double sign = k ? -1 : 1, map[] = {1, 0.25 * sign, 0, 0.5 * sign, 1, 0};
        iso_tensor *maps =
            iso_broadcast_to(iso_constant(p.graph, ISO_F64, ISO_SHAPE(1, 6), map), ISO_SHAPE(ISO_BATCH, 6));
        z[k] = probe_evaluate(&p, iso_warp_op(x, maps, &(iso_warp_form){.height = 0}));
    }
    for (int n = 0; n < ROWS; n++) {
        const bool minus = memcmp(y + n * IMAGE, z[1] + n * IMAGE, sizeof(double[IMAGE])) == 0;
        ck_assert_msg(minus || memcmp(y + n * IMAGE, z[0] + n * IMAGE, sizeof(double[IMAGE])) == 0,
                      "image %d is neither", n);
        negative += minus;
    }
    ck_assert_msg(negative > ROWS / 5 && negative < ROWS - ROWS / 5, "%d of %d", negative, ROWS);
    probe_end(&p);
}
END_TEST

/* One place for all images of a step; over the steps, all of them. */
START_TEST(crops)
{
    enum { HEIGHT = 3, WIDTH = 3, PLACES = (H - HEIGHT + 1) * (W - WIDTH + 1), STEPS = 40 };
    int seen[PLACES] = {0}, places = 0;
    begin();
    for (int step = 0; step < STEPS; step++) {
        p.step = (uint64_t)step;
        const double *y = probe_evaluate(&p, iso_random_crop(x, HEIGHT, WIDTH));
        int place = 0;
        while (place < PLACES && y[0] != from[(place / (W - WIDTH + 1) * W + place % (W - WIDTH + 1)) * C])
            place++;
        ck_assert_int_lt(place, PLACES);
        places += !seen[place]++;
        for (int i = 0; i < ROWS * HEIGHT * WIDTH * C; i++) {
            const int n = i / (HEIGHT * WIDTH * C), row = i / (WIDTH * C) % HEIGHT + place / (W - WIDTH + 1),
                      column = i / C % WIDTH + place % (W - WIDTH + 1);
            ck_assert(y[i] == from[n * IMAGE + (row * W + column) * C + i % C]);
        }
    }
    ck_assert_int_eq(places, PLACES);
    probe_end(&p);
}
END_TEST

/* A rectangle of about the drawn size, all channels of it, in images that are chosen. */
START_TEST(erasures)
{
    int erased = 0;
    begin();
    const double *y = probe_evaluate(
        &p, iso_random_erasing(x, {0.5, 0.5}, {0.25, 0.25}, {-1, 8}, .constant = true, .fill_value = 7));
    for (int n = 0; n < ROWS; n++) {
        int count = 0, rows[2] = {H, -1}, columns[2] = {W, -1};
        for (int pixel = 0; pixel < PIXELS; pixel++) {
            const double *of = y + n * IMAGE + pixel * C;
            const bool gone = of[0] == 7;
            ck_assert(gone ? of[1] == 7 : memcmp(of, from + n * IMAGE + pixel * C, sizeof(double[C])) == 0);
            count += gone;
            rows[0] = gone && pixel / W < rows[0] ? pixel / W : rows[0];
            rows[1] = gone && pixel / W > rows[1] ? pixel / W : rows[1];
            columns[0] = gone && pixel % W < columns[0] ? pixel % W : columns[0];
            columns[1] = gone && pixel % W > columns[1] ? pixel % W : columns[1];
        }
        erased += count > 0;
        if (count > 0) /* half of 4 rows, 2 or 3 of 5 columns */
            ck_assert_msg(count == (rows[1] - rows[0] + 1) * (columns[1] - columns[0] + 1) &&
                              rows[1] - rows[0] + 1 == 2 && columns[1] - columns[0] >= 1 &&
                              columns[1] - columns[0] <= 2,
                          "image %d: %d pixels", n, count);
    }
    ck_assert_msg(erased > ROWS / 5 && erased < ROWS - ROWS / 5, "%d of %d", erased, ROWS);
    probe_end(&p);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("augmentation");
    TCase *tests = tcase_create("augmentation");
    tcase_add_test(tests, flips);
    tcase_add_test(tests, numbers);
    tcase_add_test(tests, shears);
    tcase_add_test(tests, crops);
    tcase_add_test(tests, erasures);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void)
{
    return run_suite(suite());
}
