/* --check-data: NaN and infinity in the rows that a data set gives. */
#include <inttypes.h>
#include <math.h>

#include "runtime/base/memory.h"
#include "runtime/data/dataset_impl.h"

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
    for (int k = 0; k < spec->components; k++) {
        iso_dtype dtype = spec->dtype[k];
        for (int64_t i = 0; iso_dtype_is_float(dtype) && i < c->rows * spec->elements[k]; i++) {
            if (!is_bad(dtype, c->out[k], i))
                continue;
            iso_rows rows = iso_order_rows(&ds->order, c->begin, c->rows, 0);
            char text[64];
            iso_element_text(dtype, (const char *)c->out[k] + (size_t)i * iso_dtype_size(dtype), text,
                             sizeof text);
            return iso_error(ISO_INVALID, "%s: component %d (%s), row %" PRId64 ": %s", ds->top->name, k,
                             k < spec->inputs                   ? "inputs"
                             : k < spec->inputs + spec->targets ? "targets"
                                                                : "further",
                             iso_rows_at(&rows, i / spec->elements[k]), text);
        }
    }
    return ISO_OK;
}

/* This rank's share of the elements; `ahead` of them at once. */
static iso_status check_share(iso_dataset *ds, int64_t ahead, chunk *c)
{
    const iso_spans *spans = &ds->order.spans;
    int64_t first, count;
    iso_status status = ISO_OK;
    iso_cut(spans->elements, iso_data_ranks(ds->ctx), iso_data_rank(ds->ctx), &first, &count);
    for (int64_t e = first; e < first + count && status == ISO_OK;) {
        c->begin = iso_span_begin(spans, e);
        for (c->rows = 0; c->rows < ahead && e < first + count; e++)
            c->rows += iso_span_rows(spans, e);
        iso_rows rows = iso_order_rows(&ds->order, c->begin, c->rows, ds->epoch);
        status = iso_level_fetch(ds->top, &rows, c->out);
        if (status == ISO_OK)
            status = check_chunk(ds, c);
    }
    return status;
}

static iso_status check(iso_dataset *ds)
{
    const iso_spec *spec = &ds->top->spec;
    int64_t ahead = 64, most;
    chunk c = {0};
    iso_status status = ISO_OK;
    size_t bytes = 0;
    ISO_TRY(iso_dataset_start(ds));
    most = ahead + iso_dataset_batch_size(ds);
    for (int i = 0; i < spec->components; i++) {
        ISO_TRY(iso_size_mul((size_t)most, spec->bytes[i], "rows to check", &bytes));
        ISO_TRY(iso_alloc(bytes, "rows to check", &c.out[i]));
    }
    status = check_share(ds, ahead, &c);
done:
    for (int i = 0; i < ISO_MAX_COMPONENTS; i++)
        iso_free(c.out[i]);
    return status;
}

iso_status iso_dataset_check(iso_dataset *ds)
{
    return iso_data_agree(ds->ctx, check(ds));
}
