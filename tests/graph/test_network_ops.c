/* Softmax, cross-entropy, embedding, rotary positions and dropout: values, gradients, faults of the data, and parts
 * of tensors. Ranks: 1 */
#include <check.h>
#include <math.h>
#include <string.h>

#include "runtime/backend/rotary.h"
#include "runtime/base/random.h"
#include "runtime/graph/op.h"
#include "runtime/graph/ops/network_impl.h"
#include "tests/support/probe.h"
#include "tests/support/run_tests.h"

/* ---- bands ---- */

static void check_band(const iso_band_attrs *band, int64_t first, int64_t count, int64_t columns)
{
    double want = 0, got = iso_band_elements(band, first, count, columns);
    for (int64_t row = first; row < first + count; row++) {
        int64_t begin, end;
        iso_band_columns(band, row, columns, &begin, &end);
        want += (double)(end - begin);
    }
    ck_assert_msg(got == want, "rows %lld to %lld of %lld columns, window %lld, causal %lld: %g, not %g",
                  (long long)first, (long long)(first + count), (long long)columns, (long long)band->window,
                  (long long)band->causal, got, want);
}

/* Counted row by row, and at once. */
START_TEST(elements_of_bands)
{
    static const int64_t windows[] = {0, 1, 2, 3, 7, 12, 13, 14, 40, INT32_MAX, INT64_MAX / 2};
    static const int64_t columns[] = {0, 1, 2, 6, 13, 31};
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++)
        for (size_t c = 0; c < sizeof columns / sizeof *columns; c++)
            for (int64_t first = 0; first < 20; first++)
                for (int64_t count = 0; count < 25; count++)
                    for (int causal = 0; causal < 2; causal++)
                        check_band(&(iso_band_attrs){.window = windows[w], .causal = causal}, first, count,
                                   columns[c]);
}
END_TEST

/* ---- softmax ---- */

/* x: [2, 3, 4] (the first being the batch); axes 1, 2 and from the end */
START_TEST(softmax_values)
{
    static const int axes[] = {1, 2, -1, -2};
    int axis = axes[_i] < 0 ? axes[_i] + 3 : axes[_i];
    int64_t step = axis == 1 ? 4 : 1, count = axis == 1 ? 3 : 4;
    probe p;
    probe_begin(&p, 2, ISO_F64);
    iso_tensor *x = probe_input(&p, "x", ISO_SHAPE(3, 4));
    double *y = probe_evaluate(&p, iso_softmax(x, axes[_i]));
    double *log_y = probe_evaluate(&p, iso_log_softmax(x, axes[_i]));
    for (int64_t i = 0; i < 24; i++) {
        int64_t first = axis == 1 ? i / 12 * 12 + i % 4 : i / 4 * 4;
        double sum = 0;
        for (int64_t k = 0; k < count; k++)
            sum += exp(p.values[0][first + k * step]);
        double expected[] = {exp(p.values[0][i]) / sum, p.values[0][i] - log(sum)};
        check_close((double[]){y[i], log_y[i]}, expected, 2, 1e-14);
    }
    probe_end(&p);
}
END_TEST

START_TEST(softmax_gradients)
{
    probe p;
    probe_begin(&p, 2, ISO_F64);
    iso_tensor *x = probe_input(&p, "x", ISO_SHAPE(3, 4));
    probe_check_gradients(&p, iso_add(iso_softmax(x, 1 + _i), iso_log_softmax(x, 2 - _i)));
    probe_end(&p);
}
END_TEST

/* Neither overflow nor underflow. */
START_TEST(softmax_of_large_values)
{
    const double values[] = {1000, 999, -1000},
                 expected[] = {-0.31326168751822286, -1.3132616875182228, -2000.3132616875182};
    probe p;
    probe_begin(&p, 1, ISO_F64);
    iso_tensor *x = probe_given(&p, "x", ISO_F32, ISO_SHAPE(3), values);
    check_close(probe_evaluate(&p, iso_log_softmax(x, -1)), expected, 3, 1e-15);
    ck_assert(probe_evaluate(&p, iso_softmax(x, -1))[2] == 0);
    probe_end(&p);
}
END_TEST

/* ---- attention ---- */

/* A mask that leaves no key to any query: adding to all scores changes no weight, filling makes them equal. */
START_TEST(attention_to_no_key)
{
    enum { ALL = 2 * 3 * 2 };
    iso_attention_form form = {.scale = 1, .masked = -1e9};
    double means[ALL], plain[ALL];
    probe p;
    probe_begin(&p, 2, ISO_F64);
    iso_tensor *x = probe_input(&p, "x", ISO_SHAPE(3, 1, 2));
    iso_tensor *mask = iso_broadcast_to(iso_number(iso_tensor_graph(x), ISO_BOOL, 0), ISO_SHAPE(1, 1, 1, 1));
    memcpy(plain, probe_evaluate(&p, iso_attention_op(x, x, x, NULL, &form)), sizeof plain);
    for (int i = 0; i < ALL; i++) {
        const double *row = p.values[0] + i / 6 * 6;
        means[i] = (row[i % 2] + row[2 + i % 2] + row[4 + i % 2]) / 3;
    }
    check_close(probe_evaluate(&p, iso_attention_op(x, x, x, mask, &form)), means, ALL, 1e-14);
    form.query_mask = mask;
    check_close(probe_evaluate(&p, iso_attention_op(x, x, x, NULL, &form)), means, ALL, 1e-14);
    form.adds = true;
    check_close(probe_evaluate(&p, iso_attention_op(x, x, x, NULL, &form)), plain, ALL, 1e-6);
    probe_end(&p);
}
END_TEST

/* ---- cross-entropy ---- */

static const iso_dtype label_types[] = {ISO_U8, ISO_I32, ISO_I64, ISO_F32, ISO_F64};
enum { LABEL_TYPES = 5 };

START_TEST(sparse_crossentropy)
{
    const double labels[] = {2, 0, 4, 4, 1, 3};
    probe p;
    probe_begin(&p, 3, ISO_F64);
    iso_tensor *logits = probe_input(&p, "logits", ISO_SHAPE(2, 5));
    iso_dtype type = label_types[_i];
    iso_tensor *loss = iso_sparse_crossentropy_op(
        iso_cast(probe_given(&p, "labels", ISO_I32, ISO_SHAPE(2), labels), type), logits);
    double *computed = probe_evaluate(&p, loss);
    for (int64_t row = 0; row < 6; row++) {
        double sum = 0, *x = p.values[0] + row * 5;
        for (int64_t k = 0; k < 5; k++)
            sum += exp(x[k]);
        double expected = -log(exp(x[(int)labels[row]]) / sum);
        check_close(&computed[row], &expected, 1, 1e-14);
    }
    probe_check_gradients(&p, loss);
    ck_assert_int_eq(p.fault.code, ISO_FAULT_NONE);
    probe_end(&p);
}
END_TEST

typedef struct bad_label {
    iso_dtype type;
    double value;
    const char *message;
} bad_label;

static const bad_label bad_labels[] = {
    {ISO_I32, 10, "label 10 of row 1 is not one of the 10 classes"},
    {ISO_I64, -1, "label -1 of row 1 is not one of the 10 classes"},
    {ISO_U8, 255, "label 255 of row 1 is not one of the 10 classes"},
    {ISO_F32, 2.5, "label 2.5 of row 1 is not one of the 10 classes"},
    {ISO_F32, NAN, "label nan of row 1 is not one of the 10 classes"},
    {ISO_F64, INFINITY, "label inf of row 1 is not one of the 10 classes"},
    {ISO_F64, -1e-9, "label -1e-09 of row 1 is not one of the 10 classes"},
};
enum { BAD_LABELS = sizeof bad_labels / sizeof *bad_labels };

/* A wrong label is reported, in the loss and in the gradient, with loss 0 and a gradient of zeros for its row
 * alone. */
START_TEST(sparse_crossentropy_fault)
{
    const bad_label *bad = &bad_labels[_i];
    probe p;
    probe_begin(&p, 2, ISO_F32);
    iso_tensor *logits = probe_input(&p, "logits", ISO_SHAPE(10)), *gradient;
    iso_tensor *labels = probe_given(&p, "labels", bad->type, ISO_SCALAR, (double[]){3, bad->value});
    iso_tensor *loss = iso_sparse_crossentropy_op(labels, logits);
    double *losses = probe_evaluate(&p, loss);
    ck_assert(losses[0] > 0 && losses[1] == 0);
    ck_assert_int_ne(p.fault.code, ISO_FAULT_NONE);
    ck_assert_str_eq(p.fault.text, bad->message);
    iso_gradients(iso_sum(loss), &logits, 1, &gradient);
    double *dx = probe_evaluate(&p, gradient);
    ck_assert_str_eq(p.fault.text, bad->message);
    for (int64_t k = 0; k < 10; k++)
        ck_assert(dx[k] != 0 && dx[10 + k] == 0);
    probe_end(&p);
}
END_TEST

/* The labels are a softmax, so they too have a gradient; one of them is exactly 0 where the logit is -inf. */
START_TEST(crossentropy)
{
    probe p;
    probe_begin(&p, 3, ISO_F64);
    iso_tensor *logits = probe_input(&p, "logits", ISO_SHAPE(4));
    iso_tensor *labels = iso_softmax(probe_input(&p, "teacher", ISO_SHAPE(4)), -1);
    iso_tensor *loss = iso_crossentropy_op(labels, logits);
    double *computed = probe_evaluate(&p, loss), *t = probe_evaluate(&p, labels);
    double *log_y = probe_evaluate(&p, iso_log_softmax(logits, -1));
    for (int64_t row = 0; row < 3; row++) {
        double expected = 0;
        for (int64_t i = row * 4; i < row * 4 + 4; i++)
            expected -= t[i] * log_y[i];
        check_close(&computed[row], &expected, 1, 1e-14);
    }
    /* labels need not add up to 1 */
    probe_check_gradients(&p, iso_add(loss, iso_crossentropy_op(iso_affine(labels, 3, 0.1), logits)));
    probe_end(&p);
}
END_TEST

/* Neither overflow nor underflow: the losses of these logits are those of logits that lie lower by 1000, or
 * higher. */
START_TEST(crossentropy_of_large_values)
{
    static const double near[] = {0, 1, -2, 0.5}, one_hot[] = {0, 0, 1, 0}, label[] = {2};
    double sum = 0, expected, shifted[4];
    for (int k = 0; k < 4; k++)
        sum += exp(near[k]);
    expected = log(sum) - near[2];
    for (int sign = -1; sign <= 1; sign += 2) {
        probe p;
        for (int k = 0; k < 4; k++)
            shifted[k] = near[k] + sign * 1000;
        probe_begin(&p, 1, ISO_F64);
        iso_tensor *logits = probe_given(&p, "logits", ISO_F64, ISO_SHAPE(4), shifted);
        iso_tensor *sparse = probe_given(&p, "label", ISO_I32, (iso_shape){0}, label),
                   *dense = probe_given(&p, "one_hot", ISO_F64, ISO_SHAPE(4), one_hot);
        check_close(probe_evaluate(&p, iso_sparse_crossentropy_op(sparse, logits)), &expected, 1, 1e-12);
        check_close(probe_evaluate(&p, iso_crossentropy_op(dense, logits)), &expected, 1, 1e-12);
        probe_end(&p);
    }
}
END_TEST

/* A window with a NaN has none larger, wherever it lies. */
START_TEST(pooling_of_nan)
{
    const iso_pool_geometry geometry = {.size = {2, 2}, .stride = {2, 2}};
    for (int at = 0; at < 4; at++) {
        double values[] = {3, 1, 2, 4};
        values[at] = NAN;
        probe p;
        probe_begin(&p, 1, ISO_F64);
        iso_tensor *x = probe_given(&p, "x", ISO_F64, ISO_SHAPE(2, 2, 1), values);
        ck_assert(isnan(probe_evaluate(&p, iso_max_pool2d_op(x, &geometry))[0]));
        probe_end(&p);
    }
}
END_TEST

START_TEST(crossentropy_of_impossible_class)
{
    probe p;
    probe_begin(&p, 1, ISO_F64);
    iso_tensor *labels = probe_given(&p, "labels", ISO_F32, ISO_SHAPE(2), (double[]){1, 0});
    iso_tensor *logits = probe_given(&p, "logits", ISO_F32, ISO_SHAPE(2), (double[]){3, -INFINITY});
    ck_assert(*probe_evaluate(&p, iso_crossentropy_op(labels, logits)) == 0);
    probe_end(&p);
}
END_TEST

/* ---- embedding ---- */

START_TEST(embedding)
{
    const double index[] = {2, 0, 2, 2, 4, 1};
    probe p;
    probe_begin(&p, 3, ISO_F64);
    iso_tensor *table = probe_variable(&p, "table", ISO_SHAPE(5, 3));
    iso_tensor *y = iso_embedding_op(table, probe_given(&p, "index", ISO_I64, ISO_SHAPE(2), index));
    double *computed = probe_evaluate(&p, y);
    for (int64_t i = 0; i < 6 * 3; i++)
        ck_assert(computed[i] == p.values[0][(int)index[i / 3] * 3 + i % 3]);
    probe_check_gradients(&p, y);
    probe_end(&p);
}
END_TEST

START_TEST(embedding_fault)
{
    probe p;
    probe_begin(&p, 2, ISO_F32);
    iso_tensor *table = probe_variable(&p, "table", ISO_SHAPE(5, 2));
    iso_tensor *y =
        iso_embedding_op(table, probe_given(&p, "index", ISO_I32, ISO_SHAPE(2), (double[]){0, 1, 2, 5}));
    double *computed = probe_evaluate(&p, y);
    ck_assert_int_ne(p.fault.code, ISO_FAULT_NONE);
    ck_assert_str_eq(p.fault.text, "index 5 of row 1, position 1 is not one of the 5 rows of the table");
    ck_assert(computed[4] != 0 && computed[6] == 0 && computed[7] == 0);
    probe_end(&p);
}
END_TEST

/* ---- parts of tensors: what slots hold ---- */

typedef struct part {
    iso_array array;
    float data[64];
} part;

/* Rows [begin, begin + count) of a matrix of `rows` x `columns` with values from `whole`. */
static void take_rows(part *p, const float *whole, int64_t rows, int64_t columns, int64_t begin,
                      int64_t count)
{
    p->array = (iso_array){.data = p->data,
                           .dtype = ISO_F32,
                           .rank = 2,
                           .dim = {count, columns},
                           .offset = {begin},
                           .global = {rows, columns}};
    if (whole)
        memcpy(p->data, whole + begin * columns, (size_t)(count * columns) * sizeof *whole);
}

static void run(const char *op, iso_kernel_call *call)
{
    const iso_kernel *kernel = iso_backend_reference()->find(op, call);
    ck_assert(kernel != NULL);
    kernel->run(call);
}

/* Slots with parts of the table: their results add up to the look-up in the whole, and only a bad index is a
 * fault. */
START_TEST(embedding_of_parts)
{
    float table[5 * 2], sum[4 * 2] = {0};
    int32_t index[] = {4, 0, 3, 2};
    for (int i = 0; i < 10; i++)
        table[i] = (float)(i + 1);
    for (int64_t begin = 0; begin < 5; begin += 2) {
        part held, y;
        iso_fault fault = {0};
        take_rows(&held, table, 5, 2, begin, begin == 4 ? 1 : 2);
        take_rows(&y, NULL, 4, 2, 0, 4);
        iso_array in[] = {held.array,
                          {.data = index, .dtype = ISO_I32, .rank = 1, .dim = {4}, .global = {4}}};
        run("embedding",
            &(iso_kernel_call){.n_inputs = 2, .n_outputs = 1, .in = in, .out = &y.array, .fault = &fault});
        ck_assert_int_eq(fault.code, ISO_FAULT_NONE);
        for (int i = 0; i < 8; i++)
            sum[i] += y.data[i];
    }
    for (int i = 0; i < 8; i++)
        ck_assert(sum[i] == table[index[i / 2] * 2 + i % 2]);
}
END_TEST

/* The gradient of a part of the table has that part's rows. */
START_TEST(embedding_gradient_of_parts)
{
    int32_t index[] = {4, 0, 3, 4};
    float values[] = {1, 2, 3, 4, 5, 6, 7, 8}, expected[] = {5, 6, 8, 10};
    part dy, dtable;
    iso_fault fault = {0};
    iso_embedding_attrs attrs = {.rows = 5};
    take_rows(&dy, values, 4, 2, 0, 4);
    take_rows(&dtable, NULL, 5, 2, 3, 2);
    iso_array in[] = {{.data = index, .dtype = ISO_I32, .rank = 1, .dim = {4}, .global = {4}}, dy.array};
    run("embedding_grad",
        &(iso_kernel_call){
            .attrs = &attrs, .n_inputs = 2, .n_outputs = 1, .in = in, .out = &dtable.array, .fault = &fault});
    ck_assert_int_eq(fault.code, ISO_FAULT_NONE);
    for (int i = 0; i < 4; i++)
        ck_assert(dtable.data[i] == expected[i]);
}
END_TEST

/* The row of a fault is the global one. */
START_TEST(fault_names_global_row)
{
    int32_t labels[] = {0, 7};
    float values[] = {1, 2, 3, 4};
    part logits, loss;
    iso_fault fault = {0};
    take_rows(&logits, values, 2, 2, 0, 2);
    take_rows(&loss, NULL, 2, 1, 0, 2);
    iso_array in[] = {
        {.data = labels, .dtype = ISO_I32, .rank = 1, .dim = {2}, .offset = {500}, .global = {600}},
        logits.array};
    run("sparse_crossentropy",
        &(iso_kernel_call){.n_inputs = 2, .n_outputs = 1, .in = in, .out = &loss.array, .fault = &fault});
    iso_fault_format(&fault, &iso_op_sparse_crossentropy, in, "");
    ck_assert_str_eq(fault.text, "label 7 of row 501 is not one of the 2 classes");
}
END_TEST

/* ---- dropout ---- */

START_TEST(dropout_values)
{
    const double rate = 0.3;
    enum { ROWS = 50, COLUMNS = 20 };
    probe p;
    probe_begin(&p, ROWS, ISO_F64);
    iso_graph_set_seed(p.graph, 5);
    p.step = 3;
    iso_tensor *x = probe_input(&p, "x", ISO_SHAPE(COLUMNS));
    double *y = probe_evaluate(&p, iso_dropout_op(x, rate, "drop"));
    int kept = 0;
    for (int64_t i = 0; i < ROWS * COLUMNS; i++) {
        bool keep = iso_uniform_f32(iso_random_word(iso_random_key(5, "drop"), 3, (uint64_t)i)) >= rate;
        double expected = keep ? p.values[0][i] / (1 - rate) : 0;
        check_close(&y[i], &expected, 1, 1e-15);
        kept += keep;
    }
    /* binomial: 700 of 1000, standard deviation 14.5 */
    ck_assert_int_gt(kept, 640);
    ck_assert_int_lt(kept, 760);
    probe_end(&p);
}
END_TEST

START_TEST(dropout_gradients)
{
    probe p;
    probe_begin(&p, 4, ISO_F64);
    p.step = 1;
    probe_check_gradients(&p, iso_dropout_op(probe_input(&p, "x", ISO_SHAPE(6)), 0.5, "drop"));
    probe_end(&p);
}
END_TEST

/* ---- noise ---- */

/* What is added is normal: its moments, and how many numbers lie within one and two deviations; no step and
 * no path has another's. */
START_TEST(noise_is_normal)
{
    enum { ROWS = 500, COLUMNS = 20, N = ROWS * COLUMNS };
    probe p;
    double sum = 0, squares = 0, cubes = 0, products = 0, last = 0;
    int within[2] = {0, 0};
    probe_begin(&p, ROWS, ISO_F64);
    iso_graph_set_seed(p.graph, 5);
    iso_tensor *x = probe_input(&p, "x", ISO_SHAPE(COLUMNS));
    const double *y = probe_evaluate(&p, iso_gaussian_noise_op(x, 0.5, "noise"));
    for (int64_t i = 0; i < N; i++) {
        double z = (y[i] - p.values[0][i]) / 0.5;
        sum += z;
        squares += z * z;
        cubes += z * z * z;
        products += z * last;
        last = z;
        within[0] += fabs(z) < 1;
        within[1] += fabs(z) < 2;
    }
    /* within five standard errors of 0, 1, 0, 0, and of 68.27% and 95.45% */
    ck_assert_msg(fabs(sum) < 5 * sqrt(N), "mean %g", sum / N);
    ck_assert_msg(fabs(squares - N) < 5 * sqrt(2.0 * N), "variance %g", squares / N);
    ck_assert_msg(fabs(cubes) < 5 * sqrt(15.0 * N), "third moment %g", cubes / N);
    ck_assert_msg(fabs(products) < 5 * sqrt(N), "neighbours go together by %g", products / N);
    ck_assert_msg(fabs(within[0] - 0.6827 * N) < 5 * 0.4654 * sqrt(N), "%d within one", within[0]);
    ck_assert_msg(fabs(within[1] - 0.9545 * N) < 5 * 0.2084 * sqrt(N), "%d within two", within[1]);
    probe_end(&p);
}
END_TEST

START_TEST(noise_differs)
{
    probe p;
    probe_begin(&p, 4, ISO_F64);
    iso_tensor *x = probe_input(&p, "x", ISO_SHAPE(6));
    double first = probe_evaluate(&p, iso_gaussian_noise_op(x, 0.5, "noise"))[0];
    ck_assert(probe_evaluate(&p, iso_gaussian_noise_op(x, 0.5, "noise"))[0] == first);
    ck_assert(probe_evaluate(&p, iso_gaussian_noise_op(x, 0.5, "other"))[0] != first);
    p.step = 1;
    ck_assert(probe_evaluate(&p, iso_gaussian_noise_op(x, 0.5, "noise"))[0] != first);
    probe_end(&p);
}
END_TEST

static bool same(const double *a, const double *b, int64_t n)
{
    return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

/* Another step, path or seed drops other elements; the same of all, the same. */
START_TEST(dropout_depends_on)
{
    double *y[5];
    probe p, other;
    probe_begin(&p, 8, ISO_F64);
    iso_tensor *x = probe_input(&p, "x", ISO_SHAPE(8));
    y[0] = probe_evaluate(&p, iso_dropout_op(x, 0.5, "a"));
    y[1] = probe_evaluate(&p, iso_dropout_op(x, 0.5, "a"));
    y[2] = probe_evaluate(&p, iso_dropout_op(x, 0.5, "b"));
    p.step = 1;
    y[3] = probe_evaluate(&p, iso_dropout_op(x, 0.5, "a"));
    probe_begin(&other, 8, ISO_F64);
    iso_graph_set_seed(other.graph, 6);
    y[4] = probe_evaluate(&other, iso_dropout_op(probe_input(&other, "x", ISO_SHAPE(8)), 0.5, "a"));
    ck_assert(same(y[0], y[1], 64));
    for (int i = 2; i < 5; i++)
        ck_assert(!same(y[0], y[i], 64));
    probe_end(&other);
    probe_end(&p);
}
END_TEST

START_TEST(dropout_limits)
{
    probe p;
    probe_begin(&p, 4, ISO_F32);
    iso_tensor *x = probe_given(&p, "x", ISO_F32, ISO_SHAPE(1), (double[]){1, 2, INFINITY, 4});
    double *none = probe_evaluate(&p, iso_dropout_op(x, 0, "a")),
           *all = probe_evaluate(&p, iso_dropout_op(x, 1, "a"));
    for (int i = 0; i < 4; i++)
        ck_assert(none[i] == p.values[0][i] && all[i] == 0);
    iso_dropout_op(x, 1.5, "a");
    ck_assert_int_eq(iso_graph_error(p.graph), ISO_INVALID);
    ck_assert_str_eq(iso_error_message(), "dropout 'a': rate 1.5 is not between 0 and 1");
    probe_end(&p);
}
END_TEST

/* Parts of a tensor, cut in both dimensions, drop what the whole drops. */
START_TEST(dropout_of_parts)
{
    enum { ROWS = 6, COLUMNS = 5 };
    float ones[ROWS * COLUMNS], whole[ROWS * COLUMNS], y[ROWS * COLUMNS];
    iso_dropout_attrs attrs = {.key = 99, .threshold = 1 << 23, .scale = 2};
    iso_step_info info = {.step = 4, .rows = ROWS};
    for (int i = 0; i < ROWS * COLUMNS; i++)
        ones[i] = 1;
    iso_array all = {
        .data = ones, .dtype = ISO_F32, .rank = 2, .dim = {ROWS, COLUMNS}, .global = {ROWS, COLUMNS}};
    iso_array out = all;
    out.data = whole;
    run("dropout",
        &(iso_kernel_call){
            .attrs = &attrs, .n_inputs = 1, .n_outputs = 1, .in = &all, .out = &out, .info = &info});
    for (int cut = 0; cut < 4; cut++) {
        iso_array in = all;
        in.offset[0] = cut / 2 * 4, in.dim[0] = cut / 2 ? 2 : 4;
        in.offset[1] = cut % 2 * 3, in.dim[1] = cut % 2 ? 2 : 3;
        out = in;
        out.data = y;
        run("dropout",
            &(iso_kernel_call){
                .attrs = &attrs, .n_inputs = 1, .n_outputs = 1, .in = &in, .out = &out, .info = &info});
        for (int64_t i = 0; i < in.dim[0] * in.dim[1]; i++)
            ck_assert(y[i] == whole[(in.offset[0] + i / in.dim[1]) * COLUMNS + in.offset[1] + i % in.dim[1]]);
    }
}
END_TEST

/* ---- rotary positions ---- */

/* Beside a multiple of pi / 2 and between, small and large: within 2^-52 of libm in a wider type. */
START_TEST(turns)
{
    static const double near[] = {0, 1e-9, -1e-9, 0.25, -0.6, 0.785398, -0.785399};
    const long double quarter = 1.5707963267948966192313216916397514L;
    for (int power = 0; power < 40; power++)
        for (int64_t of = -3; of <= 4; of++)
            for (size_t i = 0; i < sizeof near / sizeof *near; i++) {
                double angle = (double)(quarter * (long double)((1LL << power) + of)) + near[i];
                iso_turn turn = iso_turn_of(angle);
                ck_assert_msg(fabsl(turn.cosine - cosl(angle)) <= 0x1p-52L &&
                                  fabsl(turn.sine - sinl(angle)) <= 0x1p-52L,
                              "angle %.17g: %.17g, %.17g", angle, turn.cosine, turn.sine);
            }
}
END_TEST

static void check_position(const iso_backend *backend, int64_t position)
{
    enum { FEATURES = 8 };
    float x[FEATURES] = {1, 0.5f, -2, 3, 0.25f, -1, 2, 0.125f}, y[FEATURES];
    const iso_rotary_attrs attrs = {.wavelength = 10000, .scaling = 1, .axis = 1};
    const int64_t dim[] = {1, 1, FEATURES};
    iso_array in = {.data = x, .dtype = ISO_F32, .rank = 3, .offset = {0, position, 0}}, out;
    memcpy(in.dim, dim, sizeof dim);
    out = in;
    out.data = y;
    iso_kernel_call call = {.attrs = &attrs, .n_inputs = 1, .n_outputs = 1, .in = &in, .out = &out};
    backend->find("rotary", &call)->run(&call);
    for (int i = 0; i < FEATURES / 2; i++) {
        long double angle = (long double)position * powl(10000, -2.0L * i / FEATURES);
        long double a = x[i], b = x[i + FEATURES / 2];
        ck_assert_float_eq_tol(y[i], (float)(a * cosl(angle) - b * sinl(angle)), 1e-6);
        ck_assert_float_eq_tol(y[i + FEATURES / 2], (float)(b * cosl(angle) + a * sinl(angle)), 1e-6);
    }
}

/* In float32, against libm in a wider type: angles in float32 would be wrong by 0.001. */
START_TEST(late_positions)
{
    static const int64_t positions[] = {0, 1, 4095, 65537, 100000, 1048575, 1 << 30};
    for (size_t i = 0; i < sizeof positions / sizeof *positions; i++) {
        check_position(iso_backend_reference(), positions[i]);
        check_position(iso_backend_cpu(), positions[i]);
    }
}
END_TEST

/* ---- what does not fit ---- */

static iso_tensor *logits_of(iso_graph *graph)
{
    return iso_input(graph, "logits", ISO_F32, ISO_SHAPE(10));
}

static void check_refused(iso_graph *graph, const char *message)
{
    ck_assert_int_eq(iso_graph_error(graph), ISO_INVALID);
    ck_assert_msg(strstr(iso_error_message(), message) != NULL, "'%s' lacks '%s'", iso_error_message(),
                  message);
    iso_graph_destroy(graph);
}

START_TEST(refused)
{
    iso_graph *graph = iso_graph_create(NULL);
    iso_sparse_crossentropy_op(iso_input(graph, "labels", ISO_I32, ISO_SHAPE(10)), logits_of(graph));
    check_refused(
        graph,
        "one label for each row of logits (given labels: int32 [batch, 10], logits: float32 [batch, 10])");
    graph = iso_graph_create(NULL);
    iso_crossentropy_op(iso_input(graph, "labels", ISO_F32, ISO_SHAPE(9)), logits_of(graph));
    check_refused(graph, "one shape");
    graph = iso_graph_create(NULL);
    iso_softmax(logits_of(graph), 0);
    check_refused(graph, "the axis must not be the batch");
    graph = iso_graph_create(NULL);
    iso_log_softmax(logits_of(graph), -2);
    check_refused(graph, "the axis must not be the batch");
    graph = iso_graph_create(NULL);
    iso_softmax(logits_of(graph), 2);
    check_refused(graph, "axis 2 is out of range");
    graph = iso_graph_create(NULL);
    iso_embedding_op(logits_of(graph), iso_equal(logits_of(graph), logits_of(graph)));
    check_refused(graph, "input 1 should hold numbers");
    graph = iso_graph_create(NULL);
    iso_rotary_op(logits_of(graph), 1, 10000, 1);
    check_refused(graph, "positions are along axis 1: it must lie between the batch and the features");
    graph = iso_graph_create(NULL);
    iso_rotary_op(iso_input(graph, "x", ISO_F32, ISO_SHAPE(4, 5)), 1, 10000, 1);
    check_refused(graph, "takes an even number of features");
    graph = iso_graph_create(NULL);
    iso_rotary_op(iso_input(graph, "x", ISO_F32, ISO_SHAPE(4, 6)), 1, 0, 1);
    check_refused(graph, "the wavelength is 0 and the scaling factor 1: they must be positive");
    graph = iso_graph_create(NULL);
    iso_rotary_stretched_op(iso_input(graph, "x", ISO_F32, ISO_SHAPE(4, 6)), 1, 10000, 1,
                            &(iso_rotary_stretch){8, 4, 1, 8192, 0});
    check_refused(graph, "positions are stretched by 8, between 4 and 1 waves in 8192 positions");
    graph = iso_graph_create(NULL);
    iso_rotary_stretched_op(iso_input(graph, "x", ISO_F32, ISO_SHAPE(4, 6)), 1, 0.5, 1,
                            &(iso_rotary_stretch){8, 1, 4, 8192, 1});
    check_refused(graph, "with yarn the wavelength, 0.5, above 1");
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("network ops");
    TCase *tests = tcase_create("values, gradients and faults");
    tcase_add_loop_test(tests, softmax_values, 0, 4);
    tcase_add_loop_test(tests, softmax_gradients, 0, 2);
    tcase_add_test(tests, elements_of_bands);
    tcase_add_test(tests, softmax_of_large_values);
    tcase_add_test(tests, attention_to_no_key);
    tcase_add_loop_test(tests, sparse_crossentropy, 0, LABEL_TYPES);
    tcase_add_loop_test(tests, sparse_crossentropy_fault, 0, BAD_LABELS);
    tcase_add_test(tests, crossentropy);
    tcase_add_test(tests, crossentropy_of_impossible_class);
    tcase_add_test(tests, crossentropy_of_large_values);
    tcase_add_test(tests, pooling_of_nan);
    tcase_add_test(tests, embedding);
    tcase_add_test(tests, embedding_fault);
    tcase_add_test(tests, embedding_of_parts);
    tcase_add_test(tests, embedding_gradient_of_parts);
    tcase_add_test(tests, fault_names_global_row);
    tcase_add_test(tests, dropout_values);
    tcase_add_test(tests, dropout_gradients);
    tcase_add_test(tests, noise_is_normal);
    tcase_add_test(tests, noise_differs);
    tcase_add_test(tests, turns);
    tcase_add_test(tests, late_positions);
    tcase_add_test(tests, dropout_depends_on);
    tcase_add_test(tests, dropout_limits);
    tcase_add_test(tests, dropout_of_parts);
    tcase_add_test(tests, refused);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void)
{
    return run_suite(suite());
}
