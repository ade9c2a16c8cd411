#include "runtime/backend/cuda/kernels.h"

#include <string.h>

#include "runtime/backend/cuda/attention.h"
#include "runtime/backend/cuda/list.h"

static const iso_kernel *const kernels[] = {
    &iso_cuda_fused_attention,
    &iso_cuda_fused_attention_grad,
#define KERNEL(name) &iso_cuda_##name,
#include "runtime/backend/cuda/list.h"
    NULL,
};

const iso_kernel *iso_cuda_kernel_find(const char *op, const iso_kernel_call *call)
{
    for (int i = 0; kernels[i]; i++)
        if (strcmp(kernels[i]->op, op) == 0 && (!kernels[i]->fits || kernels[i]->fits(call)))
            return kernels[i];
    return NULL;
}
