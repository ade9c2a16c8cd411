/* The partitioner: walks the graph op by op, gives every tensor of a function a layout, and inserts a
 * reshard wherever a reader needs another layout. */
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/spmd/partition_impl.h"

enum { NOMINAL_ROWS_PER_SLOT = 64 };

static iso_status emit(iso_partitioner *p, const iso_op *op, const iso_strategy *chosen)
{
    int input[ISO_MAX_INPUTS] = {0};
    iso_status status = ISO_OK;
    iso_program_step *step;
    for (int i = 0; i < op->n_inputs; i++)
        ISO_TRY(
            iso_partition_insert_reshard(p, p->resolved[op->inputs[i]->id], &chosen->input[i], &input[i]));
    ISO_TRY(iso_program_add_step(p->program, (iso_op *)op, &step));
    memcpy(step->input, input, sizeof input);
    step->replicas = chosen->share * p->mesh->n_slots;
    for (int o = 0; o < op->n_outputs; o++)
        ISO_TRY(iso_partition_begin(p, op->outputs[o], &chosen->output[o], p->program->n_steps - 1,
                                    &step->output[o]));
    if (op->id < p->graph->n_ops && p->graph->ops[op->id] == op)
        p->step_of[op->id] = p->program->n_steps - 1;
done:
    return status;
}

/* The tensor that the layouts of the distribution name. */
static const iso_tensor *named_by(const iso_tensor *tensor)
{
    const iso_tensor *first = iso_partition_made_before(tensor);
    return first ? first : tensor;
}

/* Ops that the mode resolves are not computed, but the tensor that replaces their output gets its layout. */
static iso_status constrain_resolved(iso_partitioner *p, const iso_op *op)
{
    iso_tensor *real = p->resolved[op->outputs[0]->id];
    if (op->type != &iso_op_by_mode || !real || p->first_value[real->id] < 0)
        return ISO_OK;
    return iso_partition_constrain(p, named_by(op->outputs[0]), real);
}

/* An op that is computed again takes the strategy of the first time, so that it gives the same bits. */
static void choose_strategy(const iso_partitioner *p, const iso_op *op, iso_strategy *chosen)
{
    int first = op->again ? p->step_of[op->again->id] : -1;
    if (first < 0) {
        iso_partition_choose_strategy(p, op, chosen);
        return;
    }
    const iso_program_step *before = &p->program->steps[first];
    *chosen = (iso_strategy){.share = before->replicas / p->mesh->n_slots};
    for (int i = 0; i < op->n_inputs; i++)
        chosen->input[i] = p->program->values[before->input[i]].layout;
    for (int o = 0; o < op->n_outputs; o++)
        chosen->output[o] = p->program->values[before->output[o]].layout;
}

static iso_status partition_op(iso_partitioner *p, const iso_op *op)
{
    iso_strategy chosen;
    iso_status status = ISO_OK;
    choose_strategy(p, op, &chosen);
    ISO_TRY(emit(p, op, &chosen));
    for (int o = 0; o < op->n_outputs; o++)
        ISO_TRY(iso_partition_constrain(p, named_by(op->outputs[o]), op->outputs[o]));
done:
    return status;
}

/* ---- sources: inputs, variables, constants ---- */

static iso_layout source_layout(const iso_partitioner *p, const iso_op *op)
{
    for (int i = 0; i < p->program->n_inputs; i++)
        if (p->program->inputs[i] == op->outputs[0])
            return p->input_layout[i];
    if (op->type == &iso_op_variable)
        return p->program->variable_layout[((const iso_variable_attrs *)op->attrs)->variable->id];
    return iso_layout_whole(op->outputs[0]->shape.rank);
}

static iso_status partition_source(iso_partitioner *p, const iso_op *op)
{
    iso_layout layout = source_layout(p, op);
    int value;
    iso_status status = ISO_OK;
    ISO_TRY(iso_partition_begin(p, op->outputs[0], &layout, -1, &value));
    for (int i = 0; i < p->program->n_inputs; i++)
        if (p->program->inputs[i] == op->outputs[0])
            p->program->input_value[i] = value;
    if (op->type == &iso_op_input) /* layers may pass it on as it is */
        ISO_TRY(iso_partition_constrain(p, op->outputs[0], op->outputs[0]));
done:
    return status;
}

static iso_status partition_decomposed(iso_partitioner *p, const iso_op *op)
{
    int begin, end;
    iso_status status = ISO_OK;
    ISO_TRY(iso_partition_decompose(p, op, &begin, &end));
    for (int k = begin; k < end; k++) {
        const iso_op *part = p->program->decomposed->ops[k];
        if (part)
            ISO_TRY(iso_partition_is_source(part) ? partition_source(p, part) : partition_op(p, part));
    }
done:
    return status;
}

/* ---- what is needed ---- */

static void need(iso_partitioner *p, const iso_tensor *tensor)
{
    const iso_tensor *real = p->resolved[tensor->id];
    if (real)
        p->needed[real->producer->id] = true;
}

static void mark_needed(iso_partitioner *p, const iso_program_request *request, const iso_update *update)
{
    for (int i = 0; i < request->n_outputs; i++)
        need(p, request->outputs[i]);
    for (int i = 0; i < update->count; i++)
        need(p, update->change[i].apply ? update->change[i].apply->inputs[1] : update->change[i].value);
    for (int k = p->graph->n_ops - 1; k >= 0; k--) {
        const iso_op *op = p->graph->ops[k];
        for (int i = 0; p->needed[k] && i < op->n_inputs; i++)
            need(p, op->inputs[i]);
    }
}

static iso_status check_inputs(const iso_partitioner *p)
{
    for (int k = 0; k < p->graph->n_ops; k++) {
        const iso_op *op = p->graph->ops[k];
        bool given = op->type != &iso_op_input || !p->needed[k];
        for (int i = 0; !given && i < p->program->n_inputs; i++)
            given = p->program->inputs[i] == op->outputs[0];
        if (!given)
            return iso_error(ISO_INVALID, "the function needs the input '%s', which is not among its inputs",
                             iso_tensor_name(op->outputs[0]));
    }
    return ISO_OK;
}

/* ---- outputs and changes ---- */

/* The layout of a tensor without partial sums and overlaps: each element has one holder, or replicas. */
static iso_layout plain_layout(const iso_partitioner *p, const iso_tensor *tensor)
{
    iso_layout layout = *iso_partition_layout(p, tensor);
    layout.partial = 0;
    layout.partial_max = false;
    for (int d = 0; d < layout.rank; d++) {
        layout.dim[d].window = (iso_sliding_window){0};
        layout.dim[d].addends = false;
    }
    return layout;
}

/* The elements of all outputs; -1: one has a batch dimension. */
static int64_t count_results(const iso_program_request *request)
{
    int64_t count = 0;
    for (int i = 0; i < request->n_outputs; i++) {
        const iso_shape *shape = &request->outputs[i]->shape;
        if (shape->rank > 0 && shape->dim[0] == ISO_BATCH)
            return -1;
        iso_box whole = iso_box_whole(shape);
        count += iso_box_count(&whole);
    }
    return count;
}

static iso_status finish_outputs(iso_partitioner *p, const iso_program_request *request)
{
    iso_status status = ISO_OK;
    p->program->n_results = count_results(request);
    for (int i = 0; i < request->n_outputs; i++) {
        iso_tensor *tensor = p->resolved[request->outputs[i]->id];
        if (!tensor)
            return iso_error(ISO_INVALID,
                             "output %d ('%s') exists only in the other mode (training or inference)", i,
                             iso_tensor_name(request->outputs[i]));
        iso_layout layout = request->parts ? plain_layout(p, tensor) : iso_layout_whole(tensor->shape.rank);
        ISO_TRY(iso_partition_insert_reshard(p, tensor, &layout, &p->program->output_value[i]));
    }
done:
    return status;
}

static iso_status finish_change(iso_partitioner *p, const iso_change *change, iso_program_change *out)
{
    iso_layout layout = p->program->variable_layout[change->variable->id];
    iso_tensor *value = p->resolved[(change->apply ? change->apply->inputs[1] : change->value)->id];
    if (!value)
        return iso_error(ISO_INVALID,
                         "the update of '%s' exists only in the other mode (training or inference)",
                         change->variable->path);
    if (change->apply) {
        layout = p->program->update_layout[change->variable->id];
        layout.partial = ((1u << p->mesh->n_axes) - 1) & ~iso_layout_sharded_axes(&layout);
    }
    *out = (iso_program_change){.variable = change->variable, .apply = change->apply};
    return iso_partition_insert_reshard(p, value, &layout, &out->value);
}

static iso_status finish_changes(iso_partitioner *p, const iso_update *update)
{
    iso_status status = ISO_OK;
    void *memory;
    bool *seen = NULL; /* [variables] */
    ISO_TRY(
        iso_alloc((size_t)update->count * sizeof(iso_program_change), "the updates of a function", &memory));
    p->program->changes = memory;
    ISO_TRY(iso_alloc((size_t)p->graph->n_variables + 1, "the updates of a function", (void **)&seen));
    for (int i = 0; i < update->count; i++) {
        if (seen[update->change[i].variable->id])
            ISO_TRY(iso_error(ISO_INVALID, "a function updates the variable '%s' twice",
                              update->change[i].variable->path));
        seen[update->change[i].variable->id] = true;
        ISO_TRY(finish_change(p, &update->change[i], &p->program->changes[i]));
        p->program->n_changes = i + 1;
    }
done:
    iso_free(seen);
    return status;
}

/* ---- the whole ---- */

static iso_status lay_out_variables(iso_partitioner *p)
{
    iso_graph *graph = p->graph;
    iso_status status = ISO_OK;
    void *memory;
    ISO_TRY(iso_alloc(((size_t)graph->n_variables + 1) * sizeof(iso_layout), "the layouts of variables",
                      &memory));
    p->program->variable_layout = memory;
    p->program->n_variables = graph->n_variables;
    for (int i = 0; i < graph->n_variables; i++) {
        iso_layout *layout = &p->program->variable_layout[i];
        ISO_TRY(iso_distribution_variable(p->program->distribution, graph->variables[i], layout));
        iso_program_note(p->program, graph->variables[i]->path, layout);
    }
done:
    return status;
}

static iso_status lay_out_updates(iso_partitioner *p, const iso_update *update)
{
    iso_program *program = p->program;
    iso_status status = ISO_OK;
    void *memory;
    size_t bytes = ((size_t)p->graph->n_variables + 1) * sizeof(iso_layout);
    ISO_TRY(iso_alloc(bytes, "the layouts of updates", &memory));
    program->update_layout = memcpy(memory, program->variable_layout, bytes);
    for (int i = 0; i < update->count; i++) {
        const iso_change *change = &update->change[i];
        if (!change->apply)
            continue;
        iso_layout *layout = &program->update_layout[change->variable->id];
        ISO_TRY(iso_zero_update(program->distribution, change->variable,
                                &((const iso_apply_attrs *)change->apply->attrs)->optimizer, layout));
        iso_program_note(p->program, change->variable->path, layout);
    }
done:
    return status;
}

/* The axes over which the batch of some input is split: batches of others may be split over these. */
static iso_status lay_out_inputs(iso_partitioner *p)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < p->program->n_inputs; i++) {
        iso_layout *layout = &p->input_layout[i];
        const iso_tensor *input = p->program->inputs[i];
        ISO_TRY(iso_distribution_input(p->program->distribution, input, layout));
        iso_program_note(p->program, iso_tensor_name(input), layout);
        for (int k = 0; iso_input_has_batch(input) && k < layout->dim[0].count; k++)
            p->batch_axes |= 1u << layout->dim[0].axis[k];
    }
done:
    return status;
}

/* Keeps all activations: the op that would be recomputed is replaced by the one that was computed first. */
static void keep_all(const iso_partitioner *p)
{
    for (int k = 0; k < p->graph->n_ops; k++) {
        const iso_op *op = p->graph->ops[k];
        for (int o = 0; op->again && o < op->n_outputs; o++)
            p->resolved[op->outputs[o]->id] = p->resolved[op->again->outputs[o]->id];
    }
}

static iso_status partition(iso_partitioner *p, const iso_program_request *request, const iso_update *update)
{
    iso_status status = ISO_OK;
    iso_resolve(p->graph, request->training, p->resolved);
    if (request->keeps_all)
        keep_all(p);
    mark_needed(p, request, update);
    ISO_TRY(check_inputs(p));
    ISO_TRY(lay_out_variables(p));
    ISO_TRY(lay_out_inputs(p));
    ISO_TRY(lay_out_updates(p, update));
    ISO_TRY(iso_partition_find_constraints(p));
    for (int k = 0; k < p->graph->n_ops; k++) {
        p->backward = p->graph->ops[k]->backward_of != NULL;
        p->again = p->graph->ops[k]->again != NULL;
        ISO_TRY(!p->needed[k]                               ? constrain_resolved(p, p->graph->ops[k])
                : iso_partition_is_source(p->graph->ops[k]) ? partition_source(p, p->graph->ops[k])
                : iso_partition_wants_decomposition(p, p->graph->ops[k])
                    ? partition_decomposed(p, p->graph->ops[k])
                    : partition_op(p, p->graph->ops[k]));
    }
    p->backward = p->again = false;
    ISO_TRY(finish_outputs(p, request));
    ISO_TRY(finish_changes(p, update));
    ISO_TRY(iso_program_keep_old_values(p->program));
done:
    return status;
}

/* Joins all updates of a request in one list, which the graph owns. */
static iso_update *all_updates(iso_graph *graph, const iso_program_request *request)
{
    static iso_update none;
    iso_update *all = request->training && request->n_updates ? iso_graph_active_update(graph) : NULL;
    for (int i = 0; i < request->n_updates; i++)
        all = iso_update_join(all, request->updates[i]);
    return all ? all : &none;
}

static iso_status partition_set_up(iso_partitioner *p, iso_program *program,
                                   const iso_program_request *request)
{
    iso_graph *graph = program->graph;
    p->program = program;
    p->mesh = program->mesh;
    p->graph = graph;
    p->nominal_rows = (int64_t)NOMINAL_ROWS_PER_SLOT * program->mesh->n_slots;
    p->tensor_room = graph->n_tensors + 1;
    p->resolved = iso_new(((size_t)graph->n_tensors + 1) * sizeof *p->resolved);
    p->needed = iso_new(((size_t)graph->n_ops + 1) * sizeof *p->needed);
    p->first_value = iso_new(((size_t)graph->n_tensors + 1) * sizeof *p->first_value);
    p->last_value = iso_new(((size_t)graph->n_tensors + 1) * sizeof *p->last_value);
    p->step_of = iso_new(((size_t)graph->n_ops + 1) * sizeof *p->step_of);
    for (int i = 0; p->first_value && i < graph->n_tensors; i++)
        p->first_value[i] = -1;
    for (int k = 0; p->step_of && k < graph->n_ops; k++)
        p->step_of[k] = -1;
    program->n_inputs = request->n_inputs;
    program->n_outputs = request->n_outputs;
    for (int i = 0; i < request->n_inputs; i++) {
        program->inputs[i] = request->inputs[i];
        program->input_value[i] = -1;
    }
    return p->resolved && p->needed && p->first_value && p->last_value && p->step_of
               ? ISO_OK
               : iso_error(ISO_NO_MEMORY, "no memory to partition %d ops", graph->n_ops);
}

iso_status iso_program_create(iso_graph *graph, const iso_distribution *distribution,
                              const iso_program_request *request, iso_program **out)
{
    iso_status status = ISO_OK;
    iso_partitioner p = {0};
    iso_update *update = all_updates(graph, request);
    iso_program *program = iso_new(sizeof *program);
    if (!program)
        return iso_no_memory("a program");
    *program = (iso_program){.graph = graph,
                             .distribution = distribution,
                             .mesh = distribution->mesh,
                             .training = request->training};
    ISO_TRY(iso_graph_error(graph));
    ISO_TRY(partition_set_up(&p, program, request));
    ISO_TRY(partition(&p, request, update));
    ISO_TRY(iso_program_fuse(program, &request->kernels));
    if (program->noted.failed)
        ISO_TRY(iso_no_memory("the layouts of a program"));
    *out = program;
    program = NULL;
done:
    iso_free(p.resolved);
    iso_free(p.needed);
    iso_free(p.first_value);
    iso_free(p.reader);
    iso_free(p.next_reader);
    iso_free(p.last_value);
    iso_free(p.step_of);
    iso_free(p.constraint);
    iso_free(p.annotations);
    iso_program_destroy(program);
    return status;
}
