/* --check-data: NaN, infinity, indices out of range and values that the type of their input does not have, in the
 * rows that a data set gives. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/convert.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/base/thread_modes.h"
#include "runtime/data/dataset_impl.h"
#include "runtime/session/session.h"

/* Elements [begin, begin + count) of the order, fetched into `out`. */
typedef struct chunk {
    int64_t begin, rows;
    void *out[ISO_MAX_COMPONENTS];
    const iso_dataset_check_options *options;
} chunk;

/* Whether a value of a component is none that the options allow. */
static bool is_bad(const iso_dataset_check_options *o, int component, iso_dtype dtype, const void *element)
{
    const int64_t below = o->below[component];
    const int besides = o->besides[component];
    double value = 0;
    if (dtype == ISO_F32)
        value = (double)*(const float *)element;
    else if (dtype == ISO_F64)
        value = *(const double *)element;
    else
        iso_convert(dtype, element, ISO_F64, &value, 1);
    const bool other = besides && value == besides;
    return !isfinite(value) || (below && !other && !(value > -1 && value < (double)below)) ||
           (o->fraction[component] && !(value >= 0 && value <= 1));
}

/* Whether the conversion to another type keeps it a number. */
static bool fits(iso_dtype dtype, const void *element, iso_dtype used_as)
{
    double value = 0;
    _Alignas(double) char converted[sizeof value];
    if (iso_convert(dtype, element, used_as, converted, 1) >= 0)
        return false;
    iso_convert(used_as, converted, ISO_F64, &value, 1);
    return isfinite(value);
}

/* ", element [2, 0]"; nothing of a row of one element without dimensions. */
static void add_position(const iso_shape *row, int64_t element, iso_text *text)
{
    int64_t stride = 1;
    for (int d = 0; d < row->rank; d++)
        stride *= row->dim[d];
    for (int d = 0; d < row->rank; d++) {
        stride /= row->dim[d];
        iso_text_add(text, "%s%" PRId64, d ? ", " : ", element [", element / stride % row->dim[d]);
    }
    iso_text_add(text, "%s", row->rank ? "]" : "");
}

/* "'x' (inputs)", or without names "component 0 (inputs)". */
static void add_component(const iso_spec *spec, int component, iso_text *text)
{
    if (*spec->name[component])
        iso_text_add(text, "'%s'", spec->name[component]);
    else
        iso_text_add(text, "component %d", component);
    iso_text_add(text, " (%s)",
                 component < spec->n_inputs                     ? "inputs"
                 : component < spec->n_inputs + spec->n_targets ? "targets"
                                                                : "sample weights");
}

static iso_status bad_element(const iso_dataset *ds, const chunk *c, int component, int64_t i)
{
    const iso_spec *spec = &ds->top->spec;
    const iso_dtype dtype = spec->dtype[component];
    const char *of = c->options->below_of[component];
    const int64_t below = c->options->below[component];
    iso_rows rows = iso_order_rows(&ds->order, c->begin, c->rows, 0);
    const char *element = (const char *)c->out[component] + (size_t)i * iso_dtype_size(dtype);
    char value[64];
    iso_text text = {0};
    add_component(spec, component, &text);
    iso_text_add(&text, ", row %" PRId64, iso_rows_at(&rows, i / spec->elements[component]));
    add_position(&spec->shape[component], i % spec->elements[component], &text);
    iso_element_text(dtype, element, value, sizeof value);
    iso_text_add(&text, ": %s", value);
    if (!is_bad(c->options, component, dtype, element)) /* so the type of the input does not have it */
        iso_text_add(&text, " is not a value of %s", iso_dtype_name(c->options->used_as[component]));
    else if (below)
        iso_text_add(&text, " is not in 0 to %" PRId64 "%s%s%s", below - 1, of ? " (" : "", of ? of : "",
                     of ? ")" : "");
    else if (c->options->fraction[component])
        iso_text_add(&text, " is not from 0 to 1");
    iso_status status = iso_error(ISO_INVALID, "%s: %s", ds->top->name, iso_text_get(&text));
    iso_text_free(&text);
    return status;
}

static iso_status check_chunk(const iso_dataset *ds, const chunk *c)
{
    const iso_spec *spec = &ds->top->spec;
    for (int k = 0; k < spec->n_components; k++) {
        const size_t size = iso_dtype_size(spec->dtype[k]);
        const iso_dtype dtype = spec->dtype[k], used_as = c->options->used_as[k];
        const bool converts = used_as && used_as != dtype;
        const bool any =
            iso_dtype_is_float(dtype) || c->options->below[k] || c->options->fraction[k] || converts;
        for (int64_t i = 0; any && i < c->rows * spec->elements[k]; i++) {
            const char *element = (const char *)c->out[k] + (size_t)i * size;
            if (is_bad(c->options, k, dtype, element) || (converts && !fits(dtype, element, used_as)))
                return bad_element(ds, c, k, i);
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

iso_status iso_dataset_check_with(iso_dataset *ds, const iso_dataset_check_options *given, size_t size)
{
    ISO_DEFAULT_MODES();
    enum { AHEAD = 64 };
    iso_dataset_check_options options;
    chunk c = {.options = &options};
    part p = {0};
    ISO_NEED_AS("dataset", ds);
    iso_options_copy(&options, sizeof options, given, size);
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
