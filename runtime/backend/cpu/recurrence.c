/* Recurrences in float32: a product for each step, with the kernel packed once, or a convolution; then the cells one
 * by one, here called rows: without images, each row of the batch has one. */
#include <string.h>

#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/recurrence.h"

/* A call, and its scratch memory. */
typedef struct walk {
    iso_recurrence r;
    float *packed;   /* the kernel, or in the gradient its transpose */
    float *unpacked; /* [columns, units]: this transpose, before it is packed */
    float *h;        /* [cells, units]: the state before a step, or the gradient that later steps gave it */
    float *c;        /* the same of c in the gradient */
    float *product;  /* [cells, columns]: h' kernel + bias, or the dr of a step */
    float *zeros;    /* [units] */
    /* Of images: */
    const iso_kernel *convolution; /* of h and the kernel, or in the gradient of the kernel and dr */
    float *scratch;                /* its scratch memory */
    float *part;                   /* [cells, units], in the gradient: its result, to be added to h */
} walk;

/* ---- convolutions of the state ---- */

/* A call of a convolution, or of the gradient of its input, by which the state is h: kernel and dr, or h and kernel,
 * to the product, or h. */
typedef struct convolution {
    iso_conv_attrs attrs;
    iso_array in[2], out;
    iso_kernel_call call;
} convolution;

static iso_array array_of(int rank, const int64_t *dim, float *data)
{
    iso_array array = {.data = data, .dtype = ISO_F32, .rank = rank};
    for (int i = 0; i < rank; i++)
        array.dim[i] = array.global[i] = dim[i];
    return array;
}

static void convolution_set(convolution *c, const iso_kernel_call *call, const walk *w, bool gradient)
{
    const iso_recurrence *r = &w->r;
    const int64_t state[] = {r->rows, r->size[0], r->size[1], r->units},
                  columns[] = {r->rows, r->size[0], r->size[1], r->columns},
                  kernel[] = {r->window[0], r->window[1], r->units, r->columns};
    *c =
        (convolution){.attrs = {.geometry = iso_recurrence_geometry(r->window), .shape = {4}}, .call = *call};
    memcpy(c->attrs.shape.dim, state, sizeof state);
    c->in[gradient ? 0 : 1] = array_of(4, kernel, r->kernel->data);
    c->in[gradient ? 1 : 0] = gradient ? array_of(4, columns, w->product) : array_of(4, state, w->h);
    c->out = gradient ? array_of(4, state, w->part) : array_of(4, columns, w->product);
    c->call.attrs = &c->attrs;
    c->call.n_inputs = 2;
    c->call.n_outputs = 1;
    c->call.in = c->in;
    c->call.out = &c->out;
    c->call.scratch = w->scratch;
}

static const iso_kernel *convolution_find(const convolution *c, bool gradient)
{
    return iso_cpu_find(gradient ? "conv2d_grad_input" : "conv2d", &c->call);
}

/* The product of all cells, or into w->part the gradients that they give to the states. */
static void convolve(const walk *w, const iso_kernel_call *call, bool gradient)
{
    convolution c;
    convolution_set(&c, call, w, gradient);
    w->convolution->run(&c.call);
}

/* ---- memory ---- */

/* The next `count` elements of the scratch memory; NULL: only counts. */
static float *take(float *memory, size_t *used, int64_t count)
{
    float *taken = memory ? memory + *used : NULL;
    *used += ((size_t)count + 31) / 16 * 16;
    return taken;
}

/* The memory that only images need. */
static void lay_out_images(walk *w, const iso_kernel_call *call, float *memory, bool gradient, size_t *used)
{
    convolution c;
    w->part = take(memory, used, gradient ? iso_recurrence_cells(&w->r) * w->r.units : 0);
    convolution_set(&c, call, w, gradient);
    w->convolution = convolution_find(&c, gradient);
    const size_t bytes = w->convolution->scratch ? w->convolution->scratch(&c.call) : 0;
    w->scratch = take(memory, used, (int64_t)(bytes / sizeof(float)) + 1);
}

/* Lays out the scratch memory; returns its bytes. */
static size_t walk_lay_out(walk *w, const iso_kernel_call *call, float *memory, bool gradient)
{
    const iso_recurrence *r = &w->r;
    const bool images = r->size[0] > 0;
    const int64_t states = iso_recurrence_cells(r) * r->units, from = gradient ? r->columns : r->units,
                  to = gradient ? r->units : r->columns;
    size_t used = 0;
    w->packed = take(memory, &used, images ? 0 : iso_cpu_functions()->gemm_pack_size(to, from));
    w->unpacked = take(memory, &used, gradient && !images ? to * from : 0);
    w->h = take(memory, &used, states);
    w->c = take(memory, &used, gradient ? states : 0);
    w->product = take(memory, &used, iso_recurrence_cells(r) * r->columns);
    w->zeros = take(memory, &used, r->units);
    if (images)
        lay_out_images(w, call, memory, gradient, &used);
    return used * sizeof(float);
}

/* All but a mask are float32. */
static bool recurrence_fits(const iso_kernel_call *call)
{
    return call->out[0].dtype == ISO_F32;
}

/* A row of an array at a time; NULL: the call does not have the array. */
static float *row_at(const iso_recurrence *r, const iso_array *array, int64_t row, int64_t time)
{
    if (!array)
        return NULL;
    return (float *)array->data +
           iso_recurrence_index(r->steps, r->pixels, row, time) * array->dim[array->rank - 1];
}

/* A row of a state before step i: of the array of all states, of the first state, or zeros. */
static const float *row_before(const walk *w, const iso_array *states, const iso_array *first, int64_t row,
                               int64_t i)
{
    if (i > 0)
        return row_at(&w->r, states, row, iso_recurrence_time(&w->r, i - 1));
    return first ? (const float *)first->data + row * w->r.units : w->zeros;
}

/* ---- forward ---- */

static void cell_row(iso_cell cell, const iso_cell_row *row)
{
    const iso_cpu_functions_table *f = iso_cpu_functions();
    switch (cell) {
    case ISO_CELL_LSTM:
        f->lstm_row_f32(row);
        break;
    case ISO_CELL_GRU:
        f->gru_row_f32(row);
        break;
    case ISO_CELL_SIMPLE:
        f->simple_row_f32(row);
    }
}

/* r = h' kernel + bias */
static void multiply_state(const walk *w, const iso_kernel_call *call, bool has_state)
{
    const iso_recurrence *r = &w->r;
    const iso_cpu_functions_table *f = iso_cpu_functions();
    const int64_t cells = iso_recurrence_cells(r);
    if (has_state && w->convolution)
        convolve(w, call, false);
    else if (has_state)
        f->gemm_packed_f32(r->rows, r->columns, r->units, w->h, r->units, w->packed, false, w->product);
    else
        memset(w->product, 0, (size_t)(cells * r->columns) * sizeof(float));
    for (int64_t row = 0; row < cells && r->bias; row++) {
        float *product = w->product + row * r->columns;
        f->sum_f32(r->columns, product, r->bias->data, product);
    }
}

/* A row of a step that the mask leaves out. */
static void skip_row(const walk *w, int64_t row, int64_t i)
{
    const iso_recurrence *r = &w->r;
    const int64_t time = iso_recurrence_time(r, i);
    const size_t state = (size_t)r->units * sizeof(float);
    memcpy(row_at(r, r->h, row, time), w->h + row * r->units, state);
    if (r->c)
        memcpy(row_at(r, r->c, row, time), row_before(w, r->c, r->c0, row, i), state);
    if (r->gates)
        memset(row_at(r, r->gates, row, time), 0, 4 * state);
}

static void forward_step(const walk *w, const iso_kernel_call *call, int64_t i)
{
    const iso_recurrence *r = &w->r;
    const int64_t time = iso_recurrence_time(r, i);
    multiply_state(w, call, i > 0 || r->h0);
    for (int64_t row = 0; row < iso_recurrence_cells(r); row++) {
        float *h = w->h + row * r->units;
        if (iso_recurrence_skips(r, row, time)) {
            skip_row(w, row, i);
            continue;
        }
        const iso_cell_row cells = {.units = r->units,
                                    .activation = r->form.activation,
                                    .recurrent = r->form.recurrent,
                                    .x = row_at(r, r->x, row, time),
                                    .r = w->product + row * r->columns,
                                    .h_before = h,
                                    .c_before = r->c ? row_before(w, r->c, r->c0, row, i) : NULL,
                                    .gates = row_at(r, r->gates, row, time),
                                    .c = row_at(r, r->c, row, time),
                                    .h = row_at(r, r->h, row, time)};
        cell_row(r->form.cell, &cells);
        memcpy(h, cells.h, (size_t)r->units * sizeof(float));
    }
}

static size_t recurrence_scratch(const iso_kernel_call *call)
{
    walk w = {.r = iso_recurrence_of(call)};
    return walk_lay_out(&w, call, NULL, false);
}

static void recurrence_run(const iso_kernel_call *call)
{
    walk w = {.r = iso_recurrence_of(call)};
    const iso_recurrence *r = &w.r;
    const size_t states = (size_t)(iso_recurrence_cells(r) * r->units) * sizeof(float);
    walk_lay_out(&w, call, call->scratch, false);
    if (r->rows == 0)
        return;
    if (!w.convolution)
        iso_cpu_functions()->gemm_pack_f32(r->columns, r->units, r->kernel->data, r->columns, w.packed);
    memset(w.zeros, 0, (size_t)r->units * sizeof(float));
    if (r->h0)
        memcpy(w.h, r->h0->data, states);
    else
        memset(w.h, 0, states);
    for (int64_t i = 0; i < r->steps; i++)
        forward_step(&w, call, i);
}

/* ---- gradient ---- */

static void cell_row_grad(iso_cell cell, const iso_cell_row_grad *row)
{
    const iso_cpu_functions_table *f = iso_cpu_functions();
    switch (cell) {
    case ISO_CELL_LSTM:
        f->lstm_row_grad_f32(row);
        break;
    case ISO_CELL_GRU:
        f->gru_row_grad_f32(row);
        break;
    case ISO_CELL_SIMPLE:
        f->simple_row_grad_f32(row);
    }
}

/* The gradients of the state are those of the state before the step. */
static void skip_row_grad(const walk *w, int64_t row, int64_t time)
{
    const iso_recurrence *r = &w->r;
    const iso_cpu_functions_table *f = iso_cpu_functions();
    const size_t columns = (size_t)r->columns * sizeof(float);
    float *h = w->h + row * r->units, *c = w->c + row * r->units;
    f->sum_f32(r->units, h, row_at(r, r->dh, row, time), h);
    if (r->dc)
        f->sum_f32(r->units, c, row_at(r, r->dc, row, time), c);
    memset(row_at(r, r->dx, row, time), 0, columns);
    if (r->dr)
        memset(row_at(r, r->dr, row, time), 0, columns);
    memset(w->product + row * r->columns, 0, columns);
}

/* Whether the product of a step is added to the gradient that its rows have left. */
static bool adds_product(const iso_recurrence *r)
{
    return r->mask || r->form.cell == ISO_CELL_GRU;
}

static void grad_rows(const walk *w, int64_t i)
{
    const iso_recurrence *r = &w->r;
    const int64_t time = iso_recurrence_time(r, i);
    for (int64_t row = 0; row < iso_recurrence_cells(r); row++) {
        float *dx = row_at(r, r->dx, row, time), *dr = row_at(r, r->dr, row, time);
        if (iso_recurrence_skips(r, row, time)) {
            skip_row_grad(w, row, time);
            continue;
        }
        const iso_cell_row_grad cells = {.units = r->units,
                                         .activation = r->form.activation,
                                         .recurrent = r->form.recurrent,
                                         .gates = row_at(r, r->gates, row, time),
                                         .c = row_at(r, r->c, row, time),
                                         .c_before = r->c ? row_before(w, r->c, r->c0, row, i) : NULL,
                                         .h = row_at(r, r->h, row, time),
                                         .h_before = row_before(w, r->h, r->h0, row, i),
                                         .dh = row_at(r, r->dh, row, time),
                                         .dc = r->dc ? row_at(r, r->dc, row, time) : w->zeros,
                                         .carried_c = w->c + row * r->units,
                                         .carried_h = w->h + row * r->units,
                                         .dx = dx,
                                         .dr = dr};
        cell_row_grad(r->form.cell, &cells);
        memcpy(w->product + row * r->columns, dr ? dr : dx, (size_t)r->columns * sizeof(float));
        if (r->mask && r->form.cell != ISO_CELL_GRU)
            memset(w->h + row * r->units, 0, (size_t)r->units * sizeof(float));
    }
}

/* The gradient of the state before the step: dr times the transpose of the kernel, and what GRU has left there. */
static void grad_step(const walk *w, const iso_kernel_call *call, int64_t i)
{
    const iso_recurrence *r = &w->r;
    const iso_cpu_functions_table *f = iso_cpu_functions();
    const int64_t states = iso_recurrence_cells(r) * r->units;
    grad_rows(w, i);
    if (i == 0 && !r->dh0)
        return;
    if (!w->convolution) {
        f->gemm_packed_f32(r->rows, r->units, r->columns, w->product, r->columns, w->packed, adds_product(r),
                           w->h);
        return;
    }
    convolve(w, call, true);
    if (adds_product(r))
        f->sum_f32(states, w->h, w->part, w->h);
    else
        memcpy(w->h, w->part, (size_t)states * sizeof(float));
}

static size_t recurrence_grad_scratch(const iso_kernel_call *call)
{
    walk w = {.r = iso_recurrence_grad_of(call)};
    return walk_lay_out(&w, call, NULL, true);
}

static void recurrence_grad_run(const iso_kernel_call *call)
{
    walk w = {.r = iso_recurrence_grad_of(call)};
    const iso_recurrence *r = &w.r;
    const iso_cpu_functions_table *f = iso_cpu_functions();
    const size_t states = (size_t)(iso_recurrence_cells(r) * r->units) * sizeof(float);
    walk_lay_out(&w, call, call->scratch, true);
    if (r->rows == 0)
        return;
    if (!w.convolution) {
        f->transpose_f32(r->units, r->columns, r->kernel->data, r->columns, w.unpacked, r->units);
        f->gemm_pack_f32(r->units, r->columns, w.unpacked, r->units, w.packed);
    }
    memset(w.zeros, 0, (size_t)r->units * sizeof(float));
    memset(w.h, 0, states);
    memset(w.c, 0, states);
    for (int64_t i = r->steps - 1; i >= 0; i--)
        grad_step(&w, call, i);
    if (r->dh0)
        memcpy(r->dh0->data, w.h, states);
    if (r->dc0)
        memcpy(r->dc0->data, w.c, states);
}

/* ---- blocks of rows ---- */

/* A block packs the kernel, and reads all of it in each step for the products of its rows. With fewer of them than
 * LEAST, reading takes longer than multiplying. */
static int64_t recurrence_blocks_of(const iso_recurrence *r)
{
    enum { MOST = 16, LEAST = 4 };
    static const double divided = 5e5; /* multiplications */
    const double window = r->size[0] > 0 ? (double)(r->window[0] * r->window[1]) : 1;
    const double count = (double)(iso_recurrence_cells(r) * r->steps) * (double)(r->units * r->columns);
    const int64_t blocks = r->size[0] > 0 ? r->rows : (r->rows + LEAST - 1) / LEAST;
    if (count * window < divided)
        return 1;
    return blocks < MOST ? blocks : MOST;
}

/* The inputs without rows. */
static uint32_t recurrence_whole(const iso_kernel_call *call, const iso_recurrence *r)
{
    uint32_t whole = 0;
    for (int i = 0; i < call->n_inputs; i++)
        if (&call->in[i] == r->kernel || &call->in[i] == r->bias)
            whole |= 1u << i;
    return whole;
}

/* Blocks have a row more or less; images of other rows may have another convolution. */
static size_t recurrence_block_scratch_of(iso_recurrence r, const iso_kernel_call *call, bool gradient)
{
    const int64_t rows = r.rows, blocks = recurrence_blocks_of(&r);
    size_t most = 0;
    for (r.rows = rows / blocks; r.rows <= (rows + blocks - 1) / blocks; r.rows++) {
        walk w = {.r = r};
        size_t bytes = walk_lay_out(&w, call, NULL, gradient);
        most = bytes > most ? bytes : most;
    }
    return most;
}

#define ROW_BLOCKS(NAME, OF, GRADIENT)                                                                       \
    static int64_t NAME##_blocks(const iso_kernel_call *call)                                                \
    {                                                                                                        \
        const iso_recurrence r = OF(call);                                                                   \
        return recurrence_blocks_of(&r);                                                                     \
    }                                                                                                        \
    static size_t NAME##_block_scratch(const iso_kernel_call *call)                                          \
    {                                                                                                        \
        return recurrence_block_scratch_of(OF(call), call, GRADIENT);                                        \
    }                                                                                                        \
    static void NAME##_run_block(const iso_kernel_call *call, int64_t block)                                 \
    {                                                                                                        \
        const iso_recurrence r = OF(call);                                                                   \
        iso_cpu_run_rows(call, recurrence_whole(call, &r), recurrence_blocks_of(&r), block, NAME##_run);     \
    }
ROW_BLOCKS(recurrence, iso_recurrence_of, false)
ROW_BLOCKS(recurrence_grad, iso_recurrence_grad_of, true)

const iso_kernel iso_cpu_recurrence = {.op = "recurrence",
                                       .name = "steps",
                                       .fits = recurrence_fits,
                                       .scratch = recurrence_scratch,
                                       .run = recurrence_run,
                                       .blocks = recurrence_blocks,
                                       .run_block = recurrence_run_block,
                                       .block_scratch = recurrence_block_scratch};
const iso_kernel iso_cpu_recurrence_grad = {.op = "recurrence_grad",
                                            .name = "steps",
                                            .fits = recurrence_fits,
                                            .scratch = recurrence_grad_scratch,
                                            .run = recurrence_grad_run,
                                            .blocks = recurrence_grad_blocks,
                                            .run_block = recurrence_grad_run_block,
                                            .block_scratch = recurrence_grad_block_scratch};
