/* Products of matrices by cuBLASLt. What is made for a product (descriptors, and the algorithm that the library
 * proposes) is made once, when a plan first asks for it, and kept until the process ends: a step only queues it.
 * Functions are local; any thread may call them. */
#ifndef ISO_BACKEND_CUDA_CUBLASLT_H
#define ISO_BACKEND_CUDA_CUBLASLT_H

#include "runtime/backend/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bits of an epilogue, which is applied to each element of the result before it is stored: iso_op_add of a vector
 * [n], iso_op_relu, and the addition of what c has had. */
enum { ISO_CUDA_ADD_BIAS = 1, ISO_CUDA_RELU = 2, ISO_CUDA_ADD_TO = 4 };
typedef struct iso_cuda_epilogue {
    int kind;         /* of these */
    const void *bias; /* of the type of the result */
} iso_cuda_epilogue;

/* How row-major matrices lie in memory: the elements from one row to the next, and from one matrix to the next. The
 * first element lies a multiple of `unit` elements after a multiple of 16 bytes. All 0: the matrices are dense. */
typedef struct iso_cuda_layout {
    int64_t row, matrix, unit;
} iso_cuda_layout;

/* c [batch, m, n] = sum over k of a(batch, m, k) b(batch, k, n). a is stored as [batch, m, k], or transposed as
 * [batch, k, m]; b as [batch, k, n], or transposed as [batch, n, k]. Elements of bf16 are multiplied and summed as
 * float32. */
typedef struct iso_cuda_product {
    int64_t batch, m, n, k;
    iso_cuda_layout of_a, of_b, of_c;
    int32_t dtype, out_dtype; /* iso_dtype of a and b, and of c and the bias */
    int32_t transpose_a, transpose_b;
    int32_t epilogue; /* bits */
    int32_t tf32;     /* set by iso_cuda_product_find: float32 is multiplied as TF32 */
} iso_cuda_product;

typedef struct iso_cuda_operands {
    const void *a, *b, *bias;
    void *c, *workspace;
} iso_cuda_operands;

typedef struct iso_cuda_found_product iso_cuda_found_product;

/* How cuBLASLt does a product on a GPU, which the thread then has entered; NULL: it does not (an empty one,
 * types or an epilogue that it lacks, no algorithm for its shapes whose sums have one order: a warning names the
 * product once), or the library is not in use, or fails: then an error is kept (refusals.h). gpu -1: every
 * possible product is found, but cannot be run. */
const iso_cuda_found_product *iso_cuda_product_find(iso_cuda_product product, int gpu);
/* The same for every GPU, for plans where there is none. */
void iso_cuda_assume_products(void);
/* Bytes of workspace, whose address may be any multiple of 16. */
size_t iso_cuda_product_workspace(const iso_cuda_found_product *found);
/* Whether the addresses of dense matrices are as aligned as cuBLASLt was told: multiples of 16. */
bool iso_cuda_product_aligned(const iso_cuda_operands *operands);
/* Queues a product. Does not wait, and may be captured. An error is kept: "cuBLASLt refuses the
 * product of float32 [128, 784] and float32 [784, 10]: CUBLAS_STATUS_EXECUTION_FAILED (13)" (refusals.h). */
void iso_cuda_product_run(const iso_cuda_found_product *found, const iso_cuda_operands *operands,
                          const iso_stream *stream);

/* For tuning.h. `choose`: a product of this text, which was found, is done by that choice from now on; false:
 * there is none, or it cannot. `measure`: times the algorithms whose sums have one order on a stream. ISO_INVALID:
 * the text is not one. */
bool iso_cuda_product_choose(const char *op, const char *choice);
iso_status iso_cuda_product_measure(const char *op, iso_stream *stream, iso_tuning_result *tuned);

/* Whether float32 may be multiplied as TF32 from now on. Before the first plan. */
void iso_cuda_allow_tf32(bool allow);
bool iso_cuda_allows_tf32(void);

#ifdef __cplusplus
}
#endif
#endif
