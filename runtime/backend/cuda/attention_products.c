/* The products of attention by cuBLASLt. */
#include <string.h>

#include "runtime/backend/cuda/attention.h"
#include "runtime/backend/cuda/device.h"
#include "runtime/backend/cuda/list.h"

/* argument: the bytes of the largest workspace, which it counts. */
static bool multiply(const iso_cuda_product *product, const iso_cuda_operands *operands,
                     const iso_kernel_call *call, void *argument)
{
    const iso_cuda_found_product *found = iso_cuda_product_find(*product, iso_cuda_gpu_of_call(call));
    size_t bytes = found && !operands ? iso_cuda_product_workspace(found) : 0, *most = argument;
    if (!operands)
        *most = bytes > *most ? bytes : *most;
    else if (found)
        iso_cuda_product_run(found, operands, call->stream);
    return found;
}

static bool fits(const iso_kernel_call *call)
{
    size_t most = 0;
    return iso_cuda_attention_walk(call, false, multiply, &most);
}

/* Enough for own products too, which take operands that cuBLASLt does not because of their addresses. */
static size_t scratch_of(const iso_kernel_call *call, const iso_kernel *own)
{
    size_t most = 0, bytes, of_own = own->scratch(call);
    iso_cuda_attention_walk(call, false, multiply, &most);
    bytes = iso_cuda_attention_scratch(call) + most;
    return bytes > of_own ? bytes : of_own;
}

static bool are_aligned(const iso_array *arrays, int count)
{
    bool aligned = true;
    for (int i = 0; i < count; i++)
        aligned = aligned && iso_cuda_product_aligned(&(iso_cuda_operands){.a = arrays[i].data});
    return aligned;
}

static void run(const iso_kernel_call *call, const iso_kernel *own)
{
    if (are_aligned(call->in, call->n_inputs) && are_aligned(call->out, call->n_outputs))
        iso_cuda_attention_walk(call, true, multiply, NULL);
    else
        own->run(call);
}

#define ATTENTION(OP)                                                                                        \
    static size_t OP##_scratch(const iso_kernel_call *call)                                                  \
    {                                                                                                        \
        return scratch_of(call, &iso_cuda_##OP);                                                             \
    }                                                                                                        \
    static void OP##_run(const iso_kernel_call *call)                                                        \
    {                                                                                                        \
        run(call, &iso_cuda_##OP);                                                                           \
    }
ATTENTION(attention)
ATTENTION(attention_grad)

#define KERNEL_OF(OP)                                                                                        \
    {                                                                                                        \
        .op = #OP, .name = "cublaslt", .fits = fits, .scratch = OP##_scratch, .run = OP##_run                \
    }
static const iso_kernel by_products[] = {KERNEL_OF(attention), KERNEL_OF(attention_grad)};
static const iso_kernel *const kernels[] = {&iso_cuda_fused_attention, &iso_cuda_fused_attention_grad,
                                            &by_products[0], &by_products[1]};

const iso_kernel *iso_cuda_attention_kernel(const char *op, const iso_kernel_call *call)
{
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (strcmp(kernels[i]->op, op) == 0 && kernels[i]->fits(call))
            return kernels[i];
    return NULL;
}
