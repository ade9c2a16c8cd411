#include "runtime/exec/function/bind_impl.h"

#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/graph/graph_impl.h"

/* ---- choosing kernels ---- */

static iso_status no_kernel(const iso_runtime *runtime, const iso_op *op, const iso_kernel_call *call)
{
    char shape[160];
    iso_shape first = {.rank = call->n_inputs ? call->in[0].rank : 0};
    for (int d = 0; d < first.rank; d++)
        first.dim[d] = call->in[0].dim[d];
    return iso_error(ISO_FAILED, "the %s backend has no kernel for the op '%s' on %s of %s",
                     runtime->backend->name, op->type->name, iso_shape_text(&first, shape, sizeof shape),
                     call->n_inputs ? iso_dtype_name(call->in[0].dtype) : "nothing");
}

static bool in_same_memory(const iso_location *a, const iso_location *b)
{
    return a->kind == b->kind && (a->kind == ISO_LOCATION_ARENA || a->kind == ISO_LOCATION_SHARED) &&
           a->offset == b->offset;
}

/* Decides how the threads of the slot divide the kernel's work. */
static iso_status divide_kernel(const iso_runtime *runtime, const iso_slot_plan *sp, const iso_op *op,
                                iso_slot_instruction *bound)
{
    iso_division division;
    const int threads = iso_thread_pool_size(iso_runtime_intra_op(runtime, sp->local->thread));
    if (!iso_division_choose(op, bound->kernel, &bound->call, threads, &division))
        return ISO_OK;
    bound->division = iso_new(sizeof division);
    if (!bound->division)
        return iso_no_memory("how threads divide the work of an op");
    *bound->division = division;
    return ISO_OK;
}

static iso_status bind_kernel(iso_runtime *runtime, iso_executable *executable, iso_slot_plan *sp, int i)
{
    const iso_plan *plan = executable->plan;
    const iso_program_step *step = &plan->program->steps[plan->instructions[i].step];
    iso_slot_instruction *bound = &sp->instruction[i];
    iso_plan_call(plan, plan->instructions[i].step, sp->local->slot, bound->array,
                  bound->array + step->op->n_inputs, &bound->call);
    bound->call.stream = sp->local->stream; /* whose device the kernel is found for */
    bound->kernel = runtime->backend->find(step->op->type->name, &bound->call);
    if (!bound->kernel)
        return no_kernel(runtime, step->op, &bound->call);
    int root = plan->root[step->output[0]];
    for (int k = 0; k < step->op->n_inputs; k++)
        if (root != step->output[0] && !bound->kernel->in_place &&
            in_same_memory(&plan->location[step->input[k]], &plan->location[step->output[0]]))
            return iso_error(ISO_FAILED, "kernel %s of op '%s' cannot work in place as planned",
                             bound->kernel->name, step->op->type->name);
    bound->flops = iso_plan_flops(plan, step, sp->local->slot);
    return divide_kernel(runtime, sp, step->op, bound);
}

static iso_status note_region(void *arg, const iso_region *region)
{
    iso_box_copy *copy = arg;
    copy->region = region->box;
    copy->from_box = region->source_box[0];
    copy->empty = false;
    return ISO_OK;
}

iso_status iso_bind_copy(const iso_plan *plan, int slot, int step_number, iso_box_copy *copy)
{
    const iso_program_step *step = &plan->program->steps[step_number];
    const iso_program_value *from = &plan->program->values[step->input[0]],
                            *to = &plan->program->values[step->output[0]];
    iso_shape shape = iso_plan_shape(plan, step->input[0]);
    copy->empty = true;
    copy->element = iso_dtype_size(from->tensor->dtype);
    copy->to_box = iso_layout_box(plan->program->mesh, &to->layout, &shape, slot);
    iso_status status =
        iso_reshard_visit(plan->program->mesh, &from->layout, &to->layout, &shape, slot, note_region, copy);
    copy->zero = iso_box_count(&copy->to_box) > (copy->empty ? 0 : iso_box_count(&copy->region));
    copy->whole = !copy->empty && iso_box_equal(&copy->from_box, &copy->to_box) &&
                  iso_box_equal(&copy->region, &copy->to_box);
    return status;
}

/* The row with which a slot begins to read its part of an input. Slots that read the same rows begin at different
 * ones: what one of them has read comes to the others from its cache, not from memory. */
static int64_t bind_turn(const iso_plan *plan, int value, const iso_array *array, int slot)
{
    const uint32_t axes = ~iso_layout_sharded_axes(&plan->program->values[value].layout);
    int index, count = iso_group_count(plan->program->mesh, axes, slot, &index);
    return array->rank > 0 && plan->program->mesh->n_slots > 1 ? array->dim[0] * index / count : 0;
}

/* Allocates the buffers through which a batch goes, if the host cannot write a slot's memory, and starts the threads
 * that read it. */
static iso_status make_buffers(iso_runtime *runtime, const iso_local_slot *slot, const iso_array *array,
                               iso_slot_instruction *bound)
{
    const size_t bytes = iso_array_bytes(array);
    iso_status status = ISO_OK;
    if (slot->device->host_access)
        return ISO_OK;
    for (int i = 0; i < ISO_ASYNC_STEPS; i++) {
        ISO_TRY(iso_local_allocate_pinned(slot, bytes, "a slot's input", &bound->staging[i]));
        if (iso_plan_buffers_input(bytes))
            ISO_TRY(iso_local_allocate(slot, bytes, "a slot's input", &bound->device_buffer[i]));
    }
    if (bytes >= ISO_LARGE_READ)
        status = iso_runtime_start_readers(runtime);
done:
    return status;
}

static iso_status bind_slot(iso_runtime *runtime, iso_executable *executable, iso_slot_plan *sp)
{
    const iso_plan *plan = executable->plan;
    iso_status status = ISO_OK;
    iso_array *array = sp->arrays;
    iso_box_copy *copy = sp->copies;
    for (int i = 0; i < plan->n_instructions; i++) {
        const iso_instruction *instruction = &plan->instructions[i];
        iso_slot_instruction *bound = &sp->instruction[i];
        bound->kind = instruction->kind;
        bound->array = array;
        if (instruction->kind == ISO_KERNEL) {
            array += plan->program->steps[instruction->step].op->n_inputs +
                     plan->program->steps[instruction->step].op->n_outputs;
            ISO_TRY(bind_kernel(runtime, executable, sp, i));
        } else if (instruction->kind == ISO_READ) {
            const int value = plan->program->input_value[instruction->input];
            bound->input = instruction->input;
            *array = iso_plan_array(plan, value, sp->local->slot);
            bound->turn = bind_turn(plan, value, array, sp->local->slot);
            ISO_TRY(make_buffers(runtime, sp->local, array++, bound));
        } else if (instruction->kind == ISO_COPY) {
            bound->copy = copy++;
            ISO_TRY(iso_bind_copy(plan, sp->local->slot, instruction->step, bound->copy));
        }
    }
done:
    return status;
}

/* ---- constants ---- */

void iso_bind_constants(const iso_plan *plan, int slot, void *data)
{
    for (int v = 0; v < plan->program->n_values; v++) {
        const iso_program_value *value = &plan->program->values[v];
        if (value->step >= 0 || plan->location[v].kind != ISO_LOCATION_CONSTANT)
            continue;
        const iso_constant_attrs *attrs = value->tensor->producer->attrs;
        iso_box box = iso_plan_box(plan, v, slot);
        for (int64_t i = 0; i < iso_box_count(&box); i++)
            iso_element_set((char *)data + plan->location[v].offset, attrs->dtype, i,
                            attrs->values[iso_box_global_index(&box, &attrs->shape, i)]);
    }
}

static iso_status fill_constants(const iso_executable *executable, iso_slot_plan *sp)
{
    const iso_plan *plan = executable->plan;
    iso_mapping mapping;
    iso_status status = ISO_OK;
    ISO_TRY(iso_local_allocate(sp->local, plan->constant_bytes, "the constants of a plan", &sp->constants));
    ISO_TRY(iso_map_to_write(sp->local->stream, sp->constants, plan->constant_bytes, &mapping));
    iso_bind_constants(plan, sp->local->slot, mapping.data);
    status = iso_unmap(ISO_OK, &mapping);
done:
    return status;
}

/* ---- making and freeing ---- */

static size_t count_arrays(const iso_plan *plan)
{
    size_t count = 1;
    for (int i = 0; i < plan->n_instructions; i++) {
        const iso_program_step *step = &plan->program->steps[plan->instructions[i].step];
        count +=
            plan->instructions[i].kind == ISO_KERNEL ? (size_t)(step->op->n_inputs + step->op->n_outputs) : 1;
    }
    return count;
}

static size_t count_copies(const iso_plan *plan)
{
    size_t count = 0;
    for (int i = 0; i < plan->n_instructions; i++)
        count += plan->instructions[i].kind == ISO_COPY;
    return count;
}

static size_t rates_bytes(const iso_plan *plan)
{
    return (size_t)plan->buckets->kinds * sizeof(iso_step_rates);
}

size_t iso_executable_table_bytes(const iso_plan *plan)
{
    size_t instructions = (size_t)plan->n_instructions + 1;
    return iso_memory_taken(instructions * sizeof(iso_slot_instruction)) +
           iso_memory_taken(count_arrays(plan) * sizeof(iso_array)) +
           iso_memory_taken(count_copies(plan) * sizeof(iso_box_copy)) +
           iso_memory_taken(instructions * sizeof(iso_thunk)) +
           iso_memory_taken(instructions * sizeof(iso_sequence *)) + iso_memory_taken(rates_bytes(plan)) +
           iso_memory_taken(sizeof(double)) + iso_executable_update_bytes(plan);
}

/* The number of faults: where the exchanges write it. */
static iso_status allocate_total(const iso_local_slot *slot, void **total)
{
    return slot->device->gather
               ? iso_local_allocate(slot, sizeof(double), "the faults of a step", total)
               : iso_local_allocate_pinned(slot, sizeof(double), "the faults of a step", total);
}

static void release_total(const iso_local_slot *slot, void *total)
{
    if (slot->device->gather)
        iso_local_release(slot, total);
    else
        iso_local_release_pinned(slot, total);
}

static iso_status make_slot(iso_runtime *runtime, iso_executable *executable, int i)
{
    iso_status status = ISO_OK;
    iso_slot_plan *sp = &executable->slot[i];
    size_t instructions = (size_t)executable->plan->n_instructions + 1;
    sp->local = &runtime->locals[i];
    sp->instruction = iso_new(instructions * sizeof *sp->instruction);
    sp->arrays = iso_new(count_arrays(executable->plan) * sizeof *sp->arrays);
    sp->copies = iso_new(count_copies(executable->plan) * sizeof *sp->copies);
    sp->thunks = iso_new(instructions * sizeof *sp->thunks);
    sp->sequences = iso_new(instructions * sizeof *sp->sequences);
    if (!sp->instruction || !sp->arrays || !sp->copies || !sp->thunks || !sp->sequences)
        return iso_no_memory("a plan of %zu instructions", instructions);
    ISO_TRY(iso_executable_make_updates(runtime, executable->plan, sp));
    void *total = NULL, *rates = NULL;
    ISO_TRY(allocate_total(sp->local, &total));
    sp->fault_total = total;
    ISO_TRY(iso_local_allocate(sp->local, rates_bytes(executable->plan), "the rates of a slot", &rates));
    sp->rates = rates;
    ISO_TRY(fill_constants(executable, sp));
    ISO_TRY(bind_slot(runtime, executable, sp));
done:
    return status;
}

static void discard_sequences(const iso_runtime *runtime, iso_slot_plan *sp)
{
    for (int i = 0; i < sp->n_sequences; i++)
        runtime->backend->discard(sp->sequences[i]);
    sp->n_sequences = 0;
}

static void free_buffers(const iso_device *device, const iso_slot_instruction *instruction,
                         const iso_plan *plan)
{
    for (int i = 0; instruction && plan && i < plan->n_instructions; i++)
        for (int k = 0; k < ISO_ASYNC_STEPS; k++) {
            device->release_pinned(device, instruction[i].staging[k]);
            device->release(device, instruction[i].device_buffer[k]);
        }
}

static void free_divisions(const iso_slot_instruction *instruction, const iso_plan *plan)
{
    for (int i = 0; instruction && plan && i < plan->n_instructions; i++)
        iso_free(instruction[i].division);
}

/* All but the plan. */
static void executable_free(iso_runtime *runtime, iso_executable *executable)
{
    iso_step_drop_graphs(runtime, executable);
    for (int i = 0; executable->slot && i < runtime->n_locals; i++) {
        free_buffers(runtime->locals[i].device, executable->slot[i].instruction, executable->plan);
        free_divisions(executable->slot[i].instruction, executable->plan);
        iso_free(executable->slot[i].instruction);
        iso_free(executable->slot[i].arrays);
        iso_free(executable->slot[i].copies);
        discard_sequences(runtime, &executable->slot[i]);
        iso_free(executable->slot[i].sequences);
        iso_free(executable->slot[i].thunks);
        iso_local_release(&runtime->locals[i], executable->slot[i].constants);
        release_total(&runtime->locals[i], executable->slot[i].fault_total);
        iso_local_release(&runtime->locals[i], executable->slot[i].rates);
        if (executable->slot[i].local)
            iso_executable_free_updates(&executable->slot[i]);
    }
    iso_free(executable->reads);
    iso_free(executable->scratch);
    iso_free(executable->slot);
    iso_free(executable);
}

iso_status iso_executable_create(iso_runtime *runtime, iso_plan *plan, iso_executable **out)
{
    iso_status status = ISO_OK;
    iso_executable *executable = iso_new(sizeof *executable);
    if (!executable)
        return iso_no_memory("a plan");
    executable->plan = plan;
    executable->slot = iso_new(((size_t)runtime->n_locals + 1) * sizeof *executable->slot);
    executable->scratch = iso_new(((size_t)runtime->n_scratch + 1) * sizeof *executable->scratch);
    if (!executable->slot || !executable->scratch)
        ISO_TRY(iso_no_memory("a plan"));
    for (int i = 0; i < runtime->n_locals; i++)
        ISO_TRY(make_slot(runtime, executable, i));
    *out = executable;
    return ISO_OK;
done:
    executable_free(runtime, executable); /* the plan is still the caller's */
    return status;
}

void iso_executable_destroy(iso_runtime *runtime, iso_executable *executable)
{
    if (!executable)
        return;
    iso_plan *plan = executable->plan;
    executable_free(runtime, executable);
    iso_plan_destroy(plan);
}

static size_t scratch_of_instruction(const iso_slot_instruction *bound)
{
    if (bound->kind != ISO_KERNEL)
        return 0;
    if (bound->division)
        return iso_division_scratch(bound->division);
    return bound->kernel->scratch ? bound->kernel->scratch(&bound->call) : 0;
}

static size_t scratch_of_slot(const iso_plan *plan, const iso_slot_plan *sp, int threads)
{
    size_t most = 0;
    for (int i = 0; i < plan->n_instructions; i++) {
        size_t bytes = scratch_of_instruction(&sp->instruction[i]);
        most = bytes > most ? bytes : most;
    }
    for (int i = 0; i < sp->n_products; i++) {
        size_t bytes = iso_fused_update_bytes(&sp->products[i].room, threads);
        most = bytes > most ? bytes : most;
    }
    return most;
}

void iso_executable_count_scratch(const iso_runtime *runtime, const iso_executable *executable)
{
    memset(executable->scratch, 0, (size_t)runtime->n_scratch * sizeof *executable->scratch);
    for (int i = 0; i < runtime->n_locals; i++) {
        size_t *most = &executable->scratch[iso_runtime_scratch_of(runtime, i)];
        int threads = iso_thread_pool_size(iso_runtime_intra_op(runtime, runtime->locals[i].thread));
        size_t bytes = scratch_of_slot(executable->plan, &executable->slot[i], threads);
        *most = bytes > *most ? bytes : *most;
    }
}

/* ---- addresses ---- */

void *iso_executable_value(const iso_runtime *runtime, const iso_executable *executable, int local, int value)
{
    const iso_location *location = &executable->plan->location[value];
    switch (location->kind) {
    case ISO_LOCATION_ARENA:
        return (char *)runtime->locals[local].arena + location->offset;
    case ISO_LOCATION_SHARED:
        return (char *)iso_fabric_slot_area(runtime->fabric, runtime->locals[local].slot) + location->offset;
    case ISO_LOCATION_VARIABLE:
        return iso_runtime_variable(runtime, location->variable, runtime->locals[local].slot);
    case ISO_LOCATION_CONSTANT:
        return (char *)executable->slot[local].constants + location->offset;
    default:
        return NULL;
    }
}

static void address_instruction(iso_runtime *runtime, iso_executable *executable, int local, int i)
{
    const iso_plan *plan = executable->plan;
    const iso_program_step *step = &plan->program->steps[plan->instructions[i].step];
    iso_slot_instruction *bound = &executable->slot[local].instruction[i];
    iso_local_slot *slot = &runtime->locals[local];
    if (bound->kind == ISO_KERNEL) {
        for (int k = 0; k < step->op->n_inputs; k++)
            bound->array[k].data = iso_executable_value(runtime, executable, local, step->input[k]);
        for (int k = 0; k < step->op->n_outputs; k++)
            bound->array[step->op->n_inputs + k].data =
                iso_executable_value(runtime, executable, local, step->output[k]);
        bound->call.scratch = iso_runtime_scratch(runtime, local);
        bound->call.info = slot->info;
        bound->call.fault = slot->kernel_fault;
        bound->call.instruction = i;
    } else if (bound->kind == ISO_READ) {
        bound->array->data =
            iso_executable_value(runtime, executable, local, plan->program->input_value[bound->input]);
    } else if (bound->kind == ISO_COPY) {
        bound->copy->from = iso_executable_value(runtime, executable, local, step->input[0]);
        bound->copy->to = iso_executable_value(runtime, executable, local, step->output[0]);
    }
}

/* ---- sequences ---- */

static bool is_in_sequence(const iso_slot_instruction *bound)
{
    return bound->kind == ISO_KERNEL || bound->kind == ISO_COPY;
}

/* Of the instructions [first, end). */
static iso_status add_sequence(const iso_runtime *runtime, iso_slot_plan *sp, int first, int end)
{
    iso_status status = runtime->backend->sequence(sp->thunks + first, end - first, sp->local->stream,
                                                   &sp->sequences[sp->n_sequences]);
    if (status != ISO_OK)
        return status;
    for (int i = first; i < end; i++) {
        sp->instruction[i].sequence = sp->sequences[sp->n_sequences];
        sp->instruction[i].in_sequence = i - first;
        sp->instruction[i].rest = end - i;
    }
    sp->n_sequences++;
    return ISO_OK;
}

static const iso_op *op_of(const iso_plan *plan, int instruction)
{
    return plan->program->steps[plan->instructions[instruction].step].op;
}

iso_status iso_executable_capture(const iso_runtime *runtime, const iso_executable *executable, int local)
{
    const iso_slot_plan *sp = &executable->slot[local];
    iso_status status = ISO_OK;
    for (int i = 0; runtime->backend->capture && i < sp->n_sequences && status == ISO_OK; i++)
        status = runtime->backend->capture(sp->sequences[i]);
    return status;
}

/* Between exchanges and reads of the batch. */
iso_status iso_executable_sequence(const iso_runtime *runtime, const iso_executable *executable, int local,
                                   iso_device_timer *timer)
{
    const iso_plan *plan = executable->plan;
    iso_slot_plan *sp = &executable->slot[local];
    int n_instructions = plan->n_instructions;
    iso_status status = ISO_OK;
    discard_sequences(runtime, sp);
    for (int i = 0; i < n_instructions; i++) {
        const iso_slot_instruction *bound = &sp->instruction[i];
        sp->thunks[i] =
            (iso_thunk){.kernel = bound->kernel,
                        .call = &bound->call,
                        .copy = bound->copy,
                        .division = bound->division,
                        .intra_op = iso_runtime_intra_op(runtime, sp->local->thread),
                        .layer = bound->kernel ? iso_op_layer(plan->program->graph, op_of(plan, i)) : NULL,
                        .timer = timer,
                        .moment = iso_instruction_moment(i)};
    }
    for (int first = 0, end; first < n_instructions && status == ISO_OK; first = end + 1) {
        for (end = first; end < n_instructions && is_in_sequence(&sp->instruction[end]);)
            end++;
        if (end > first)
            status = add_sequence(runtime, sp, first, end);
    }
    return status;
}

/* A slot whose targets are bound. */
typedef struct target_finder {
    const iso_runtime *runtime;
    const iso_executable *executable;
    int local;
} target_finder;

/* The gradients of buckets have no address: the optimizer combines them itself. */
static void *address_of_target(void *arg, int target)
{
    const target_finder *f = arg;
    const iso_plan *plan = f->executable->plan;
    if (target < plan->program->n_values)
        return iso_executable_value(f->runtime, f->executable, f->local, target);
    return target == plan->fault_target ? f->executable->slot[f->local].fault_total : NULL;
}

/* New weights go straight into the host's copies. */
static void *address_of_weights(void *arg, int target)
{
    const target_finder *f = arg;
    return iso_runtime_variable(f->runtime, f->runtime->graph->variables[target],
                                f->runtime->locals[f->local].slot);
}

/* The exchanges of one slot. */
static void bind_exchanges(const iso_runtime *runtime, const iso_executable *executable, int local)
{
    const iso_plan *plan = executable->plan;
    int slot = runtime->locals[local].slot;
    target_finder finder = {runtime, executable, local};
    for (int i = 0; i < plan->n_instructions; i++)
        if (plan->instructions[i].kind == ISO_EXCHANGE && plan->instructions[i].payload == ISO_PAYLOAD_MOVES)
            iso_exchange_bind_all(plan->instructions[i].exchange, slot, address_of_target, &finder);
    iso_exchange_bind_all(plan->epilogue, slot, address_of_target, &finder);
    if (plan->faults)
        iso_exchange_bind(plan->faults, slot, plan->fault_target, executable->slot[local].fault + 1);
    if (plan->weight_gather)
        iso_exchange_bind_all(plan->weight_gather, slot, address_of_weights, &finder);
    for (int b = 0; b < plan->buckets->count; b++)
        if (plan->bucket_gather[b])
            iso_exchange_bind_all(plan->bucket_gather[b], slot, address_of_weights, &finder);
}

iso_status iso_executable_bind(iso_runtime *runtime, iso_executable *executable)
{
    iso_plan *plan = executable->plan;
    iso_status status = iso_runtime_finish(runtime);
    iso_step_drop_graphs(runtime, executable);
    executable->ran = 0; /* the first run sends the new addresses to the devices, which a capture must not */
    for (int l = 0; l < runtime->n_locals; l++) {
        for (int i = 0; i < plan->n_instructions; i++)
            address_instruction(runtime, executable, l, i);
        iso_executable_bind_updates(runtime, executable, l);
        if (status == ISO_OK)
            status = iso_executable_sequence(runtime, executable, l, NULL);
        bind_exchanges(runtime, executable, l);
    }
    if (status == ISO_OK)
        executable->generation = runtime->generation;
    return status;
}
