/* Makes the file of a cache: chooses the ranks that write it, and replaces a broken one. */
#include "runtime/data/cache_file_impl.h"

#include "collectives/control/control.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/data/dataset_impl.h"
#include "runtime/session/session.h"

enum { WHY = 256 };

typedef struct request {
    const char *path;
    iso_cache_layout layout;
    iso_node *top;
    const iso_order *order;
} request;

static iso_status look(const request *w, bool verify, iso_node **node, char *why)
{
    return iso_cache_file_open(w->path, &w->layout, verify, w->top->name, node, why, WHY);
}

/* Whether this rank finds no valid file. */
static iso_status look_for(const request *w, bool *missing)
{
    char why[WHY] = "";
    iso_node *node = NULL;
    iso_status status = look(w, true, &node, why);
    iso_node_release(node);
    *missing = status == ISO_OK && !node;
    if (*missing && *why)
        iso_warn("cache '%s': %s; it is made again", w->path, why);
    return status;
}

/* Whether a rank must write its file. Collective. */
static iso_status any_rank(iso_context *ctx, bool mine, bool *any)
{
    int64_t wanted = mine;
    iso_status status = iso_all_reduce(ctx, ISO_REDUCE_OR, ISO_I64, &wanted, 1);
    *any = wanted != 0;
    return status;
}

/* Writes the file if `writes`, for rows that are stored in shares. All ranks take part while one writes.
 * Collective. */
static iso_status write_from_shares(iso_context *ctx, const request *w, iso_node *source, bool writes)
{
    bool any = false;
    iso_row_window *window = NULL;
    iso_status status = any_rank(ctx, writes, &any);
    if (status != ISO_OK || !any)
        return status;
    status = iso_agree(ctx, iso_row_window_create(source, &window));
    if (status != ISO_OK) {
        iso_row_window_destroy(window);
        return status;
    }
    iso_cache_rounds rounds = iso_cache_rounds_of(&w->layout, window);
    if (writes)
        status = iso_cache_file_write(w->path, &w->layout, w->top, w->order, &rounds);
    for (; rounds.left > 0; rounds.left--)
        iso_local_rows_serve(source);
    iso_row_window_destroy(window);
    return status;
}

/* Writes the file on ranks that have `tries` set and find no valid file. Collective. */
static iso_status provide(iso_context *ctx, const request *w, bool tries)
{
    bool missing = false;
    iso_cache_rounds none = {0};
    iso_node *source = iso_local_rows_below(w->top);
    iso_status status = iso_agree(ctx, tries ? look_for(w, &missing) : ISO_OK);
    if (status == ISO_OK && source)
        status = write_from_shares(ctx, w, source, missing);
    else if (status == ISO_OK && missing)
        status = iso_cache_file_write(w->path, &w->layout, w->top, w->order, &none);
    return iso_agree(ctx, status);
}

static iso_status cache_file_take(const request *w, iso_node **node)
{
    char why[WHY] = "";
    iso_status status = look(w, false, node, why);
    if (status == ISO_OK && !*node)
        return iso_error(ISO_IO, "cache '%s' was made, but this rank cannot use it%s%s", w->path,
                         *why ? ": " : "", why);
    return status;
}

static bool moves_rows(const iso_order *order)
{
    for (int i = 0; i < order->n_ops; i++)
        if (order->ops[i].kind == ISO_ORDER_SHUFFLE ||
            (order->ops[i].kind == ISO_ORDER_TAKE && order->ops[i].n > 0))
            return true;
    return false;
}

/* Whether the rows that come out are numbered otherwise than those of the source. */
static bool is_reordered(const iso_node *top, const iso_order *order)
{
    for (const iso_node *node = top; node; node = node->up) {
        if (moves_rows(order) || node->reordered)
            return true;
        order = &node->in;
    }
    return false;
}

iso_status iso_cache_file(iso_context *ctx, const char *path, iso_node *top, const iso_order *order,
                          iso_node **node)
{
    request w = {.path = path, .top = top, .order = order};
    int rank = iso_rank(ctx);
    iso_node *fresh = NULL;
    iso_node *source = iso_local_rows_below(top);
    iso_status status = source ? iso_local_rows_identify(ctx, source) : ISO_OK;
    if (status == ISO_OK)
        status = iso_agree(ctx, iso_cache_layout_of(top, order, &w.layout));
    if (status != ISO_OK)
        return status;
    ISO_TRY(provide(ctx, &w, rank == 0));
    /* Hosts that do not see the chief's file system make their own file. */
    ISO_TRY(provide(ctx, &w, rank > 0 && iso_is_host_leader(ctx)));
    ISO_TRY(iso_agree(ctx, cache_file_take(&w, &fresh)));
    fresh->reordered = is_reordered(top, order);
    *node = fresh;
    return ISO_OK;
done:
    iso_node_release(fresh);
    return status;
}
