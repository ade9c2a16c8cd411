/* Data sets whose batches the program makes itself. Each rank makes the rows that its slots read. */
#include "runtime/base/arguments.h"
#include "runtime/data/generator_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/memory.h"
#include "runtime/base/program_call.h"
#include "runtime/base/thread_modes.h"
#include "runtime/data/dataset_impl.h"

struct iso_generator {
    iso_context *ctx;
    iso_spec spec;
    iso_dataset_generator_options options;
    int64_t epoch, number;
    iso_batch batch; /* the last batch */
};

void iso_generator_free(iso_generator *g)
{
    iso_free(g);
}

bool iso_generator_knows_rows(const iso_generator *g)
{
    return g->options.rows > 0;
}

/* ---- the next batch ---- */

static iso_batch empty_batch(const iso_generator *g, int64_t rows)
{
    iso_batch batch = {.rows = rows, .n_components = g->spec.n_components};
    for (int i = 0; i < g->spec.n_components; i++) {
        batch.shape[i] = g->spec.shape[i];
        batch.dtype[i] = g->spec.dtype[i];
    }
    return batch;
}

static iso_status check_rows(const iso_generator *g, int64_t rows)
{
    int64_t given = g->batch.rows;
    if (given < 0 || given > rows)
        return iso_error(ISO_INVALID, "the function gave %" PRId64 " rows; it must give 0 to %" PRId64, given,
                         rows);
    if (!iso_generator_knows_rows(g))
        return given == 0 && g->number == 0 ? iso_error(ISO_INVALID, "the epoch has no batch") : ISO_OK;
    if (given == 0)
        return iso_error(ISO_INVALID, "the epoch ends here, and should have %" PRId64 " rows",
                         g->options.rows);
    return given == rows ? ISO_OK
                         : iso_error(ISO_INVALID, "%" PRId64 " rows instead of %" PRId64, given, rows);
}

static iso_status check_components(const iso_generator *g)
{
    const iso_spec *spec = &g->spec;
    char have[128], want[128];
    if (g->batch.n_components != spec->n_components)
        return iso_error(ISO_INVALID, "%d components, not %d", g->batch.n_components, spec->n_components);
    for (int i = 0; i < spec->n_components; i++)
        if (!iso_shape_equal(&g->batch.shape[i], &spec->shape[i]) || g->batch.dtype[i] != spec->dtype[i])
            return iso_error(
                ISO_INVALID, "component %d is %s %s a row; the data set was made with %s %s", i,
                iso_dtype_name(g->batch.dtype[i]), iso_shape_text(&g->batch.shape[i], have, sizeof have),
                iso_dtype_name(spec->dtype[i]), iso_shape_text(&spec->shape[i], want, sizeof want));
    return g->batch.read ? ISO_OK : iso_error(ISO_INVALID, "the batch has no `read`");
}

/* Prefixes an error with its batch. */
static iso_status at_batch(const iso_generator *g, iso_status status)
{
    return status == ISO_OK ? ISO_OK
                            : iso_error_prefix(status, "generator, epoch %" PRId64 ", batch %" PRId64 ": ",
                                               g->epoch, g->number);
}

/* Calls the function of the program on this rank. */
static iso_status ask(iso_generator *g, int64_t rows)
{
    g->batch = empty_batch(g, rows);
    iso_program_modes *modes = iso_program_modes_begin();
    iso_status status =
        ISO_PROGRAM_CALL(g->options.next(g->options.user, g->epoch, g->number, &g->batch), "`next`");
    iso_program_modes_end(modes);
    if (status == ISO_OK)
        status = check_rows(g, rows);
    if (status == ISO_OK && g->batch.rows > 0)
        status = check_components(g);
    return at_batch(g, status);
}

/* One exchange if there is no error. An error of any rank reaches all; otherwise all have the same number of
 * rows. Collective. */
static iso_status agree(const iso_generator *g, iso_status status)
{
    char what[100], text[40], message[1024] = "";
    snprintf(what, sizeof what, "the rows of batch %" PRId64 " of epoch %" PRId64 " of a generator",
             g->number, g->epoch);
    snprintf(text, sizeof text, g->batch.rows ? "%" PRId64 " rows" : "the end", g->batch.rows);
    if (status != ISO_OK)
        snprintf(message, sizeof message, "%s", iso_error_message());
    uint64_t value = status == ISO_OK ? (uint64_t)g->batch.rows : UINT64_MAX;
    iso_status same = iso_agree_same(g->ctx, what, value, text);
    if (same == ISO_OK && status == ISO_OK)
        return ISO_OK;
    if (status != ISO_OK) {
        iso_error(status, "%s", message);
    } else { /* either the rows differ, or another rank failed */
        snprintf(message, sizeof message, "%s", iso_error_message());
    }
    iso_status agreed = iso_agree(g->ctx, status);
    return agreed != ISO_OK ? agreed : iso_error(same, "%s", message);
}

iso_status iso_generator_next(iso_generator *g, int64_t epoch, int64_t number, int64_t rows,
                              const iso_batch **batch)
{
    g->epoch = epoch;
    g->number = number;
    iso_status status = agree(g, ask(g, rows));
    *batch = status == ISO_OK && g->batch.rows > 0 ? &g->batch : NULL;
    return status;
}

/* ---- reading ---- */

/* Reads rows in the stored type. */
static iso_status read_stored(const iso_generator *g, int component, int64_t begin, int64_t count, void *out)
{
    iso_dtype dtype = g->spec.dtype[component];
    return at_batch(
        g, ISO_PROGRAM_CALL(g->batch.read(&g->batch, component, begin, count, dtype, out), "`read`"));
}

static iso_status bad_value(const iso_generator *g, int component, int64_t row, const void *element,
                            iso_dtype dtype)
{
    char value[64];
    iso_element_text(g->spec.dtype[component], element, value, sizeof value);
    return iso_error(ISO_INVALID,
                     "generator, epoch %" PRId64 ", batch %" PRId64 ": component %d, row %" PRId64
                     " of the batch: %s is not a value of %s",
                     g->epoch, g->number, component, row, value, iso_dtype_name(dtype));
}

/* Converts through a copy in the stored type. */
static iso_status read_converted(const iso_generator *g, int component, int64_t begin, int64_t count,
                                 const iso_row_part *part, iso_dtype dtype, void *out)
{
    const iso_spec *spec = &g->spec;
    iso_dtype from = spec->dtype[component];
    void *room = NULL;
    int64_t element = 0;
    size_t bytes = 0;
    iso_status status = ISO_OK;
    ISO_TRY(iso_size_mul((size_t)count, spec->bytes[component], "rows of a generator", &bytes));
    ISO_TRY(iso_alloc(bytes, "rows of a generator", &room));
    ISO_TRY(read_stored(g, component, begin, count, room));
    iso_rows rows = {.count = count, .part = part};
    int64_t row = iso_gather(from, room, spec->elements[component], &rows, dtype, out, &element);
    if (row >= 0)
        status = bad_value(g, component, begin + row,
                           (const char *)room + (size_t)row * spec->bytes[component] +
                               (size_t)element * iso_dtype_size(from),
                           dtype);
done:
    iso_free(room);
    return status;
}

iso_status iso_generator_read(const iso_generator *g, int component, int64_t begin, int64_t count,
                              const iso_row_part *part, iso_dtype dtype, void *out)
{
    bool stored = dtype == g->spec.dtype[component];
    if (stored && !part)
        return read_stored(g, component, begin, count, out);
    if (stored && g->batch.read_part)
        return at_batch(
            g, ISO_PROGRAM_CALL(g->batch.read_part(&g->batch, component, begin, count, part->box, dtype, out),
                                "`read_part`"));
    return read_converted(g, component, begin, count, part, dtype, out);
}

/* ---- opening ---- */

static iso_status generator_gather(iso_node *node, int component, const iso_rows *rows, iso_dtype dtype,
                                   void *out)
{
    (void)component, (void)rows, (void)dtype, (void)out;
    return iso_error(ISO_INVALID, "%s: its rows can be read only from its batches", node->name);
}

static const iso_node_ops generator_ops = {.gather = generator_gather};

static iso_status check_options(iso_dataset_generator_options *o)
{
    const int64_t most = (int64_t)1 << 20, epoch = (int64_t)1 << ISO_UNKNOWN_BATCHES_LOG2;
    if (!o->next)
        return iso_error(ISO_INVALID, "generator: no function `next`");
    if (o->batch_size == 0)
        o->batch_size = 32;
    if (o->batch_size < 0 || o->batch_size > most)
        return iso_error(ISO_INVALID, "generator: batches of %" PRId64 " rows; they must have 1 to %" PRId64,
                         o->batch_size, most);
    if (o->rows < 0 || o->batches < 0 || o->batches >= epoch || o->rows / o->batch_size >= epoch)
        return iso_error(ISO_INVALID,
                         "generator: epochs of %" PRId64 " rows and %" PRId64 " batches are not possible",
                         o->rows, o->batches);
    if (o->rows && o->batches)
        return iso_error(ISO_INVALID,
                         "generator: epochs of %" PRId64 " rows and of %" PRId64 " batches: give one of them",
                         o->rows, o->batches);
    if (o->batches)
        o->rows = o->batches * o->batch_size;
    return ISO_OK;
}

static iso_status make_spec(const iso_dataset_generator_options *o, iso_spec *spec)
{
    *spec = (iso_spec){.n_inputs = o->inputs, .n_targets = o->targets};
    while (spec->n_components < ISO_MAX_COMPONENTS && o->dtype[spec->n_components] != ISO_DTYPE_NONE) {
        spec->shape[spec->n_components] = o->shape[spec->n_components];
        spec->dtype[spec->n_components] = o->dtype[spec->n_components];
        spec->n_components++;
    }
    if (spec->n_inputs < 0 || spec->n_targets < 0 || spec->n_inputs + spec->n_targets > spec->n_components)
        return iso_error(ISO_INVALID, "generator: %d inputs and %d targets of %d components", spec->n_inputs,
                         spec->n_targets, spec->n_components);
    return iso_spec_finish(spec, o->batch_size, "generator");
}

static iso_status open_generator(iso_context *ctx, const iso_dataset_generator_options *given,
                                 iso_dataset **dataset)
{
    iso_dataset_generator_options o = *given;
    iso_spec spec;
    iso_node *node = NULL;
    iso_status status = check_options(&o);
    if (status == ISO_OK)
        status = make_spec(&o, &spec);
    if (status == ISO_OK)
        status = iso_node_create(&generator_ops, "generator", &spec, NULL, NULL, NULL, &node);
    if (status != ISO_OK)
        return status;
    node->spans = iso_spans_of_rows(o.rows ? o.rows : o.batch_size << ISO_UNKNOWN_BATCHES_LOG2);
    node->cheap = true;
    status = iso_dataset_create(ctx, node, dataset);
    if (status != ISO_OK)
        return status;
    iso_dataset *ds = *dataset;
    ds->generator = iso_new(sizeof *ds->generator);
    if (!ds->generator)
        return iso_no_memory("a generator");
    *ds->generator = (iso_generator){.ctx = ctx, .spec = spec, .options = o};
    return iso_order_add(&ds->order, &(iso_order_op){.kind = ISO_ORDER_BATCH, .n = o.batch_size});
}

iso_status iso_dataset_generator_with(iso_context *ctx, const iso_dataset_generator_options *options,
                                      size_t size)
{
    ISO_DEFAULT_MODES();
    iso_dataset_generator_options taken = {0};
    iso_dataset *ds = NULL;
    iso_options_copy(&taken, sizeof taken, options, size);
    iso_status status = iso_dataset_agree(ctx, open_generator(ctx, &taken, &ds), "the generator", &ds);
    if (status == ISO_OK)
        status = iso_agree_same(ctx, "the batch size of the generator", (uint64_t)iso_dataset_batch_size(ds),
                                NULL);
    if (status == ISO_OK)
        *taken.dataset = ds;
    else
        iso_dataset_destroy(ds);
    return status;
}
