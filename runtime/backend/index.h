/* Indices of elements, indices in arrays of any type (labels, rows of a table), and the fault for an invalid
 * one. */
#ifndef ISO_BACKEND_INDEX_H
#define ISO_BACKEND_INDEX_H

#include <math.h>

#include "runtime/backend/backend.h"
#include "runtime/base/bf16.h"
#include "runtime/base/host_device.h"

/* Element i of an array of indices as a double. */
ISO_HOST_DEVICE static inline double iso_index_element(const iso_array *array, int64_t i)
{
    switch (array->dtype) {
    case ISO_F32:
        return ((const float *)array->data)[i];
    case ISO_F64:
        return ((const double *)array->data)[i];
    case ISO_I32:
        return ((const int32_t *)array->data)[i];
    case ISO_I64:
        return (double)((const int64_t *)array->data)[i];
    case ISO_U8:
    case ISO_BOOL:
        return ((const uint8_t *)array->data)[i];
    case ISO_BF16:
        return iso_bf16_to_float(((const uint16_t *)array->data)[i]);
    case ISO_DTYPE_NONE:
        break;
    }
    return NAN;
}

/* Element i of the array (row-major, local) as an index in 0..count-1; -1 if it is not one: negative, too
 * large, or not an integer. array: I32, I64, U8 or a float. */
ISO_HOST_DEVICE static inline int64_t iso_index_read(const iso_array *array, int64_t i, int64_t count)
{
    if (array->dtype == ISO_I64) { /* not through double, which would round */
        int64_t index = ((const int64_t *)array->data)[i];
        return index >= 0 && index < count ? index : -1;
    }
    if (array->dtype == ISO_I32) { /* the most frequent type of labels */
        int64_t index = ((const int32_t *)array->data)[i];
        return index >= 0 && index < count ? index : -1;
    }
    double value = iso_index_element(array, i);
    if (!(value >= 0 && value < (double)count) || value != floor(value))
        return -1;
    return (int64_t)value;
}

/* Raises the fault that element i of the input is not an index in 0..count-1. For kernels of the CPU. */
void iso_index_fault(const iso_kernel_call *call, int input, int64_t i, int64_t count);

/* The index in the global tensor of element i of its local part, both row-major. */
ISO_HOST_DEVICE static inline uint64_t iso_index_global(const iso_array *array, int64_t i)
{
    uint64_t index = 0, stride = 1;
    for (int d = array->rank - 1; d >= 0; d--) {
        index += stride * (uint64_t)(array->offset[d] + i % array->dim[d]);
        stride *= (uint64_t)array->global[d];
        i /= array->dim[d];
    }
    return index;
}

#endif
