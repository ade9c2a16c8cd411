/* Rotary position embeddings (Su et al. 2021, arXiv 2104.09864): pairs of features are turned by angles that grow
 * with the position. */
#include <math.h>

#include "runtime/graph/null_tensor.h"
#include "runtime/graph/ops/network_impl.h"

static bool rotary_infer(iso_op *op)
{
    const iso_rotary_attrs *attrs = op->attrs;
    const iso_shape *x = &op->inputs[0]->shape;
    const int last = x->rank - 1;
    if (attrs->axis < 1 || attrs->axis >= last)
        return iso_op_refuse(op,
                             "positions are along axis %d: it must lie between the batch and the features",
                             (int)attrs->axis);
    if (x->dim[last] % 2 != 0)
        return iso_op_refuse(op, "takes an even number of features");
    return iso_infer_same_float(op);
}

/* The opposite angles. */
static void rotary_gradient(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    iso_rotary_attrs attrs = *(const iso_rotary_attrs *)op->attrs;
    attrs.scaling = -attrs.scaling;
    dx[0] = iso_op_1(&iso_op_rotary, dy[0], &attrs);
}

static void rotary_rule_of(const iso_op *op, iso_rule *rule)
{
    iso_rule_by_channel(op, true, rule);
}

/* Four products and two sums for a pair. */
static double rotary_flops(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    (void)op, (void)outputs;
    return 3 * iso_box_elements(&inputs[0]);
}

const iso_op_type iso_op_rotary = {
    .name = "rotary",
    ISO_OP_ATTRS(rotary),
    .infer = rotary_infer,
    .gradient = rotary_gradient,
    .rule_of = rotary_rule_of,
    .linear = 1 << 0,
    .flops = rotary_flops,
    .in_place = 1 << 0,
};

static bool is_positive(double number)
{
    return number > 0 && !isinf(number);
}

static bool stretch_fits(const iso_rotary_stretch *s, double wavelength)
{
    return s->factor == 0 || (is_positive(s->factor) && is_positive(s->low) && is_positive(s->high) &&
                              is_positive(s->context) && s->low < s->high && (!s->yarn || wavelength > 1));
}

iso_tensor *iso_rotary_op(iso_tensor *x, int axis, double wavelength, double scaling)
{
    ISO_NEED_TENSORS(x);
    return iso_rotary_stretched_op(x, axis, wavelength, scaling, &(iso_rotary_stretch){.factor = 0});
}

iso_tensor *iso_rotary_stretched_op(iso_tensor *x, int axis, double wavelength, double scaling,
                                    const iso_rotary_stretch *stretch)
{
    ISO_NEED_TENSORS(x);
    if (ISO_NULL_IN(x->graph, stretch))
        return iso_graph_bad_tensor(x->graph);
    int from_front = iso_axis(x, axis);
    if (from_front < 0)
        return iso_graph_bad_tensor(x->graph);
    if (!is_positive(wavelength) || !is_positive(scaling)) {
        iso_graph_fail(x->graph,
                       "rotary: the wavelength is %g and the scaling factor %g: they must be positive",
                       wavelength, scaling);
        return iso_graph_bad_tensor(x->graph);
    }
    if (!stretch_fits(stretch, wavelength)) {
        iso_graph_fail(
            x->graph,
            "rotary: positions are stretched by %g, between %g and %g waves in %g positions: the numbers "
            "must be positive, the second below the third, and with yarn the wavelength, %g, above 1",
            stretch->factor, stretch->low, stretch->high, stretch->context, wavelength);
        return iso_graph_bad_tensor(x->graph);
    }
    iso_rotary_attrs attrs = {
        .wavelength = wavelength, .scaling = scaling, .axis = from_front, .stretch = *stretch};
    return iso_op_1(&iso_op_rotary, x, &attrs);
}
