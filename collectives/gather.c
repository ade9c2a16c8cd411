/* The walk over a region is a nest of loops over runs. Dimensions that are contiguous in all operands and in
 * the target are merged while planning, so that whole rows, planes or buffers are one run. */
#include "collectives/gather_impl.h"

#include <string.h>

#include "runtime/base/memory.h"

size_t iso_box_offset(const iso_box *box, const iso_box *region, size_t size)
{
    int64_t index = 0;
    for (int d = 0; d < box->rank; d++)
        index = index * box->extent[d] + region->offset[d] - box->offset[d];
    return (size_t)index * size;
}

/* ---- planning ---- */

/* Elements from one index of dimension d to the next in a dense box. */
static int64_t stride_of(const iso_box *box, int d)
{
    int64_t stride = 1;
    for (int inner = d + 1; inner < box->rank; inner++)
        stride *= box->extent[inner];
    return stride;
}

static bool strides_are(const iso_box *const *boxes, int count, int d, int below, int64_t extent)
{
    for (int i = 0; i < count; i++)
        if (stride_of(boxes[i], d) != (below < 0 ? 1 : stride_of(boxes[i], below) * extent))
            return false;
    return true;
}

/* The loops over a region, innermost first: dims[i] is the innermost dimension of box that loop i runs
 * through. Returns their number, at least 1; loop 0 is a run (dims[0] = -1: it has a single element). */
static int nest_loops(const iso_box *region, const iso_box *const *boxes, int count, int *dims,
                      int64_t *extents)
{
    int loops = 0;
    for (int d = region->rank - 1; d >= 0; d--) {
        if (region->extent[d] == 1)
            continue;
        if (loops == 0 && !strides_are(boxes, count, d, -1, 1)) {
            dims[0] = -1;
            extents[loops++] = 1;
        }
        if (loops > 0 && dims[loops - 1] >= 0 &&
            strides_are(boxes, count, d, dims[loops - 1], extents[loops - 1])) {
            extents[loops - 1] *= region->extent[d];
        } else {
            dims[loops] = d;
            extents[loops++] = region->extent[d];
        }
    }
    if (loops == 0) {
        dims[0] = -1;
        extents[loops++] = 1;
    }
    return loops;
}

iso_status iso_gather_plan(iso_gather *gather, const iso_box *region, const iso_box *const *boxes)
{
    int dims[ISO_MAX_RANK + 1], all = gather->n_operands + 1;
    int64_t extents[ISO_MAX_RANK + 1];
    gather->size = iso_dtype_size(gather->dtype);
    gather->count = iso_box_count(region);
    gather->rank = nest_loops(region, boxes, all, dims, extents);
    gather->stride = iso_new((size_t)gather->rank * (size_t)all * sizeof *gather->stride);
    gather->cursor = iso_new((size_t)all * sizeof *gather->cursor);
    if (!gather->stride || !gather->cursor)
        return iso_no_memory("an exchange of %d sources", gather->n_operands);
    for (int loop = 0; loop < gather->rank; loop++) {
        int from = gather->rank - 1 - loop;
        gather->extent[loop] = extents[from];
        for (int i = 0; i < all && loop < gather->rank - 1; i++)
            gather->stride[loop * all + i] = stride_of(boxes[i], dims[from]) * (int64_t)gather->size;
    }
    return ISO_OK;
}

void iso_gather_free(iso_gather *gather)
{
    iso_free(gather->operands);
    iso_free(gather->copies);
    iso_free(gather->stride);
    iso_free(gather->cursor);
}

bool iso_gather_is_run(const iso_gather *gather)
{
    return gather->rank == 1;
}
