/* Arrays, random rows, conversions, the check for NaN. Ranks: 1, 3
 * Sanitize: 1 */
#include <math.h>

#include "runtime/base/random.h"
#include "runtime/data/convert_rows_impl.h"
#include "runtime/session/session.h"
#include "tests/data/data_test.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;

/* Reads the first batch of all rows. */
static const iso_batch *whole(iso_dataset *ds)
{
    const iso_batch *batch = NULL;
    OK(iso_dataset_batch(ds, iso_dataset_rows(ds)));
    OK(iso_dataset_next(ds, &batch));
    return batch;
}

/* ---- conversion ---- */

START_TEST(test_conversions)
{
    static const double values[] = {0,
                                    1,
                                    2,
                                    255,
                                    256,
                                    -1,
                                    2147483647,
                                    2147483648.0,
                                    -2147483648.0,
                                    -2147483649.0,
                                    9007199254740992.0,
                                    0x1p62,
                                    0x1p63,
                                    -0x1p63,
                                    0.5,
                                    -0.25,
                                    1e300,
                                    NAN,
                                    INFINITY};
    for (iso_dtype from = ISO_F32; from <= ISO_BOOL; from++)
        for (iso_dtype to = ISO_F32; to <= ISO_BOOL; to++)
            for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
                uint64_t stored = 0, converted = 0;
                double value = values[i], result = 0;
                /* What the source type can hold at all. */
                if (iso_convert(ISO_F64, &value, from, &stored, 1) >= 0)
                    continue;
                iso_convert(from, &stored, ISO_F64, &value, 1);
                bool whole_number = value == floor(value);
                bool fits = iso_dtype_is_float(to) ||
                            (whole_number && (to == ISO_U8     ? value >= 0 && value <= 255
                                              : to == ISO_BOOL ? value == 0 || value == 1
                                              : to == ISO_I32  ? value >= -0x1p31 && value < 0x1p31
                                                               : value >= -0x1p63 && value < 0x1p63));
                int64_t bad = iso_convert(from, &stored, to, &converted, 1);
                ck_assert_msg((bad < 0) == fits, "%g from %s to %s", value, iso_dtype_name(from),
                              iso_dtype_name(to));
                if (!fits)
                    continue;
                iso_convert(to, &converted, ISO_F64, &result, 1);
                if (to == ISO_F32)
                    value = (double)(float)value;
                ck_assert_msg(result == value || (isnan(result) && isnan(value)), "%g from %s to %s gives %g",
                              value, iso_dtype_name(from), iso_dtype_name(to), result);
            }
}
END_TEST

START_TEST(test_gather)
{
    enum { N = 97, WIDTH = 33 };
    static uint8_t base[N * WIDTH];
    static float out[N * WIDTH];
    int64_t index[N], element;
    iso_random_permutation(1, 2, N, index);
    for (int i = 0; i < N * WIDTH; i++)
        base[i] = (uint8_t)(i * 7);
    for (int64_t count = 0; count < 9; count++) {
        memset(out, 0xff, sizeof out);
        ck_assert_int_eq(iso_gather(ISO_U8, base, WIDTH, &(iso_rows){.index = index + 3, .count = count},
                                    ISO_F32, out, &element),
                         -1);
        for (int64_t i = 0; i < count * WIDTH; i++)
            ck_assert(out[i] == (float)base[index[3 + i / WIDTH] * WIDTH + i % WIDTH]);
        ck_assert(isnan(out[count * WIDTH])); /* not a value more */
    }
    ck_assert_int_eq(
        iso_gather(ISO_U8, base, WIDTH, &(iso_rows){.begin = 90, .count = 7}, ISO_F32, out, &element), -1);
    for (int64_t i = 0; i < 7 * WIDTH; i++)
        ck_assert(out[i] == (float)base[90 * WIDTH + i]);
}
END_TEST

START_TEST(test_parts_of_rows)
{
    enum { N = 11 };
    uint8_t x[N * 5 * 4 * 3];
    float y[N * 6];
    iso_dataset *ds = NULL;
    iso_shape image = ISO_SHAPE(5, 4, 3);
    for (size_t i = 0; i < sizeof x; i++)
        x[i] = (uint8_t)(i * 37 % 251);
    for (int i = 0; i < N * 6; i++)
        y[i] = (float)i;
    for (int way = 0; way < 4; way++) { /* in memory, shuffled, cached, read ahead */
        OK(iso_dataset_arrays(ctx, &ds, .x = {x, ISO_U8, ISO_SHAPE(N, 5, 4, 3)},
                              .y = {y, ISO_F32, ISO_SHAPE(N, 6)}));
        if (way >= 1)
            OK(iso_dataset_shuffle(ds, 0));
        if (way == 2)
            OK(iso_dataset_cache(ds, NULL));
        if (way == 3)
            OK(iso_dataset_prefetch(ds, 2));
        check_parts(whole(ds), &image);
        iso_dataset_destroy(ds);
    }
    y[3 * 6 + 4] = 0.5f;
    iso_box part = {.rank = 1, .offset = {3}, .extent = {2}};
    int32_t classes[2 * N];
    OK(iso_dataset_arrays(ctx, &ds, .x = {x, ISO_U8, ISO_SHAPE(N, 5, 4, 3)},
                          .y = {y, ISO_F32, ISO_SHAPE(N, 6)}));
    const iso_batch *batch = whole(ds);
    FAILS(batch->read_part(batch, 1, 0, N, &part, ISO_I32, classes),
          "component 1, row 3: 0.5 is not a value of");
    part.extent[0] = 4;
    FAILS(batch->read_part(batch, 1, 0, N, &part, ISO_I32, classes), "is not within rows of shape [6]");
    part.rank = 2;
    FAILS(batch->read_part(batch, 1, 0, N, &part, ISO_I32, classes), "is not within rows of shape [6]");
    iso_dataset_destroy(ds);
}
END_TEST

/* Integral labels held as floats are integers; others are an error that names row and value. */
START_TEST(test_labels_as_floats)
{
    float x[4] = {0}, y[4] = {3, 0, 9, 7};
    int32_t classes[4];
    iso_dataset *ds = NULL;
    OK(iso_dataset_arrays(ctx, &ds, .x = {x, ISO_F32, ISO_SHAPE(4)}, .y = {y, ISO_F32, ISO_SHAPE(4)}));
    const iso_batch *batch = whole(ds);
    OK(batch->read(batch, 1, 0, 4, ISO_I32, classes));
    ck_assert_int_eq(classes[2], 9);
    iso_dataset_destroy(ds);
    y[2] = 2.5f;
    OK(iso_dataset_arrays(ctx, &ds, .x = {x, ISO_F32, ISO_SHAPE(4)}, .y = {y, ISO_F32, ISO_SHAPE(4)}));
    OK(iso_dataset_shuffle(ds, 0));
    batch = whole(ds);
    FAILS(batch->read(batch, 1, 0, 4, ISO_I32, classes), "arrays: component 1, row 2: 2.5 is not a value of");
    iso_dataset_destroy(ds);
    y[2] = NAN;
    OK(iso_dataset_arrays(ctx, &ds, .x = {x, ISO_F32, ISO_SHAPE(4)}, .y = {y, ISO_F32, ISO_SHAPE(4)}));
    batch = whole(ds);
    FAILS(batch->read(batch, 1, 0, 4, ISO_I32, classes), "row 2: nan is not a value of");
    iso_dataset_destroy(ds);
}
END_TEST

/* ---- arrays ---- */

START_TEST(test_copied_and_lent)
{
    for (int lend = 0; lend < 2; lend++) {
        float x[4] = {1, 2, 3, 4}, w[2] = {0.5f, 0.25f}, got[4];
        int64_t y[2] = {7, 8};
        iso_dataset *ds = NULL;
        OK(iso_dataset_arrays(ctx, &ds, .x = {x, ISO_F32, ISO_SHAPE(2, 2)}, .y = {y, ISO_I64, ISO_SHAPE(2)},
                              .sample_weight = {w, ISO_F32, ISO_SHAPE(2)}, .lend = lend));
        ck_assert_int_eq(iso_dataset_components(ds), 3);
        x[0] = 100;
        const iso_batch *batch = whole(ds);
        OK(batch->read(batch, 0, 0, 2, ISO_F32, got));
        ck_assert(got[0] == (lend ? 100 : 1) && got[3] == 4);
        OK(batch->read(batch, 1, 1, 1, ISO_F32, got));
        ck_assert(got[0] == 8);
        OK(batch->read(batch, 2, 0, 2, ISO_F32, got));
        ck_assert(got[1] == 0.25f);
        iso_dataset_destroy(ds);
    }
}
END_TEST

START_TEST(test_several_arrays)
{
    float x[4] = {1, 2, 3, 4}, got[4];
    iso_dataset *ds = NULL;
    OK(iso_dataset_arrays(ctx, &ds, .inputs = {{x, ISO_F32, ISO_SHAPE(2, 2)}, {x + 1, ISO_F32, ISO_SHAPE(2)}},
                          .targets = {{x + 2, ISO_F32, ISO_SHAPE(2)}, {x, ISO_F32, ISO_SHAPE(2)}},
                          .weights = {{x, ISO_F32, ISO_SHAPE(2)}}));
    ck_assert_int_eq(iso_dataset_components(ds), 5);
    ck_assert_int_eq(iso_dataset_inputs(ds), 2);
    ck_assert_int_eq(iso_dataset_targets(ds), 2);
    const iso_batch *batch = whole(ds);
    OK(batch->read(batch, 1, 0, 2, ISO_F32, got));
    ck_assert(got[0] == 2 && got[1] == 3);
    OK(batch->read(batch, 3, 0, 2, ISO_F32, got));
    ck_assert(got[0] == 1 && got[1] == 2);
    iso_dataset_destroy(ds);
    ds = NULL;
    OK(iso_dataset_arrays(ctx, &ds, .inputs = {{x, ISO_F32, ISO_SHAPE(4)}, {x, ISO_F32, ISO_SHAPE(4)}},
                          .targets = {{x, ISO_F32, ISO_SHAPE(4)}}));
    iso_dataset *last = NULL;
    OK(iso_dataset_cache(ds, NULL));
    OK(iso_dataset_split(ds, 1, &last)); /* stages keep what is what */
    ck_assert_int_eq(iso_dataset_inputs(last), 2);
    ck_assert_int_eq(iso_dataset_targets(last), 1);
    iso_dataset_destroy(last);
    iso_dataset_destroy(ds);
    ds = NULL;
    FAILS(iso_dataset_arrays(ctx, &ds, .inputs = {{x, ISO_F32, ISO_SHAPE(2)}, {x, ISO_F32, ISO_SHAPE(3)}}),
          "x 1 has 3 rows");
    FAILS(
        iso_dataset_arrays(ctx, &ds, .x = {x, ISO_F32, ISO_SHAPE(2)}, .inputs = {{x, ISO_F32, ISO_SHAPE(2)}}),
        "x is given twice");
    FAILS(iso_dataset_arrays(
              ctx, &ds, .x = {x, ISO_F32, ISO_SHAPE(2)},
              .targets = {{x, ISO_F32, ISO_SHAPE(2)}, {x, ISO_F32, ISO_SHAPE(2)}, {x, ISO_F32, ISO_SHAPE(2)}},
              .weights = {{x, ISO_F32, ISO_SHAPE(2)}, {x, ISO_F32, ISO_SHAPE(2)}}),
          "2 sample_weights for 3 targets");
    ck_assert_ptr_null(ds);
}
END_TEST

START_TEST(test_bad_arrays)
{
    float x[4] = {0};
    iso_dataset *ds = NULL;
    FAILS(iso_dataset_arrays(ctx, &ds), "x of shape [] has no data");
    FAILS(iso_dataset_arrays(ctx, &ds, .x = {x, ISO_F32, ISO_SCALAR}), "0 dimensions");
    FAILS(iso_dataset_arrays(ctx, &ds, .x = {x, ISO_F32, ISO_SHAPE(0, 2)}), "0 rows");
    FAILS(iso_dataset_arrays(ctx, &ds, .x = {x, ISO_F32, ISO_SHAPE(-4)}), "-4 rows");
    FAILS(iso_dataset_arrays(ctx, &ds, .x = {x, ISO_F32, ISO_SHAPE(2, -2)}), "dimension 0 is -2");
    FAILS(iso_dataset_arrays(ctx, &ds, .x = {x, ISO_DTYPE_NONE, ISO_SHAPE(2)}), "no element type");
    FAILS(iso_dataset_arrays(ctx, &ds, .x = {x, ISO_F32, ISO_SHAPE(2)}, .y = {x, ISO_F32, ISO_SHAPE(3)}),
          "y has 3 rows, x has 2");
    FAILS(iso_dataset_arrays(ctx, &ds, .x = {x, ISO_F32, ISO_SHAPE(2)},
                             .sample_weight = {x, ISO_F32, ISO_SHAPE(2)}),
          "sample_weight without y");
    FAILS(iso_dataset_arrays(ctx, &ds, .x = {x, ISO_F32, ISO_SHAPE(INT64_C(1) << 40, INT64_C(1) << 40)}),
          "overflow");
    FAILS(iso_dataset_arrays(ctx, &ds, .x = {x, ISO_F32, ISO_SHAPE(INT64_C(1) << 61, 2)}), "overflow");
    ck_assert_ptr_null(ds);
}
END_TEST

/* ---- random ---- */

START_TEST(test_random)
{
    enum { ROWS = 1000, WIDTH = 12 };
    static float x[ROWS * WIDTH], again[ROWS * WIDTH], y[ROWS * 10];
    iso_dataset *ds = NULL;
    double sum = 0, squares = 0;
    for (int round = 0; round < 3; round++) {
        OK(iso_dataset_random(ctx, ROWS, &ds, .shape = ISO_SHAPE(4, 3), .targets = ISO_SHAPE(10),
                              .seed = round == 2 ? 7 : 0));
        const iso_batch *batch = whole(ds);
        OK(batch->read(batch, 0, 0, ROWS, ISO_F32, round ? again : x));
        OK(batch->read(batch, 1, 0, ROWS, ISO_F32, y));
        ck_assert_int_eq(memcmp(x, again, sizeof x) == 0, round == 1);
        iso_dataset_destroy(ds);
    }
    for (int i = 0; i < ROWS * WIDTH; i++) {
        ck_assert(x[i] >= 0 && x[i] < 1);
        sum += x[i];
        squares += x[i] * x[i];
    }
    ck_assert(fabs(sum / (ROWS * WIDTH) - 0.5) < 0.015); /* five standard errors */
    ck_assert(fabs(squares / (ROWS * WIDTH) - 1 / 3.0) < 0.015);
    ck_assert(memcmp(x, y, 100) != 0);
}
END_TEST

/* Mean, variance and fourth moment, and how many are below one: five standard errors. The fractions of the
 * normal distribution are those of a table. */
START_TEST(test_random_normal)
{
    enum { ROWS = 2000, WIDTH = 10, ALL = ROWS * WIDTH };
    static float x[ALL], y[ROWS];
    iso_dataset *ds = NULL;
    double sum = 0, squares = 0, fourth = 0;
    int below = 0;
    OK(iso_dataset_random(ctx, ROWS, &ds, .shape = ISO_SHAPE(WIDTH), .normal = true));
    const iso_batch *batch = whole(ds);
    OK(batch->read(batch, 0, 0, ROWS, ISO_F32, x));
    OK(batch->read(batch, 1, 0, ROWS, ISO_F32, y));
    for (int i = 0; i < ALL; i++) {
        sum += x[i];
        squares += (double)x[i] * x[i];
        fourth += pow(x[i], 4);
        below += x[i] < 1;
    }
    ck_assert(fabs(sum / ALL) < 5 / sqrt(ALL));
    ck_assert(fabs(squares / ALL - 1) < 5 * sqrt(2. / ALL));
    ck_assert(fabs(fourth / ALL - 3) < 5 * sqrt(96. / ALL));
    ck_assert(fabs((double)below / ALL - 0.841345) < 5 * sqrt(0.1335 / ALL));
    ck_assert(memcmp(x, y, 100) != 0);
    iso_dataset_destroy(ds);
    OK(iso_dataset_random(ctx, 50, &ds, .normal = true, .classes = 3));
    ck_assert_int_eq(iso_dataset_dtype(ds, 0), ISO_F32);
    ck_assert_int_eq(iso_dataset_dtype(ds, 1), ISO_I32);
    iso_dataset_destroy(ds);
}
END_TEST

/* Rows of a set that is too large to be kept are made when they are read, and are those of one that is kept: in
 * order, in any order, or in part. */
static void check_random_rows(bool normal)
{
    enum { ROWS = 999, WIDTH = 7, LARGE = 2500000 };
    static float kept[ROWS * WIDTH], part[ROWS * 3];
    static int32_t classes[2][ROWS];
    float *all = malloc((size_t)LARGE * WIDTH * sizeof *all);
    iso_dataset *ds = NULL;
    const iso_batch *batch;
    ck_assert_ptr_nonnull(all);
    OK(iso_dataset_random(ctx, ROWS, &ds, .shape = ISO_SHAPE(WIDTH), .classes = 5, .normal = normal));
    batch = whole(ds);
    OK(batch->read(batch, 0, 0, ROWS, ISO_F32, kept));
    OK(batch->read(batch, 1, 0, ROWS, ISO_I32, classes[0]));
    iso_dataset_destroy(ds);
    OK(iso_dataset_random(ctx, LARGE, &ds, .shape = ISO_SHAPE(WIDTH), .classes = 5, .normal = normal));
    batch = whole(ds);
    OK(batch->read(batch, 0, 0, LARGE, ISO_F32, all));
    OK(batch->read(batch, 1, 0, ROWS, ISO_I32, classes[1]));
    ck_assert(memcmp(kept, all, sizeof kept) == 0 && memcmp(classes[0], classes[1], sizeof classes[0]) == 0);
    iso_dataset_destroy(ds);
    OK(iso_dataset_random(ctx, LARGE, &ds, .shape = ISO_SHAPE(WIDTH), .classes = 5, .normal = normal));
    OK(iso_dataset_shuffle(ds, LARGE));
    OK(iso_dataset_batch(ds, ROWS));
    OK(iso_dataset_rewind(ds, 0));
    OK(iso_dataset_next(ds, &batch));
    OK(batch->read(batch, 0, 0, ROWS, ISO_F32, kept));
    const iso_box box = {.rank = 1, .offset = {2}, .extent = {3}};
    OK(batch->read_part(batch, 0, 5, ROWS - 5, &box, ISO_F32, part));
    for (int i = 0; i < ROWS; i++) {
        const float *want = all + batch->source_row(batch, batch->position, i) * WIDTH;
        ck_assert(memcmp(kept + (size_t)i * WIDTH, want, WIDTH * sizeof *want) == 0);
        ck_assert(i < 5 || memcmp(part + (size_t)(i - 5) * 3, want + 2, 3 * sizeof *want) == 0);
    }
    iso_dataset_destroy(ds);
    free(all);
}

START_TEST(test_random_rows_when_read)
{
    check_random_rows(false);
    check_random_rows(true);
}
END_TEST

START_TEST(test_random_classes)
{
    enum { ROWS = 3000, CLASSES = 10 };
    static int32_t y[ROWS];
    int count[CLASSES] = {0};
    iso_dataset *ds = NULL;
    OK(iso_dataset_random(ctx, ROWS, &ds, .shape = ISO_SHAPE(2), .classes = CLASSES));
    ck_assert_int_eq(iso_dataset_dtype(ds, 1), ISO_I32);
    const iso_batch *batch = whole(ds);
    OK(batch->read(batch, 1, 0, ROWS, ISO_I32, y));
    for (int i = 0; i < ROWS; i++) {
        ck_assert(y[i] >= 0 && y[i] < CLASSES);
        count[y[i]]++;
    }
    for (int i = 0; i < CLASSES; i++)
        ck_assert_int_gt(count[i], 220);
    iso_dataset_destroy(ds);
    OK(iso_dataset_random(ctx, 3, &ds, .no_targets = true));
    ck_assert_int_eq(iso_dataset_components(ds), 1);
    iso_dataset_destroy(ds);
}
END_TEST

START_TEST(test_bad_random)
{
    iso_dataset *ds = NULL;
    FAILS(iso_dataset_random(ctx, 0, &ds, .shape = ISO_SHAPE(2)), "0 rows");
    FAILS(iso_dataset_random(ctx, -5, &ds), "-5 rows");
    FAILS(iso_dataset_random(ctx, 3, &ds, .shape = ISO_SHAPE(2, 0)), "dimension 1 is 0");
    FAILS(iso_dataset_random(ctx, 3, &ds, .classes = -2), "-2 classes");
    FAILS(iso_dataset_random(ctx, INT64_MAX, &ds, .shape = ISO_SHAPE(28, 28)), "overflow");
    ck_assert_ptr_null(ds);
}
END_TEST

/* ---- the check ---- */

START_TEST(test_check)
{
    enum { ROWS = 300 };
    static double x[ROWS][2], y[ROWS];
    iso_dataset *ds = NULL;
    for (int bad = 0; bad < 3; bad++) {
        OK(iso_dataset_arrays(ctx, &ds, .x = {x, ISO_F64, ISO_SHAPE(ROWS, 2)},
                              .y = {y, ISO_F64, ISO_SHAPE(ROWS)}));
        OK(iso_dataset_batch(ds, 7));
        if (bad == 0)
            OK(iso_dataset_check(ds));
        else
            FAILS(iso_dataset_check(ds), bad == 1 ? "arrays: component 1 (targets), row 299: inf"
                                                  : "arrays: component 0 (inputs), row 5, element [1]: nan");
        iso_dataset_destroy(ds);
        y[ROWS - 1] = INFINITY;
        if (bad)
            x[5][1] = NAN;
    }
    memset(x, 0, sizeof x);
    memset(y, 0, sizeof y);
}
END_TEST

START_TEST(test_check_of_float32)
{
    const struct {
        float value;
        const char *text;
    } values[] = {{INFINITY, ": inf"}, {-INFINITY, ": -inf"}, {NAN, "nan"}, {3.4e38f, NULL}, {-1e-45f, NULL}};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        float x[4] = {0, 1, values[i].value, 3};
        iso_dataset *ds = NULL;
        OK(iso_dataset_arrays(ctx, &ds, .x = {x, ISO_F32, ISO_SHAPE(4)}));
        if (values[i].text)
            FAILS(iso_dataset_check(ds), values[i].text);
        else
            OK(iso_dataset_check(ds));
        iso_dataset_destroy(ds);
    }
}
END_TEST

/* Component 1 has a limit, of any type of elements; component 0 has none. */
START_TEST(test_check_of_indices)
{
    const struct {
        double value;
        const char *text;
    } values[] = {{0, NULL},
                  {4, NULL},
                  {5, "arrays: component 1 (targets), row 2: 5 is not in 0 to 4 (the classes)"},
                  {-1, "row 2: -1 is not in 0 to 4"},
                  {4.5, NULL},
                  {-0.5, NULL},
                  {INFINITY, "row 2: inf is not in"}};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        for (int whole = 0; whole < 2; whole++) {
            double real[4] = {1, 0, values[i].value, 3}, x[4] = {-7, 70, 7, 7};
            int64_t integer[4] = {1, 0, isfinite(real[2]) ? (int64_t)real[2] : 0, 3};
            iso_dataset *ds = NULL;
            if (whole && (double)integer[2] != real[2])
                continue;
            OK(iso_dataset_arrays(
                ctx, &ds, .x = {x, ISO_F64, ISO_SHAPE(4)},
                .y = {whole ? (void *)integer : real, whole ? ISO_I64 : ISO_F64, ISO_SHAPE(4)}));
            iso_status status = iso_dataset_check(ds, .below = {0, 5}, .below_of = {NULL, "the classes"});
            if (values[i].text)
                FAILS(status, values[i].text);
            else
                OK(status);
            iso_dataset_destroy(ds);
        }
}
END_TEST

/* Values of the stored type that the type of the input does not have; the position in a row of several dimensions. */
START_TEST(test_check_of_types)
{
    static const struct {
        double value;
        iso_dtype used_as;
        const char *text;
    } cases[] = {
        {1e300, ISO_F32,
         "arrays: component 0 (inputs), row 1, element [1, 2]: 1e+300 is not a value of float32"},
        {-3.5e38, ISO_F32, "-3.5e+38 is not a value of float32"},
        {3.4e38, ISO_F32, NULL},
        {1e300, ISO_F64, NULL},
        {1e300, ISO_DTYPE_NONE, NULL},
        {NAN, ISO_F32, "row 1, element [1, 2]: nan"},
        {1.5, ISO_I32, "1.5 is not a value of int32"},
        {256, ISO_U8, "256 is not a value of uint8"},
        {255, ISO_U8, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double x[2][2][3] = {0};
        iso_dataset *ds = NULL;
        x[1][1][2] = cases[i].value;
        OK(iso_dataset_arrays(ctx, &ds, .x = {x, ISO_F64, ISO_SHAPE(2, 2, 3)}));
        iso_status status = iso_dataset_check(ds, .used_as = {cases[i].used_as});
        if (cases[i].text)
            FAILS(status, cases[i].text);
        else
            OK(status);
        if (isnan(cases[i].value))
            ck_assert(!strstr(iso_error_message(), "is not a value"));
        iso_dataset_destroy(ds);
    }
}
END_TEST

/* A part of a data set is checked alone, and checking does not disturb the iteration. */
START_TEST(test_check_of_a_part)
{
    float x[6] = {0, 1, 2, 3, 4, NAN}, value;
    iso_dataset *ds = NULL, *last = NULL;
    const iso_batch *batch = NULL;
    OK(iso_dataset_arrays(ctx, &ds, .x = {x, ISO_F32, ISO_SHAPE(6)}));
    OK(iso_dataset_split(ds, 2, &last));
    OK(iso_dataset_next(ds, &batch));
    OK(iso_dataset_check(ds));
    OK(iso_dataset_next(ds, &batch));
    OK(batch->read(batch, 0, 0, 1, ISO_F32, &value));
    ck_assert(value == 1);
    FAILS(iso_dataset_check(last), "row 5: nan");
    iso_dataset_destroy(ds);
    iso_dataset_destroy(last);
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS("sources", 0, test_conversions, test_gather, test_parts_of_rows, test_labels_as_floats,
                  test_copied_and_lent, test_several_arrays, test_bad_arrays, test_random, test_random_normal,
                  test_random_rows_when_read, test_random_classes, test_bad_random, test_check,
                  test_check_of_float32, test_check_of_indices, test_check_of_types, test_check_of_a_part))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
