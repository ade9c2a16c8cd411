/* A band of a matrix, by rows: copies inside the band, fills outside. */
#include <string.h>

#include "runtime/backend/cpu/reference/floats.h"
#include "runtime/graph/ops/network.h"

static void ref_band_fill(const iso_array *y, int64_t at, int64_t count, double value)
{
    for (int64_t i = 0; i < count; i++)
        iso_put(y, at + i, value);
}

static void ref_band_run(const iso_kernel_call *call)
{
    const iso_band_attrs *attrs = call->attrs;
    const iso_array *x = &call->in[0], *y = &call->out[0];
    int64_t columns = iso_last_dim(x), rows = iso_row_count(x), begin, end;
    size_t size = iso_dtype_size(x->dtype);
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = i * columns;
        iso_band_columns(attrs, i % x->dim[x->rank - 2] + x->offset[x->rank - 2] - x->offset[x->rank - 1],
                         columns, &begin, &end); /* the row's number, counted from the part's first column */
        ref_band_fill(y, at, begin, attrs->fill);
        if (x->data != y->data)
            memcpy((char *)y->data + (size_t)(at + begin) * size,
                   (const char *)x->data + (size_t)(at + begin) * size, (size_t)(end - begin) * size);
        ref_band_fill(y, at + end, columns - end, attrs->fill);
    }
}

const iso_kernel iso_reference_band = {
    .op = "band", .name = "reference", .run = ref_band_run, .in_place = true};
