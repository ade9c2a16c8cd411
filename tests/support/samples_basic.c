/* Samples of the basic ops. */
#include "runtime/graph/ops/attrs.h"
#include "runtime/graph/ops/list.h"
#include "runtime/graph/ops/ops_impl.h"
#include "tests/support/samples.h"

#define SAMPLE(NAME) static void NAME(sample_graph *s)

/* x: [batch, 3], away from the kinks at 0 by chance alone */
static iso_tensor *rows_of(sample_graph *s, double low, double high)
{
    return sample_leaf(s, ISO_F32, low, high, ISO_SHAPE(ISO_BATCH, 3));
}

SAMPLE(negate)
{
    iso_negate(rows_of(s, -2, 2));
}
SAMPLE(absolute)
{
    iso_abs(rows_of(s, -2, 2));
}
SAMPLE(sign)
{
    iso_sign(rows_of(s, -2, 2));
}
SAMPLE(exponential)
{
    iso_exp(rows_of(s, -2, 2));
}
SAMPLE(logarithm)
{
    iso_log(rows_of(s, 0.2, 3));
}
SAMPLE(root)
{
    iso_sqrt(rows_of(s, 0.2, 3));
}
SAMPLE(reciprocal_root)
{
    iso_rsqrt(rows_of(s, 0.2, 3));
}
SAMPLE(square)
{
    iso_square(rows_of(s, -2, 2));
}
SAMPLE(relu)
{
    iso_relu(rows_of(s, -2, 2));
}
SAMPLE(clipped_relu)
{
    iso_clipped_relu(rows_of(s, -2, 2), 1.1);
}
SAMPLE(leaky_relu)
{
    iso_leaky_relu(rows_of(s, -2, 2), 0.3);
}
SAMPLE(elu)
{
    iso_elu(rows_of(s, -2, 2), 0.7);
}
SAMPLE(elu_negative)
{
    iso_elu(rows_of(s, -2, 2), -0.7);
}
SAMPLE(sigmoid)
{
    iso_sigmoid(rows_of(s, -4, 4));
}
SAMPLE(hyperbolic)
{
    iso_tanh(rows_of(s, -3, 3));
}
SAMPLE(gelu)
{
    iso_gelu(rows_of(s, -3, 3), false);
}
SAMPLE(gelu_approximate)
{
    iso_gelu(rows_of(s, -3, 3), true);
}
SAMPLE(silu)
{
    iso_silu(rows_of(s, -3, 3));
}
SAMPLE(softplus)
{
    iso_softplus(rows_of(s, -3, 3));
}
SAMPLE(affine)
{
    iso_affine(rows_of(s, -2, 2), 1.5, -0.25);
}
SAMPLE(scaling)
{
    iso_affine(rows_of(s, -2, 2), -0.5, 0);
}
SAMPLE(stop)
{
    iso_stop_gradient(rows_of(s, -2, 2));
}

SAMPLE(count)
{
    iso_count_attrs attrs = {.count = 3, .batch = true};
    iso_op_1(&iso_op_scale_by_count, rows_of(s, -2, 2), &attrs);
}

static void slope(sample_graph *s, iso_unary_kind kind, double low, double high)
{
    iso_unary_attrs attrs = {kind, 0.6};
    iso_op_2(&iso_op_unary_gradient, rows_of(s, low, high), rows_of(s, -1, 1), &attrs);
}

SAMPLE(slope_abs)
{
    slope(s, ISO_UNARY_ABS, -2, 2);
}
SAMPLE(slope_exp)
{
    slope(s, ISO_UNARY_EXP, 0.2, 3);
}
SAMPLE(slope_log)
{
    slope(s, ISO_UNARY_LOG, 0.2, 3);
}
SAMPLE(slope_sqrt)
{
    slope(s, ISO_UNARY_SQRT, 0.2, 3);
}
SAMPLE(slope_rsqrt)
{
    slope(s, ISO_UNARY_RSQRT, 0.2, 3);
}
SAMPLE(slope_square)
{
    slope(s, ISO_UNARY_SQUARE, -2, 2);
}
SAMPLE(slope_relu)
{
    slope(s, ISO_UNARY_RELU, -2, 2);
}
SAMPLE(slope_clipped_relu)
{
    slope(s, ISO_UNARY_CLIPPED_RELU, -2, 2);
}
SAMPLE(slope_leaky_relu)
{
    slope(s, ISO_UNARY_LEAKY_RELU, -2, 2);
}
SAMPLE(slope_elu)
{
    slope(s, ISO_UNARY_ELU, -2, 2);
}
SAMPLE(slope_sigmoid)
{
    slope(s, ISO_UNARY_SIGMOID, 0.1, 0.9);
}
SAMPLE(slope_tanh)
{
    slope(s, ISO_UNARY_TANH, -0.9, 0.9);
}
SAMPLE(slope_gelu)
{
    slope(s, ISO_UNARY_GELU, -3, 3);
}
SAMPLE(slope_silu)
{
    slope(s, ISO_UNARY_SILU, -3, 3);
}
SAMPLE(slope_softplus)
{
    slope(s, ISO_UNARY_SOFTPLUS, -3, 3);
}

/* [batch, 4, 3] with [3], [4, 1], [batch, 4, 3] or a scalar */
static void two(sample_graph *s, iso_tensor *(*build)(iso_tensor *, iso_tensor *), double low, double high,
                iso_shape shape)
{
    iso_tensor *a = sample_leaf(s, ISO_F32, low, high, ISO_SHAPE(ISO_BATCH, 4, 3));
    build(a, sample_leaf(s, ISO_F32, low, high, shape));
}

SAMPLE(add)
{
    two(s, iso_add, -2, 2, ISO_SHAPE(ISO_BATCH, 4, 3));
}
SAMPLE(add_bias)
{
    two(s, iso_add, -2, 2, ISO_SHAPE(3));
}
SAMPLE(add_number)
{
    two(s, iso_add, -2, 2, ISO_SCALAR);
}
SAMPLE(subtract)
{
    two(s, iso_subtract, -2, 2, ISO_SHAPE(4, 1));
}
SAMPLE(multiply)
{
    two(s, iso_multiply, -2, 2, ISO_SHAPE(ISO_BATCH, 4, 3));
}
SAMPLE(multiply_column)
{
    two(s, iso_multiply, -2, 2, ISO_SHAPE(4, 1));
}
SAMPLE(multiply_rows)
{
    two(s, iso_multiply, -2, 2, ISO_SHAPE(ISO_BATCH, 1, 1));
}
SAMPLE(divide)
{
    two(s, iso_divide, 0.5, 2, ISO_SHAPE(ISO_BATCH, 4, 3));
}
SAMPLE(divide_bias)
{
    two(s, iso_divide, 0.5, 2, ISO_SHAPE(3));
}
SAMPLE(power)
{
    two(s, iso_power, 0.5, 2, ISO_SHAPE(ISO_BATCH, 4, 3));
}
SAMPLE(power_number)
{
    two(s, iso_power, 0.5, 2, ISO_SCALAR);
}
SAMPLE(maximum)
{
    two(s, iso_maximum, -2, 2, ISO_SHAPE(4, 1));
}
SAMPLE(minimum)
{
    two(s, iso_minimum, -2, 2, ISO_SHAPE(3));
}
SAMPLE(equal)
{
    two(s, iso_equal, -2, 2, ISO_SHAPE(3));
}
SAMPLE(not_equal)
{
    two(s, iso_not_equal, -2, 2, ISO_SHAPE(3));
}
SAMPLE(less)
{
    two(s, iso_less, -2, 2, ISO_SHAPE(4, 1));
}
SAMPLE(less_equal)
{
    two(s, iso_less_equal, -2, 2, ISO_SHAPE(4, 1));
}
SAMPLE(greater)
{
    two(s, iso_greater, -2, 2, ISO_SCALAR);
}
SAMPLE(greater_equal)
{
    two(s, iso_greater_equal, -2, 2, ISO_SHAPE(3));
}

SAMPLE(add_integers)
{
    iso_tensor *a = sample_leaf(s, ISO_I32, -9, 9, ISO_SHAPE(ISO_BATCH, 3));
    iso_add(a, sample_leaf(s, ISO_I32, -9, 9, ISO_SHAPE(3)));
}

/* integers, so that there are equal ones */
SAMPLE(equal_integers)
{
    iso_tensor *a = sample_leaf(s, ISO_I64, 0, 2, ISO_SHAPE(ISO_BATCH, 3));
    iso_equal(a, sample_leaf(s, ISO_I64, 0, 2, ISO_SHAPE(3)));
}

static iso_tensor *flags(sample_graph *s, iso_shape shape)
{
    return sample_leaf(s, ISO_BOOL, 0, 1, shape);
}

SAMPLE(logical_and)
{
    iso_logical_and(flags(s, ISO_SHAPE(ISO_BATCH, 3)), flags(s, ISO_SHAPE(3)));
}
SAMPLE(logical_or)
{
    iso_logical_or(flags(s, ISO_SHAPE(ISO_BATCH, 3)), flags(s, ISO_SHAPE(3)));
}
SAMPLE(logical_not)
{
    iso_logical_not(flags(s, ISO_SHAPE(ISO_BATCH, 3)));
}

SAMPLE(where)
{
    iso_tensor *condition = flags(s, ISO_SHAPE(ISO_BATCH, 4, 3));
    iso_tensor *a = sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(ISO_BATCH, 1, 3));
    iso_where(condition, a, sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(4, 3)));
}

SAMPLE(cast_wider)
{
    iso_cast_attrs attrs = {ISO_F64};
    iso_op_1(&iso_op_cast, rows_of(s, -2, 2), &attrs);
}
SAMPLE(cast_bytes)
{
    iso_cast(sample_leaf(s, ISO_U8, 0, 255, ISO_SHAPE(ISO_BATCH, 3)), ISO_F32);
}
SAMPLE(cast_to_integer)
{
    iso_cast(rows_of(s, -9, 9), ISO_I32);
}

/* x: [batch, 4, 3, 2] */
static iso_tensor *block(sample_graph *s, iso_dtype dtype)
{
    return sample_leaf(s, dtype, -2, 2, ISO_SHAPE(ISO_BATCH, 4, 3, 2));
}

SAMPLE(sum_last)
{
    iso_reduce_sum(block(s, ISO_F32), (int[]){-1}, 1, false);
}
SAMPLE(sum_middle)
{
    iso_reduce_sum(block(s, ISO_F32), (int[]){1, 2}, 2, false);
}
SAMPLE(sum_apart)
{
    iso_reduce_sum(block(s, ISO_F32), (int[]){0, 2}, 2, true);
}
SAMPLE(sum_rows)
{
    iso_reduce_sum(block(s, ISO_F32), (int[]){0, 1}, 2, false);
}
SAMPLE(sum_all)
{
    iso_sum(block(s, ISO_F32));
}
SAMPLE(sum_flags)
{
    iso_reduce_sum(flags(s, ISO_SHAPE(ISO_BATCH, 4)), (int[]){0}, 1, false);
}
SAMPLE(mean)
{
    iso_reduce_mean(block(s, ISO_F32), (int[]){1, 2}, 2, false);
}
SAMPLE(mean_rows)
{
    iso_reduce_mean(block(s, ISO_F32), (int[]){0, 3}, 2, false);
}
SAMPLE(max_all)
{
    iso_reduce_max(block(s, ISO_F32), NULL, 0, false);
}
SAMPLE(max_middle)
{
    iso_reduce_max(block(s, ISO_F32), (int[]){2}, 1, false);
}
SAMPLE(max_rows)
{
    iso_reduce_max(block(s, ISO_F32), (int[]){0, 3}, 2, true);
}
SAMPLE(min_last)
{
    iso_reduce_min(block(s, ISO_F32), (int[]){3}, 1, false);
}
SAMPLE(min_integers)
{
    iso_reduce_min(sample_leaf(s, ISO_I32, -9, 9, ISO_SHAPE(ISO_BATCH, 4)), (int[]){1}, 1, true);
}
SAMPLE(flatten)
{
    iso_reshape_to(block(s, ISO_F32), ISO_SHAPE(ISO_BATCH, -1));
}
SAMPLE(reshape_part)
{
    iso_reshape_to(block(s, ISO_F32), ISO_SHAPE(ISO_BATCH, 12, 2));
}
SAMPLE(reshape_one)
{
    iso_reshape_to(block(s, ISO_F32), ISO_SHAPE(ISO_BATCH, 4, 1, 6));
}
SAMPLE(reshape_fixed)
{
    iso_reshape_to(sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(4, 3, 5)), ISO_SHAPE(2, 2, 3, 5));
}
SAMPLE(transpose)
{
    iso_transpose(block(s, ISO_F32), (int[]){0, 3, 1, 2});
}
SAMPLE(transpose_matrix)
{
    iso_transpose(sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(4, 6)), (int[]){1, 0});
}
SAMPLE(flip)
{
    iso_flip(block(s, ISO_F32), 1);
}
SAMPLE(flip_last)
{
    iso_flip(sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(4, 6)), -1);
}
SAMPLE(slice)
{
    iso_slice(block(s, ISO_F32), (int64_t[]){1, 0, 1}, (int64_t[]){2, -1, 1});
}
SAMPLE(concat)
{
    iso_tensor *a = block(s, ISO_F32), *b = sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(ISO_BATCH, 4, 2, 2));
    iso_concat((iso_tensor *[]){a, b, a}, 3, 2);
}

SAMPLE(pad)
{
    iso_slice_attrs attrs = {.begin = {0, 2, 0, 1}, .shape = ISO_SHAPE(ISO_BATCH, 7, 3, 3)};
    iso_op_1(&iso_op_pad, block(s, ISO_F32), &attrs);
}

SAMPLE(broadcast_bias)
{
    iso_broadcast_to(sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(4, 1)), ISO_SHAPE(ISO_BATCH, 4, 3));
}
SAMPLE(broadcast_number)
{
    iso_broadcast_to(sample_leaf(s, ISO_F32, -2, 2, ISO_SCALAR), ISO_SHAPE(ISO_BATCH, 4));
}
SAMPLE(one_hot)
{
    iso_one_hot(sample_leaf(s, ISO_I32, -1, 5, ISO_SHAPE(ISO_BATCH, 2)), 5, ISO_F32);
}

static void product(sample_graph *s, iso_shape a, iso_shape b, bool transpose_a, bool transpose_b)
{
    iso_tensor *x = sample_leaf(s, ISO_F32, -2, 2, a);
    iso_matmul_with(x, sample_leaf(s, ISO_F32, -2, 2, b), transpose_a, transpose_b);
}

SAMPLE(dense)
{
    product(s, ISO_SHAPE(ISO_BATCH, 4), ISO_SHAPE(4, 3), false, false);
}
SAMPLE(dense_back)
{
    product(s, ISO_SHAPE(ISO_BATCH, 4), ISO_SHAPE(3, 4), false, true);
}
SAMPLE(dense_weight)
{
    product(s, ISO_SHAPE(ISO_BATCH, 4), ISO_SHAPE(ISO_BATCH, 3), true, false);
}
SAMPLE(product_both)
{
    product(s, ISO_SHAPE(4, 6), ISO_SHAPE(5, 4), true, true);
}
SAMPLE(product_rows)
{
    product(s, ISO_SHAPE(ISO_BATCH, 2, 4), ISO_SHAPE(4, 3), false, false);
}
SAMPLE(product_rows_back)
{
    product(s, ISO_SHAPE(ISO_BATCH, 2, 4), ISO_SHAPE(3, 4), false, true);
}
SAMPLE(product_vector)
{
    product(s, ISO_SHAPE(4), ISO_SHAPE(4, 3), false, false);
}
SAMPLE(product_batch)
{
    product(s, ISO_SHAPE(ISO_BATCH, 2, 4), ISO_SHAPE(ISO_BATCH, 4, 3), false, false);
}
SAMPLE(product_batch_a)
{
    product(s, ISO_SHAPE(ISO_BATCH, 4, 2), ISO_SHAPE(ISO_BATCH, 4, 3), true, false);
}
SAMPLE(product_batch_b)
{
    product(s, ISO_SHAPE(2, 2, 5, 4), ISO_SHAPE(2, 2, 3, 4), false, true);
}
SAMPLE(product_batch_both)
{
    product(s, ISO_SHAPE(ISO_BATCH, 4, 2), ISO_SHAPE(ISO_BATCH, 3, 4), true, true);
}

SAMPLE(contraction)
{
    iso_matmul_attrs attrs = {.contract = true};
    iso_tensor *x = sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(ISO_BATCH, 2, 4));
    iso_op_2(&iso_op_matmul, x, sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(ISO_BATCH, 2, 3)), &attrs);
}

const sample basic_samples[] = {
    {"negate", negate},
    {"abs", absolute},
    {"sign", sign},
    {"exp", exponential},
    {"log", logarithm},
    {"sqrt", root},
    {"rsqrt", reciprocal_root},
    {"square", square},
    {"relu", relu},
    {"clipped_relu", clipped_relu},
    {"leaky_relu", leaky_relu},
    {"elu", elu},
    {"elu", elu_negative},
    {"sigmoid", sigmoid},
    {"tanh", hyperbolic},
    {"gelu", gelu},
    {"gelu", gelu_approximate},
    {"silu", silu},
    {"softplus", softplus},
    {"affine", affine},
    {"affine", scaling},
    {"stop_gradient", stop},
    {"scale_by_count", count},
    {"unary_gradient", slope_abs},
    {"unary_gradient", slope_exp},
    {"unary_gradient", slope_log},
    {"unary_gradient", slope_sqrt},
    {"unary_gradient", slope_rsqrt},
    {"unary_gradient", slope_square},
    {"unary_gradient", slope_relu},
    {"unary_gradient", slope_clipped_relu},
    {"unary_gradient", slope_leaky_relu},
    {"unary_gradient", slope_elu},
    {"unary_gradient", slope_sigmoid},
    {"unary_gradient", slope_tanh},
    {"unary_gradient", slope_gelu},
    {"unary_gradient", slope_silu},
    {"unary_gradient", slope_softplus},
    {"add", add},
    {"add", add_bias},
    {"add", add_number},
    {"add", add_integers},
    {"subtract", subtract},
    {"multiply", multiply},
    {"multiply", multiply_column},
    {"multiply", multiply_rows},
    {"divide", divide},
    {"divide", divide_bias},
    {"power", power},
    {"power", power_number},
    {"maximum", maximum},
    {"minimum", minimum},
    {"equal", equal},
    {"equal", equal_integers},
    {"not_equal", not_equal},
    {"less", less},
    {"less_equal", less_equal},
    {"greater", greater},
    {"greater_equal", greater_equal},
    {"logical_and", logical_and},
    {"logical_or", logical_or},
    {"logical_not", logical_not},
    {"where", where},
    {"cast", cast_wider},
    {"cast", cast_bytes},
    {"cast", cast_to_integer},
    {"reduce_sum", sum_last},
    {"reduce_sum", sum_middle},
    {"reduce_sum", sum_apart},
    {"reduce_sum", sum_rows},
    {"reduce_sum", sum_all},
    {"reduce_sum", sum_flags},
    {"reduce_sum", mean},
    {"scale_by_count", mean_rows},
    {"reduce_max", max_all},
    {"reduce_max", max_middle},
    {"reduce_max", max_rows},
    {"reduce_min", min_last},
    {"reduce_min", min_integers},
    {"reshape", flatten},
    {"reshape", reshape_part},
    {"reshape", reshape_one},
    {"reshape", reshape_fixed},
    {"transpose", transpose},
    {"transpose", transpose_matrix},
    {"flip", flip},
    {"flip", flip_last},
    {"slice", slice},
    {"pad", pad},
    {"concat", concat},
    {"broadcast_to", broadcast_bias},
    {"broadcast_to", broadcast_number},
    {"one_hot", one_hot},
    {"matmul", dense},
    {"matmul", dense_back},
    {"matmul", dense_weight},
    {"matmul", product_both},
    {"matmul", product_rows},
    {"matmul", product_rows_back},
    {"matmul", product_vector},
    {"matmul", product_batch},
    {"matmul", product_batch_a},
    {"matmul", product_batch_b},
    {"matmul", product_batch_both},
    {"matmul", contraction},
    {NULL, NULL},
};
