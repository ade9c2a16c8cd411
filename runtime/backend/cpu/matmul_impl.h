/* What the files of the kernels of "matmul" share. */
#ifndef ISO_CPU_MATMUL_IMPL_H
#define ISO_CPU_MATMUL_IMPL_H

#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/cpu/product.h"

/* A call's product, and the number of consecutive ones. */
typedef struct iso_matmul_layout {
    iso_product product;
    int64_t count;
} iso_matmul_layout;

iso_matmul_layout iso_matmul_layout_of(const iso_kernel_call *call);
/* The rule of product.h for a call of any type; library: whether there is one for it. */
iso_product_way iso_matmul_way(const iso_kernel_call *call, bool library);
/* Whether a call of float32 is computed in this way. */
bool iso_matmul_goes(const iso_kernel_call *call, iso_product_way way, bool library);
/* Whether a library can compute a product in float32: oneDNN, else OpenBLAS. */
bool iso_matmul_has_library(const iso_kernel_call *call);
/* Whether the library for a product is OpenBLAS. */
bool iso_matmul_uses_openblas(const iso_product *product);
/* Sets the output to 0: there are no elements to sum. */
void iso_matmul_empty(const iso_kernel_call *call);
/* One product by dnnl_sgemm; its failure is a fault of the call. */
void iso_matmul_onednn(const iso_kernel_call *call, const iso_product *product, const float *a,
                       const float *b, float *c);

/* The blocks of all products of a call (product.h); 1: there is too little work. Block `block`: elements count from the
 * begin of all products. */
int64_t iso_matmul_blocks(const iso_kernel_call *call, int speed);
iso_product_block iso_matmul_block_at(const iso_matmul_layout *layout, int speed, int64_t block);
/* Runs all blocks in order, also where there is too little work for threads. */
void iso_matmul_run_blocks(const iso_kernel_call *call, int speed,
                           void (*run_block)(const iso_kernel_call *call, int64_t block));

/* A product in float32 by the rule of product.h, within the kernel of another op. scratch: iso_product_scratch bytes,
 * aligned to 64; those of a product with more rows are enough. */
size_t iso_product_scratch(const iso_product *product);
void iso_product_run(const iso_kernel_call *call, const iso_product *product, const float *a, const float *b,
                     float *c, void *scratch);

#endif
