/* Products by the matrix unit of a processor with AMX. */
#ifndef ISO_CPU_AMX_H
#define ISO_CPU_AMX_H

#include <stdbool.h>
#include <stdint.h>

/* c [rows, columns] = a b, as gemm_f32 of functions.h; a_row or a_k is 1. An element of b is rounded to
 * bfloat16; one of a is taken as the sum of two numbers of bfloat16, which differs from it by less than 2^-16 of it.
 * (Numbers below float32's smallest normal number count as 0.) The sums are in float32, in an order that depends on k
 * alone. Only with ISO_ISA_AMX. */
void iso_amx_gemm(int64_t rows, int64_t columns, int64_t k, const float *a, int64_t a_row, int64_t a_k,
                  const float *b, int64_t b_k, bool add, float *c);

#endif
