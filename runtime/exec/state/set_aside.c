#include "runtime/exec/state/set_aside.h"
#include "runtime/exec/function/inspect.h"

#include <stdlib.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/exec/function/function_impl.h"
#include "runtime/session/session.h"
#include "runtime/spmd/spmd_impl.h"

struct iso_set_aside {
    iso_graph *graph;
    iso_runtime *runtime; /* NULL: the graph had no functions */
    iso_distribution *distribution;
    iso_status (*restore)(void *user);
    void *restore_user;
    int first_op, first_variable;
    int count;               /* number of variables that are set aside */
    iso_variable **variable; /* [count] */
    bool *taken;             /* [count] a new variable has its memory */
    iso_stored *stored;      /* [first_variable + count] the runtime's own list */
    iso_update_state *updates;
};

/* ---- functions that use it ---- */

static bool is_behind(const iso_graph *graph, const iso_tensor *tensor, int first_op)
{
    return tensor->graph == graph && tensor->producer && tensor->producer->id >= first_op;
}

static bool uses(const iso_function *function, int first_op, int first_variable)
{
    const iso_program *program = function->program;
    for (int i = 0; i < program->n_values; i++)
        if (is_behind(program->graph, program->values[i].tensor, first_op))
            return true;
    for (int i = 0; i < program->n_changes; i++)
        if (program->changes[i].variable->id >= first_variable)
            return true;
    return false;
}

static bool set_aside_is_among(iso_function *const *list, const iso_function *function)
{
    for (int i = 0; list[i]; i++)
        if (list[i] == function)
            return true;
    return false;
}

static iso_status check_others(const iso_set_aside *aside, iso_function *const *own)
{
    const iso_runtime *runtime = aside->runtime;
    for (const iso_function *f = runtime ? runtime->functions : NULL; f; f = f->next)
        if (!set_aside_is_among(own, f) && uses(f, aside->first_op, aside->first_variable))
            return iso_error(ISO_INVALID,
                             "the function '%s' uses tensors that compiling has made; destroy it first",
                             f->name);
    return ISO_OK;
}

/* Functions that stay valid use only variables before the savepoint. */
static void forget_variables(const iso_set_aside *aside, iso_function *const *own)
{
    for (iso_function *f = aside->runtime->functions; f; f = f->next)
        if (!set_aside_is_among(own, f) && f->program->n_variables > aside->first_variable)
            f->program->n_variables = aside->first_variable;
}

/* ---- setting aside ---- */

/* Moves the update states whose optimizer ops come after the savepoint from the runtime's list to another
 * list. */
static iso_update_state *take_updates(iso_runtime *runtime, int first_op)
{
    iso_update_state *taken = NULL, **link = &runtime->updates;
    while (*link) {
        iso_update_state *updates = *link;
        if (updates->n_applies == 0 || updates->applies[0]->id < first_op) {
            link = &updates->next;
            continue;
        }
        *link = updates->next;
        updates->next = taken;
        taken = updates;
    }
    return taken;
}

static iso_status set_variables_aside(iso_set_aside *aside)
{
    iso_runtime *runtime = aside->runtime;
    size_t first = (size_t)aside->first_variable;
    aside->count = runtime->stored - aside->first_variable;
    if (aside->count <= 0) {
        aside->count = 0;
        return ISO_OK;
    }
    iso_stored *rest = iso_new((first + 1) * sizeof *rest);
    aside->variable = iso_new((size_t)aside->count * sizeof *aside->variable);
    aside->taken = iso_new((size_t)aside->count * sizeof *aside->taken);
    if (!rest || !aside->variable || !aside->taken) {
        iso_free(rest);
        return iso_error(ISO_NO_MEMORY, "no memory to set %d variables aside", aside->count);
    }
    memcpy(aside->variable, aside->graph->variables + first, (size_t)aside->count * sizeof *aside->variable);
    memcpy(rest, runtime->variable, first * sizeof *rest);
    aside->stored = runtime->variable;
    runtime->variable = rest;
    runtime->stored = aside->first_variable;
    return ISO_OK;
}

static void free_aside(iso_set_aside *aside)
{
    if (aside->runtime)
        aside->runtime->aside = NULL;
    iso_free(aside->variable);
    iso_free(aside->taken);
    iso_free(aside->stored);
    iso_distribution_destroy(aside->distribution);
    iso_free(aside);
}

iso_status iso_set_aside_create(iso_graph *graph, const iso_savepoint *point, iso_function *const *own,
                                iso_set_aside **out)
{
    iso_set_aside *aside = iso_new(sizeof *aside);
    if (!aside)
        return iso_error(ISO_NO_MEMORY, "no memory to compile");
    *aside = (iso_set_aside){.graph = graph,
                             .runtime = graph->runtime,
                             .distribution = iso_distribution_hold(graph->distribution),
                             .restore = graph->restore,
                             .restore_user = graph->restore_user,
                             .first_op = iso_savepoint_ops(point),
                             .first_variable = iso_savepoint_variables(point)};
    iso_status status = ISO_OK;
    ISO_TRY(check_others(aside, own));
    if (aside->runtime) {
        ISO_TRY(set_variables_aside(aside));
        forget_variables(aside, own);
        aside->updates = take_updates(aside->runtime, aside->first_op);
        aside->runtime->aside = aside;
    }
    *out = aside;
    return ISO_OK;
done:
    free_aside(aside);
    return status;
}

/* ---- reuse by new variables ---- */

void iso_set_aside_keep(iso_variable *variable)
{
    variable->inherits = true;
}

static int find_aside(const iso_set_aside *aside, const iso_variable *variable)
{
    for (int i = 0; i < aside->count; i++) {
        const iso_variable *had = aside->variable[i];
        if (strcmp(had->path, variable->path) == 0 && had->dtype == variable->dtype &&
            iso_shape_equal(&had->shape, &variable->shape))
            return i;
    }
    return -1;
}

static iso_status take_over(iso_runtime *runtime, int number, const iso_variable *variable,
                            iso_stored *stored)
{
    iso_set_aside *aside = runtime->aside;
    const iso_stored *had = &aside->stored[aside->first_variable + number];
    if (!iso_layout_equal(&had->layout, &stored->layout))
        return iso_error(
            ISO_INVALID,
            "variable '%s': compiling again would change its layout, which the first iso_compile "
            "has fixed",
            variable->path);
    memcpy(stored->offset, had->offset, (size_t)runtime->mesh->n_slots * sizeof *stored->offset);
    aside->taken[number] = stored->inherited = true;
    return ISO_OK;
}

static bool take_spare(iso_runtime *runtime, const iso_variable *variable, iso_stored *stored)
{
    for (int i = 0; i < runtime->n_spares; i++) {
        iso_spare *spare = &runtime->spares[i];
        if (spare->dtype != variable->dtype || !iso_shape_equal(&spare->shape, &variable->shape) ||
            !iso_layout_equal(&spare->layout, &stored->layout))
            continue;
        iso_free(stored->offset);
        stored->offset = spare->offset;
        *spare = runtime->spares[--runtime->n_spares];
        return true;
    }
    return false;
}

bool iso_runtime_take_set_aside(iso_runtime *runtime, const iso_variable *variable, iso_stored *stored,
                                iso_status *status)
{
    int number = runtime->aside && variable->inherits ? find_aside(runtime->aside, variable) : -1;
    if (number >= 0)
        *status = take_over(runtime, number, variable, stored);
    return number >= 0 || take_spare(runtime, variable, stored);
}

/* Lists a variable's memory as spare. Out of memory: it is not listed and stays unused. */
static void list_spare(iso_runtime *runtime, const iso_variable *variable, iso_stored *stored, bool taken)
{
    bool spare = stored->allocated && !taken;
    iso_free(stored->shown);
    iso_free(stored->copy_of);
    iso_free(stored->first_of_all);
    iso_spare fresh = {variable->dtype, variable->shape, stored->layout, stored->offset};
    if (!spare ||
        iso_list_add(runtime->spares, runtime->n_spares, fresh, "spare memory of variables") != ISO_OK)
        iso_free(stored->offset);
}

/* ---- the optimizer's state ---- */

static iso_status place_elements(const iso_state_shards *shards, const char *path, double *values)
{
    iso_mapping mapping;
    iso_status status = ISO_OK;
    for (int i = 0; i < shards->count; i++) {
        const iso_state_shard *shard = &shards->shards[i];
        if (!shard->writer || strcmp(shard->path, path) != 0)
            continue;
        ISO_TRY(iso_map(shard->stream, shard->data, iso_shard_bytes(shard), &mapping));
        for (int64_t k = 0; k < shard->count; k++)
            values[iso_box_global_index(&shard->box, &shard->shape, shard->begin + k)] =
                iso_element_get(mapping.data, shard->dtype, k);
        ISO_TRY(iso_unmap(ISO_OK, &mapping));
    }
done:
    return status;
}

static iso_status take_elements(const iso_state_shards *shards, const char *path, const double *values)
{
    iso_mapping mapping;
    iso_status status = ISO_OK;
    for (int i = 0; i < shards->count; i++) {
        const iso_state_shard *shard = &shards->shards[i];
        if (strcmp(shard->path, path) != 0)
            continue;
        ISO_TRY(iso_map_to_write(shard->stream, shard->data, iso_shard_bytes(shard), &mapping));
        for (int64_t k = 0; k < shard->count; k++)
            iso_element_set(mapping.data, shard->dtype, k,
                            values[iso_box_global_index(&shard->box, &shard->shape, shard->begin + k)]);
        ISO_TRY(iso_unmap(ISO_OK, &mapping));
    }
done:
    return status;
}

/* Sends one optimizer slot of one variable from the ranks that held it to those that hold it now. */
static iso_status give_slot(iso_context *ctx, const iso_state_shards *from, const iso_state_shards *to,
                            const char *path, const iso_shape *shape)
{
    int64_t count = 0;
    void *memory = NULL;
    iso_status status = iso_shape_count(shape, &count);
    if (status == ISO_OK)
        status = iso_alloc((size_t)count * sizeof(double), "the optimizer's state", &memory);
    ISO_TRY(iso_agree(ctx, status));
    memset(memory, 0, (size_t)count * sizeof(double));
    ISO_TRY(iso_agree(ctx, place_elements(from, path, memory)));
    ISO_TRY(iso_join_ranks(ctx, memory, count));
    ISO_TRY(iso_agree(ctx, take_elements(to, path, memory)));
done:
    iso_free(memory);
    return status;
}

static const iso_bucket_state *state_of(const iso_update_state *list, const iso_variable *variable)
{
    for (const iso_update_state *updates = list; updates; updates = updates->next)
        for (int b = 0; b < updates->n_buckets; b++)
            for (int m = 0; m < updates->buckets[b].n_members; m++)
                if (strcmp(updates->buckets[b].members[m].variable->path, variable->path) == 0)
                    return &updates->state[b];
    return NULL;
}

static bool has_slot(const iso_bucket_state *state, const char *name)
{
    for (int k = 0; state && k < state->n_slots; k++)
        if (strcmp(state->name[k], name) == 0)
            return true;
    return false;
}

/* Gives a new bucket its optimizer slots. To be called in the order of the new buckets, which is the same on every
 * rank. */
static iso_status give_bucket(const iso_set_aside *aside, const iso_bucket *bucket,
                              const iso_bucket_state *state, const iso_state_shards *from,
                              const iso_state_shards *to)
{
    char path[ISO_MAX_SLOT_PATH];
    iso_status status = ISO_OK;
    for (int m = 0; m < bucket->n_members; m++) {
        const iso_variable *variable = bucket->members[m].variable;
        const iso_bucket_state *had = state_of(aside->updates, variable);
        for (int k = 0; k < state->n_slots; k++) {
            if (!had || had->rule != state->rule || !has_slot(had, state->name[k]))
                continue;
            iso_optimizer_slot_path(bucket->optimizer->rule, variable, state->name[k], path);
            ISO_TRY(give_slot(aside->runtime->ctx, from, to, path, &variable->shape));
        }
    }
done:
    return status;
}

iso_status iso_set_aside_give_state(iso_set_aside *aside)
{
    const iso_runtime *runtime = aside->runtime;
    iso_state_shards from = {0}, to = {0};
    iso_status status = ISO_OK;
    if (!runtime)
        return ISO_OK;
    for (const iso_update_state *u = aside->updates; u && status == ISO_OK; u = u->next)
        status = iso_runtime_add_updates(runtime, u, &from);
    for (const iso_update_state *u = runtime->updates; u && status == ISO_OK; u = u->next)
        if (u->n_applies > 0 && u->applies[0]->id >= aside->first_op)
            status = iso_runtime_add_updates(runtime, u, &to);
    ISO_TRY(iso_agree(runtime->ctx, status));
    for (const iso_update_state *u = runtime->updates; u; u = u->next)
        for (int b = 0; u->n_applies > 0 && u->applies[0]->id >= aside->first_op && b < u->n_buckets; b++)
            ISO_TRY(give_bucket(aside, &u->buckets[b], &u->state[b], &from, &to));
done:
    iso_state_shards_free(&from);
    iso_state_shards_free(&to);
    return status;
}

/* ---- put back, or dropped ---- */

static void free_updates(const iso_runtime *runtime, iso_update_state *list)
{
    while (list) {
        iso_update_state *next = list->next;
        iso_runtime_free_updates(runtime, list);
        list = next;
    }
}

/* The graph has no functions again, as before. */
static void end_runtime(iso_set_aside *aside)
{
    iso_graph *graph = aside->graph;
    if (graph->runtime)
        graph->destroy_runtime(graph->runtime);
    graph->runtime = NULL;
    iso_distribution_destroy(graph->distribution);
    graph->distribution = iso_distribution_hold(aside->distribution);
    graph->restore = aside->restore;
    graph->restore_user = aside->restore_user;
    for (int i = 0; i < graph->n_variables; i++)
        graph->variables[i]->allocated = false;
}

void iso_set_aside_put_back(iso_set_aside *aside)
{
    iso_runtime *runtime = aside->runtime;
    if (!runtime) {
        end_runtime(aside);
        free_aside(aside);
        return;
    }
    free_updates(runtime, take_updates(runtime, aside->first_op));
    for (int i = aside->first_variable; i < runtime->stored; i++)
        list_spare(runtime, aside->graph->variables[i], &runtime->variable[i],
                   runtime->variable[i].inherited);
    if (runtime->stored > aside->first_variable)
        runtime->stored = aside->first_variable;
    if (aside->stored) {
        memcpy(aside->stored, runtime->variable, (size_t)aside->first_variable * sizeof *aside->stored);
        iso_free(runtime->variable);
        runtime->variable = aside->stored;
        runtime->stored = aside->first_variable + aside->count;
        aside->stored = NULL;
    }
    while (aside->updates) {
        iso_update_state *next = aside->updates->next;
        aside->updates->next = runtime->updates;
        runtime->updates = aside->updates;
        aside->updates = next;
    }
    free_aside(aside);
}

void iso_set_aside_drop(iso_set_aside *aside)
{
    iso_runtime *runtime = aside->runtime;
    for (int i = 0; runtime && i < aside->count; i++)
        list_spare(runtime, aside->variable[i], &aside->stored[aside->first_variable + i], aside->taken[i]);
    for (int i = aside->first_variable; runtime && i < runtime->stored; i++)
        runtime->variable[i].inherited = false;
    if (runtime)
        free_updates(runtime, aside->updates);
    free_aside(aside);
}
