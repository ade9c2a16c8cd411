/* A batch as the executor sees it: any part of its rows can be read by any slot. Data sets create batches. */
#ifndef ISO_BASE_BATCH_H
#define ISO_BASE_BATCH_H

#include "runtime/base/types.h"

/* Rows [begin, begin + count). */
typedef struct iso_row_range {
    int64_t begin, count;
} iso_row_range;

/* What has been counted, of the memory of a process, for the batches that a data set keeps. */
typedef struct iso_kept_bytes {
    size_t bytes;
    size_t *total; /* of all data sets of its context */
} iso_kept_bytes;

typedef struct iso_batch iso_batch;
struct iso_batch {
    int64_t rows;     /* of the global batch; the same on every rank */
    int n_components; /* inputs, then targets and sample weights if the data set has these */
    iso_shape shape[ISO_MAX_COMPONENTS]; /* of one row; of an iso_input_unbatched(): the whole shape */
    iso_dtype dtype[ISO_MAX_COMPONENTS]; /* as stored */
    /* Writes rows [begin, begin + count) of a component into `out`, dense, converted to `dtype`. Floats
     * with integral values are accepted as integers. Any other float, a NaN or a value out of range for an
     * integer type is ISO_INVALID, which names the row of the data set and the value. Threads may call it
     * concurrently. A rank reads only the rows that its slots need. */
    iso_status (*read)(const iso_batch *batch, int component, int64_t begin, int64_t count, iso_dtype dtype,
                       void *out);
    /* The same for a part of each row: `part` is a box of the row's shape, `out` is dense, [count, part's
     * extents...]. */
    iso_status (*read_part)(const iso_batch *batch, int component, int64_t begin, int64_t count,
                            const iso_box *part, iso_dtype dtype, void *out);
    /* NULL, or a function to call before rows are read: it fetches rows that other ranks hold. ranges: the
     * rows that this rank will read, disjoint, in increasing order. Compiled functions call it before
     * their slots read, on the thread that may call MPI. An error fails the step on all ranks. Collective. */
    iso_status (*prepare)(const iso_batch *batch, const iso_row_range *ranges, int count);
    /* NULL, or a function that sets *bytes to those of batches that the data set keeps in this process once these
     * rows have been read: of this one, and of those that it makes ahead. Returns what has been counted of them, to
     * which the caller may add. ranges: as those of `prepare`. Local. */
    iso_kept_bytes *(*kept)(const iso_batch *batch, const iso_row_range *ranges, int count, size_t *bytes);
    /* NULL, or a function for messages: the number, in the source of the data set, of a row of the batch that had
     * this `position`; -1: not known. A step calls it after an error of the data, when later batches may have been
     * made, so it must be valid until the step with the batch is over. Local. */
    int64_t (*source_row)(const iso_batch *batch, int64_t position, int64_t row);
    int64_t position; /* which batch it is, for source_row */
    /* NULL, or the name of the data set's source, for messages about rows that source_row names. Lent, as long as
     * source_row is valid. */
    const char *source;
    void *impl; /* of the code that made the batch */
};

#endif
