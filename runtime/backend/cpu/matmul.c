/* Kernels of "matmul" in float32 and float64: each product is one library call or computed by our own tiles. */
#include <string.h>

#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/matmul_impl.h"
#include "runtime/graph/ops/attrs.h"

iso_matmul_layout iso_matmul_layout_of(const iso_kernel_call *call)
{
    const iso_matmul_attrs *attrs = call->attrs;
    const iso_array *a = &call->in[0], *b = &call->in[1];
    iso_matmul_layout l = {.count = 1};
    iso_product *p = &l.product;
    p->transpose_a = attrs->transpose_a || attrs->contract;
    p->transpose_b = attrs->transpose_b;
    if (attrs->contract) { /* a [l..., m], b [l..., n] */
        p->k = iso_cpu_product(a, 0, a->rank - 1);
        p->m = a->dim[a->rank - 1];
        p->n = b->dim[b->rank - 1];
        return l;
    }
    p->n = b->dim[b->rank - (p->transpose_b ? 2 : 1)];
    p->k = b->dim[b->rank - (p->transpose_b ? 1 : 2)];
    if (b->rank == 2 && !p->transpose_a) { /* a [l..., m, k]: all rows in one product */
        p->m = iso_cpu_product(a, 0, a->rank - 1);
        return l;
    }
    p->m = a->dim[a->rank - (p->transpose_a ? 1 : 2)];
    l.count = iso_cpu_product(b, 0, b->rank - 2);
    return l;
}

iso_product_way iso_matmul_way(const iso_kernel_call *call, bool library)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    return iso_product_choose(&l.product, l.count == 1 && call->out[0].rank == 2, library);
}

bool iso_matmul_goes(const iso_kernel_call *call, iso_product_way way, bool library)
{
    return iso_cpu_has_type(call, ISO_F32) && iso_matmul_way(call, library) == way;
}

bool iso_matmul_has_library(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    return ISO_WITH_DNNL || iso_openblas_takes(&l.product);
}

/* Where one side is short, oneDNN's sgemm for AVX2 reads the matrices where they are. If their rows are a
 * multiple of 2 KiB apart, these fall on few lines of the cache: it has 0.45 to 0.8 times the speed of OpenBLAS,
 * which copies them. Elsewhere it is up to a tenth faster (AMD EPYC (Zen 4), oneDNN 2.6, OpenBLAS 0.3.21). */
static bool conflicts(const iso_product *p)
{
    enum { ROW = 512 };                    /* elements */
    static const double in_place = 0.0038; /* oneDNN's limit for 1 / m + 1 / n */
    return !p->transpose_b && 1.0 / (double)p->m + 1.0 / (double)p->n >= in_place &&
           (p->n % ROW == 0 || (p->transpose_a && p->m % ROW == 0));
}

bool iso_matmul_uses_openblas(const iso_product *p)
{
    return !ISO_WITH_DNNL || (iso_cpu_isa() == ISO_ISA_AVX2 && conflicts(p) && iso_openblas_takes(p));
}

static bool onednn_fits(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    return !iso_matmul_uses_openblas(&l.product) && iso_matmul_goes(call, ISO_PRODUCT_LIBRARY, true);
}

void iso_matmul_empty(const iso_kernel_call *call)
{
    memset(call->out[0].data, 0, (size_t)iso_array_count(&call->out[0]) * iso_dtype_size(call->out[0].dtype));
}

void iso_matmul_onednn(const iso_kernel_call *call, const iso_product *p, const float *a, const float *b,
                       float *c)
{
    if (!iso_onednn_sgemm(p, a, b, c))
        iso_fault_raise(call->fault, "oneDNN failed on a product of %lld x %lld x %lld", (long long)p->m,
                        (long long)p->n, (long long)p->k);
}

/* ---- products of libraries: those of a batch, each in blocks ---- */

/* With fewer multiplications in all, threads gain nothing. */
static const double least_divided = 4e6;

static bool is_divided(const iso_matmul_layout *l)
{
    const iso_product *p = &l->product;
    return (double)l->count * (double)p->m * (double)p->n * (double)p->k >= least_divided;
}

int64_t iso_matmul_blocks(const iso_kernel_call *call, int speed)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    return is_divided(&l) ? l.count * iso_product_blocks(&l.product, speed) : 1;
}

/* Calls of the library in a block: small products of a batch are taken together, up to about so many
 * multiplications. */
static int64_t calls_of_block(const iso_matmul_layout *l)
{
    static const double size = 1e6;
    const iso_product *p = &l->product;
    const double each = (double)p->m * (double)p->n * (double)p->k;
    return each < 1 || each > size ? 1 : (int64_t)(size / each);
}

static int64_t library_blocks(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    const int64_t each = calls_of_block(&l);
    return (iso_matmul_blocks(call, 1) + each - 1) / each;
}

static void run_library_block(const iso_kernel_call *call, int64_t block,
                              void (*run)(const iso_kernel_call *call, int64_t i))
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    const int64_t each = calls_of_block(&l), n = iso_matmul_blocks(call, 1);
    for (int64_t i = block * each; i < n && i < (block + 1) * each; i++)
        run(call, i);
}

/* The products, of dense matrices, follow each other. */
iso_product_block iso_matmul_block_at(const iso_matmul_layout *l, int speed, int64_t block)
{
    const iso_product *p = &l->product;
    const int64_t each = iso_product_blocks(p, speed), i = block / each;
    iso_product_block b = iso_product_block_at(p, speed, block % each);
    b.a += i * p->m * p->k;
    b.b += i * p->k * p->n;
    b.c += i * p->m * p->n;
    return b;
}

void iso_matmul_run_blocks(const iso_kernel_call *call, int speed,
                           void (*run_block)(const iso_kernel_call *call, int64_t block))
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    const int64_t n_blocks = l.count * iso_product_blocks(&l.product, speed);
    for (int64_t i = 0; i < n_blocks; i++)
        run_block(call, i);
}

static void run_onednn_call(const iso_kernel_call *call, int64_t i)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    const iso_product_block b = iso_matmul_block_at(&l, 1, i);
    iso_matmul_onednn(call, &b.product, (const float *)call->in[0].data + b.a,
                      (const float *)call->in[1].data + b.b, (float *)call->out[0].data + b.c);
}

static void run_onednn_block(const iso_kernel_call *call, int64_t block)
{
    run_library_block(call, block, run_onednn_call);
}

static void run_onednn(const iso_kernel_call *call)
{
    iso_matmul_run_blocks(call, 1, run_onednn_call);
}

static bool blas_fits(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    return iso_matmul_uses_openblas(&l.product) && iso_matmul_has_library(call) &&
           iso_matmul_goes(call, ISO_PRODUCT_LIBRARY, true);
}

static void run_blas_call(const iso_kernel_call *call, int64_t i)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    const iso_product_block b = iso_matmul_block_at(&l, 1, i);
    iso_openblas_sgemm(&b.product, (const float *)call->in[0].data + b.a,
                       (const float *)call->in[1].data + b.b, (float *)call->out[0].data + b.c);
}

static void run_blas_block(const iso_kernel_call *call, int64_t block)
{
    run_library_block(call, block, run_blas_call);
}

static void run_blas(const iso_kernel_call *call)
{
    iso_matmul_run_blocks(call, 1, run_blas_call);
}

/* ---- own kernels ---- */

static bool tiles_fit(const iso_kernel_call *call)
{
    return iso_cpu_has_type(call, ISO_F32);
}

/* A transposed b is first transposed back. */
static size_t tiles_scratch(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    return l.product.transpose_b ? (size_t)(l.product.n * l.product.k) * sizeof(float) + 64 : 0;
}

static void run_tiles(const iso_kernel_call *call)
{
    const iso_cpu_functions_table *f = iso_cpu_functions();
    iso_matmul_layout l = iso_matmul_layout_of(call);
    const iso_product *p = &l.product;
    if (p->k == 0)
        iso_matmul_empty(call);
    for (int64_t i = 0; i < l.count && p->k > 0; i++) {
        const float *a = (const float *)call->in[0].data + i * p->m * p->k;
        const float *b = (const float *)call->in[1].data + i * p->k * p->n;
        if (p->transpose_b) {
            f->transpose_f32(p->n, p->k, b, p->k, call->scratch, p->n);
            b = call->scratch;
        }
        f->gemm_f32(p->m, p->n, p->k, a, p->transpose_a ? 1 : p->k, p->transpose_a ? p->m : 1, b, p->n, false,
                    (float *)call->out[0].data + i * p->m * p->n);
    }
}

/* Few contracted rows, as in the gradient of a kernel over a small batch: every element is one sum in order,
 * so any part of the product has the bits of the whole. */
static bool few_fit(const iso_kernel_call *call)
{
    return iso_matmul_goes(call, ISO_PRODUCT_PARTS, iso_matmul_has_library(call));
}

static int64_t few_part_rows(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    return iso_product_block_rows(&l.product);
}

/* The strip of a: tiles of the last rows may not fill it. */
static size_t few_strip(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    const iso_product *p = &l.product;
    int64_t strip = (iso_product_block_rows(p) + iso_cpu_functions()->gemm_strip_rows()) * p->k;
    return iso_product_is_packed(p) ? (size_t)strip * sizeof(float) : 0;
}

/* The packed b, then the strip. */
static size_t few_packed(const iso_product *p)
{
    return iso_product_is_packed(p) ? (size_t)iso_cpu_functions()->gemm_pack_size(p->n, p->k) * sizeof(float)
                                    : 0;
}

static size_t few_scratch(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    return few_packed(&l.product) + few_strip(call);
}

static void prepare_few(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    const iso_product *p = &l.product;
    if (iso_product_is_packed(p))
        iso_cpu_functions()->gemm_pack_f32(p->n, p->k, call->in[1].data, p->n, call->scratch);
}

static void run_few_part(const iso_kernel_call *call, const int64_t *offset, const int64_t *extent, bool add,
                         void *part, void *strip)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    const iso_product *p = &l.product;
    const iso_cpu_functions_table *f = iso_cpu_functions();
    const float *a = (const float *)call->in[0].data + offset[0];
    if (p->k == 0) {
        if (!add)
            memset(part, 0, (size_t)(extent[0] * extent[1]) * sizeof(float));
    } else if (extent[0] > 1 && iso_product_is_packed(p)) {
        f->gemm_strip_f32(extent[0], p->n, p->k, a, p->m, call->scratch, strip, add, part);
    } else {
        f->gemm_f32(extent[0], extent[1], p->k, a, 1, p->m, (const float *)call->in[1].data + offset[1], p->n,
                    add, part);
    }
}

static void run_few(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    const iso_product *p = &l.product;
    int64_t step = iso_product_is_packed(p) ? iso_product_block_rows(p) : p->m;
    char *strip = (char *)call->scratch + few_packed(p);
    prepare_few(call);
    for (int64_t i = 0; i < p->m; i += step) {
        const int64_t offset[] = {i, 0}, extent[] = {p->m - i < step ? p->m - i : step, p->n};
        run_few_part(call, offset, extent, false, (float *)call->out[0].data + i * p->n, strip);
    }
}

/* A product with the transpose of b for few rows of a, as in the gradient of a layer's input. */
static bool transposed_fits(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    return iso_cpu_has_type(call, ISO_F32) &&
           iso_product_choose(&l.product, false, iso_matmul_has_library(call)) == ISO_PRODUCT_TRANSPOSED;
}

static size_t transposed_scratch(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    return iso_cpu_functions()->gemm_transposed_scratch(l.product.m, l.product.n, l.product.k);
}

static void run_transposed(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    const iso_product *p = &l.product;
    for (int64_t i = 0; i < l.count; i++)
        iso_cpu_functions()->gemm_transposed_f32(
            p->m, p->n, p->k, (const float *)call->in[0].data + i * p->m * p->k,
            (const float *)call->in[1].data + i * p->k * p->n, (float *)call->out[0].data + i * p->m * p->n,
            p->n, call->scratch);
}

/* Columns of a block, in which every element is the same sum: each block transposes a. */
static int64_t transposed_columns(const iso_product *p)
{
    enum { LEAST = 128, MOST_BLOCKS = 64, GROUP = 64 };
    const int64_t columns = (int64_t)(1e6 / ((double)p->m * (double)p->k)) + 1,
                  by_count = p->n / MOST_BLOCKS + 1;
    const int64_t most = columns > by_count ? columns : by_count, step = most > LEAST ? most : LEAST;
    return (step + GROUP - 1) / GROUP * GROUP;
}

static int64_t transposed_blocks(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    const int64_t columns = transposed_columns(&l.product);
    return is_divided(&l) ? l.count * ((l.product.n + columns - 1) / columns) : 1;
}

static void run_transposed_block(const iso_kernel_call *call, int64_t block)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    const iso_product *p = &l.product;
    const int64_t columns = transposed_columns(p), each = (p->n + columns - 1) / columns, i = block / each;
    const int64_t first = block % each * columns, n = p->n - first < columns ? p->n - first : columns;
    iso_cpu_functions()->gemm_transposed_f32(p->m, n, p->k, (const float *)call->in[0].data + i * p->m * p->k,
                                             (const float *)call->in[1].data + (i * p->n + first) * p->k,
                                             (float *)call->out[0].data + i * p->m * p->n + first, p->n,
                                             call->scratch);
}

/* ---- products within other kernels ---- */

size_t iso_product_scratch(const iso_product *p)
{
    const size_t back = p->transpose_b ? (size_t)(p->n * p->k) * sizeof(float) + 64 : 0;
    const size_t transposed =
        p->transpose_b ? iso_cpu_functions()->gemm_transposed_scratch(p->m, p->n, p->k) : 0;
    return back > transposed ? back : transposed;
}

void iso_product_run(const iso_kernel_call *call, const iso_product *p, const float *a, const float *b,
                     float *c, void *scratch)
{
    const iso_cpu_functions_table *f = iso_cpu_functions();
    if (p->k == 0) {
        memset(c, 0, (size_t)(p->m * p->n) * sizeof *c);
        return;
    }
    switch (iso_product_choose(p, false, ISO_WITH_DNNL || iso_openblas_takes(p))) {
    case ISO_PRODUCT_LIBRARY:
        if (iso_matmul_uses_openblas(p))
            iso_openblas_sgemm(p, a, b, c);
        else
            iso_matmul_onednn(call, p, a, b, c);
        return;
    case ISO_PRODUCT_TRANSPOSED:
        f->gemm_transposed_f32(p->m, p->n, p->k, a, b, c, p->n, scratch);
        return;
    default:
        if (p->transpose_b) {
            f->transpose_f32(p->n, p->k, b, p->k, scratch, p->n);
            b = scratch;
        }
        f->gemm_f32(p->m, p->n, p->k, a, p->transpose_a ? 1 : p->k, p->transpose_a ? p->m : 1, b, p->n, false,
                    c);
    }
}

/* ---- float64 ---- */

static bool double_fits(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    return iso_cpu_has_type(call, ISO_F64) && iso_openblas_takes(&l.product);
}

static bool is_empty(const iso_product *p)
{
    return p->k == 0 || p->m == 0 || p->n == 0;
}

static void run_double_call(const iso_kernel_call *call, int64_t i)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    const iso_product_block b = iso_matmul_block_at(&l, 1, i);
    iso_openblas_dgemm(&b.product, (const double *)call->in[0].data + b.a,
                       (const double *)call->in[1].data + b.b, false, (double *)call->out[0].data + b.c);
}

static void run_double_block(const iso_kernel_call *call, int64_t block)
{
    run_library_block(call, block, run_double_call);
}

static void run_double(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    if (is_empty(&l.product))
        iso_matmul_empty(call);
    else
        iso_matmul_run_blocks(call, 1, run_double_call);
}

const iso_kernel iso_cpu_matmul_few = {.op = "matmul",
                                       .name = "tiles",
                                       .fits = few_fit,
                                       .scratch = few_scratch,
                                       .run = run_few,
                                       .part_rows = few_part_rows,
                                       .part_scratch = few_strip,
                                       .prepare_parts = prepare_few,
                                       .run_part = run_few_part};
const iso_kernel iso_cpu_matmul_transposed = {.op = "matmul",
                                              .name = "transposed tiles",
                                              .fits = transposed_fits,
                                              .scratch = transposed_scratch,
                                              .run = run_transposed,
                                              .blocks = transposed_blocks,
                                              .run_block = run_transposed_block};
const iso_kernel iso_cpu_matmul_onednn = {.op = "matmul",
                                          .name = "dnnl_sgemm",
                                          .fits = onednn_fits,
                                          .run = run_onednn,
                                          .blocks = library_blocks,
                                          .run_block = run_onednn_block};
const iso_kernel iso_cpu_matmul_blas = {.op = "matmul",
                                        .name = "cblas_sgemm",
                                        .fits = blas_fits,
                                        .run = run_blas,
                                        .blocks = library_blocks,
                                        .run_block = run_blas_block};
const iso_kernel iso_cpu_matmul_tiles = {.op = "matmul",
                                         .name = "tiles",
                                         .fits = tiles_fit,
                                         .scratch = tiles_scratch,
                                         .run = run_tiles,
                                         .by_rows = true};
const iso_kernel iso_cpu_matmul_double = {.op = "matmul",
                                          .name = "cblas_dgemm",
                                          .fits = double_fits,
                                          .run = run_double,
                                          .blocks = library_blocks,
                                          .run_block = run_double_block};
