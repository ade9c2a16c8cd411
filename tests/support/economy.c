#include "tests/support/economy.h"
#include "runtime/graph/ops/list.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* The layouts of a tensor: the one in which it is made, or those that the user set. An axis counts as sharding a
 * dimension if it does so in all of them. */
typedef struct own_layouts {
    int count;
    const iso_layout *made;
    iso_layout pinned[4];
} own_layouts;

typedef struct economist {
    const iso_program *program;
    const char *what;
    iso_tensor **resolved; /* [graph->tensors] */
} economist;

static void add_pin(const economist *e, const char *path, const iso_tensor *tensor, own_layouts *own)
{
    bool given = false;
    if (!path || own->count == 4)
        return;
    iso_status status = iso_distribution_output(e->program->distribution, path, &tensor->shape,
                                                &own->pinned[own->count], &given);
    ck_assert_int_eq(status, ISO_OK);
    own->count += given;
}

/* By its name, and by those of the blocks whose output it is. */
static void add_pins(const economist *e, const iso_tensor *named, own_layouts *own)
{
    add_pin(e, named->name, named, own);
    for (const iso_tensor_path *path = named->paths; path; path = path->next)
        add_pin(e, path->text, named, own);
}

/* Of the value's tensor, before anything was moved. A tensor stands for those that the mode resolves to it.
 */
static void find_layouts(const economist *e, int value, own_layouts *own)
{
    const iso_program *program = e->program;
    const iso_graph *graph = program->graph;
    const iso_tensor *tensor = program->values[value].tensor;
    while (program->values[value].step >= 0 && !program->steps[program->values[value].step].op)
        value = program->steps[program->values[value].step].input[0];
    *own = (own_layouts){.made = &program->values[value].layout};
    bool source = tensor->producer->type == &iso_op_input || tensor->producer->type == &iso_op_variable;
    if (!source)
        add_pins(e, tensor, own);
    for (int k = 0; k < graph->n_ops; k++)
        if (graph->ops[k]->type == &iso_op_by_mode && e->resolved[graph->ops[k]->outputs[0]->id] == tensor)
            add_pins(e, graph->ops[k]->outputs[0], own);
}

static bool all_shard(const own_layouts *own, int dim, int axis)
{
    for (int k = 0; k < own->count; k++)
        if (iso_layout_dimension_of(&own->pinned[k], axis) != dim)
            return false;
    return own->count || iso_layout_dimension_of(own->made, axis) == dim;
}

/* Whether the axis divides the work of the step: inputs, as they are read, or outputs are sharded along it, or
 * outputs are partial sums and inputs are not. */
static bool is_used(const iso_program *program, const iso_program_step *step, int axis)
{
    uint32_t sharded = 0, partial = 0; /* both: rows that are added to partial sums, embedding_grad_add */
    for (int i = 0; i < step->op->n_inputs; i++) {
        const iso_layout *layout = &program->values[step->input[i]].layout;
        sharded |= iso_layout_sharded_axes(layout);
        partial |= layout->partial;
    }
    if ((sharded | partial) >> axis & 1)
        return sharded >> axis & 1;
    for (int o = 0; o < step->op->n_outputs; o++) {
        const iso_layout *layout = &program->values[step->output[o]].layout;
        if ((iso_layout_sharded_axes(layout) | layout->partial) >> axis & 1)
            return true;
    }
    return false;
}

static void check_step(const economist *e, const iso_program_step *step, int axis)
{
    iso_rule rule;
    iso_op_rule(step->op, &rule);
    if (is_used(e->program, step, axis))
        return;
    for (int i = 0; i < step->op->n_inputs; i++) {
        own_layouts own;
        const iso_tensor *x = e->program->values[step->input[i]].tensor;
        find_layouts(e, step->input[i], &own);
        for (int d = 0; d < x->shape.rank; d++)
            ck_assert_msg(
                !all_shard(&own, d, axis) || (rule.input[i][d] == ISO_WHOLE && !step->op->type->decompose),
                "%s: %s is done alike by all slots along '%s', which shards dimension %d of its "
                "input %d (%s)",
                e->what, step->op->type->name, e->program->mesh->name[axis], d, i, iso_tensor_name(x));
    }
}

void check_economy(const iso_program *program, const char *what)
{
    economist e = {.program = program, .what = what};
    e.resolved = calloc((size_t)program->graph->n_tensors + 1, sizeof *e.resolved);
    ck_assert_ptr_nonnull(e.resolved);
    iso_resolve(program->graph, program->training, e.resolved);
    for (int i = 0; i < program->n_steps; i++)
        for (int axis = 0; program->steps[i].op && axis < program->mesh->n_axes; axis++)
            if (program->mesh->size[axis] > 1)
                check_step(&e, &program->steps[i], axis);
    free(e.resolved);
}

void count_op_types(const iso_program *program, int *counts)
{
    for (int i = 0; i < program->n_steps; i++)
        for (int t = 0; program->steps[i].op && t < iso_op_type_count(); t++)
            counts[t] += strcmp(iso_op_type_at(t)->name, program->steps[i].op->type->name) == 0;
}
