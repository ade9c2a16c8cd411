/* Chooses where the exchanges of buckets begin and end, if the mesh crosses hosts.
 *
 * The exchange of a bucket's gradients begins when the last gradient of the bucket has been computed, and ends with
 * the step: its messages are sent while slots compute the rest of the backward pass. Two rules change this:
 * - Messages between two hosts arrive in the order in which they were sent. If slots wait for another exchange
 *   soon, its messages would arrive behind the gradients. The gradients begin after that exchange if there is much
 *   more to compute after it (MUCH times), up to the next exchange, than before it.
 * - A bucket with little or nothing left to compute after it is sent with the scalars at the end of the step.
 *
 * A step may leave it to the next step to send new weights to other hosts. They must arrive before an op reads
 * a weight of the bucket. They are sent after the last exchange before that op, or after the exchange before that one
 * if there is more to compute in between. */
#include "runtime/base/memory.h"
#include "runtime/plan/plan_impl.h"

enum { MUCH = 4 };

/* An instruction that is added before instruction `at` of the schedule. */
typedef struct addition {
    int at;
    iso_instruction instruction;
} addition;

typedef struct starter {
    iso_plan *plan;
    int *made;     /* [values] the instruction that computes it; -1: none */
    bool *claimed; /* [values] a gradient is computed in a bucket in the memory of this root */
    double *work;  /* [n_instructions + 1] operations of the instructions before */
    int n_additions;
    addition *additions; /* [3 * n_buckets] room */
} starter;

/* ---- what is computed when ---- */

static void note_made(const starter *s, int number)
{
    const iso_plan *plan = s->plan;
    const iso_instruction *instruction = &plan->instructions[number];
    const iso_program_step *step = &plan->program->steps[instruction->step];
    if (instruction->kind == ISO_KERNEL)
        for (int i = 0; i < step->op->n_outputs; i++)
            s->made[step->output[i]] = number;
    if (instruction->kind == ISO_COPY)
        s->made[step->output[0]] = number;
    for (int i = 0; instruction->kind == ISO_EXCHANGE && i < instruction->n_moves; i++)
        s->made[plan->moves[instruction->first_move + i].to] = number;
}

static void find_made(const starter *s)
{
    const iso_program *program = s->plan->program;
    for (int v = 0; v < program->n_values; v++)
        s->made[v] = -1;
    for (int i = 0; i < s->plan->n_instructions; i++)
        note_made(s, i);
    for (int k = 0; k < program->n_steps; k++)
        if (iso_plan_is_alias(program->steps[k].op))
            s->made[program->steps[k].output[0]] = s->made[program->steps[k].input[0]];
}

static void find_work(const starter *s)
{
    const iso_plan *plan = s->plan;
    for (int i = 0; i < plan->n_instructions; i++) {
        const iso_instruction *instruction = &plan->instructions[i];
        double flops = instruction->kind == ISO_KERNEL
                           ? iso_plan_flops(plan, &plan->program->steps[instruction->step], 0)
                           : 0;
        s->work[i + 1] = s->work[i] + flops;
    }
}

/* ---- one bucket ---- */

static bool crosses_domains(const iso_plan *plan, const iso_bucket *bucket)
{
    for (int slot = 0; bucket->group > 1 && slot < plan->program->mesh->n_slots; slot++) {
        int first = iso_group_slot(plan->program->mesh, bucket->axes, slot, 0);
        if (iso_plan_domain_of(plan, slot) != iso_plan_domain_of(plan, first))
            return true;
    }
    return false;
}

/* The instruction after which all gradients of a bucket are computed; -1: the end of the step copies one. A
 * gradient in the memory of another one is copied. */
static int last_gradient(const starter *s, const iso_bucket *bucket)
{
    const iso_program *program = s->plan->program;
    int last = 0;
    for (int m = 0; m < bucket->n_members; m++) {
        int value = program->changes[bucket->members[m].change].value, root = s->plan->root[value];
        if (s->made[value] < 0 || program->values[root].step < 0 || s->claimed[root])
            last = -1;
        s->claimed[root] = true;
        if (last >= 0 && s->made[value] > last)
            last = s->made[value];
    }
    return last;
}

/* The next exchange from instruction `at` on for which slots wait; the number of instructions if there is none. */
static int next_exchange(const iso_plan *plan, int at)
{
    while (at < plan->n_instructions && plan->instructions[at].kind != ISO_EXCHANGE)
        at++;
    return at;
}

/* The instruction before which a bucket begins, given the first at which it can. */
static int best_begin(const starter *s, int at)
{
    int wait = next_exchange(s->plan, at), after = wait;
    while (after < s->plan->n_instructions && s->plan->instructions[after].kind == ISO_EXCHANGE)
        after++;
    double before_it = s->work[wait] - s->work[at];
    double after_it = s->work[next_exchange(s->plan, after)] - s->work[after];
    return after_it > MUCH * before_it ? after : at;
}

static void begin_bucket(starter *s, int number)
{
    const iso_plan *plan = s->plan;
    const iso_bucket *bucket = &plan->buckets->buckets[number];
    int last = last_gradient(s, bucket);
    if (last < 0 || !crosses_domains(plan, bucket))
        return;
    int at = best_begin(s, last + 1);
    double all = s->work[plan->n_instructions];
    if (iso_plan_hides(all - s->work[at], all))
        s->additions[s->n_additions++] =
            (addition){at, {.kind = ISO_BEGIN, .payload = ISO_PAYLOAD_GRADIENTS, .bucket = number}};
}

/* ---- new weights ---- */

/* Whether a value is one of a bucket's variables. */
static bool reads(const iso_program *program, int value, const iso_bucket *bucket)
{
    const iso_variable *variable = iso_program_variable_under(program, value);
    for (int m = 0; variable && m < bucket->n_members; m++)
        if (bucket->members[m].variable == variable)
            return true;
    return false;
}

static bool instruction_reads(const iso_plan *plan, const iso_instruction *instruction,
                              const iso_bucket *bucket)
{
    const iso_program_step *step = &plan->program->steps[instruction->step];
    bool found = instruction->kind == ISO_COPY && reads(plan->program, step->input[0], bucket);
    for (int i = 0; instruction->kind == ISO_KERNEL && i < step->op->n_inputs; i++)
        found |= reads(plan->program, step->input[i], bucket);
    for (int i = 0; i < instruction->n_moves; i++)
        found |= reads(plan->program, plan->moves[instruction->first_move + i].from, bucket);
    return found;
}

/* The first instruction that reads a variable of a bucket; n_instructions: none does. */
static int first_reader(const iso_plan *plan, const iso_bucket *bucket)
{
    int at = 0;
    while (at < plan->n_instructions && !instruction_reads(plan, &plan->instructions[at], bucket))
        at++;
    return at;
}

/* The instruction after the last exchange before `at`; 0: there is none. */
static int after_exchange(const iso_plan *plan, int at)
{
    while (at > 0 && plan->instructions[at - 1].kind != ISO_EXCHANGE)
        at--;
    return at;
}

/* The instruction before which new weights are sent that must be there before instruction `end`. */
static int best_send(const starter *s, int end)
{
    int begin = after_exchange(s->plan, end), wait = begin;
    while (wait > 0 && s->plan->instructions[wait - 1].kind == ISO_EXCHANGE)
        wait--;
    int earlier = after_exchange(s->plan, wait);
    return s->work[wait] - s->work[earlier] > s->work[end] - s->work[begin] ? earlier : begin;
}

/* Whether other domains have copies of the variables that slots of this bucket update. */
static bool has_copies(const iso_plan *plan, const iso_bucket *bucket)
{
    const iso_mesh *mesh = plan->program->mesh;
    uint32_t before = UINT32_MAX;
    for (int m = 0; m < bucket->n_members; m++) {
        iso_bucket copies = {.group = mesh->n_slots,
                             .axes = ((1u << mesh->n_axes) - 1) &
                                     ~iso_layout_sharded_axes(&bucket->members[m].layout)};
        if (copies.axes != before && crosses_domains(plan, &copies))
            return true;
        before = copies.axes;
    }
    return false;
}

static void send_weights(starter *s, int number, int end)
{
    int begin = best_send(s, end);
    iso_instruction instruction = {.payload = ISO_PAYLOAD_WEIGHTS, .bucket = number, .kind = ISO_BEGIN};
    if (begin < end)
        s->additions[s->n_additions++] = (addition){begin, instruction};
    instruction.kind = ISO_EXCHANGE;
    s->additions[s->n_additions++] = (addition){end, instruction};
}

/* Plans the messages of all new weights, in the order in which the next step reads the weights. */
static void send_all_weights(starter *s, int *reader)
{
    const iso_plan *plan = s->plan;
    int buckets = plan->buckets->count;
    for (int b = 0; b < buckets; b++)
        reader[b] = has_copies(plan, &plan->buckets->buckets[b])
                        ? first_reader(plan, &plan->buckets->buckets[b])
                        : -1;
    for (int end = 0; end <= plan->n_instructions; end++)
        for (int b = 0; b < buckets; b++)
            if (reader[b] == end)
                send_weights(s, b, end);
}

/* ---- the new list ---- */

/* Sorts by position in the list of instructions; instructions of one position by bucket. */
static void sort_additions(starter *s)
{
    for (int i = 1; i < s->n_additions; i++) {
        addition added = s->additions[i];
        int at = i;
        for (; at > 0 && s->additions[at - 1].at > added.at; at--)
            s->additions[at] = s->additions[at - 1];
        s->additions[at] = added;
    }
}

/* Links the two instructions of a bucket: the second one, the exchange, comes last. */
static void link_weights(iso_plan *plan, iso_instruction *list, int number)
{
    int *end = &plan->bucket_gather_end[list[number].bucket], begin = *end < 0 ? number : *end;
    list[number].begin = begin;
    list[begin].end = number;
    *end = number;
}

/* moved_to: [n_instructions + 1] where an instruction moves to. */
static void insert(starter *s, iso_instruction *list, int *moved_to)
{
    iso_plan *plan = s->plan;
    int n = 0, added = 0;
    for (int i = 0; i <= plan->n_instructions; i++) {
        for (; added < s->n_additions && s->additions[added].at == i; added++)
            list[n++] = s->additions[added].instruction;
        moved_to[i] = n;
        if (i < plan->n_instructions)
            list[n++] = plan->instructions[i];
    }
    for (int i = 0; i < n; i++)
        if (list[i].payload == ISO_PAYLOAD_MOVES) {
            list[i].begin = moved_to[list[i].begin];
            list[i].end = moved_to[list[i].end];
        } else if (list[i].payload == ISO_PAYLOAD_GRADIENTS) {
            list[i].end = n;
            plan->bucket_begin[list[i].bucket] = i;
        } else {
            link_weights(plan, list, i);
        }
    iso_free(plan->instructions);
    plan->instructions = list;
    plan->n_instructions = n;
}

static iso_status insert_additions(starter *s)
{
    iso_plan *plan = s->plan;
    size_t count = (size_t)plan->n_instructions + (size_t)s->n_additions;
    iso_instruction *list = iso_new(count * sizeof *list);
    int *moved_to = iso_new(((size_t)plan->n_instructions + 1) * sizeof *moved_to);
    iso_status status = list && moved_to ? ISO_OK : iso_no_memory("%zu instructions", count);
    for (int b = 0; b < plan->buckets->count; b++)
        plan->bucket_begin[b] = (int)count;
    sort_additions(s);
    if (status == ISO_OK)
        insert(s, list, moved_to);
    else
        iso_free(list);
    iso_free(moved_to);
    return status;
}

iso_status iso_plan_begin_buckets(iso_plan *plan)
{
    size_t values = (size_t)plan->program->n_values + 1;
    for (int b = 0; b < plan->buckets->count; b++)
        plan->bucket_begin[b] = plan->n_instructions, plan->bucket_gather_end[b] = -1;
    if (iso_plan_in_one_domain(plan) || plan->buckets->count == 0)
        return ISO_OK;
    starter s = {.plan = plan,
                 .made = iso_new(values * sizeof *s.made),
                 .claimed = iso_new(values * sizeof *s.claimed),
                 .work = iso_new(((size_t)plan->n_instructions + 1) * sizeof *s.work),
                 .additions = iso_new(3 * (size_t)plan->buckets->count * sizeof *s.additions)};
    int *reader = iso_new((size_t)plan->buckets->count * sizeof *reader);
    iso_status status = ISO_OK;
    if (!s.made || !s.claimed || !s.work || !s.additions || !reader)
        ISO_TRY(iso_error(ISO_NO_MEMORY, "no memory to begin %d buckets early", plan->buckets->count));
    find_made(&s);
    find_work(&s);
    for (int b = 0; b < plan->buckets->count; b++)
        begin_bucket(&s, b);
    send_all_weights(&s, reader);
    ISO_TRY(insert_additions(&s));
done:
    iso_free(reader);
    iso_free(s.made);
    iso_free(s.claimed);
    iso_free(s.work);
    iso_free(s.additions);
    return status;
}
