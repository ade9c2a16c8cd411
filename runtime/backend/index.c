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

/* "row 512", or "row 512, position 3, 0" for arrays of more dimensions. */
static void position(const iso_array *array, int64_t i, char *text, size_t size)
{
    int64_t at[ISO_MAX_RANK] = {0};
    for (int d = array->rank - 1; d >= 0; d--) {
        at[d] = array->offset[d] + i % array->dim[d];
        i /= array->dim[d];
    }
    int length = snprintf(text, size, "row %lld", (long long)at[0]);
    for (int d = 1; d < array->rank && length > 0 && (size_t)length < size; d++)
        length += snprintf(text + length, size - (size_t)length, "%s %lld", d == 1 ? ", position" : ",",
                           (long long)at[d]);
}

void iso_index_fault(iso_fault *fault, const iso_array *array, int64_t i, int64_t count, const char *what,
                     const char *of)
{
    char where[120], value[40];
    position(array, i, where, sizeof where);
    if (array->dtype == ISO_I64)
        snprintf(value, sizeof value, "%lld", (long long)((const int64_t *)array->data)[i]);
    else
        snprintf(value, sizeof value, "%.9g", index_element(array, i));
    iso_fault_raise(fault, "%s %s of %s is not one of the %lld %s", what, value, where, (long long)count, of);
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
