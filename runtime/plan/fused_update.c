/* Fused weight gradients: a gradient that only the optimizer uses is never stored as a whole.
 *
 * The gradient of a Dense kernel is the product of the input and the output's gradient, which are both smaller than
 * the product if the batch is small. If all slots of a group share memory, each slot can compute its own part of
 * every slot's product when it updates that part of the weights. The operations and the bits are those of computing
 * the products first and adding them afterwards, but the gradients stay in the first-level cache. The same holds for
 * the gradient of an embedding, in which the batch touches few rows, and for the sum of both: the gradient of an
 * embedding that also computes the logits. */
#include "runtime/base/memory.h"
#include "runtime/graph/ops/list.h"
#include "runtime/plan/plan_impl.h"

/* Counts how often each value is read. */
static void count_uses(const iso_program *program, int *uses)
{
    for (int k = 0; k < program->n_steps; k++)
        for (int i = 0; i < (program->steps[k].op ? program->steps[k].op->n_inputs : 1); i++)
            uses[program->steps[k].input[i]]++;
    for (int i = 0; i < program->n_outputs; i++)
        uses[program->output_value[i]]++;
    for (int i = 0; i < program->n_changes; i++)
        uses[program->changes[i].value]++;
}

static bool makes_parts(const iso_kernel *kernel, const iso_kernel_call *call)
{
    return kernel->run_part && call->out[0].rank == 2;
}

bool iso_plan_reads_term(const iso_plan *plan, int value)
{
    int step = plan->program->values[value].step;
    return step >= 0 && plan->step_fused[step];
}

/* Whether all inputs are stored where all slots of the domain can read them: no constants, and no variables,
 * which the update changes. */
static bool inputs_are_computed(const iso_program *program, const iso_program_step *step)
{
    for (int i = 0; i < step->op->n_inputs; i++) {
        int value = step->input[i];
        while (program->values[value].step >= 0 &&
               iso_plan_is_alias(program->steps[program->values[value].step].op))
            value = program->steps[program->values[value].step].input[0];
        const iso_op *producer = program->values[value].tensor->producer;
        if (producer->type == &iso_op_variable || producer->type == &iso_op_constant)
            return false;
    }
    return true;
}

/* A slot's call of a term, without data. */
typedef struct term_call {
    iso_array in[ISO_MAX_INPUTS], out[ISO_MAX_OUTPUTS];
    iso_kernel_call call;
} term_call;

static bool is_product(const iso_plan *plan, int step)
{
    const iso_op_type *type = plan->program->steps[step].op->type;
    return type != &iso_op_embedding_grad && type != &iso_op_embedding_grad_add;
}

/* The bytes that another slot reads of a slot's inputs for elements [first, first + count): for a product [k, m]^T
 * [k, n], the rows and columns of that part; for k indices, all of them, and on average a share of their rows. */
static double term_bytes(const iso_plan *plan, int step, int slot, int64_t first, int64_t count)
{
    term_call t;
    iso_plan_call(plan, step, slot, t.in, t.out, &t.call);
    const bool product = is_product(plan, step);
    const iso_array *a = &t.in[t.call.n_inputs - 2], *b = &t.in[t.call.n_inputs - 1];
    const int64_t columns = t.out[0].dim[1];
    double k = 1, whole = (double)(t.out[0].dim[0] * columns);
    for (int d = 0; d < a->rank - product; d++)
        k *= (double)a->dim[d];
    if (count == 0)
        return 0;
    if (!product)
        return k * (double)iso_dtype_size(a->dtype) +
               k * (double)columns * (double)count / whole * (double)iso_dtype_size(b->dtype);
    int64_t rows = (first + count - 1) / columns - first / columns + 1;
    return k * (double)(rows + columns) * (double)iso_dtype_size(a->dtype);
}

/* Bytes of a slot's inputs that any slot reads to compute elements [first, first + count) of its gradient. */
static double input_bytes(const iso_plan *plan, const iso_fused_update *fused, int slot, int64_t first,
                          int64_t count)
{
    double bytes = 0;
    for (int i = 0; i < fused->n_terms; i++)
        bytes += term_bytes(plan, fused->term[i], slot, first, count);
    return bytes;
}

double iso_plan_fused_bytes(const iso_plan *plan, const iso_fused_update *fused, int slot, int64_t first,
                            int64_t count)
{
    const iso_bucket *bucket = &plan->buckets->buckets[fused->bucket];
    double bytes = 0;
    for (int i = 0; i < bucket->group; i++) {
        int other = iso_group_slot(plan->program->mesh, bucket->axes, slot, i);
        bytes += other == slot ? 0 : input_bytes(plan, fused, other, first, count);
    }
    return bytes;
}

double iso_plan_fused_flops(const iso_plan *plan, const iso_fused_update *fused, int slot)
{
    double flops = 0;
    for (int i = 0; i < fused->n_terms; i++)
        flops += iso_plan_flops(plan, &plan->program->steps[fused->term[i]], slot);
    return flops;
}

/* Whether a slot reads, approximately, less of another slot's inputs than of its gradient, for its part of it. */
static bool reads_less(const iso_plan *plan, const iso_fused_update *fused, int group)
{
    term_call t;
    iso_plan_call(plan, fused->term[0], 0, t.in, t.out, &t.call);
    int64_t part = t.out[0].dim[0] * t.out[0].dim[1] / group;
    return group == 1 ||
           input_bytes(plan, fused, 0, 0, part) < (double)part * (double)iso_dtype_size(t.out[0].dtype);
}

/* The number of blocks needed at once while the gradients of this many slots are added in the order of
 * iso_tree_left(). A subtree of one slot needs none if its gradient has one term: it is added to an existing
 * block. */
static int blocks_alive(int slots, int terms)
{
    if (slots <= 1)
        return 1;
    int left = iso_tree_left(slots), first = blocks_alive(left, terms);
    int rest = slots - left == 1 && terms == 1 ? 1 : 1 + blocks_alive(slots - left, terms);
    return first > rest ? first : rest;
}

iso_fused_update_room iso_plan_fused_update_room(const iso_plan *plan, const iso_fused_update *fused,
                                                 int slot)
{
    const iso_bucket *bucket = &plan->buckets->buckets[fused->bucket];
    /* the first slot of a group has the most rows of the batch */
    int first = iso_group_slot(plan->program->mesh, bucket->axes, slot, 0);
    iso_fused_update_room room = {.rows = INT64_MAX};
    int64_t columns = 1;
    for (int i = 0; i < fused->n_terms; i++) {
        term_call t;
        iso_plan_call(plan, fused->term[i], first, t.in, t.out, &t.call);
        const iso_kernel *kernel =
            plan->site->backend->find(plan->program->steps[fused->term[i]].op->type->name, &t.call);
        int64_t rows = kernel->part_rows(&t.call);
        rows = rows < t.out[0].dim[0] ? rows : t.out[0].dim[0];
        room.rows = rows < room.rows ? rows : room.rows;
        room.call[i] = room.slot_calls;
        size_t part = kernel->part_scratch ? kernel->part_scratch(&t.call) : 0;
        room.slot_calls += iso_round_to_lines((kernel->scratch ? kernel->scratch(&t.call) : 0) - part);
        part = iso_round_to_lines(part);
        room.part = part > room.part ? part : room.part;
        columns = t.out[0].dim[1];
    }
    room.rows = room.rows > 0 ? room.rows : 1;
    room.block = iso_round_to_lines((size_t)(room.rows * columns) * iso_dtype_size(bucket->dtype));
    room.thread = (size_t)blocks_alive(bucket->group, fused->n_terms) * room.block + room.part;
    room.bytes = room.thread + (size_t)bucket->group * room.slot_calls;
    return room;
}

int iso_plan_fused_of(const iso_plan *plan, int bucket, int member)
{
    for (int i = 0; i < plan->n_fused_updates; i++)
        if (plan->fused_updates[i].bucket == bucket && plan->fused_updates[i].member == member)
            return i;
    return -1;
}

/* ---- where the other gradients are stored ---- */

static void store_members(iso_plan *plan, int b)
{
    const iso_bucket *bucket = &plan->buckets->buckets[b];
    int64_t at = 0;
    for (int m = 0; m < bucket->n_members; m++) {
        plan->member_stored[b][m] = at;
        at += iso_plan_fused_of(plan, b, m) < 0 ? bucket->members[m].capacity : 0;
    }
    plan->bucket_stored[b] = at;
}

/* The stored elements before element `flat` of a bucket's flat range. */
static int64_t stored_before(const iso_plan *plan, int b, int64_t flat)
{
    const iso_bucket *bucket = &plan->buckets->buckets[b];
    int m = bucket->n_members - 1;
    while (m > 0 && bucket->members[m].offset > flat)
        m--;
    int64_t end = m + 1 < bucket->n_members ? plan->member_stored[b][m + 1] : plan->bucket_stored[b],
            at = plan->member_stored[b][m] + flat - bucket->members[m].offset;
    return at < end ? at : end;
}

void iso_plan_stored_part(const iso_plan *plan, int bucket, int slot, int64_t *begin, int64_t *count)
{
    int64_t first, part;
    iso_bucket_part(&plan->buckets->buckets[bucket], plan->program->mesh, slot, &first, &part);
    *begin = stored_before(plan, bucket, first);
    *count = stored_before(plan, bucket, first + part) - *begin;
}

size_t iso_plan_stored_bytes(const iso_plan *plan, int bucket)
{
    return (size_t)plan->bucket_stored[bucket] * iso_dtype_size(plan->buckets->buckets[bucket].dtype);
}

/* ---- choosing ---- */

/* The step that computes a value, or what is reshaped to it, and whose output has no other reader; -1: none. */
static int sole_step(const iso_program *program, const int *uses, int value)
{
    while (uses[value] == 1 && program->values[value].step >= 0) {
        const iso_program_step *step = &program->steps[program->values[value].step];
        if (!step->op || !iso_plan_is_alias(step->op))
            return step->op ? program->values[value].step : -1;
        value = step->input[0];
    }
    return -1;
}

/* The steps that compute a member's gradient; -1 among them: one that does not do it alone. */
static void find_terms(const iso_program *program, const int *uses, const iso_bucket_member *member,
                       iso_fused_update *fused)
{
    int step = sole_step(program, uses, program->changes[member->change].value);
    fused->n_terms = 0;
    if (step >= 0 && program->steps[step].op->type == &iso_op_embedding_grad_add) {
        int base = program->steps[step].input[0], made = program->values[base].step;
        fused->term[fused->n_terms++] = sole_step(program, uses, base) == made ? made : -1;
    }
    fused->term[fused->n_terms++] = step;
}

static bool may_fuse(const iso_plan *plan, const iso_fused_update *fused, int group)
{
    for (int i = 0; i < fused->n_terms; i++) {
        if (fused->term[i] < 0)
            return false;
        const iso_program_step *step = &plan->program->steps[fused->term[i]];
        if (step->op->n_outputs != 1 || !inputs_are_computed(plan->program, step) ||
            !iso_plan_all_kernels(plan, fused->term[i], makes_parts))
            return false;
    }
    return reads_less(plan, fused, group);
}

static void fuse_members(iso_plan *plan, int b, const int *uses)
{
    const iso_bucket *bucket = &plan->buckets->buckets[b];
    for (int m = 0; m < bucket->n_members; m++) {
        iso_fused_update fused = {.bucket = b, .member = m};
        find_terms(plan->program, uses, &bucket->members[m], &fused);
        if (!may_fuse(plan, &fused, bucket->group))
            continue;
        for (int i = 0; i < fused.n_terms; i++)
            plan->step_fused[fused.term[i]] = true;
        plan->fused_updates[plan->n_fused_updates++] = fused;
    }
}

iso_status iso_plan_fuse_updates(iso_plan *plan)
{
    int *uses = iso_new(((size_t)plan->program->n_values + 1) * sizeof *uses);
    if (!uses)
        return iso_error(ISO_NO_MEMORY, "no memory to look at %d values", plan->program->n_values);
    count_uses(plan->program, uses);
    for (int b = 0; b < plan->buckets->count && iso_plan_in_one_domain(plan); b++)
        fuse_members(plan, b, uses);
    for (int b = 0; b < plan->buckets->count; b++)
        store_members(plan, b);
    iso_free(uses);
    return ISO_OK;
}
