/* What a slot changes at the end of a step: the runs of weights that it updates, the variables that it writes, the gradients that
 * it copies into their buckets. Found while planning, so that a step looks nothing up. */
#include "runtime/base/memory.h"
#include "runtime/exec/bound_impl.h"

static size_t value_bytes(const iso_plan *plan, int value, int slot)
{
    iso_box box = iso_plan_box(plan, value, slot);
    return (size_t)iso_box_count(&box) * iso_dtype_size(plan->program->value[value].tensor->dtype);
}

iso_status iso_bound_make_changes(const iso_runtime *runtime, const iso_plan *plan, iso_slot_plan *sp)
{
    size_t changes = (size_t)plan->program->changes + 1;
    (void)runtime;
    sp->run = iso_new(changes * sizeof *sp->run);
    sp->assign = iso_new(changes * sizeof *sp->assign);
    sp->gradient = iso_new(changes * sizeof *sp->gradient);
    return sp->run && sp->assign && sp->gradient ? ISO_OK : iso_error(ISO_NO_MEMORY, "no memory for %zu updates", changes);
}

static void find_runs(const iso_runtime *runtime, const iso_plan *plan, int b, iso_slot_plan *sp)
{
    const iso_bucket *bucket = &plan->buckets->bucket[b];
    int slot = sp->local->slot;
    int64_t begin, count;
    iso_bucket_part(bucket, runtime->mesh, slot, &begin, &count);
    for (int m = 0; m < bucket->members; m++) {
        const iso_bucket_member *member = &bucket->member[m];
        iso_box box = iso_runtime_variable_box(runtime, member->variable, slot);
        int64_t end = member->offset + iso_box_count(&box);
        int64_t from = member->offset > begin ? member->offset : begin, to = end < begin + count ? end : begin + count;
        if (from >= to)
            continue;
        char *weights = iso_runtime_variable(runtime, member->variable, slot);
        weights += (size_t)(from - member->offset) * iso_dtype_size(bucket->dtype);
        sp->run[sp->runs++] = (iso_weight_run){.bucket = b, .begin = from, .count = to - from, .weights = weights};
    }
}

static void find_gradients(const iso_runtime *runtime, iso_ready_plan *ready, int b, int local)
{
    const iso_plan *plan = ready->plan;
    const iso_bucket *bucket = &plan->buckets->bucket[b];
    iso_slot_plan *sp = &ready->slot[local];
    char *area = (char *)iso_fabric_slot_area(runtime->fabric, sp->local->slot) + plan->bucket_offset[b];
    for (int m = 0; m < bucket->members; m++) {
        int value = plan->program->change[bucket->member[m].change].value;
        if (plan->member_copied[b][m])
            sp->gradient[sp->gradients++] =
                (iso_bound_assign){.from = iso_bound_value(runtime, ready, local, value),
                                   .to = area + (size_t)bucket->member[m].offset * iso_dtype_size(bucket->dtype),
                                   .bytes = value_bytes(plan, value, sp->local->slot)};
    }
}

/* Assigned variables: the first slot of a host that uses a copy writes it. */
static void find_assigns(const iso_runtime *runtime, iso_ready_plan *ready, int local)
{
    const iso_program *program = ready->plan->program;
    iso_slot_plan *sp = &ready->slot[local];
    for (int i = 0; i < program->changes; i++) {
        const iso_program_change *change = &program->change[i];
        if (change->apply || !iso_runtime_first_on_host(runtime, change->variable, sp->local->slot))
            continue;
        sp->assign[sp->assigns++] = (iso_bound_assign){.from = iso_bound_value(runtime, ready, local, change->value),
                                                       .to = iso_runtime_variable(runtime, change->variable, sp->local->slot),
                                                       .bytes = value_bytes(ready->plan, change->value, sp->local->slot)};
    }
}

void iso_bound_address_changes(const iso_runtime *runtime, iso_ready_plan *ready, int local)
{
    iso_slot_plan *sp = &ready->slot[local];
    sp->runs = sp->assigns = sp->gradients = 0;
    sp->fault = (double *)(void *)((char *)iso_fabric_slot_area(runtime->fabric, sp->local->slot) + ready->plan->fault_offset);
    for (int b = 0; b < ready->plan->buckets->count; b++) {
        find_runs(runtime, ready->plan, b, sp);
        find_gradients(runtime, ready, b, local);
    }
    find_assigns(runtime, ready, local);
}
