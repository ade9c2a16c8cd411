/* Images moved by an affine map of their own, and the numbers of which such maps are made. */
#include <math.h>

#include "runtime/base/random.h"
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/ops/network_impl.h"

/* ---- uniform numbers ---- */

const iso_op_type iso_op_uniform = {
    .name = "uniform",
    ISO_OP_ATTRS(uniform),
    .infer = iso_infer_same_float,
    .rule = "...->...",
    .in_place = 1 << 0,
    .random = true,
};

iso_tensor *iso_uniform_op(iso_tensor *x, double low, double high, iso_uniform_function function,
                           const char *path)
{
    ISO_NEED_TENSORS(x);
    if (ISO_NULL_IN(x->graph, path))
        return iso_graph_bad_tensor(x->graph);
    if (!isfinite(low) || !isfinite(high) || (unsigned)function > ISO_UNIFORM_SINE) {
        iso_graph_fail(
            x->graph,
            "uniform '%s': the range is %g to %g and the function %d: the range must be finite, the "
            "function one of iso_uniform_function",
            path, low, high, (int)function);
        return iso_graph_bad_tensor(x->graph);
    }
    iso_uniform_attrs attrs = {.key = iso_random_key(iso_graph_seed(x->graph), path),
                               .low = low,
                               .high = high,
                               .function = function};
    return iso_op_1(&iso_op_uniform, x, &attrs);
}

/* ---- maps ---- */

enum { X, MAPS };     /* inputs of warp */
enum { OF_MAPS, DY }; /* inputs of its gradient */
enum { NUMBERS = 6 }; /* of a map */

/* Maps are not rounded to bfloat16: a pixel is farther than its 8 bits reach. */
static bool maps_fit(iso_op *op, int maps, int images)
{
    const iso_tensor *m = op->inputs[maps], *x = op->inputs[images];
    const iso_dtype type = x->dtype == ISO_BF16 ? ISO_F32 : x->dtype;
    return (m->dtype == type && iso_shape_equal(&m->shape, &ISO_SHAPE(x->shape.dim[0], NUMBERS))) ||
           iso_op_refuse(op, "takes six numbers for each image, of the type %s", iso_dtype_name(type));
}

static bool size_fits(iso_op *op, const int64_t size[2])
{
    return (size[0] > 0 && size[1] > 0 && size[0] <= INT32_MAX && size[1] <= INT32_MAX) ||
           iso_op_refuse(op, "images of %lld x %lld are not possible", (long long)size[0],
                         (long long)size[1]);
}

/* Images of another size, like those of input i. */
static bool set_images(iso_op *op, int i, const int64_t size[2])
{
    const iso_shape *x = &op->inputs[i]->shape;
    return iso_op_set_output(op, op->inputs[i]->dtype, &ISO_SHAPE(x->dim[0], size[0], size[1], x->dim[3]));
}

static bool warp_infer(iso_op *op)
{
    const iso_warp_attrs *attrs = op->attrs;
    if (!iso_expect_float(op, X, 4) || !maps_fit(op, MAPS, X) || !size_fits(op, attrs->size) ||
        !size_fits(op, attrs->from))
        return false;
    return set_images(op, X, attrs->size);
}

static bool warp_infer_gradient(iso_op *op)
{
    const iso_warp_attrs *attrs = op->attrs;
    return iso_expect_float(op, DY, 4) && iso_expect_wide(op, DY) && maps_fit(op, OF_MAPS, DY) &&
           set_images(op, DY, attrs->from);
}

/* Sums of shares are not rounded to bfloat16 until they are complete. */
static void warp_gradient(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    iso_tensor *maps = op->inputs[MAPS];
    dx[X] = iso_cast_back(iso_op_2(&iso_op_warp_grad, maps, iso_cast(dy[0], maps->dtype), op->attrs),
                          op->inputs[X]->dtype);
}

/* What lies outside of the image does not depend on it. */
static void warp_second_gradient(iso_op *op, iso_tensor *const *d, iso_tensor **dx)
{
    iso_warp_attrs attrs = *(const iso_warp_attrs *)op->attrs;
    attrs.fill_value = 0;
    dx[DY] = iso_op_2(&iso_op_warp, d[0], op->inputs[OF_MAPS], &attrs);
}

/* Four products and four sums for each element of the results. */
static double warp_flops(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    return 8 * iso_box_elements(op->type == &iso_op_warp ? &outputs[0] : &inputs[DY]);
}

const iso_op_type iso_op_warp = {
    .name = "warp",
    ISO_OP_ATTRS(warp),
    .infer = warp_infer,
    .gradient = warp_gradient,
    .rule = "n..c,n.->n..c",
    .flops = warp_flops,
};

const iso_op_type iso_op_warp_grad = {
    .name = "warp_grad",
    ISO_OP_ATTRS(warp),
    .infer = warp_infer_gradient,
    .gradient = warp_second_gradient,
    .rule = "n.,n..c->n..c",
    .linear = 1 << DY,
    .flops = warp_flops,
};

iso_tensor *iso_warp_op(iso_tensor *x, iso_tensor *maps, const iso_warp_form *form)
{
    ISO_NEED_TENSORS(x, maps);
    if (ISO_NULL_IN(x->graph, form))
        return iso_graph_bad_tensor(x->graph);
    if ((unsigned)form->fill_mode > ISO_FILL_NEAREST || !isfinite(form->fill_value)) {
        iso_graph_fail(x->graph, "warp: there is no fill mode %d with the value %g", (int)form->fill_mode,
                       form->fill_value);
        return iso_graph_bad_tensor(x->graph);
    }
    const iso_shape *s = &x->shape;
    const int64_t height = s->rank == 4 ? s->dim[1] : 0, width = s->rank == 4 ? s->dim[2] : 0;
    iso_warp_attrs attrs = {.size = {form->height ? form->height : height, form->width ? form->width : width},
                            .from = {height, width},
                            .fill_mode = form->fill_mode,
                            .nearest = form->nearest,
                            .fill_value = form->fill_value};
    return iso_op_2(&iso_op_warp, x, maps, &attrs);
}
