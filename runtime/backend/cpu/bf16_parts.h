/* Products of bfloat16 with few contracted rows, part by part, by AVX-512's vdpbf16ps. */
#ifndef ISO_CPU_BF16_PARTS_H
#define ISO_CPU_BF16_PARTS_H

#include "runtime/backend/cpu/onednn.h"

/* c [m, n] in float32 = the transpose of a [k, m], times b [k, n]. `begin` packs b; iso_bf16_part writes the part
 * [offset, offset + extent) to c, which is dense, or adds it to c, and packs a for up to `rows` rows at a time. An
 * element is one sum in float32 in the order of k, two products at a time; numbers below 2^-126 count as 0 (VDPBF16PS
 * in volume 2 of the Intel 64 and IA-32 Architectures Software Developer's Manual). The bits are those of any other
 * division into parts. packed, strip: their bytes, aligned to 64; strip is the caller's
 * own. Only with ISO_ISA_AVX512_BF16. */
size_t iso_bf16_packed_bytes(const iso_product *product);
size_t iso_bf16_strip_bytes(const iso_product *product, int64_t rows);
void iso_bf16_parts_begin(const iso_product *product, const uint16_t *b, void *packed);
void iso_bf16_part(const iso_product *product, int64_t rows, const uint16_t *a, const void *packed,
                   const int64_t *offset, const int64_t *extent, bool add, float *c, void *strip);

#endif
