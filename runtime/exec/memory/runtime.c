#include <stdlib.h>
#include <string.h>

#include "collectives/control/control.h"
#include "collectives/control/watchdog.h"
#include "runtime/base/environment.h"
#include "runtime/base/hash.h"
#include "runtime/base/list.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/exec/memory/runtime_impl.h"
#include "runtime/session/session.h"

static const char CHUNK_BYTES[] = "ISOGRID_CHUNK_BYTES";
enum { MEGABYTE = 1 << 20 };

/* ---- set-up ---- */

static iso_status find_distribution(iso_runtime *runtime)
{
    iso_status status = ISO_OK;
    runtime->distribution = runtime->graph->distribution;
    if (!runtime->distribution) {
        ISO_TRY(iso_data_parallel_create(NULL, &runtime->own_distribution));
        runtime->distribution = runtime->own_distribution;
    }
    ISO_TRY(iso_distribution_resolve(runtime->distribution, runtime->ctx));
    runtime->mesh = runtime->distribution->mesh;
done:
    return status;
}

/* Whether some rank hosts no slot. */
static iso_status find_idle_ranks(iso_runtime *runtime)
{
    int idle = -1;
    iso_status status = iso_mesh_find_idle(runtime->mesh, iso_ranks(runtime->ctx), &idle);
    runtime->idle_ranks = idle >= 0;
    return status;
}

/* Kernels of libraries, and the memory that they need, are found once for all slots of a rank. */
static iso_status check_models(const iso_runtime *runtime)
{
    const iso_local_slot *first = runtime->locals;
    for (const iso_local_slot *l = first; l < first + runtime->n_locals; l++)
        if (l->device->model && strcmp(l->device->model, first->device->model) != 0)
            return iso_error(ISO_INVALID,
                             "rank %d: slot %d would use a GPU of model '%s', and slot %d one of model '%s': "
                             "the GPUs of a rank must be of one model; start one rank for each GPU, or hide "
                             "others by CUDA_VISIBLE_DEVICES",
                             iso_rank(runtime->ctx), first->slot, first->device->model, l->slot,
                             l->device->model);
    return ISO_OK;
}

/* Local slots in the order of the mesh, in contiguous blocks on the threads. The slots of a host take devices in
 * turn. */
static iso_status place_slots(iso_runtime *runtime)
{
    const iso_mesh *mesh = runtime->mesh;
    int me = iso_rank(runtime->ctx), host = iso_host_of_rank(runtime->ctx, me), n = 0;
    runtime->locals = iso_new(((size_t)mesh->n_slots + 1) * sizeof *runtime->locals);
    if (!runtime->locals)
        return iso_no_memory("%d slots", mesh->n_slots);
    for (int s = 0, turn = 0; s < mesh->n_slots; s++) {
        if (mesh->rank_of_slot[s] == me)
            runtime->locals[n++] = (iso_local_slot){.slot = s, .device = runtime->backend->device(turn)};
        turn += iso_host_of_rank(runtime->ctx, mesh->rank_of_slot[s]) == host;
    }
    runtime->device = n > 0 ? runtime->locals[0].device : runtime->backend->device(-1);
    runtime->n_locals = n;
    runtime->n_threads = iso_threads(runtime->ctx) < n ? iso_threads(runtime->ctx) : n > 0 ? n : 1;
    runtime->first_local = iso_new(((size_t)runtime->n_threads + 1) * sizeof *runtime->first_local);
    runtime->n_scratch = runtime->device->host_access ? runtime->n_threads : runtime->n_locals;
    runtime->scratch = iso_new((size_t)runtime->n_scratch * sizeof *runtime->scratch + 1);
    if (!runtime->first_local || !runtime->scratch)
        return iso_no_memory("%d threads", runtime->n_threads);
    for (int t = 0; t <= runtime->n_threads; t++)
        runtime->first_local[t] = (int)((int64_t)t * n / runtime->n_threads);
    for (int t = 0; t < runtime->n_threads; t++)
        for (int i = runtime->first_local[t]; i < runtime->first_local[t + 1]; i++)
            runtime->locals[i].thread = t;
    iso_status status = check_models(runtime);
    return status == ISO_OK ? find_idle_ranks(runtime) : status;
}

iso_status iso_chunk_bytes(const iso_context *ctx, size_t *bytes)
{
    int value;
    iso_status status = iso_environment_integer(CHUNK_BYTES, 1 << 30, &value);
    if (status == ISO_OK)
        *bytes = iso_option(ctx, "cuda-aware", NULL) ? 0 : value > 0 ? (size_t)value : MEGABYTE;
    return status;
}

bool iso_collectives_are(const iso_context *ctx, const char *name)
{
    return !strcmp(iso_option(ctx, "collectives", "auto"), name);
}

/* Collective. */
static iso_status agree_on_chunk_bytes(iso_context *ctx, size_t *bytes)
{
    iso_status status = iso_agree(ctx, iso_chunk_bytes(ctx, bytes));
    return status == ISO_OK ? iso_agree_same(ctx, CHUNK_BYTES, *bytes,
                                             getenv(CHUNK_BYTES) ? getenv(CHUNK_BYTES) : "no value")
                            : status;
}

/* Threads that each thread of the slots divides the work of ops with, itself included (division.h): an equal share of
 * the cores without a slot. */
static int intra_op_threads(const iso_runtime *runtime)
{
    bool computes = runtime->n_locals > 0 && runtime->device->host_access;
    return computes ? iso_threads(runtime->ctx) / runtime->n_threads : 1;
}

static iso_status runtime_make_fabric(iso_runtime *runtime)
{
    iso_status status = ISO_OK;
    int ranks = iso_ranks(runtime->ctx);
    int *hosts = iso_new((size_t)ranks * sizeof *hosts);
    if (!hosts)
        return iso_no_memory("%d ranks", ranks);
    for (int r = 0; r < ranks; r++)
        hosts[r] = iso_host_of_rank(runtime->ctx, r);
    iso_topology topology = {.n_slots = runtime->mesh->n_slots,
                             .n_ranks = ranks,
                             .rank = iso_rank(runtime->ctx),
                             .rank_of_slot = runtime->mesh->rank_of_slot,
                             .host_of_rank = hosts,
                             .n_threads = runtime->n_threads,
                             .intra_op_threads = intra_op_threads(runtime),
                             .watchdog = iso_context_watchdog(runtime->ctx),
                             .device = runtime->device,
                             .stream_of_slot = runtime->stream_of_slot,
                             .domain_of_slot = runtime->domains.of_slot,
                             .reach_of_slot = runtime->domains.reach_of_slot};
    ISO_TRY(agree_on_chunk_bytes(runtime->ctx, &topology.chunk_bytes));
    ISO_TRY(iso_fabric_create(&topology, iso_communicator(runtime->ctx), runtime->backend->sum,
                              runtime->backend->maximum, &runtime->fabric));
    const char *collectives = iso_option(runtime->ctx, "collectives", "auto");
    if (strcmp(collectives, "auto") != 0)
        ISO_TRY(iso_fabric_use(runtime->fabric, collectives));
done:
    iso_free(hosts);
    return status;
}

/* Without them a slot's thread works alone, and gives the same numbers. */
static iso_thread_pool *make_intra_op(const iso_runtime *runtime)
{
    iso_thread_pool *pool = NULL;
    if (iso_thread_pool_create(intra_op_threads(runtime), iso_fabric_is_crowded(runtime->fabric), &pool) !=
        ISO_OK)
        iso_warn("rank %d has no threads that compute parts of ops, so steps take longer: %s",
                 iso_rank(runtime->ctx), iso_error_message());
    return pool;
}

static iso_status start_intra_op(iso_runtime *runtime)
{
    const int each = intra_op_threads(runtime);
    if (each < 2)
        return ISO_OK;
    runtime->intra_op = iso_new((size_t)runtime->n_threads * sizeof *runtime->intra_op);
    if (!runtime->intra_op)
        return iso_no_memory("the threads of ops");
    runtime->site.intra_op_threads = each;
    for (int t = 0; t < runtime->n_threads; t++)
        runtime->intra_op[t] = make_intra_op(runtime);
    return ISO_OK;
}

static void end_intra_op(iso_runtime *runtime)
{
    for (int t = 0; runtime->intra_op && t < runtime->n_threads; t++)
        iso_thread_pool_destroy(runtime->intra_op[t]);
    iso_free(runtime->intra_op);
}

static iso_status runtime_start_threads(iso_runtime *runtime)
{
    iso_status status =
        iso_thread_pool_create(runtime->n_threads, iso_fabric_is_crowded(runtime->fabric), &runtime->pool);
    return status == ISO_OK ? start_intra_op(runtime) : status;
}

static iso_status runtime_find_hosts(iso_runtime *runtime)
{
    const iso_mesh *mesh = runtime->mesh;
    runtime->host_of_slot = iso_new((size_t)mesh->n_slots * sizeof *runtime->host_of_slot);
    if (!runtime->host_of_slot)
        return iso_no_memory("the hosts of %d slots", mesh->n_slots);
    bool one = true;
    for (int s = 0; s < mesh->n_slots; s++) {
        runtime->host_of_slot[s] = iso_host_of_rank(runtime->ctx, mesh->rank_of_slot[s]);
        one &= runtime->host_of_slot[s] == runtime->host_of_slot[0];
    }
    runtime->site.host_of_slot = runtime->host_of_slot;
    runtime->site.one_host = one;
    runtime->site.domain_of_slot = runtime->domains.of_slot;
    runtime->site.one_domain = runtime->domains.count == 1;
    return ISO_OK;
}

static size_t variable_offset(const void *arg, const iso_variable *variable, int slot)
{
    return iso_runtime_variable_offset(arg, variable, slot);
}

void iso_runtime_free_updates(const iso_runtime *runtime, iso_update_state *updates)
{
    for (int b = 0; updates->state && b < updates->n_buckets; b++) {
        int count = updates->state[b].n_slots * runtime->n_locals;
        for (int i = 0; updates->state[b].data && i < count; i++)
            iso_local_release(&runtime->locals[i / updates->state[b].n_slots], updates->state[b].data[i]);
        iso_free(updates->state[b].data);
        iso_free(updates->state[b].paths);
        iso_free(updates->buckets[b].members);
    }
    iso_free(updates->buckets);
    iso_free(updates->state);
    iso_free(updates->applies);
    iso_free(updates);
}

/* The device of a scratch memory (iso_runtime_scratch). */
static const iso_device *device_of_scratch(const iso_runtime *runtime, int number)
{
    return runtime->device->host_access ? runtime->device : runtime->locals[number].device;
}

static void runtime_destroy(iso_runtime *runtime)
{
    if (!runtime)
        return;
    iso_thread_pool_destroy(runtime->pool);
    end_intra_op(runtime);
    iso_runtime_end_readers(runtime);
    if (runtime->device)
        iso_runtime_finish(runtime);
    if (runtime->functions)
        runtime->detach(runtime->functions);
    while (runtime->updates) {
        iso_update_state *next = runtime->updates->next;
        iso_runtime_free_updates(runtime, runtime->updates);
        runtime->updates = next;
    }
    for (int i = 0; i < runtime->n_variables; i++) {
        iso_free(runtime->variables[i].shown);
        iso_free(runtime->variables[i].offset);
    }
    for (int i = 0; runtime->locals && i < runtime->n_locals; i++) {
        const iso_local_slot *slot = &runtime->locals[i];
        iso_local_release(slot, slot->arena);
        iso_local_release(slot, slot->info);
        iso_local_release(slot, slot->kernel_fault);
        slot->device->destroy_event(slot->copied);
        slot->device->destroy_event(slot->begun);
        slot->device->destroy_event(slot->prepared);
        slot->device->destroy_stream(slot->input);
        slot->device->destroy_stream(slot->side);
        slot->device->destroy_stream(slot->stream);
    }
    for (int t = 0; runtime->scratch && t < runtime->n_scratch; t++)
        device_of_scratch(runtime, t)->release(device_of_scratch(runtime, t), runtime->scratch[t].memory);
    iso_fabric_destroy(runtime->fabric);
    iso_distribution_destroy(runtime->own_distribution);
    iso_free(runtime->locals);
    iso_free(runtime->first_local);
    iso_free(runtime->scratch);
    iso_free(runtime->variables);
    iso_runtime_free_copy_maps(runtime);
    iso_free(runtime->domain_bytes);
    iso_domains_destroy(&runtime->domains);
    iso_free(runtime->host_of_slot);
    iso_free(runtime->stream_of_slot);
    for (int i = 0; i < runtime->n_free_blocks; i++)
        iso_free(runtime->free_blocks[i].offset);
    iso_free(runtime->free_blocks);
    iso_free(runtime->replicas.shards.shards);
    iso_free(runtime);
}

/* Local. */
static iso_status make_slots(iso_runtime *runtime)
{
    iso_status status = ISO_OK;
    runtime->stream_of_slot = iso_new((size_t)runtime->mesh->n_slots * sizeof *runtime->stream_of_slot);
    if (!runtime->stream_of_slot)
        return iso_no_memory("the streams of %d slots", runtime->mesh->n_slots);
    for (int i = 0; i < runtime->n_locals; i++) {
        iso_local_slot *slot = &runtime->locals[i];
        void *info, *fault;
        ISO_TRY(slot->device->create_stream(slot->device, &slot->stream));
        ISO_TRY(slot->device->create_stream(slot->device, &slot->side));
        ISO_TRY(slot->device->create_stream(slot->device, &slot->input));
        ISO_TRY(slot->device->create_event(slot->device, &slot->copied));
        ISO_TRY(slot->device->create_event(slot->device, &slot->begun));
        ISO_TRY(slot->device->create_event(slot->device, &slot->prepared));
        runtime->stream_of_slot[slot->slot] = slot->stream;
        ISO_TRY(iso_local_allocate(slot, sizeof *slot->info, "what a slot's kernels know of a step", &info));
        slot->info = info;
        ISO_TRY(iso_local_allocate(slot, sizeof *slot->kernel_fault, "the fault of a slot", &fault));
        slot->kernel_fault = fault;
    }
done:
    return status;
}

/* Hosts with one device have nothing to tell. If the others differ, plans are made for the first of the kinds.
 * Collective. */
static iso_status find_device_exchange(iso_runtime *runtime)
{
    const iso_fabric *fabric = runtime->fabric;
    int64_t found = iso_fabric_describe_exchange(fabric) ? 1 << iso_fabric_device_exchange(fabric) : 0;
    iso_device_exchange *first = &runtime->site.device_exchange;
    iso_status status = iso_all_reduce(runtime->ctx, ISO_REDUCE_OR, ISO_I64, &found, 1);
    while (found && !(found >> *first & 1))
        ++*first;
    return status;
}

static iso_status runtime_set_up(iso_runtime *runtime)
{
    iso_status status = ISO_OK;
    ISO_TRY(find_distribution(runtime));
    ISO_TRY(iso_agree_backend(runtime->ctx, &runtime->backend));
    ISO_TRY(iso_agree(runtime->ctx, place_slots(runtime)));
    ISO_TRY(iso_agree(runtime->ctx, make_slots(runtime)));
    ISO_TRY(iso_domains_create(runtime->ctx, runtime->mesh, runtime->device, runtime->stream_of_slot,
                               &runtime->domains));
    ISO_TRY(runtime_make_fabric(runtime));
    if (iso_option(runtime->ctx, "cuda-aware", NULL))
        ISO_TRY(iso_fabric_try_device_messages(runtime->fabric));
    runtime->site = (iso_site){.fabric = runtime->fabric,
                               .backend = runtime->backend,
                               .device = runtime->device,
                               .chunk_bytes = iso_fabric_topology(runtime->fabric)->chunk_bytes,
                               .nccl_adds = iso_collectives_are(runtime->ctx, "nccl"),
                               .variable_offset = variable_offset,
                               .arg = runtime};
    ISO_TRY(find_device_exchange(runtime));
    ISO_TRY(iso_agree(runtime->ctx, runtime_find_hosts(runtime)));
    runtime->domain_bytes = iso_new((size_t)runtime->domains.count * sizeof *runtime->domain_bytes);
    ISO_TRY(iso_agree(runtime->ctx,
                      runtime->domain_bytes ? runtime_start_threads(runtime) : iso_no_memory("a runtime")));
done:
    return status;
}

iso_status iso_runtime_get(iso_graph *graph, iso_runtime **out)
{
    if (!graph->runtime) {
        iso_runtime *runtime = iso_new(sizeof *runtime);
        if (!runtime)
            return iso_no_memory("a runtime");
        runtime->graph = graph;
        runtime->ctx = graph->ctx;
        iso_status status = runtime_set_up(runtime);
        if (status != ISO_OK) {
            runtime_destroy(runtime);
            return status;
        }
        graph->runtime = runtime;
        graph->destroy_runtime = runtime_destroy;
    }
    *out = graph->runtime;
    return ISO_OK;
}

/* ---- variables ---- */

iso_box iso_runtime_variable_box(const iso_runtime *runtime, const iso_variable *variable, int slot)
{
    return iso_layout_box(runtime->mesh, &runtime->variables[variable->id].layout, &variable->shape, slot);
}

size_t iso_runtime_variable_offset(const iso_runtime *runtime, const iso_variable *variable, int slot)
{
    const iso_variable_storage *storage = &runtime->variables[variable->id];
    return storage->offset[storage->map->copy[slot]];
}

void *iso_runtime_variable(const iso_runtime *runtime, const iso_variable *variable, int slot)
{
    return (char *)iso_fabric_shared_area(runtime->fabric, slot) +
           iso_runtime_variable_offset(runtime, variable, slot);
}

iso_status iso_runtime_agree_copied(const iso_runtime *runtime, iso_status status)
{
    return runtime->device->host_access ? status : iso_agree(runtime->ctx, status);
}

iso_status iso_runtime_map_variable(const iso_runtime *runtime, const iso_variable *variable, int slot,
                                    bool write, iso_mapping *mapping)
{
    iso_box box = iso_runtime_variable_box(runtime, variable, slot);
    size_t bytes = (size_t)iso_box_count(&box) * iso_dtype_size(variable->dtype);
    void *memory = iso_runtime_variable(runtime, variable, slot);
    iso_stream *stream = runtime->stream_of_slot[slot];
    return write ? iso_map_to_write(stream, memory, bytes, mapping) : iso_map(stream, memory, bytes, mapping);
}

bool iso_runtime_first_in_domain(const iso_runtime *runtime, const iso_variable *variable, int slot)
{
    const iso_copy_map *map = runtime->variables[variable->id].map;
    return map->first[map->copy[slot]] == slot;
}

bool iso_runtime_first_of_all(const iso_runtime *runtime, const iso_variable *variable, int slot)
{
    return runtime->variables[variable->id].map->box_of[slot] == slot;
}

/* Allocates memory for every box once in each domain. */
static void allocate_copies(iso_runtime *runtime, const iso_variable *variable)
{
    const iso_variable_storage *storage = &runtime->variables[variable->id];
    for (int c = 0; c < storage->map->n_copies; c++) {
        int slot = storage->map->first[c];
        iso_box box = iso_runtime_variable_box(runtime, variable, slot);
        size_t *used = &runtime->domain_bytes[runtime->domains.of_slot[slot]];
        storage->offset[c] = *used;
        *used += iso_plan_copy_bytes(variable, iso_box_count(&box));
    }
}

static iso_status place_variable(iso_runtime *runtime, const iso_variable *variable, const iso_layout *layout)
{
    iso_variable_storage *storage = &runtime->variables[variable->id];
    storage->layout = *layout;
    storage->map = iso_runtime_copy_map(runtime, &variable->shape, layout);
    if (storage->map)
        storage->offset = iso_new((size_t)storage->map->n_copies * sizeof *storage->offset);
    storage->allocated = storage->offset != NULL;
    if (!storage->allocated)
        return iso_no_memory("the offsets of '%s'", variable->path);
    iso_status status = ISO_OK;
    if (!iso_runtime_reuse_variable(runtime, variable, storage, &status))
        allocate_copies(runtime, variable);
    return status;
}

/* A layout map or a callback may have changed since the first function was made. */
iso_status iso_runtime_check_placed(const iso_runtime *runtime, const iso_program *program)
{
    char was[ISO_LAYOUT_TEXT], now[ISO_LAYOUT_TEXT];
    for (int i = 0; i < runtime->n_variables; i++) {
        const iso_layout *stored = &runtime->variables[i].layout, *said = &program->variable_layout[i];
        if (!iso_layout_equal(stored, said))
            return iso_error(
                ISO_INVALID,
                "variable '%s' has layout '%s' since the graph's first function and cannot change to '%s'",
                runtime->graph->variables[i]->path, iso_layout_text(runtime->mesh, stored, was, sizeof was),
                iso_layout_text(runtime->mesh, said, now, sizeof now));
    }
    return ISO_OK;
}

static iso_status place_new(iso_runtime *runtime, const iso_program *program)
{
    iso_graph *graph = runtime->graph;
    iso_status status = ISO_OK;
    int first = runtime->n_variables;
    ISO_TRY(iso_list_reserve(runtime->variables, first, graph->n_variables - first, "variables"));
    runtime->n_variables = graph->n_variables;
    for (int i = first; i < graph->n_variables; i++) {
        runtime->variables[i] = (iso_variable_storage){.allocated = false};
        graph->variables[i]->allocated = true;
        ISO_TRY(place_variable(runtime, graph->variables[i], &program->variable_layout[i]));
    }
done:
    return status;
}

iso_status iso_runtime_place_variables(iso_runtime *runtime, const iso_program *program)
{
    iso_status status = ISO_OK;
    int first = runtime->n_variables;
    if (runtime->graph->n_variables == first)
        return ISO_OK;
    ISO_TRY(iso_agree(runtime->ctx, place_new(runtime, program)));
    ISO_TRY(iso_runtime_reserve(runtime, 0, 0, NULL));
    ISO_TRY(iso_agree(runtime->ctx,
                      iso_runtime_initialize(runtime, first))); /* no rank reads before all have written */
done:
    return status;
}

/* ---- memory of slots ---- */

static iso_status runtime_grow(const iso_device *device, void **memory, size_t bytes, const char *what)
{
    device->release(device, *memory);
    *memory = NULL;
    return device->allocate(device, bytes, what, memory);
}

iso_status iso_runtime_finish(const iso_runtime *runtime)
{
    iso_status status = runtime->fabric ? iso_fabric_settle(runtime->fabric) : ISO_OK;
    for (int i = 0; runtime->locals && i < runtime->n_locals; i++) {
        const iso_local_slot *slot = &runtime->locals[i];
        iso_stream *const streams[] = {slot->stream, slot->side, slot->input};
        for (int k = 0; k < 3; k++) {
            iso_status one = streams[k] ? runtime->device->wait(streams[k]) : ISO_OK;
            status = status == ISO_OK ? one : status;
        }
    }
    return status;
}

static iso_status grow_scratch(const iso_runtime *runtime, int number, size_t bytes)
{
    iso_scratch *scratch = &runtime->scratch[number];
    if (bytes <= scratch->bytes)
        return ISO_OK;
    scratch->bytes = 0;
    iso_status status = runtime_grow(device_of_scratch(runtime, number), &scratch->memory,
                                     bytes + ISO_THREAD_GAP, "the scratch memory of kernels");
    if (status == ISO_OK)
        scratch->bytes = bytes;
    return status;
}

static iso_status reserve_private(iso_runtime *runtime, size_t arena, const size_t *scratch)
{
    iso_status status = ISO_OK;
    if (arena > runtime->arena_bytes) {
        runtime->arena_bytes = 0; /* after an error not all slots have one */
        for (int i = 0; i < runtime->n_locals; i++)
            ISO_TRY(runtime_grow(runtime->locals[i].device, &runtime->locals[i].arena, arena,
                                 "the arena of a slot"));
        runtime->arena_bytes = arena;
    }
    for (int t = 0; scratch && t < runtime->n_scratch; t++)
        ISO_TRY(grow_scratch(runtime, t, scratch[t]));
done:
    return status;
}

iso_status iso_runtime_reserve(iso_runtime *runtime, size_t arena, size_t shared, const size_t *scratch)
{
    iso_status status = ISO_OK;
    shared = shared > runtime->shared_bytes ? shared : runtime->shared_bytes;
    ISO_TRY(iso_agree(runtime->ctx, iso_runtime_finish(runtime)));
    ISO_TRY(iso_runtime_check_memory(runtime, arena, shared, scratch));
    runtime->generation++; /* after an error too: some of the memory may have moved */
    ISO_TRY(iso_fabric_reserve(runtime->fabric, shared, runtime->domain_bytes));
    runtime->shared_bytes = shared;
    ISO_TRY(iso_agree(runtime->ctx, reserve_private(runtime, arena, scratch)));
done:
    return status;
}

static bool has_memory(const iso_runtime *runtime, size_t arena, size_t shared, const size_t *scratch)
{
    bool has = arena <= runtime->arena_bytes && shared <= runtime->shared_bytes;
    for (int t = 0; t < runtime->n_scratch; t++)
        has = has && scratch[t] <= runtime->scratch[t].bytes;
    return has;
}

iso_status iso_runtime_reserve_again(iso_runtime *runtime, size_t arena, size_t shared, const size_t *scratch)
{
    int64_t lacks = !has_memory(runtime, arena, shared, scratch);
    iso_status status = iso_all_reduce(runtime->ctx, ISO_REDUCE_OR, ISO_I64, &lacks, 1);
    return status == ISO_OK && lacks ? iso_runtime_reserve(runtime, arena, shared, scratch) : status;
}

/* ---- the state of updates ---- */

/* Lists the optimizers' ops of a program in `apply` (may be NULL). Returns their number. */
static int list_applies(const iso_program *program, iso_op **apply)
{
    int count = 0;
    for (int i = 0; i < program->n_changes; i++) {
        if (!program->changes[i].apply)
            continue;
        if (apply)
            apply[count] = program->changes[i].apply;
        count++;
    }
    return count;
}

static iso_update_state *runtime_find_state(const iso_runtime *runtime, iso_op *const *apply, int applies)
{
    for (iso_update_state *known = runtime->updates; known; known = known->next)
        if (known->n_applies == applies &&
            memcmp(known->applies, apply, (size_t)applies * sizeof(iso_op *)) == 0)
            return known;
    return NULL;
}

static void runtime_fill(iso_stream *stream, void *data, iso_dtype dtype, int64_t count, double value)
{
    _Alignas(8) char element[8];
    iso_element_set(element, dtype, 0, value);
    stream->device->fill(stream, data, element, iso_dtype_size(dtype), (size_t)count);
}

static iso_status make_state(const iso_runtime *runtime, const iso_bucket *bucket, iso_bucket_state *state)
{
    iso_status status = ISO_OK;
    double initial[ISO_MAX_OPTIMIZER_SLOTS] = {0};
    state->rule = iso_optimizer_rule_find(bucket->optimizer->rule);
    state->n_slots = iso_optimizer_kernel_slots(bucket->optimizer, state->name, initial);
    state->run = runtime->backend->optimizer(iso_optimizer_kernel(bucket->optimizer->rule), bucket->dtype);
    if (!state->run)
        return iso_error(ISO_FAILED, "the %s backend has no kernel for the optimizer '%s' in %s",
                         runtime->backend->name, bucket->optimizer->rule, iso_dtype_name(bucket->dtype));
    if (bucket->optimizer->use_ema)
        state->average = runtime->backend->optimizer(ISO_AVERAGE_KERNEL, bucket->dtype);
    state->data = iso_new(((size_t)(state->n_slots * runtime->n_locals) + 1) * sizeof *state->data);
    state->paths = iso_new(((size_t)(state->n_slots * bucket->n_members) + 1) * sizeof *state->paths);
    if (!state->data || !state->paths)
        return iso_no_memory("the optimizer's state");
    for (int i = 0; i < runtime->n_locals; i++) {
        int64_t begin, count;
        iso_bucket_part(bucket, runtime->mesh, runtime->locals[i].slot, &begin, &count);
        for (int k = 0; k < state->n_slots; k++) {
            void **data = &state->data[i * state->n_slots + k];
            ISO_TRY(iso_local_allocate(&runtime->locals[i], (size_t)count * iso_dtype_size(bucket->dtype),
                                       "the optimizer's state", data));
            runtime_fill(runtime->locals[i].stream, *data, bucket->dtype, count, initial[k]);
        }
        ISO_TRY(runtime->device->wait(runtime->locals[i].stream));
    }
done:
    return status;
}

static iso_status copy_bucket(const iso_bucket *from, iso_bucket *to)
{
    *to = *from;
    to->members = iso_new((size_t)from->n_members * sizeof *to->members);
    if (!to->members)
        return iso_no_memory("a bucket of %d variables", from->n_members);
    memcpy(to->members, from->members, (size_t)from->n_members * sizeof *to->members);
    return ISO_OK;
}

static iso_status make_states(const iso_runtime *runtime, const iso_bucket_list *buckets,
                              iso_update_state *updates)
{
    iso_status status = ISO_OK;
    updates->state = iso_new(((size_t)buckets->count + 1) * sizeof *updates->state);
    updates->buckets = iso_new(((size_t)buckets->count + 1) * sizeof *updates->buckets);
    if (!updates->state || !updates->buckets)
        return iso_no_memory("the state of updates");
    updates->n_buckets = buckets->count;
    for (int b = 0; b < buckets->count; b++) {
        ISO_TRY(copy_bucket(&buckets->buckets[b], &updates->buckets[b]));
        ISO_TRY(make_state(runtime, &buckets->buckets[b], &updates->state[b]));
    }
done:
    return status;
}

iso_status iso_runtime_update_state(iso_runtime *runtime, const iso_program *program,
                                    const iso_bucket_list *buckets, iso_update_state **out)
{
    iso_status status = ISO_OK;
    iso_update_state *fresh = iso_new(sizeof *fresh);
    if (!fresh || !(fresh->applies = iso_new(((size_t)program->n_changes + 1) * sizeof *fresh->applies))) {
        iso_free(fresh);
        return iso_no_memory("the state of updates");
    }
    fresh->n_applies = list_applies(program, fresh->applies);
    iso_update_state *known = runtime_find_state(runtime, fresh->applies, fresh->n_applies);
    if (!known)
        ISO_TRY(make_states(runtime, buckets, fresh));
    if (!known) {
        fresh->next = runtime->updates;
        runtime->updates = fresh;
    }
    *out = known ? known : fresh;
done:
    if (known || status != ISO_OK)
        iso_runtime_free_updates(runtime, fresh);
    return status;
}
