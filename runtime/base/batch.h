/* A batch as the executor sees it: rows that can be read, by whoever needs them, in any part. Datasets make
 * them. */
#ifndef ISO_BASE_BATCH_H
#define ISO_BASE_BATCH_H

#include "runtime/base/types.h"

/* Rows [begin, begin + count). */
typedef struct iso_row_range {
    int64_t begin, count;
} iso_row_range;

typedef struct iso_batch iso_batch;
struct iso_batch {
    int64_t rows;     /* of the global batch; the same on every rank */
    int n_components; /* the inputs, the targets, the sample weights, for data sets that have these */
    iso_shape shape[ISO_MAX_COMPONENTS]; /* of one row; of an iso_input_unbatched(): the whole shape */
    iso_dtype dtype[ISO_MAX_COMPONENTS]; /* as stored */
    /* Writes rows [begin, begin + count) of a component into `out`, dense, converted to `dtype` (integral
     * floats are accepted as integers; another float, a NaN or a value out of range where an integer is
     * wanted is ISO_INVALID naming row of the data set and value). Threads may call it at once. A rank reads
     * only the rows that its slots need. */
    iso_status (*read)(const iso_batch *batch, int component, int64_t begin, int64_t count, iso_dtype dtype,
                       void *out);
    /* The same of a part of each row: `part` is a box of the row's shape, `out` dense, [count, part's
     * extents...].
     */
    iso_status (*read_part)(const iso_batch *batch, int component, int64_t begin, int64_t count,
                            const iso_box *part, iso_dtype dtype, void *out);
    /* NULL, or a function to be called before rows are read. It fetches rows that other ranks hold. ranges:
     * the rows that this rank will read, disjoint, in increasing order. Compiled functions call it before
     * their slots read. The calling thread must be the one that may call MPI. An error fails the step on all
     * ranks. Collective. */
    iso_status (*prepare)(const iso_batch *batch, const iso_row_range *ranges, int count);
    void *impl; /* of whoever made the batch */
};

#endif
