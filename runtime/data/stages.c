#include <inttypes.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/data/cache_file_impl.h"
#include "runtime/data/dataset_impl.h"

/* The options of a caller that was built with an older header are shorter; the missing members are zero. */
#define TAKE_OPTIONS(type, options, size)                                                                    \
    type taken = {0};                                                                                        \
    iso_options_copy(&taken, sizeof taken, options, size)

/* The new node replaces `order` and the old node. */
static void put_node(iso_dataset *ds, iso_node *node)
{
    iso_node_release(ds->top);
    ds->top = node;
    iso_order_free(&ds->order);
    iso_order_begin(&ds->order, &node->spans);
}

iso_status iso_dataset_map_with(iso_dataset *ds, const iso_dataset_map_options *options, size_t size)
{
    ISO_DEFAULT_MODES();
    ISO_NEED_AS("dataset", ds);
    TAKE_OPTIONS(iso_dataset_map_options, options, size);
    iso_node *node = NULL;
    iso_status status = iso_dataset_edit(ds);
    if (status != ISO_OK)
        return status;
    status = iso_map_node(ds->top, &ds->order, &taken, &node);
    if (status == ISO_OK)
        put_node(ds, node);
    return iso_dataset_keep(ds, status);
}

iso_status iso_dataset_shuffle_with(iso_dataset *ds, const iso_dataset_shuffle_options *options, size_t size)
{
    ISO_DEFAULT_MODES();
    ISO_NEED_AS("dataset", ds);
    TAKE_OPTIONS(iso_dataset_shuffle_options, options, size);
    iso_status status = iso_dataset_edit(ds);
    if (status != ISO_OK)
        return status;
    uint64_t seed = taken.seed ? taken.seed : ds->seed;
    int number = ds->shuffles++;
    iso_order_op op = {.kind = ISO_ORDER_SHUFFLE,
                       .n = taken.buffer,
                       .seed = seed,
                       .key = iso_shuffle_key(seed, number),
                       .number = number,
                       .once = taken.once};
    return iso_dataset_keep(ds, iso_order_add(&ds->order, &op));
}

iso_status iso_dataset_batch_with(iso_dataset *ds, const iso_dataset_batch_options *options, size_t size)
{
    ISO_DEFAULT_MODES();
    ISO_NEED_AS("dataset", ds);
    TAKE_OPTIONS(iso_dataset_batch_options, options, size);
    iso_order_op op = {.kind = ISO_ORDER_BATCH, .n = taken.rows, .drop = taken.drop_remainder};
    iso_status status = iso_dataset_edit(ds);
    return status == ISO_OK ? iso_dataset_keep(ds, iso_order_add(&ds->order, &op)) : status;
}

static iso_status freeze(iso_dataset *ds)
{
    iso_order_freeze(&ds->order);
    iso_status status = iso_node_freeze(ds->top);
    return status == ISO_OK ? iso_order_build(&ds->order, &ds->top->spans, 0) : status;
}

static iso_status cache_in_memory(iso_dataset *ds)
{
    iso_node *node = NULL;
    /* Rows in memory need no second copy: a cache only fixes their order. */
    if (ds->top->cheap)
        return ISO_OK;
    iso_status status = iso_cache_node(ds->top, &ds->order, &node);
    if (status == ISO_OK)
        put_node(ds, node);
    return status;
}

/* Collective. */
static iso_status cache_in_file(iso_dataset *ds, const char *path)
{
    iso_node *node = NULL;
    iso_status status = iso_cache_file(ds->ctx, path, ds->top, &ds->order, &node);
    if (status == ISO_OK)
        put_node(ds, node);
    return status;
}

iso_status iso_dataset_cache(iso_dataset *ds, const char *path)
{
    ISO_DEFAULT_MODES();
    ISO_NEED_AS("dataset", ds);
    iso_status status = iso_dataset_edit(ds);
    if (status == ISO_OK)
        status = freeze(ds);
    if (path) {
        status = iso_agree(ds->ctx, status);
        if (status == ISO_OK)
            status = cache_in_file(ds, path);
    } else if (status == ISO_OK) {
        status = cache_in_memory(ds);
    }
    return iso_dataset_keep(ds, status);
}

iso_status iso_dataset_prefetch(iso_dataset *ds, int64_t n)
{
    ISO_DEFAULT_MODES();
    ISO_NEED_AS("dataset", ds);
    iso_status status = iso_dataset_edit(ds);
    if (status != ISO_OK)
        return status;
    if (n < 0)
        return iso_dataset_keep(
            ds, iso_error(ISO_INVALID, "prefetch: n is %" PRId64 ", it must not be negative", n));
    if (n > ds->prefetch)
        ds->prefetch = n;
    return ISO_OK;
}

static iso_status check_split(const iso_dataset *ds, int64_t rows)
{
    const iso_spans *spans = &ds->order.spans;
    if (spans->batch)
        return iso_error(ISO_INVALID,
                         "split of %" PRId64 " rows: the rows are in batches already; split before batch",
                         rows);
    if (iso_order_is_live(&ds->order) || iso_node_is_live(ds->top))
        return iso_error(ISO_INVALID,
                         "split of %" PRId64
                         " rows after a shuffle: the two parts would exchange rows in every epoch; "
                         "split before shuffle, or cache between them",
                         rows);
    if (rows < 1 || rows >= spans->rows)
        return iso_error(ISO_INVALID,
                         "split of %" PRId64 " rows: 1 to %" PRId64 " of the %" PRId64 " can be split off",
                         rows, spans->rows - 1, spans->rows);
    return ISO_OK;
}

static iso_status split(iso_dataset *ds, int64_t rows, iso_dataset **last)
{
    iso_order_op tail = {.kind = ISO_ORDER_TAKE, .n = ds->order.spans.rows - rows, .count = rows};
    iso_order_op head = {.kind = ISO_ORDER_TAKE, .count = tail.n};
    iso_dataset *rest = NULL;
    iso_status status = check_split(ds, rows);
    if (status != ISO_OK)
        return status;
    status = iso_dataset_create(ds->ctx, iso_node_hold(ds->top), &rest);
    if (status != ISO_OK)
        return status;
    iso_order_copy(&ds->order, &rest->order);
    rest->shuffles = ds->shuffles;
    ISO_TRY(iso_order_add(&rest->order, &tail));
    ISO_TRY(iso_order_add(&ds->order, &head));
    *last = rest;
    return ISO_OK;
done:
    iso_dataset_destroy(rest);
    return status;
}

iso_status iso_dataset_split(iso_dataset *ds, int64_t rows, iso_dataset **last)
{
    ISO_DEFAULT_MODES();
    ISO_NEED_AS("dataset, last", ds, last);
    iso_status status = iso_dataset_edit(ds);
    return status == ISO_OK ? iso_dataset_keep(ds, split(ds, rows, last)) : status;
}
