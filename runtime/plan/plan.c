#include "runtime/plan/plan.h"

#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/plan/plan_impl.h"

iso_shape iso_plan_shape(const iso_plan *plan, int value)
{
    return iso_shape_with_rows(&plan->program->values[value].tensor->shape, plan->rows);
}

iso_box iso_plan_box(const iso_plan *plan, int value, int slot)
{
    iso_shape shape = iso_plan_shape(plan, value);
    return iso_layout_box(plan->program->mesh, &plan->program->values[value].layout, &shape, slot);
}

int iso_plan_domain_of(const iso_plan *plan, int slot)
{
    return plan->site->domain_of_slot[slot];
}

bool iso_plan_in_one_domain(const iso_plan *plan)
{
    return plan->site->one_domain;
}

bool iso_plan_overlaps(const iso_plan *plan, int bucket)
{
    return plan->bucket_begin[bucket] < plan->n_instructions;
}

iso_array iso_plan_array(const iso_plan *plan, int value, int slot)
{
    iso_shape shape = iso_plan_shape(plan, value);
    iso_box box = iso_plan_box(plan, value, slot);
    iso_array array = {.dtype = plan->program->values[value].tensor->dtype, .rank = shape.rank};
    memcpy(array.dim, box.extent, sizeof array.dim);
    memcpy(array.offset, box.offset, sizeof array.offset);
    memcpy(array.global, shape.dim, sizeof array.global);
    return array;
}

void iso_plan_call(const iso_plan *plan, int number, int slot, iso_array *in, iso_array *out,
                   iso_kernel_call *call)
{
    const iso_program_step *step = &plan->program->steps[number];
    for (int i = 0; i < step->op->n_inputs; i++)
        in[i] = iso_operand_of(step->op, iso_plan_array(plan, step->input[i], slot));
    for (int i = 0; i < step->op->n_outputs; i++)
        out[i] = iso_operand_of(step->op, iso_plan_array(plan, step->output[i], slot));
    *call = (iso_kernel_call){.attrs = step->op->attrs,
                              .n_inputs = step->op->n_inputs,
                              .n_outputs = step->op->n_outputs,
                              .in = in,
                              .out = out,
                              .device = plan->site->device};
}

static iso_box whole_box(const iso_plan *plan, int value)
{
    iso_shape shape = iso_plan_shape(plan, value);
    return iso_box_whole(&shape);
}

/* Of a slot's boxes; slot -1: of the whole tensors. */
static double flops_of(const iso_plan *plan, const iso_program_step *step, int slot)
{
    iso_box in[ISO_MAX_INPUTS], out[ISO_MAX_OUTPUTS];
    for (int i = 0; i < step->op->n_inputs; i++)
        in[i] = slot < 0 ? whole_box(plan, step->input[i]) : iso_plan_box(plan, step->input[i], slot);
    for (int i = 0; i < step->op->n_outputs; i++)
        out[i] = slot < 0 ? whole_box(plan, step->output[i]) : iso_plan_box(plan, step->output[i], slot);
    return step->op->type->flops ? step->op->type->flops(step->op, in, out) : iso_box_elements(&out[0]);
}

double iso_plan_flops(const iso_plan *plan, const iso_program_step *step, int slot)
{
    return flops_of(plan, step, slot);
}

/* The axes along which the slots hold different parts of what the step reads or writes. */
static uint32_t sharded_axes(const iso_plan *plan, const iso_program_step *step)
{
    uint32_t axes = 0;
    for (int i = 0; i < step->op->n_inputs; i++)
        axes |= iso_layout_sharded_axes(&plan->program->values[step->input[i]].layout);
    for (int i = 0; i < step->op->n_outputs; i++)
        axes |= iso_layout_sharded_axes(&plan->program->values[step->output[i]].layout);
    return axes;
}

/* Of all slots, computed from the layouts alone. Slots that differ along axes that shard nothing of the step do the
 * same, and are counted once. */
static double planned_flops_of(const iso_plan *plan, const iso_program_step *step)
{
    const iso_mesh *mesh = plan->program->mesh;
    double total = 0;
    if (!step->op->type->repeats_work)
        return step->replicas * flops_of(plan, step, -1);
    uint32_t others = ~sharded_axes(plan, step);
    for (int s = 0; s < mesh->n_slots; s++) {
        int index, alike = iso_group_count(mesh, others, s, &index);
        if (index == 0)
            total += alike * flops_of(plan, step, s);
    }
    return total;
}

double iso_plan_flops_of_all(const iso_plan *plan, const iso_program_step *step)
{
    return plan->step_flops[step - plan->program->steps];
}

size_t iso_plan_copy_bytes(const iso_variable *variable, int64_t elements)
{
    return iso_padded((size_t)elements * iso_dtype_size(variable->dtype));
}

static double planned_flops(iso_plan *plan)
{
    double total = 0;
    for (int k = 0; k < plan->program->n_steps; k++) {
        const iso_program_step *step = &plan->program->steps[k];
        if (!step->op)
            continue;
        plan->step_flops[k] = planned_flops_of(plan, step);
        total += iso_plan_is_alias(step->op) ? 0 : plan->step_flops[k];
    }
    return total;
}

/* ---- sizes ---- */

#define MOST_BYTES 0x1p57 /* of a slot: as many as an address can tell apart */

/* Of the largest slot; a product in double cannot overflow. */
static double largest_bytes(const iso_plan *plan, const iso_layout *layout, const iso_shape *shape,
                            iso_dtype dtype)
{
    return (double)iso_layout_largest(plan->program->mesh, layout, shape) * (double)iso_dtype_size(dtype);
}

/* So that no later sum of a slot's bytes overflows. */
static iso_status check_sizes(const iso_plan *plan)
{
    const iso_program *program = plan->program;
    char need[32], most[32];
    double bytes = 0;
    for (int i = 0; i < program->n_variables; i++) {
        const iso_variable *variable = program->graph->variables[i];
        bytes += largest_bytes(plan, &program->variable_layout[i], &variable->shape, variable->dtype);
    }
    for (int v = 0; v < program->n_values; v++) {
        iso_shape shape = iso_plan_shape(plan, v);
        bytes += largest_bytes(plan, &program->values[v].layout, &shape, program->values[v].tensor->dtype);
    }
    return bytes <= MOST_BYTES
               ? ISO_OK
               : iso_error(ISO_INVALID,
                           "the variables and the values of ops on one slot have %s in all with %lld rows; "
                           "at most %s are possible",
                           iso_text_scaled(bytes, "B", need, sizeof need), (long long)plan->rows,
                           iso_text_scaled(MOST_BYTES, "B", most, sizeof most));
}

static bool allocate_members(const iso_plan *plan, int b)
{
    size_t members = (size_t)plan->buckets->buckets[b].n_members + 1;
    plan->member_copied[b] = iso_new(members);
    plan->member_stored[b] = iso_new(members * sizeof **plan->member_stored);
    plan->member_live[b] = iso_new(members * sizeof **plan->member_live);
    return plan->member_copied[b] && plan->member_stored[b] && plan->member_live[b];
}

static iso_status allocate(iso_plan *plan)
{
    size_t values = (size_t)plan->program->n_values + 1, buckets = (size_t)plan->buckets->count;
    plan->location = iso_new(values * sizeof *plan->location);
    plan->root = iso_new(values * sizeof *plan->root);
    plan->live_range = iso_new(values * sizeof *plan->live_range);
    plan->member_live = iso_new((buckets + 1) * sizeof *plan->member_live);
    plan->bucket_offset = iso_new((buckets + 1) * sizeof *plan->bucket_offset);
    plan->bucket_stored = iso_new((buckets + 1) * sizeof *plan->bucket_stored);
    plan->member_stored = iso_new((buckets + 1) * sizeof *plan->member_stored);
    plan->bucket_begin = iso_new((buckets + 1) * sizeof *plan->bucket_begin);
    plan->bucket_exchange = iso_new((buckets + 1) * sizeof *plan->bucket_exchange);
    plan->bucket_gather_end = iso_new((buckets + 1) * sizeof *plan->bucket_gather_end);
    plan->bucket_gather = iso_new((buckets + 1) * sizeof *plan->bucket_gather);
    plan->fused_updates = iso_new(((size_t)plan->program->n_changes + 1) * sizeof *plan->fused_updates);
    plan->step_fused = iso_new((size_t)plan->program->n_steps + 1);
    plan->step_flops = iso_new(((size_t)plan->program->n_steps + 1) * sizeof *plan->step_flops);
    plan->member_copied = iso_new((buckets + 1) * sizeof *plan->member_copied);
    bool all = plan->location && plan->root && plan->live_range && plan->member_live && plan->bucket_offset &&
               plan->bucket_begin && plan->bucket_exchange && plan->bucket_gather_end &&
               plan->bucket_gather && plan->fused_updates && plan->step_fused && plan->member_copied &&
               plan->bucket_stored && plan->member_stored && plan->step_flops;
    for (size_t b = 0; all && b < buckets; b++)
        all = allocate_members(plan, (int)b);
    return all ? ISO_OK : iso_no_memory("a plan of %zu values", values);
}

iso_status iso_plan_create(const iso_program *program, const iso_bucket_list *buckets, const iso_site *site,
                           int64_t rows, iso_plan **out)
{
    iso_status status = ISO_OK;
    iso_plan *plan = iso_new(sizeof *plan);
    if (!plan)
        return iso_no_memory("a plan");
    *plan = (iso_plan){.program = program, .buckets = buckets, .site = site, .rows = rows};
    ISO_TRY(check_sizes(plan));
    ISO_TRY(allocate(plan));
    ISO_TRY(iso_plan_fuse_updates(plan));
    ISO_TRY(iso_plan_schedule(plan));
    iso_plan_find_roots(plan);
    ISO_TRY(iso_plan_begin_buckets(plan));
    ISO_TRY(iso_plan_assign_buffers(plan));
    plan->flops = planned_flops(plan);
    *out = plan;
    return ISO_OK;
done:
    iso_plan_destroy(plan);
    return status;
}

void iso_plan_destroy(iso_plan *plan)
{
    if (!plan)
        return;
    for (int i = 0; i < plan->n_instructions; i++)
        if (plan->instructions[i].kind == ISO_EXCHANGE)
            iso_exchange_destroy(plan->instructions[i].exchange);
    for (int b = 0; plan->bucket_exchange && b < plan->buckets->count; b++)
        if (plan->bucket_exchange[b] != plan->epilogue)
            iso_exchange_destroy(plan->bucket_exchange[b]);
    iso_exchange_destroy(plan->faults);
    iso_exchange_destroy(plan->epilogue);
    iso_exchange_destroy(plan->weight_gather);
    for (int b = 0; plan->member_copied && b < plan->buckets->count; b++)
        iso_free(plan->member_copied[b]);
    for (int b = 0; plan->member_stored && b < plan->buckets->count; b++)
        iso_free(plan->member_stored[b]);
    for (int b = 0; plan->member_live && b < plan->buckets->count; b++)
        iso_free(plan->member_live[b]);
    iso_free(plan->member_copied);
    iso_free(plan->member_stored);
    iso_free(plan->bucket_stored);
    iso_free(plan->instructions);
    iso_free(plan->moves);
    iso_free(plan->location);
    iso_free(plan->root);
    iso_free(plan->live_range);
    iso_free(plan->member_live);
    iso_free(plan->bucket_offset);
    iso_free(plan->bucket_begin);
    iso_free(plan->bucket_exchange);
    iso_free(plan->bucket_gather_end);
    iso_free(plan->bucket_gather);
    iso_free(plan->bucket_pull);
    iso_free(plan->fused_updates);
    iso_free(plan->step_fused);
    iso_free(plan->step_flops);
    iso_free(plan);
}
