/* Chooses the strategy of one op. Along each mesh axis its rule allows: to shard a factor that its inputs
 * are already sharded by, to pass a partial sum through if the op is linear, or to do the same work on
 * every slot. The strategy divides the work most widely; among equals it violates the fewest expected
 * layouts, then moves the fewest bytes. */
#include <string.h>

#include "runtime/spmd/partition_impl.h"

enum { MAX_CHOICES = 32 };
_Static_assert(MAX_CHOICES >= ISO_MAX_FACTORS + 2, "each factor, replicate and pass may be chosen");

typedef struct chooser {
    const iso_partitioner *p;
    const iso_op *op;
    iso_tensor *in[ISO_MAX_INPUTS];
    iso_rule rule;
    int choices[ISO_MAX_AXES];
    int8_t choice[ISO_MAX_AXES][MAX_CHOICES];
    uint32_t pass_inputs[ISO_MAX_AXES]; /* inputs that are partial along the axis when it passes */
    iso_strategy best;
    bool found;
} chooser;

/* Whether all slots along an axis have equal inputs. */
static bool all_have_inputs(const chooser *c, int axis)
{
    uint32_t divided = 0;
    for (int i = 0; i < c->op->n_inputs; i++) {
        const iso_layout *layout = iso_partition_layout(c->p, c->in[i]);
        divided |= layout->partial | iso_layout_sharded_axes(layout);
    }
    return !(divided & 1u << axis);
}

/* Whether the factor is a dimension of an output whose hint shards it so. */
static bool hinted(const chooser *c, int factor, int axis)
{
    for (int o = 0; o < c->op->n_outputs; o++) {
        const iso_layout *hint = iso_partition_hint(c->p, c->op->outputs[o]);
        for (int d = 0; hint && d < hint->rank; d++)
            if (c->rule.output[o][d] == factor && iso_layout_dimension_of(hint, axis) == d)
                return true;
    }
    return false;
}

static bool has_factor(const int8_t *dims, int rank, int factor)
{
    for (int d = 0; d < rank; d++)
        if (dims[d] == factor)
            return true;
    return false;
}

/* Whether the op sums over a dimension of an input, as products do: its work is more than that of reading it. */
static bool contracts(const chooser *c)
{
    for (int f = 0; f < c->rule.n_factors; f++)
        if (!has_factor(c->rule.output[0], c->op->outputs[0]->shape.rank, f))
            return true;
    return false;
}

/* Whether partial sums, the only inputs that differ along an axis, can be reduce-scattered over the factor. */
static bool can_scatter(const chooser *c, int factor, int axis)
{
    bool scatters = false;
    for (int i = 0; i < c->op->n_inputs; i++) {
        const iso_layout *layout = iso_partition_layout(c->p, c->in[i]);
        if (iso_layout_sharded_axes(layout) & 1u << axis)
            return false;
        scatters |= (layout->partial & 1u << axis) && has_factor(c->rule.input[i], layout->rank, factor);
    }
    return scatters;
}

/* A factor may be sharded along an axis if an input is sharded so, if it is the batch of an output that no
 * input has, or if it is the hint of an output and no input is sharded otherwise. With inputs of partial sums, a
 * hint counts for products alone: the result of other linear ops is no larger, and is reduced once. */
static bool offered(const chooser *c, int factor, int axis)
{
    bool in_inputs = false;
    if ((all_have_inputs(c, axis) || (contracts(c) && can_scatter(c, factor, axis))) &&
        hinted(c, factor, axis))
        return true;
    for (int i = 0; i < c->op->n_inputs; i++)
        for (int d = 0; d < c->in[i]->shape.rank; d++) {
            if (c->rule.input[i][d] != factor)
                continue;
            in_inputs = true;
            if (iso_layout_dimension_of(iso_partition_layout(c->p, c->in[i]), axis) == d)
                return true;
        }
    if (in_inputs || !(c->p->batch_axes & 1u << axis))
        return false;
    for (int o = 0; o < c->op->n_outputs; o++)
        for (int d = 0; d < c->op->outputs[o]->shape.rank; d++)
            if (c->rule.output[o][d] == factor && c->op->outputs[o]->shape.dim[d] == ISO_BATCH)
                return true;
    return false;
}

/* The inputs that would be partial if a partial sum along this axis passed through; 0: it cannot. If all
 * inputs must be partial together, it cannot pass beside a partial maximum. */
static uint32_t passing(const chooser *c, int axis)
{
    uint32_t partial = 0;
    bool maximum = false;
    for (int i = 0; i < c->op->n_inputs; i++) {
        const iso_layout *layout = iso_partition_layout(c->p, c->in[i]);
        if ((layout->partial & 1u << axis) && !layout->partial_max && (c->rule.linear & 1u << i))
            partial |= 1u << i;
        maximum |= layout->partial && layout->partial_max;
    }
    if (!partial || (c->rule.jointly && maximum))
        return 0;
    return c->rule.jointly ? c->rule.linear & ((1u << c->op->n_inputs) - 1) : partial & (~partial + 1);
}

static void list_choices(chooser *c, int axis)
{
    int n = 0;
    c->pass_inputs[axis] = passing(c, axis);
    if (c->pass_inputs[axis])
        c->choice[axis][n++] = ISO_PASS;
    c->choice[axis][n++] = ISO_REPLICATE;
    for (int f = 0; f < c->rule.n_factors && n < MAX_CHOICES; f++)
        if (offered(c, f, axis))
            c->choice[axis][n++] = (int8_t)f;
    c->choices[axis] = n;
}

/* Takes over the order in which axes split a dimension of a layout, if they are the same axes. */
static bool take_order(const iso_sharding *have, iso_sharding *sharding)
{
    uint32_t mine = 0, theirs = 0;
    for (int k = 0; k < have->count; k++)
        theirs |= 1u << have->axis[k];
    for (int k = 0; k < sharding->count; k++)
        mine |= 1u << sharding->axis[k];
    if (mine == theirs)
        memcpy(sharding->axis, have->axis, sizeof have->axis); /* a window is not copied */
    return mine == theirs;
}

/* The order in which several axes split one factor: that of an input, else of the hint, else of the mesh. */
static void order_axes(const chooser *c, int factor, iso_sharding *sharding)
{
    for (int i = 0; i < c->op->n_inputs; i++)
        for (int d = 0; d < c->in[i]->shape.rank; d++)
            if (c->rule.input[i][d] == factor &&
                take_order(&iso_partition_layout(c->p, c->in[i])->dim[d], sharding))
                return;
    for (int o = 0; o < c->op->n_outputs; o++) {
        const iso_layout *hint = iso_partition_hint(c->p, c->op->outputs[o]);
        for (int d = 0; hint && d < hint->rank; d++)
            if (c->rule.output[o][d] == factor && take_order(&hint->dim[d], sharding))
                return;
    }
}

/* Splits the positions of a window, unless the elements split alike hold all that these positions read:
 * then there is no halo. */
static void set_window(const chooser *c, int factor, int64_t n, bool addends, iso_sharding *sharding)
{
    const iso_sliding_window *window = &c->rule.window[factor];
    if (sharding->count == 0 || iso_sharding_holds_window(c->p->mesh, sharding, window, n))
        return;
    sharding->window = *window;
    sharding->addends = addends;
}

/* An operand's layout; `windows`: its dimensions that run over their factors through a window. */
static void lay_out(const chooser *c, const iso_sharding *by_factor, const int8_t *dims, uint8_t windows,
                    const iso_shape *shape, bool addends, iso_layout *layout)
{
    *layout = iso_layout_whole(shape->rank);
    for (int d = 0; d < shape->rank; d++) {
        if (dims[d] == ISO_WHOLE)
            continue;
        layout->dim[d] = by_factor[dims[d]];
        if (windows & 1u << d)
            set_window(c, dims[d], shape->dim[d], addends, &layout->dim[d]);
    }
}

/* The layouts that follow from a strategy; false if a sum and a maximum would be mixed. */
static bool complete(const chooser *c, iso_strategy *a)
{
    iso_sharding by_factor[ISO_MAX_FACTORS] = {0};
    uint32_t sums = 0;
    for (int axis = 0; axis < c->p->mesh->n_axes; axis++) {
        int f = a->axis[axis];
        if (f >= 0)
            by_factor[f].axis[by_factor[f].count++] = (int8_t)axis;
        else if (f == ISO_PASS)
            sums |= 1u << axis;
    }
    for (int f = 0; f < c->rule.n_factors; f++)
        if (by_factor[f].count > 1)
            order_axes(c, f, &by_factor[f]);
    for (int i = 0; i < c->op->n_inputs; i++) {
        lay_out(c, by_factor, c->rule.input[i], c->rule.input_windows[i], &c->in[i]->shape, false,
                &a->input[i]);
        for (int axis = 0; axis < c->p->mesh->n_axes; axis++)
            if (a->axis[axis] == ISO_PASS && (c->pass_inputs[axis] & 1u << i))
                a->input[i].partial |= 1u << axis;
    }
    for (int o = 0; o < c->op->n_outputs; o++) {
        iso_layout *layout = &a->output[o];
        lay_out(c, by_factor, c->rule.output[o], c->rule.output_windows[o], &c->op->outputs[o]->shape, true,
                layout);
        uint32_t contracted = 0;
        for (int axis = 0; axis < c->p->mesh->n_axes; axis++)
            if (a->axis[axis] >= 0 &&
                !has_factor(c->rule.output[o], c->op->outputs[o]->shape.rank, a->axis[axis]))
                contracted |= 1u << axis;
        if (contracted && sums && c->rule.contract_max)
            return false;
        layout->partial = contracted | sums;
        layout->partial_max = contracted && c->rule.contract_max;
    }
    return true;
}

/* Bytes moved now, and those that the partial outputs will cost when they are reduced. */
static double bytes_of(const chooser *c, const iso_strategy *a)
{
    double bytes = 0;
    for (int i = 0; i < c->op->n_inputs; i++)
        bytes += iso_partition_cost(c->p, c->in[i], &a->input[i]);
    for (int o = 0; o < c->op->n_outputs; o++) {
        iso_layout reduced = a->output[o];
        reduced.partial = 0;
        for (int d = 0; d < reduced.rank; d++)
            reduced.dim[d].window.size = 0;
        iso_shape shape = iso_partition_shape(c->p, c->op->outputs[o]);
        bytes += iso_reshard_cost(c->p->mesh, &a->output[o], &reduced, &shape) *
                 (double)iso_dtype_size(c->op->outputs[o]->dtype);
    }
    return bytes;
}

static int violations_of(const chooser *c, const iso_strategy *a)
{
    int violations = 0;
    for (int i = 0; i < c->op->n_inputs; i++)
        violations += iso_partition_violations(c->p, c->in[i], &a->input[i]);
    for (int o = 0; o < c->op->n_outputs; o++)
        violations += iso_partition_violations(c->p, c->op->outputs[o], &a->output[o]);
    return violations;
}

static bool better(const iso_strategy *a, const iso_strategy *b)
{
    if (a->share != b->share)
        return a->share < b->share;
    if (a->sharded != b->sharded)
        return a->sharded > b->sharded;
    return a->violations != b->violations ? a->violations < b->violations : a->bytes < b->bytes;
}

static void consider(chooser *c, iso_strategy *a)
{
    if (!complete(c, a))
        return;
    a->share = 1;
    a->sharded = 0;
    for (int axis = 0; axis < c->p->mesh->n_axes; axis++)
        if (a->axis[axis] >= 0) {
            a->share /= c->p->mesh->size[axis];
            a->sharded++;
        }
    a->violations = violations_of(c, a);
    a->bytes = bytes_of(c, a);
    if (!c->found || better(a, &c->best)) {
        c->best = *a;
        c->found = true;
    }
}

static void enumerate(chooser *c, iso_strategy *a, int axis)
{
    if (axis >= ISO_MAX_AXES || axis == c->p->mesh->n_axes) {
        consider(c, a);
        return;
    }
    for (int k = 0; k < c->choices[axis]; k++) {
        a->axis[axis] = c->choice[axis][k];
        enumerate(c, a, axis + 1);
    }
}

void iso_partition_choose_strategy(const iso_partitioner *p, const iso_op *op, iso_strategy *best)
{
    chooser c = {.p = p, .op = op};
    iso_strategy a = {0};
    for (int i = 0; i < op->n_inputs; i++)
        c.in[i] = p->resolved[op->inputs[i]->id];
    iso_op_rule(op, &c.rule);
    for (int axis = 0; axis < p->mesh->n_axes; axis++)
        list_choices(&c, axis);
    enumerate(&c, &a, 0);
    *best = c.best;
}
