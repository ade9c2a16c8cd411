/* The schedule: instructions in the order of the program, with reshards collected so that one exchange serves
 * several.
 *
 * A reshard waits until its value is needed, and then goes together with all that wait. Two kinds have their
 * own rules:
 * - Weights that are gathered: those of a layer go together, as late as the layer allows. Between hosts they
 *   begin when the weights of the previous layer have arrived, and are sent while that layer computes.
 * - Gradients that go to the part that an optimizer updates: those of a layer go together, as soon as the
 *   last of them is computed. Between hosts they end one layer later. */
#include <string.h>

#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/plan/plan_impl.h"
#include "runtime/spmd/collective.h"

bool iso_plan_is_alias(const iso_op *op)
{
    return op && op->type->no_kernel;
}

/* The number of partial sums of each element if a reshard is an all-reduce; 1: it is not. The result may be
 * partial along other axes. */
static int addends(const iso_plan *plan, const iso_layout *from, const iso_layout *to)
{
    iso_layout reduced = *from;
    int group = 1;
    reduced.partial &= to->partial;
    if (!iso_layout_equal(&reduced, to))
        return 1;
    for (int a = 0; a < plan->program->mesh->n_axes; a++)
        if (from->partial & ~to->partial & 1u << a)
            group *= plan->program->mesh->size[a];
    return group;
}

/* ---- instructions and moves ---- */

static iso_status add_instruction(iso_plan *plan, iso_instruction fresh)
{
    return iso_list_add(plan->instructions, plan->n_instructions, fresh, "the instructions of a plan");
}

static iso_status add_move(iso_plan *plan, iso_move fresh)
{
    return iso_list_add(plan->moves, plan->n_moves, fresh, "the moves of a plan");
}

/* ---- moves that wait ---- */

typedef enum queue_kind { MIXED, WEIGHTS, GRADIENTS, QUEUES } queue_kind;

/* Moves that wait, and the exchange of this kind that has begun. */
typedef struct queue {
    int waiting;
    iso_move *moves;    /* [steps] room */
    bool begun;         /* then: */
    int begin;          /* its instruction; -1: it begins where it ends */
    int first, n_moves; /* its moves */
} queue;

typedef struct scheduler {
    iso_plan *plan;
    const iso_program *program;
    queue queue[QUEUES];
    int8_t *where;      /* [values] the queue in which a value waits + 1; 0: it does not */
    int *update_of;     /* [values] the change + 1 whose optimizer takes it; 0: none */
    int *last_kernel;   /* [values] the last step that reads its memory with a kernel, -1: none */
    int *other_readers; /* [values] number of other readers: reshards, the optimizer, outputs, changes */
    int *next_weight;   /* [steps] the next step that gathers weights, -1: none */
    int *next_gradient; /* [steps] the next step that moves a gradient to its update, -1: none */
    int weight;         /* the first weight gather that has not been scheduled */
} scheduler;

/* The second half of the all-reduces among these moves that have one. */
static iso_status add_second_half(scheduler *s, int first, int moves)
{
    iso_plan *plan = s->plan;
    int begin = plan->n_moves;
    iso_status status = ISO_OK;
    for (int i = first; i < first + moves; i++)
        if (plan->moves[i].gathered)
            ISO_TRY(add_move(plan, (iso_move){.kind = ISO_MOVE_GATHER,
                                              .from = plan->moves[i].from,
                                              .to = plan->moves[i].to,
                                              .own_sum = plan->moves[i].own_sum}));
    if (plan->n_moves > begin)
        ISO_TRY(add_instruction(plan, (iso_instruction){.kind = ISO_EXCHANGE,
                                                        .begin = plan->n_instructions,
                                                        .first_move = begin,
                                                        .n_moves = plan->n_moves - begin}));
done:
    return status;
}

/* Ends the exchange that has begun. */
static iso_status end_exchange(scheduler *s, queue *q)
{
    iso_plan *plan = s->plan;
    if (!q->begun)
        return ISO_OK;
    q->begun = false;
    if (q->begin >= 0)
        plan->instructions[q->begin].end = plan->n_instructions;
    iso_status status = ISO_OK;
    ISO_TRY(add_instruction(plan, (iso_instruction){.kind = ISO_EXCHANGE,
                                                    .begin = q->begin < 0 ? plan->n_instructions : q->begin,
                                                    .constant = q == &s->queue[WEIGHTS],
                                                    .first_move = q->first,
                                                    .n_moves = q->n_moves}));
    for (int i = q->first; i < q->first + q->n_moves; i++)
        s->where[plan->moves[i].to] = 0;
    ISO_TRY(add_second_half(s, q->first, q->n_moves));
done:
    return status;
}

/* Begins an exchange of all moves in a queue; `early`: it does not end at once. */
static iso_status begin_exchange(scheduler *s, queue *q, bool early)
{
    iso_plan *plan = s->plan;
    iso_status status = ISO_OK;
    if (!q->waiting)
        return ISO_OK;
    q->first = plan->n_moves;
    q->n_moves = q->waiting;
    q->begin = early ? plan->n_instructions : -1;
    q->begun = true;
    for (int i = 0; i < q->waiting; i++)
        ISO_TRY(add_move(plan, q->moves[i]));
    q->waiting = 0;
    if (early)
        ISO_TRY(add_instruction(
            plan, (iso_instruction){.kind = ISO_BEGIN, .first_move = q->first, .n_moves = q->n_moves}));
done:
    return status;
}

static iso_status flush(scheduler *s, queue_kind kind)
{
    iso_status status = ISO_OK;
    ISO_TRY(end_exchange(s, &s->queue[kind]));
    ISO_TRY(begin_exchange(s, &s->queue[kind], false));
    ISO_TRY(end_exchange(s, &s->queue[kind]));
done:
    return status;
}

/* ---- layers ---- */

/* Between domains, messages are sent while slots compute; within one there is nothing to wait for. */
static bool goes_early(const scheduler *s)
{
    return !iso_plan_in_one_domain(s->plan);
}

/* "block/dense" of "block/dense/kernel". */
static int layer_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (int)(slash - path) : 0;
}

static bool same_layer(const char *a, const char *b)
{
    int length = layer_length(a);
    return length == layer_length(b) && strncmp(a, b, (size_t)length) == 0;
}

/* The variable that a step gathers; NULL: it does something else. */
static const iso_variable *gathered(const scheduler *s, int number)
{
    const iso_program_step *step = &s->program->steps[number];
    if (step->op)
        return NULL;
    const iso_program_value *from = &s->program->values[step->input[0]],
                            *to = &s->program->values[step->output[0]];
    if (from->step >= 0 || from->layout.partial || from->tensor->producer->type != &iso_op_variable ||
        iso_reshard_local(s->program->mesh, &from->layout, &to->layout))
        return NULL;
    return ((const iso_variable_attrs *)from->tensor->producer->attrs)->variable;
}

static bool for_backward(const scheduler *s, int number)
{
    return s->program->values[s->program->steps[number].output[0]].backward;
}

/* Puts the weights of the next layer into their queue: consecutive ones in the program, up to those of
 * another layer. */
static iso_status next_layer(scheduler *s, bool early)
{
    queue *q = &s->queue[WEIGHTS];
    int first = s->weight;
    while (s->weight >= 0) {
        if (s->weight != first && (for_backward(s, first) != for_backward(s, s->weight) ||
                                   !same_layer(gathered(s, first)->path, gathered(s, s->weight)->path)))
            break;
        const iso_program_step *step = &s->program->steps[s->weight];
        q->moves[q->waiting++] =
            (iso_move){.kind = ISO_MOVE_BOXES, .from = step->input[0], .to = step->output[0]};
        s->where[step->output[0]] = WEIGHTS + 1;
        s->weight = s->next_weight[s->weight];
    }
    return begin_exchange(s, q, early);
}

/* Begins the weights of the layers up to that of a step. Only one layer is in progress at a time. */
static iso_status begin_weights(scheduler *s, int number)
{
    iso_status status = ISO_OK;
    while (s->weight >= 0 && s->weight <= number) {
        ISO_TRY(end_exchange(s, &s->queue[WEIGHTS]));
        ISO_TRY(next_layer(s, goes_early(s)));
    }
done:
    return status;
}

/* Ends the weights that are in progress, and begins those of the next layer. */
static iso_status take_weights(scheduler *s)
{
    iso_status status = ISO_OK;
    ISO_TRY(end_exchange(s, &s->queue[WEIGHTS]));
    if (goes_early(s))
        ISO_TRY(next_layer(s, true));
done:
    return status;
}

/* ---- steps ---- */

/* Ensures that a value is available before the next instruction. */
static iso_status await(scheduler *s, int value)
{
    int kind = s->where[value] - 1;
    if (kind < 0)
        return ISO_OK;
    return kind == WEIGHTS ? take_weights(s) : flush(s, (queue_kind)kind);
}

static void wait_in(scheduler *s, queue_kind kind, iso_move move)
{
    queue *q = &s->queue[kind];
    q->moves[q->waiting++] = move;
    s->where[move.to] = (int8_t)(kind + 1);
}

/* The value that owns a value's memory. */
static int memory_of(const scheduler *s, int value)
{
    int step = s->program->values[value].step;
    while (step >= 0 && iso_plan_is_alias(s->program->steps[step].op)) {
        value = s->program->steps[step].input[0];
        step = s->program->values[value].step;
    }
    return value;
}

/* Whether a step may add the partial sums of a value in place: all other readers must be kernels that have
 * run by then. Another reshard may run in the same exchange. */
static bool is_last_reader(const scheduler *s, int value, int number)
{
    int memory = memory_of(s, value);
    return s->other_readers[memory] == 1 && s->last_kernel[memory] < number;
}

/* Sums in chunks in one memory domain: the least product of elements and slots. Measured by tests/bench/collectives
 * --slots: on two cores with 2, 4, 8, 16 and 64 slots, a sum of 4096, 1024, 1024, 512 and 256 elements takes as
 * long if every slot adds the whole; the work of that is elements x slots^2 instead of elements x slots. */
enum { CHUNKS_FROM = 16384 };

/* The same in two memory domains, each of which sends no more in one exchange than in two if it holds a complete
 * subtree: the least product of elements and slots^2. Measured by tests/bench/collectives on two simulated hosts of
 * two ranks, on two cores with other load: with 4 slots, one exchange and two took 60 and 153 us for 4096 elements,
 * 81 and 161 for 16384, 148 and 218 for 65536, 787 and 746 for 262144 (in another run 704 and 548); with 16 slots
 * they took as long for about 24000. */
enum { CHUNKS_FROM_IN_TWO = 1 << 21 };

static bool is_in_two_domains(const iso_plan *plan)
{
    int first = iso_plan_domain_of(plan, 0), second = first;
    for (int slot = 0; slot < plan->program->mesh->n_slots; slot++) {
        int domain = iso_plan_domain_of(plan, slot);
        if (second == first)
            second = domain;
        if (domain != first && domain != second)
            return false;
    }
    return true;
}

/* Whether an all-reduce of a value of this shape over this many slots is done in chunks. Of two slots on two hosts
 * each sends the same bytes in one exchange. */
static bool goes_in_chunks(const scheduler *s, int value, int group, const iso_shape *shape)
{
    int64_t elements = iso_layout_largest(s->program->mesh, &s->program->values[value].layout, shape);
    if (group > ISO_PLAN_MANY)
        return true;
    if (iso_plan_in_one_domain(s->plan))
        return group > 1 && elements >= CHUNKS_FROM / group;
    if (group <= 2 || elements < ISO_SMALL_SUM)
        return false;
    /* it is two exchanges, with fewer bytes between more than two domains */
    return elements * group * group >= CHUNKS_FROM_IN_TWO || !is_in_two_domains(s->plan);
}

/* The move of a reshard step. Among few slots only sums in place are done in chunks. */
static iso_move move_of(const scheduler *s, int number)
{
    const iso_program_step *step = &s->program->steps[number];
    const iso_program_value *from = &s->program->values[step->input[0]],
                            *to = &s->program->values[step->output[0]];
    iso_shape shape = iso_shape_with_rows(&from->tensor->shape, s->plan->rows);
    int group = addends(s->plan, &from->layout, &to->layout);
    bool many = group > ISO_PLAN_MANY, last = is_last_reader(s, step->input[0], number);
    bool chunks = (many || last) && goes_in_chunks(s, step->input[0], group, &shape);
    return (iso_move){.kind = chunks ? ISO_MOVE_SCATTER : ISO_MOVE_BOXES,
                      .from = step->input[0],
                      .to = step->output[0],
                      .own_sum = chunks && !last,
                      .gathered = chunks && (many || !iso_plan_in_one_domain(s->plan))};
}

/* The variable whose gradient a step moves to where it is updated; NULL: it does something else. */
static const iso_variable *updated(const scheduler *s, int number)
{
    const iso_program_step *step = &s->program->steps[number];
    if (step->op || !s->update_of[step->output[0]] ||
        iso_reshard_local(s->program->mesh, &s->program->values[step->input[0]].layout,
                          &s->program->values[step->output[0]].layout))
        return NULL;
    return move_of(s, number).kind == ISO_MOVE_BOXES
               ? s->program->changes[s->update_of[step->output[0]] - 1].variable
               : NULL;
}

/* The last gradient of a layer begins the exchange of all of them, and ends that of the previous layer. */
static iso_status schedule_gradient(scheduler *s, int number)
{
    queue *q = &s->queue[GRADIENTS];
    int next = s->next_gradient[number];
    iso_status status = ISO_OK;
    wait_in(s, GRADIENTS, move_of(s, number));
    if (next >= 0 && same_layer(updated(s, number)->path, updated(s, next)->path))
        return ISO_OK;
    ISO_TRY(end_exchange(s, q));
    ISO_TRY(begin_exchange(s, q, goes_early(s)));
    if (!goes_early(s))
        ISO_TRY(end_exchange(s, q));
done:
    return status;
}

static iso_status schedule_reshard(scheduler *s, int number)
{
    const iso_program_step *step = &s->program->steps[number];
    int from = step->input[0];
    const iso_layout *old = &s->program->values[from].layout,
                     *new = &s->program->values[step->output[0]].layout;
    iso_status status = ISO_OK;
    if (gathered(s, number))
        return begin_weights(s, number);
    ISO_TRY(await(s, from));
    if (iso_reshard_local(s->program->mesh, old, new))
        return add_instruction(s->plan, (iso_instruction){.kind = ISO_COPY, .step = number});
    if (updated(s, number))
        return schedule_gradient(s, number);
    wait_in(s, MIXED, move_of(s, number));
    return ISO_OK;
done:
    return status;
}

static iso_status schedule_op(scheduler *s, int number)
{
    const iso_program_step *step = &s->program->steps[number];
    iso_status status = ISO_OK;
    for (int i = 0; i < step->op->n_inputs; i++)
        ISO_TRY(await(s, step->input[i]));
    if (iso_plan_is_alias(step->op) || s->plan->step_fused[number])
        return ISO_OK;
    return add_instruction(s->plan, (iso_instruction){.kind = ISO_KERNEL, .step = number});
done:
    return status;
}

/* ---- the end of the step ---- */

/* Moves that nothing waits for end with the step. Exceptions: large ones, those that read variables, which
 * the end of the step changes, and those that compute gradients, which the end of the step takes from
 * other slots. */
static bool may_end(const scheduler *s, const iso_move *move)
{
    return move->kind == ISO_MOVE_BOXES && !iso_program_variable_under(s->program, move->from) &&
           !s->update_of[move->to];
}

/* Schedules all waiting moves except those that may end with the step: these become its last moves. */
static iso_status flush_all_but_the_last(scheduler *s)
{
    queue *q = &s->queue[MIXED];
    int waiting = q->waiting, last = 0;
    iso_status status = ISO_OK;
    iso_move *kept = iso_new(((size_t)waiting + 1) * sizeof *kept);
    if (!kept)
        return iso_error(ISO_NO_MEMORY, "no memory to schedule %d moves", waiting);
    q->waiting = 0;
    for (int i = 0; i < waiting; i++)
        if (may_end(s, &q->moves[i]))
            kept[last++] = q->moves[i];
        else
            q->moves[q->waiting++] = q->moves[i];
    ISO_TRY(begin_weights(s, s->program->n_steps));
    ISO_TRY(end_exchange(s, &s->queue[WEIGHTS]));
    ISO_TRY(flush(s, GRADIENTS));
    ISO_TRY(flush(s, MIXED));
    s->plan->epilogue_first_move = s->plan->n_moves;
    s->plan->n_epilogue_moves = last;
    for (int i = 0; i < last; i++)
        ISO_TRY(add_move(s->plan, kept[i]));
done:
    iso_free(kept);
    return status;
}

/* ---- the whole ---- */

static void link_layers(scheduler *s)
{
    int gradient = s->weight = -1;
    for (int k = s->program->n_steps - 1; k >= 0; k--) {
        s->next_weight[k] = s->weight;
        s->next_gradient[k] = gradient;
        if (gathered(s, k))
            s->weight = k;
        if (updated(s, k))
            gradient = k;
    }
}

static void count_reader(const scheduler *s, int step, int value)
{
    int memory = memory_of(s, value);
    if (s->program->steps[step].op && !s->plan->step_fused[step])
        s->last_kernel[memory] = step;
    else
        s->other_readers[memory]++;
}

static void count_readers(const scheduler *s)
{
    const iso_program *program = s->program;
    for (int v = 0; v < program->n_values; v++)
        s->last_kernel[v] = -1;
    for (int k = 0; k < program->n_steps; k++)
        for (int i = 0; i < (program->steps[k].op ? program->steps[k].op->n_inputs : 1); i++)
            if (!iso_plan_is_alias(program->steps[k].op))
                count_reader(s, k, program->steps[k].input[i]);
    for (int i = 0; i < program->n_outputs; i++)
        s->other_readers[memory_of(s, program->output_value[i])]++;
    for (int i = 0; i < program->n_changes; i++)
        s->other_readers[memory_of(s, program->changes[i].value)]++;
}

static iso_status schedule_set_up(scheduler *s)
{
    const iso_program *program = s->program;
    size_t steps = (size_t)program->n_steps + 1, values = (size_t)program->n_values + 1;
    s->where = iso_new(values * sizeof *s->where);
    s->update_of = iso_new(values * sizeof *s->update_of);
    s->last_kernel = iso_new(values * sizeof *s->last_kernel);
    s->other_readers = iso_new(values * sizeof *s->other_readers);
    s->next_weight = iso_new(steps * sizeof *s->next_weight);
    s->next_gradient = iso_new(steps * sizeof *s->next_gradient);
    bool room =
        s->where && s->update_of && s->last_kernel && s->other_readers && s->next_weight && s->next_gradient;
    for (int q = 0; q < QUEUES; q++)
        room &= (s->queue[q].moves = iso_new(steps * sizeof(iso_move))) != NULL;
    if (!room)
        return iso_error(ISO_NO_MEMORY, "no memory to schedule %zu steps", steps);
    for (int i = 0; i < program->n_changes; i++)
        if (program->changes[i].apply)
            s->update_of[program->changes[i].value] = i + 1;
    count_readers(s);
    link_layers(s);
    return ISO_OK;
}

iso_status iso_plan_schedule(iso_plan *plan)
{
    const iso_program *program = plan->program;
    iso_status status = ISO_OK;
    scheduler s = {.plan = plan, .program = program};
    ISO_TRY(schedule_set_up(&s));
    if (goes_early(&s))
        ISO_TRY(next_layer(&s, true));
    for (int i = 0; i < program->n_inputs; i++)
        if (program->input_value[i] >= 0)
            ISO_TRY(add_instruction(plan, (iso_instruction){.kind = ISO_READ, .input = i}));
    for (int k = 0; k < program->n_steps; k++)
        ISO_TRY(program->steps[k].op ? schedule_op(&s, k) : schedule_reshard(&s, k));
    ISO_TRY(flush_all_but_the_last(&s));
done:
    for (int q = 0; q < QUEUES; q++)
        iso_free(s.queue[q].moves);
    iso_free(s.next_weight);
    iso_free(s.next_gradient);
    iso_free(s.other_readers);
    iso_free(s.last_kernel);
    iso_free(s.update_of);
    iso_free(s.where);
    return status;
}
