/* The averages of variables that optimizers keep (use_ema), as the variables' values. */
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/exec/function/function_impl.h"
#include "runtime/exec/function/inspect.h"
#include "runtime/graph/optimizers/rule.h"
#include "runtime/session/session.h"

/* A variable and its average, with all elements of both on every rank. */
typedef struct averaged {
    const iso_runtime *runtime;
    const iso_state_shards *shards;
    const iso_variable *variable;
    char path[ISO_MAX_SLOT_PATH]; /* of the average */
    int64_t count;
    double *average, *weight;
} averaged;

static iso_status allocate(averaged *a)
{
    void *memory = NULL;
    iso_status status = iso_shape_count(&a->variable->shape, &a->count);
    if (status == ISO_OK)
        status = iso_alloc(2 * (size_t)a->count * sizeof(double), "the averages of a variable", &memory);
    status = iso_agree(a->runtime->ctx, status);
    if (status != ISO_OK) {
        iso_free(memory);
        return status;
    }
    a->average = memset(memory, 0, 2 * (size_t)a->count * sizeof(double));
    a->weight = a->average + a->count;
    return ISO_OK;
}

static iso_status gather(const averaged *a, bool weights)
{
    iso_context *ctx = a->runtime->ctx;
    iso_status status = ISO_OK;
    ISO_TRY(iso_agree(ctx, iso_shards_get_elements(a->shards, a->path, a->average)));
    ISO_TRY(iso_elements_all_gather(ctx, a->average, a->count));
    if (weights) {
        ISO_TRY(iso_agree(ctx, iso_variable_get_own(a->runtime, a->variable, a->weight)));
        ISO_TRY(iso_elements_all_gather(ctx, a->weight, a->count));
    }
done:
    return status;
}

static iso_status set_to_average(averaged *a, bool swap)
{
    iso_status status = allocate(a);
    if (status != ISO_OK)
        return status;
    ISO_TRY(gather(a, swap));
    if (swap)
        status = iso_shards_set_elements(a->shards, a->path, a->weight);
    if (status == ISO_OK)
        status = iso_variable_set_own(a->runtime, a->variable, a->average);
    status = iso_agree(a->runtime->ctx, status);
done:
    iso_free(a->average);
    return status;
}

static iso_status set_bucket(const iso_runtime *runtime, const iso_state_shards *shards,
                             const iso_bucket *bucket, bool swap)
{
    iso_status status = ISO_OK;
    for (int m = 0; bucket->optimizer->use_ema && m < bucket->n_members; m++) {
        averaged a = {.runtime = runtime, .shards = shards, .variable = bucket->members[m].variable};
        iso_optimizer_slot_path(bucket->optimizer->rule, a.variable, ISO_AVERAGE_SLOT, a.path);
        ISO_TRY(set_to_average(&a, swap));
    }
done:
    return status;
}

static iso_status set_all(iso_function *function, bool swap)
{
    iso_runtime *runtime = function->runtime;
    const iso_update_state *updates = function->updates;
    iso_state_shards shards = {0};
    iso_step_send_deferred_weights(runtime);
    iso_status status = iso_agree(runtime->ctx, iso_runtime_add_updates(runtime, updates, &shards));
    for (int b = 0; b < updates->n_buckets && status == ISO_OK; b++)
        status = set_bucket(runtime, &shards, &updates->buckets[b], swap);
    iso_state_shards_free(&shards);
    return status;
}

iso_status iso_function_take_averages(iso_function *function)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(function);
    return set_all(function, false);
}

iso_status iso_function_swap_averages(iso_function *function)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(function);
    return set_all(function, true);
}
