/* Products by the matrix unit of a processor with AMX. */
#ifndef ISO_CPU_AMX_H
#define ISO_CPU_AMX_H

#include "runtime/backend/cpu/onednn.h"

/* c [rows, columns] = a b, as gemm_f32 of functions.h; a_row or a_k is 1. An element of b is rounded to
 * bfloat16; one of a is taken as the sum of two numbers of bfloat16, which differs from it by less than 2^-16 of it.
 * (Numbers below float32's smallest normal number count as 0.) The sums are in float32, in an order that depends on k
 * alone. Only with ISO_ISA_AMX. */
void iso_amx_gemm(int64_t rows, int64_t columns, int64_t k, const float *a, int64_t a_row, int64_t a_k,
                  const float *b, int64_t b_k, bool add, float *c);

/* c [m, n] = op(a) op(b) of elements `of`, float32 or bfloat16, to `to`, float32 or bfloat16 (rounded once). m, n, k
 * > 0. Sums are in float32, in an order that depends on k alone. A float is taken as the sum of three numbers of
 * bfloat16, and of the nine products of their parts the six largest are added: each of the others is below 2^-24 of
 * the product of the floats. False: a or b has an infinite element or NaN, or the product of their largest elements
 * is so large that sums could become infinite, or so small (below 2^-76) that much of it would count as 0, as all
 * numbers below 2^-126 do; then c has no meaning. Of bfloat16 always true. scratch: its bytes, aligned to 64. Only
 * with ISO_ISA_AMX. */
size_t iso_amx_product_scratch(const iso_product *product, iso_dtype of, iso_dtype to);
bool iso_amx_product(const iso_product *product, iso_dtype of, const void *a, const void *b, iso_dtype to,
                     void *c, void *scratch);
/* The same of float32, for a block of a product that threads compute in blocks: gives the largest absolute values of
 * the block's a and b, infinite also for NaN. Whether the largest ones of all blocks are in range. */
typedef struct iso_amx_range {
    double a, b;
} iso_amx_range;
void iso_amx_product_block(const iso_product *product, const float *a, const float *b, float *c,
                           void *scratch, iso_amx_range *range);
bool iso_amx_in_range(const iso_amx_range *range, int64_t k);

/* The same to float32, part by part: `begin` packs b, and iso_amx_part writes or adds the part [offset, offset +
 * extent) to c, which is dense, and packs a for up to `rows` rows at a time. The bits are those of any other division
 * into parts. good, after begin: false as iso_amx_product returns it, for all of a and b; then there are no parts. k
 * up to 512. packed, strip: their bytes, aligned to 64; strip is the caller's own. */
size_t iso_amx_packed_bytes(const iso_product *product, iso_dtype of);
size_t iso_amx_strip_bytes(const iso_product *product, iso_dtype of, int64_t rows);
void iso_amx_parts_begin(const iso_product *product, iso_dtype of, const void *a, const void *b,
                         void *packed);
bool iso_amx_parts_good(const void *packed);
void iso_amx_part(const iso_product *product, iso_dtype of, int64_t rows, const void *a, const void *packed,
                  const int64_t *offset, const int64_t *extent, bool add, float *c, void *strip);

#endif
