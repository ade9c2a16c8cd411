/* The type bfloat16: its conversions against a search for the nearest one, every op of the list against float64 on
 * the same operands, with the plain and with the fast kernels, and what is refused. Ranks: 1 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/backend/register.h"
#include "runtime/base/bf16.h"
#include "runtime/base/convert.h"
#include "runtime/base/random.h"
#include "runtime/graph/ops/list.h"
#include "tests/support/run_tests.h"
#include "tests/support/samples.h"

/* ---- conversions ---- */

enum { VALUES = 1 << 16, INFINITE = 0x7f80 };

/* The value of bits that stand for a finite number, by the definition of the format; `INFINITE` gives the value
 * that the next exponent would have. */
static double value_of(unsigned bits)
{
    int exponent = bits >> 7 & 255, fraction = bits & 127;
    double magnitude = exponent ? ldexp(128 + fraction, exponent - 127 - 7) : ldexp(fraction, -126 - 7);
    return bits >> 15 ? -magnitude : magnitude;
}

/* The nearest by bisection, ties to an even last bit. */
static unsigned nearest(double x)
{
    double size = fabs(x);
    unsigned low = 0, high = INFINITE, sign = signbit(x) ? 0x8000 : 0;
    if (size >= value_of(INFINITE))
        return sign | INFINITE;
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;
        *(value_of(middle) <= size ? &low : &high) = middle;
    }
    double below = size - value_of(low), above = value_of(high) - size;
    return sign | (below < above || (below == above && low % 2 == 0) ? low : high);
}

static bool is_nan(unsigned bits)
{
    return (bits & 0x7fff) > INFINITE;
}

START_TEST(every_value_comes_back)
{
    for (unsigned bits = 0; bits < VALUES; bits++) {
        uint16_t from = (uint16_t)bits, back;
        double wide;
        ck_assert_int_eq(iso_convert(ISO_BF16, &from, ISO_F64, &wide, 1), -1);
        ck_assert_int_eq(iso_convert(ISO_F64, &wide, ISO_BF16, &back, 1), -1);
        ck_assert_int_eq(is_nan(bits), isnan(wide));
        ck_assert(is_nan(bits) ? is_nan(back) : back == bits);
        if ((bits & 0x7fff) < INFINITE)
            ck_assert_double_eq(wide, value_of(bits));
    }
}
END_TEST

static void check_rounding(double x)
{
    float single = (float)x;
    ck_assert_msg(iso_bf16_of_double(x) == nearest(x), "%a becomes %#x, %#x is nearest", x,
                  iso_bf16_of_double(x), nearest(x));
    ck_assert_msg(iso_bf16_of_float(single) == nearest(single), "%a becomes %#x, %#x is nearest", single,
                  iso_bf16_of_float(single), nearest(single));
}

/* Between each value and the next: a quarter, the tie, three quarters, and both sides of the tie as close as a
 * float32 and as a double can be. */
START_TEST(the_nearest_is_chosen)
{
    for (unsigned bits = 0; bits < INFINITE; bits++) {
        double low = value_of(bits), step = value_of(bits + 1) - low, tie = low + step / 2;
        double points[] = {low + step / 4,
                           tie,
                           low + step / 4 * 3,
                           nextafter(tie, 0),
                           nextafter(tie, 1e300),
                           nextafterf((float)tie, 0),
                           nextafterf((float)tie, INFINITY)};
        for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
            check_rounding(points[i]);
            check_rounding(-points[i]);
        }
    }
    check_rounding(1e300);
    check_rounding(5e-324);
    ck_assert_int_eq(iso_bf16_of_float(INFINITY), INFINITE);
    ck_assert_int_eq(iso_bf16_of_double(-INFINITY), 0x8000 | INFINITE);
    uint32_t low_nan = 0x7f800001; /* its upper half alone would be infinite */
    float payload;
    memcpy(&payload, &low_nan, sizeof payload);
    ck_assert(is_nan(iso_bf16_of_float(payload)));
}
END_TEST

/* Integers are rounded once: 2^24 + 2^16 + 1 is above a tie of which float32 has only the tie. */
START_TEST(integers_are_rounded_once)
{
    int64_t above = (1 << 24) + (1 << 16) + 1, wide = (INT64_C(1) << 40) + (INT64_C(1) << 32) + 1;
    ck_assert_double_eq(iso_bf16_to_float(iso_bf16_of_i64(above)), (1 << 24) + (1 << 17));
    ck_assert_double_eq(iso_bf16_to_float(iso_bf16_of_i64(wide)), 0x1p40 + 0x1p33);
    ck_assert_double_eq(iso_bf16_to_float(iso_bf16_of_i64(-wide)), -0x1p40 - 0x1p33);
    ck_assert_double_eq(iso_bf16_to_float(iso_bf16_of_i64(wide - 2)), 0x1p40);
    ck_assert_double_eq(iso_bf16_to_float(iso_bf16_of_i64(INT64_MAX)), 0x1p63);
    int32_t count = 0;
    uint16_t half = iso_bf16_of_float(0.5f), seven = iso_bf16_of_float(7);
    ck_assert_int_eq(iso_convert(ISO_BF16, &half, ISO_I32, &count, 1), 0);
    ck_assert_int_eq(iso_convert(ISO_BF16, &seven, ISO_I32, &count, 1), -1);
    ck_assert_int_eq(count, 7);
    ck_assert_str_eq(iso_dtype_name(ISO_BF16), "bfloat16");
    ck_assert_uint_eq(iso_dtype_size(ISO_BF16), 2);
    iso_element_set(&half, ISO_BF16, 0, -1.5);
    ck_assert_double_eq(iso_element_get(&half, ISO_BF16, 0), -1.5);
}
END_TEST

/* ---- ops ---- */

/* An array of the type and shape of a tensor. */
static iso_array array_like(const sample_case *c, const iso_tensor *tensor)
{
    iso_shape shape = interpreter_shape(c->in, tensor);
    return array_create(tensor->dtype, shape.rank, shape.dim);
}

/* Runs the op in float64 on the operands that it has in bfloat16. */
static void run_wide(sample_case *narrow, sample_case *wide, iso_array *in, iso_array *out)
{
    iso_fault fault = {0};
    for (int i = 0; i < wide->op->n_inputs; i++) {
        const iso_array *x = interpreter_get(narrow->in, narrow->op->inputs[i]);
        in[i] = array_like(wide, wide->op->inputs[i]);
        for (int64_t k = 0; k < array_count(x); k++)
            array_set(&in[i], k, array_get(x, k));
    }
    for (int i = 0; i < wide->op->n_outputs; i++)
        out[i] = array_like(wide, wide->op->outputs[i]);
    run_op(iso_backend_reference(), wide->op, in, out, &wide->in->info, &fault);
}

/* Half a unit of the last place is 2^-9; float32 sums of numbers around 1 are exact to 1e-5. */
static void check_output(const sample *from, const iso_array *y, const iso_array *expected, double rounding)
{
    ck_assert_int_eq(array_count(y), array_count(expected));
    for (int64_t k = 0; k < array_count(y); k++) {
        double have = array_get(y, k), wanted = array_get(expected, k);
        ck_assert_msg(fabs(have - wanted) <= rounding * fabs(wanted) + 1e-5 || have == wanted ||
                          (isnan(have) && isnan(wanted)),
                      "%s: element %lld is %.9g, in float64 %.9g", from->op, (long long)k, have, wanted);
    }
}

static void check_op(const sample *from, const iso_backend *backend)
{
    sample_case narrow, wide;
    sample_begin(&narrow, from, backend, ISO_BF16);
    sample_begin(&wide, from, iso_backend_reference(), ISO_F64);
    iso_array in[ISO_MAX_INPUTS] = {0}, out[ISO_MAX_OUTPUTS] = {0};
    run_wide(&narrow, &wide, in, out);
    for (int i = 0; i < narrow.op->n_outputs; i++) {
        bool sum = narrow.op->widened >> i & 1;
        ck_assert_msg(!sum || narrow.op->outputs[i]->dtype == ISO_F32, "%s: a sum of type %s", from->op,
                      iso_dtype_name(narrow.op->outputs[i]->dtype));
        check_output(from, interpreter_get(narrow.in, narrow.op->outputs[i]), &out[i], sum ? 1e-5 : 0x1p-8);
        array_free(&out[i]);
    }
    for (int i = 0; i < wide.op->n_inputs; i++)
        array_free(&in[i]);
    sample_end(&narrow);
    sample_end(&wide);
}

/* Ops that hold statistics refuse bfloat16: layers cast for them. */
static bool is_refused(const char *op)
{
    static const char *const norms[] = {"layer_norm", "batch_norm", "batch_moments"};
    for (int i = 0; i < 3; i++)
        if (strncmp(op, norms[i], strlen(norms[i])) == 0)
            return true;
    return false;
}

START_TEST(every_op_has_its_result_in_float64_rounded)
{
    int tested = 0;
    for (int i = 0; sample_at(i); i++) {
        const sample *from = sample_at(i);
        if (!sample_builds(from, ISO_BF16)) {
            ck_assert_msg(strstr(iso_error_message(), "should be float32 or float64") != NULL, "%s: %s",
                          from->op, iso_error_message());
            continue;
        }
        ck_assert_msg(!is_refused(from->op), "%s takes bfloat16", from->op);
        check_op(from, iso_backend_reference());
        check_op(from, iso_backend_cpu());
        tested++;
    }
    ck_assert_int_gt(tested, 100);
}
END_TEST

/* ---- types of tensors ---- */

static iso_tensor *weight(iso_graph *graph, const char *path, iso_shape shape)
{
    return iso_variable_value(
        iso_variable_create(graph, path, ISO_F32, shape, (iso_initializer){.kind = ISO_INIT_ONES}, true));
}

/* reshaped: after the cast, as attention's weights are. */
static void check_not_rounded(bool reshaped)
{
    iso_graph *graph = iso_graph_create(NULL);
    iso_graph_set_precision(graph, ISO_BF16);
    iso_tensor *w = weight(graph, "w", reshaped ? ISO_SHAPE(1, 1, 1) : ISO_SHAPE(1, 1)),
               *x = weight(graph, "x", ISO_SHAPE(2, 1)), *gradient;
    ck_assert_int_eq(iso_tensor_dtype(w), ISO_F32);
    iso_tensor *y = iso_matmul(iso_cast(x, ISO_BF16), iso_reshape_to(iso_cast(w, ISO_BF16), ISO_SHAPE(1, 1)));
    ck_assert_int_eq(iso_tensor_dtype(y), ISO_BF16);
    iso_gradients(iso_sum(iso_cast(y, ISO_F32)), &w, 1, &gradient);
    ck_assert_int_eq(iso_tensor_dtype(gradient), ISO_F32);
    ck_assert(iso_shape_equal(iso_tensor_shape(gradient), iso_tensor_shape(w)));
    ck_assert_str_eq(gradient->producer->type->name, reshaped ? "reshape" : "matmul");
    interpreter *in = interpreter_create(graph, iso_backend_cpu(), 1);
    interpreter_set(in, w, (double[]){1});
    interpreter_set(in, x, (double[]){1, 0x1p-10});
    ck_assert_double_eq(interpreter_number(in, iso_sum(gradient)), 1 + 0x1p-10);
    interpreter_destroy(in);
    iso_graph_destroy(graph);
}

/* The gradient of a weight that is cast to bfloat16 is the float32 of the product: 1 + 2^-10 and not 1. */
START_TEST(gradients_of_weights_are_not_rounded)
{
    check_not_rounded(false);
    check_not_rounded(true);
}
END_TEST

static void check_error(iso_graph *graph, const char *said)
{
    ck_assert_int_eq(iso_graph_error(graph), ISO_INVALID);
    ck_assert_msg(strstr(iso_error_message(), said) != NULL, "'%s' does not say '%s'", iso_error_message(),
                  said);
    iso_graph_destroy(graph);
}

START_TEST(what_is_not_possible_is_said)
{
    iso_graph *graph = iso_graph_create(NULL);
    iso_input(graph, "x", ISO_BF16, ISO_SHAPE(3));
    check_error(graph, "input 'x': bfloat16 is a type to compute in; inputs are float32 or float64");
    graph = iso_graph_create(NULL);
    iso_variable_create(graph, "w", ISO_BF16, ISO_SHAPE(3), (iso_initializer){0}, true);
    check_error(graph, "variable 'w': bfloat16 is a type to compute in; variables are float32 or float64");
    graph = iso_graph_create(NULL);
    iso_graph_set_precision(graph, ISO_I32);
    check_error(graph, "precision int32: float32, float64 or bfloat16 (mixed_bfloat16) is possible");
    graph = iso_graph_create(NULL);
    iso_tensor *w = weight(graph, "w", ISO_SHAPE(3));
    iso_add(w, iso_cast(w, ISO_BF16));
    check_error(graph, "operands have different types; iso_cast converts them");
}
END_TEST

/* ---- ops of the program ---- */

static void copy(const iso_kernel_call *call)
{
    memcpy(call->out[0].data, call->in[0].data,
           (size_t)array_count(&call->in[0]) * iso_dtype_size(call->in[0].dtype));
}

static bool fits_bf16(const iso_kernel_call *call)
{
    return call->in[0].dtype == ISO_BF16;
}

/* A kernel that does not say which types it takes is not given bfloat16. */
START_TEST(a_registered_kernel_must_ask_for_it)
{
    static const iso_op_type any = {.name = "any_type", .infer = iso_infer_same, .rule = "...->..."},
                             own = {.name = "own_bf16", .infer = iso_infer_same, .rule = "...->..."};
    static const iso_kernel of_any = {.name = "copy", .run = copy},
                            of_own = {.name = "copy", .run = copy, .fits = fits_bf16};
    ck_assert_int_eq(iso_op_register(&any, &of_any, 1), ISO_OK);
    ck_assert_int_eq(iso_op_register(&own, &of_own, 1), ISO_OK);
    iso_array x = array_create(ISO_BF16, 1, (int64_t[]){3}), y = array_create(ISO_BF16, 1, (int64_t[]){3});
    iso_kernel_call call = {.n_inputs = 1, .n_outputs = 1, .in = &x, .out = &y};
    ck_assert_ptr_null(iso_backend_cpu()->find("any_type", &call));
    ck_assert_ptr_eq(iso_backend_cpu()->find("own_bf16", &call), &of_own);
    x.dtype = y.dtype = ISO_F32;
    ck_assert_ptr_eq(iso_backend_cpu()->find("any_type", &call), &of_any);
    array_free(&x);
    array_free(&y);
}
END_TEST

int main(void)
{
    return RUN_TESTS("bfloat16", 0, every_value_comes_back, the_nearest_is_chosen, integers_are_rounded_once,
                     every_op_has_its_result_in_float64_rounded, gradients_of_weights_are_not_rounded,
                     what_is_not_possible_is_said, a_registered_kernel_must_ask_for_it);
}
