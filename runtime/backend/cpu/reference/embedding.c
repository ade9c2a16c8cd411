/* Look-up in a table of which this slot may hold only some rows, and its gradient. */
#include "runtime/backend/cpu/reference/floats.h"
#include "runtime/backend/index.h"
#include "runtime/graph/ops/network.h"

/* The local row of `table` for element i of the index; the table has `rows` rows in all. -1: another slot has
 * the row, or the index is not valid, which is reported. */
static int64_t local_row(const iso_kernel_call *call, const iso_array *index, int64_t i, int64_t rows,
                         const iso_array *table)
{
    int64_t row = iso_index_read(index, i, rows);
    if (row < 0) {
        iso_index_fault(call, (int)(index - call->in), i, rows);
        return -1;
    }
    row -= table->offset[0];
    return row >= 0 && row < table->dim[0] ? row : -1;
}

static void ref_embedding_run(const iso_kernel_call *call)
{
    const iso_array *table = &call->in[0], *index = &call->in[1], *y = &call->out[0];
    int64_t columns = table->dim[1];
    for (int64_t i = 0; i < iso_array_count(index); i++) {
        int64_t row = local_row(call, index, i, table->global[0], table);
        for (int64_t k = 0; k < columns; k++)
            iso_put(y, i * columns + k, row < 0 ? 0 : iso_get(table, row * columns + k));
    }
}

static void ref_embedding_run_gradient(const iso_kernel_call *call)
{
    const iso_array *index = &call->in[0], *dy = &call->in[1], *dtable = &call->out[0];
    int64_t columns = dtable->dim[1], rows = ((const iso_embedding_attrs *)call->attrs)->rows;
    iso_put_zeros(dtable);
    for (int64_t i = 0; i < iso_array_count(index); i++) {
        int64_t row = local_row(call, index, i, rows, dtable);
        for (int64_t k = 0; row >= 0 && k < columns; k++)
            iso_put(dtable, row * columns + k,
                    iso_get(dtable, row * columns + k) + iso_get(dy, i * columns + k));
    }
}

/* The sum of element k of the rows of dy that are added to a row of the table. */
static double added(const iso_kernel_call *call, int64_t row, int64_t k)
{
    const iso_array *index = &call->in[1], *dy = &call->in[2], *dtable = &call->out[0];
    int64_t columns = dtable->dim[1], rows = ((const iso_embedding_attrs *)call->attrs)->rows;
    double sum = 0;
    for (int64_t i = 0; i < iso_array_count(index); i++)
        if (local_row(call, index, i, rows, dtable) == row)
            sum = dtable->dtype == ISO_F32 ? (float)(sum + iso_get(dy, i * columns + k))
                                           : sum + iso_get(dy, i * columns + k);
    return sum;
}

static void ref_embedding_run_added(const iso_kernel_call *call)
{
    const iso_array *base = &call->in[0], *dtable = &call->out[0];
    int64_t columns = dtable->dim[1];
    for (int64_t row = 0; row < dtable->dim[0]; row++)
        for (int64_t k = 0; k < columns; k++)
            iso_put(dtable, row * columns + k, iso_get(base, row * columns + k) + added(call, row, k));
}

const iso_kernel iso_reference_embedding = {.op = "embedding", .name = "reference", .run = ref_embedding_run};
const iso_kernel iso_reference_embedding_grad = {
    .op = "embedding_grad", .name = "reference", .run = ref_embedding_run_gradient};
const iso_kernel iso_reference_embedding_grad_add = {
    .op = "embedding_grad_add", .name = "reference", .run = ref_embedding_run_added, .in_place = true};
