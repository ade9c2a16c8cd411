/* Variables between steps: reading, assigning, the fingerprint. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/exec/function/function_impl.h"
#include "runtime/exec/function/inspect.h"
#include "runtime/exec/value/value.h"
#include "runtime/graph/pending.h"
#include "runtime/session/session.h"

static iso_status runtime_of(const char *function, const iso_variable *variable, const double *values,
                             int64_t count, iso_runtime **out)
{
    int64_t elements = 0;
    iso_graph *graph = variable->graph;
    iso_status status = ISO_OK;
    ISO_TRY(iso_graph_take_error(graph));
    iso_runtime *runtime = graph->runtime;
    if (!runtime || variable->id >= runtime->n_variables || !iso_variable_within(variable->graph, variable))
        return iso_error(ISO_INVALID, "variable '%s' has no value before a function of its graph is made",
                         variable->path);
    ISO_TRY(iso_shape_count(&variable->shape, &elements));
    if (elements != count)
        ISO_TRY(iso_error(ISO_INVALID, "variable '%s' has %" PRId64 " elements, %" PRId64 " were given",
                          variable->path, elements, count));
    if (!values && count > 0)
        ISO_TRY(iso_null_argument(function, "values", 0));
    *out = runtime;
done:
    return status;
}

iso_status iso_variable_get_own(const iso_runtime *runtime, const iso_variable *variable, double *values)
{
    iso_status status = ISO_OK;
    for (int l = 0; l < runtime->n_locals; l++) {
        int slot = runtime->locals[l].slot;
        if (!iso_runtime_first_of_all(runtime, variable, slot))
            continue;
        iso_box box = iso_runtime_variable_box(runtime, variable, slot);
        iso_mapping mapping;
        ISO_TRY(iso_runtime_map_variable(runtime, variable, slot, false, &mapping));
        for (int64_t i = 0; i < iso_box_count(&box); i++)
            values[iso_box_global_index(&box, &variable->shape, i)] =
                iso_element_get(mapping.data, variable->dtype, i);
        ISO_TRY(iso_unmap(ISO_OK, &mapping));
    }
done:
    return status;
}

/* Every element has one writer, so the bits of all ranks can be joined by "or". */
iso_status iso_elements_all_gather(iso_context *ctx, double *values, int64_t count)
{
    return iso_all_reduce(ctx, ISO_REDUCE_OR, ISO_I64, values, (size_t)count);
}

iso_status iso_variable_read(iso_variable *variable, double *values, int64_t count)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(variable);
    iso_runtime *runtime;
    iso_status status =
        iso_agree(variable->graph->ctx, runtime_of(__func__, variable, values, count, &runtime));
    if (status == ISO_OK)
        status = iso_agree_same_text(runtime->ctx, "the variable to be read", variable->path);
    if (status != ISO_OK)
        return status;
    iso_step_send_deferred_weights(runtime);
    memset(values, 0, (size_t)count * sizeof *values);
    status = iso_agree(runtime->ctx, iso_variable_get_own(runtime, variable, values));
    return status == ISO_OK ? iso_elements_all_gather(runtime->ctx, values, count) : status;
}

/* Every slot takes its part from the array of its own rank, so that all ranks must have the same. Collective. */
static iso_status agree_on_values(const iso_variable *variable, const double *values, int64_t count)
{
    iso_text text = {0};
    uint64_t hash = iso_hash_content(values, (size_t)count * sizeof *values);
    iso_text_add(&text, "%s: %.17g.., hash %016" PRIx64, variable->path, count > 0 ? values[0] : 0, hash);
    iso_status status = iso_agree_same(variable->graph->ctx, "the values of a variable",
                                       iso_hash_text(hash, variable->path), iso_text_get(&text));
    iso_text_free(&text);
    return status;
}

iso_status iso_variable_set_own(const iso_runtime *runtime, const iso_variable *variable,
                                const double *values)
{
    iso_status status = ISO_OK;
    for (int l = 0; l < runtime->n_locals; l++) {
        int slot = runtime->locals[l].slot;
        if (!iso_runtime_first_in_domain(runtime, variable, slot))
            continue;
        iso_box box = iso_runtime_variable_box(runtime, variable, slot);
        iso_mapping mapping;
        ISO_TRY(iso_runtime_map_variable(runtime, variable, slot, true, &mapping));
        for (int64_t i = 0; i < iso_box_count(&box); i++)
            iso_element_set(mapping.data, variable->dtype, i,
                            values[iso_box_global_index(&box, &variable->shape, i)]);
        ISO_TRY(iso_unmap(ISO_OK, &mapping));
    }
done:
    return status;
}

iso_status iso_variable_assign(iso_variable *variable, const double *values, int64_t count)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(variable);
    iso_runtime *runtime;
    iso_status status =
        iso_agree(variable->graph->ctx, runtime_of(__func__, variable, values, count, &runtime));
    if (status == ISO_OK)
        status = agree_on_values(variable, values, count);
    if (status != ISO_OK)
        return status;
    iso_step_send_deferred_weights(runtime);
    iso_runtime_forget_known(runtime);
    /* no rank runs a step before all have written */
    return iso_agree(runtime->ctx, iso_variable_set_own(runtime, variable, values));
}

const iso_layout *iso_variable_layout(iso_variable *variable)
{
    if (ISO_ANY_NULL(variable))
        return NULL;
    iso_runtime *runtime = variable ? variable->graph->runtime : NULL;
    if (!runtime || variable->id >= runtime->n_variables || !iso_variable_within(variable->graph, variable))
        return NULL;
    iso_variable_storage *storage = &runtime->variables[variable->id];
    if (!storage->shown && (storage->shown = iso_new(sizeof *storage->shown))) {
        *storage->shown = storage->layout;
        storage->shown->mesh = runtime->distribution->mesh;
    }
    return storage->shown;
}

const iso_mesh *iso_graph_mesh(const iso_graph *graph)
{
    if (ISO_ANY_NULL(graph))
        return NULL;
    const iso_runtime *runtime = graph->runtime;
    return runtime ? runtime->mesh : NULL;
}

void iso_graph_set_restore(iso_graph *graph, iso_status (*restore)(void *user), void *user)
{
    if (ISO_ANY_NULL(graph))
        return;
    graph->restore = restore;
    graph->restore_user = user;
}

uint64_t iso_graph_steps(const iso_graph *graph)
{
    if (ISO_ANY_NULL(graph))
        return 0;
    const iso_runtime *runtime = graph->runtime;
    return runtime ? runtime->steps : 0;
}

void iso_graph_set_steps(iso_graph *graph, uint64_t steps)
{
    if (ISO_ANY_NULL(graph))
        return;
    iso_runtime *runtime = graph->runtime;
    if (runtime)
        runtime->steps = steps;
}

/* ---- the fingerprint ---- */

static uint64_t bits_of(const void *data, size_t element, int64_t i)
{
    uint64_t bits = 0;
    memcpy(&bits, (const char *)data + (size_t)i * element, element);
    return bits;
}

static iso_status add_to_fingerprint(const iso_state_shard *shard, iso_fingerprint *sum)
{
    uint64_t path = iso_hash_text(0, shard->path);
    size_t element = iso_dtype_size(shard->dtype);
    iso_mapping mapping;
    iso_status status = iso_map(shard->stream, shard->data, iso_shard_bytes(shard), &mapping);
    if (status != ISO_OK)
        return status;
    for (int64_t i = 0; i < shard->count; i++)
        iso_fingerprint_add(sum, path,
                            (uint64_t)iso_box_global_index(&shard->box, &shard->shape, shard->begin + i),
                            bits_of(mapping.data, element, i));
    return iso_unmap(ISO_OK, &mapping);
}

/* A sum of two words with carry: the base 2^32 digits are summed separately, then the carry is propagated.
 * mine: the status of this rank's part; an error of any rank is returned on all. */
static iso_status sum_fingerprints(iso_context *ctx, iso_status mine, iso_fingerprint *sum)
{
    const uint64_t low = UINT32_MAX;
    uint64_t digit[] = {sum->word[0] & low, sum->word[0] >> 32, sum->word[1] & low, sum->word[1] >> 32,
                        mine != ISO_OK};
    iso_status status = iso_all_reduce(ctx, ISO_REDUCE_SUM, ISO_I64, digit, 5);
    if (status == ISO_OK && digit[4] != 0)
        return iso_agree(ctx, mine);
    for (int i = 0; i < 3; i++)
        digit[i + 1] += digit[i] >> 32;
    sum->word[0] = (digit[0] & low) | digit[1] << 32;
    sum->word[1] = (digit[2] & low) | digit[3] << 32;
    return status;
}

iso_status iso_graph_fingerprint(iso_graph *graph, iso_fingerprint *fingerprint)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(graph);
    ISO_NEED_AGREED(graph->ctx, fingerprint);
    iso_runtime *runtime = graph->runtime;
    iso_state_shards shards = {0};
    iso_fingerprint sum = {{0, 0}};
    if (!runtime)
        return iso_error(ISO_INVALID, "a graph has no fingerprint before its first function is made");
    iso_status status = ISO_OK;
    iso_step_send_deferred_weights(runtime);
    ISO_TRY(iso_agree(graph->ctx, iso_runtime_add_variables(runtime, &shards)));
    for (int i = 0; i < shards.count && status == ISO_OK; i++)
        if (shards.shards[i].writer)
            status = add_to_fingerprint(&shards.shards[i], &sum);
    ISO_TRY(sum_fingerprints(graph->ctx, status, &sum));
    *fingerprint = sum;
done:
    iso_state_shards_free(&shards);
    return status;
}
