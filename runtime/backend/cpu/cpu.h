/* Declarations that the parts of the CPU backend share. */
#ifndef ISO_CPU_CPU_H
#define ISO_CPU_CPU_H

#include "runtime/backend/backend.h"

/* The fast kernels, ending with NULL, for tests. */
const iso_kernel *const *iso_cpu_kernels(void);

/* The kernel for an op: iso_backend.find, for kernels that call others. */
const iso_kernel *iso_cpu_find(const char *op, const iso_kernel_call *call);
/* Elements of dimensions [from, to) of an array. */
int64_t iso_cpu_product(const iso_array *array, int from, int to);
/* Whether all inputs and outputs have this type. */
bool iso_cpu_has_type(const iso_kernel_call *call, iso_dtype dtype);
/* Whether they all have one type, float32 or bfloat16. */
bool iso_cpu_is_f32_or_bf16(const iso_kernel_call *call);
/* Runs a part of a call: of dimension 0 of all outputs, and of all inputs but those of `whole` (bit i: input i), rows
 * [rows * block / blocks, rows * (block + 1) / blocks). */
void iso_cpu_run_rows(const iso_kernel_call *call, uint32_t whole, int64_t blocks, int64_t block,
                      void (*run)(const iso_kernel_call *call));

#endif
