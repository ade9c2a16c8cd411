/* The values of the partitioner: the layouts in which a tensor exists, and reshards to those in which it
 * does not. */
#include <float.h>

#include "runtime/spmd/collective.h"
#include "runtime/spmd/partition_impl.h"

iso_shape iso_partition_shape(const iso_partitioner *p, const iso_tensor *tensor)
{
    return iso_shape_with_rows(&tensor->shape, p->nominal_rows);
}

const iso_layout *iso_partition_layout(const iso_partitioner *p, const iso_tensor *tensor)
{
    return &p->program->values[p->first_value[tensor->id]].layout;
}

iso_status iso_partition_begin(iso_partitioner *p, iso_tensor *tensor, const iso_layout *layout, int step,
                               int *value)
{
    iso_status status = iso_program_add_value(p->program, tensor, layout, step, value);
    if (status == ISO_OK)
        p->first_value[tensor->id] = p->last_value[tensor->id] = *value;
    return status;
}

/* Adds a value to the tensor's list. */
static iso_status insert_reshard_add(iso_partitioner *p, iso_tensor *tensor, const iso_layout *layout,
                                     int step, int *value)
{
    iso_status status = iso_program_add_value(p->program, tensor, layout, step, value);
    if (status != ISO_OK)
        return status;
    p->program->values[p->last_value[tensor->id]].next = *value;
    p->program->values[*value].backward = p->backward;
    p->program->values[*value].again = p->again;
    p->last_value[tensor->id] = *value;
    return ISO_OK;
}

/* Copies of a variable that were made for the forward pass are not used in the backward pass: a gathered
 * weight is dropped after its use and gathered again. */
static bool within_reach(const iso_partitioner *p, const iso_tensor *tensor, int v)
{
    return tensor->producer->type != &iso_op_variable || v == p->first_value[tensor->id] ||
           p->program->values[v].backward == p->backward;
}

/* The value from which a reshard to this layout is cheapest, and its cost in elements. all: counts what was made for
 * ops that are computed again. */
static int cheapest(const iso_partitioner *p, const iso_tensor *tensor, const iso_layout *layout, bool all,
                    double *least)
{
    iso_shape shape = iso_partition_shape(p, tensor);
    int best = -1;
    *least = DBL_MAX;
    for (int v = p->first_value[tensor->id]; v >= 0; v = p->program->values[v].next) {
        const iso_layout *have = &p->program->values[v].layout;
        if (!within_reach(p, tensor, v) || (!all && p->program->values[v].again))
            continue;
        double cost = iso_reshard_cost(p->mesh, have, layout, &shape);
        if (iso_layout_equal(have, layout)) {
            *least = 0;
            return v;
        }
        if (cost < *least) {
            *least = cost;
            best = v;
        }
    }
    return best;
}

static bool adds_overlaps(const iso_layout *from, const iso_layout *to)
{
    for (int d = 0; d < from->rank; d++)
        if (iso_sharding_has_window(&from->dim[d]) && !iso_sharding_equal(&from->dim[d], &to->dim[d]))
            return true;
    return false;
}

/* Whether a reshard goes in two steps, and the layout between them. Data moves before a replicated axis
 * becomes partial (all but one of the partial sums are then zeros), because that needs no communication.
 * Overlapping parts that are also partial are first added part by part, then the overlaps, if that is
 * cheaper. */
static bool goes_in_two(const iso_partitioner *p, const iso_tensor *tensor, const iso_layout *from,
                        const iso_layout *to, iso_layout *between)
{
    iso_shape shape = iso_partition_shape(p, tensor);
    *between = *to;
    between->partial &= from->partial;
    if (between->partial != to->partial && !iso_reshard_local(p->mesh, from, to))
        return true;
    *between = *from;
    between->partial &= to->partial;
    return between->partial != from->partial && adds_overlaps(from, to) &&
           iso_reshard_cost(p->mesh, from, between, &shape) + iso_reshard_cost(p->mesh, between, to, &shape) <
               iso_reshard_cost(p->mesh, from, to, &shape);
}

/* The elements that the plan moves without intermediate layouts: an all-reduce in two halves is the plan's
 * own doing. */
static double direct_total(const iso_partitioner *p, const iso_layout *from, const iso_layout *to,
                           const iso_shape *shape)
{
    iso_layout reduced = *from;
    reduced.partial = 0;
    return iso_collective_of(p->mesh, from, to, shape, iso_layout_equal(&reduced, to)).total;
}

/* Finds the path of a sum to a layout. Small sums go directly: there the number of exchanges matters. */
static int find_stops(const iso_partitioner *p, const iso_tensor *tensor, const iso_layout *from,
                      const iso_layout *to, iso_layout stop[ISO_MAX_RESHARD_PATH])
{
    iso_shape shape = iso_partition_shape(p, tensor);
    const iso_layout *at = from;
    double total = 0;
    if (from->partial & ~to->partial && iso_layout_largest(p->mesh, from, &shape) >= ISO_SMALL_SUM) {
        int stops = iso_reshard_path(p->mesh, from, to, &shape, stop);
        for (int i = 0; i < stops; at = &stop[i++])
            total += iso_collective_of(p->mesh, at, &stop[i], &shape, false).total;
        if (stops > 1 && total < direct_total(p, from, to, &shape))
            return stops;
    }
    stop[0] = *to;
    return 1;
}

static iso_status add_reshard(iso_partitioner *p, iso_tensor *tensor, const iso_layout *layout, int from,
                              int *value)
{
    iso_program_step *step;
    iso_status status = iso_program_add_step(p->program, NULL, &step);
    if (status != ISO_OK)
        return status;
    step->input[0] = from;
    int number = p->program->n_steps - 1;
    status = insert_reshard_add(p, tensor, layout, number, value);
    p->program->steps[number].output[0] = *value;
    return status;
}

iso_status iso_partition_insert_reshard(iso_partitioner *p, iso_tensor *tensor, const iso_layout *layout,
                                        int *value)
{
    double cost;
    int from = cheapest(p, tensor, layout, true, &cost);
    if (!p->again)
        p->program->values[from].again = false;
    iso_layout have = p->program->values[from].layout, between, stop[ISO_MAX_RESHARD_PATH];
    if (iso_layout_equal(&have, layout)) {
        *value = from;
        return ISO_OK;
    }
    iso_status status = ISO_OK;
    if (goes_in_two(p, tensor, &have, layout, &between))
        ISO_TRY(iso_partition_insert_reshard(p, tensor, &between, &from));
    have = p->program->values[from].layout;
    int stops = find_stops(p, tensor, &have, layout, stop);
    for (int i = 0; i < stops; i++)
        ISO_TRY(add_reshard(p, tensor, &stop[i], from, &from));
    *value = from;
done:
    return status;
}

const iso_tensor *iso_partition_made_before(const iso_tensor *tensor)
{
    const iso_op *op = tensor->producer;
    for (int o = 0; op->again && o < op->n_outputs; o++)
        if (op->outputs[o] == tensor)
            return op->again->outputs[o];
    return NULL;
}

double iso_partition_cost(const iso_partitioner *p, const iso_tensor *tensor, const iso_layout *layout)
{
    double least, before;
    const iso_tensor *first = iso_partition_made_before(tensor);
    cheapest(p, tensor, layout, false, &least);
    if (first && p->first_value[first->id] >= 0) {
        cheapest(p, first, layout, false, &before);
        least = before < least ? before : least;
    }
    return least * (double)iso_dtype_size(tensor->dtype);
}
