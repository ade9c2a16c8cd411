/* Elements of arrays of float32 or float64 as double, so that a reference kernel is written once. */
#ifndef ISO_BACKEND_CPU_REFERENCE_FLOATS_H
#define ISO_BACKEND_CPU_REFERENCE_FLOATS_H

#include "runtime/backend/cpu/reference/reference.h"

static inline double iso_get(const iso_array *array, int64_t i)
{
    return array->dtype == ISO_F32 ? (double)((const float *)array->data)[i]
                                   : ((const double *)array->data)[i];
}

static inline void iso_put(const iso_array *array, int64_t i, double value)
{
    if (array->dtype == ISO_F32)
        ((float *)array->data)[i] = (float)value;
    else
        ((double *)array->data)[i] = value;
}

static inline void iso_put_zeros(const iso_array *array)
{
    for (int64_t i = 0, count = iso_array_count(array); i < count; i++)
        iso_put(array, i, 0);
}

/* The extent of the last dimension, and the number of its rows. */
static inline int64_t iso_last_dim(const iso_array *array)
{
    return array->dim[array->rank - 1];
}

static inline int64_t iso_row_count(const iso_array *array)
{
    int64_t last = iso_last_dim(array);
    return last ? iso_array_count(array) / last : 0;
}

#endif
