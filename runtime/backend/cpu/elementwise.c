/* Kernels of elementwise ops, in float32 and bfloat16. */
#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/tables.h"

/* Elements from which on a table pays: it may not be in the cache. */
enum { LEAST_LOOKED_UP = 4096 };

static void run_unary(const iso_kernel_call *call)
{
    const iso_cpu_functions_table *f = iso_cpu_functions();
    const iso_unary_attrs *attrs = call->attrs;
    int64_t n = iso_array_count(&call->in[0]);
    float alpha = (float)attrs->alpha;
    const void *x = call->in[0].data;
    void *y = call->out[0].data;
    const bool narrow = call->out[0].dtype == ISO_BF16;
    const uint16_t *table = narrow && n >= LEAST_LOOKED_UP ? iso_table_of_function(attrs->kind) : NULL;
    if (table)
        f->look_up_bf16(n, table, x, y);
    else if (narrow)
        f->unary_bf16(attrs->kind, alpha, n, x, y);
    else
        f->unary_f32(attrs->kind, alpha, n, x, y);
}

static void run_unary_gradient(const iso_kernel_call *call)
{
    const iso_cpu_functions_table *f = iso_cpu_functions();
    const iso_unary_attrs *attrs = call->attrs;
    int64_t n = iso_array_count(&call->in[0]);
    float alpha = (float)attrs->alpha;
    const void *s = call->in[0].data, *dy = call->in[1].data;
    void *dx = call->out[0].data;
    const bool narrow = call->out[0].dtype == ISO_BF16;
    const float *table = narrow && n >= LEAST_LOOKED_UP ? iso_table_of_slope(attrs->kind) : NULL;
    if (table)
        f->look_up_gradient_bf16(n, table, s, dy, dx);
    else if (narrow)
        f->unary_gradient_bf16(attrs->kind, alpha, n, s, dy, dx);
    else
        f->unary_gradient_f32(attrs->kind, alpha, n, s, dy, dx);
}

#define UNARY(NAME, KIND, GRADIENT, LINEAR)                                                                  \
    const iso_kernel iso_cpu_##NAME = {.op = #NAME,                                                          \
                                       .name = "vector",                                                     \
                                       .fits = iso_cpu_is_f32_or_bf16,                                       \
                                       .run = run_unary,                                                     \
                                       .in_place = true,                                                     \
                                       .by_rows = true};
#include "runtime/graph/ops/unary.h"

const iso_kernel iso_cpu_unary_gradient = {.op = "unary_gradient",
                                           .name = "vector",
                                           .fits = iso_cpu_is_f32_or_bf16,
                                           .run = run_unary_gradient,
                                           .in_place = true,
                                           .by_rows = true};

static void elementwise_run_affine(const iso_kernel_call *call)
{
    const iso_cpu_functions_table *f = iso_cpu_functions();
    const iso_affine_attrs *attrs = call->attrs;
    int64_t n = iso_array_count(&call->in[0]);
    float scale = (float)attrs->scale, shift = (float)attrs->shift;
    const void *x = call->in[0].data;
    void *y = call->out[0].data;
    if (call->out[0].dtype == ISO_BF16)
        f->affine_bf16(n, scale, shift, x, y);
    else
        f->affine_f32(n, scale, shift, x, y);
}
const iso_kernel iso_cpu_affine = {.op = "affine",
                                   .name = "vector",
                                   .fits = iso_cpu_is_f32_or_bf16,
                                   .run = elementwise_run_affine,
                                   .in_place = true,
                                   .by_rows = true};

static bool single_fits(const iso_kernel_call *call)
{
    return iso_cpu_has_type(call, ISO_F32);
}

static void elementwise_run_scale_by_count(const iso_kernel_call *call)
{
    const iso_count_attrs *attrs = call->attrs;
    double count = attrs->count * (attrs->batch ? (double)call->info->rows : 1.0);
    float divisor = (float)count;
    iso_cpu_functions()->binary_f32(ISO_CPU_DIVIDE, iso_array_count(&call->in[0]), call->in[0].data, 1,
                                    &divisor, 0, call->out[0].data);
}
const iso_kernel iso_cpu_scale_by_count = {.op = "scale_by_count",
                                           .name = "vector",
                                           .fits = single_fits,
                                           .run = elementwise_run_scale_by_count,
                                           .in_place = true,
                                           .by_rows = true};

/* Between float32 and bfloat16; other types are the plain kernel's. */
static bool cast_fits(const iso_kernel_call *call)
{
    iso_dtype from = call->in[0].dtype, to = call->out[0].dtype;
    return (from == ISO_F32 && to == ISO_BF16) || (from == ISO_BF16 && to == ISO_F32);
}

static void run_cast(const iso_kernel_call *call)
{
    int64_t n = iso_array_count(&call->out[0]);
    if (call->out[0].dtype == ISO_BF16)
        iso_cpu_functions()->bf16_of_f32(n, call->in[0].data, call->out[0].data);
    else
        iso_cpu_functions()->f32_of_bf16(n, call->in[0].data, call->out[0].data);
}
const iso_kernel iso_cpu_cast = {
    .op = "cast", .name = "vector", .fits = cast_fits, .run = run_cast, .by_rows = true};
