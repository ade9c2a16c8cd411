/* The rates of this machine: memory and products. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/clock.h"
#include "runtime/base/memory.h"
#include "runtime/exec/calibrate/measure_impl.h"
#include "runtime/session/session.h"

enum { ROUNDS = 7, TRIAD = 1 << 22 };

double iso_measure_least(iso_thread_pool *pool, iso_job job, void *arg)
{
    static const double most = 0.5; /* seconds: a machine that does other things is not waited for */
    double least = INFINITY, first = iso_clock();
    for (int i = 0; i < ROUNDS && (i == 0 || iso_clock() - first < most); i++) {
        double begin = iso_clock();
        iso_thread_pool_run(pool, job, arg);
        double seconds = iso_clock() - begin;
        least = seconds < least ? seconds : least;
    }
    return least;
}

/* ---- memory ---- */

typedef struct triad {
    int threads;    /* those that work */
    double **array; /* [threads * 3] of TRIAD elements */
} triad;

/* McCalpin's STREAM triad */
static void run_triad(void *arg, int thread)
{
    const triad *t = arg;
    if (thread >= t->threads)
        return;
    double *restrict a = t->array[3 * thread];
    const double *b = t->array[3 * thread + 1], *c = t->array[3 * thread + 2];
    for (int i = 0; i < TRIAD; i++)
        a[i] = b[i] + 3 * c[i];
}

static iso_status measure_memory(iso_thread_pool *pool, int threads, iso_machine_rates *rates)
{
    iso_status status = ISO_OK;
    triad t = {.array = iso_new(3 * (size_t)threads * sizeof *t.array)};
    if (!t.array)
        return iso_no_memory("a measurement");
    for (int i = 0; i < 3 * threads; i++) {
        void *memory = NULL;
        ISO_TRY(iso_alloc(TRIAD * sizeof(double), "a measurement", &memory));
        t.array[i] = memory;
    }
    double bytes = 3.0 * TRIAD * sizeof(double);
    t.threads = 1;
    rates->bytes_one = bytes / iso_measure_least(pool, run_triad, &t);
    t.threads = threads;
    rates->bytes_all = threads * bytes / iso_measure_least(pool, run_triad, &t);
done:
    for (int i = 0; i < 3 * threads; i++)
        iso_free(t.array[i]);
    iso_free(t.array);
    return status;
}

/* ---- products ---- */

enum { OPERANDS = 3 };

typedef struct product {
    const iso_backend *backend;
    int64_t m, k, n;
    iso_dtype dtype;
    int times;
    void **memory; /* [threads * OPERANDS] */
    void **scratch;
} product;

static iso_array matrix(const product *p, int64_t rows, int64_t columns, void *data)
{
    return (iso_array){
        .data = data, .dtype = p->dtype, .rank = 2, .dim = {rows, columns}, .global = {rows, columns}};
}

static iso_kernel_call call_of(const product *p, int thread, iso_array *in, iso_array *out)
{
    static const char attributes[256];
    void **memory = p->memory + OPERANDS * thread;
    in[0] = matrix(p, p->m, p->k, memory[0]);
    in[1] = matrix(p, p->k, p->n, memory[1]);
    out[0] = matrix(p, p->m, p->n, memory[2]);
    return (iso_kernel_call){.attrs = attributes,
                             .n_inputs = 2,
                             .n_outputs = 1,
                             .in = in,
                             .out = out,
                             .scratch = p->scratch[thread]};
}

static void run_product(void *arg, int thread)
{
    const product *p = arg;
    iso_array in[2], out[1];
    iso_kernel_call call = call_of(p, thread, in, out);
    const iso_kernel *kernel = p->backend->find("matmul", &call);
    for (int i = 0; i < p->times; i++)
        kernel->run(&call);
}

static iso_status allocate_product(product *p, int threads)
{
    iso_array in[2], out[1];
    iso_status status = ISO_OK;
    size_t element = iso_dtype_size(p->dtype),
           sizes[OPERANDS] = {(size_t)(p->m * p->k), (size_t)(p->k * p->n), (size_t)(p->m * p->n)};
    iso_kernel_call call = call_of(p, 0, in, out);
    const iso_kernel *kernel = p->backend->find("matmul", &call);
    for (int t = 0; t < threads; t++) {
        for (int i = 0; i < OPERANDS; i++)
            ISO_TRY(iso_alloc(sizes[i] * element, "a measurement", &p->memory[OPERANDS * t + i]));
        if (kernel && kernel->scratch)
            ISO_TRY(iso_alloc(kernel->scratch(&call), "a measurement", &p->scratch[t]));
    }
done:
    return status;
}

static void free_product(product *p, int threads)
{
    for (int t = 0; t < threads; t++) {
        for (int i = 0; i < OPERANDS; i++) {
            iso_free(p->memory[OPERANDS * t + i]);
            p->memory[OPERANDS * t + i] = NULL;
        }
        iso_free(p->scratch[t]);
        p->scratch[t] = NULL;
    }
}

/* One product on all threads at the same time. */
static iso_status measure_product(iso_thread_pool *pool, int threads, product *p, iso_calibration *into)
{
    char key[ISO_CALIBRATION_TEXT];
    iso_status status = ISO_OK;
    double flops = 2 * (double)p->m * (double)p->k * (double)p->n;
    size_t elements = (size_t)(p->m * p->k + p->k * p->n + p->m * p->n);
    p->times = flops < 1e7 ? (int)(1e7 / flops) + 1 : 1;
    ISO_TRY(allocate_product(p, threads));
    double seconds = iso_measure_least(pool, run_product, p) / p->times;
    snprintf(key, sizeof key, "product %s[%lld,%lld] x [%lld,%lld] @%d", iso_dtype_name(p->dtype),
             (long long)p->m, (long long)p->k, (long long)p->k, (long long)p->n, threads);
    if (p->dtype == ISO_F32 && flops / seconds > into->rates.flops)
        into->rates.flops = flops / seconds;
    ISO_TRY(
        iso_calibration_put(into, &(iso_calibrated_op){.key = key,
                                                       .type = "matmul",
                                                       .busy = threads,
                                                       .flops = flops,
                                                       .bytes = (double)(elements * iso_dtype_size(p->dtype)),
                                                       .seconds = seconds}));
done:
    free_product(p, threads);
    return status;
}

static iso_status measure_products(const iso_backend *backend, iso_thread_pool *pool, int threads,
                                   iso_calibration *into)
{
    static const int64_t shapes[][3] = {{32, 32, 32},       {32, 784, 128},    {256, 256, 256},
                                        {256, 1024, 256},   {16, 4096, 4096},  {256, 4096, 1024},
                                        {1024, 1024, 1024}, {2048, 2048, 2048}};
    static const iso_dtype types[] = {ISO_F32, ISO_F64};
    iso_status status = ISO_OK;
    product p = {.backend = backend,
                 .memory = iso_new(OPERANDS * (size_t)threads * sizeof *p.memory),
                 .scratch = iso_new((size_t)threads * sizeof *p.scratch)};
    if (!p.memory || !p.scratch)
        ISO_TRY(iso_no_memory("a measurement"));
    into->rates.flops = 0;
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            p.dtype = types[t];
            p.m = shapes[i][0];
            p.k = shapes[i][1];
            p.n = shapes[i][2];
            ISO_TRY(measure_product(pool, threads, &p, into));
        }
done:
    iso_free(p.memory);
    iso_free(p.scratch);
    return status;
}

/* ---- all ---- */

static iso_status measure_here(const iso_backend *backend, iso_thread_pool *pool, int threads,
                               iso_calibration *into)
{
    iso_status status = ISO_OK;
    ISO_TRY(measure_memory(pool, threads, &into->rates));
    ISO_TRY(measure_products(backend, pool, threads, into));
    ISO_TRY(iso_measure_exchanges(backend, pool, threads, &into->rates));
done:
    return status;
}

iso_status iso_machine_measure(iso_context *ctx, int threads, iso_calibration *into)
{
    ISO_NEED(ctx, into);
    const iso_backend *backend = iso_context_backend(ctx);
    iso_thread_pool *pool = NULL;
    iso_status status = ISO_OK;
    if (!backend->device(0)->host_access)
        status =
            iso_error(ISO_INVALID, "calibrate measures kernels of the host's processors, not of backend '%s'",
                      backend->name);
    if (status == ISO_OK)
        status = iso_thread_pool_create(threads, false, &pool);
    ISO_TRY(iso_agree(ctx, status == ISO_OK ? measure_here(backend, pool, threads, into) : status));
    if (iso_hosts(ctx) > 1)
        ISO_TRY(iso_measure_network(ctx, backend, pool, threads, &into->network));
done:
    if (pool)
        iso_thread_pool_destroy(pool);
    return status;
}
