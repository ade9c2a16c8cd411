/* Kernels of the pools in float32. */
#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/window.h"
#include "runtime/graph/ops/network.h"

static bool pool_fits(const iso_kernel_call *call)
{
    return iso_cpu_has_type(call, ISO_F32);
}

static iso_pool2d pool_of(const iso_kernel_call *call, const iso_array *x, const iso_array *y)
{
    const iso_pool_geometry *geometry = &((const iso_pool_attrs *)call->attrs)->geometry;
    iso_pool2d pool = {.n = x->dim[0], .c = x->dim[3]};
    for (int i = 0; i < 2; i++) {
        pool.in[i] = x->dim[1 + i];
        pool.out[i] = y->dim[1 + i];
        pool.size[i] = geometry->size[i];
        pool.stride[i] = geometry->stride[i];
        pool.pad[i] = iso_local_padding(x, y, 1 + i, geometry->stride[i], geometry->pad_before[i]);
    }
    return pool;
}

static void pool_run_max(const iso_kernel_call *call)
{
    iso_pool2d pool = pool_of(call, &call->in[0], &call->out[0]);
    iso_cpu_functions()->max_pool_f32(&pool, call->in[0].data, call->out[0].data);
}

static void pool_run_max_gradient(const iso_kernel_call *call)
{
    iso_pool2d pool = pool_of(call, &call->in[0], &call->in[1]);
    iso_cpu_functions()->max_pool_grad_f32(&pool, call->in[0].data, call->in[1].data, call->in[2].data,
                                           call->out[0].data);
}

static void pool_run_average(const iso_kernel_call *call)
{
    iso_pool2d pool = pool_of(call, &call->in[0], &call->out[0]);
    iso_cpu_functions()->average_pool_f32(&pool, call->in[0].data, call->out[0].data);
}

static void pool_run_average_gradient(const iso_kernel_call *call)
{
    iso_pool2d pool = pool_of(call, &call->out[0], &call->in[0]);
    iso_cpu_functions()->average_pool_grad_f32(&pool, call->in[0].data, call->out[0].data);
}

const iso_kernel iso_cpu_max_pool2d = {
    .op = "max_pool2d", .name = "vector", .fits = pool_fits, .run = pool_run_max, .by_rows = true};
const iso_kernel iso_cpu_max_pool2d_grad = {.op = "max_pool2d_grad",
                                            .name = "vector",
                                            .fits = pool_fits,
                                            .run = pool_run_max_gradient,
                                            .by_rows = true};
const iso_kernel iso_cpu_average_pool2d = {
    .op = "average_pool2d", .name = "vector", .fits = pool_fits, .run = pool_run_average, .by_rows = true};
const iso_kernel iso_cpu_average_pool2d_grad = {.op = "average_pool2d_grad",
                                                .name = "vector",
                                                .fits = pool_fits,
                                                .run = pool_run_average_gradient,
                                                .by_rows = true};
