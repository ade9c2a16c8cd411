/* Reading a slot's part of a batch. Where a device computes the step, several threads read a large one. */
#include <stdio.h>

#include "runtime/base/program_call.h"
#include "runtime/exec/function/function_impl.h"

/* Bytes for which a thread is worth waking. */
enum { READER_BYTES = ISO_LARGE_READ / 2 };

/* The box of each row that the slot has; false: whole rows. */
static bool find_box(const iso_array *array, iso_box *box)
{
    bool part = false;
    *box = (iso_box){.rank = array->rank - 1};
    for (int d = 1; d < array->rank; d++) {
        part |= array->dim[d] != array->global[d];
        box->offset[d - 1] = array->offset[d];
        box->extent[d - 1] = array->dim[d];
    }
    return part;
}

/* The first dimension is the rows; a scalar is one row. */
static int64_t rows_of(const iso_array *array)
{
    return array->rank ? array->dim[0] : 1;
}

/* Rows [first, first + count) of those that the slot has. */
static iso_status read_some(const iso_batch *batch, const iso_slot_instruction *bound, int64_t first,
                            int64_t count, void *out)
{
    const iso_array *array = bound->array;
    int64_t begin = (array->rank ? array->offset[0] : 0) + first;
    char *to = (char *)out + iso_array_bytes(array) / (size_t)rows_of(array) * (size_t)first;
    iso_box box;
    return ISO_PROGRAM_CALL(find_box(array, &box)
                                ? batch->read_part(batch, bound->input, begin, count, &box, array->dtype, to)
                                : batch->read(batch, bound->input, begin, count, array->dtype, to),
                            "`read` of a batch");
}

/* From row `turn` on, then those before it. */
static iso_status read_in_turn(const iso_batch *batch, const iso_slot_instruction *bound, void *out)
{
    iso_box box;
    int64_t turn = find_box(bound->array, &box) ? 0 : bound->turn;
    iso_status status = read_some(batch, bound, turn, rows_of(bound->array) - turn, out);
    return status == ISO_OK && turn > 0 ? read_some(batch, bound, 0, turn, out) : status;
}

/* ---- by several threads ---- */

typedef struct reader_error {
    iso_status status;
    char message[512];
} reader_error;

typedef struct reading {
    const iso_batch *batch;
    const iso_slot_instruction *bound;
    void *out;
    int parts;
    reader_error error[ISO_MOST_READERS]; /* messages are of the threads that record them */
} reading;

static void read_part_of_rows(void *arg, int thread)
{
    reading *r = arg;
    int64_t rows = rows_of(r->bound->array);
    if (thread >= r->parts)
        return;
    int64_t first = rows * thread / r->parts, end = rows * (thread + 1) / r->parts;
    reader_error *error = &r->error[thread];
    error->status = end > first ? read_some(r->batch, r->bound, first, end - first, r->out) : ISO_OK;
    if (error->status != ISO_OK)
        snprintf(error->message, sizeof error->message, "%s", iso_error_message());
}

/* The error of the first rows is that of one thread that reads them all. */
static iso_status first_error(const reading *r)
{
    for (int i = 0; i < r->parts; i++)
        if (r->error[i].status != ISO_OK)
            return iso_error(r->error[i].status, "%s", r->error[i].message);
    return ISO_OK;
}

iso_status iso_read_rows(const iso_runtime *runtime, int thread, const iso_batch *batch,
                         const iso_slot_instruction *bound, void *out)
{
    size_t bytes = iso_array_bytes(bound->array);
    if (!runtime->readers || bytes < ISO_LARGE_READ)
        return read_in_turn(batch, bound, out);
    reading r = {.batch = batch, .bound = bound, .out = out, .parts = runtime->n_readers};
    if (bytes / READER_BYTES < (size_t)r.parts)
        r.parts = (int)(bytes / READER_BYTES);
    iso_thread_pool_run(runtime->readers[thread], read_part_of_rows, &r);
    return first_error(&r);
}
