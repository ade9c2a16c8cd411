/* Functions of keras.ops over dimensions: sums, means, extremes, orders, norms, softmax. */
#include <float.h>
#include <limits.h>
#include <math.h>

#include "models/keras/functions_impl.h"
#include "models/layers/unit_norm.h"

/* The dimensions of a reduction, and whether they stay as dimensions of one element. */
typedef struct reduction {
    iso_tensor *x;
    int axes[ISO_MAX_RANK], count;
    bool keep;
} reduction;

/* False after a refusal. real: x becomes a real number. */
static bool read_reduction(iso_keras_function *f, bool real, reduction *r)
{
    r->x = real ? iso_keras_real_operand(f, 0) : iso_keras_operand_of(f, 0);
    r->keep = iso_config_flag(f->settings, "keepdims", false);
    if (!iso_keras_axes(f, "axis", r->x, 0, r->axes, &r->count))
        return false;
    if (r->count == 0 && iso_keras_has(f, "axis")) {
        iso_config_refuse(f->settings, "axis", "dimensions, or null: all");
        return false;
    }
    return f->status == ISO_OK;
}

static iso_tensor *counted(iso_tensor *x) /* bool as numbers */
{
    return iso_tensor_dtype(x) == ISO_BOOL || iso_tensor_dtype(x) == ISO_U8 ? iso_cast(x, ISO_I32) : x;
}

static void mean(iso_keras_function *f)
{
    reduction r;
    if (read_reduction(f, true, &r))
        iso_keras_give(f, iso_reduce_mean(r.x, r.axes, r.count, r.keep));
}

static void sum(iso_keras_function *f)
{
    reduction r;
    if (read_reduction(f, false, &r))
        iso_keras_give(f, iso_reduce_sum(counted(r.x), r.axes, r.count, r.keep));
}

static void largest(iso_keras_function *f)
{
    reduction r;
    if (read_reduction(f, false, &r))
        iso_keras_give(f, iso_reduce_max(r.x, r.axes, r.count, r.keep));
}

static void smallest(iso_keras_function *f)
{
    reduction r;
    if (read_reduction(f, false, &r))
        iso_keras_give(f, iso_reduce_min(r.x, r.axes, r.count, r.keep));
}

/* The mean of the squared distances from the mean; of bfloat16 in float32, as in Keras. */
static iso_tensor *variance(const reduction *r)
{
    iso_dtype type = iso_tensor_dtype(r->x);
    iso_tensor *x = type == ISO_BF16 ? iso_cast(r->x, ISO_F32) : r->x;
    iso_tensor *d = iso_subtract(x, iso_reduce_mean(x, r->axes, r->count, true));
    return iso_cast(iso_reduce_mean(iso_square(d), r->axes, r->count, r->keep), type);
}

static void var(iso_keras_function *f)
{
    reduction r;
    if (read_reduction(f, true, &r))
        iso_keras_give(f, variance(&r));
}

static void std(iso_keras_function *f)
{
    reduction r;
    if (read_reduction(f, true, &r))
        iso_keras_give(f, iso_sqrt(variance(&r)));
}

/* The product along one axis: the halves are multiplied with each other until one element is left. */
static iso_tensor *product_along(iso_tensor *x, int axis)
{
    for (int64_t n = iso_tensor_shape(x)->dim[axis]; n > 1 && iso_tensor_good(x);) {
        const int64_t half = n / 2;
        iso_tensor *y = iso_multiply(iso_keras_part(x, axis, 0, half), iso_keras_part(x, axis, half, half));
        x = n % 2 ? iso_concat((iso_tensor *[]){y, iso_keras_part(x, axis, n - 1, 1)}, 2, axis) : y;
        n = half + n % 2;
    }
    return x;
}

/* Names all dimensions if none is named. */
static void name_all(reduction *r)
{
    const int rank = iso_tensor_shape(r->x)->rank;
    for (int i = 0; r->count == 0 && i < rank; i++)
        r->axes[i] = i;
    r->count = r->count ? r->count : rank;
}

/* y, whose named dimensions have one element: without them, unless they stay. */
static void give_reduced(iso_keras_function *f, const reduction *r, iso_tensor *y)
{
    uint32_t set = 0;
    for (int i = 0; i < r->count; i++)
        set |= 1u << r->axes[i];
    iso_keras_give(f, r->keep ? y : iso_keras_without(y, set));
}

static void prod(iso_keras_function *f)
{
    reduction r;
    if (!read_reduction(f, false, &r))
        return;
    iso_tensor *x = counted(r.x);
    name_all(&r);
    for (int i = 0; i < r.count; i++) {
        if (iso_keras_is_batch(x, r.axes[i])) {
            iso_keras_refuse_batch(f, "it multiplies the rows of the batch");
            return;
        }
        x = product_along(x, r.axes[i]);
    }
    give_reduced(f, &r, x);
}

/* ---- of bool ---- */

static iso_tensor *is_true(iso_tensor *x)
{
    return iso_tensor_dtype(x) == ISO_BOOL
               ? x
               : iso_not_equal(x, iso_number(iso_tensor_graph(x), iso_tensor_dtype(x), 0));
}

static void any(iso_keras_function *f)
{
    reduction r;
    if (read_reduction(f, false, &r))
        iso_keras_give(f, is_true(iso_reduce_sum(is_true(r.x), r.axes, r.count, r.keep)));
}

static void all(iso_keras_function *f)
{
    reduction r;
    if (read_reduction(f, false, &r))
        iso_keras_give(f, iso_logical_not(is_true(
                              iso_reduce_sum(iso_logical_not(is_true(r.x)), r.axes, r.count, r.keep))));
}

static void count_nonzero(iso_keras_function *f)
{
    reduction r;
    if (read_reduction(f, false, &r))
        iso_keras_give(f, iso_reduce_sum(is_true(r.x), r.axes, r.count, r.keep));
}

/* ---- positions ---- */

static void position(iso_keras_function *f, bool of_smallest)
{
    reduction r;
    if (!read_reduction(f, of_smallest, &r))
        return;
    if (r.count != 1) {
        iso_config_refuse(f->settings, "axis", "one dimension");
        return;
    }
    if (iso_keras_is_batch(r.x, r.axes[0])) {
        iso_keras_refuse_batch(f, "it compares the rows of the batch");
        return;
    }
    iso_tensor *y = iso_argmax(of_smallest ? iso_negate(r.x) : r.x, r.axes[0]);
    iso_keras_give(f, r.keep ? iso_keras_with_axis(y, r.axes[0]) : y);
}

static void argmax(iso_keras_function *f)
{
    position(f, false);
}

static void argmin(iso_keras_function *f)
{
    position(f, true);
}

/* ---- norms and softmax ---- */

static void norm(iso_keras_function *f)
{
    reduction r;
    const double order = iso_config_number(f->settings, "ord", 2);
    const bool given = iso_keras_has(f, "ord");
    if (!read_reduction(f, true, &r))
        return;
    if ((order != 1 && order != 2) || (given && r.count != 1))
        iso_config_refuse(f->settings, "ord", "null, or 1 or 2 along one dimension");
    else if (order == 1)
        iso_keras_give(f, iso_reduce_sum(iso_abs(r.x), r.axes, r.count, r.keep));
    else
        iso_keras_give(f, iso_sqrt(iso_reduce_sum(iso_square(r.x), r.axes, r.count, r.keep)));
}

static void normalize(iso_keras_function *f)
{
    iso_tensor *x = iso_keras_real_operand(f, 0);
    int axis = iso_keras_axis(f, "axis", x, -1);
    const double order = iso_config_number(f->settings, "order", 2);
    const double epsilon = iso_config_number(f->settings, "epsilon", 1e-7);
    if (axis < 0)
        return;
    if (order != 2 || epsilon < 1e-18) {
        iso_config_refuse(f->settings, order != 2 ? "order" : "epsilon", order != 2 ? "2" : "from 1e-18 on");
        return;
    }
    iso_keras_give(f, iso_unit_vectors(x, &axis, 1, epsilon));
}

/* x without its largest element along the axes, which changes no softmax. */
static iso_tensor *shifted(const reduction *r)
{
    iso_tensor *most = iso_stop_gradient(iso_reduce_max(r->x, r->axes, r->count, true));
    return iso_subtract(r->x, most);
}

static void softmax_of(iso_keras_function *f, bool logarithm)
{
    reduction r;
    if (!read_reduction(f, true, &r))
        return;
    if (!iso_keras_has(f, "axis") && json_object_get(f->layer->config, "axis")) {
        iso_config_refuse(f->settings, "axis", "one dimension or several");
        return;
    }
    r.axes[0] = r.count ? r.axes[0] : iso_tensor_shape(r.x)->rank - 1;
    r.count = r.count ? r.count : 1;
    for (int i = 0; i < r.count; i++)
        if (iso_keras_is_batch(r.x, r.axes[i])) {
            iso_keras_refuse_batch(f, "it is over the rows of the batch");
            return;
        }
    if (r.count == 1) {
        iso_keras_give(f, logarithm ? iso_log_softmax(r.x, r.axes[0]) : iso_softmax(r.x, r.axes[0]));
        return;
    }
    iso_tensor *e = iso_exp(shifted(&r)), *total = iso_reduce_sum(e, r.axes, r.count, true);
    iso_keras_give(f, logarithm ? iso_subtract(shifted(&r), iso_log(total)) : iso_divide(e, total));
}

static void softmax(iso_keras_function *f)
{
    softmax_of(f, false);
}

static void log_softmax(iso_keras_function *f)
{
    softmax_of(f, true);
}

/* x, and 0 where it is infinite. 3e38 is below the largest number of each type. */
static iso_tensor *finite_or_zero(iso_tensor *x)
{
    iso_graph *graph = iso_tensor_graph(x);
    iso_dtype type = iso_tensor_dtype(x);
    iso_tensor *limit = iso_number(graph, type, type == ISO_F64 ? DBL_MAX : 3e38);
    return iso_where(iso_less_equal(iso_abs(x), limit), x, iso_number(graph, type, 0));
}

static void logsumexp(iso_keras_function *f)
{
    reduction r;
    if (!read_reduction(f, true, &r))
        return;
    iso_tensor *most = finite_or_zero(iso_stop_gradient(iso_reduce_max(r.x, r.axes, r.count, true)));
    iso_tensor *total = iso_reduce_sum(iso_exp(iso_subtract(r.x, most)), r.axes, r.count, true);
    iso_tensor *y = iso_add(iso_log(total), most);
    name_all(&r);
    give_reduced(f, &r, y);
}

/* The sums of the elements up to each: in step s, those that lie 2^s before are added. */
static void cumsum(iso_keras_function *f)
{
    iso_tensor *x = counted(iso_keras_operand_of(f, 0));
    int axis = iso_keras_axis(f, "axis", x, 0);
    if (!iso_keras_has(f, "axis") && iso_tensor_shape(x)->rank != 1) {
        iso_config_refuse(f->settings, "axis", "a dimension");
        return;
    }
    if (axis < 0)
        return;
    if (iso_keras_is_batch(x, axis)) {
        iso_keras_refuse_batch(f, "it sums over the rows of the batch");
        return;
    }
    const int64_t n = iso_tensor_shape(x)->dim[axis];
    for (int64_t by = 1; by < n && iso_tensor_good(x); by *= 2) {
        int64_t before[ISO_MAX_RANK] = {0}, after[ISO_MAX_RANK] = {0};
        before[axis - iso_keras_is_batch(x, 0)] = by;
        x = iso_add(x, iso_pad(iso_keras_part(x, axis, 0, n - by), before, after));
    }
    iso_keras_give(f, x);
}

/* ---- elements in their order ---- */

/* Real numbers; Keras keeps the type of others. */
static iso_tensor *ordered_operand(iso_keras_function *f)
{
    iso_tensor *x = iso_keras_operand_of(f, 0);
    if (iso_tensor_good(x) && !iso_dtype_is_float(iso_tensor_dtype(x)))
        return iso_keras_refuse_call(f, "its tensor holds integers; supported: real numbers");
    return x;
}

static void top_k(iso_keras_function *f)
{
    iso_tensor *x = ordered_operand(f), *index = NULL;
    const iso_shape *shape = iso_tensor_shape(x);
    const int64_t k = iso_config_count(f->settings, "k", 1), n = shape->dim[shape->rank - 1];
    iso_config_flag(f->settings, "sorted", true); /* in any order, that is, also in this one */
    if (f->status != ISO_OK)
        return;
    if (shape->rank < 2)
        iso_keras_refuse_batch(f, "it compares the rows of the batch");
    else if (k < 1 || k > n || k > INT_MAX)
        iso_config_refuse(f->settings, "k", "from 1 to the elements of the last dimension");
    else {
        iso_keras_give(f, iso_top_k(x, (int)k, &index));
        iso_keras_give(f, index);
    }
}

/* x with an axis as the last one, and back. */
static iso_tensor *swap_with_last(iso_tensor *x, int axis)
{
    const int last = iso_tensor_shape(x)->rank - 1;
    int permutation[ISO_MAX_RANK];
    for (int d = 0; d <= last; d++)
        permutation[d] = d == axis ? last : d == last ? axis : d;
    return axis == last ? x : iso_transpose(x, permutation);
}

/* An axis to sort along; -1, and a refusal: there is none. */
static int sorted_axis(iso_keras_function *f, iso_tensor *x)
{
    if (json_is_null(json_object_get(f->layer->config, "axis"))) {
        iso_config_refuse(f->settings, "axis", "one dimension");
        return -1;
    }
    const int axis = iso_keras_axis(f, "axis", x, -1);
    if (axis >= 0 && iso_keras_is_batch(x, axis)) {
        iso_keras_refuse_batch(f, "it compares the rows of the batch");
        return -1;
    }
    return axis;
}

/* All elements of the last axis, ascending: from the back, so that the first of equals stays the first, and NaN comes
 * last. *index, if not NULL: their places. */
static iso_tensor *ascending(iso_tensor *x, iso_tensor **index)
{
    const int last = iso_tensor_shape(x)->rank - 1;
    const int64_t n = iso_tensor_shape(x)->dim[last];
    x = iso_top_k(iso_flip(x, last), (int)n, index);
    if (index) /* counted from the back */
        *index =
            iso_cast(iso_flip(iso_affine(iso_cast(*index, ISO_F64), -1, (double)(n - 1)), last), ISO_I32);
    return iso_flip(x, last);
}

static void sort(iso_keras_function *f)
{
    iso_tensor *x = ordered_operand(f);
    const int axis = f->status == ISO_OK ? sorted_axis(f, x) : -1;
    if (axis >= 0)
        iso_keras_give(f, swap_with_last(ascending(swap_with_last(x, axis), NULL), axis));
}

static void argsort(iso_keras_function *f)
{
    iso_tensor *x = ordered_operand(f), *index = NULL;
    const int axis = f->status == ISO_OK ? sorted_axis(f, x) : -1;
    if (axis < 0)
        return;
    ascending(swap_with_last(x, axis), &index);
    iso_keras_give(f, swap_with_last(index, axis));
}

const iso_keras_function_type iso_keras_reduce_functions[] = {{"Mean", "x", mean},
                                                              {"Sum", "x", sum},
                                                              {"Max", "x", largest},
                                                              {"Amax", "x", largest},
                                                              {"Min", "x", smallest},
                                                              {"Amin", "x", smallest},
                                                              {"Prod", "x", prod},
                                                              {"Var", "x", var},
                                                              {"Std", "x", std},
                                                              {"Any", "x", any},
                                                              {"All", "x", all},
                                                              {"CountNonzero", "x", count_nonzero},
                                                              {"Argmax", "x", argmax},
                                                              {"Argmin", "x", argmin},
                                                              {"Cumsum", "x", cumsum},
                                                              {"Norm", "x", norm},
                                                              {"Normalize", "x", normalize},
                                                              {"Logsumexp", "x", logsumexp},
                                                              {"TopK", "x", top_k},
                                                              {"Sort", "x", sort},
                                                              {"Argsort", "x", argsort},
                                                              {"Softmax", "x", softmax},
                                                              {"LogSoftmax", "x", log_softmax},
                                                              {0}};
