/* Kernels of look-ups and their gradients in float32, row by row. */
#include <string.h>

#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/index.h"
#include "runtime/base/memory.h"
#include "runtime/graph/ops/network.h"

/* Row `row` of the whole table among the rows of a slot's part of it; -1: another slot has it. */
static int64_t row_within(const iso_array *table, int64_t row)
{
    row -= table->offset[0];
    return row >= 0 && row < table->dim[0] ? row : -1;
}

/* The row of element i of input `input` within the part; -1: there is none, or the index is not valid, which is
 * reported. */
static int64_t embedding_row(const iso_kernel_call *call, int input, int64_t i, int64_t rows,
                             const iso_array *table)
{
    int64_t row = iso_index_read(&call->in[input], i, rows);
    if (row < 0)
        iso_index_fault(call, input, i, rows);
    return row < 0 ? -1 : row_within(table, row);
}

static bool embedding_fits(const iso_kernel_call *call)
{
    return call->in[0].dtype == ISO_F32 && call->out[0].dtype == ISO_F32;
}

static void run_embedding(const iso_kernel_call *call)
{
    const iso_array *table = &call->in[0];
    const int64_t columns = table->dim[1], count = iso_array_count(&call->in[1]);
    const size_t bytes = (size_t)columns * sizeof(float);
    float *y = call->out[0].data;
    for (int64_t i = 0; i < count; i++, y += columns) {
        int64_t row = embedding_row(call, 1, i, table->global[0], table);
        if (row < 0)
            memset(y, 0, bytes);
        else
            memcpy(y, (const float *)table->data + row * columns, bytes);
    }
}

/* ---- the gradient ---- */

/* The inputs of "embedding_grad"; those of "embedding_grad_add" come after the one that it adds to. */
enum { INDEX, DY };

static const iso_array *gradient_input(const iso_kernel_call *call, int input)
{
    return &call->in[call->n_inputs - 2 + input];
}

static int64_t rows_of_table(const iso_kernel_call *call)
{
    return ((const iso_embedding_attrs *)call->attrs)->rows;
}

static bool embedding_grad_fits(const iso_kernel_call *call)
{
    return gradient_input(call, DY)->dtype == ISO_F32 && call->out[0].dtype == ISO_F32;
}

static void run_embedding_grad(const iso_kernel_call *call)
{
    const iso_array *dtable = &call->out[0];
    const int64_t columns = dtable->dim[1], count = iso_array_count(&call->in[INDEX]);
    const float *dy = call->in[DY].data;
    memset(dtable->data, 0, iso_array_bytes(dtable));
    for (int64_t i = 0; i < count; i++, dy += columns) {
        int64_t row = embedding_row(call, INDEX, i, rows_of_table(call), dtable);
        float *sum = (float *)dtable->data + row * columns;
        if (row >= 0)
            iso_cpu_functions()->sum_f32(columns, sum, dy, sum);
    }
}

/* ---- by the rows that are touched: the indices are sorted ---- */

typedef struct touch {
    int64_t row, index; /* in the part of the table; of dy */
} touch;

/* The scratch memory: the number of touches in the first one's place, the touches, a row. */
static touch *touches_of(const iso_kernel_call *call)
{
    return (touch *)call->scratch + 1;
}

static int64_t *count_of(const iso_kernel_call *call)
{
    return &((touch *)call->scratch)->row;
}

static size_t touches_bytes(const iso_kernel_call *call)
{
    return iso_round_to_lines(((size_t)iso_array_count(gradient_input(call, INDEX)) + 1) * sizeof(touch));
}

/* What touches a row is summed there. */
static size_t embedding_grad_part_scratch(const iso_kernel_call *call)
{
    return (size_t)call->out[0].dim[1] * sizeof(float);
}

static size_t embedding_grad_scratch(const iso_kernel_call *call)
{
    return touches_bytes(call) + embedding_grad_part_scratch(call);
}

static bool comes_after(const touch *a, const touch *b)
{
    return a->row != b->row ? a->row > b->row : a->index > b->index;
}

static void sink(touch *heap, int64_t at, int64_t count)
{
    for (int64_t child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && comes_after(&heap[child + 1], &heap[child]);
        if (comes_after(&heap[at], &heap[child]))
            return;
        touch kept = heap[at];
        heap[at] = heap[child];
        heap[child] = kept;
    }
}

/* Sorts in place, without qsort, which may allocate memory: a step does not allocate. */
static void sort_touches(touch *heap, int64_t count)
{
    for (int64_t i = count / 2 - 1; i >= 0; i--)
        sink(heap, i, count);
    for (int64_t i = count - 1; i > 0; i--) {
        touch kept = heap[0];
        heap[0] = heap[i];
        heap[i] = kept;
        sink(heap, 0, i);
    }
}

/* Indices that are not valid touch nothing. An optimizer's call has no fault: the look-up reports them. */
static void prepare_embedding_grad(const iso_kernel_call *call)
{
    const int input = call->n_inputs - 2 + INDEX;
    const iso_array *index = &call->in[input];
    int64_t *count = count_of(call);
    *count = 0;
    for (int64_t i = 0; i < iso_array_count(index); i++) {
        int64_t row = iso_index_read(index, i, rows_of_table(call));
        if (row < 0 && call->fault)
            iso_index_fault(call, input, i, rows_of_table(call));
        row = row < 0 ? -1 : row_within(&call->out[0], row);
        if (row >= 0)
            touches_of(call)[(*count)++] = (touch){row, i};
    }
    sort_touches(touches_of(call), *count);
}

/* A block of a product's rows may be combined with it: as many as a strip of the product has. */
static int64_t embedding_grad_part_rows(const iso_kernel_call *call)
{
    enum { STRIP = 65536 };
    const int64_t columns = call->out[0].dim[1];
    return columns > 0 && columns < STRIP ? STRIP / columns : 1;
}

/* The first touch of a row that is not before this one. */
static const touch *first_touch(const iso_kernel_call *call, int64_t row)
{
    const touch *low = touches_of(call), *high = low + *count_of(call);
    while (low < high) {
        const touch *middle = low + (high - low) / 2;
        if (middle->row < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Adds up what touches the row of t, columns [first, first + n), in `sum`, and adds the sum to y; returns the first
 * touch of another row. */
static const touch *add_row(const iso_kernel_call *call, const touch *t, int64_t first, int64_t n, float *sum,
                            float *y)
{
    const iso_cpu_functions_table *f = iso_cpu_functions();
    const touch *end = touches_of(call) + *count_of(call);
    const float *dy = gradient_input(call, DY)->data;
    const int64_t columns = call->out[0].dim[1], row = t->row;
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (; t < end && t->row == row; t++)
        f->sum_f32(n, sum, dy + t->index * columns + first, sum);
    f->sum_f32(n, y, sum, y);
    return t;
}

static void run_embedding_grad_part(const iso_kernel_call *call, const int64_t *offset, const int64_t *extent,
                                    bool add, void *part, void *sum)
{
    const touch *t = first_touch(call, offset[0]), *end = first_touch(call, offset[0] + extent[0]);
    if (!add)
        memset(part, 0, (size_t)(extent[0] * extent[1]) * sizeof(float));
    while (t < end)
        t = add_row(call, t, offset[1], extent[1], sum, (float *)part + (t->row - offset[0]) * extent[1]);
}

static void run_embedding_grad_add(const iso_kernel_call *call)
{
    const iso_array *base = &call->in[0], *dtable = &call->out[0];
    const int64_t whole[] = {dtable->dim[0], dtable->dim[1]};
    if (base->data != dtable->data)
        memcpy(dtable->data, base->data, iso_array_bytes(dtable));
    prepare_embedding_grad(call);
    run_embedding_grad_part(call, (int64_t[]){0, 0}, whole, true, dtable->data,
                            (char *)call->scratch + touches_bytes(call));
}

const iso_kernel iso_cpu_embedding = {
    .op = "embedding", .name = "rows", .fits = embedding_fits, .run = run_embedding, .by_rows = true};
const iso_kernel iso_cpu_embedding_grad = {.op = "embedding_grad",
                                           .name = "rows",
                                           .fits = embedding_grad_fits,
                                           .scratch = embedding_grad_scratch,
                                           .run = run_embedding_grad,
                                           .part_rows = embedding_grad_part_rows,
                                           .part_scratch = embedding_grad_part_scratch,
                                           .prepare_parts = prepare_embedding_grad,
                                           .run_part = run_embedding_grad_part};
const iso_kernel iso_cpu_embedding_grad_add = {.op = "embedding_grad_add",
                                               .name = "rows",
                                               .fits = embedding_grad_fits,
                                               .scratch = embedding_grad_scratch,
                                               .run = run_embedding_grad_add,
                                               .part_rows = embedding_grad_part_rows,
                                               .part_scratch = embedding_grad_part_scratch,
                                               .prepare_parts = prepare_embedding_grad,
                                               .run_part = run_embedding_grad_part,
                                               .in_place = true};
