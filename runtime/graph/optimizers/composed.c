/* Parts of rules that are built from ops of the graph. */
#include <stdio.h>

#include "runtime/graph/graph_impl.h"
#include "runtime/graph/ops/attrs.h"
#include "runtime/graph/ops/list.h"
#include "runtime/graph/ops/ops_impl.h"
#include "runtime/graph/optimizers/rule.h"

iso_tensor *iso_composed_mean(iso_tensor *state, iso_tensor *value, double rest)
{
    return iso_add(state, iso_affine(iso_subtract(value, state), rest, 0));
}

/* In float32, base is rounded before its power is taken, as in adam.c. */
iso_tensor *iso_composed_rest(const iso_composed_update *update, double base)
{
    iso_dtype dtype = iso_variable_dtype(update->variable);
    double rounded = dtype == ISO_F32 ? (double)(float)base : base;
    iso_tensor *power = iso_power(iso_number(update->number->graph, ISO_F64, rounded), update->number);
    return dtype == ISO_F32 ? iso_affine(iso_cast(power, dtype), -1, 1)
                            : iso_cast(iso_affine(power, -1, 1), dtype);
}

iso_tensor *iso_composed_squares(iso_tensor *x)
{
    iso_reduce_attrs all = {.axes = (1u << x->shape.rank) - 1, .square = true, .scale = 1, .dtype = ISO_F64};
    return iso_op_1(&iso_op_reduce_sum, x, &all);
}

iso_tensor *iso_composed_weight_squares(const iso_composed_update *update)
{
    iso_tensor *sum = iso_composed_squares(iso_variable_value(update->variable));
    return update->kept ? iso_multiply(sum, iso_square(update->kept)) : sum;
}

void iso_composed_make_slots(const char *prefix, iso_composed_update *update, iso_composed_slots *slots)
{
    const iso_optimizer *optimizer = update->optimizer;
    const iso_optimizer_slot *slot = iso_optimizer_rule_find(optimizer->rule)->slot;
    iso_variable *of = update->variable;
    iso_shape shape;
    int without;
    *slots = (iso_composed_slots){0};
    for (int k = 0; slot[k].name; k++) {
        char path[ISO_MAX_SLOT_PATH];
        if (!iso_optimizer_has_slot(optimizer, of, k, &shape, &without))
            continue;
        snprintf(path, sizeof path, "%s/%s/%s/%s", prefix, optimizer->rule, iso_variable_path(of),
                 slot[k].name);
        slots->variable[k] = iso_variable_create(of->graph, path, iso_variable_dtype(of), shape,
                                                 (iso_initializer){.kind = ISO_INIT_ZEROS}, false);
        if (iso_graph_error(of->graph) != ISO_OK)
            return;
        slots->variable[k]->state_of = of;
        slots->variable[k]->without = without;
        update->slot[k] = iso_variable_value(slots->variable[k]);
    }
}
