/* Windows over a slot's part of a tensor. */
#ifndef ISO_BACKEND_WINDOW_H
#define ISO_BACKEND_WINDOW_H

#include "runtime/backend/backend.h"

/* The padding in front of the slot's part of dimension d of x, as its first place of y sees it: place p,
 * counted within the part, reads from p * stride - padding on. Less than 0 where the part of x begins before
 * that. */
static inline int64_t iso_local_padding(const iso_array *x, const iso_array *y, int d, int64_t stride,
                                        int64_t padding)
{
    return padding + x->offset[d] - y->offset[d] * stride;
}

#endif
