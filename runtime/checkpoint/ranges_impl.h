/* Ranges of a box's row-major order as boxes, as HDF5 selects them. */
#ifndef ISO_CHECKPOINT_RANGES_IMPL_H
#define ISO_CHECKPOINT_RANGES_IMPL_H

#include "runtime/base/types.h"

enum { ISO_MOST_RANGE_BOXES = 2 * ISO_MAX_RANK };

/* Elements [begin, begin + count) of a box's order as boxes, in that order; returns how many: at most two a
 * dimension. */
int iso_range_boxes(const iso_box *box, int64_t begin, int64_t count, iso_box boxes[ISO_MOST_RANGE_BOXES]);

#endif
