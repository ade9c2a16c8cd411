#include "runtime/backend/index.h"

#include <math.h>
#include <stdio.h>

static double index_element(const iso_array *array, int64_t i)
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
    case ISO_DTYPE_NONE:
        break;
    }
    return NAN;
}

int64_t iso_index_read(const iso_array *array, int64_t i, int64_t count)
{
    if (array->dtype == ISO_I64) { /* not through double, which would round */
        int64_t index = ((const int64_t *)array->data)[i];
        return index >= 0 && index < count ? index : -1;
    }
    double value = index_element(array, i);
    if (!(value >= 0 && value < (double)count) || value != floor(value))
        return -1;
    return (int64_t)value;
}

void iso_index_fault(const iso_kernel_call *call, int input, int64_t i, int64_t count)
{
    const iso_array *array = &call->in[input];
    iso_fault *fault = call->fault;
    if (fault->code != ISO_FAULT_NONE)
        return;
    bool wide = array->dtype == ISO_I64;
    fault->code = wide ? ISO_FAULT_INTEGER : ISO_FAULT_REAL;
    fault->instruction = call->instruction;
    fault->input = input;
    fault->element = i;
    fault->count = count;
    fault->integer = wide ? ((const int64_t *)array->data)[i] : 0;
    fault->real = wide ? 0 : index_element(array, i);
}

uint64_t iso_index_global(const iso_array *array, int64_t i)
{
    uint64_t index = 0, stride = 1;
    for (int d = array->rank - 1; d >= 0; d--) {
        index += stride * (uint64_t)(array->offset[d] + i % array->dim[d]);
        stride *= (uint64_t)array->global[d];
        i /= array->dim[d];
    }
    return index;
}
