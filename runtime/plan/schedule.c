/* The schedule: instructions in the order of the program, with reshards gathered so that one exchange serves
 * several. */
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/plan/plan_impl.h"

enum { SMALL = 4096 }; /* elements up to which an all-reduce is one exchange */

bool iso_plan_is_alias(const iso_op *op)
{
    return op && op->type->no_kernel;
}

bool iso_plan_in_halves(const iso_plan *plan, const iso_layout *from, const iso_layout *to,
                        const iso_shape *shape)
{
    iso_layout reduced = *from;
    int group = 1;
    reduced.partial = 0;
    if (!from->partial || !iso_layout_equal(&reduced, to))
        return false;
    for (int a = 0; a < plan->program->mesh->axes; a++)
        if (from->partial & 1u << a)
            group *= plan->program->mesh->size[a];
    return group > 2 && iso_layout_largest(plan->program->mesh, from, shape) >= SMALL;
}

typedef struct scheduler {
    iso_plan *plan;
    const iso_program *program;
    bool *pending; /* [values] the output of a move that has not been scheduled yet */
    int first;     /* the first move that is pending */
} scheduler;

static iso_status add_instruction(iso_plan *plan, iso_instruction fresh)
{
    if (plan->instructions == plan->instruction_capacity) {
        size_t wanted = plan->instruction_capacity ? (size_t)plan->instruction_capacity * 2 : 128;
        iso_instruction *grown =
            iso_grow(plan->instruction, (size_t)plan->instructions, wanted, sizeof *grown);
        if (!grown)
            return iso_error(ISO_NO_MEMORY, "no memory for a plan of %zu instructions", wanted);
        plan->instruction = grown;
        plan->instruction_capacity = (int)wanted;
    }
    plan->instruction[plan->instructions++] = fresh;
    return ISO_OK;
}

static iso_status add_move(iso_plan *plan, iso_move fresh)
{
    if (plan->moves == plan->move_capacity) {
        size_t wanted = plan->move_capacity ? (size_t)plan->move_capacity * 2 : 64;
        iso_move *grown = iso_grow(plan->move, (size_t)plan->moves, wanted, sizeof *grown);
        if (!grown)
            return iso_error(ISO_NO_MEMORY, "no memory for a plan of %zu moves", wanted);
        plan->move = grown;
        plan->move_capacity = (int)wanted;
    }
    plan->move[plan->moves++] = fresh;
    return ISO_OK;
}

/* Schedules the pending moves: an exchange, and a second one for the all-reduces that go in halves. */
static iso_status flush(scheduler *s)
{
    iso_plan *plan = s->plan;
    int first = s->first, end = plan->moves;
    if (first == end)
        return ISO_OK;
    iso_status status = add_instruction(
        plan, (iso_instruction){.kind = ISO_EXCHANGE, .first_move = first, .moves = end - first});
    for (int i = first; i < end && status == ISO_OK; i++) {
        s->pending[plan->move[i].to] = false;
        if (plan->move[i].kind == ISO_MOVE_SCATTER)
            status = add_move(
                plan,
                (iso_move){.kind = ISO_MOVE_GATHER, .from = plan->move[i].from, .to = plan->move[i].to});
    }
    if (status == ISO_OK && plan->moves > end)
        status = add_instruction(
            plan, (iso_instruction){.kind = ISO_EXCHANGE, .first_move = end, .moves = plan->moves - end});
    s->first = plan->moves;
    return status;
}

static iso_status schedule_reshard(scheduler *s, int number)
{
    const iso_program_step *step = &s->program->step[number];
    int from = step->input[0], to = step->output[0];
    const iso_layout *old = &s->program->value[from].layout, *new = &s->program->value[to].layout;
    iso_status status = ISO_OK;
    if (s->pending[from])
        ISO_TRY(flush(s));
    if (iso_reshard_local(s->program->mesh, old, new))
        return add_instruction(s->plan, (iso_instruction){.kind = ISO_COPY, .step = number});
    iso_shape shape = iso_shape_with_rows(&s->program->value[from].tensor->shape, s->plan->rows);
    bool halves = iso_plan_in_halves(s->plan, old, new, &shape);
    ISO_TRY(add_move(s->plan,
                     (iso_move){.kind = halves ? ISO_MOVE_SCATTER : ISO_MOVE_BOXES, .from = from, .to = to}));
    s->pending[to] = true;
done:
    return status;
}

static iso_status schedule_op(scheduler *s, int number)
{
    const iso_program_step *step = &s->program->step[number];
    iso_status status = ISO_OK;
    for (int i = 0; i < step->op->inputs; i++)
        if (s->pending[step->input[i]])
            ISO_TRY(flush(s));
    if (iso_plan_is_alias(step->op) || s->plan->step_deferred[number])
        return ISO_OK;
    return add_instruction(s->plan, (iso_instruction){.kind = ISO_KERNEL, .step = number});
done:
    return status;
}

static bool feeds_an_update(const iso_program *program, int value)
{
    for (int i = 0; i < program->changes; i++)
        if (program->change[i].apply && program->change[i].value == value)
            return true;
    return false;
}

/* Moves that nobody waits for end with the step, unless they are large, read variables, which the end of the
 * step changes, or make gradients, which the end of the step takes from other slots. */
static bool may_end(const iso_plan *plan, const iso_move *move)
{
    return move->kind == ISO_MOVE_BOXES && !iso_program_variable_under(plan->program, move->from) &&
           !feeds_an_update(plan->program, move->to);
}

/* Schedules those of the pending moves that may not end with the step; the others are its last moves. */
static iso_status flush_all_but_the_last(scheduler *s)
{
    iso_plan *plan = s->plan;
    int pending = plan->moves - s->first, last = 0;
    iso_status status = ISO_OK;
    iso_move *kept = iso_new(((size_t)pending + 1) * sizeof *kept);
    if (!kept)
        return iso_error(ISO_NO_MEMORY, "no memory to schedule %d moves", pending);
    plan->moves = s->first;
    for (int i = s->first; i < s->first + pending; i++)
        if (may_end(plan, &plan->move[i]))
            kept[last++] = plan->move[i];
        else
            plan->move[plan->moves++] = plan->move[i];
    ISO_TRY(flush(s));
    for (int i = 0; i < last; i++)
        ISO_TRY(add_move(plan, kept[i]));
done:
    iso_free(kept);
    return status;
}

iso_status iso_plan_schedule(iso_plan *plan)
{
    const iso_program *program = plan->program;
    iso_status status = ISO_OK;
    scheduler s = {.plan = plan, .program = program};
    s.pending = iso_new((size_t)program->values + 1);
    if (!s.pending)
        return iso_error(ISO_NO_MEMORY, "no memory to schedule %d values", program->values);
    for (int i = 0; i < program->inputs; i++)
        if (program->input_value[i] >= 0)
            ISO_TRY(add_instruction(plan, (iso_instruction){.kind = ISO_READ, .input = i}));
    for (int k = 0; k < program->steps; k++)
        ISO_TRY(program->step[k].op ? schedule_op(&s, k) : schedule_reshard(&s, k));
    ISO_TRY(flush_all_but_the_last(&s));
    plan->finish_first_move = s.first;
    plan->finish_moves = plan->moves - s.first;
done:
    iso_free(s.pending);
    return status;
}
