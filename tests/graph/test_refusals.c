/* Ranks: 1. What does not fit is refused where it is built, with names, types and shapes; later calls do
 * nothing.
 * Sanitize: 1 */
#include <check.h>
#include <string.h>

#include "runtime/graph/op.h"
#include "runtime/graph/ops/network.h"
#include "tests/support/run_tests.h"

typedef struct operands {
    iso_graph *graph;
    iso_tensor *image, *rows, *vector, *matrix, *whole, *flags; /* see make() */
} operands;

static operands make(void)
{
    operands o = {.graph = iso_graph_create(NULL)};
    iso_initializer zeros = {0};
    o.image = iso_input(o.graph, "image", ISO_F32, ISO_SHAPE(28, 28, 1));
    o.rows = iso_input(o.graph, "rows", ISO_F32, ISO_SHAPE(784));
    o.whole = iso_input(o.graph, "whole", ISO_I32, ISO_SHAPE(784));
    o.flags = iso_input(o.graph, "flags", ISO_BOOL, ISO_SHAPE(784));
    o.vector =
        iso_variable_value(iso_variable_create(o.graph, "vector", ISO_F32, ISO_SHAPE(10), zeros, true));
    o.matrix =
        iso_variable_value(iso_variable_create(o.graph, "matrix", ISO_F32, ISO_SHAPE(10, 784), zeros, true));
    return o;
}

/* The graph's error contains each of these; calls on what a broken graph returns give the first error still.
 */
static void check_says(operands *o, iso_tensor *broken, const char *const *texts, int count)
{
    ck_assert_msg(iso_graph_error(o->graph) == ISO_INVALID, "no error where '%s' was expected", texts[0]);
    ck_assert(!iso_tensor_good(broken));
    iso_mean(iso_add(iso_matmul(broken, o->vector), iso_relu(iso_reduce_max(broken, (int[]){5}, 1, true))));
    iso_reshape_to(iso_concat(&broken, 1, 3), ISO_SHAPE(7));
    iso_graph_error(o->graph);
    for (int i = 0; i < count; i++)
        ck_assert_msg(strstr(iso_error_message(), texts[i]) != NULL, "no '%s' in: %s", texts[i],
                      iso_error_message());
    iso_graph_destroy(o->graph);
}

#define SAYS(build, ...)                                                                                     \
    do {                                                                                                     \
        operands o = make();                                                                                 \
        const char *const texts[] = {__VA_ARGS__};                                                           \
        iso_tensor *broken = build;                                                                          \
        check_says(&o, broken, texts, (int)(sizeof texts / sizeof *texts));                                  \
    } while (0)

static iso_tensor *pooled(iso_tensor *x, int64_t size, int64_t before, int64_t after)
{
    return iso_max_pool2d_op(
        x, &(iso_pool_geometry){
               .size = {size, size}, .stride = {1, 1}, .pad_before = {before, 0}, .pad_after = {after, 0}});
}

START_TEST(too_many_dimensions)
{
    iso_shape many = {.rank = ISO_MAX_RANK + 1}; /* whose last dimension would lie behind the array */
    SAYS(iso_reshape_to(o.matrix, many), "reshape", "'matrix'", "9 dimensions, at most 8");
}
END_TEST

/* The counts of these would overflow, some to the number of elements that there are. */
START_TEST(too_many_elements)
{
    int64_t a = 2147418113, b = 2147549185; /* 4 a b = 2^64 + 4 */
    iso_initializer zeros = {0};
    SAYS(iso_reshape_to(iso_input(o.graph, "four", ISO_F32, ISO_SHAPE(4)), ISO_SHAPE(ISO_BATCH, a, 4, b)),
         "reshape", "four", "[batch, 2147418113, 4, 2147549185]");
    SAYS(iso_input(o.graph, "wide", ISO_F32, ISO_SHAPE(4, a, b)), "input 'wide'",
         "has more than 281474976710656 elements");
    SAYS(iso_variable_value(iso_variable_create(o.graph, "w", ISO_F32, ISO_SHAPE(a, a), zeros, true)),
         "variable 'w'", "has more than 281474976710656 elements");
    SAYS(iso_broadcast_to(o.matrix, ISO_SHAPE(a, a, 10, 784)), "broadcast",
         "[2147418113, 2147418113, 10, 784]", "would have more than 281474976710656 elements");
    SAYS(iso_reshape_to(o.vector, ISO_SHAPE(-2, -5)), "reshape", "vector");
}
END_TEST

/* A window that lies on padding alone has no largest element. */
START_TEST(pooling)
{
    SAYS(pooled(o.image, 3, 3, 0), "max_pool2d", "padding 3 and 0 should be below the window's size 3");
    SAYS(pooled(o.image, 3, 0, 3), "max_pool2d", "padding 0 and 3 should be below the window's size 3");
    SAYS(iso_max_pool2d_along(o.image, 2, &(iso_pool_geometry){.size = {1, 1}, .stride = {1, 1}}),
         "max_pool2d", "windows over dimensions 2 and 3: they must lie between the batch and the channels");
    SAYS(pooled(o.rows, 1, 0, 0), "max_pool2d", "windows over dimensions -1 and 0");
    operands o = make();
    ck_assert(iso_tensor_good(pooled(o.image, 3, 2, 2)));
    ck_assert_int_eq(iso_graph_error(o.graph), ISO_OK);
    iso_graph_destroy(o.graph);
}
END_TEST

static iso_tensor *unfolded(iso_tensor *x, int axis, int64_t size, int64_t stride)
{
    return iso_unfold_op(x, axis, &(iso_unfold_geometry){size, stride, 1, 0, 0});
}

static iso_tensor *folded(iso_tensor *y, int64_t size, int64_t extent)
{
    return iso_fold_op(y, 1, &(iso_unfold_geometry){size, 1, 1, 0, 0}, extent);
}

START_TEST(windows)
{
    SAYS(unfolded(o.image, 3, 2, 1), "unfold",
         "windows are along axis 3: it must lie between the batch and the last");
    SAYS(unfolded(o.image, 0, 2, 1), "unfold", "windows are along axis 0");
    SAYS(unfolded(o.image, 1, 29, 1), "unfold", "a window of 29 does not fit into 28");
    SAYS(unfolded(o.image, 1, 2, 0), "unfold", "window 2, stride 0");
    SAYS(unfolded(iso_reshape_to(o.rows, ISO_SHAPE(ISO_BATCH, 2, 2, 2, 2, 7, 7, 1)), 1, 2, 1), "unfold",
         "the result would have 9 dimensions");
    SAYS(unfolded(iso_reshape_to(o.whole, ISO_SHAPE(ISO_BATCH, 28, 28)), 1, 2, 1), "unfold",
         "floating point");
    SAYS(folded(o.image, 28, 28), "fold", "it has 28 windows of 28; 28 elements have 1 of 28");
    SAYS(folded(o.rows, 2, 3), "fold", "windows are along axis 1");
    SAYS(iso_conv2d_op(o.rows, o.matrix, &(iso_conv_geometry){{1, 1}, {1, 1}, {0, 0}, {0, 0}, 1}), "conv2d",
         "input 0 should have at least 4 dimensions");
    operands o = make();
    ck_assert(iso_tensor_good(unfolded(o.image, -2, 28, 3)));
    ck_assert_int_eq(iso_graph_error(o.graph), ISO_OK);
    iso_graph_destroy(o.graph);
}
END_TEST

START_TEST(arithmetic)
{
    SAYS(iso_add(o.rows, o.vector), "add", "rows", "[batch, 784]", "vector", "[10]");
    SAYS(iso_multiply(o.rows, o.whole), "multiply", "float32", "int32", "iso_cast");
    SAYS(iso_maximum(o.flags, o.flags), "maximum", "bool");
    SAYS(iso_divide(o.whole, o.whole), "divide", "int32");
    SAYS(iso_exp(o.whole), "exp", "int32", "[batch, 784]");
    SAYS(iso_logical_and(o.flags, o.rows), "logical_and", "float32");
    SAYS(iso_where(o.rows, o.rows, o.rows), "where", "bool");
    SAYS(iso_where(o.flags, o.rows, o.whole), "where", "int32");
    SAYS(iso_where(o.flags, o.rows, o.vector), "where", "[10]");
    SAYS(iso_less(o.rows, o.vector), "less", "[10]");
}
END_TEST

START_TEST(products_and_reductions)
{
    SAYS(iso_matmul(o.rows, o.matrix), "matmul", "784", "10", "[10, 784]");
    SAYS(iso_matmul(o.rows, o.vector), "matmul", "[10]");
    SAYS(iso_matmul_with(o.rows, o.matrix, true, false), "the inner dimensions differ: batch and 10");
    SAYS(iso_matmul(o.image, iso_cast(o.matrix, ISO_F64)), "matmul", "float64");
    SAYS(iso_matmul_with(o.image, o.matrix, true, false), "matmul", "[batch, 28, 28, 1]");
    SAYS(iso_reduce_sum(o.rows, (int[]){2}, 1, false), "axis 2", "rows", "[batch, 784]");
    SAYS(iso_reduce_sum(o.rows, (int[]){1, -1}, 2, false), "axis 1", "twice");
    SAYS(iso_argmax(o.rows, 0), "argmax", "may not be the batch");
    SAYS(iso_argmax(o.rows, -3), "axis -3");
    SAYS(iso_in_top_k(o.rows, o.rows, 2), "in_top_k", "[batch, 784]");
    SAYS(iso_in_top_k(o.rows, iso_argmax(o.rows, 1), 0), "in_top_k", "k is 0");
    SAYS(iso_top_k(o.rows, 0, NULL), "top_k", "k is 0; it must be from 1 to 784");
    SAYS(iso_top_k(o.rows, 785, NULL), "top_k", "k is 785");
    SAYS(iso_experts_op(o.rows, iso_argmax(o.rows, 1), o.rows,
                        &(iso_experts_form){.up = o.rows, .down = o.rows}),
         "experts", "takes x [batch, ..., d], indices [batch, ..., k]");
    iso_tensor *best;
    SAYS((iso_top_k(o.rows, 2, &best), iso_experts_op(o.rows, best, iso_cast(best, ISO_F32),
                                                      &(iso_experts_form){.up = o.rows, .down = o.rows})),
         "experts", "takes kernels [experts, d, hidden]");
}
END_TEST

START_TEST(shapes)
{
    SAYS(iso_reshape_to(o.image, ISO_SHAPE(ISO_BATCH, 783)), "image", "[batch, 28, 28, 1]", "[batch, 783]");
    SAYS(iso_reshape_to(o.image, ISO_SHAPE(784)), "image", "[784]");
    SAYS(iso_reshape_to(o.image, ISO_SHAPE(ISO_BATCH, -1, -1)), "image");
    SAYS(iso_reshape_to(o.image, ISO_SHAPE(ISO_BATCH, 0, -1)), "image");
    SAYS(iso_transpose(o.image, (int[]){0, 1, 1, 3}), "transpose", "entry 2");
    SAYS(iso_flip(o.image, 0), "flip", "the axis may not be the batch");
    SAYS(iso_flip(o.image, 4), "axis 4");
    SAYS(iso_slice(o.image, (int64_t[]){0, 20, 0}, (int64_t[]){28, 9, 1}), "slice", "[batch, 28, 9, 1]");
    SAYS(iso_slice(o.image, (int64_t[]){0, 29, 0}, (int64_t[]){28, -1, 1}), "slice", "29");
    SAYS(iso_concat((iso_tensor *[]){o.rows, o.vector}, 2, 1), "concat", "[10]");
    SAYS(iso_concat((iso_tensor *[]){o.rows, o.rows}, 2, 0), "concat", "may not be the batch");
    SAYS(iso_broadcast_to(o.vector, ISO_SHAPE(ISO_BATCH, 5)), "broadcast_to", "[10]", "[batch, 5]");
    SAYS(iso_one_hot(o.whole, 0, ISO_F32), "one_hot", "0 classes");
    SAYS(iso_one_hot(o.whole, 5, ISO_I32), "one_hot");
    SAYS(iso_number(o.graph, (iso_dtype)99, 1), "constant", "element type");
    SAYS(iso_variable_value(
             iso_variable_create(o.graph, "odd", (iso_dtype)99, ISO_SHAPE(2), (iso_initializer){0}, true)),
         "odd", "99");
    SAYS(iso_cast(o.rows, (iso_dtype)99), "cast");
}
END_TEST

START_TEST(gradients)
{
    operands o = make();
    iso_tensor *gradient;
    iso_gradients(o.rows, &o.rows, 1, &gradient);
    ck_assert_ptr_null(gradient);
    iso_tensor *broken = iso_negate(o.rows);
    check_says(&o, broken, (const char *const[]){"rows", "[batch, 784]"}, 2);
}
END_TEST

/* A gradient that was written as one op: no zero stands for what lies behind it. */
START_TEST(second_gradients)
{
    operands o = make();
    iso_tensor *x = iso_matmul(o.rows, iso_transpose(o.matrix, (int[]){1, 0})), *first, *second;
    iso_gradients(iso_sum(iso_square(iso_softmax(x, -1))), &o.matrix, 1, &first);
    ck_assert_int_eq(iso_graph_error(o.graph), ISO_OK);
    iso_gradients(iso_sum(iso_square(first)), &o.matrix, 1, &second);
    ck_assert_ptr_null(second);
    check_says(&o, iso_negate(x), (const char *const[]){"softmax", "second derivatives"}, 2);
}
END_TEST

/* A seed or precision that a part of the graph would not have; what is set is not changed. */
START_TEST(settings_that_come_late)
{
    static const double zero[1];
    operands o = make();
    uint64_t seed = iso_graph_seed(o.graph);
    iso_graph_set_seed(o.graph, seed + 1); /* after variables */
    ck_assert(iso_graph_seed(o.graph) == seed);
    check_says(&o, iso_negate(o.rows), (const char *const[]){"the seed must be set before the graph's first"},
               1);
    o = make();
    iso_graph_set_precision(o.graph, ISO_F64);
    ck_assert_int_eq(iso_graph_precision(o.graph), ISO_F32);
    check_says(&o, iso_negate(o.rows), (const char *const[]){"before the graph's first tensor"}, 1);
    iso_graph *g = iso_graph_create(NULL);
    iso_tensor *x =
        iso_add(iso_input(g, "x", ISO_F32, ISO_SHAPE(4)), iso_constant(g, ISO_F32, ISO_SCALAR, zero));
    iso_graph_set_seed(g, 5);
    ck_assert_int_eq(iso_graph_error(g), ISO_OK);
    iso_dropout_op(x, 0.5, "drop");
    iso_graph_set_seed(g, 6);
    ck_assert(iso_graph_seed(g) == 5);
    ck_assert_int_eq(iso_graph_error(g), ISO_INVALID);
    iso_graph_destroy(g);
}
END_TEST

int main(void)
{
    return RUN_TESTS("refusals", 30, too_many_dimensions, too_many_elements, pooling, windows, arithmetic,
                     products_and_reductions, shapes, gradients, second_gradients, settings_that_come_late);
}
