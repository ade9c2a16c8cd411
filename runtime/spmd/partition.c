/* The partitioner: gives every tensor of a function a layout, op by op, and inserts reshards where layouts
 * meet.
 *
 * For each op it lists what its rule allows along each mesh axis - shard one of the factors that its inputs
 * are already sharded by, let a partial sum pass through where the op is linear, or do the same work on every
 * slot - and takes the assignment that shares the work most widely and then moves the fewest bytes. */
#include <float.h>
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/spmd/program.h"

enum { NOMINAL_ROWS_PER_SLOT = 64, MAX_CHOICES = 32, REPLICATE = -1, PASS = -2 };

typedef struct partitioner {
    iso_program *program;
    const iso_mesh *mesh;
    iso_graph *graph;
    iso_tensor **resolved; /* [graph->tensors] */
    bool *needed;          /* [graph->ops] */
    int *first_value;      /* [graph->tensors] the value in the layout chosen for it, or -1 */
    int64_t nominal_rows;  /* for comparing costs: the program must not depend on the batch size */
} partitioner;

static iso_shape nominal(const partitioner *p, const iso_tensor *tensor)
{
    return iso_shape_with_rows(&tensor->shape, p->nominal_rows);
}

/* The value of this tensor in this layout: one that exists, or a reshard of the one from which it is
 * cheapest. */
static iso_status in_layout(partitioner *p, iso_tensor *tensor, const iso_layout *layout, int *value)
{
    iso_program *program = p->program;
    iso_shape shape = nominal(p, tensor);
    int best = -1;
    double least = DBL_MAX;
    for (int v = p->first_value[tensor->id]; v < program->values; v++) {
        if (program->value[v].tensor != tensor)
            continue;
        if (iso_layout_equal(&program->value[v].layout, layout)) {
            *value = v;
            return ISO_OK;
        }
        double cost = iso_reshard_cost(p->mesh, &program->value[v].layout, layout, &shape);
        /* a partial value is no cheaper source than one that is already reduced */
        if (cost < least) {
            least = cost;
            best = v;
        }
    }
    iso_program_step *step;
    iso_layout reduced = *layout;
    reduced.partial &= program->value[best].layout.partial;
    if (reduced.partial != layout->partial &&
        !iso_reshard_local(p->mesh, &program->value[best].layout, layout)) {
        /* what moves goes first; that addends become zeros is then each slot's own affair */
        iso_status status = in_layout(p, tensor, &reduced, &best);
        if (status != ISO_OK)
            return status;
    }
    iso_status status = iso_program_add_step(p->program, NULL, &step);
    if (status != ISO_OK)
        return status;
    step->input[0] = best;
    int number = program->steps - 1;
    status = iso_program_add_value(p->program, tensor, layout, number, value);
    program->step[number].output[0] = *value;
    return status;
}

/* What it would cost to have this tensor in this layout. */
static double cost_of(const partitioner *p, const iso_tensor *tensor, const iso_layout *layout)
{
    const iso_program *program = p->program;
    iso_shape shape = nominal(p, tensor);
    double least = DBL_MAX;
    for (int v = p->first_value[tensor->id]; v < program->values; v++) {
        if (program->value[v].tensor != tensor)
            continue;
        double cost = iso_reshard_cost(p->mesh, &program->value[v].layout, layout, &shape);
        least = cost < least ? cost : least;
    }
    return least * (double)iso_dtype_size(tensor->dtype);
}

static const iso_layout *layout_of(const partitioner *p, const iso_tensor *tensor)
{
    return &p->program->value[p->first_value[tensor->id]].layout;
}

/* ---- choosing for one op ---- */

/* An assignment: for each axis a factor, REPLICATE or PASS. */
typedef struct assignment {
    int8_t axis[ISO_MAX_AXES];
    iso_layout input[ISO_MAX_INPUTS], output[ISO_MAX_OUTPUTS];
    double share; /* of the op's work that one slot does */
    int sharded;  /* axes that share it out, those of one slot among them */
    double bytes;
} assignment;

typedef struct chooser {
    const partitioner *p;
    const iso_op *op;
    iso_tensor *in[ISO_MAX_INPUTS];
    iso_rule rule;
    int choices[ISO_MAX_AXES];
    int8_t choice[ISO_MAX_AXES][MAX_CHOICES];
    uint32_t pass_inputs[ISO_MAX_AXES]; /* inputs that are partial along the axis when it passes */
    assignment best;
    bool found;
} chooser;

static bool shards(const iso_layout *layout, int dim, int axis)
{
    for (int i = 0; i < layout->dim[dim].count; i++)
        if (layout->dim[dim].axis[i] == axis)
            return true;
    return false;
}

/* A factor is offered along an axis where an input is sharded so, or where it is the batch of an output that
 * no input has. */
static bool offered(const chooser *c, int factor, int axis)
{
    bool in_inputs = false;
    for (int i = 0; i < c->op->inputs; i++)
        for (int d = 0; d < c->in[i]->shape.rank; d++) {
            if (c->rule.input[i][d] != factor)
                continue;
            in_inputs = true;
            if (shards(layout_of(c->p, c->in[i]), d, axis))
                return true;
        }
    if (in_inputs || !(c->p->program->distribution->batch_axes & 1u << axis))
        return false;
    for (int o = 0; o < c->op->outputs; o++)
        for (int d = 0; d < c->op->output[o]->shape.rank; d++)
            if (c->rule.output[o][d] == factor && c->op->output[o]->shape.dim[d] == ISO_BATCH)
                return true;
    return false;
}

/* The inputs that would be partial if a partial sum along this axis passed through; 0: it cannot. */
static uint32_t passing(const chooser *c, int axis)
{
    uint32_t partial = 0;
    for (int i = 0; i < c->op->inputs; i++) {
        const iso_layout *layout = layout_of(c->p, c->in[i]);
        if ((layout->partial & 1u << axis) && !layout->partial_max && (c->rule.linear & 1u << i))
            partial |= 1u << i;
    }
    if (!partial)
        return 0;
    return c->rule.jointly ? c->rule.linear & ((1u << c->op->inputs) - 1) : partial & (~partial + 1);
}

static void list_choices(chooser *c, int axis)
{
    int n = 0;
    c->pass_inputs[axis] = passing(c, axis);
    if (c->pass_inputs[axis])
        c->choice[axis][n++] = PASS;
    c->choice[axis][n++] = REPLICATE;
    for (int f = 0; f < c->rule.factors && n < MAX_CHOICES; f++)
        if (offered(c, f, axis))
            c->choice[axis][n++] = (int8_t)f;
    c->choices[axis] = n;
}

/* The order in which several axes cut one factor: as an input has it, else as in the mesh. */
static void order_axes(const chooser *c, int factor, iso_sharding *sharding)
{
    for (int i = 0; i < c->op->inputs; i++)
        for (int d = 0; d < c->in[i]->shape.rank; d++) {
            const iso_sharding *have = &layout_of(c->p, c->in[i])->dim[d];
            if (c->rule.input[i][d] != factor || have->count != sharding->count)
                continue;
            uint32_t mine = 0, theirs = 0;
            for (int k = 0; k < have->count; k++) {
                mine |= 1u << sharding->axis[k];
                theirs |= 1u << have->axis[k];
            }
            if (mine == theirs) {
                *sharding = *have;
                return;
            }
        }
}

static void lay_out(const iso_sharding *by_factor, const int8_t *dims, int rank, iso_layout *layout)
{
    *layout = iso_layout_whole(rank);
    for (int d = 0; d < rank; d++)
        if (dims[d] != ISO_WHOLE)
            layout->dim[d] = by_factor[dims[d]];
}

static bool has_factor(const int8_t *dims, int rank, int factor)
{
    for (int d = 0; d < rank; d++)
        if (dims[d] == factor)
            return true;
    return false;
}

/* The layouts that an assignment means; false where a sum and a maximum would be mixed. */
static bool complete(const chooser *c, assignment *a)
{
    iso_sharding by_factor[ISO_MAX_FACTORS] = {0};
    uint32_t sums = 0;
    for (int axis = 0; axis < c->p->mesh->axes; axis++) {
        int f = a->axis[axis];
        if (f >= 0)
            by_factor[f].axis[by_factor[f].count++] = (int8_t)axis;
        else if (f == PASS)
            sums |= 1u << axis;
    }
    for (int f = 0; f < c->rule.factors; f++)
        if (by_factor[f].count > 1)
            order_axes(c, f, &by_factor[f]);
    for (int i = 0; i < c->op->inputs; i++) {
        lay_out(by_factor, c->rule.input[i], c->in[i]->shape.rank, &a->input[i]);
        for (int axis = 0; axis < c->p->mesh->axes; axis++)
            if (a->axis[axis] == PASS && (c->pass_inputs[axis] & 1u << i))
                a->input[i].partial |= 1u << axis;
    }
    for (int o = 0; o < c->op->outputs; o++) {
        iso_layout *layout = &a->output[o];
        lay_out(by_factor, c->rule.output[o], c->op->output[o]->shape.rank, layout);
        uint32_t contracted = 0;
        for (int axis = 0; axis < c->p->mesh->axes; axis++)
            if (a->axis[axis] >= 0 &&
                !has_factor(c->rule.output[o], c->op->output[o]->shape.rank, a->axis[axis]))
                contracted |= 1u << axis;
        if (contracted && sums && c->rule.contract_max)
            return false;
        layout->partial = contracted | sums;
        layout->partial_max = contracted && c->rule.contract_max;
    }
    return true;
}

/* Bytes moved now, and those that the partial outputs will cost when they are reduced. */
static double bytes_of(const chooser *c, const assignment *a)
{
    double bytes = 0;
    for (int i = 0; i < c->op->inputs; i++)
        bytes += cost_of(c->p, c->in[i], &a->input[i]);
    for (int o = 0; o < c->op->outputs; o++) {
        iso_layout reduced = a->output[o];
        reduced.partial = 0;
        iso_shape shape = nominal(c->p, c->op->output[o]);
        bytes += iso_reshard_cost(c->p->mesh, &a->output[o], &reduced, &shape) *
                 (double)iso_dtype_size(c->op->output[o]->dtype);
    }
    return bytes;
}

static bool better(const assignment *a, const assignment *b)
{
    if (a->share != b->share)
        return a->share < b->share;
    return a->sharded != b->sharded ? a->sharded > b->sharded : a->bytes < b->bytes;
}

static void consider(chooser *c, assignment *a)
{
    if (!complete(c, a))
        return;
    a->share = 1;
    a->sharded = 0;
    for (int axis = 0; axis < c->p->mesh->axes; axis++)
        if (a->axis[axis] >= 0) {
            a->share /= c->p->mesh->size[axis];
            a->sharded++;
        }
    a->bytes = bytes_of(c, a);
    if (!c->found || better(a, &c->best)) {
        c->best = *a;
        c->found = true;
    }
}

static void enumerate(chooser *c, assignment *a, int axis)
{
    if (axis >= ISO_MAX_AXES || axis == c->p->mesh->axes) {
        consider(c, a);
        return;
    }
    for (int k = 0; k < c->choices[axis]; k++) {
        a->axis[axis] = c->choice[axis][k];
        enumerate(c, a, axis + 1);
    }
}

static void rule_for(const iso_op *op, iso_rule *rule)
{
    if (op->type->rule_of)
        op->type->rule_of(op, rule);
    else
        iso_rule_parse(op, op->type->rule, rule);
}

static iso_status emit(partitioner *p, const chooser *c)
{
    int input[ISO_MAX_INPUTS] = {0};
    iso_status status = ISO_OK;
    for (int i = 0; i < c->op->inputs && status == ISO_OK; i++)
        status = in_layout(p, c->in[i], &c->best.input[i], &input[i]);
    iso_program_step *step;
    if (status != ISO_OK || (status = iso_program_add_step(p->program, (iso_op *)c->op, &step)) != ISO_OK)
        return status;
    memcpy(step->input, input, sizeof input);
    step->replicas = c->best.share * p->mesh->slots;
    int number = p->program->steps - 1;
    for (int o = 0; o < c->op->outputs && status == ISO_OK; o++) {
        int value;
        status = iso_program_add_value(p->program, c->op->output[o], &c->best.output[o], number, &value);
        p->program->step[number].output[o] = value;
        p->first_value[c->op->output[o]->id] = value;
    }
    return status;
}

/* A layer's output that the user laid out: resharded at once, and from then on the tensor's own layout. */
static iso_status pin(partitioner *p, const char *name, iso_tensor *tensor)
{
    iso_layout layout;
    const char *key;
    int value;
    iso_layout_map *map = p->program->distribution->map;
    if (!name || !map)
        return ISO_OK;
    iso_status status = iso_layout_map_find(map, name, &tensor->shape, &layout, &key);
    if (status != ISO_OK || !key)
        return status;
    status = in_layout(p, tensor, &layout, &value);
    if (status == ISO_OK)
        p->first_value[tensor->id] = value;
    return status;
}

static iso_status pin_outputs(partitioner *p, const iso_op *op)
{
    iso_status status = ISO_OK;
    for (int o = 0; o < op->outputs && status == ISO_OK; o++)
        status = pin(p, op->output[o]->name, op->output[o]);
    return status;
}

/* Ops that the mode resolves are not computed, but what stands for their output has its layout. */
static iso_status pin_resolved(partitioner *p, const iso_op *op)
{
    iso_tensor *real = p->resolved[op->output[0]->id];
    if (op->type != &iso_op_by_mode || !real || p->first_value[real->id] < 0)
        return ISO_OK;
    return pin(p, op->output[0]->name, real);
}

static iso_status partition_op(partitioner *p, const iso_op *op)
{
    chooser c = {.p = p, .op = op};
    assignment a = {0};
    for (int i = 0; i < op->inputs; i++)
        c.in[i] = p->resolved[op->input[i]->id];
    rule_for(op, &c.rule);
    for (int axis = 0; axis < p->mesh->axes; axis++)
        list_choices(&c, axis);
    enumerate(&c, &a, 0);
    iso_status status = emit(p, &c);
    return status == ISO_OK ? pin_outputs(p, op) : status;
}

/* ---- sources: inputs, variables, constants ---- */

static iso_status source_layout(partitioner *p, const iso_op *op, iso_layout *layout)
{
    iso_tensor *tensor = op->output[0];
    *layout = iso_layout_whole(tensor->shape.rank);
    if (op->type == &iso_op_variable) {
        *layout = p->program->variable_layout[((const iso_variable_attrs *)op->attrs)->variable->id];
    } else if (op->type == &iso_op_input) {
        for (int axis = 0; axis < p->mesh->axes; axis++)
            if (p->program->distribution->batch_axes & 1u << axis)
                layout->dim[0].axis[layout->dim[0].count++] = (int8_t)axis;
    }
    return ISO_OK;
}

static bool is_source(const iso_op *op)
{
    return op->type == &iso_op_input || op->type == &iso_op_variable || op->type == &iso_op_constant;
}

static iso_status partition_source(partitioner *p, const iso_op *op)
{
    iso_layout layout;
    int value;
    iso_status status = source_layout(p, op, &layout);
    if (status == ISO_OK)
        status = iso_program_add_value(p->program, op->output[0], &layout, -1, &value);
    if (status != ISO_OK)
        return status;
    p->first_value[op->output[0]->id] = value;
    for (int i = 0; i < p->program->inputs; i++)
        if (p->program->input[i] == op->output[0])
            p->program->input_value[i] = value;
    return ISO_OK;
}

/* ---- what is needed ---- */

static void need(partitioner *p, const iso_tensor *tensor)
{
    const iso_tensor *real = p->resolved[tensor->id];
    if (real)
        p->needed[real->producer->id] = true;
}

static void mark_needed(partitioner *p, const iso_program_request *request, const iso_update *update)
{
    for (int i = 0; i < request->outputs; i++)
        need(p, request->output[i]);
    for (int i = 0; i < update->count; i++)
        need(p, update->change[i].apply ? update->change[i].apply->input[1] : update->change[i].value);
    for (int k = p->graph->ops - 1; k >= 0; k--) {
        const iso_op *op = p->graph->op[k];
        for (int i = 0; p->needed[k] && i < op->inputs; i++)
            need(p, op->input[i]);
    }
}

static iso_status check_inputs(const partitioner *p)
{
    for (int k = 0; k < p->graph->ops; k++) {
        const iso_op *op = p->graph->op[k];
        bool given = op->type != &iso_op_input || !p->needed[k];
        for (int i = 0; !given && i < p->program->inputs; i++)
            given = p->program->input[i] == op->output[0];
        if (!given)
            return iso_error(ISO_INVALID, "the function needs the input '%s', which is not among its inputs",
                             iso_tensor_name(op->output[0]));
    }
    return ISO_OK;
}

/* ---- outputs and changes ---- */

static iso_status finish_outputs(partitioner *p, const iso_program_request *request)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < request->outputs && status == ISO_OK; i++) {
        iso_tensor *tensor = p->resolved[request->output[i]->id];
        if (!tensor)
            return iso_error(ISO_INVALID, "output %d ('%s') depends on the other mode only", i,
                             iso_tensor_name(request->output[i]));
        iso_layout whole = iso_layout_whole(tensor->shape.rank);
        status = in_layout(p, tensor, &whole, &p->program->output_value[i]);
    }
    return status;
}

static iso_status finish_change(partitioner *p, const iso_change *change, iso_program_change *out)
{
    iso_layout layout = p->program->variable_layout[change->variable->id];
    iso_tensor *value = p->resolved[(change->apply ? change->apply->input[1] : change->value)->id];
    if (!value)
        return iso_error(ISO_INVALID, "the update of '%s' depends on the other mode only",
                         change->variable->path);
    if (change->apply)
        layout.partial = ((1u << p->mesh->axes) - 1) & ~iso_layout_sharded_axes(&layout);
    *out = (iso_program_change){.variable = change->variable, .apply = change->apply};
    return in_layout(p, value, &layout, &out->value);
}

static iso_status finish_changes(partitioner *p, const iso_update *update)
{
    iso_status status = ISO_OK;
    void *memory;
    ISO_TRY(
        iso_alloc((size_t)update->count * sizeof(iso_program_change), "the updates of a function", &memory));
    p->program->change = memory;
    for (int i = 0; i < update->count; i++) {
        for (int j = 0; j < i; j++)
            if (update->change[j].variable == update->change[i].variable)
                ISO_TRY(iso_error(ISO_INVALID, "a function updates the variable '%s' twice",
                                  update->change[i].variable->path));
        ISO_TRY(finish_change(p, &update->change[i], &p->program->change[i]));
        p->program->changes = i + 1;
    }
done:
    return status;
}

/* ---- the whole ---- */

static iso_status lay_out_variables(partitioner *p)
{
    iso_graph *graph = p->graph;
    iso_status status = ISO_OK;
    void *memory;
    ISO_TRY(
        iso_alloc(((size_t)graph->variables + 1) * sizeof(iso_layout), "the layouts of variables", &memory));
    p->program->variable_layout = memory;
    for (int i = 0; i < graph->variables; i++)
        ISO_TRY(iso_layout_map_find(p->program->distribution->map, graph->variable[i]->path,
                                    &graph->variable[i]->shape, &p->program->variable_layout[i], NULL));
done:
    return status;
}

static iso_status partition(partitioner *p, const iso_program_request *request, const iso_update *update)
{
    iso_status status = ISO_OK;
    iso_resolve(p->graph, request->training, p->resolved);
    mark_needed(p, request, update);
    ISO_TRY(check_inputs(p));
    ISO_TRY(lay_out_variables(p));
    for (int k = 0; k < p->graph->ops; k++)
        ISO_TRY(!p->needed[k]                ? pin_resolved(p, p->graph->op[k])
                : is_source(p->graph->op[k]) ? partition_source(p, p->graph->op[k])
                                             : partition_op(p, p->graph->op[k]));
    ISO_TRY(finish_outputs(p, request));
    ISO_TRY(finish_changes(p, update));
    ISO_TRY(iso_program_keep_old_values(p->program));
done:
    return status;
}

/* All updates of a request in one list; owned by the graph. */
static iso_update *all_updates(iso_graph *graph, const iso_program_request *request)
{
    static iso_update none;
    iso_update *all = request->training && request->updates ? graph->training_update : NULL;
    for (int i = 0; i < request->updates; i++)
        all = iso_update_join(all, request->update[i]);
    return all ? all : &none;
}

static iso_status set_up(partitioner *p, iso_program *program, const iso_program_request *request)
{
    iso_graph *graph = program->graph;
    p->program = program;
    p->mesh = program->mesh;
    p->graph = graph;
    p->nominal_rows = (int64_t)NOMINAL_ROWS_PER_SLOT * program->mesh->slots;
    p->resolved = iso_new(((size_t)graph->tensors + 1) * sizeof *p->resolved);
    p->needed = iso_new(((size_t)graph->ops + 1) * sizeof *p->needed);
    p->first_value = iso_new(((size_t)graph->tensors + 1) * sizeof *p->first_value);
    for (int i = 0; p->first_value && i < graph->tensors; i++)
        p->first_value[i] = -1;
    program->inputs = request->inputs;
    program->outputs = request->outputs;
    for (int i = 0; i < request->inputs; i++) {
        program->input[i] = request->input[i];
        program->input_value[i] = -1;
    }
    return p->resolved && p->needed && p->first_value
               ? ISO_OK
               : iso_error(ISO_NO_MEMORY, "no memory to partition %d ops", graph->ops);
}

iso_status iso_program_create(iso_graph *graph, const iso_distribution *distribution,
                              const iso_program_request *request, iso_program **out)
{
    iso_status status = ISO_OK;
    partitioner p = {0};
    iso_update *update = all_updates(graph, request);
    iso_program *program = iso_new(sizeof *program);
    if (!program)
        return iso_error(ISO_NO_MEMORY, "no memory for a program");
    *program = (iso_program){.graph = graph,
                             .distribution = distribution,
                             .mesh = distribution->mesh,
                             .training = request->training};
    ISO_TRY(iso_graph_error(graph));
    ISO_TRY(set_up(&p, program, request));
    ISO_TRY(partition(&p, request, update));
    ISO_TRY(iso_program_fuse(program));
    *out = program;
    program = NULL;
done:
    iso_free(p.resolved);
    iso_free(p.needed);
    iso_free(p.first_value);
    iso_program_destroy(program);
    return status;
}
