/* The updates of a slot at the end of a step: the runs of weights that it updates, the variables that it writes,
 * the gradients that it copies into their buckets. All are found when the plan is bound, so that a step does no
 * look-ups. */
#include "runtime/base/memory.h"
#include "runtime/exec/function/bind_impl.h"

static size_t value_bytes(const iso_plan *plan, int value, int slot)
{
    iso_box box = iso_plan_box(plan, value, slot);
    return (size_t)iso_box_count(&box) * iso_dtype_size(plan->program->values[value].tensor->dtype);
}

/* ---- fused products ---- */

static iso_status make_term(const iso_plan *plan, const iso_fused_update *fused, int number, int slot,
                            iso_product_term *term)
{
    const iso_bucket *bucket = &plan->buckets->buckets[fused->bucket];
    const iso_op *op = plan->program->steps[fused->term[number]].op;
    size_t group = (size_t)bucket->group, arrays = (size_t)op->n_inputs + 1;
    term->kernel = iso_new(group * sizeof *term->kernel);
    term->call = iso_new(group * sizeof *term->call);
    term->array = iso_new(group * arrays * sizeof *term->array);
    if (!term->kernel || !term->call || !term->array)
        return iso_no_memory("the products of %zu slots", group);
    for (int i = 0; i < bucket->group; i++) {
        iso_array *array = term->array + (size_t)i * arrays;
        int other = iso_group_slot(plan->program->mesh, bucket->axes, slot, i);
        iso_plan_call(plan, fused->term[number], other, array, array + op->n_inputs, &term->call[i]);
        term->kernel[i] = plan->site->backend->find(op->type->name, &term->call[i]);
    }
    return ISO_OK;
}

iso_status iso_product_make(const iso_plan *plan, const iso_fused_update *fused, int slot,
                            iso_slot_product *product)
{
    product->group = plan->buckets->buckets[fused->bucket].group;
    product->n_terms = fused->n_terms;
    for (int t = 0; t < fused->n_terms; t++) {
        iso_status status = make_term(plan, fused, t, slot, &product->term[t]);
        if (status != ISO_OK)
            return status;
    }
    product->columns = product->term[0].call[0].out[0].dim[1];
    product->room = iso_plan_fused_update_room(plan, fused, slot);
    return ISO_OK;
}

void iso_product_free(iso_slot_product *product)
{
    for (int t = 0; t < product->n_terms; t++) {
        iso_free(product->term[t].kernel);
        iso_free(product->term[t].call);
        iso_free(product->term[t].array);
    }
}

char *iso_fused_blocks(const iso_slot_product *product, int thread)
{
    return product->blocks + (size_t)thread * (product->room.thread + ISO_THREAD_GAP);
}

void *iso_fused_part_scratch(const iso_slot_product *product, int thread)
{
    return iso_fused_blocks(product, thread) + product->room.thread - product->room.part;
}

void iso_product_address(iso_slot_product *product, void *scratch)
{
    const iso_fused_update_room *room = &product->room;
    char *calls = scratch;
    product->blocks = calls + (size_t)product->group * room->slot_calls;
    for (int t = 0; t < product->n_terms; t++)
        for (int g = 0; g < product->group; g++)
            product->term[t].call[g].scratch = calls + (size_t)g * room->slot_calls + room->call[t];
}

/* An input of a term as slot `slot` of the group has it. */
static void *term_input(const iso_runtime *runtime, const iso_executable *executable, int local, int slot,
                        int value)
{
    return slot == runtime->locals[local].slot ? iso_executable_value(runtime, executable, local, value)
                                               : (char *)iso_fabric_slot_area(runtime->fabric, slot) +
                                                     executable->plan->location[value].offset;
}

static void address_product(const iso_runtime *runtime, iso_executable *executable, int local, int number)
{
    const iso_plan *plan = executable->plan;
    const iso_fused_update *fused = &plan->fused_updates[number];
    iso_slot_product *product = &executable->slot[local].products[number];
    uint32_t axes = plan->buckets->buckets[fused->bucket].axes;
    iso_product_address(product, iso_runtime_scratch(runtime, local));
    for (int t = 0; t < product->n_terms; t++) {
        const iso_program_step *step = &plan->program->steps[fused->term[t]];
        for (int g = 0; g < product->group; g++) {
            int slot = iso_group_slot(plan->program->mesh, axes, runtime->locals[local].slot, g);
            iso_array *array = product->term[t].array + g * (step->op->n_inputs + 1);
            product->term[t].call[g].stream = runtime->locals[local].stream;
            for (int i = 0; i < step->op->n_inputs; i++)
                if (!iso_plan_reads_term(plan, step->input[i]))
                    array[i].data = term_input(runtime, executable, local, slot, step->input[i]);
        }
    }
}

/* The cost of the run's part of a product: its share of each slot's operations, and the bytes of the other
 * slots' inputs. */
static void count_product(const iso_runtime *runtime, const iso_plan *plan, const iso_slot_plan *sp,
                          iso_weight_run *run)
{
    const iso_slot_product *product = &sp->products[run->product];
    const iso_fused_update *fused = &plan->fused_updates[run->product];
    uint32_t axes = plan->buckets->buckets[fused->bucket].axes;
    for (int i = 0; i < product->group; i++) {
        int slot = iso_group_slot(runtime->mesh, axes, sp->local->slot, i);
        const iso_array *out = product->term[0].call[i].out;
        double whole = (double)(out->dim[0] * out->dim[1]);
        run->flops += iso_plan_fused_flops(plan, fused, slot) / whole * (double)run->count;
    }
    run->taken = iso_plan_fused_bytes(plan, fused, sp->local->slot, run->first, run->count);
}

/* ---- runs of weights ---- */

static iso_status count_run(void *arg, const iso_bucket_run *run)
{
    *(size_t *)arg += run->count > 0;
    return ISO_OK;
}

static size_t count_runs(const iso_plan *plan, int slot)
{
    size_t count = 0;
    for (int b = 0; b < plan->buckets->count; b++)
        for (int m = 0; m < plan->buckets->buckets[b].n_members; m++)
            iso_bucket_visit_runs(&plan->buckets->buckets[b], &plan->buckets->buckets[b].members[m],
                                  plan->program->mesh, slot, count_run, &count);
    return count;
}

/* Bytes of all runs, each aligned. */
typedef struct run_bytes {
    size_t element, bytes;
} run_bytes;

static iso_status add_run_bytes(void *arg, const iso_bucket_run *run)
{
    run_bytes *of = arg;
    of->bytes += iso_aligned((size_t)run->count * of->element);
    return ISO_OK;
}

static iso_status make_table(const iso_runtime *runtime, size_t n_runs, const iso_slot_plan *sp,
                             iso_optimizer_table *table)
{
    table->bytes = runtime->backend->table_entry * n_runs;
    if (table->bytes == 0)
        return ISO_OK;
    table->host = iso_new(2 * table->bytes);
    return table->host
               ? iso_local_allocate(sp->local, table->bytes, "the table of an optimizer", &table->device)
               : iso_no_memory("the table of an optimizer");
}

/* The calls that update the averages of variables. */
static iso_status make_averages(const iso_runtime *runtime, const iso_plan *plan, size_t n_runs,
                                iso_slot_plan *sp)
{
    sp->sums.average_runs = iso_new(n_runs * sizeof *sp->sums.average_runs);
    sp->sums.average_calls = iso_new(((size_t)plan->buckets->count + 1) * sizeof *sp->sums.average_calls);
    return sp->sums.average_runs && sp->sums.average_calls
               ? make_table(runtime, n_runs, sp, &sp->sums.average_table)
               : iso_no_memory("the averages of variables");
}

static iso_status make_sums(const iso_runtime *runtime, const iso_plan *plan, iso_slot_plan *sp)
{
    size_t n_runs = count_runs(plan, sp->local->slot) + 1;
    bool averages = false;
    run_bytes of = {0};
    iso_status status = ISO_OK;
    for (int b = 0; b < plan->buckets->count; b++) {
        const iso_bucket *bucket = &plan->buckets->buckets[b];
        of.element = iso_dtype_size(bucket->dtype);
        averages |= bucket->optimizer->use_ema;
        for (int m = 0; m < bucket->n_members; m++)
            iso_bucket_visit_runs(bucket, &bucket->members[m], plan->program->mesh, sp->local->slot,
                                  add_run_bytes, &of);
    }
    sp->sums.runs = iso_new(n_runs * sizeof *sp->sums.runs);
    sp->sums.calls = iso_new(((size_t)plan->buckets->count + 1) * sizeof *sp->sums.calls);
    if (!sp->sums.runs || !sp->sums.calls)
        return iso_no_memory("the runs of an optimizer");
    ISO_TRY(make_table(runtime, n_runs, sp, &sp->sums.table));
    if (averages)
        ISO_TRY(make_averages(runtime, plan, n_runs, sp));
    const iso_device *device = sp->local->device;
    ISO_TRY(device->allocate(device, of.bytes, "the summed gradients of a slot", &sp->sums.memory));
    if (!device->gather)
        ISO_TRY(
            device->allocate_pinned(device, of.bytes, "the summed gradients of a slot", &sp->sums.staging));
done:
    return status;
}

iso_status iso_executable_make_updates(const iso_runtime *runtime, const iso_plan *plan, iso_slot_plan *sp)
{
    size_t changes = (size_t)plan->program->n_changes + 1;
    iso_status status = ISO_OK;
    sp->runs = iso_new((count_runs(plan, sp->local->slot) + 1) * sizeof *sp->runs);
    sp->assigns = iso_new(changes * sizeof *sp->assigns);
    sp->gradients = iso_new(changes * sizeof *sp->gradients);
    sp->products = iso_new(changes * sizeof *sp->products);
    if (!sp->runs || !sp->assigns || !sp->gradients || !sp->products)
        return iso_no_memory("%zu updates", changes);
    for (int i = 0; i < plan->n_fused_updates; i++)
        ISO_TRY(iso_product_make(plan, &plan->fused_updates[i], sp->local->slot,
                                 &sp->products[sp->n_products++]));
    if (!runtime->device->host_access)
        ISO_TRY(make_sums(runtime, plan, sp));
done:
    return status;
}

/* A slot's calls of the kernels of a product, one of each for each slot of the group. */
static size_t product_bytes(const iso_plan *plan, const iso_fused_update *fused)
{
    size_t group = (size_t)plan->buckets->buckets[fused->bucket].group, bytes = 0;
    for (int t = 0; t < fused->n_terms; t++) {
        size_t arrays = (size_t)plan->program->steps[fused->term[t]].op->n_inputs + 1;
        bytes += iso_memory_taken(group * sizeof(iso_kernel *)) +
                 iso_memory_taken(group * sizeof(iso_kernel_call)) +
                 iso_memory_taken(group * arrays * sizeof(iso_array));
    }
    return bytes;
}

size_t iso_executable_update_bytes(const iso_plan *plan)
{
    size_t changes = (size_t)plan->program->n_changes + 1;
    size_t bytes = iso_memory_taken((count_runs(plan, 0) + 1) * sizeof(iso_weight_run)) +
                   2 * iso_memory_taken(changes * sizeof(iso_bytes_copy)) +
                   iso_memory_taken(changes * sizeof(iso_slot_product));
    for (int i = 0; i < plan->n_fused_updates; i++)
        bytes += product_bytes(plan, &plan->fused_updates[i]);
    return bytes;
}

void iso_executable_free_updates(iso_slot_plan *sp)
{
    iso_local_release(sp->local, sp->sums.memory);
    iso_local_release_pinned(sp->local, sp->sums.staging);
    iso_local_release(sp->local, sp->sums.table.device);
    iso_local_release(sp->local, sp->sums.average_table.device);
    iso_free(sp->sums.table.host);
    iso_free(sp->sums.average_table.host);
    iso_free(sp->sums.runs);
    iso_free(sp->sums.average_runs);
    iso_free(sp->sums.calls);
    iso_free(sp->sums.average_calls);
    for (int i = 0; i < sp->n_products; i++)
        iso_product_free(&sp->products[i]);
    iso_free(sp->products);
    iso_free(sp->runs);
    iso_free(sp->assigns);
    iso_free(sp->gradients);
}

typedef struct run_finder {
    const iso_runtime *runtime;
    const iso_plan *plan;
    iso_slot_plan *sp;
    int bucket, product;
    bool shared;
    int64_t stored; /* add to an index of the flat range: its index in what the slot sums of the storage */
    char *weights;  /* the slot's copy of the variable */
} run_finder;

static iso_status note_run(void *arg, const iso_bucket_run *found)
{
    const run_finder *f = arg;
    iso_weight_run *run = &f->sp->runs[f->sp->n_runs++];
    const int64_t chunks = run > f->sp->runs ? run[-1].chunks + iso_update_chunks(run[-1].count) : 0;
    *run = (iso_weight_run){.bucket = f->bucket,
                            .begin = found->begin,
                            .count = found->count,
                            .stored = found->begin + f->stored,
                            .shared = f->shared,
                            .chunks = chunks,
                            .product = f->product,
                            .first = found->first};
    run->weights =
        f->weights + (size_t)found->at * iso_dtype_size(f->plan->buckets->buckets[f->bucket].dtype);
    if (run->product >= 0)
        count_product(f->runtime, f->plan, f->sp, run);
    return ISO_OK;
}

/* Whether another slot of a bucket's group is in the domain of `slot`. */
static bool is_shared(const iso_plan *plan, const iso_bucket *bucket, int slot)
{
    const int *domain = plan->site->domain_of_slot;
    for (int i = 0; i < bucket->group; i++) {
        int other = iso_group_slot(plan->program->mesh, bucket->axes, slot, i);
        if (other != slot && domain[other] == domain[slot])
            return true;
    }
    return false;
}

static void bind_updates_find_runs(const iso_runtime *runtime, const iso_plan *plan, int b, iso_slot_plan *sp)
{
    const iso_bucket *bucket = &plan->buckets->buckets[b];
    int64_t begin, count;
    iso_plan_stored_part(plan, b, sp->local->slot, &begin, &count);
    const bool shared = is_shared(plan, bucket, sp->local->slot);
    for (int m = 0; m < bucket->n_members; m++) {
        run_finder f = {.runtime = runtime,
                        .plan = plan,
                        .sp = sp,
                        .bucket = b,
                        .product = iso_plan_fused_of(plan, b, m),
                        .shared = shared,
                        .stored = plan->member_stored[b][m] - bucket->members[m].offset - begin,
                        .weights =
                            iso_runtime_variable(runtime, bucket->members[m].variable, sp->local->slot)};
        iso_bucket_visit_runs(bucket, &bucket->members[m], runtime->mesh, sp->local->slot, note_run, &f);
    }
}

static void bind_updates_find_gradients(const iso_runtime *runtime, iso_executable *executable, int b,
                                        int local)
{
    const iso_plan *plan = executable->plan;
    const iso_bucket *bucket = &plan->buckets->buckets[b];
    iso_slot_plan *sp = &executable->slot[local];
    char *area = (char *)iso_fabric_slot_area(runtime->fabric, sp->local->slot) + plan->bucket_offset[b];
    for (int m = 0; m < bucket->n_members; m++) {
        int value = plan->program->changes[bucket->members[m].change].value;
        if (plan->member_copied[b][m])
            sp->gradients[sp->n_gradients++] = (iso_bytes_copy){
                .from = iso_executable_value(runtime, executable, local, value),
                .to = area + (size_t)plan->member_stored[b][m] * iso_dtype_size(bucket->dtype),
                .bytes = value_bytes(plan, value, sp->local->slot)};
    }
}

/* Assigned variables: the first slot of a host that uses a copy writes it. */
static void find_assigns(const iso_runtime *runtime, iso_executable *executable, int local)
{
    const iso_program *program = executable->plan->program;
    iso_slot_plan *sp = &executable->slot[local];
    for (int i = 0; i < program->n_changes; i++) {
        const iso_program_change *change = &program->changes[i];
        if (change->apply || !iso_runtime_first_in_domain(runtime, change->variable, sp->local->slot))
            continue;
        sp->assigns[sp->n_assigns++] =
            (iso_bytes_copy){.from = iso_executable_value(runtime, executable, local, change->value),
                             .to = iso_runtime_variable(runtime, change->variable, sp->local->slot),
                             .bytes = value_bytes(executable->plan, change->value, sp->local->slot)};
    }
}

void iso_executable_bind_updates(const iso_runtime *runtime, iso_executable *executable, int local)
{
    iso_slot_plan *sp = &executable->slot[local];
    sp->n_runs = sp->n_assigns = sp->n_gradients = 0;
    sp->fault = (double *)(void *)((char *)iso_fabric_slot_area(runtime->fabric, sp->local->slot) +
                                   executable->plan->fault_offset);
    for (int i = 0; i < sp->n_products; i++)
        address_product(runtime, executable, local, i);
    for (int b = 0; b < executable->plan->buckets->count; b++) {
        bind_updates_find_runs(runtime, executable->plan, b, sp);
        bind_updates_find_gradients(runtime, executable, b, local);
    }
    find_assigns(runtime, executable, local);
}
