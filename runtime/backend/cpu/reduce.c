/* Kernels of sums of elements or of their squares over axes, from float32 or bfloat16 to float32 or float64.
 * Dimensions are merged until reduced and kept ones alternate; sums are accumulated in double. */
#include <string.h>

#include "runtime/backend/cpu/channels.h"
#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/row_parts.h"
#include "runtime/graph/ops/attrs.h"

/* x as [outer, rows, c]: summed over rows to [outer, c]. */
typedef struct view {
    int64_t outer, rows, c;
    bool good; /* x has this form */
} view;

static view view_of(const iso_kernel_call *call)
{
    const iso_reduce_attrs *attrs = call->attrs;
    const iso_array *x = &call->in[0];
    view v = {1, 1, 1, true};
    int part = 0; /* 0: outer, 1: rows, 2: c */
    for (int i = 0; i < x->rank; i++) {
        bool reduced = attrs->axes >> i & 1;
        if (x->dim[i] == 1)
            continue;
        if (reduced && part == 2)
            v.good = false;
        part = reduced ? 1 : part == 0 ? 0 : 2;
        *(part == 0 ? &v.outer : part == 1 ? &v.rows : &v.c) *= x->dim[i];
    }
    if (v.rows == 1) { /* for example a batch of one row: every sum has one term */
        v.c *= v.outer;
        v.outer = 1;
    }
    return v;
}

static bool sum_fits(const iso_kernel_call *call)
{
    view v = view_of(call);
    iso_dtype from = call->in[0].dtype, to = call->out[0].dtype;
    return (from == ISO_F32 || from == ISO_BF16) && (to == ISO_F32 || to == ISO_F64) && v.good;
}

/* ---- bfloat16: a block of rows at a time is converted, and stays in the cache ---- */

enum { BLOCK = 32768 /* elements */ };

/* At least a row, and a multiple of the rows that are summed together (channels.h). */
static int64_t reduce_block_rows(const view *v)
{
    int64_t step = iso_pattern(v->c) / v->c, rows = BLOCK / v->c / step * step;
    rows = rows > step ? rows : step;
    return rows < v->rows ? rows : v->rows;
}

/* Where the arrays of doubles are in the room of a part: lanes; the other sums, if squares are summed; of bfloat16 also
 * the sums of a block, and then its rows as floats. */
typedef struct scratch_layout {
    double *lanes, *others, *part;
    float *block;
} scratch_layout;

static scratch_layout lay_out_sums(void *room, const view *v)
{
    scratch_layout at = {.lanes = room};
    at.others = at.lanes + 2 * iso_pattern(v->c);
    at.part = at.others + v->c;
    at.block = (float *)(at.part + v->c);
    return at;
}

static iso_row_parts reduce_parts(const iso_kernel_call *call, const view *v)
{
    size_t floats = call->in[0].dtype == ISO_BF16 ? (size_t)(reduce_block_rows(v) * v->c) : 0;
    size_t room = (size_t)(2 * iso_pattern(v->c) + 2 * v->c) * sizeof(double) + floats * sizeof(float) + 64;
    return iso_row_parts_of(v->rows, v->c, v->c, room);
}

static size_t reduce_sum_scratch(const iso_kernel_call *call)
{
    view v = view_of(call);
    if (v.c == 0)
        return 0;
    iso_row_parts p = reduce_parts(call, &v);
    return iso_row_parts_scratch(&p);
}

static void sum_floats(bool square, int64_t rows, int64_t c, const float *x, double *sums,
                       const scratch_layout *at)
{
    const iso_cpu_functions_table *f = iso_cpu_functions();
    if (square)
        f->channel_moments(rows, c, x, at->others, sums, at->lanes);
    else
        f->channel_sums(rows, c, x, sums, at->lanes);
}

static void sum_bf16(bool square, const view *v, int64_t n, const uint16_t *x, double *sums,
                     const scratch_layout *at)
{
    const int64_t step = reduce_block_rows(v);
    memset(sums, 0, (size_t)v->c * sizeof *sums);
    for (int64_t row = 0; row < n; row += step) {
        int64_t rows = n - row < step ? n - row : step;
        iso_cpu_functions()->f32_of_bf16(rows * v->c, x + row * v->c, at->block);
        sum_floats(square, rows, v->c, at->block, at->part, at);
        for (int64_t i = 0; i < v->c; i++)
            sums[i] += at->part[i];
    }
}

/* ---- all ---- */

static size_t reduce_sum_shared(const iso_kernel_call *call)
{
    view v = view_of(call);
    if (v.c == 0)
        return 0;
    iso_row_parts p = reduce_parts(call, &v);
    return iso_row_parts_shared(&p);
}

/* The sums of a part of the first rows. */
static void sum_part(const iso_kernel_call *call, int64_t part, double *sums, void *room)
{
    const iso_reduce_attrs *attrs = call->attrs;
    view v = view_of(call);
    const iso_row_parts p = reduce_parts(call, &v);
    const scratch_layout at = lay_out_sums(room, &v);
    const int64_t begin = iso_row_part_begin(&p, part), rows = iso_row_part_begin(&p, part + 1) - begin;
    if (call->in[0].dtype == ISO_BF16)
        sum_bf16(attrs->square, &v, rows, (const uint16_t *)call->in[0].data + begin * v.c, sums, &at);
    else
        sum_floats(attrs->square, rows, v.c, (const float *)call->in[0].data + begin * v.c, sums, &at);
}

static void put_sums(const iso_kernel_call *call, int64_t c, int64_t outer, const double *sums)
{
    const double scale = ((const iso_reduce_attrs *)call->attrs)->scale;
    if (call->out[0].dtype == ISO_F32)
        for (int64_t j = 0; j < c; j++)
            ((float *)call->out[0].data)[outer * c + j] = (float)(sums[j] * scale);
    else
        for (int64_t j = 0; j < c; j++)
            ((double *)call->out[0].data)[outer * c + j] = sums[j] * scale;
}

static void reduce_run_sum(const iso_kernel_call *call)
{
    view v = view_of(call);
    if (v.c == 0)
        return;
    const iso_row_parts p = reduce_parts(call, &v);
    const size_t bytes = (size_t)(v.rows * v.c) * iso_dtype_size(call->in[0].dtype);
    iso_array x = call->in[0];
    iso_kernel_call of = *call;
    of.in = &x;
    for (int64_t i = 0; i < v.outer; i++, x.data = (char *)x.data + bytes)
        put_sums(call, v.c, i, iso_row_parts_run(&p, &of, sum_part));
}

/* Where several sums over rows follow each other, they are divided by rows of the output. */
static int64_t reduce_sum_blocks(const iso_kernel_call *call)
{
    view v = view_of(call);
    return v.c > 0 && v.outer == 1 ? reduce_parts(call, &v).parts : 1;
}

static void reduce_sum_block(const iso_kernel_call *call, int64_t block)
{
    view v = view_of(call);
    const iso_row_parts p = reduce_parts(call, &v);
    iso_row_part_run(&p, call, block, sum_part);
}

static void reduce_sum_finish(const iso_kernel_call *call)
{
    view v = view_of(call);
    const iso_row_parts p = reduce_parts(call, &v);
    put_sums(call, v.c, 0, iso_row_parts_add(&p, call));
}

const iso_kernel iso_cpu_reduce_sum = {.op = "reduce_sum",
                                       .name = "vector",
                                       .fits = sum_fits,
                                       .scratch = reduce_sum_scratch,
                                       .run = reduce_run_sum,
                                       .by_rows = true,
                                       .blocks = reduce_sum_blocks,
                                       .run_block = reduce_sum_block,
                                       .shared = reduce_sum_shared,
                                       .finish = reduce_sum_finish};
