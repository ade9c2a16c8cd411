/* --check-data: NaN and infinity in the rows that a data set gives. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/data/dataset_impl.h"
#include "runtime/session/session.h"

/* Elements [begin, begin + count) of the order, fetched into `out`. */
typedef struct chunk {
    int64_t begin, rows;
    void *out[ISO_MAX_COMPONENTS];
} chunk;

static bool is_bad(iso_dtype dtype, const void *values, int64_t i)
{
    return dtype == ISO_F32 ? !isfinite(((const float *)values)[i]) : !isfinite(((const double *)values)[i]);
}

static iso_status check_chunk(const iso_dataset *ds, const chunk *c)
{
    const iso_spec *spec = &ds->top->spec;
    for (int k = 0; k < spec->n_components; k++) {
        iso_dtype dtype = spec->dtype[k];
        for (int64_t i = 0; iso_dtype_is_float(dtype) && i < c->rows * spec->elements[k]; i++) {
            if (!is_bad(dtype, c->out[k], i))
                continue;
            iso_rows rows = iso_order_rows(&ds->order, c->begin, c->rows, 0);
            char text[64];
            iso_element_text(dtype, (const char *)c->out[k] + (size_t)i * iso_dtype_size(dtype), text,
                             sizeof text);
            return iso_error(ISO_INVALID, "%s: component %d (%s), row %" PRId64 ": %s", ds->top->name, k,
                             k < spec->n_inputs                     ? "inputs"
                             : k < spec->n_inputs + spec->n_targets ? "targets"
                                                                    : "further",
                             iso_rows_at(&rows, i / spec->elements[k]), text);
        }
    }
    return ISO_OK;
}

/* Elements [first, end) of the order, in rounds, as many on every rank: each fetches its rows of other
 * ranks. */
typedef struct part {
    int64_t first, end, each, n_rounds;
    iso_row_window *window; /* NULL: all rows are local */
} part;

/* Begins this rank's part; about `ahead` rows are fetched at once. */
static iso_status begin_part(iso_dataset *ds, int64_t ahead, part *p)
{
    int64_t count, elements = ds->order.spans.elements, ranks = iso_ranks(ds->ctx),
                   most = (elements + ranks - 1) / ranks;
    iso_node *source = iso_local_rows_below(ds->top);
    iso_part_range(elements, ranks, iso_rank(ds->ctx), &p->first, &count);
    p->end = p->first + count;
    p->each = ahead / iso_dataset_batch_size(ds) > 0 ? ahead / iso_dataset_batch_size(ds) : 1;
    p->n_rounds = (most + p->each - 1) / p->each;
    return source ? iso_row_window_create(source, &p->window) : ISO_OK;
}

static iso_status check_round(iso_dataset *ds, part *p, chunk *c, iso_status status)
{
    const iso_spans *spans = &ds->order.spans;
    int64_t last = p->first + p->each < p->end ? p->first + p->each : p->end;
    c->begin = iso_span_begin(spans, p->first);
    c->rows = 0;
    for (int64_t e = p->first; e < last && status == ISO_OK; e++)
        c->rows += iso_span_rows(spans, e);
    p->first = last;
    iso_rows rows = iso_order_rows(&ds->order, c->begin, c->rows, ds->epoch);
    if (p->window) {
        iso_row_window_want(p->window, ds->top, &rows);
        iso_status fetched = iso_row_window_fetch(p->window, 1, 0);
        status = status == ISO_OK ? fetched : status;
    }
    if (status != ISO_OK || c->rows == 0)
        return status;
    status = iso_node_fetch(ds->top, &rows, c->out);
    return status == ISO_OK ? check_chunk(ds, c) : status;
}

static iso_status check_part(iso_dataset *ds, part *p, chunk *c)
{
    iso_status status = ISO_OK;
    char message[1024] = "";
    for (int64_t round = 0; round < p->n_rounds && (status == ISO_OK || p->window); round++) {
        iso_status now = check_round(ds, p, c, status);
        if (status == ISO_OK && now != ISO_OK)
            snprintf(message, sizeof message, "%s", iso_error_message());
        status = now;
    }
    return status == ISO_OK ? ISO_OK : iso_error(status, "%s", message);
}

static iso_status check_make_room(const iso_dataset *ds, int64_t rows, chunk *c)
{
    const iso_spec *spec = &ds->top->spec;
    iso_status status = ISO_OK;
    size_t bytes = 0;
    for (int i = 0; i < spec->n_components; i++) {
        ISO_TRY(iso_size_mul((size_t)rows, spec->bytes[i], "rows to check", &bytes));
        ISO_TRY(iso_alloc(bytes, "rows to check", &c->out[i]));
    }
done:
    return status;
}

iso_status iso_dataset_check(iso_dataset *ds)
{
    ISO_DEFAULT_MODES();
    enum { AHEAD = 64 };
    chunk c = {0};
    part p = {0};
    ISO_NEED_AS("dataset", ds);
    iso_status status = iso_dataset_start(ds);
    if (status == ISO_OK && ds->generator)
        status = iso_error(
            ISO_INVALID, "the rows of a generator cannot be checked: it makes them only when they are used");
    if (status == ISO_OK)
        status = begin_part(ds, AHEAD, &p);
    if (status == ISO_OK)
        status = check_make_room(ds, AHEAD + iso_dataset_batch_size(ds), &c);
    status = iso_agree(ds->ctx, status);
    if (status == ISO_OK)
        status = iso_agree(ds->ctx, check_part(ds, &p, &c));
    iso_row_window_destroy(p.window);
    for (int i = 0; i < ISO_MAX_COMPONENTS; i++)
        iso_free(c.out[i]);
    return status;
}
