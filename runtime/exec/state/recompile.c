#include "runtime/exec/state/recompile.h"
#include "runtime/exec/function/inspect.h"

#include <stdlib.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/exec/function/function_impl.h"
#include "runtime/session/session.h"
#include "runtime/spmd/spmd_impl.h"

struct iso_recompile {
    iso_graph *graph;
    iso_runtime *runtime; /* NULL: the graph had no functions */
    iso_distribution *distribution;
    iso_status (*restore)(void *user);
    void *restore_user;
    int first_op, first_variable;
    int count;                     /* number of saved variables */
    iso_variable **variable;       /* [count] */
    bool *taken;                   /* [count] a new variable has its memory */
    iso_variable_storage *storage; /* [first_variable + count] the runtime's own list */
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

static bool recompile_is_among(iso_function *const *list, const iso_function *function)
{
    for (int i = 0; list[i]; i++)
        if (list[i] == function)
            return true;
    return false;
}

static iso_status check_others(const iso_recompile *recompile, iso_function *const *own)
{
    const iso_runtime *runtime = recompile->runtime;
    for (const iso_function *f = runtime ? runtime->functions : NULL; f; f = f->next)
        if (!recompile_is_among(own, f) && uses(f, recompile->first_op, recompile->first_variable))
            return iso_error(ISO_INVALID,
                             "the function '%s' uses tensors that compiling has made; destroy it first",
                             f->name);
    return ISO_OK;
}

/* Functions that stay valid use only variables before the savepoint. */
static void forget_variables(const iso_recompile *recompile, iso_function *const *own)
{
    for (iso_function *f = recompile->runtime->functions; f; f = f->next)
        if (!recompile_is_among(own, f) && f->program->n_variables > recompile->first_variable)
            f->program->n_variables = recompile->first_variable;
}

/* ---- saving ---- */

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

static iso_status save_variables(iso_recompile *recompile)
{
    iso_runtime *runtime = recompile->runtime;
    size_t first = (size_t)recompile->first_variable;
    recompile->count = runtime->n_variables - recompile->first_variable;
    if (recompile->count <= 0) {
        recompile->count = 0;
        return ISO_OK;
    }
    iso_variable_storage *rest = iso_new((first + 1) * sizeof *rest);
    recompile->variable = iso_new((size_t)recompile->count * sizeof *recompile->variable);
    recompile->taken = iso_new((size_t)recompile->count * sizeof *recompile->taken);
    if (!rest || !recompile->variable || !recompile->taken) {
        iso_free(rest);
        return iso_error(ISO_NO_MEMORY, "no memory to save %d variables", recompile->count);
    }
    memcpy(recompile->variable, recompile->graph->variables + first,
           (size_t)recompile->count * sizeof *recompile->variable);
    memcpy(rest, runtime->variables, first * sizeof *rest);
    recompile->storage = runtime->variables;
    runtime->variables = rest;
    runtime->n_variables = recompile->first_variable;
    return ISO_OK;
}

static void free_recompile(iso_recompile *recompile)
{
    if (recompile->runtime)
        recompile->runtime->recompile = NULL;
    iso_free(recompile->variable);
    iso_free(recompile->taken);
    iso_free(recompile->storage);
    iso_distribution_destroy(recompile->distribution);
    iso_free(recompile);
}

iso_status iso_recompile_begin(iso_graph *graph, const iso_savepoint *point, iso_function *const *own,
                               iso_recompile **out)
{
    iso_recompile *recompile = iso_new(sizeof *recompile);
    if (!recompile)
        return iso_error(ISO_NO_MEMORY, "no memory to compile");
    *recompile = (iso_recompile){.graph = graph,
                                 .runtime = graph->runtime,
                                 .distribution = iso_distribution_hold(graph->distribution),
                                 .restore = graph->restore,
                                 .restore_user = graph->restore_user,
                                 .first_op = iso_savepoint_ops(point),
                                 .first_variable = iso_savepoint_variables(point)};
    iso_status status = ISO_OK;
    ISO_TRY(check_others(recompile, own));
    if (recompile->runtime) {
        ISO_TRY(save_variables(recompile));
        forget_variables(recompile, own);
        recompile->updates = take_updates(recompile->runtime, recompile->first_op);
        recompile->runtime->recompile = recompile;
    }
    *out = recompile;
    return ISO_OK;
done:
    free_recompile(recompile);
    return status;
}

/* ---- reuse by new variables ---- */

void iso_recompile_keep_value(iso_variable *variable)
{
    variable->inherits = true;
}

static int find_saved(const iso_recompile *recompile, const iso_variable *variable)
{
    for (int i = 0; i < recompile->count; i++) {
        const iso_variable *had = recompile->variable[i];
        if (strcmp(had->path, variable->path) == 0 && had->dtype == variable->dtype &&
            iso_shape_equal(&had->shape, &variable->shape))
            return i;
    }
    return -1;
}

static iso_status take_over(iso_runtime *runtime, int number, const iso_variable *variable,
                            iso_variable_storage *storage)
{
    iso_recompile *recompile = runtime->recompile;
    const iso_variable_storage *had = &recompile->storage[recompile->first_variable + number];
    if (!iso_layout_equal(&had->layout, &storage->layout))
        return iso_error(
            ISO_INVALID,
            "variable '%s': compiling again would change its layout, which the first iso_compile "
            "has fixed",
            variable->path);
    memcpy(storage->offset, had->offset, (size_t)storage->map->n_copies * sizeof *storage->offset);
    recompile->taken[number] = storage->inherited = true;
    return ISO_OK;
}

static bool take_free_block(iso_runtime *runtime, const iso_variable *variable, iso_variable_storage *storage)
{
    for (int i = 0; i < runtime->n_free_blocks; i++) {
        iso_free_block *block = &runtime->free_blocks[i];
        if (block->dtype != variable->dtype || block->map != storage->map)
            continue;
        iso_free(storage->offset);
        storage->offset = block->offset;
        *block = runtime->free_blocks[--runtime->n_free_blocks];
        return true;
    }
    return false;
}

bool iso_runtime_reuse_variable(iso_runtime *runtime, const iso_variable *variable,
                                iso_variable_storage *storage, iso_status *status)
{
    int number = runtime->recompile && variable->inherits ? find_saved(runtime->recompile, variable) : -1;
    if (number >= 0)
        *status = take_over(runtime, number, variable, storage);
    return number >= 0 || take_free_block(runtime, variable, storage);
}

/* Lists a variable's memory among the free blocks. Out of memory: it is not listed and stays unused. */
static void add_free_block(iso_runtime *runtime, const iso_variable *variable, iso_variable_storage *storage,
                           bool taken)
{
    bool unused = storage->allocated && !taken;
    iso_free(storage->shown);
    iso_free_block fresh = {variable->dtype, storage->map, storage->offset};
    if (!unused || iso_list_add(runtime->free_blocks, runtime->n_free_blocks, fresh,
                                "freed memory of variables") != ISO_OK)
        iso_free(storage->offset);
}

/* ---- the optimizer's state ---- */

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
    ISO_TRY(iso_agree(ctx, iso_shards_get_elements(from, path, memory)));
    ISO_TRY(iso_elements_all_gather(ctx, memory, count));
    ISO_TRY(iso_agree(ctx, iso_shards_set_elements(to, path, memory)));
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
static iso_status give_bucket(const iso_recompile *recompile, const iso_bucket *bucket,
                              const iso_bucket_state *state, const iso_state_shards *from,
                              const iso_state_shards *to)
{
    char path[ISO_MAX_SLOT_PATH];
    iso_status status = ISO_OK;
    for (int m = 0; m < bucket->n_members; m++) {
        const iso_variable *variable = bucket->members[m].variable;
        const iso_bucket_state *had = state_of(recompile->updates, variable);
        for (int k = 0; k < state->n_slots; k++) {
            if (!had || had->rule != state->rule || !has_slot(had, state->name[k]))
                continue;
            iso_optimizer_slot_path(bucket->optimizer->rule, variable, state->name[k], path);
            ISO_TRY(give_slot(recompile->runtime->ctx, from, to, path, &variable->shape));
        }
    }
done:
    return status;
}

iso_status iso_recompile_transfer_state(iso_recompile *recompile)
{
    const iso_runtime *runtime = recompile->runtime;
    iso_state_shards from = {0}, to = {0};
    iso_status status = ISO_OK;
    if (!runtime)
        return ISO_OK;
    for (const iso_update_state *u = recompile->updates; u && status == ISO_OK; u = u->next)
        status = iso_runtime_add_updates(runtime, u, &from);
    for (const iso_update_state *u = runtime->updates; u && status == ISO_OK; u = u->next)
        if (u->n_applies > 0 && u->applies[0]->id >= recompile->first_op)
            status = iso_runtime_add_updates(runtime, u, &to);
    ISO_TRY(iso_agree(runtime->ctx, status));
    for (const iso_update_state *u = runtime->updates; u; u = u->next)
        for (int b = 0; u->n_applies > 0 && u->applies[0]->id >= recompile->first_op && b < u->n_buckets; b++)
            ISO_TRY(give_bucket(recompile, &u->buckets[b], &u->state[b], &from, &to));
done:
    iso_state_shards_free(&from);
    iso_state_shards_free(&to);
    return status;
}

/* ---- rollback and commit ---- */

static void free_updates(const iso_runtime *runtime, iso_update_state *list)
{
    while (list) {
        iso_update_state *next = list->next;
        iso_runtime_free_updates(runtime, list);
        list = next;
    }
}

/* The graph has no functions again, as before. */
static void end_runtime(iso_recompile *recompile)
{
    iso_graph *graph = recompile->graph;
    if (graph->runtime)
        graph->destroy_runtime(graph->runtime);
    graph->runtime = NULL;
    iso_distribution_destroy(graph->distribution);
    graph->distribution = iso_distribution_hold(recompile->distribution);
    graph->restore = recompile->restore;
    graph->restore_user = recompile->restore_user;
    for (int i = 0; i < graph->n_variables; i++)
        graph->variables[i]->allocated = false;
}

void iso_recompile_rollback(iso_recompile *recompile)
{
    iso_runtime *runtime = recompile->runtime;
    if (!runtime) {
        end_runtime(recompile);
        free_recompile(recompile);
        return;
    }
    iso_runtime_forget_known(runtime);
    free_updates(runtime, take_updates(runtime, recompile->first_op));
    for (int i = recompile->first_variable; i < runtime->n_variables; i++)
        add_free_block(runtime, recompile->graph->variables[i], &runtime->variables[i],
                       runtime->variables[i].inherited);
    if (runtime->n_variables > recompile->first_variable)
        runtime->n_variables = recompile->first_variable;
    if (recompile->storage) {
        memcpy(recompile->storage, runtime->variables,
               (size_t)recompile->first_variable * sizeof *recompile->storage);
        iso_free(runtime->variables);
        runtime->variables = recompile->storage;
        runtime->n_variables = recompile->first_variable + recompile->count;
        recompile->storage = NULL;
    }
    while (recompile->updates) {
        iso_update_state *next = recompile->updates->next;
        recompile->updates->next = runtime->updates;
        runtime->updates = recompile->updates;
        recompile->updates = next;
    }
    free_recompile(recompile);
}

void iso_recompile_commit(iso_recompile *recompile)
{
    iso_runtime *runtime = recompile->runtime;
    for (int i = 0; runtime && i < recompile->count; i++)
        add_free_block(runtime, recompile->variable[i], &recompile->storage[recompile->first_variable + i],
                       recompile->taken[i]);
    for (int i = recompile->first_variable; runtime && i < runtime->n_variables; i++)
        runtime->variables[i].inherited = false;
    if (runtime) {
        iso_runtime_forget_known(runtime);
        free_updates(runtime, recompile->updates);
    }
    free_recompile(recompile);
}
