#include "runtime/checkpoint/exchange_impl.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/memory.h"
#include "runtime/checkpoint/runs_impl.h"
#include "runtime/session/session.h"

enum {
    SHORT = 4096,     /* bytes of a run that is not worth a write of its own: less than a page */
    UNIT = 4096,      /* bytes at which stretches are cut */
    WINDOW = 1 << 20, /* bytes of a stretch in a round */
    HAS = 1,          /* flags of a tensor at a rank: it has a part of it, one of short runs */
    HAS_SHORT = 2,
    TAG = 1,
};

/* Of each rank and tensor, the flags; and what follows from them. */
typedef struct planner {
    iso_save_exchange *x;
    const iso_saved_contents *contents;
    unsigned char *flags; /* [ranks][tensors] */
    bool *changes;        /* [tensors] whether it changes hands */
    int *holder;          /* [ranks] room for those of a tensor */
} planner;

static size_t element_of(const planner *p, int tensor)
{
    return iso_dtype_size(p->contents->tensor[tensor].dtype);
}

/* ---- which tensors ---- */

static bool is_short(const iso_piece *piece)
{
    iso_runs runs = iso_runs_of(piece);
    return piece->count > runs.most && (size_t)runs.most * iso_dtype_size(piece->dtype) < SHORT;
}

static iso_status find_tensors(iso_context *ctx, planner *p, const iso_save_parts *parts)
{
    size_t tensors = (size_t)p->contents->tensors, ranks = (size_t)p->x->ranks;
    unsigned char *mine = iso_new(tensors + 1);
    p->flags = iso_new(tensors * ranks + 1);
    p->changes = iso_new((tensors + 1) * sizeof *p->changes);
    p->holder = iso_new(ranks * sizeof *p->holder);
    bool good = mine && p->flags && p->changes && p->holder;
    iso_status status = iso_agree(
        ctx, good ? ISO_OK : iso_error(ISO_NO_MEMORY, "no memory to share out %zu tensors", tensors));
    for (int i = 0; i < parts->count && status == ISO_OK; i++)
        mine[parts->part[i].tensor] |= is_short(&parts->part[i].piece) ? HAS | HAS_SHORT : HAS;
    if (status == ISO_OK && p->x->communicator != MPI_COMM_NULL)
        MPI_Allgather(mine, (int)tensors, MPI_BYTE, p->flags, (int)tensors, MPI_BYTE, p->x->communicator);
    else if (status == ISO_OK)
        memcpy(p->flags, mine, tensors);
    for (size_t i = 0; i < tensors * ranks && status == ISO_OK; i++)
        p->changes[i % tensors] |= (p->flags[i] & HAS_SHORT) != 0;
    iso_free(mine);
    return status;
}

/* ---- who gets what ---- */

static int find_holders(const planner *p, int tensor)
{
    int count = 0;
    for (int r = 0; r < p->x->ranks; r++)
        if (p->flags[(size_t)r * (size_t)p->contents->tensors + (size_t)tensor])
            p->holder[count++] = r;
    return count;
}

/* Stretch number k of `holders`, [begin, end) of the tensor's elements; it is holder k's, counted from
 * another holder for each tensor, so that the first ones do not always have more. */
static void stretch_of(const planner *p, int tensor, int holders, int k, int64_t *begin, int64_t *end)
{
    int64_t n = 0, unit = UNIT / (int64_t)element_of(p, tensor);
    iso_shape_count(&p->contents->tensor[tensor].shape, &n);
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

/* ---- what goes out ---- */

static iso_status add_item(iso_save_items *items, iso_save_item fresh)
{
    if ((items->count & (items->count - 1)) == 0) {
        size_t wanted = items->count ? (size_t)items->count * 2 : 1;
        iso_save_item *grown = iso_grow(items->item, (size_t)items->count, wanted, sizeof *grown);
        if (!grown)
            return iso_error(ISO_NO_MEMORY, "no memory for %zu pieces", wanted);
        items->item = grown;
    }
    fresh.order = items->count;
    items->item[items->count++] = fresh;
    return ISO_OK;
}

/* The first element of a piece, in its box's order, that is not before this one of the tensor. */
static int64_t first_from(const iso_piece *piece, int64_t global)
{
    int64_t low = piece->begin, high = piece->begin + piece->count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (iso_box_global_index(&piece->box, &piece->shape, middle) < global)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* What a part has of one stretch, round by round. */
static iso_status cut_for(planner *p, const iso_save_part *part, int rank, int64_t begin, int64_t end)
{
    int64_t window = WINDOW / (int64_t)element_of(p, part->tensor);
    iso_status status = ISO_OK;
    for (int64_t at = begin; at < end && status == ISO_OK; at += window) {
        iso_save_item item = {part->tensor, (int)((at - begin) / window), rank, 0, part->source, part->piece};
        int64_t from = first_from(&part->piece, at),
                to = first_from(&part->piece, at + window < end ? at + window : end);
        item.piece.begin = from;
        item.piece.count = to - from;
        if (to > from)
            status = add_item(&p->x->out, item);
    }
    return status;
}

static iso_status cut_part(planner *p, const iso_save_part *part)
{
    int64_t begin, end;
    int holders = find_holders(p, part->tensor);
    iso_status status = ISO_OK;
    for (int k = 0; k < holders && status == ISO_OK; k++) {
        stretch_of(p, part->tensor, holders, k, &begin, &end);
        status = cut_for(p, part, holder_of(p, part->tensor, holders, k), begin, end);
    }
    return status;
}

/* The parts that go out leave; this rank's stretches come. */
static iso_status change_parts(planner *p, iso_save_parts *parts)
{
    iso_save_parts kept = {.made_for = parts->made_for};
    iso_status status = ISO_OK;
    for (int i = 0; i < parts->count && status == ISO_OK; i++)
        status = p->changes[parts->part[i].tensor] ? cut_part(p, &parts->part[i])
                                                   : iso_save_parts_add(&kept, parts->part[i]);
    for (int t = 0; t < p->contents->tensors && status == ISO_OK; t++) {
        const iso_saved_tensor *tensor = &p->contents->tensor[t];
        iso_piece whole = {tensor->path, tensor->dtype, tensor->shape, iso_box_whole(&tensor->shape), 0, 0,
                           NULL,         true};
        int holders = p->changes[t] ? find_holders(p, t) : 0;
        for (int k = 0; k < holders && status == ISO_OK; k++) {
            int64_t end;
            if (holder_of(p, t, holders, k) != p->x->rank)
                continue;
            stretch_of(p, t, holders, k, &whole.begin, &end);
            whole.count = end - whole.begin;
            if (whole.count > 0)
                status = iso_save_parts_add(&kept, (iso_save_part){t, ISO_SAVE_EXCHANGED, whole, 0});
        }
    }
    if (status != ISO_OK) {
        iso_save_parts_free(&kept);
        return status;
    }
    iso_save_parts_free(parts);
    *parts = kept;
    iso_save_parts_sort(parts);
    return ISO_OK;
}

static iso_status note_parts(planner *p, const iso_save_parts *parts)
{
    p->x->part = iso_new(((size_t)p->contents->tensors + 1) * sizeof *p->x->part);
    if (!p->x->part)
        return iso_error(ISO_NO_MEMORY, "no memory for the parts of %d tensors", p->contents->tensors);
    for (int t = 0; t < p->contents->tensors; t++)
        p->x->part[t] = -1;
    for (int i = 0; i < parts->count; i++)
        if (parts->part[i].source == ISO_SAVE_EXCHANGED)
            p->x->part[parts->part[i].tensor] = i;
    return ISO_OK;
}

/* ---- what comes in ---- */

/* An item as it is told to the rank that gets it. */
typedef struct notice {
    int tensor, round;
    int64_t begin, count;
    iso_box box;
} notice;

/* By round, and within it in the order in which the sender made them. */
static int by_round(const void *a, const void *b)
{
    const iso_save_item *x = a, *y = b;
    if (x->tensor != y->tensor)
        return x->tensor < y->tensor ? -1 : 1;
    if (x->round != y->round)
        return x->round < y->round ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static void sort_items(iso_save_items *items)
{
    if (items->count)
        qsort(items->item, (size_t)items->count, sizeof *items->item, by_round);
}

/* Bytes to and from each rank, and where they begin. */
typedef struct traffic {
    int *out, *out_at, *in, *in_at; /* [ranks] */
    notice *told, *heard;
    int heard_count;
} traffic;

static void free_traffic(traffic *t)
{
    iso_free(t->out);
    iso_free(t->told);
    iso_free(t->heard);
}

static iso_status make_traffic(const iso_save_exchange *x, traffic *t)
{
    size_t ranks = (size_t)x->ranks;
    *t = (traffic){.out = iso_new(4 * ranks * sizeof *t->out),
                   .told = iso_new(((size_t)x->out.count + 1) * sizeof *t->told)};
    if (!t->out || !t->told)
        return iso_error(ISO_NO_MEMORY, "no memory to share out tensors among %d ranks", x->ranks);
    if ((size_t)x->out.count > INT_MAX / sizeof *t->told)
        return iso_error(ISO_INVALID, "%d parts of tensors are too many to be shared out", x->out.count);
    t->out_at = t->out + ranks;
    t->in = t->out_at + ranks;
    t->in_at = t->in + ranks;
    for (int i = 0; i < x->out.count; i++)
        t->out[x->out.item[i].rank] += x->out.item[i].rank == x->rank ? 0 : (int)sizeof *t->told;
    for (int r = 1; r < x->ranks; r++)
        t->out_at[r] = t->out_at[r - 1] + t->out[r - 1];
    int *next = t->in; /* room, so far */
    for (int i = 0; i < x->out.count; i++) {
        const iso_save_item *item = &x->out.item[i];
        if (item->rank != x->rank)
            t->told[(size_t)t->out_at[item->rank] / sizeof *t->told + (size_t)next[item->rank]++] =
                (notice){item->tensor, item->round, item->piece.begin, item->piece.count, item->piece.box};
    }
    return ISO_OK;
}

static iso_status hear_counts(const iso_save_exchange *x, traffic *t)
{
    int bytes = 0;
    bool fits = true;
    MPI_Alltoall(t->out, 1, MPI_INT, t->in, 1, MPI_INT, x->communicator);
    for (int r = 0; r < x->ranks; r++) {
        t->in_at[r] = bytes;
        fits = fits && !__builtin_add_overflow(bytes, t->in[r], &bytes);
    }
    if (!fits)
        return iso_error(ISO_INVALID, "the parts of tensors that rank %d is to write are too many", x->rank);
    t->heard_count = bytes / (int)sizeof *t->heard;
    t->heard = iso_new((size_t)bytes + 1);
    return t->heard ? ISO_OK
                    : iso_error(ISO_NO_MEMORY, "no memory to share out tensors among %d ranks", x->ranks);
}

static iso_status take_notices(planner *p, const traffic *t)
{
    int rank = 0;
    iso_status status = ISO_OK;
    for (int i = 0; i < t->heard_count && status == ISO_OK; i++) {
        const notice *n = &t->heard[i];
        while (rank + 1 < p->x->ranks && i * (int)sizeof *n >= t->in_at[rank + 1])
            rank++;
        const iso_saved_tensor *tensor = &p->contents->tensor[n->tensor];
        iso_piece piece = {tensor->path, tensor->dtype, tensor->shape, n->box,
                           n->begin,     n->count,      NULL,          true};
        status = add_item(&p->x->in, (iso_save_item){n->tensor, n->round, rank, 0, 0, piece});
    }
    return status;
}

static iso_status make_room(iso_save_exchange *x)
{
    size_t requests = (size_t)x->out.count + (size_t)x->in.count;
    size_t bytes = 0;
    for (int i = 0; i < x->in.count; i++) {
        const iso_save_item *item = &x->in.item[i];
        bool same = i > 0 && item[-1].tensor == item->tensor && item[-1].round == item->round;
        bytes = (same ? bytes : 0) + (size_t)item->piece.count * iso_dtype_size(item->piece.dtype);
        x->fresh_bytes = bytes > x->fresh_bytes ? bytes : x->fresh_bytes;
    }
    x->fresh = iso_new(x->fresh_bytes);
    x->request = iso_new((requests + 1) * sizeof *x->request);
    return x->fresh && x->request
               ? ISO_OK
               : iso_error(ISO_NO_MEMORY, "no memory for the %zu bytes that change hands at a save",
                           x->fresh_bytes);
}

/* Tells each rank what it gets from this one. */
static iso_status tell(iso_context *ctx, planner *p)
{
    iso_save_exchange *x = p->x;
    traffic t = {0};
    iso_status status = ISO_OK;
    sort_items(&x->out);
    if (x->communicator != MPI_COMM_NULL) {
        ISO_TRY(iso_agree(ctx, make_traffic(x, &t)));
        ISO_TRY(iso_agree(ctx, hear_counts(x, &t)));
        MPI_Alltoallv(t.told, t.out, t.out_at, MPI_BYTE, t.heard, t.in, t.in_at, MPI_BYTE, x->communicator);
        status = take_notices(p, &t);
    }
    sort_items(&x->in);
    if (status == ISO_OK)
        status = make_room(x);
    status = iso_agree(ctx, status);
done:
    free_traffic(&t);
    return status;
}

iso_status iso_save_exchange_make(iso_context *ctx, MPI_Comm communicator, const iso_saved_contents *contents,
                                  iso_save_parts *parts, iso_save_exchange *exchange)
{
    iso_save_exchange fresh = {.communicator = communicator, .rank = iso_rank(ctx), .ranks = iso_ranks(ctx)};
    planner p = {.x = &fresh, .contents = contents};
    iso_status status = find_tensors(ctx, &p, parts);
    if (status == ISO_OK) {
        status = change_parts(&p, parts);
        if (status == ISO_OK)
            status = note_parts(&p, parts);
        status = iso_agree(ctx, status);
    }
    if (status == ISO_OK)
        status = tell(ctx, &p);
    iso_free(p.flags);
    iso_free(p.changes);
    iso_free(p.holder);
    if (status == ISO_OK)
        *exchange = fresh;
    else
        iso_save_exchange_free(&fresh);
    return status;
}

void iso_save_exchange_free(iso_save_exchange *exchange)
{
    iso_free(exchange->out.item);
    iso_free(exchange->in.item);
    iso_free(exchange->part);
    iso_free(exchange->fresh);
    iso_free(exchange->request);
    *exchange = (iso_save_exchange){.communicator = MPI_COMM_NULL};
}

/* ---- running ---- */

static size_t bytes_of(const iso_save_item *item)
{
    return (size_t)item->piece.count * iso_dtype_size(item->piece.dtype);
}

/* Puts an item's elements, dense at `from`, to their places in this rank's stretch. */
static void put(const iso_save_exchange *x, const iso_save_parts *parts, const iso_save_item *item,
                const char *from)
{
    const iso_piece *to = &parts->part[x->part[item->tensor]].piece;
    size_t element = iso_dtype_size(to->dtype);
    int64_t own, global, count;
    iso_runs runs = iso_runs_of(&item->piece);
    while (iso_runs_next(&runs, &own, &global, &count))
        memcpy((char *)to->data + (size_t)(global - to->begin) * element, from + (size_t)own * element,
               (size_t)count * element);
}

static const char *data_of(const iso_save_item *item, const iso_pieces *pieces)
{
    const iso_piece *piece = &pieces->piece[item->source];
    return (const char *)piece->data +
           (size_t)(item->piece.begin - piece->begin) * iso_dtype_size(piece->dtype);
}

static bool is_of(const iso_save_items *items, int at, const iso_save_item *round)
{
    return at < items->count && items->item[at].tensor == round->tensor &&
           items->item[at].round == round->round;
}

/* The round that comes first of those that an item of either list is in. */
static const iso_save_item *next_round(const iso_save_exchange *x, int out, int in)
{
    const iso_save_item *a = out < x->out.count ? &x->out.item[out] : NULL,
                        *b = in < x->in.count ? &x->in.item[in] : NULL;
    if (!a || !b)
        return a ? a : b;
    bool first = a->tensor != b->tensor ? a->tensor < b->tensor : a->round <= b->round;
    return first ? a : b;
}

/* One round: items from *out and *in on. */
static void run_round(iso_save_exchange *x, const iso_save_parts *parts, const iso_pieces *pieces,
                      const iso_save_item *round, int *out, int *in)
{
    int requests = 0, first = *in;
    char *to = x->fresh;
    for (; is_of(&x->in, *in, round); (*in)++) {
        const iso_save_item *item = &x->in.item[*in];
        MPI_Irecv(to, (int)bytes_of(item), MPI_BYTE, item->rank, TAG, x->communicator,
                  &x->request[requests++]);
        to += bytes_of(item);
    }
    int begin = *out;
    for (; is_of(&x->out, *out, round); (*out)++) {
        const iso_save_item *item = &x->out.item[*out];
        if (item->rank != x->rank)
            MPI_Isend(data_of(item, pieces), (int)bytes_of(item), MPI_BYTE, item->rank, TAG, x->communicator,
                      &x->request[requests++]);
    }
    for (int i = begin; i < *out; i++)
        if (x->out.item[i].rank == x->rank)
            put(x, parts, &x->out.item[i], data_of(&x->out.item[i], pieces));
    if (requests)
        MPI_Waitall(requests, x->request, MPI_STATUSES_IGNORE);
    const char *from = x->fresh;
    for (int i = first; i < *in; i++) {
        put(x, parts, &x->in.item[i], from);
        from += bytes_of(&x->in.item[i]);
    }
}

void iso_save_exchange_run(iso_save_exchange *exchange, const iso_save_parts *parts, const iso_pieces *pieces)
{
    const iso_save_item *round;
    int out = 0, in = 0;
    while ((round = next_round(exchange, out, in))) {
        const iso_save_item now = *round;
        run_round(exchange, parts, pieces, &now, &out, &in);
    }
}
