/* Shards: the state as the executor hands it out.
 *
 * The ranks that hold the same box of a variable divide the writing of it, so that a replicated variable is
 * written once, by all of them together. The ranks of a memory domain share its copy: each lists the share that it
 * writes, and the part before it that no rank of the domain writes, which is needed to fill shards. A rank with slots
 * in several domains counts once in each of them. */
#include <stdio.h>
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/exec/function/inspect.h"
#include "runtime/exec/memory/runtime_impl.h"
#include "runtime/session/session.h"

enum {
    UNIT = ISO_SHARD_UNIT, /* shares begin at multiples of this many bytes */
    SMALL = 16 << 10,      /* fewer bytes are not divided */
};

/* NULL if the host may access the slot's memory. */
static iso_stream *shard_stream(const iso_runtime *runtime, int slot)
{
    return runtime->device->host_access ? NULL : runtime->stream_of_slot[slot];
}

static iso_status add_shard(iso_state_shards *shards, iso_state_shard fresh)
{
    return iso_list_add(shards->shards, shards->count, fresh, "shards");
}

/* ---- shares ---- */

/* The holders of one box of one variable: ranks, once in each domain. */
typedef struct holders {
    int count;
    int *slot;      /* [count] the first slot of each (iso_domains), in the order of the mesh */
    size_t n_slots; /* all */
    bool *seen;     /* [n_slots] */
    int domains;    /* number of their domains */
    int before;     /* of these: those before `own` */
    int own;        /* the domain of the copy that is listed */
} holders;

/* Counts the domains of the holders that were found. */
static void count_domains(const iso_runtime *runtime, holders *h)
{
    memset(h->seen, 0, h->n_slots);
    h->domains = h->before = 0;
    for (int i = 0; i < h->count; i++) {
        int domain = runtime->domains.of_slot[h->slot[i]];
        if (h->seen[domain])
            continue;
        h->seen[domain] = true;
        h->domains++;
        h->before += domain < h->own;
    }
}

/* Of the box that a slot holds. */
static void shards_find_holders(const iso_runtime *runtime, const iso_variable *variable, int slot,
                                holders *h)
{
    const int *box_of = runtime->variables[variable->id].map->box_of;
    memset(h->seen, 0, h->n_slots);
    h->count = 0;
    for (int s = 0; s < runtime->mesh->n_slots; s++) {
        int holder = runtime->domains.holder_of_slot[s];
        if (h->seen[holder] || box_of[s] != box_of[slot])
            continue;
        h->seen[holder] = true;
        h->slot[h->count++] = holder;
    }
    count_domains(runtime, h);
}

/* The first element of share `number` when n elements are divided into `shares`, at whole units, as evenly as
 * possible. A small variable is one share, and the others are empty. */
static int64_t share_begin(int64_t n, int64_t unit, int shares, int number)
{
    int64_t units = (n + unit - 1) / unit;
    int64_t begin = units * number / shares * unit;
    return begin < n ? begin : n;
}

/* Holder number `index` has share number (index + turn) % count, so that the first ones do not always have
 * more: the turn differs between variables. */
static int share_of(const holders *h, int index, int turn)
{
    return (index + turn) % h->count;
}

/* The end of the last share before share number `own` that a holder in this domain has; 0: there is none. *last:
 * no holder in this domain has a share after it. */
static int64_t end_before(const iso_runtime *runtime, const holders *h, int turn, int own, int64_t n,
                          int64_t unit, bool *last)
{
    int before = -1;
    *last = true;
    for (int i = 0; i < h->count; i++) {
        int number = share_of(h, i, turn);
        if (number == own || runtime->domains.of_slot[h->slot[i]] != h->own)
            continue;
        if (number > own)
            *last = false;
        else if (number > before)
            before = number;
    }
    return before < 0 ? 0 : share_begin(n, unit, h->count, before + 1);
}

static iso_status shards_add_range(iso_state_shards *shards, iso_state_shard shard, int64_t begin,
                                   int64_t end, bool writer)
{
    shard.begin = begin;
    shard.count = end - begin;
    shard.data = (char *)shard.data + (size_t)begin * iso_dtype_size(shard.dtype);
    shard.writer = writer;
    return end > begin ? add_shard(shards, shard) : ISO_OK;
}

/* Adds this rank's share of a box that it holds, and the range before it (for the domain's last share, also
 * after it) that other domains write. */
static iso_status add_share(const iso_runtime *runtime, const iso_variable *variable, int slot,
                            const iso_box *box, holders *h, iso_state_shards *shards)
{
    int64_t n = iso_box_count(box), element = (int64_t)iso_dtype_size(variable->dtype);
    int64_t unit = n * element < SMALL ? n > 0 ? n : 1 : UNIT / element;
    int index = 0;
    bool last;
    iso_status status = ISO_OK;
    h->own = runtime->domains.of_slot[slot];
    shards_find_holders(runtime, variable, slot, h);
    iso_state_shard whole = {.path = variable->path,
                             .dtype = variable->dtype,
                             .shape = variable->shape,
                             .box = *box,
                             .data = iso_runtime_variable(runtime, variable, slot),
                             .stream = shard_stream(runtime, slot),
                             .copies = h->domains,
                             .copy = h->before,
                             .domain = h->own};
    while (h->slot[index] != runtime->domains.holder_of_slot[slot])
        index++;
    int own = share_of(h, index, variable->id);
    int64_t begin = share_begin(n, unit, h->count, own), end = share_begin(n, unit, h->count, own + 1);
    ISO_TRY(shards_add_range(shards, whole, end_before(runtime, h, variable->id, own, n, unit, &last), begin,
                             false));
    ISO_TRY(shards_add_range(shards, whole, begin, end, true));
    if (last)
        ISO_TRY(shards_add_range(shards, whole, end, n, false));
done:
    return status;
}

/* Whether a slot of this rank before local slot l holds the same box in the same domain. */
static bool held_before(const iso_runtime *runtime, const iso_variable *variable, int l)
{
    const int *copy = runtime->variables[variable->id].map->copy;
    for (int k = 0; k < l; k++)
        if (copy[runtime->locals[k].slot] == copy[runtime->locals[l].slot])
            return true;
    return false;
}

static iso_status shards_add_variable(const iso_runtime *runtime, const iso_variable *variable, holders *h,
                                      iso_state_shards *shards)
{
    iso_status status = ISO_OK;
    for (int l = 0; l < runtime->n_locals; l++) {
        int slot = runtime->locals[l].slot;
        iso_box box = iso_runtime_variable_box(runtime, variable, slot);
        if (!held_before(runtime, variable, l))
            ISO_TRY(add_share(runtime, variable, slot, &box, h, shards));
    }
done:
    return status;
}

iso_status iso_runtime_add_variables(const iso_runtime *runtime, iso_state_shards *shards)
{
    size_t slots = (size_t)runtime->mesh->n_slots;
    holders h = {
        .n_slots = slots, .slot = iso_new(slots * sizeof *h.slot), .seen = iso_new(slots * sizeof *h.seen)};
    iso_status status = ISO_OK;
    if (!h.slot || !h.seen)
        ISO_TRY(iso_no_memory("the holders of a variable on %zu slots", slots));
    for (int v = 0; v < runtime->n_variables; v++)
        ISO_TRY(shards_add_variable(runtime, runtime->graph->variables[v], &h, shards));
done:
    iso_free(h.slot);
    iso_free(h.seen);
    return status;
}

/* ---- the state of optimizers ---- */

void iso_optimizer_slot_path(const char *rule, const iso_variable *variable, const char *slot,
                             char path[ISO_MAX_SLOT_PATH])
{
    snprintf(path, ISO_MAX_SLOT_PATH, "optimizer/%s/%s/%s", rule, variable->path, slot);
}

/* The path of slot k of a member's state. It is made once, so that memory does not grow with each checkpoint. */
static iso_status slot_path(const iso_runtime *runtime, const iso_bucket *bucket,
                            const iso_bucket_state *state, const iso_bucket_member *member, int k,
                            const char **path)
{
    const char **kept = &state->paths[(member - bucket->members) * state->n_slots + k];
    char text[ISO_MAX_SLOT_PATH];
    if (!*kept) {
        iso_optimizer_slot_path(bucket->optimizer->rule, member->variable, state->name[k], text);
        const char *copy = iso_graph_keep_text(runtime->graph, text);
        if (!*copy)
            return iso_no_memory("the path '%s'", text);
        *kept = copy;
    }
    *path = *kept;
    return ISO_OK;
}

/* Adds the part of one member's state that a local slot holds. */
static iso_status shards_add_state(const iso_runtime *runtime, const iso_bucket *bucket,
                                   const iso_bucket_state *state, const iso_bucket_member *member, int local,
                                   iso_state_shards *shards)
{
    int slot = runtime->locals[local].slot;
    int64_t begin, count;
    iso_status status = ISO_OK;
    iso_bucket_part(bucket, runtime->mesh, slot, &begin, &count);
    iso_box box = iso_layout_box(runtime->mesh, &member->update, &member->variable->shape, slot);
    int64_t end = member->offset + iso_box_count(&box);
    int64_t from = member->offset > begin ? member->offset : begin,
            to = end < begin + count ? end : begin + count;
    for (int k = 0; k < state->n_slots && from < to; k++) {
        const char *path = NULL;
        ISO_TRY(slot_path(runtime, bucket, state, member, k, &path));
        char *data = state->data[local * state->n_slots + k];
        ISO_TRY(add_shard(
            shards, (iso_state_shard){.path = path,
                                      .dtype = bucket->dtype,
                                      .shape = member->variable->shape,
                                      .box = box,
                                      .begin = from - member->offset,
                                      .count = to - from,
                                      .data = data + (size_t)(from - begin) * iso_dtype_size(bucket->dtype),
                                      .stream = shard_stream(runtime, slot),
                                      .writer = true,
                                      .copies = 1}));
    }
done:
    return status;
}

iso_status iso_runtime_add_updates(const iso_runtime *runtime, const iso_update_state *updates,
                                   iso_state_shards *shards)
{
    iso_status status = ISO_OK;
    for (int b = 0; b < updates->n_buckets; b++)
        for (int m = 0; m < updates->buckets[b].n_members; m++)
            for (int l = 0; l < runtime->n_locals; l++)
                ISO_TRY(shards_add_state(runtime, &updates->buckets[b], &updates->state[b],
                                         &updates->buckets[b].members[m], l, shards));
done:
    return status;
}

iso_status iso_graph_shards(iso_graph *graph, iso_state_shards *out)
{
    ISO_DEFAULT_MODES();
    ISO_NEED_AS("graph, shards", graph, out);
    iso_runtime *runtime = graph->runtime;
    iso_state_shards shards = {0};
    iso_status status = ISO_OK;
    if (!runtime)
        return iso_error(ISO_INVALID, "a graph has no state before its first function is made");
    iso_runtime_forget_known(runtime); /* the caller may write them */
    ISO_TRY(iso_runtime_add_variables(runtime, &shards));
    for (const iso_update_state *updates = runtime->updates; updates; updates = updates->next)
        ISO_TRY(iso_runtime_add_updates(runtime, updates, &shards));
    *out = shards;
    return ISO_OK;
done:
    iso_state_shards_free(&shards);
    return status;
}

void iso_state_shards_free(iso_state_shards *shards)
{
    if (!shards)
        return;
    iso_free(shards->shards);
    *shards = (iso_state_shards){0};
}

/* ---- their elements ---- */

iso_status iso_shards_get_elements(const iso_state_shards *shards, const char *path, double *values)
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

iso_status iso_shards_set_elements(const iso_state_shards *shards, const char *path, const double *values)
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
