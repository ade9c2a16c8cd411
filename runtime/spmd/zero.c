/* ZeRO by layout (Rajbhandari et al. 2020, arXiv 1910.02054). Level 2: the optimizer's slots of trainable
 * variables, and therefore their gradients, are sharded over the axes of the batch (at any level if
 * gradients are clipped or accumulated over steps, or if the optimizer's rule is built from ops). Level 3: the
 * variables themselves are sharded, and layers' outputs are pinned to the batch, so that weights are gathered
 * where they are used, not activations. Layouts that a layout map gives to variables and outputs are kept. */
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/graph/graph_impl.h"
#include "runtime/graph/optimizers/rule.h"
#include "runtime/spmd/spmd_impl.h"

iso_status iso_distribution_set_zero(iso_distribution *distribution, int level)
{
    ISO_NEED(distribution);
    if (level < 1 || level > 3)
        return iso_error(ISO_INVALID, "ZeRO of level %d: the levels are 1 (what every run does), 2 and 3",
                         level);
    distribution->zero = level;
    return ISO_OK;
}

static int64_t parts_of(const iso_mesh *mesh, const iso_sharding *sharding)
{
    int64_t parts = 1;
    for (int i = 0; i < sharding->count; i++)
        parts *= mesh->size[sharding->axis[i]];
    return parts;
}

/* The dimension to split: the first one not split yet that the number of parts divides, else that of which
 * a slot has the most; -1 for a single element. */
static int dimension_to_cut(const iso_mesh *mesh, const iso_shape *shape, const iso_layout *layout,
                            int64_t parts)
{
    int most = -1;
    int64_t longest = 1;
    for (int d = 0; d < shape->rank; d++) {
        int64_t have = parts_of(mesh, &layout->dim[d]), extent = (shape->dim[d] + have - 1) / have;
        if (extent > 1 && have == 1 && extent % parts == 0)
            return d;
        if (extent > longest) {
            longest = extent;
            most = d;
        }
    }
    return most;
}

/* Splits over those axes of the batch that do not split yet. */
static void zero_cut(const iso_distribution *distribution, const iso_shape *shape, iso_layout *layout)
{
    iso_sharding batch = iso_distribution_batch(distribution), rest = {0};
    for (int i = 0; i < batch.count; i++)
        if (!(iso_layout_sharded_axes(layout) & 1u << batch.axis[i]))
            rest.axis[rest.count++] = batch.axis[i];
    int64_t parts = parts_of(distribution->mesh, &rest);
    int d = parts > 1 ? dimension_to_cut(distribution->mesh, shape, layout, parts) : -1;
    for (int i = 0; d >= 0 && i < rest.count; i++)
        layout->dim[d].axis[layout->dim[d].count++] = rest.axis[i];
}

/* The requested layout of a variable's slots, refined if necessary so that it lies within the variable's:
 * the update then finds every weight that it changes in its own memory. An axis that splits the variable
 * keeps its dimension, the others split as in the slots' layout. */
static iso_layout zero_within(const iso_layout *variable, const iso_layout *slots)
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
    if (distribution->zero >= 3 && variable->trainable && !variable->made_frozen)
        zero_cut(distribution, &variable->shape, layout);
}

/* The layout from the key of one slot. */
static iso_status lay_out_slot(const iso_distribution *distribution, const iso_variable *variable,
                               const char *slot, iso_layout *layout)
{
    iso_layout found;
    bool given;
    iso_status status = iso_distribution_slot(distribution, variable, slot, &found, &given);
    if (status == ISO_OK && given)
        *layout = zero_within(layout, &found);
    return status;
}

iso_status iso_zero_state(const iso_distribution *distribution, const iso_variable *variable,
                          const char *name, iso_layout *layout)
{
    iso_status status = lay_out_slot(distribution, variable, name, layout);
    if (status == ISO_OK)
        zero_cut(distribution, &variable->shape, layout);
    return status;
}

/* Whatever is not linear in the gradients needs their sums, not partial sums. If they are sharded, each
 * slot needs only its part, and a norm is one sum of numbers. */
static bool needs_sums(const iso_optimizer *optimizer)
{
    return optimizer->clip_norm != 0 || optimizer->global_clip_norm != 0 || optimizer->clip_value != 0 ||
           optimizer->accumulation > 1 || iso_optimizer_rule_find(optimizer->rule)->direction != NULL;
}

iso_status iso_zero_update(const iso_distribution *distribution, const iso_variable *variable,
                           const iso_optimizer *optimizer, iso_layout *layout)
{
    const char *name[ISO_MAX_OPTIMIZER_SLOTS];
    double initial[ISO_MAX_OPTIMIZER_SLOTS];
    int slots = iso_optimizer_slots(optimizer, name, initial);
    iso_status status = ISO_OK;
    ISO_TRY(lay_out_slot(distribution, variable, "gradient", layout));
    for (int i = 0; i < slots; i++)
        ISO_TRY(lay_out_slot(distribution, variable, name[i], layout));
    if (distribution->zero >= 2 || needs_sums(optimizer))
        zero_cut(distribution, &variable->shape, layout);
done:
    return status;
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
