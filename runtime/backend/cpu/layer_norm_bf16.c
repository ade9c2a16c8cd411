/* Kernels of layer normalisation that read bfloat16, and write bfloat16 or float32: some rows at a time are converted
 * to float32, and stay in the cache. gamma, beta and the sums of gradients are in float32. The bits are those of the
 * casts, additions in bfloat16 and normalisation in float32 that the op stands for. */
#include <string.h>

#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/row_parts.h"
#include "runtime/graph/ops/network.h"

enum { BLOCK = 4096 /* elements */, SUMS_ROWS = 64 /* as layer_norm_sums_f32 adds them */, LINE = 64 };

/* A call as arrays [rows, c], and its scratch memory: an array of a block for each operand that needs one. */
typedef struct rows_of {
    const iso_kernel_call *call;
    const iso_layer_norm_attrs *attrs;
    int64_t rows, c, step;
} rows_of;

static rows_of layer_norm_rows(const iso_kernel_call *call, int64_t step)
{
    const iso_array *x = &call->in[0];
    rows_of r = {.call = call, .attrs = call->attrs, .c = x->dim[x->rank - 1]};
    r.rows = r.c ? iso_cpu_product(x, 0, x->rank - 1) : 0;
    r.step = step ? step : r.c < BLOCK && r.c > 0 ? BLOCK / r.c : 1;
    r.step = r.step < r.rows ? r.step : r.rows;
    return r;
}

/* Bytes of a block as floats, and a line that may be read past its end. */
static size_t block_bytes(const rows_of *r)
{
    return ((size_t)(r->step * r->c) * sizeof(float) + 2 * LINE - 1) / LINE * LINE;
}

static float *block_at(const rows_of *r, int number)
{
    return (float *)((char *)r->call->scratch + (size_t)number * block_bytes(r));
}

/* Rows of an operand. */
static void *rows_at(const rows_of *r, const iso_array *array, int64_t first)
{
    return (char *)array->data + (size_t)(first * r->c) * iso_dtype_size(array->dtype);
}

/* The same as floats, in `block` if they must be converted. */
static const float *rows_as_floats(const rows_of *r, const iso_array *array, int64_t first, int64_t rows,
                                   float *block)
{
    void *at = rows_at(r, array, first);
    if (array->dtype == ISO_F32)
        return at;
    iso_cpu_functions()->f32_of_bf16(rows * r->c, at, block);
    return block;
}

/* Where floats of an output are to be written; put_rows follows. */
static float *rows_to(const rows_of *r, const iso_array *array, int64_t first, float *block)
{
    return array->dtype == ISO_F32 ? rows_at(r, array, first) : block;
}

static void put_rows(const rows_of *r, const iso_array *array, int64_t first, int64_t rows,
                     const float *block)
{
    if (array->dtype == ISO_BF16)
        iso_cpu_functions()->bf16_of_f32(rows * r->c, block, rows_at(r, array, first));
}

/* x of bfloat16; gamma and beta of float32; the residual and the sum as x, or as dx. */
static bool norm_fits(const iso_kernel_call *call)
{
    const iso_layer_norm_attrs *attrs = call->attrs;
    const int vectors = attrs->has_gamma + attrs->has_beta;
    if (call->in[0].dtype != ISO_BF16 || (call->out[0].dtype != ISO_BF16 && call->out[0].dtype != ISO_F32))
        return false;
    for (int i = 1; i <= vectors; i++)
        if (call->in[i].dtype != ISO_F32)
            return false;
    return !attrs->residual ||
           (call->in[call->n_inputs - 1].dtype == ISO_BF16 && call->out[1].dtype == ISO_BF16);
}

enum { X, Y, NORM_BLOCKS };

static size_t norm_scratch(const iso_kernel_call *call)
{
    rows_of r = layer_norm_rows(call, 0);
    return NORM_BLOCKS * block_bytes(&r);
}

/* Rows of x, or of the sum of x and the residual, which it puts. */
static const float *normalized_rows(const rows_of *r, int64_t first, int64_t rows)
{
    const iso_kernel_call *call = r->call;
    float *x = block_at(r, X);
    const iso_array *from = &call->in[0];
    if (r->attrs->residual) {
        const iso_array *residual = &call->in[call->n_inputs - 1], *sum = &call->out[1];
        iso_cpu_functions()->binary_bf16(ISO_CPU_ADD, rows * r->c, rows_at(r, from, first), 1,
                                         rows_at(r, residual, first), 1, rows_at(r, sum, first));
        from = sum;
    }
    return rows_as_floats(r, from, first, rows, x);
}

static void norm_run(const iso_kernel_call *call)
{
    const rows_of r = layer_norm_rows(call, 0);
    const float *gamma = r.attrs->has_gamma ? call->in[1].data : NULL;
    const float *beta = r.attrs->has_beta ? call->in[r.attrs->has_gamma ? 2 : 1].data : NULL;
    for (int64_t first = 0; first < r.rows; first += r.step) {
        int64_t rows = r.rows - first < r.step ? r.rows - first : r.step;
        const float *x = normalized_rows(&r, first, rows);
        float *y = rows_to(&r, &call->out[0], first, block_at(&r, Y));
        iso_cpu_functions()->layer_norm_f32(rows, r.c, x, NULL, gamma, beta, (float)r.attrs->epsilon,
                                            r.attrs->rms, NULL, y);
        put_rows(&r, &call->out[0], first, rows, y);
    }
}

/* ---- gradient ---- */

static bool gradient_fits(const iso_kernel_call *call)
{
    const iso_layer_norm_attrs *attrs = call->attrs;
    const iso_dtype dy = call->in[1].dtype, dx = call->out[0].dtype;
    return call->in[0].dtype == ISO_BF16 && (dy == ISO_BF16 || dy == ISO_F32) &&
           (dx == ISO_BF16 || dx == ISO_F32) && (!attrs->has_gamma || call->in[2].dtype == ISO_F32) &&
           (!attrs->residual || call->in[call->n_inputs - 1].dtype == dx);
}

enum { GRADIENT_X, GRADIENT_DY, GRADIENT_DX, GRADIENT_BLOCKS };

static size_t gradient_scratch(const iso_kernel_call *call)
{
    rows_of r = layer_norm_rows(call, 0);
    return GRADIENT_BLOCKS * block_bytes(&r);
}

static void gradient_run(const iso_kernel_call *call)
{
    const iso_cpu_functions_table *f = iso_cpu_functions();
    const rows_of r = layer_norm_rows(call, 0);
    const iso_array *out = &call->out[0],
                    *residual = r.attrs->residual ? &call->in[call->n_inputs - 1] : NULL;
    const bool narrow = out->dtype == ISO_BF16;
    for (int64_t first = 0; first < r.rows; first += r.step) {
        int64_t rows = r.rows - first < r.step ? r.rows - first : r.step;
        const float *x = rows_as_floats(&r, &call->in[0], first, rows, block_at(&r, GRADIENT_X));
        const float *dy = rows_as_floats(&r, &call->in[1], first, rows, block_at(&r, GRADIENT_DY));
        const float *added = residual && !narrow ? rows_at(&r, residual, first) : NULL;
        float *dx = rows_to(&r, out, first, block_at(&r, GRADIENT_DX));
        f->layer_norm_grad_f32(rows, r.c, x, dy, r.attrs->has_gamma ? call->in[2].data : NULL,
                               (float)r.attrs->epsilon, r.attrs->rms, added, dx);
        put_rows(&r, out, first, rows, dx);
        if (residual && narrow)
            f->binary_bf16(ISO_CPU_ADD, rows * r.c, rows_at(&r, residual, first), 1, rows_at(&r, out, first),
                           1, rows_at(&r, out, first));
    }
}

/* ---- the sums over rows ---- */

static bool sums_fit(const iso_kernel_call *call)
{
    const iso_dtype dy = call->in[1].dtype;
    return call->in[0].dtype == ISO_BF16 && (dy == ISO_BF16 || dy == ISO_F32) &&
           call->out[0].dtype == ISO_F32 && call->out[1].dtype == ISO_F32;
}

enum { SUMS_X, SUMS_DY, SUMS_BLOCKS };

/* The parts of layer_norm.c: of each, dgamma and dbeta in double; the blocks; dgamma and dbeta of a block, and
 * floats as many as two rows. */
static iso_row_parts sums_parts(const iso_kernel_call *call)
{
    const rows_of r = layer_norm_rows(call, SUMS_ROWS);
    const size_t of_block = (size_t)r.c * (2 * sizeof(double) + 2 * sizeof(float));
    return iso_row_parts_of(r.rows, r.c, 2 * r.c, SUMS_BLOCKS * block_bytes(&r) + of_block + LINE);
}

static void sum_rows_of_part(const iso_kernel_call *call, int64_t part, double *sums, void *room)
{
    const rows_of r = layer_norm_rows(call, SUMS_ROWS);
    const iso_row_parts p = sums_parts(call);
    const int64_t c = r.c, end = iso_row_part_begin(&p, part + 1);
    char *blocks = room;
    float *x_block = (float *)(blocks + SUMS_X * block_bytes(&r)),
          *dy_block = (float *)(blocks + SUMS_DY * block_bytes(&r));
    double *of_block = (double *)(blocks + SUMS_BLOCKS * block_bytes(&r));
    memset(sums, 0, 2 * (size_t)c * sizeof *sums);
    for (int64_t first = iso_row_part_begin(&p, part); first < end; first += r.step) {
        int64_t rows = end - first < r.step ? end - first : r.step;
        const float *x = rows_as_floats(&r, &call->in[0], first, rows, x_block);
        const float *dy = rows_as_floats(&r, &call->in[1], first, rows, dy_block);
        iso_cpu_functions()->layer_norm_sums_f32(rows, c, x, dy, (float)r.attrs->epsilon, r.attrs->rms,
                                                 of_block, of_block + c, (float *)(of_block + 2 * c));
        for (int64_t i = 0; i < 2 * c; i++)
            sums[i] += of_block[i];
    }
}

static void put_sums_of_rows(const iso_kernel_call *call, const double *sums)
{
    const rows_of r = layer_norm_rows(call, SUMS_ROWS);
    for (int64_t i = 0; i < r.c; i++) {
        ((float *)call->out[0].data)[i] = (float)sums[i];
        ((float *)call->out[1].data)[i] = (float)sums[r.c + i];
    }
}

ISO_ROW_SUMS(sums, sums_parts, sum_rows_of_part, put_sums_of_rows)

const iso_kernel iso_cpu_layer_norm_bf16 = {.op = "layer_norm",
                                            .name = "vector in bfloat16",
                                            .fits = norm_fits,
                                            .scratch = norm_scratch,
                                            .run = norm_run,
                                            .by_rows = true};
const iso_kernel iso_cpu_layer_norm_grad_bf16 = {.op = "layer_norm_grad",
                                                 .name = "vector in bfloat16",
                                                 .fits = gradient_fits,
                                                 .scratch = gradient_scratch,
                                                 .run = gradient_run,
                                                 .by_rows = true};
const iso_kernel iso_cpu_layer_norm_grad_sums_bf16 = {
    .op = "layer_norm_grad_sums", .name = "vector in bfloat16", .fits = sums_fit, ISO_ROW_SUMS_MEMBERS(sums)};
