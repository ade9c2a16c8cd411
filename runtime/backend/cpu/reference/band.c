/* A band of a matrix, by rows: copies inside the band, fills outside. */
#include <string.h>

#include "runtime/backend/cpu/reference/floats.h"
#include "runtime/graph/ops/network.h"

/* The local columns [*begin, *end) of a row of this part that are in the band. */
static void band_of_row(const iso_array *x, const iso_band_attrs *attrs, int64_t row, int64_t *begin,
                        int64_t *end)
{
    int64_t columns = x->dim[x->rank - 1];
    int64_t diagonal = row + x->offset[x->rank - 2] - x->offset[x->rank - 1]; /* its local column */
    int64_t first = attrs->window > 0 ? diagonal - attrs->window + 1 : 0;
    int64_t behind = attrs->causal ? diagonal + 1 : attrs->window > 0 ? diagonal + attrs->window : columns;
    *begin = first < 0 ? 0 : first < columns ? first : columns;
    *end = behind < *begin ? *begin : behind < columns ? behind : columns;
}

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
        band_of_row(x, attrs, i % x->dim[x->rank - 2], &begin, &end);
        ref_band_fill(y, at, begin, attrs->fill);
        if (x->data != y->data)
            memcpy((char *)y->data + (size_t)(at + begin) * size,
                   (const char *)x->data + (size_t)(at + begin) * size, (size_t)(end - begin) * size);
        ref_band_fill(y, at + end, columns - end, attrs->fill);
    }
}

const iso_kernel iso_reference_band = {
    .op = "band", .name = "reference", .run = ref_band_run, .in_place = true};
