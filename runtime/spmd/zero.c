/* ZeRO by layout (Rajbhandari et al. 2020, arXiv 1910.02054). Level 2: the optimizer's slots of trainable
 * variables, and so their gradients, are cut over the axes of the batch. Level 3: the variables themselves
 * are, and layers' outputs are pinned to the batch, so that weights are gathered where they are used instead
 * of activations. What a layout map says about a variable or an output stays as it says. */
#include <string.h>

#include "runtime/graph/graph_impl.h"
#include "runtime/spmd/spmd_impl.h"

iso_status iso_distribution_set_zero(iso_distribution *distribution, int level)
{
    if (level < 1 || level > 3)
        return iso_error(ISO_INVALID, "ZeRO of level %d: there are 1 (what every run does), 2 and 3", level);
    distribution->zero = level;
    return ISO_OK;
}

/* The dimension to cut: the first that the parts divide, else the largest; -1 for a single element. */
static int dimension_to_cut(const iso_shape *shape, int64_t parts)
{
    int largest = -1;
    for (int d = 0; d < shape->rank; d++) {
        if (shape->dim[d] > 1 && shape->dim[d] % parts == 0)
            return d;
        if (shape->dim[d] > 1 && (largest < 0 || shape->dim[d] > shape->dim[largest]))
            largest = d;
    }
    return largest;
}

/* Cuts a replicated layout over the axes of the batch. */
static void cut(const iso_distribution *distribution, const iso_shape *shape, iso_layout *layout)
{
    iso_sharding sharding = iso_distribution_batch(distribution);
    int64_t parts = 1;
    for (int i = 0; i < sharding.count; i++)
        parts *= distribution->mesh->size[sharding.axis[i]];
    int d = dimension_to_cut(shape, parts);
    if (d >= 0 && parts > 1)
        layout->dim[d] = sharding;
}

/* The layout of a variable's slots as asked for, made finer where that is needed to lie within the
 * variable's: the update then finds every weight that it changes in place. An axis that cuts the variable
 * keeps its cut, the others cut where the slots' layout has them. */
static iso_layout within(const iso_layout *variable, const iso_layout *slots)
{
    iso_layout fine = *variable;
    uint32_t taken = iso_layout_sharded_axes(variable);
    for (int d = 0; d < slots->rank; d++)
        for (int i = 0; i < slots->dim[d].count; i++) {
            int axis = slots->dim[d].axis[i];
            if (!(taken & 1u << axis))
                fine.dim[d].axis[fine.dim[d].count++] = (int8_t)axis;
            taken |= 1u << axis;
        }
    return fine;
}

void iso_zero_variable(const iso_distribution *distribution, const iso_variable *variable, iso_layout *layout)
{
    if (distribution->zero >= 3 && variable->trainable)
        cut(distribution, &variable->shape, layout);
}

iso_status iso_zero_slot(const iso_distribution *distribution, const iso_variable *variable, const char *slot,
                         iso_layout *layout)
{
    bool given;
    iso_layout found;
    iso_status status = iso_distribution_slot(distribution, variable, slot, &found, &given);
    if (status != ISO_OK)
        return status;
    if (!given && distribution->zero >= 2 && !iso_layout_sharded_axes(layout))
        cut(distribution, &variable->shape, &found);
    *layout = within(layout, &found);
    return ISO_OK;
}

iso_status iso_zero_update(const iso_distribution *distribution, const iso_variable *variable,
                           const iso_optimizer *optimizer, iso_layout *layout)
{
    const char *name[ISO_MAX_OPTIMIZER_SLOTS];
    double initial[ISO_MAX_OPTIMIZER_SLOTS];
    const iso_optimizer_rule *rule = iso_optimizer_rule_find(optimizer->rule);
    int slots = rule->slots(optimizer, name, initial);
    iso_status status = ISO_OK;
    for (int i = 0; i < slots && status == ISO_OK; i++)
        status = iso_zero_slot(distribution, variable, name[i], layout);
    return status == ISO_OK ? iso_zero_slot(distribution, variable, "gradient", layout) : status;
}

bool iso_zero_output(const iso_distribution *distribution, const char *path, const iso_shape *shape,
                     iso_layout *layout)
{
    static const char output[] = "/output";
    size_t length = strlen(path), tail = sizeof output - 1;
    if (distribution->zero < 3 || length <= tail || shape->rank == 0 || shape->dim[0] != ISO_BATCH ||
        strcmp(path + length - tail, output) != 0)
        return false;
    *layout = iso_layout_whole(shape->rank);
    layout->dim[0] = iso_distribution_batch(distribution);
    return true;
}
