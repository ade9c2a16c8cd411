/* The rule that chooses the kernel of a float32 matrix product, and its blocks. The choice determines the
 * bits of the product. It therefore depends only on shapes, on the vector length of the instruction set that
 * all ranks agreed on, and on constant cache sizes; never on threads, placement or measured time. */
#ifndef ISO_CPU_PRODUCT_H
#define ISO_CPU_PRODUCT_H

#include "runtime/backend/cpu/onednn.h"

typedef enum iso_product_way {
    ISO_PRODUCT_PARTS,      /* kernel gradient by tiles; any part can be computed alone, with the same bits */
    ISO_PRODUCT_TRANSPOSED, /* input gradient by tiles; the lanes of a vector are rows of a */
    ISO_PRODUCT_LIBRARY,    /* dnnl_sgemm or cblas_sgemm: one call, or one for each block */
    ISO_PRODUCT_TILES,      /* tiles, for every other form */
} iso_product_way;

/* library: dnnl_sgemm or cblas_sgemm is available. single: a product that is not one of a batch. */
iso_product_way iso_product_choose(const iso_product *product, bool single, bool library);

/* For ISO_PRODUCT_PARTS: the rows of a block, and whether blocks are computed from a packed b
 * (gemm_strip_f32) or directly from b. */
int64_t iso_product_block_rows(const iso_product *product);
bool iso_product_is_packed(const iso_product *product);

/* For ISO_PRODUCT_LIBRARY and products of bfloat16: a large product is computed in blocks of its rows and columns,
 * each by one call of the library, so that threads can compute them at the same time. The number of blocks; and
 * block number `block`: its product, and the elements at which its operands begin in those of the whole. speed: how
 * much faster than sgemm the library multiplies, about: its blocks are larger. */
typedef struct iso_product_block {
    iso_product product;
    int64_t a, b, c;
} iso_product_block;
int64_t iso_product_blocks(const iso_product *product, int speed);
iso_product_block iso_product_block_at(const iso_product *product, int speed, int64_t block);

#endif
