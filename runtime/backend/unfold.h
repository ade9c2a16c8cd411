/* Windows along a dimension of a slot's part of a tensor, for the kernels of unfold and fold. */
#ifndef ISO_BACKEND_UNFOLD_H
#define ISO_BACKEND_UNFOLD_H

#include "runtime/backend/window.h"
#include "runtime/base/host_device.h"
#include "runtime/graph/ops/network.h"

/* x [outer, d, inner, c], y [outer, positions, inner, size, c] */
typedef struct iso_unfolding {
    int64_t outer, d, inner, c, positions, size;
    int64_t stride, dilation, pad; /* pad: before this part of x */
} iso_unfolding;

static inline iso_unfolding iso_unfolding_of(const iso_kernel_call *call, const iso_array *x,
                                             const iso_array *y)
{
    const iso_unfold_attrs *attrs = (const iso_unfold_attrs *)call->attrs;
    const int axis = (int)attrs->axis, last = x->rank - 1;
    iso_unfolding u = {1,
                       x->dim[axis],
                       1,
                       x->dim[last],
                       y->dim[axis],
                       attrs->geometry.size,
                       attrs->geometry.stride,
                       attrs->geometry.dilation,
                       iso_local_padding(x, y, axis, attrs->geometry.stride, attrs->geometry.pad_before)};
    for (int i = 0; i < last; i++) {
        u.outer *= i < axis ? x->dim[i] : 1;
        u.inner *= i > axis ? x->dim[i] : 1;
    }
    return u;
}

/* The place along d of element `tap` of a window; -1: outside this part of x. */
ISO_HOST_DEVICE static inline int64_t iso_unfold_reads(const iso_unfolding *u, int64_t position, int64_t tap)
{
    const int64_t at = position * u->stride - u->pad + tap * u->dilation;
    return at >= 0 && at < u->d ? at : -1;
}

/* The window of which element `tap` is at a place along d; -1: there is none. */
ISO_HOST_DEVICE static inline int64_t iso_unfold_read_by(const iso_unfolding *u, int64_t at, int64_t tap)
{
    const int64_t begin = at + u->pad - tap * u->dilation, position = begin / u->stride;
    return begin >= 0 && position * u->stride == begin && position < u->positions ? position : -1;
}

#endif
