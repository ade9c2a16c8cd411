/* Dropout and noise by global index. */
#include "runtime/backend/cpu/reference/floats.h"
#include "runtime/backend/index.h"
#include "runtime/base/random.h"
#include "runtime/graph/ops/network.h"

static void ref_dropout_run(const iso_kernel_call *call)
{
    const iso_dropout_attrs *attrs = call->attrs;
    const iso_array *x = &call->in[0];
    double scale = x->dtype == ISO_F32 ? (float)attrs->scale : attrs->scale;
    for (int64_t i = 0; i < iso_array_count(x); i++) {
        uint32_t word = iso_random_word(attrs->key, call->info->step, iso_index_global(x, i));
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
        uint64_t index = iso_index_global(x, i);
        iso_random_normals(attrs->key, call->info->step, index / 4, normal);
        iso_put(&call->out[0], i, iso_get(x, i) + attrs->stddev * normal[index % 4]);
    }
}

const iso_kernel iso_reference_gaussian_noise = {
    .op = "gaussian_noise", .name = "reference", .run = ref_dropout_run_noise};
