/* Constraints of weights as ops (keras/src/constraints/constraints.py). */
#include <math.h>

#include "runtime/base/thread_modes.h"
#include "runtime/graph/constraints.h"
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/ops/attrs.h"
#include "runtime/graph/ops/list.h"
#include "runtime/graph/ops/ops_impl.h"

static const double epsilon = 1e-7; /* keras.config.epsilon() */

/* The settings with their defaults. */
static bool fill(iso_graph *graph, const iso_constraint_type *type, const iso_weight_constraint *given,
                 iso_weight_constraint *full)
{
    *full = *given;
    for (const iso_setting *s = type->row.setting; s && s->name; s++) {
        double value = iso_setting_option(s, given);
        if (!isfinite(value) || value < 0)
            iso_graph_fail(graph, "the constraint %s: %s is %g, it must be finite and not negative",
                           type->row.name, s->name, value);
        iso_setting_set(s, full, value);
    }
    return iso_graph_error(graph) == ISO_OK;
}

static uint32_t norm_axes(iso_tensor *x, const iso_weight_constraint *constraint)
{
    static const int first[] = {0};
    const int *axis = constraint->axis_count ? constraint->axis : first;
    int count = constraint->axis_count ? constraint->axis_count : 1;
    uint32_t bits = 0;
    if (count < 0 || count > ISO_MAX_RANK)
        iso_graph_fail(x->graph, "a constraint has %d axes, 0 to %d are possible", count, ISO_MAX_RANK);
    if (constraint->all_axes)
        return (1u << x->shape.rank) - 1;
    for (int i = 0; i < count && iso_graph_error(x->graph) == ISO_OK; i++) {
        int of = iso_axis(x, axis[i]);
        bits |= of >= 0 ? 1u << of : 0;
    }
    return bits;
}

/* The norms of x along the axes, which have one element then: float64. */
static iso_tensor *norms_of(iso_tensor *x, uint32_t axes)
{
    iso_reduce_attrs attrs = {.axes = axes, .keep = true, .square = true, .scale = 1, .dtype = ISO_F64};
    return iso_sqrt(iso_op_1(&iso_op_reduce_sum, x, &attrs));
}

static iso_tensor *clip(iso_tensor *x, double least, double most)
{
    iso_graph *graph = x->graph;
    return iso_minimum(iso_maximum(x, iso_number(graph, ISO_F64, least)), iso_number(graph, ISO_F64, most));
}

static iso_tensor *desired(const iso_weight_constraint *constraint, iso_tensor *norms)
{
    if (constraint->kind == ISO_CONSTRAINT_UNIT_NORM)
        return iso_number(norms->graph, ISO_F64, 1);
    if (constraint->kind == ISO_CONSTRAINT_MAX_NORM)
        return clip(norms, 0, constraint->max_value);
    iso_tensor *clipped = clip(norms, constraint->min_value, constraint->max_value);
    if (constraint->rate == 1)
        return clipped;
    return iso_add(iso_affine(clipped, constraint->rate, 0), iso_affine(norms, 1 - constraint->rate, 0));
}

iso_tensor *iso_constrain(iso_tensor *x, const iso_weight_constraint *constraint)
{
    ISO_DEFAULT_MODES();
    if (ISO_ANY_NULL(x))
        return NULL;
    iso_graph *graph = x->graph;
    if (ISO_NULL_IN(graph, constraint) || !iso_tensor_good(x))
        return iso_graph_bad_tensor(graph);
    const iso_constraint_type *type = iso_constraint_type_of(constraint->kind);
    iso_weight_constraint full;
    if (!type)
        iso_graph_fail(graph, "there is no constraint of kind %d", (int)constraint->kind);
    if (!type || !fill(graph, type, constraint, &full))
        return iso_graph_bad_tensor(graph);
    if (!type->norm)
        return iso_maximum(x, iso_number(graph, x->dtype, 0));
    uint32_t axes = norm_axes(x, &full);
    if (iso_graph_error(graph) != ISO_OK)
        return iso_graph_bad_tensor(graph);
    iso_tensor *norms = norms_of(x, axes);
    iso_tensor *scale = iso_divide(desired(&full, norms), iso_affine(norms, 1, epsilon));
    return iso_multiply(x, iso_cast(scale, x->dtype));
}
