/* Indices of elements, indices in arrays of any type (labels, rows of a table), and the fault for an invalid one. */
#ifndef ISO_BACKEND_INDEX_H
#define ISO_BACKEND_INDEX_H

#include "runtime/backend/backend.h"

/* Element i of the array (row-major, local) as an index in 0..count-1; -1 if it is not one: negative, too
 * large, or not an integer. array: I32, I64, U8, F32 or F64. */
int64_t iso_index_read(const iso_array *array, int64_t i, int64_t count);

/* Raises the fault that element i of the input is not an index in 0..count-1. For kernels of the CPU. */
void iso_index_fault(const iso_kernel_call *call, int input, int64_t i, int64_t count);

/* The index in the global tensor of element i of its local part, both row-major. */
uint64_t iso_index_global(const iso_array *array, int64_t i);

#endif
