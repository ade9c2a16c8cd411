/* Kernels that move elements: transpose, flip, slice, pad, concat, broadcast_to, one_hot. */
#include <string.h>

#include "runtime/backend/cpu/reference/list.h"
#include "runtime/backend/cpu/reference/reference.h"
#include "runtime/backend/cpu/reference/walk.h"
#include "runtime/backend/index.h"
#include "runtime/graph/ops/attrs.h"

#define MOVE(T)                                                                                              \
    {                                                                                                        \
        const T *x = (const T *)from + walk->at[0];                                                          \
        T *y = (T *)to + walk->at[1];                                                                        \
        for (int64_t i = 0; i < walk->length; i++)                                                           \
            y[i * walk->step[1]] = x[i * walk->step[0]];                                                     \
    }                                                                                                        \
    break;

static void move_run(const iso_walk *walk, size_t size, const void *from, void *to)
{
    switch (size) {
    case 1:
        MOVE(uint8_t)
    case 4:
        MOVE(uint32_t)
    case 8:
        MOVE(uint64_t)
    }
}

/* Copies dim[0..rank) elements between strided arrays. */
static void ref_move(int rank, const int64_t *dim, size_t size, const void *from, const int64_t *from_stride,
                     void *to, const int64_t *to_stride)
{
    int64_t stride[2][ISO_MAX_RANK] = {{0}};
    memcpy(stride[0], from_stride, (size_t)rank * sizeof(int64_t));
    memcpy(stride[1], to_stride, (size_t)rank * sizeof(int64_t));
    iso_walk walk;
    iso_walk_begin(&walk, rank, dim, 2, stride);
    for (int64_t r = 0; r < walk.n_runs; r++, iso_walk_next(&walk)) {
        if (walk.step[0] == 1 && walk.step[1] == 1)
            memcpy((char *)to + (size_t)walk.at[1] * size, (const char *)from + (size_t)walk.at[0] * size,
                   (size_t)walk.length * size);
        else
            move_run(&walk, size, from, to);
    }
}

/* Element `at` of an array of these strides. */
static void *ref_move_element(const iso_array *array, const int64_t *stride, const int64_t *at)
{
    int64_t index = 0;
    for (int d = 0; d < array->rank; d++)
        index += stride[d] * at[d];
    return (char *)array->data + (size_t)index * iso_dtype_size(array->dtype);
}

static void run_transpose(const iso_kernel_call *call)
{
    const iso_transpose_attrs *attrs = call->attrs;
    const iso_array *x = &call->in[0], *y = &call->out[0];
    int64_t own[ISO_MAX_RANK], from[ISO_MAX_RANK], to[ISO_MAX_RANK];
    iso_strides(x, own);
    iso_strides(y, to);
    for (int d = 0; d < x->rank; d++)
        from[d] = own[attrs->permutation[d]];
    ref_move(y->rank, y->dim, iso_dtype_size(x->dtype), x->data, from, y->data, to);
}

static void run_flip(const iso_kernel_call *call)
{
    const int axis = ((const iso_axis_attrs *)call->attrs)->axis;
    const iso_array *x = &call->in[0], *y = &call->out[0];
    int64_t from[ISO_MAX_RANK], to[ISO_MAX_RANK], last[ISO_MAX_RANK] = {0};
    if (iso_array_count(x) == 0)
        return;
    iso_strides(x, from);
    iso_strides(y, to);
    last[axis] = x->dim[axis] - 1;
    const void *begin = ref_move_element(x, from, last);
    from[axis] = -from[axis];
    ref_move(y->rank, y->dim, iso_dtype_size(x->dtype), begin, from, y->data, to);
}

/* The local elements that both of two arrays hold. The smaller one begins at `begin` in the larger one, in
 * global indices. Returns where they begin in each, and their number; false if there are none. */
static bool ref_move_overlap(const iso_array *small, const iso_array *large, const int64_t *begin,
                             int64_t *small_at, int64_t *large_at, int64_t *extent)
{
    for (int d = 0; d < small->rank; d++) {
        int64_t shift = small->offset[d] + begin[d] - large->offset[d]; /* index in large minus index in
                                                                           small */
        int64_t first = shift < 0 ? -shift : 0, end = large->dim[d] - shift;
        small_at[d] = first;
        large_at[d] = first + shift;
        extent[d] = (end < small->dim[d] ? end : small->dim[d]) - first;
        if (extent[d] <= 0)
            return false;
    }
    return true;
}

/* Whether an array has elements outside the part that is written. */
static bool leaves_some(const iso_array *y, const int64_t *extent)
{
    for (int d = 0; d < y->rank; d++)
        if (extent[d] != y->dim[d])
            return true;
    return false;
}

/* Copies what both have from one to the other; the rest of `y` is 0. */
static void move_overlap(const iso_kernel_call *call, bool to_larger)
{
    const iso_slice_attrs *attrs = call->attrs;
    const iso_array *x = &call->in[0], *y = &call->out[0], *small = to_larger ? x : y,
                    *large = to_larger ? y : x;
    int64_t from[ISO_MAX_RANK], to[ISO_MAX_RANK], small_at[ISO_MAX_RANK], large_at[ISO_MAX_RANK],
        extent[ISO_MAX_RANK];
    bool any = ref_move_overlap(small, large, attrs->begin, small_at, large_at, extent);
    if (iso_array_count(y) == 0)
        return;
    if (!any || leaves_some(y, extent))
        memset(y->data, 0, (size_t)iso_array_count(y) * iso_dtype_size(y->dtype));
    if (!any)
        return;
    iso_strides(x, from);
    iso_strides(y, to);
    ref_move(y->rank, extent, iso_dtype_size(x->dtype),
             ref_move_element(x, from, to_larger ? small_at : large_at), from,
             ref_move_element(y, to, to_larger ? large_at : small_at), to);
}

static void run_slice(const iso_kernel_call *call)
{
    move_overlap(call, false);
}

static void run_pad(const iso_kernel_call *call)
{
    move_overlap(call, true);
}

static void run_concat(const iso_kernel_call *call)
{
    const iso_axis_attrs *attrs = call->attrs;
    const iso_array *y = &call->out[0];
    int64_t from[ISO_MAX_RANK], to[ISO_MAX_RANK], begin[ISO_MAX_RANK] = {0};
    iso_strides(y, to);
    for (int i = 0; i < call->n_inputs; i++) {
        const iso_array *x = &call->in[i];
        iso_strides(x, from);
        if (iso_array_count(x) > 0)
            ref_move(x->rank, x->dim, iso_dtype_size(x->dtype), x->data, from, ref_move_element(y, to, begin),
                     to);
        begin[attrs->axis] += x->dim[attrs->axis];
    }
}

static void run_broadcast_to(const iso_kernel_call *call)
{
    const iso_array *x = &call->in[0], *y = &call->out[0];
    int64_t from[ISO_MAX_RANK], to[ISO_MAX_RANK];
    iso_broadcast_strides(x, y, from);
    iso_strides(y, to);
    ref_move(y->rank, y->dim, iso_dtype_size(x->dtype), x->data, from, y->data, to);
}

/* The array may have only some of the classes: its offset is the first one. */
static void run_one_hot(const iso_kernel_call *call)
{
    const iso_one_hot_attrs *attrs = call->attrs;
    const iso_array *y = &call->out[0];
    int last = y->rank - 1;
    int64_t classes = y->dim[last], rows = iso_array_count(&call->in[0]);
    if (rows == 0 || classes == 0)
        return;
    memset(y->data, 0, (size_t)(rows * classes) * iso_dtype_size(y->dtype));
    for (int64_t row = 0; row < rows; row++) {
        int64_t index = iso_index_read(&call->in[0], row, attrs->classes) - y->offset[last];
        if (index < 0 || index >= classes)
            continue;
        if (y->dtype == ISO_F32)
            ((float *)y->data)[row * classes + index] = 1;
        else
            ((double *)y->data)[row * classes + index] = 1;
    }
}

#define MOVER(NAME)                                                                                          \
    const iso_kernel iso_reference_##NAME = {.op = #NAME, .name = "reference", .run = run_##NAME};

MOVER(transpose)
MOVER(flip)
MOVER(slice)
MOVER(pad)
MOVER(concat)
MOVER(broadcast_to)
MOVER(one_hot)
