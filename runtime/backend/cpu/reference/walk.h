/* Walks over strided arrays in runs: the loops of broadcasting, reductions and copies of parts. */
#ifndef ISO_BACKEND_CPU_REFERENCE_WALK_H
#define ISO_BACKEND_CPU_REFERENCE_WALK_H

#include "runtime/backend/backend.h"

enum { ISO_WALK_OPERANDS = 4 };

/* `runs` runs of `length` elements; in each, operand k begins at element at[k] and goes on by step[k]. */
typedef struct iso_walk {
    int64_t n_runs, length;
    int64_t at[ISO_WALK_OPERANDS], step[ISO_WALK_OPERANDS];
    int n_operands, rank; /* rank: number of dimensions over which the walk goes */
    int64_t dim[ISO_MAX_RANK], index[ISO_MAX_RANK];
    int64_t stride[ISO_WALK_OPERANDS][ISO_MAX_RANK];
} iso_walk;

/* Row-major over dim[0..rank); stride[k] are operand k's strides in elements. Dimensions are merged if all
 * strides allow, so that runs are as long as possible. */
void iso_walk_begin(iso_walk *walk, int rank, const int64_t *dim, int operands,
                    const int64_t (*stride)[ISO_MAX_RANK]);
void iso_walk_next(iso_walk *walk);

/* Row-major strides of a dense array. */
void iso_strides(const iso_array *array, int64_t *stride);
/* Strides of an array broadcast to the shape of `out`: 0 if its extent is 1. */
void iso_broadcast_strides(const iso_array *array, const iso_array *out, int64_t *stride);

#endif
