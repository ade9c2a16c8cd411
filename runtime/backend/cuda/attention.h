/* Attention and its gradient. Of bfloat16, with up to 128 features in a head and no cap, one kernel computes the
 * results, one the gradients of queries, and one those of keys and values (attention_fused.cu). All else is products
 * of matrices, with a softmax between them. A block at a time, of some heads and queries, has its scores in scratch
 * memory, whose size is bounded for any number of positions. The products are the caller's affair: of cuBLASLt, or
 * of own kernels. Functions are local; any thread may call them. */
#ifndef ISO_BACKEND_CUDA_ATTENTION_H
#define ISO_BACKEND_CUDA_ATTENTION_H

#include "runtime/backend/cuda/cublaslt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Queues a product on the call's stream; operands NULL: only looks at it. false ends the walk. */
typedef bool iso_cuda_attention_multiply(const iso_cuda_product *product, const iso_cuda_operands *operands,
                                         const iso_kernel_call *call, void *argument);

/* Goes through the products of a call of "attention" or "attention_grad" (which has three outputs) in the order of
 * their execution. `queue`: all of them, and queues what lies between them; otherwise each shape at least once.
 * Returns false if a product gave it. The operands' workspace follows the first iso_cuda_attention_scratch bytes of
 * the call's scratch. */
bool iso_cuda_attention_walk(const iso_kernel_call *call, bool queue, iso_cuda_attention_multiply *multiply,
                             void *argument);
size_t iso_cuda_attention_scratch(const iso_kernel_call *call);

/* The kernels in tiles; `fits` tells for which calls. */
extern const iso_kernel iso_cuda_fused_attention, iso_cuda_fused_attention_grad;

/* The kernel of "attention" or "attention_grad": the one in tiles, if it fits, or that by cuBLASLt, if it does all
 * products of the call; otherwise NULL, as for other ops. */
const iso_kernel *iso_cuda_attention_kernel(const char *op, const iso_kernel_call *call);

#ifdef __cplusplus
}
#endif
#endif
