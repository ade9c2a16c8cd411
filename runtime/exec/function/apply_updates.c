/* The optimizer's part of a step. A slot sums its part of a bucket's gradients and updates that part of the
 * weights with its part of the state. It works block by block, so that a block stays in the L1 cache. */
#include "runtime/base/memory.h"
#include "runtime/base/prefetch.h"
#include "runtime/exec/function/bind_impl.h"

/* Elements of a bucket that are summed and updated at a time. */
enum { BLOCK = 3072 };

static const void *scalar(const iso_runtime *runtime, const iso_tensor *tensor, int slot)
{
    return iso_runtime_variable(runtime, ((const iso_variable_attrs *)tensor->producer->attrs)->variable,
                                slot);
}

void iso_updates_prepare(const iso_runtime *runtime, const iso_bucket *bucket, const iso_bucket_state *state,
                         const iso_program *program, int local, iso_step_rates *rates)
{
    const iso_op *apply = program->changes[bucket->members[0].change].apply;
    const iso_local_slot *slot = &runtime->locals[local];
    const iso_rates_call call = {.rule = state->rule,
                                 .optimizer = bucket->optimizer,
                                 .dtype = bucket->dtype,
                                 .iteration = scalar(runtime, apply->inputs[2], slot->slot),
                                 .rate = scalar(runtime, apply->inputs[3], slot->slot),
                                 .rates = rates};
    runtime->backend->prepare(&call, slot->side);
}

typedef struct updater {
    const iso_runtime *runtime;
    const iso_exchange *exchange; /* of the bucket */
    const iso_bucket_state *state;
    const iso_step_rates *rates;
    iso_stream *stream;
    int local, slot, pull;
    int64_t part_begin;
    size_t element;
    iso_dtype dtype;
    bool backwards;
} updater;

/* The address of optimizer slot k of element `in_part` of the slot's part of a bucket. */
static void *slot_part(const updater *u, int k, int64_t in_part)
{
    return (char *)u->state->data[u->local * u->state->n_slots + k] + (size_t)in_part * u->element;
}

/* Elements [at, at + n) of a run and their gradient. */
static iso_optimizer_run part_of_run(const updater *u, const iso_weight_run *run, int64_t at, int64_t n,
                                     const void *gradient)
{
    int64_t in_part = run->begin + at - u->part_begin;
    iso_optimizer_run part = {
        .count = n, .weights = run->weights + (size_t)at * u->element, .gradient = gradient};
    for (int k = 0; k < u->state->n_slots - (u->state->average != NULL); k++)
        part.slots[k] = slot_part(u, k, in_part);
    return part;
}

/* The same for the kernel of averages. */
static iso_optimizer_run average_of_run(const updater *u, const iso_weight_run *run, int64_t at, int64_t n)
{
    int64_t in_part = run->begin + at - u->part_begin;
    char *weights = run->weights + (size_t)at * u->element;
    return (iso_optimizer_run){.count = n,
                               .weights = weights,
                               .slots = {slot_part(u, u->state->n_slots - 1, in_part)},
                               .gradient = weights};
}

/* Updates the averages of elements whose weights are new. */
static void update_averages(const updater *u, const iso_weight_run *run, int64_t at, int64_t n)
{
    if (!u->state->average)
        return;
    iso_optimizer_run part = average_of_run(u, run, at, n);
    const iso_optimizer_call call = {
        .rule = u->state->average, .rates = &u->rates->average, .n_runs = 1, .runs = &part};
    u->runtime->backend->optimize(&call, 1, NULL, u->stream);
}

/* Updates n elements of a run, beginning at `at`, given their gradient. */
static void update(const updater *u, const iso_weight_run *run, int64_t at, int64_t n, const void *gradient)
{
    iso_optimizer_run part = part_of_run(u, run, at, n, gradient);
    const iso_optimizer_call call = {
        .rule = u->state->run, .rates = &u->rates->update, .n_runs = 1, .runs = &part};
    u->runtime->backend->optimize(&call, 1, NULL, u->stream);
    update_averages(u, run, at, n);
}

static void update_from_bucket(const updater *u, const iso_weight_run *run)
{
    _Alignas(ISO_ALIGN) double room[BLOCK];
    for (int64_t at = 0; at < run->count; at += BLOCK) {
        int64_t n = run->count - at < BLOCK ? run->count - at : BLOCK;
        if (run->shared)
            iso_prefetch_for_writing(run->weights + (size_t)at * u->element, (size_t)n * u->element);
        const void *gradient = iso_exchange_view(u->exchange, u->slot, u->pull, run->stored + at, n);
        if (!gradient) {
            iso_exchange_combine(u->exchange, u->slot, u->pull, run->stored + at, n, room);
            gradient = room;
        }
        update(u, run, at, n, gradient);
    }
}

/* ---- fused products ---- */

/* A block of a product: its offset and extent in the product, and the number of its elements. */
typedef struct block {
    int64_t offset[2], extent[2], elements;
} block;

/* Writes a block of slot i's gradient, the sum of its terms, to `sum`, or adds it. */
static void make_block(const iso_slot_product *product, int i, const block *b, bool add, void *sum)
{
    for (int t = 0; t < product->n_terms; t++) {
        const iso_product_term *term = &product->term[t];
        term->kernel[i]->run_part(&term->call[i], b->offset, b->extent, add || t > 0, sum);
    }
}

/* Sums the gradients of slots [first, first + count) of the group in the order of iso_tree_left(). The sum is
 * written to block `at` of the scratch memory; the blocks after it are free. A gradient of several terms is
 * summed before it is added, as if it were computed as a whole. */
static void add_products(const updater *u, const iso_slot_product *product, int first, int count,
                         const block *b, int at)
{
    char *sum = product->blocks + (size_t)at * product->room.block;
    if (count == 1) {
        make_block(product, first, b, false, sum);
        return;
    }
    int left = iso_tree_left(count);
    add_products(u, product, first, left, b, at);
    if (count - left == 1 && product->n_terms == 1) {
        make_block(product, first + left, b, true, sum);
        return;
    }
    add_products(u, product, first + left, count - left, b, at + 1);
    u->runtime->backend->sum(u->dtype, b->elements, sum, sum + product->room.block, sum, u->stream);
}

/* The block of the product that begins at element `at` of a run: whole rows, unless the run begins or ends
 * within a row. */
static block product_block(const iso_slot_product *product, const iso_weight_run *run, int64_t at)
{
    int64_t column = (run->first + at) % product->columns, left = run->count - at;
    block b = {.offset = {(run->first + at) / product->columns, column},
               .extent = {1, product->columns - column}};
    if (column == 0 && left >= product->columns) {
        int64_t rows = left / product->columns;
        b.extent[0] = rows < product->room.rows ? rows : product->room.rows;
    } else if (b.extent[1] > left) {
        b.extent[1] = left;
    }
    b.elements = b.extent[0] * b.extent[1];
    return b;
}

static void update_product_block(const updater *u, const iso_slot_product *product, const iso_weight_run *run,
                                 int64_t at)
{
    block b = product_block(product, run, at);
    if (run->shared)
        iso_prefetch_for_writing(run->weights + (size_t)at * u->element, (size_t)b.elements * u->element);
    add_products(u, product, 0, product->group, &b, 0);
    update(u, run, at, b.elements, product->blocks);
}

void iso_product_prepare(const iso_slot_product *product)
{
    for (int t = 0; t < product->n_terms; t++)
        for (int i = 0; i < product->group; i++)
            if (product->term[t].kernel[i]->prepare_parts)
                product->term[t].kernel[i]->prepare_parts(&product->term[t].call[i]);
}

enum { MOST_BLOCKS = 512 }; /* the number of blocks that are processed backwards together */

static void update_from_product(const updater *u, const iso_slot_product *product, const iso_weight_run *run)
{
    int64_t begin[MOST_BLOCKS];
    iso_product_prepare(product);
    for (int64_t at = 0; at < run->count;) {
        int blocks = 0;
        for (; at < run->count && blocks < MOST_BLOCKS; blocks++) {
            begin[blocks] = at;
            at += product_block(product, run, at).elements;
        }
        for (int i = 0; i < blocks; i++)
            update_product_block(u, product, run, begin[u->backwards ? blocks - 1 - i : i]);
    }
}

/* ---- where the host cannot work in the device's memory ---- */

/* Queues the sum of the slot's part of a run's gradients, on a device that gathers. Returns the address at which
 * the sum will be. */
static const void *queue_sum(const updater *u, const iso_weight_run *run, const iso_slot_sums *sums,
                             size_t offset)
{
    const void *sum = iso_exchange_view(u->exchange, u->slot, u->pull, run->stored, run->count);
    if (sum)
        return sum;
    void *memory = (char *)sums->memory + offset;
    iso_exchange_queue_combine(u->exchange, u->slot, u->pull, run->stored, run->count, memory);
    return memory;
}

/* Sums the slot's part of a run's gradients in pinned memory, and queues its copy to the device. */
static void *sum_to_device(const updater *u, const iso_weight_run *run, const iso_slot_sums *sums,
                           size_t offset)
{
    char *staging = (char *)sums->staging + offset, *memory = (char *)sums->memory + offset;
    for (int64_t at = 0; at < run->count; at += BLOCK) {
        int64_t n = run->count - at < BLOCK ? run->count - at : BLOCK;
        iso_exchange_combine(u->exchange, u->slot, u->pull, run->stored + at, n,
                             staging + (size_t)at * u->element);
    }
    u->stream->device->copy(u->stream, memory, staging, (size_t)run->count * u->element);
    return memory;
}

/* The call for the runs [first, end), which are those of one bucket. */
static iso_optimizer_call bucket_call(const updater *u, const iso_slot_plan *sp, int first, int end,
                                      size_t *offset)
{
    for (int i = first; i < end; i++) {
        const void *sum = u->stream->device->gather ? queue_sum(u, &sp->runs[i], &sp->sums, *offset)
                                                    : sum_to_device(u, &sp->runs[i], &sp->sums, *offset);
        sp->sums.runs[i] = part_of_run(u, &sp->runs[i], 0, sp->runs[i].count, sum);
        *offset += iso_aligned((size_t)sp->runs[i].count * u->element);
    }
    return (iso_optimizer_call){.rule = u->state->run,
                                .rates = &u->rates->update,
                                .faults = sp->fault_total,
                                .n_runs = end - first,
                                .runs = sp->sums.runs + first};
}

static iso_optimizer_call average_call(const updater *u, const iso_slot_plan *sp, int first, int end)
{
    for (int i = first; i < end; i++)
        sp->sums.average_runs[i] = average_of_run(u, &sp->runs[i], 0, sp->runs[i].count);
    return (iso_optimizer_call){.rule = u->state->average,
                                .rates = &u->rates->average,
                                .faults = sp->fault_total,
                                .n_runs = end - first,
                                .runs = sp->sums.average_runs + first};
}

/* ---- both ---- */

static updater updater_of(const iso_runtime *runtime, const iso_executable *executable,
                          const iso_update_state *updates, int local, int b)
{
    const iso_plan *plan = executable->plan;
    const iso_bucket *bucket = &plan->buckets->buckets[b];
    iso_local_slot *slot = executable->slot[local].local;
    int64_t begin, count;
    iso_bucket_part(bucket, runtime->mesh, slot->slot, &begin, &count);
    return (updater){
        .runtime = runtime,
        .exchange = plan->bucket_exchange[b],
        .state = &updates->state[b],
        .rates = &executable->slot[local].rates[bucket->kind],
        .stream = slot->stream,
        .local = local,
        .slot = slot->slot,
        .pull = plan->bucket_pull[b * runtime->mesh->n_slots + slot->slot],
        .part_begin = begin,
        .element = iso_dtype_size(bucket->dtype),
        .dtype = bucket->dtype,
        /* Every other step goes backwards: what the last step touched last is still in the cache. */
        .backwards = runtime->steps % 2};
}

/* The end of the runs of a bucket. */
static int end_of_bucket(const iso_slot_plan *sp, int first)
{
    int end = first + 1;
    while (end < sp->n_runs && sp->runs[end].bucket == sp->runs[first].bucket)
        end++;
    return end;
}

static void average_on_device(const iso_runtime *runtime, iso_executable *executable,
                              const iso_update_state *updates, int local)
{
    iso_slot_plan *sp = &executable->slot[local];
    int n_calls = 0;
    for (int first = 0, end; first < sp->n_runs; first = end) {
        end = end_of_bucket(sp, first);
        updater u = updater_of(runtime, executable, updates, local, sp->runs[first].bucket);
        if (u.state->average)
            sp->sums.average_calls[n_calls++] = average_call(&u, sp, first, end);
    }
    if (n_calls > 0)
        runtime->backend->optimize(sp->sums.average_calls, n_calls, &sp->sums.average_table,
                                   sp->local->stream);
}

/* All buckets at once, when all of their gradients have been summed; then the averages of the new weights. */
static void apply_on_device(const iso_runtime *runtime, iso_executable *executable,
                            const iso_update_state *updates, int local)
{
    iso_slot_plan *sp = &executable->slot[local];
    size_t offset = 0;
    int n_calls = 0;
    for (int first = 0, end; first < sp->n_runs; first = end) {
        end = end_of_bucket(sp, first);
        updater u = updater_of(runtime, executable, updates, local, sp->runs[first].bucket);
        sp->sums.calls[n_calls++] = bucket_call(&u, sp, first, end, &offset);
    }
    runtime->backend->optimize(sp->sums.calls, n_calls, &sp->sums.table, sp->local->stream);
    average_on_device(runtime, executable, updates, local);
}

void iso_updates_average(const iso_runtime *runtime, iso_executable *executable,
                         const iso_update_state *updates, int local)
{
    const iso_slot_plan *sp = &executable->slot[local];
    if (!runtime->device->host_access) {
        average_on_device(runtime, executable, updates, local);
        return;
    }
    for (int i = 0; i < sp->n_runs; i++) {
        updater u = updater_of(runtime, executable, updates, local, sp->runs[i].bucket);
        update_averages(&u, &sp->runs[i], 0, sp->runs[i].count);
    }
}

void iso_updates_apply(iso_runtime *runtime, iso_executable *executable, const iso_update_state *updates,
                       int local)
{
    const iso_slot_plan *sp = &executable->slot[local];
    if (!runtime->device->host_access) {
        apply_on_device(runtime, executable, updates, local);
        return;
    }
    for (int i = 0; i < sp->n_runs; i++) {
        const iso_weight_run *run = &sp->runs[runtime->steps % 2 ? sp->n_runs - 1 - i : i];
        updater u = updater_of(runtime, executable, updates, local, run->bucket);
        if (!u.rates->update.apply) {
            update_averages(&u, run, 0, run->count);
            continue;
        }
        if (run->product < 0)
            update_from_bucket(&u, run);
        else
            update_from_product(&u, &sp->products[run->product], run);
        sp->local->flops += run->flops;
        sp->local->taken += run->taken;
    }
}
