/* The kernel of dropout in float32, by runs of elements whose global indices are consecutive. */
#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/cpu/functions.h"
#include "runtime/graph/ops/network.h"

static bool fits(const iso_call *call)
{
    return iso_cpu_has_type(call, ISO_F32);
}

/* Dimensions from here on are whole but perhaps for the first of them: their elements are one run. */
static int run_begins(const iso_array *x)
{
    int i = x->rank;
    while (i > 0 && (i == x->rank || x->dim[i] == x->global[i]))
        i--;
    return i;
}

/* The global index of local element i. */
static uint64_t global_index(const iso_array *x, int64_t i)
{
    uint64_t index = 0, stride = 1;
    for (int d = x->rank - 1; d >= 0; d--) {
        index += stride * (uint64_t)(x->offset[d] + i % x->dim[d]);
        stride *= (uint64_t)x->global[d];
        i /= x->dim[d];
    }
    return index;
}

static void run(const iso_call *call)
{
    const iso_dropout_attrs *attrs = call->attrs;
    const iso_array *x = &call->in[0];
    const int64_t count = iso_cpu_count(x), length = iso_cpu_product(x, run_begins(x), x->rank);
    for (int64_t i = 0; i < count; i += length)
        iso_cpu_functions()->dropout_f32(length, attrs->key, call->info->step, global_index(x, i),
                                         attrs->threshold, (float)attrs->scale, (const float *)x->data + i,
                                         (float *)call->out[0].data + i);
}

const iso_kernel iso_cpu_dropout = {
    .op = "dropout", .name = "vector", .fits = fits, .run = run, .in_place = true};
