#include "runtime/checkpoint/write/two_phase_impl.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/control/control.h"
#include "collectives/mpi/call.h"
#include "collectives/mpi/wait.h"
#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/checkpoint/runs_impl.h"
#include "runtime/checkpoint/saver.h"
#include "runtime/session/session.h"

enum {
    SHORT = 4096, /* bytes; a shorter run is not worth a write of its own: less than a page */
    UNIT = 4096,  /* bytes; stretches begin at multiples of it */
    HAS = 1,      /* flags per rank and tensor: the rank has a part of it; one of short runs */
    HAS_SHORT = 2,
};

/* The flags of each rank and tensor, and what follows from them. */
typedef struct planner {
    iso_two_phase *x;
    const iso_file_spec *spec;
    unsigned char *flags; /* [ranks][tensors] */
    bool *changes;        /* [tensors] whether the ranks exchange it */
    int *holder;          /* [ranks] the ranks that have a part of one tensor */
} planner;

static size_t element_of(const planner *p, int tensor)
{
    return iso_dtype_size(p->spec->tensors[tensor].dtype);
}

/* ---- which tensors ---- */

static bool is_short(const iso_state_shard *shard)
{
    iso_runs runs = iso_runs_of(shard);
    return shard->count > runs.most && (size_t)runs.most * iso_dtype_size(shard->dtype) < SHORT;
}

static iso_status find_tensors(iso_context *ctx, planner *p, const iso_save_parts *parts)
{
    size_t tensors = (size_t)p->spec->n_tensors, ranks = (size_t)p->x->n_ranks;
    unsigned char *mine = iso_new(tensors + 1);
    p->flags = iso_new(tensors * ranks + 1);
    p->changes = iso_new((tensors + 1) * sizeof *p->changes);
    p->holder = iso_new(ranks * sizeof *p->holder);
    bool good = mine && p->flags && p->changes && p->holder;
    iso_status status = iso_agree(
        ctx, good ? ISO_OK : iso_error(ISO_NO_MEMORY, "no memory to redistribute %zu tensors", tensors));
    for (int i = 0; i < parts->count && status == ISO_OK; i++)
        mine[parts->parts[i].tensor] |= is_short(&parts->parts[i].shard) ? HAS | HAS_SHORT : HAS;
    if (status == ISO_OK && p->x->communicator != MPI_COMM_NULL)
        status =
            iso_mpi_gather_all(iso_context_watchdog(ctx), mine, (int)tensors, p->flags, p->x->communicator);
    else if (status == ISO_OK)
        memcpy(p->flags, mine, tensors);
    for (size_t i = 0; i < tensors * ranks && status == ISO_OK; i++)
        p->changes[i % tensors] |= (p->flags[i] & HAS_SHORT) != 0;
    iso_free(mine);
    return status;
}

/* ---- which rank gets what ---- */

static int two_phase_find_holders(const planner *p, int tensor)
{
    int count = 0;
    for (int r = 0; r < p->x->n_ranks; r++)
        if (p->flags[(size_t)r * (size_t)p->spec->n_tensors + (size_t)tensor])
            p->holder[count++] = r;
    return count;
}

/* Stretch number k of `holders`, [begin, end) of the tensor's elements. It belongs to holder k, counted from
 * a different holder for each tensor, so that the first holders do not always have more. */
static void stretch_of(const planner *p, int tensor, int holders, int k, int64_t *begin, int64_t *end)
{
    int64_t n = 0, unit = UNIT / (int64_t)element_of(p, tensor);
    iso_shape_count(&p->spec->tensors[tensor].shape, &n);
    int64_t units = (n + unit - 1) / unit;
    *begin = units * k / holders * unit;
    *end = units * (k + 1) / holders * unit;
    *end = *end < n ? *end : n;
    *begin = *begin < *end ? *begin : *end;
}

static int holder_of(const planner *p, int tensor, int holders, int k)
{
    return p->holder[(k + tensor) % holders];
}

/* ---- items to send ---- */

static iso_status add_item(iso_two_phase_items *items, iso_two_phase_item fresh)
{
    fresh.order = items->count;
    return iso_list_add(items->items, items->count, fresh, "shards");
}

/* The first element of a shard, in its box's order, that is at or after element `global` of the tensor. */
static int64_t first_from(const iso_state_shard *shard, int64_t global)
{
    int64_t low = shard->begin, high = shard->begin + shard->count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (iso_box_global_index(&shard->box, &shard->shape, middle) < global)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The items that a part contributes to one stretch, round by round. */
static iso_status cut_for(planner *p, iso_two_phase_items *items, const iso_save_parts *parts, int part,
                          int rank, int64_t begin, int64_t end)
{
    const iso_state_shard *shard = &parts->parts[part].shard;
    int tensor = parts->parts[part].tensor;
    int64_t window = ISO_TWO_PHASE_WINDOW / (int64_t)element_of(p, tensor);
    iso_status status = ISO_OK;
    for (int64_t at = begin; at < end && status == ISO_OK; at += window) {
        iso_two_phase_item item = {tensor, (int)((at - begin) / window), rank, 0, part, *shard};
        int64_t from = first_from(shard, at), to = first_from(shard, at + window < end ? at + window : end);
        item.shard.begin = from;
        item.shard.count = to - from;
        item.shard.data = NULL;
        if (to > from)
            status = add_item(items, item);
    }
    return status;
}

static iso_status cut_part(planner *p, const iso_save_parts *parts, int part)
{
    int64_t begin, end;
    int tensor = parts->parts[part].tensor, holders = two_phase_find_holders(p, tensor);
    iso_two_phase_items *items = holders == 1 ? &p->x->here : &p->x->out;
    iso_status status = ISO_OK;
    for (int k = 0; k < holders && status == ISO_OK; k++) {
        stretch_of(p, tensor, holders, k, &begin, &end);
        status = cut_for(p, items, parts, part, holder_of(p, tensor, holders, k), begin, end);
    }
    return status;
}

static iso_status cut_parts(planner *p, iso_save_parts *parts)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < parts->count && status == ISO_OK; i++) {
        parts->parts[i].leaves = p->changes[parts->parts[i].tensor];
        if (parts->parts[i].leaves)
            status = cut_part(p, parts, i);
    }
    return status;
}

static iso_status find_stretches(planner *p)
{
    int tensors = p->spec->n_tensors;
    p->x->stretch = iso_new(((size_t)tensors + 1) * sizeof *p->x->stretch);
    if (!p->x->stretch)
        return iso_no_memory("the parts of %d tensors", tensors);
    for (int t = 0; t < tensors; t++) {
        int holders = p->changes[t] ? two_phase_find_holders(p, t) : 0;
        for (int k = 0; k < holders; k++)
            if (holder_of(p, t, holders, k) == p->x->rank)
                stretch_of(p, t, holders, k, &p->x->stretch[t].begin, &p->x->stretch[t].end);
    }
    return ISO_OK;
}

/* ---- items to receive ---- */

/* An item, as the sender announces it to the receiver. */
typedef struct notice {
    int tensor, round;
    int64_t begin, count;
    iso_box box;
} notice;

/* Orders by round, and within a round in the sender's order. */
static int by_round(const void *a, const void *b)
{
    const iso_two_phase_item *x = a, *y = b;
    if (x->tensor != y->tensor)
        return x->tensor < y->tensor ? -1 : 1;
    if (x->round != y->round)
        return x->round < y->round ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static void sort_items(iso_two_phase_items *items)
{
    if (items->count)
        qsort(items->items, (size_t)items->count, sizeof *items->items, by_round);
}

/* Bytes to and from each rank, and where they begin. */
typedef struct traffic {
    int *out, *out_at, *in, *in_at; /* [ranks] */
    notice *outgoing, *incoming;
    int n_incoming;
} traffic;

static void free_traffic(traffic *t)
{
    iso_free(t->out);
    iso_free(t->outgoing);
    iso_free(t->incoming);
}

static iso_status make_traffic(const iso_two_phase *x, traffic *t)
{
    size_t ranks = (size_t)x->n_ranks;
    *t = (traffic){.out = iso_new(4 * ranks * sizeof *t->out),
                   .outgoing = iso_new(((size_t)x->out.count + 1) * sizeof *t->outgoing)};
    if (!t->out || !t->outgoing)
        return iso_error(ISO_NO_MEMORY, "no memory to redistribute tensors among %d ranks", x->n_ranks);
    if ((size_t)x->out.count > INT_MAX / sizeof *t->outgoing)
        return iso_error(ISO_INVALID, "%d parts of tensors are too many to redistribute", x->out.count);
    t->out_at = t->out + ranks;
    t->in = t->out_at + ranks;
    t->in_at = t->in + ranks;
    for (int i = 0; i < x->out.count; i++)
        t->out[x->out.items[i].rank] += x->out.items[i].rank == x->rank ? 0 : (int)sizeof *t->outgoing;
    for (int r = 1; r < x->n_ranks; r++)
        t->out_at[r] = t->out_at[r - 1] + t->out[r - 1];
    int *next = t->in; /* scratch for now: the items placed so far */
    for (int i = 0; i < x->out.count; i++) {
        const iso_two_phase_item *item = &x->out.items[i];
        if (item->rank != x->rank)
            t->outgoing[(size_t)t->out_at[item->rank] / sizeof *t->outgoing + (size_t)next[item->rank]++] =
                (notice){item->tensor, item->round, item->shard.begin, item->shard.count, item->shard.box};
    }
    return ISO_OK;
}

static iso_status exchange_counts(const iso_watchdog *watchdog, const iso_two_phase *x, traffic *t)
{
    int bytes = 0;
    bool fits = true;
    iso_status status = iso_mpi_swap_counts(watchdog, t->out, t->in, x->communicator);
    if (status != ISO_OK)
        return status;
    for (int r = 0; r < x->n_ranks; r++) {
        t->in_at[r] = bytes;
        fits = fits && !__builtin_add_overflow(bytes, t->in[r], &bytes);
    }
    if (!fits)
        return iso_error(ISO_INVALID, "the parts of tensors that rank %d is to write are too many", x->rank);
    t->n_incoming = bytes / (int)sizeof *t->incoming;
    t->incoming = iso_new((size_t)bytes + 1);
    return t->incoming
               ? ISO_OK
               : iso_error(ISO_NO_MEMORY, "no memory to redistribute tensors among %d ranks", x->n_ranks);
}

static iso_status take_notices(planner *p, const traffic *t)
{
    int rank = 0;
    iso_status status = ISO_OK;
    for (int i = 0; i < t->n_incoming && status == ISO_OK; i++) {
        const notice *n = &t->incoming[i];
        while (rank + 1 < p->x->n_ranks && i * (int)sizeof *n >= t->in_at[rank + 1])
            rank++;
        const iso_saved_tensor *tensor = &p->spec->tensors[n->tensor];
        iso_state_shard shard = {.path = tensor->path,
                                 .dtype = tensor->dtype,
                                 .shape = tensor->shape,
                                 .box = n->box,
                                 .begin = n->begin,
                                 .count = n->count,
                                 .writer = true};
        status = add_item(&p->x->in, (iso_two_phase_item){n->tensor, n->round, rank, 0, 0, shard});
    }
    return status;
}

/* The number of rounds, and the needs of the largest. */
typedef struct needs {
    size_t n_rounds, fresh, n_requests;
    size_t bytes; /* received in all rounds */
} needs;

static needs find_needs(const iso_two_phase *x)
{
    needs n = {0};
    for (iso_two_phase_round round = {0}; iso_two_phase_round_next(&x->out, &x->in, &round); n.n_rounds++) {
        size_t bytes = 0, requests = (size_t)(round.out_end - round.out) + (size_t)(round.in_end - round.in);
        for (int i = round.in; i < round.in_end; i++)
            bytes += (size_t)x->in.items[i].shard.count * iso_dtype_size(x->in.items[i].shard.dtype);
        n.bytes += bytes;
        n.fresh = bytes > n.fresh ? bytes : n.fresh;
        n.n_requests = requests > n.n_requests ? requests : n.n_requests;
    }
    return n;
}

/* Two buffers, so that one round is exchanged while another is written; more only if the state is much larger
 * than the buffers. */
static size_t depth_for(const needs *n)
{
    size_t depth = n->fresh ? n->bytes / 8 / n->fresh : 0;
    depth = depth < 2 ? 2 : depth > ISO_TWO_PHASE_DEPTH ? ISO_TWO_PHASE_DEPTH : depth;
    return depth < n->n_rounds ? depth : n->n_rounds;
}

static iso_status two_phase_make_room(iso_two_phase *x)
{
    needs n = find_needs(x);
    size_t depth = depth_for(&n);
    bool any = x->here.count > 0 || n.n_rounds > 0;
    x->depth = (int)depth;
    x->fresh = iso_new(depth * n.fresh + 1);
    x->request = iso_new((depth * n.n_requests + 1) * sizeof *x->request);
    x->window = any ? iso_new(ISO_TWO_PHASE_WINDOW) : NULL;
    if (!x->fresh || !x->request || (any && !x->window))
        return iso_no_memory("the %zu bytes that a save redistributes",
                             depth * n.fresh + ISO_TWO_PHASE_WINDOW);
    for (size_t i = 0; i < depth; i++)
        x->buffer[i] = (iso_two_phase_buffer){.fresh = x->fresh + i * n.fresh,
                                              .requests = x->request + i * n.n_requests};
    return ISO_OK;
}

/* Announces to each rank the items that it gets from this one. */
static iso_status tell(iso_context *ctx, planner *p)
{
    const iso_watchdog *watchdog = iso_context_watchdog(ctx);
    iso_two_phase *x = p->x;
    traffic t = {0};
    iso_status status = ISO_OK;
    sort_items(&x->here);
    sort_items(&x->out);
    if (x->communicator != MPI_COMM_NULL) {
        ISO_TRY(iso_agree(ctx, make_traffic(x, &t)));
        ISO_TRY(iso_agree(ctx, exchange_counts(watchdog, x, &t)));
        status = iso_mpi_all_to_all(watchdog, t.outgoing, t.out, t.out_at, t.incoming, t.in, t.in_at,
                                    x->communicator);
        if (status == ISO_OK)
            status = take_notices(p, &t);
    }
    sort_items(&x->in);
    if (status == ISO_OK)
        status = two_phase_make_room(x);
    status = iso_agree(ctx, status);
done:
    free_traffic(&t);
    return status;
}

iso_status iso_two_phase_make(iso_context *ctx, MPI_Comm communicator, const iso_file_spec *spec,
                              iso_save_parts *parts, iso_two_phase *two_phase)
{
    iso_two_phase fresh = {.communicator = communicator, .rank = iso_rank(ctx), .n_ranks = iso_ranks(ctx)};
    planner p = {.x = &fresh, .spec = spec};
    iso_status status = find_tensors(ctx, &p, parts);
    if (status == ISO_OK) {
        status = cut_parts(&p, parts);
        if (status == ISO_OK)
            status = find_stretches(&p);
        status = iso_agree(ctx, status);
    }
    if (status == ISO_OK)
        status = tell(ctx, &p);
    iso_free(p.flags);
    iso_free(p.changes);
    iso_free(p.holder);
    if (status == ISO_OK)
        *two_phase = fresh;
    else
        iso_two_phase_free(&fresh);
    return status;
}

void iso_two_phase_free(iso_two_phase *two_phase)
{
    iso_free(two_phase->here.items);
    iso_free(two_phase->out.items);
    iso_free(two_phase->in.items);
    iso_free(two_phase->stretch);
    iso_free(two_phase->window);
    iso_free(two_phase->fresh);
    iso_free(two_phase->request);
    *two_phase = (iso_two_phase){.communicator = MPI_COMM_NULL};
}
