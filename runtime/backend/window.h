/* Windows over a slot's part of a tensor. */
#ifndef ISO_BACKEND_WINDOW_H
#define ISO_BACKEND_WINDOW_H

#include "runtime/backend/backend.h"

/* The padding before the slot's part of dimension d of x, relative to its part of y: output position p,
 * counted within the part, reads elements from p * stride - padding on. Negative if the part of x begins
 * before the first window. */
static inline int64_t iso_local_padding(const iso_array *x, const iso_array *y, int d, int64_t stride,
                                        int64_t padding)
{
    return padding + x->offset[d] - y->offset[d] * stride;
}

/* The number of groups of a convolution that a slot has, from its parts of x [.., c] and of the kernel [r, s,
 * c / groups, f]. */
static inline int64_t iso_local_groups(const iso_array *x, const iso_array *kernel)
{
    return x->dim[3] > 0 && kernel->dim[2] > 0 ? x->dim[3] / kernel->dim[2] : 1;
}

#endif
