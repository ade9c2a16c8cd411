/* The libraries for matrix products, always run on the calling thread alone: row-major c [m, n] = op(a)
 * op(b), where a is [m, k], or [k, m] with transpose_a; likewise b. */
#ifndef ISO_CPU_ONEDNN_H
#define ISO_CPU_ONEDNN_H

#include "runtime/backend/backend.h"
#include "runtime/backend/cpu/isa.h"
#include "runtime/backend/libraries.h"

typedef struct iso_product {
    int64_t m, n, k;
    bool transpose_a, transpose_b;
    int64_t lda, ldb, ldc; /* elements from a row in memory to the next one; 0: the rows are dense */
} iso_product;

static inline int64_t iso_product_lda(const iso_product *p)
{
    return p->lda ? p->lda : p->transpose_a ? p->m : p->k;
}
static inline int64_t iso_product_ldb(const iso_product *p)
{
    return p->ldb ? p->ldb : p->transpose_b ? p->k : p->n;
}
static inline int64_t iso_product_ldc(const iso_product *p)
{
    return p->ldc ? p->ldc : p->n;
}

/* oneDNN. Returns false and does nothing if the build has no oneDNN. */
bool iso_onednn_sgemm(const iso_product *product, const float *a, const float *b, float *c);
/* Products of bfloat16 with sums in float32, by oneDNN; c is of type `to`, float32 or bfloat16 (rounded once).
 * has_bf16: the ranks agreed on instructions for bfloat16, and oneDNN has and uses them. scratch: its bytes,
 * aligned to 64. m, n, k > 0. gemm returns false if oneDNN failed. */
bool iso_onednn_has_bf16(void);
size_t iso_onednn_bf16_scratch(const iso_product *product, iso_dtype to);
bool iso_onednn_bf16_gemm(const iso_product *product, const uint16_t *a, const uint16_t *b, iso_dtype to,
                          void *c, void *scratch);
/* Between these calls oneDNN uses the calling thread alone; end takes what begin returned. */
int iso_onednn_threads_begin(void);
void iso_onednn_threads_end(int before);
/* OpenBLAS. takes: it could be loaded, and the product is within its 32-bit sizes. */
bool iso_openblas_takes(const iso_product *product);
void iso_openblas_sgemm(const iso_product *product, const float *a, const float *b, float *c);
/* add: c += op(a) op(b). */
void iso_openblas_dgemm(const iso_product *product, const double *a, const double *b, bool add, double *c);
/* Limits oneDNN to an instruction set below AMX; no effect if it is already in use. */
void iso_onednn_limit_isa(iso_isa isa);
/* Fills in the versions, and OpenBLAS's kernels. */
void iso_onednn_find(iso_libraries *libraries);
void iso_openblas_find(iso_libraries *libraries);

#endif
