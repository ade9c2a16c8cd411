/* The optimizer's part of a step. A slot sums its part of a bucket's gradients and updates that part of the
 * weights with its part of the state. It works block by block, so that a block stays in the L1 cache. */
#include "runtime/base/memory.h"
#include "runtime/base/prefetch.h"
#include "runtime/exec/function/bind_impl.h"

enum { BLOCK = ISO_UPDATE_BLOCK };

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
    iso_thread_pool *intra_op;
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

/* Elements [begin, end) of a run. */
static void update_from_bucket(const updater *u, const iso_weight_run *run, int64_t begin, int64_t end)
{
    _Alignas(ISO_ALIGN) double room[BLOCK];
    for (int64_t at = begin; at < end; at += BLOCK) {
        int64_t n = end - at < BLOCK ? end - at : BLOCK;
        if (run->shared)
            iso_prefetch_for_writing(run->weights + (size_t)at * u->element, (size_t)n * u->element);
        const void *gradient = iso_exchange_view(u->exchange, u->slot, u->pull, run->stored + at);
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

/* A thread that computes blocks of a product and updates their weights. */
typedef struct product_thread {
    const updater *u;
    const iso_slot_product *product;
    char *blocks;
    void *part_scratch;
} product_thread;

/* Writes a block of slot i's gradient, the sum of its terms, to `sum`, or adds it. */
static void make_block(const product_thread *p, int i, const block *b, bool add, void *sum)
{
    for (int t = 0; t < p->product->n_terms; t++) {
        const iso_product_term *term = &p->product->term[t];
        term->kernel[i]->run_part(&term->call[i], b->offset, b->extent, add || t > 0, sum, p->part_scratch);
    }
}

/* Sums the gradients of slots [first, first + count) of the group in the order of iso_tree_left(). The sum is
 * written to block `at` of the scratch memory; the blocks after it are free. A gradient of several terms is
 * summed before it is added, as if it were computed as a whole. */
static void add_products(const product_thread *p, int first, int count, const block *b, int at)
{
    const updater *u = p->u;
    char *sum = p->blocks + (size_t)at * p->product->room.block;
    if (count == 1) {
        make_block(p, first, b, false, sum);
        return;
    }
    int left = iso_tree_left(count);
    add_products(p, first, left, b, at);
    if (count - left == 1 && p->product->n_terms == 1) {
        make_block(p, first + left, b, true, sum);
        return;
    }
    add_products(p, first + left, count - left, b, at + 1);
    u->runtime->backend->sum(u->dtype, b->elements, sum, sum + p->product->room.block, sum, u->stream);
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

static void update_product_block(const product_thread *p, const iso_weight_run *run, int64_t at)
{
    const updater *u = p->u;
    block b = product_block(p->product, run, at);
    if (run->shared)
        iso_prefetch_for_writing(run->weights + (size_t)at * u->element, (size_t)b.elements * u->element);
    add_products(p, 0, p->product->group, &b, 0);
    update(u, run, at, b.elements, p->blocks);
}

void iso_product_prepare(const iso_slot_product *product)
{
    for (int t = 0; t < product->n_terms; t++)
        for (int i = 0; i < product->group; i++)
            if (product->term[t].kernel[i]->prepare_parts)
                product->term[t].kernel[i]->prepare_parts(&product->term[t].call[i]);
}

enum { MOST_BLOCKS = 512 }; /* the number of blocks that are processed backwards together */

/* Elements [at, end) of a run, which are whole blocks. */
static void update_product_blocks(const product_thread *p, const iso_weight_run *run, int64_t at, int64_t end)
{
    int64_t begin[MOST_BLOCKS];
    while (at < end) {
        int blocks = 0;
        for (; at < end && blocks < MOST_BLOCKS; blocks++) {
            begin[blocks] = at;
            at += product_block(p->product, run, at).elements;
        }
        for (int i = 0; i < blocks; i++)
            update_product_block(p, run, begin[p->u->backwards ? blocks - 1 - i : i]);
    }
}

/* A run that a product updates, in chunks of about ISO_UPDATE_CHUNK elements: of whole blocks, so that the blocks are
 * those of the whole run. */
typedef struct product_loop {
    const updater *u;
    const iso_slot_product *product;
    const iso_weight_run *run;
    int64_t head, chunk,
        n_chunks; /* elements before the first whole row, and of a chunk; the first has the head too */
} product_loop;

static product_loop loop_of_product(const updater *u, const iso_slot_product *product,
                                    const iso_weight_run *run)
{
    product_loop l = {.u = u, .product = product, .run = run};
    const int64_t block_elements = product->room.rows * product->columns,
                  column = run->first % product->columns;
    l.head = column > 0 ? product->columns - column : 0;
    l.chunk = ISO_UPDATE_CHUNK / block_elements > 1 ? ISO_UPDATE_CHUNK / block_elements * block_elements
                                                    : block_elements;
    l.n_chunks = run->count > l.head ? (run->count - l.head + l.chunk - 1) / l.chunk : 1;
    return l;
}

static void update_product_chunk(void *arg, int64_t chunk, int thread)
{
    const product_loop *l = arg;
    const product_thread p = {.u = l->u,
                              .product = l->product,
                              .blocks = iso_fused_blocks(l->product, thread),
                              .part_scratch = iso_fused_part_scratch(l->product, thread)};
    chunk = l->u->backwards ? l->n_chunks - 1 - chunk : chunk;
    const int64_t begin = chunk > 0 ? l->head + chunk * l->chunk : 0, end = l->head + (chunk + 1) * l->chunk;
    update_product_blocks(&p, l->run, begin, end < l->run->count ? end : l->run->count);
}

static void update_from_product(const updater *u, const iso_slot_product *product, const iso_weight_run *run)
{
    product_loop l = loop_of_product(u, product, run);
    iso_product_prepare(product);
    iso_parallel_for(u->intra_op, l.n_chunks, update_product_chunk, &l);
}

/* ---- where the host cannot work in the device's memory ---- */

/* Queues the sum of the slot's part of a run's gradients, on a device that gathers. Returns the address at which
 * the sum will be. */
static const void *queue_sum(const updater *u, const iso_weight_run *run, const iso_slot_sums *sums,
                             size_t offset)
{
    const void *sum = iso_exchange_view(u->exchange, u->slot, u->pull, run->stored);
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
        iso_exchange_count_combined(u->exchange, u->slot, u->pull, sp->runs[i].count);
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

/* Every other step goes backwards: what the last step touched last is still in the cache. Where several threads
 * update, each begins with what it updated in the last step. */
static bool goes_backwards(const iso_runtime *runtime, int local)
{
    return runtime->steps % 2 &&
           iso_thread_pool_size(iso_runtime_intra_op(runtime, runtime->locals[local].thread)) == 1;
}

static updater updater_of(const iso_runtime *runtime, const iso_executable *executable,
                          const iso_update_state *updates, int local, int b)
{
    const iso_plan *plan = executable->plan;
    const iso_bucket *bucket = &plan->buckets->buckets[b];
    const iso_local_slot *slot = executable->slot[local].local;
    int64_t begin, count;
    iso_bucket_part(bucket, runtime->mesh, slot->slot, &begin, &count);
    return (updater){.runtime = runtime,
                     .exchange = plan->bucket_exchange[b],
                     .state = &updates->state[b],
                     .rates = &executable->slot[local].rates[bucket->kind],
                     .stream = slot->stream,
                     .intra_op = iso_runtime_intra_op(runtime, slot->thread),
                     .local = local,
                     .slot = slot->slot,
                     .pull = plan->bucket_pull[b * runtime->mesh->n_slots + slot->slot],
                     .part_begin = begin,
                     .element = iso_dtype_size(bucket->dtype),
                     .dtype = bucket->dtype,
                     .backwards = goes_backwards(runtime, local)};
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

/* ---- where it can: chunks of runs, by the threads of the slot ---- */

/* Runs [first, first + count) of a slot, from the last to the first if `backwards`. */
typedef struct run_loop {
    const iso_runtime *runtime;
    const iso_executable *executable;
    const iso_update_state *updates;
    const iso_weight_run *runs;
    int local, count;
    bool averages, backwards; /* averages: only these */
} run_loop;

static int64_t chunks_of_loop(const run_loop *l)
{
    const iso_weight_run *last = &l->runs[l->count - 1];
    return last->chunks + iso_update_chunks(last->count) - l->runs[0].chunks;
}

/* The run of a chunk, which is one of the chunks of all runs of the slot. */
static const iso_weight_run *run_of_chunk(const run_loop *l, int64_t chunk)
{
    int first = 0, end = l->count;
    while (end - first > 1) {
        int middle = first + (end - first) / 2;
        if (l->runs[middle].chunks <= chunk)
            first = middle;
        else
            end = middle;
    }
    return &l->runs[first];
}

/* Runs go backwards, chunks of a run forwards. */
static void update_chunk(void *arg, int64_t chunk, int thread)
{
    const run_loop *l = arg;
    (void)thread;
    const int64_t number = l->runs[0].chunks + (l->backwards ? chunks_of_loop(l) - 1 - chunk : chunk);
    const iso_weight_run *run = run_of_chunk(l, number);
    const int64_t in_run = number - run->chunks, chunks = iso_update_chunks(run->count);
    const int64_t begin = (l->backwards ? chunks - 1 - in_run : in_run) * ISO_UPDATE_CHUNK;
    const int64_t left = run->count - begin, n = left < ISO_UPDATE_CHUNK ? left : ISO_UPDATE_CHUNK;
    const updater u = updater_of(l->runtime, l->executable, l->updates, l->local, run->bucket);
    if (l->averages || !u.rates->update.apply)
        update_averages(&u, run, begin, n);
    else
        update_from_bucket(&u, run, begin, begin + n);
}

static void update_chunks(run_loop l)
{
    const int thread = l.runtime->locals[l.local].thread;
    if (l.count > 0)
        iso_parallel_for(iso_runtime_intra_op(l.runtime, thread), chunks_of_loop(&l), update_chunk, &l);
}

void iso_updates_average(const iso_runtime *runtime, iso_executable *executable,
                         const iso_update_state *updates, int local)
{
    const iso_slot_plan *sp = &executable->slot[local];
    if (!runtime->device->host_access) {
        average_on_device(runtime, executable, updates, local);
        return;
    }
    update_chunks((run_loop){.runtime = runtime,
                             .executable = executable,
                             .updates = updates,
                             .runs = sp->runs,
                             .local = local,
                             .count = sp->n_runs,
                             .averages = true});
}

/* Counts what the update of a run computes and reads. Returns whether a product computes its gradient. */
static bool count_run(const updater *u, const iso_weight_run *run, iso_local_slot *slot)
{
    if (!u->rates->update.apply)
        return false;
    slot->flops += run->flops;
    slot->taken += run->taken;
    if (run->product < 0)
        iso_exchange_count_combined(u->exchange, u->slot, u->pull, run->count);
    return run->product >= 0;
}

/* Between products, the runs whose gradients are stored are updated together. */
void iso_updates_apply(iso_runtime *runtime, iso_executable *executable, const iso_update_state *updates,
                       int local)
{
    const iso_slot_plan *sp = &executable->slot[local];
    if (!runtime->device->host_access) {
        apply_on_device(runtime, executable, updates, local);
        return;
    }
    run_loop stored = {.runtime = runtime,
                       .executable = executable,
                       .updates = updates,
                       .local = local,
                       .backwards = goes_backwards(runtime, local)};
    for (int i = 0; i < sp->n_runs; i++) {
        const iso_weight_run *run = &sp->runs[stored.backwards ? sp->n_runs - 1 - i : i];
        const updater u = updater_of(runtime, executable, updates, local, run->bucket);
        if (count_run(&u, run, sp->local)) {
            update_chunks(stored);
            stored.count = 0;
            update_from_product(&u, &sp->products[run->product], run);
        } else {
            stored.runs = stored.count == 0 || stored.backwards ? run : stored.runs;
            stored.count++;
        }
    }
    update_chunks(stored);
}

/* ---- copies ---- */

enum { COPY_CHUNK = 1 << 18 }; /* bytes */

typedef struct large_copy {
    const iso_backend *backend;
    const iso_bytes_copy *copy;
    const double *faults;
    iso_stream *stream;
} large_copy;

static void copy_chunk_of(void *arg, int64_t chunk, int thread)
{
    const large_copy *l = arg;
    const size_t at = (size_t)chunk * COPY_CHUNK, left = l->copy->bytes - at;
    const iso_bytes_copy part = {.from = (const char *)l->copy->from + at,
                                 .to = (char *)l->copy->to + at,
                                 .bytes = left < COPY_CHUNK ? left : COPY_CHUNK};
    (void)thread;
    l->backend->copy_bytes(&part, 1, l->faults, l->stream);
}

void iso_updates_copy(const iso_runtime *runtime, int local, const iso_bytes_copy *list, int count,
                      const double *faults)
{
    const iso_local_slot *slot = &runtime->locals[local];
    iso_thread_pool *intra_op = iso_runtime_intra_op(runtime, slot->thread);
    if (!intra_op) {
        runtime->backend->copy_bytes(list, count, faults, slot->stream);
        return;
    }
    for (const iso_bytes_copy *copy = list; copy < list + count; copy++) {
        large_copy l = {runtime->backend, copy, faults, slot->stream};
        iso_parallel_for(intra_op, (int64_t)((copy->bytes + COPY_CHUNK - 1) / COPY_CHUNK), copy_chunk_of, &l);
    }
}
