/* The CPU backend: a fast kernel if one fits, else the reference kernel. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/host.h"
#include "runtime/backend/cpu/isa.h"
#include "runtime/backend/cpu/list.h"
#include "runtime/backend/cpu/narrow.h"
#include "runtime/backend/cpu/onednn.h"
#include "runtime/graph/optimizers/rule.h"

static const iso_kernel *const kernels[] = {
#define KERNEL(name) &iso_cpu_##name,
#include "runtime/backend/cpu/list.h"
    NULL,
};

const iso_kernel *const *iso_cpu_kernels(void)
{
    return kernels;
}

int64_t iso_cpu_product(const iso_array *array, int from, int to)
{
    int64_t count = 1;
    for (int i = from; i < to; i++)
        count *= array->dim[i];
    return count;
}

static iso_array rows_of(const iso_array *array, int64_t begin, int64_t end)
{
    iso_array rows = *array;
    const int64_t row = iso_cpu_product(array, 1, array->rank);
    rows.data = (char *)array->data + (size_t)(begin * row) * iso_dtype_size(array->dtype);
    rows.dim[0] = end - begin;
    rows.offset[0] += begin;
    return rows;
}

void iso_cpu_run_rows(const iso_kernel_call *call, uint32_t whole, int64_t blocks, int64_t block,
                      void (*run)(const iso_kernel_call *call))
{
    const int64_t rows = call->out[0].dim[0], begin = rows * block / blocks,
                  end = rows * (block + 1) / blocks;
    iso_array in[ISO_MAX_INPUTS], out[ISO_MAX_OUTPUTS];
    iso_kernel_call part = *call;
    part.in = in;
    part.out = out;
    for (int i = 0; i < call->n_inputs; i++)
        in[i] = whole >> i & 1 ? call->in[i] : rows_of(&call->in[i], begin, end);
    for (int i = 0; i < call->n_outputs; i++)
        out[i] = rows_of(&call->out[i], begin, end);
    run(&part);
}

bool iso_cpu_has_type(const iso_kernel_call *call, iso_dtype dtype)
{
    for (int i = 0; i < call->n_inputs; i++)
        if (call->in[i].dtype != dtype)
            return false;
    for (int i = 0; i < call->n_outputs; i++)
        if (call->out[i].dtype != dtype)
            return false;
    return true;
}

bool iso_cpu_is_f32_or_bf16(const iso_kernel_call *call)
{
    return iso_cpu_has_type(call, ISO_F32) || iso_cpu_has_type(call, ISO_BF16);
}

const iso_kernel *iso_cpu_find(const char *op, const iso_kernel_call *call)
{
    const iso_kernel *narrow = iso_narrow_has(call) ? iso_narrow_own(op, call) : NULL;
    if (!narrow && iso_narrow_has(call))
        narrow = iso_narrow_find(op, call, iso_cpu_find);
    if (narrow)
        return narrow;
    for (int i = 0; kernels[i]; i++)
        if (strcmp(kernels[i]->op, op) == 0 && (!kernels[i]->fits || kernels[i]->fits(call)))
            return kernels[i];
    return iso_backend_reference()->find(op, call);
}

static void cpu_sum(iso_dtype dtype, int64_t n, const void *a, const void *b, void *out, iso_stream *stream)
{
    (void)stream;
    if (dtype == ISO_F32)
        iso_cpu_functions()->sum_f32(n, a, b, out);
    else if (dtype == ISO_F64)
        iso_cpu_functions()->sum_f64(n, a, b, out);
    else
        iso_backend_reference()->sum(dtype, n, a, b, out, stream);
}

static void cpu_maximum(iso_dtype dtype, int64_t n, const void *a, const void *b, void *out,
                        iso_stream *stream)
{
    (void)stream;
    if (dtype == ISO_F32)
        iso_cpu_functions()->max_f32(n, a, b, out);
    else
        iso_backend_reference()->maximum(dtype, n, a, b, out, stream);
}

static iso_rule_run optimizer(const char *rule, iso_dtype dtype)
{
    const char *name = iso_optimizer_kernel(rule);
    const iso_cpu_functions_table *f = iso_cpu_functions();
#define KERNEL(of, name) {#name, of->name##_f32},
    const struct {
        const char *name;
        iso_rule_run run;
    } updates[] = {ISO_FAST_OPTIMIZER_KERNELS(KERNEL, f)};
#undef KERNEL
    for (size_t i = 0; dtype == ISO_F32 && i < sizeof updates / sizeof *updates; i++)
        if (strcmp(updates[i].name, name) == 0)
            return updates[i].run;
    return iso_backend_reference()->optimizer(rule, dtype);
}

/* The libraries are known once the ranks agree on an instruction set. */
static char description[160];

static void cpu_describe(void)
{
    iso_libraries l = {.isa = iso_isa_name(iso_cpu_isa())};
    iso_onednn_find(&l);
    iso_openblas_find(&l);
    snprintf(description, sizeof description, "cpu: %s%s%s, %s%s %s", l.isa, *l.onednn ? ", oneDNN " : "",
             l.onednn, *l.openblas ? "OpenBLAS " : "no OpenBLAS found", l.openblas, l.openblas_core);
}

static const char *cpu_description(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, cpu_describe);
    return description;
}

static void cpu_load(void)
{
    iso_cpu_load_openblas();
}

static int cpu_level(void)
{
    return (int)iso_cpu_isa();
}

static void cpu_limit(int level)
{
    iso_cpu_limit_isa((iso_isa)level);
}

static const char *cpu_kernels(void)
{
    return iso_isa_name(iso_cpu_isa());
}

const iso_backend *iso_backend_cpu(void)
{
    static const iso_backend backend = {
        .name = "cpu",
        .description = cpu_description,
        .load = cpu_load,
        .check = iso_cpu_check_isa,
        .level = cpu_level,
        .limit = cpu_limit,
        .kernels = cpu_kernels,
        ISO_HOST_BACKEND,
        .rounds = true,
        .normalizes = true,
        .unfolds = true,
        .find = iso_cpu_find,
        .sum = cpu_sum,
        .maximum = cpu_maximum,
        .optimizer = optimizer,
    };
    return &backend;
}
