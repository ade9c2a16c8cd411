/* Fusing: a gradient that only the optimizer uses need not exist as a whole.
 *
 * The gradient of a Dense kernel is a product of activations and slopes, which are both smaller than it if
 * the batch is small. If all slots of a group share memory, each can compute its own part of every slot's
 * product when it updates that part of the weights. The operations and the bits are those of computing the
 * products first and adding them afterwards, but the gradients stay in the first-level cache. */
#include "runtime/base/memory.h"
#include "runtime/plan/plan_impl.h"

/* How often each value is read. */
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

/* Whether slots read, approximately, less of each other's inputs than of each other's gradients: k (m / g
 * + n) instead of m n / g elements, for a product [k, m]^T [k, n] and a group of g. */
static bool reads_less(const iso_plan *plan, int number, int group)
{
    iso_array in[ISO_MAX_INPUTS], out[ISO_MAX_OUTPUTS];
    iso_kernel_call call;
    iso_plan_call(plan, number, 0, in, out, &call);
    double m = (double)out[0].dim[0], n = (double)out[0].dim[1], k = 1;
    for (int d = 0; d < in[0].rank - 1; d++)
        k *= (double)in[0].dim[d];
    return group == 1 || k * (m / group + n) < m * n / group;
}

/* The number of blocks needed at once while the products of this many slots are added in the order of
 * iso_tree_left(). A subtree of one slot needs none: its product is added to an existing block. */
static int blocks_alive(int slots)
{
    if (slots <= 2)
        return 1;
    int left = iso_tree_left(slots);
    int first = blocks_alive(left), rest = slots - left == 1 ? 1 : 1 + blocks_alive(slots - left);
    return first > rest ? first : rest;
}

iso_fused_update_room iso_plan_fused_update_room(const iso_plan *plan, const iso_fused_update *fused,
                                                 int slot)
{
    iso_array in[ISO_MAX_INPUTS], out[ISO_MAX_OUTPUTS];
    iso_kernel_call call;
    const iso_bucket *bucket = &plan->buckets->buckets[fused->bucket];
    /* the first slot of a group has the most rows of the batch */
    int first = iso_group_slot(plan->program->mesh, bucket->axes, slot, 0);
    iso_plan_call(plan, fused->step, first, in, out, &call);
    const iso_kernel *kernel =
        plan->site->backend->find(plan->program->steps[fused->step].op->type->name, &call);
    int64_t rows = kernel->part_rows(&call);
    rows = rows < out[0].dim[0] ? rows : out[0].dim[0];
    iso_fused_update_room room = {.rows = rows > 0 ? rows : 1};
    room.block = iso_round_to_lines((size_t)(room.rows * out[0].dim[1]) * iso_dtype_size(bucket->dtype));
    room.call = iso_round_to_lines(kernel->scratch ? kernel->scratch(&call) : 0);
    room.bytes = (size_t)blocks_alive(bucket->group) * room.block + (size_t)bucket->group * room.call;
    return room;
}

int iso_plan_fused_of(const iso_plan *plan, int bucket, int member)
{
    for (int i = 0; i < plan->n_fused_updates; i++)
        if (plan->fused_updates[i].bucket == bucket && plan->fused_updates[i].member == member)
            return i;
    return -1;
}

/* The step whose output is a member's gradient, or is reshaped to it, and has no other reader; -1: none. */
static int gradient_step(const iso_program *program, const int *uses, const iso_bucket_member *member)
{
    int value = program->changes[member->change].value;
    while (uses[value] == 1 && program->values[value].step >= 0) {
        const iso_program_step *step = &program->steps[program->values[value].step];
        if (!step->op || !iso_plan_is_alias(step->op))
            return step->op ? program->values[value].step : -1;
        value = step->input[0];
    }
    return -1;
}

static bool may_fuse(const iso_plan *plan, int number, int group)
{
    const iso_program_step *step = &plan->program->steps[number];
    return step->op->n_outputs == 1 && inputs_are_computed(plan->program, step) &&
           iso_plan_all_kernels(plan, number, makes_parts) && reads_less(plan, number, group);
}

static void fuse_members(iso_plan *plan, int b, const int *uses)
{
    const iso_bucket *bucket = &plan->buckets->buckets[b];
    for (int m = 0; m < bucket->n_members; m++) {
        int step = gradient_step(plan->program, uses, &bucket->members[m]);
        if (step < 0 || !may_fuse(plan, step, bucket->group))
            continue;
        plan->step_fused[step] = true;
        plan->fused_updates[plan->n_fused_updates++] =
            (iso_fused_update){.bucket = b, .member = m, .step = step};
    }
}

iso_status iso_plan_fuse_updates(iso_plan *plan)
{
    if (!iso_plan_in_one_domain(plan))
        return ISO_OK;
    int *uses = iso_new(((size_t)plan->program->n_values + 1) * sizeof *uses);
    if (!uses)
        return iso_error(ISO_NO_MEMORY, "no memory to look at %d values", plan->program->n_values);
    count_uses(plan->program, uses);
    for (int b = 0; b < plan->buckets->count; b++)
        fuse_members(plan, b, uses);
    iso_free(uses);
    return ISO_OK;
}
