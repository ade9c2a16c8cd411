/* Epochs, batches and the cursor. */
#include <inttypes.h>

#include "runtime/base/arguments.h"
#include "runtime/base/hash.h"
#include "runtime/base/text.h"
#include "runtime/base/thread_modes.h"
#include "runtime/data/dataset_impl.h"

static iso_status check_range(const iso_batch *batch, int component, int64_t begin, int64_t count,
                              iso_dtype dtype)
{
    if (component < 0 || component >= batch->n_components)
        return iso_error(ISO_INVALID, "there is no component %d: the batch has %d", component,
                         batch->n_components);
    if (begin < 0 || count < 0 || begin > batch->rows || count > batch->rows - begin)
        return iso_error(ISO_INVALID,
                         "rows [%" PRId64 ", %" PRId64 " + %" PRId64 ") are not in a batch of %" PRId64
                         " rows",
                         begin, begin, count, batch->rows);
    if (iso_dtype_size(dtype) == 0)
        return iso_error(ISO_INVALID, "a batch cannot be read as type %d, which does not exist", dtype);
    return ISO_OK;
}

static iso_status check_part(const iso_batch *batch, int component, const iso_box *part)
{
    const iso_shape *shape = &batch->shape[component];
    bool fits = part->rank == shape->rank;
    for (int d = 0; fits && d < shape->rank; d++)
        fits = part->offset[d] >= 0 && part->extent[d] >= 0 && part->offset[d] <= shape->dim[d] &&
               part->extent[d] <= shape->dim[d] - part->offset[d];
    char text[160];
    return fits ? ISO_OK
                : iso_error(ISO_INVALID, "a part of rank %d is not within rows of shape %s", part->rank,
                            iso_shape_text(shape, text, sizeof text));
}

/* Reads rows from the node, or from the prefetcher's buffers. */
static iso_status read_rows(const iso_batch *batch, int component, int64_t begin, int64_t count,
                            const iso_row_part *part, iso_dtype dtype, void *out)
{
    ISO_DEFAULT_MODES();
    const iso_dataset *ds = batch->impl;
    if (ds->generator)
        return iso_generator_read(ds->generator, component, begin, count, part, dtype, out);
    if (ds->prefetcher)
        return iso_prefetcher_read(ds->prefetcher, component, begin, count, part, dtype, out);
    iso_rows rows = iso_order_rows(&ds->order, ds->begin + begin, count, ds->epoch);
    rows.part = part;
    return ds->top->ops->gather(ds->top, component, &rows, dtype, out);
}

/* Maps and caches give as many rows as they take. The order of another epoch is not kept. */
static int64_t source_row(const iso_batch *batch, int64_t position, int64_t row)
{
    const iso_dataset *ds = batch->impl;
    const iso_order *order = &ds->order;
    if (!ds->started || position / order->spans.elements != ds->epoch)
        return -1;
    int64_t at = iso_span_begin(&order->spans, position % order->spans.elements) + row;
    for (const iso_node *node = ds->top; at < order->spans.rows && !node->reordered; node = node->up) {
        at = order->index ? order->index[at] : order->begin + at;
        if (!node->up)
            return at;
        order = &node->in;
    }
    return -1;
}

/* The number of the first element that is below 0 or above 1; -1: none is. */
#define FIND_OUTSIDE(name, type)                                                                             \
    static int64_t name(const void *values, int64_t count)                                                   \
    {                                                                                                        \
        const type *x = values;                                                                              \
        int outside = 0;                                                                                     \
        int64_t at = 0;                                                                                      \
        for (int64_t i = 0; i < count; i++)                                                                  \
            outside |= (x[i] < 0) | (x[i] > 1);                                                              \
        while (outside && at < count && !(x[at] < 0 || x[at] > 1))                                           \
            at++;                                                                                            \
        return outside ? at : -1;                                                                            \
    }
FIND_OUTSIDE(find_outside_f32, float)
FIND_OUTSIDE(find_outside_f64, double)

/* values: rows from row `begin` of the batch on, each of as many elements. */
static iso_status check_fractions(const iso_batch *batch, int component, int64_t begin, int64_t elements,
                                  int64_t count, iso_dtype dtype, const void *values)
{
    const iso_dataset *ds = batch->impl;
    const char *name = ds->top->spec.name[component];
    const int64_t at = dtype == ISO_F32   ? find_outside_f32(values, count * elements)
                       : dtype == ISO_F64 ? find_outside_f64(values, count * elements)
                                          : -1;
    char value[64];
    if (at < 0)
        return ISO_OK;
    iso_element_text(dtype, (const char *)values + (size_t)at * iso_dtype_size(dtype), value, sizeof value);
    const int64_t row = begin + at / elements, source = source_row(batch, batch->position, row);
    iso_text where = {0};
    iso_text_add(&where, "row %" PRId64 " of the batch", row);
    if (source >= 0)
        iso_text_add(&where, " (row %" PRId64 " of the data set)", source);
    iso_status status = iso_error(
        ISO_INVALID, "%s: component %d%s%s%s, %s: %s is not from 0 to 1, which the loss needs", ds->top->name,
        component, *name ? " (" : "", name, *name ? ")" : "", iso_text_get(&where), value);
    iso_text_free(&where);
    return status;
}

static iso_status read_whole(const iso_batch *batch, int component, int64_t begin, int64_t count,
                             iso_dtype dtype, void *out)
{
    iso_status status = check_range(batch, component, begin, count, dtype);
    if (status == ISO_OK)
        status = read_rows(batch, component, begin, count, NULL, dtype, out);
    const iso_dataset *ds = batch->impl;
    return status == ISO_OK && ds->fraction[component]
               ? check_fractions(batch, component, begin, ds->top->spec.elements[component], count, dtype,
                                 out)
               : status;
}

static iso_status read_part(const iso_batch *batch, int component, int64_t begin, int64_t count,
                            const iso_box *part, iso_dtype dtype, void *out)
{
    iso_status status = check_range(batch, component, begin, count, dtype);
    if (status == ISO_OK)
        status = check_part(batch, component, part);
    if (status != ISO_OK || iso_box_count(part) == 0)
        return status;
    iso_row_part of_row = {.shape = &batch->shape[component], .box = part};
    status = read_rows(batch, component, begin, count, &of_row, dtype, out);
    const iso_dataset *ds = batch->impl;
    return status == ISO_OK && ds->fraction[component]
               ? check_fractions(batch, component, begin, iso_box_count(part), count, dtype, out)
               : status;
}

/* ---- rows of other ranks ---- */

static uint64_t hash_ranges(const iso_row_range *ranges, int count)
{
    return count ? iso_hash_bytes(1, ranges, (size_t)count * sizeof *ranges) : 0;
}

/* Notes the rows that the ranges of a batch need. */
static void want_batch(iso_dataset *ds, int64_t batch, const iso_row_range *ranges, int count)
{
    int64_t begin = iso_span_begin(&ds->order.spans, batch);
    for (int i = 0; i < count; i++) {
        iso_rows rows = iso_order_rows(&ds->order, begin + ranges[i].begin, ranges[i].count, ds->epoch);
        iso_row_window_want(ds->window, ds->top, &rows);
    }
}

/* Fetches the rows of the last batch, and of the batches that prefetch makes ahead. Those with as many rows
 * are assumed to be read in the same ranges. */
static iso_status iterate_prepare(const iso_batch *batch, const iso_row_range *ranges, int count)
{
    iso_dataset *ds = batch->impl;
    const iso_spans *spans = &ds->order.spans;
    int64_t now = ds->next - 1, end = now + 1 + (ds->prefetcher ? iso_prefetcher_ahead(ds->prefetcher) : 0);
    uint64_t wanted = hash_ranges(ranges, count);
    iso_status status = ISO_OK;
    for (int i = 0; i < count && status == ISO_OK; i++)
        status = check_range(batch, 0, ranges[i].begin, ranges[i].count, ISO_F32);
    if (status != ISO_OK)
        count = 0;
    if (ds->fetched <= now || ds->fetched_for != wanted)
        ds->fetched = now;
    ds->fetched_for = wanted;
    while (ds->fetched < end && ds->fetched < spans->elements &&
           iso_span_rows(spans, ds->fetched) == batch->rows)
        want_batch(ds, ds->fetched++, ranges, count);
    iso_status fetched = iso_row_window_fetch(ds->window, now, ds->fetched - 1);
    if (fetched != ISO_OK)
        ds->fetched = now;
    if (ds->prefetcher)
        iso_prefetcher_limit(ds->prefetcher, ds->fetched);
    return status == ISO_OK ? fetched : status;
}

/* No rows have been fetched yet. */
static void forget_rows(iso_dataset *ds)
{
    if (!ds->window)
        return;
    iso_row_window_clear(ds->window);
    ds->fetched = 0;
    ds->fetched_for = 0;
    if (ds->prefetcher)
        iso_prefetcher_limit(ds->prefetcher, 0);
}

static iso_status start_window(iso_dataset *ds)
{
    iso_node *source = iso_local_rows_below(ds->top);
    return source && !ds->window ? iso_row_window_create(source, &ds->window) : ISO_OK;
}

/* Rows in memory are best read in place. Rows of a map must be kept from one component to the next. For
 * others a prefetcher pays only if it works ahead. */
static iso_status start_prefetcher(iso_dataset *ds)
{
    const iso_node *top = ds->top;
    int threads = top->n_threads > 0 || ds->prefetch == 0 ? top->n_threads : 1;
    if (top->cheap || (top->ops->gather && threads == 0))
        return ISO_OK;
    return iso_prefetcher_create(ds->top, &ds->order, ds->prefetch, threads, &ds->prefetcher);
}

static iso_kept_bytes *iterate_kept(const iso_batch *batch, const iso_row_range *ranges, int count,
                                    size_t *bytes)
{
    iso_dataset *ds = batch->impl;
    *bytes = iso_prefetcher_kept(ds->prefetcher, ranges, count);
    return &ds->kept;
}

static void describe_batch(iso_dataset *ds)
{
    const iso_spec *spec = &ds->top->spec;
    iso_batch *batch = &ds->batch;
    *batch = (iso_batch){.n_components = spec->n_components, .impl = ds};
    for (int i = 0; i < spec->n_components; i++) {
        batch->shape[i] = spec->shape[i];
        batch->dtype[i] = spec->dtype[i];
    }
    batch->read = read_whole;
    batch->read_part = read_part;
    batch->prepare = ds->window ? iterate_prepare : NULL;
    batch->kept = ds->prefetcher && ds->kept.total ? iterate_kept : NULL;
    batch->source_row = ds->generator ? NULL : source_row;
    batch->source = ds->top->name;
}

/* Whether the order depends on the epoch and must be computed again. */
static bool must_order(const iso_dataset *ds, int64_t epoch)
{
    return !ds->started ||
           (epoch != ds->epoch && (iso_order_is_live(&ds->order) || iso_node_is_live(ds->top)));
}

static iso_status go_to(iso_dataset *ds, int64_t epoch, int64_t batch)
{
    iso_status status = ISO_OK;
    if (ds->failed != ISO_OK)
        return iso_dataset_edit(ds);
    if (ds->prefetcher)
        iso_prefetcher_stop(ds->prefetcher);
    if (must_order(ds, epoch)) {
        bool begun = ds->started;
        ds->started = false;
        ISO_TRY(iso_node_rewind(ds->top, epoch));
        ISO_TRY(iso_order_build(&ds->order, &ds->top->spans, epoch));
        if (!begun && !ds->prefetcher)
            ISO_TRY(start_prefetcher(ds));
        ISO_TRY(start_window(ds));
        describe_batch(ds);
        ds->started = true;
    }
    forget_rows(ds);
    ds->epoch = epoch;
    ds->next = batch;
done:
    return status;
}

iso_status iso_dataset_start(iso_dataset *ds)
{
    return ds->started ? ISO_OK : go_to(ds, ds->epoch, ds->next);
}

iso_status iso_dataset_rewind(iso_dataset *ds, int64_t epoch)
{
    ISO_DEFAULT_MODES();
    ISO_NEED_AS("dataset", ds);
    if (epoch < 0)
        return iso_error(ISO_INVALID, "%s: rewind to epoch %" PRId64 "; it must not be negative",
                         ds->top->name, epoch);
    return go_to(ds, epoch, 0);
}

void iso_dataset_need_fractions(iso_dataset *ds, const bool fraction[ISO_MAX_COMPONENTS])
{
    for (int i = 0; ds && i < ISO_MAX_COMPONENTS; i++)
        ds->fraction[i] = fraction[i];
}

static iso_status prepare_generated(const iso_batch *batch, const iso_row_range *ranges, int count)
{
    const iso_dataset *ds = batch->impl;
    return ds->made->prepare(ds->made, ranges, count);
}

/* Collective. */
static iso_status generate(iso_dataset *ds, const iso_batch **batch)
{
    int64_t due = iso_span_rows(&ds->order.spans, ds->next);
    iso_status status = iso_generator_next(ds->generator, ds->epoch, ds->next, due, &ds->made);
    *batch = NULL;
    if (status != ISO_OK)
        return status;
    if (!ds->made)
        return ISO_OK;
    ds->batch.rows = ds->made->rows;
    ds->batch.prepare = ds->made->prepare ? prepare_generated : NULL;
    ds->next++;
    *batch = &ds->batch;
    return ISO_OK;
}

iso_status iso_dataset_next(iso_dataset *ds, const iso_batch **batch)
{
    ISO_DEFAULT_MODES();
    ISO_NEED_AS("dataset, batch", ds, batch);
    iso_status status = iso_dataset_start(ds);
    if (status != ISO_OK)
        return status;
    const iso_spans *spans = &ds->order.spans;
    if (ds->next >= spans->elements) {
        *batch = NULL;
        return ISO_OK;
    }
    if (ds->generator)
        return generate(ds, batch);
    if (ds->prefetcher)
        iso_prefetcher_advance(ds->prefetcher, ds->next, ds->epoch);
    ds->begin = iso_span_begin(spans, ds->next);
    ds->batch.rows = iso_span_rows(spans, ds->next);
    ds->batch.position = iso_dataset_position(ds);
    ds->next++;
    *batch = &ds->batch;
    return ISO_OK;
}

int64_t iso_dataset_position(const iso_dataset *ds)
{
    if (ISO_ANY_NULL_AS("dataset", ds))
        return 0;
    return ds->epoch * iso_dataset_batches(ds) + ds->next;
}

iso_status iso_dataset_seek(iso_dataset *ds, int64_t position)
{
    ISO_DEFAULT_MODES();
    ISO_NEED_AS("dataset", ds);
    int64_t batches = iso_dataset_batches(ds);
    if (position < 0)
        return iso_error(ISO_INVALID, "%s: seek to position %" PRId64 "; it must not be negative",
                         ds->top->name, position);
    return go_to(ds, position / batches, position % batches);
}
