#include "runtime/backend/cuda/products.h"

#include <string.h>

#include "runtime/backend/cuda/convolutions.h"
#include "runtime/backend/cuda/cublaslt.h"
#include "runtime/backend/cuda/device.h"
#include "runtime/backend/cuda/list.h"
#include "runtime/graph/ops/attrs.h"

static int64_t leading(const iso_array *x, int dims)
{
    int64_t count = 1;
    for (int d = 0; d < dims; d++)
        count *= x->dim[d];
    return count;
}

/* The gradient of a weight: a [l..., k], b [l..., n] -> [k, n]. */
static iso_cuda_product contraction(const iso_array *a, const iso_array *b)
{
    return (iso_cuda_product){.batch = 1,
                              .m = a->dim[a->rank - 1],
                              .n = b->dim[b->rank - 1],
                              .k = leading(a, a->rank - 1),
                              .transpose_a = true};
}

/* One b for all rows of a, or one for each matrix of a. */
static iso_cuda_product plain_product(const iso_matmul_attrs *attrs, const iso_array *a, const iso_array *b)
{
    bool one_b = a->rank != b->rank;
    return (iso_cuda_product){.batch = one_b ? 1 : leading(a, a->rank - 2),
                              .m = one_b ? leading(a, a->rank - 1)
                                         : a->dim[a->rank - (attrs->transpose_a ? 1 : 2)],
                              .n = b->dim[b->rank - (attrs->transpose_b ? 2 : 1)],
                              .k = a->dim[a->rank - (attrs->transpose_a ? 2 : 1)],
                              .transpose_a = attrs->transpose_a,
                              .transpose_b = attrs->transpose_b};
}

static const iso_cuda_found_product *find_product(const iso_kernel_call *call, int epilogue)
{
    const iso_matmul_attrs *attrs = call->attrs;
    iso_cuda_product product = attrs->contract ? contraction(&call->in[0], &call->in[1])
                                               : plain_product(attrs, &call->in[0], &call->in[1]);
    product.dtype = call->in[0].dtype;
    product.out_dtype = call->out[0].dtype;
    product.epilogue = epilogue;
    return iso_cuda_product_find(product, iso_cuda_gpu_of_call(call));
}

/* ---- the kernel ---- */

static bool fits(const iso_kernel_call *call)
{
    return find_product(call, 0) != NULL;
}

/* Enough for the product alone, for all that may be fused into it, and for the own kernel, which takes operands that
 * cuBLASLt does not because of their addresses. */
static size_t scratch(const iso_kernel_call *call)
{
    static const int epilogues[] = {0, ISO_CUDA_ADD_BIAS, ISO_CUDA_ADD_BIAS | ISO_CUDA_RELU};
    size_t most = iso_cuda_matmul.scratch(call);
    for (size_t i = 0; i < sizeof epilogues / sizeof *epilogues; i++) {
        const iso_cuda_found_product *found = find_product(call, epilogues[i]);
        size_t bytes = found ? iso_cuda_product_workspace(found) : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static iso_cuda_operands operands_of(const iso_kernel_call *call)
{
    return (iso_cuda_operands){
        .a = call->in[0].data, .b = call->in[1].data, .c = call->out[0].data, .workspace = call->scratch};
}

static void run(const iso_kernel_call *call)
{
    iso_cuda_operands operands = operands_of(call);
    if (iso_cuda_product_aligned(&operands))
        iso_cuda_product_run(find_product(call, 0), &operands, call->stream);
    else
        iso_cuda_matmul.run(call);
}

static const iso_kernel matmul = {
    .op = "matmul", .name = "cublaslt", .fits = fits, .scratch = scratch, .run = run};

const iso_kernel *iso_cuda_library_kernel(const char *op, const iso_kernel_call *call)
{
    return strcmp(op, matmul.op) == 0 && matmul.fits(call) ? &matmul : NULL;
}

/* ---- fused ---- */

/* Whether the kernel changes the result of the product in place: nobody else sees the product then. */
static bool replaces(const iso_thunk *next, const char *op, const iso_array *result)
{
    return !next->copy && strcmp(next->kernel->op, op) == 0 && next->call->in[0].data == result->data &&
           next->call->out[0].data == result->data &&
           iso_array_bytes(&next->call->out[0]) == iso_array_bytes(result);
}

/* The vector that is added to all rows of the product; NULL: there is none. */
static const iso_array *bias_of(const iso_thunk *next, const iso_array *result)
{
    if (!replaces(next, "add", result))
        return NULL;
    const iso_array *bias = &next->call->in[1];
    return bias->rank == 1 && bias->dim[0] == result->dim[result->rank - 1] && bias->dtype == result->dtype
               ? bias
               : NULL;
}

int iso_cuda_find_epilogue(const iso_thunk *thunks, int count, iso_cuda_epilogue *epilogue)
{
    const iso_array *result = &thunks->call->out[0];
    const iso_array *bias = count > 1 ? bias_of(&thunks[1], result) : NULL;
    *epilogue = (iso_cuda_epilogue){.kind = 0};
    if (!bias)
        return 1;
    *epilogue = (iso_cuda_epilogue){ISO_CUDA_ADD_BIAS, bias->data};
    if (count == 2 || !replaces(&thunks[2], "relu", result))
        return 2;
    epilogue->kind |= ISO_CUDA_RELU;
    return 3;
}

int iso_cuda_fused_count(const iso_thunk *thunks, int count)
{
    iso_cuda_epilogue epilogue;
    if (thunks->copy)
        return 1;
    if (thunks->kernel != &matmul)
        return iso_cuda_fused_convolution_count(thunks, count);
    iso_cuda_operands operands = operands_of(thunks->call);
    count = iso_cuda_find_epilogue(thunks, count, &epilogue);
    operands.bias = epilogue.bias;
    return iso_cuda_product_aligned(&operands) && find_product(thunks->call, epilogue.kind) ? count : 1;
}

void iso_cuda_run_fused(const iso_thunk *thunks, int count)
{
    iso_cuda_epilogue epilogue;
    iso_cuda_find_epilogue(thunks, count, &epilogue);
    if (thunks->kernel != &matmul) {
        iso_cuda_run_fused_convolution(thunks, &epilogue);
        return;
    }
    iso_cuda_operands operands = operands_of(thunks->call);
    operands.bias = epilogue.bias;
    iso_cuda_product_run(find_product(thunks->call, epilogue.kind), &operands, thunks->call->stream);
}
