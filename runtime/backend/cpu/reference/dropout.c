/* Dropout and noise by global index. */
#include "runtime/backend/cpu/reference/floats.h"
#include "runtime/base/random.h"
#include "runtime/graph/ops/network.h"

/* The index in the global tensor of element i of the local part, both row-major. */
static uint64_t ref_dropout_global_index(const iso_array *x, int64_t i)
{
    uint64_t index = 0, stride = 1;
    for (int d = x->rank - 1; d >= 0; d--) {
        index += stride * (uint64_t)(x->offset[d] + i % x->dim[d]);
        stride *= (uint64_t)x->global[d];
        i /= x->dim[d];
    }
    return index;
}

static void ref_dropout_run(const iso_kernel_call *call)
{
    const iso_dropout_attrs *attrs = call->attrs;
    const iso_array *x = &call->in[0];
    double scale = x->dtype == ISO_F32 ? (float)attrs->scale : attrs->scale;
    for (int64_t i = 0; i < iso_array_count(x); i++) {
        uint32_t word = iso_random_word(attrs->key, call->info->step, ref_dropout_global_index(x, i));
        iso_put(&call->out[0], i, word >> 8 >= attrs->threshold ? iso_get(x, i) * scale : 0);
    }
}

const iso_kernel iso_reference_dropout = {.op = "dropout", .name = "reference", .run = ref_dropout_run};

static void ref_dropout_run_noise(const iso_kernel_call *call)
{
    const iso_noise_attrs *attrs = call->attrs;
    const iso_array *x = &call->in[0];
    double normal[4];
    for (int64_t i = 0; i < iso_array_count(x); i++) {
        uint64_t index = ref_dropout_global_index(x, i);
        iso_random_normals(attrs->key, call->info->step, index / 4, normal);
        iso_put(&call->out[0], i, iso_get(x, i) + attrs->stddev * normal[index % 4]);
    }
}

const iso_kernel iso_reference_gaussian_noise = {
    .op = "gaussian_noise", .name = "reference", .run = ref_dropout_run_noise};
