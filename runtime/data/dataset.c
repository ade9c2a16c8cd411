#include "runtime/base/arguments.h"
#include "runtime/data/dataset_impl.h"

#include "collectives/control/control.h"
#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/base/thread_modes.h"
#include "runtime/session/lifetime.h"

#include <inttypes.h>

iso_status iso_dataset_create(iso_context *ctx, iso_node *source, iso_dataset **dataset)
{
    iso_dataset *ds = iso_new(sizeof *ds);
    if (!ds) {
        iso_node_release(source);
        return iso_no_memory("a data set");
    }
    ds->ctx = iso_context_hold(ctx);
    ds->kept.total = iso_context_kept(ctx);
    ds->seed = iso_seed(ctx);
    ds->top = source;
    iso_order_begin(&ds->order, &source->spans);
    *dataset = ds;
    return ISO_OK;
}

/* Its batches do not count any more. */
static void end_prefetcher(iso_dataset *ds)
{
    iso_prefetcher_destroy(ds->prefetcher);
    ds->prefetcher = NULL;
    if (ds->kept.total)
        *ds->kept.total -= ds->kept.bytes;
    ds->kept.bytes = 0;
}

void iso_dataset_destroy(iso_dataset *ds)
{
    if (!ds)
        return;
    end_prefetcher(ds);
    iso_row_window_destroy(ds->window);
    iso_generator_free(ds->generator);
    iso_order_free(&ds->order);
    iso_node_release(ds->top);
    iso_free(ds->message);
    iso_context_release(ds->ctx);
    iso_free(ds);
}

/* "60000 rows of 1 + 1 components: u8 [28, 28, 1], u8 []" */
static void dataset_describe(const iso_dataset *ds, iso_text *text)
{
    char shape[128];
    iso_text_add(text, "%" PRId64 " rows of %d + %d components:", ds->top->spans.rows, ds->top->spec.n_inputs,
                 ds->top->spec.n_targets);
    for (int i = 0; i < ds->top->spec.n_components; i++)
        iso_text_add(text, "%s %s %s", i ? "," : "", iso_dtype_name(ds->top->spec.dtype[i]),
                     iso_shape_text(&ds->top->spec.shape[i], shape, sizeof shape));
}

static iso_status agree_same(iso_context *ctx, const iso_dataset *ds, const char *what)
{
    iso_text text = {0};
    dataset_describe(ds, &text);
    iso_status status = iso_agree_same_composed(ctx, what, &text);
    iso_text_free(&text);
    return status;
}

iso_status iso_dataset_agree(iso_context *ctx, iso_status status, const char *what, iso_dataset **dataset)
{
    status = iso_agree(ctx, status);
    if (status == ISO_OK)
        status = agree_same(ctx, *dataset, what);
    if (status != ISO_OK) {
        iso_dataset_destroy(*dataset);
        *dataset = NULL;
    }
    return status;
}

iso_status iso_dataset_edit(iso_dataset *ds)
{
    if (ds->failed != ISO_OK)
        return iso_error(ds->failed, "%s", ds->message ? ds->message : "a stage of the data set failed");
    if (ds->generator)
        return iso_error(ISO_INVALID, "a generator makes its batches itself: it takes no stages");
    end_prefetcher(ds);
    iso_row_window_destroy(ds->window);
    ds->window = NULL;
    ds->started = false;
    ds->next = 0;
    return ISO_OK;
}

iso_status iso_dataset_keep(iso_dataset *ds, iso_status status)
{
    if (status != ISO_OK && ds->failed == ISO_OK) {
        status = iso_error_prefix(status, "%s: ", ds->top->name);
        ds->failed = status;
        ds->message = iso_strdup(iso_error_message());
    }
    return status;
}

int64_t iso_dataset_rows(const iso_dataset *ds)
{
    if (ISO_ANY_NULL_AS("dataset", ds))
        return 0;
    return ds->order.spans.rows;
}

int64_t iso_dataset_batch_size(const iso_dataset *ds)
{
    if (ISO_ANY_NULL_AS("dataset", ds))
        return 0;
    return ds->order.spans.batch ? ds->order.spans.batch : 1;
}

int64_t iso_dataset_batches(const iso_dataset *ds)
{
    if (ISO_ANY_NULL_AS("dataset", ds))
        return 0;
    return ds->order.spans.elements;
}

bool iso_dataset_batched(const iso_dataset *ds)
{
    if (ISO_ANY_NULL_AS("dataset", ds))
        return false;
    return ds->order.spans.batch != 0;
}

bool iso_dataset_knows_rows(const iso_dataset *ds)
{
    if (ISO_ANY_NULL_AS("dataset", ds))
        return false;
    return !ds->generator || iso_generator_knows_rows(ds->generator);
}

int iso_dataset_components(const iso_dataset *ds)
{
    if (ISO_ANY_NULL_AS("dataset", ds))
        return 0;
    return ds->top->spec.n_components;
}

int iso_dataset_inputs(const iso_dataset *ds)
{
    if (ISO_ANY_NULL_AS("dataset", ds))
        return 0;
    return ds->top->spec.n_inputs;
}

int iso_dataset_targets(const iso_dataset *ds)
{
    if (ISO_ANY_NULL_AS("dataset", ds))
        return 0;
    return ds->top->spec.n_targets;
}

const iso_shape *iso_dataset_shape(const iso_dataset *ds, int component)
{
    if (ISO_ANY_NULL_AS("dataset", ds))
        return NULL;
    return component >= 0 && component < ds->top->spec.n_components ? &ds->top->spec.shape[component] : NULL;
}

iso_dtype iso_dataset_dtype(const iso_dataset *ds, int component)
{
    if (ISO_ANY_NULL_AS("dataset", ds))
        return ISO_DTYPE_NONE;
    return component >= 0 && component < ds->top->spec.n_components ? ds->top->spec.dtype[component]
                                                                    : ISO_DTYPE_NONE;
}

const char *iso_dataset_source(const iso_dataset *ds)
{
    if (ISO_ANY_NULL_AS("dataset", ds))
        return NULL;
    return ds->top->name;
}

uint64_t iso_dataset_order_with_seed(const iso_dataset *ds, uint64_t seed)
{
    if (ISO_ANY_NULL_AS("dataset", ds))
        return 0;
    uint64_t hash = iso_order_hash_with_seed(&ds->order, ds->seed, seed, 0);
    for (const iso_node *node = ds->top; node && node->up; node = node->up)
        hash = iso_order_hash_with_seed(&node->in, ds->seed, seed, hash);
    return hash;
}

uint64_t iso_dataset_order(const iso_dataset *ds)
{
    if (ISO_ANY_NULL_AS("dataset", ds))
        return 0;
    return iso_dataset_order_with_seed(ds, ds->seed);
}

static void describe_shuffle(const iso_order_op *op, iso_text *text)
{
    iso_text_add(text, ", shuffle with seed %" PRIu64, op->seed);
    if (op->n)
        iso_text_add(text, ", a buffer of %" PRId64, op->n);
    if (op->once)
        iso_text_add(text, ", once");
}

static void describe_order(const iso_order *order, iso_text *text)
{
    for (int i = 0; i < order->n_ops; i++) {
        const iso_order_op *op = &order->ops[i];
        if (op->kind == ISO_ORDER_SHUFFLE)
            describe_shuffle(op, text);
        else if (op->kind == ISO_ORDER_BATCH)
            iso_text_add(text, ", batches of %" PRId64 "%s", op->n, op->drop ? ", the rest dropped" : "");
        else
            iso_text_add(text, ", %" PRId64 " from %" PRId64, op->count, op->n);
    }
}

static void describe_node(const iso_node *node, iso_text *text)
{
    if (!node->up)
        return;
    describe_node(node->up, text);
    describe_order(&node->in, text);
    if (node->identity)
        iso_text_add(text, ", settings %016" PRIx64, node->identity);
}

iso_status iso_dataset_agree_order(const iso_dataset *ds, const char *what)
{
    ISO_NEED_AS("dataset", ds);
    iso_status status = ISO_ANY_NULL_AS("what", what) ? ISO_INVALID : ISO_OK;
    iso_text text = {0};
    iso_text_add(&text, "%" PRId64 " rows", iso_dataset_rows(ds));
    describe_node(ds->top, &text);
    describe_order(&ds->order, &text);
    if (status == ISO_OK && text.failed)
        status = iso_error(ISO_NO_MEMORY, "no memory to compare %s", what);
    status = iso_agree(ds->ctx, status);
    if (status == ISO_OK)
        status = iso_agree_same(ds->ctx, what, iso_hash_text(iso_dataset_order(ds), iso_text_get(&text)),
                                iso_text_get(&text));
    iso_text_free(&text);
    return status;
}

iso_status iso_dataset_serve(iso_dataset *ds)
{
    ISO_DEFAULT_MODES();
    ISO_NEED_AS("dataset", ds);
    iso_node *source = iso_local_rows_below(ds->top);
    return source ? iso_local_rows_serve(source) : ISO_OK;
}
