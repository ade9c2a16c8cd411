/* The kernels of dropout and noise in float32, by runs of elements whose global indices are consecutive. */
#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/index.h"
#include "runtime/base/random.h"
#include "runtime/graph/ops/network.h"

static bool dropout_fits(const iso_kernel_call *call)
{
    return iso_cpu_has_type(call, ISO_F32);
}

/* The first dimension of a run: all dimensions after it are whole, so their elements are one run. */
static int run_begins(const iso_array *x)
{
    int i = x->rank;
    while (i > 0 && (i == x->rank || x->dim[i] == x->global[i]))
        i--;
    return i;
}

static void dropout_run(const iso_kernel_call *call)
{
    const iso_dropout_attrs *attrs = call->attrs;
    const iso_array *x = &call->in[0];
    const int64_t count = iso_array_count(x), length = iso_cpu_product(x, run_begins(x), x->rank);
    for (int64_t i = 0; i < count; i += length)
        iso_cpu_functions()->dropout_f32(length, attrs->key, call->info->step, iso_index_global(x, i),
                                         attrs->threshold, (float)attrs->scale, (const float *)x->data + i,
                                         (float *)call->out[0].data + i);
}

const iso_kernel iso_cpu_dropout = {.op = "dropout",
                                    .name = "vector",
                                    .fits = dropout_fits,
                                    .run = dropout_run,
                                    .in_place = true,
                                    .by_rows = true};

/* One run, four numbers at a time. */
static void add_noise(const iso_noise_attrs *attrs, uint64_t step, uint64_t first, int64_t length,
                      const float *x, float *y)
{
    double normal[4];
    for (int64_t i = 0; i < length; i++) {
        uint64_t index = first + (uint64_t)i;
        if (i == 0 || index % 4 == 0)
            iso_random_normals(attrs->key, step, index / 4, normal);
        y[i] = (float)((double)x[i] + attrs->stddev * normal[index % 4]);
    }
}

static void dropout_run_noise(const iso_kernel_call *call)
{
    const iso_array *x = &call->in[0];
    const int64_t count = iso_array_count(x), length = iso_cpu_product(x, run_begins(x), x->rank);
    for (int64_t i = 0; i < count; i += length)
        add_noise(call->attrs, call->info->step, iso_index_global(x, i), length, (const float *)x->data + i,
                  (float *)call->out[0].data + i);
}

const iso_kernel iso_cpu_gaussian_noise = {.op = "gaussian_noise",
                                           .name = "blocks",
                                           .fits = dropout_fits,
                                           .run = dropout_run_noise,
                                           .in_place = true,
                                           .by_rows = true};
