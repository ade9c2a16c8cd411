#include "runtime/backend/box_copy.h"

#include <string.h>

/* Byte offset of a region's corner in a dense box, and the strides of the box. */
static size_t corner(const iso_box *box, const iso_box *region, size_t element, size_t *stride)
{
    size_t at = 0;
    for (int d = box->rank - 1; d >= 0; d--) {
        stride[d] = d == box->rank - 1 ? element : stride[d + 1] * (size_t)box->extent[d + 1];
        at += (size_t)(region->offset[d] - box->offset[d]) * stride[d];
    }
    return at;
}

static void copy_rows(const char *from, const size_t *from_stride, char *to, const size_t *to_stride,
                      const iso_box *region, int d, size_t element)
{
    if (d >= region->rank - 1) {
        memcpy(to, from, element * (size_t)(region->rank ? region->extent[d] : 1));
        return;
    }
    for (int64_t i = 0; i < region->extent[d]; i++)
        copy_rows(from + (size_t)i * from_stride[d], from_stride, to + (size_t)i * to_stride[d], to_stride,
                  region, d + 1, element);
}

void iso_box_copy_run(const iso_box_copy *copy)
{
    size_t from_stride[ISO_MAX_RANK], to_stride[ISO_MAX_RANK];
    size_t bytes = (size_t)iso_box_count(&copy->to_box) * copy->element;
    if (copy->zero)
        memset(copy->to, 0, bytes);
    if (copy->empty)
        return;
    if (copy->whole) {
        if (copy->to != copy->from)
            memcpy(copy->to, copy->from, bytes);
        return;
    }
    size_t from = corner(&copy->from_box, &copy->region, copy->element, from_stride);
    size_t to = corner(&copy->to_box, &copy->region, copy->element, to_stride);
    copy_rows((const char *)copy->from + from, from_stride, (char *)copy->to + to, to_stride, &copy->region,
              0, copy->element);
}
