/* Kernels of "matmul" by units for bfloat16: in bfloat16, and in float32 as a sum of products of bfloat16 (AMX). */
#include <math.h>

#include "runtime/backend/cpu/amx.h"
#include "runtime/backend/cpu/bf16_parts.h"
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/matmul_impl.h"
#include "runtime/base/memory.h"

static bool is_of_bf16(const iso_kernel_call *call)
{
    iso_dtype to = call->out[0].dtype;
    return call->in[0].dtype == ISO_BF16 && call->in[1].dtype == ISO_BF16 &&
           (to == ISO_F32 || to == ISO_BF16);
}

/* A gradient of few rows in float32, which can be computed part by part. */
static bool has_parts_of_bf16(const iso_kernel_call *call)
{
    return is_of_bf16(call) && call->out[0].dtype == ISO_F32 &&
           iso_matmul_way(call, true) == ISO_PRODUCT_PARTS;
}

/* Times the speed of sgemm, about (product.h). */
enum { SPEED = 2, AMX_SPEED = 4, AMX_F32_SPEED = 1 };

/* ---- AMX ---- */

/* Smaller products do not fill its tiles, or are over before the tiles are packed. */
static bool fills_tiles(const iso_product *p, int64_t least)
{
    return iso_cpu_isa() >= ISO_ISA_AMX && p->m >= least && p->n >= least && p->k >= least;
}

static bool amx_f32_fits(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    return iso_matmul_has_library(call) && iso_matmul_goes(call, ISO_PRODUCT_LIBRARY, true) &&
           fills_tiles(&l.product, 64);
}

static size_t amx_scratch(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    return iso_amx_product_scratch(&l.product, call->in[0].dtype, call->out[0].dtype);
}

/* Product number i, which is out of the range of AMX. */
static void run_by_library(const iso_kernel_call *call, const iso_product *p, int64_t i)
{
    const float *a = (const float *)call->in[0].data + i * p->m * p->k,
                *b = (const float *)call->in[1].data + i * p->k * p->n;
    float *c = (float *)call->out[0].data + i * p->m * p->n;
    if (iso_matmul_uses_openblas(p))
        iso_openblas_sgemm(p, a, b, c);
    else
        iso_matmul_onednn(call, p, a, b, c);
}

static void run_amx_f32(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    const iso_product *p = &l.product;
    const float *a = call->in[0].data, *b = call->in[1].data;
    float *c = call->out[0].data;
    for (int64_t i = 0; i < l.count; i++, a += p->m * p->k, b += p->k * p->n, c += p->m * p->n)
        if (!iso_amx_product(p, ISO_F32, a, b, ISO_F32, c, call->scratch))
            run_by_library(call, p, i);
}

/* In blocks, the bits are the same: the order of sums depends on k alone. No block needs more scratch memory than the
 * whole. The range of each block is shared. */
static int64_t amx_f32_blocks(const iso_kernel_call *call)
{
    return iso_matmul_blocks(call, AMX_F32_SPEED);
}

static size_t amx_f32_shared(const iso_kernel_call *call)
{
    return (size_t)amx_f32_blocks(call) * sizeof(iso_amx_range);
}

static void run_amx_f32_block(const iso_kernel_call *call, int64_t block)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    const iso_product_block b = iso_matmul_block_at(&l, AMX_F32_SPEED, block);
    iso_amx_product_block(&b.product, (const float *)call->in[0].data + b.a,
                          (const float *)call->in[1].data + b.b, (float *)call->out[0].data + b.c,
                          call->scratch, (iso_amx_range *)call->shared + block);
}

/* A product that is out of range as a whole is left to the library. */
static void finish_amx_f32(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    const int64_t each = iso_product_blocks(&l.product, AMX_F32_SPEED);
    for (int64_t i = 0; i < l.count; i++) {
        const iso_amx_range *of = (const iso_amx_range *)call->shared + i * each;
        iso_amx_range range = of[0];
        for (int64_t block = 1; block < each; block++) {
            range.a = fmax(range.a, of[block].a);
            range.b = fmax(range.b, of[block].b);
        }
        if (!iso_amx_in_range(&range, l.product.k))
            run_by_library(call, &l.product, i);
    }
}

/* Few contracted rows, but enough to fill tiles. */
static bool amx_few_fit(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    return iso_matmul_goes(call, ISO_PRODUCT_PARTS, iso_matmul_has_library(call)) &&
           fills_tiles(&l.product, 64);
}

/* Strips of whole rows, in panels of 32. */
static int64_t amx_part_rows(const iso_kernel_call *call)
{
    enum { PANEL = 32 };
    iso_matmul_layout l = iso_matmul_layout_of(call);
    int64_t rows = iso_product_block_rows(&l.product) / PANEL * PANEL;
    return rows > PANEL ? rows : PANEL;
}

static size_t amx_few_packed(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    return iso_amx_packed_bytes(&l.product, call->in[0].dtype);
}

static size_t amx_few_strip(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    return iso_amx_strip_bytes(&l.product, call->in[0].dtype, amx_part_rows(call));
}

static size_t amx_few_scratch(const iso_kernel_call *call)
{
    return amx_few_packed(call) + amx_few_strip(call);
}

static void prepare_amx_few(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    iso_amx_parts_begin(&l.product, call->in[0].dtype, call->in[0].data, call->in[1].data, call->scratch);
}

/* All parts of a product that is out of range are computed by tiles. */
static void run_amx_few_part(const iso_kernel_call *call, const int64_t *offset, const int64_t *extent,
                             bool add, void *part, void *strip)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    const iso_product *p = &l.product;
    const float *a = call->in[0].data, *b = call->in[1].data;
    if (iso_amx_parts_good(call->scratch))
        iso_amx_part(p, call->in[0].dtype, amx_part_rows(call), a, call->scratch, offset, extent, add, part,
                     strip);
    else
        iso_cpu_functions()->gemm_f32(extent[0], extent[1], p->k, a + offset[0], 1, p->m, b + offset[1], p->n,
                                      add, part);
}

static void run_amx_few(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    const int64_t offset[] = {0, 0}, extent[] = {l.product.m, l.product.n};
    prepare_amx_few(call);
    run_amx_few_part(call, offset, extent, false, call->out[0].data,
                     (char *)call->scratch + amx_few_packed(call));
}

static bool amx_bf16_fits(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    return is_of_bf16(call) && fills_tiles(&l.product, 16);
}

static bool amx_few_bf16_fits(const iso_kernel_call *call)
{
    return amx_bf16_fits(call) && has_parts_of_bf16(call);
}

static void run_amx_bf16(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    const iso_product *p = &l.product;
    const uint16_t *a = call->in[0].data, *b = call->in[1].data;
    char *c = call->out[0].data;
    const size_t bytes = (size_t)(p->m * p->n) * iso_dtype_size(call->out[0].dtype);
    for (int64_t i = 0; i < l.count; i++, a += p->m * p->k, b += p->k * p->n, c += bytes)
        iso_amx_product(p, ISO_BF16, a, b, call->out[0].dtype, c, call->scratch);
}

/* In blocks, the bits are the same. */
static int64_t amx_bf16_blocks(const iso_kernel_call *call)
{
    return iso_matmul_blocks(call, AMX_SPEED);
}

static void run_amx_bf16_block(const iso_kernel_call *call, int64_t block)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    const iso_product_block b = iso_matmul_block_at(&l, AMX_SPEED, block);
    const iso_dtype to = call->out[0].dtype;
    iso_amx_product(&b.product, ISO_BF16, (const uint16_t *)call->in[0].data + b.a,
                    (const uint16_t *)call->in[1].data + b.b, to,
                    (char *)call->out[0].data + (size_t)b.c * iso_dtype_size(to), call->scratch);
}

/* ---- AVX-512 with bfloat16 ---- */

/* Smaller ones are over before b is packed. */
static bool few_bf16_fits(const iso_kernel_call *call)
{
    enum { LEAST = 16 };
    iso_matmul_layout l = iso_matmul_layout_of(call);
    return iso_cpu_isa() >= ISO_ISA_AVX512_BF16 && has_parts_of_bf16(call) && l.product.m >= LEAST &&
           l.product.n >= LEAST && l.product.k > 0;
}

static int64_t few_bf16_rows(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    return iso_product_block_rows(&l.product);
}

static size_t few_bf16_strip(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    return iso_bf16_strip_bytes(&l.product, few_bf16_rows(call));
}

static size_t few_bf16_scratch(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    return iso_bf16_packed_bytes(&l.product) + few_bf16_strip(call);
}

static void prepare_few_bf16(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    iso_bf16_parts_begin(&l.product, call->in[1].data, call->scratch);
}

static void run_few_bf16_part(const iso_kernel_call *call, const int64_t *offset, const int64_t *extent,
                              bool add, void *part, void *strip)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    iso_bf16_part(&l.product, few_bf16_rows(call), call->in[0].data, call->scratch, offset, extent, add, part,
                  strip);
}

static void run_few_bf16(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    const int64_t offset[] = {0, 0}, extent[] = {l.product.m, l.product.n};
    prepare_few_bf16(call);
    run_few_bf16_part(call, offset, extent, false, call->out[0].data,
                      (char *)call->scratch + iso_bf16_packed_bytes(&l.product));
}

/* ---- oneDNN ---- */

static bool bf16_fits(const iso_kernel_call *call)
{
    return is_of_bf16(call) && iso_onednn_has_bf16();
}

static bool matmul_is_empty(const iso_matmul_layout *l)
{
    return l->count == 0 || l->product.m == 0 || l->product.n == 0 || l->product.k == 0;
}

/* Blocks at the ends of rows and columns are smaller. */
static size_t bf16_scratch(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    size_t most = 0;
    if (matmul_is_empty(&l))
        return 0;
    for (int64_t block = 0; block < iso_product_blocks(&l.product, SPEED); block++) {
        const iso_product_block b = iso_matmul_block_at(&l, SPEED, block);
        size_t bytes = iso_onednn_bf16_scratch(&b.product, call->out[0].dtype);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static int64_t bf16_blocks(const iso_kernel_call *call)
{
    return iso_matmul_blocks(call, SPEED);
}

static void run_bf16_block(const iso_kernel_call *call, int64_t block)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    const iso_product_block b = iso_matmul_block_at(&l, SPEED, block);
    const iso_product *p = &b.product;
    const iso_dtype to = call->out[0].dtype;
    char *c = (char *)call->out[0].data + (size_t)b.c * iso_dtype_size(to);
    if (!iso_onednn_bf16_gemm(p, (const uint16_t *)call->in[0].data + b.a,
                              (const uint16_t *)call->in[1].data + b.b, to, c, call->scratch))
        iso_fault_raise(call->fault, "oneDNN failed on a product in bfloat16 of %lld x %lld x %lld",
                        (long long)p->m, (long long)p->n, (long long)p->k);
}

static void run_bf16(const iso_kernel_call *call)
{
    iso_matmul_layout l = iso_matmul_layout_of(call);
    if (matmul_is_empty(&l))
        iso_matmul_empty(call);
    else
        iso_matmul_run_blocks(call, SPEED, run_bf16_block);
}

const iso_kernel iso_cpu_matmul_amx = {.op = "matmul",
                                       .name = "AMX, bf16_x6",
                                       .fits = amx_f32_fits,
                                       .scratch = amx_scratch,
                                       .run = run_amx_f32,
                                       .blocks = amx_f32_blocks,
                                       .run_block = run_amx_f32_block,
                                       .shared = amx_f32_shared,
                                       .finish = finish_amx_f32};
const iso_kernel iso_cpu_matmul_amx_few = {.op = "matmul",
                                           .name = "AMX, bf16_x6, parts",
                                           .fits = amx_few_fit,
                                           .scratch = amx_few_scratch,
                                           .run = run_amx_few,
                                           .part_rows = amx_part_rows,
                                           .part_scratch = amx_few_strip,
                                           .prepare_parts = prepare_amx_few,
                                           .run_part = run_amx_few_part};
const iso_kernel iso_cpu_matmul_amx_few_bf16 = {.op = "matmul",
                                                .name = "AMX, parts",
                                                .fits = amx_few_bf16_fits,
                                                .scratch = amx_few_scratch,
                                                .run = run_amx_few,
                                                .part_rows = amx_part_rows,
                                                .part_scratch = amx_few_strip,
                                                .prepare_parts = prepare_amx_few,
                                                .run_part = run_amx_few_part};
const iso_kernel iso_cpu_matmul_amx_bf16 = {.op = "matmul",
                                            .name = "AMX",
                                            .fits = amx_bf16_fits,
                                            .scratch = amx_scratch,
                                            .run = run_amx_bf16,
                                            .blocks = amx_bf16_blocks,
                                            .run_block = run_amx_bf16_block};
const iso_kernel iso_cpu_matmul_few_bf16 = {.op = "matmul",
                                            .name = "vdpbf16ps, parts",
                                            .fits = few_bf16_fits,
                                            .scratch = few_bf16_scratch,
                                            .run = run_few_bf16,
                                            .part_rows = few_bf16_rows,
                                            .part_scratch = few_bf16_strip,
                                            .prepare_parts = prepare_few_bf16,
                                            .run_part = run_few_bf16_part};
const iso_kernel iso_cpu_matmul_bf16 = {.op = "matmul",
                                        .name = "dnnl_matmul",
                                        .fits = bf16_fits,
                                        .scratch = bf16_scratch,
                                        .run = run_bf16,
                                        .blocks = bf16_blocks,
                                        .run_block = run_bf16_block};
