/* Gathers: one region, combined from one or more operands in tree order, written to one target. The local
 * work of a pull, and of packing a message; gather kernels (gather_kernels_impl.h) do it. */
#ifndef ISO_GATHER_IMPL_H
#define ISO_GATHER_IMPL_H

#include "collectives/coll.h"

/* The memory that holds an operand or target. */
typedef enum iso_area {
    ISO_AREA_SLOT,
    ISO_AREA_SHARED,
    ISO_AREA_MESSAGE,
    ISO_AREA_LINK, /* a message between devices */
    ISO_AREA_RESULT,
} iso_area;

typedef struct iso_operand {
    iso_area area;
    int number;    /* of the slot (SHARED: one of the domain), of the message, or of the component's result */
    size_t offset; /* bytes from the beginning of the area to the region's first element */
    char *address; /* of the region's first element; found when areas are placed */
    int n_folds;   /* combinations to make after this operand: the tree in postfix order */
    int component; /* RESULT: which */
} iso_operand;

typedef struct iso_gather {
    iso_dtype dtype;
    size_t size; /* of an element */
    iso_combine combine;
    bool maximum;  /* what it does; else the sum */
    int64_t count; /* elements of the region */
    int n_operands;
    iso_operand *operands;
    int rank;                     /* of the loop nest */
    int64_t extent[ISO_MAX_RANK]; /* outermost first; the last is a run without gaps in all operands and the
                                     target */
    int64_t *stride;              /* [rank - 1][n_operands + 1] bytes; the target's is the last */
    const char **cursor;          /* [n_operands] for the walk */
    char *out;                    /* the region's first element in the target; NULL: no target address */
    int n_copies;                 /* other places for the result; only if rank is 1 */
    iso_operand *copies;          /* [n_copies] n_folds is unused */
} iso_gather;

enum { ISO_TREE_DEPTH = 24, ISO_BLOCK_BYTES = 4096 };

/* Bytes from the first element of `box` to the first of `region` in it. */
size_t iso_box_offset(const iso_box *box, const iso_box *region, size_t size);

/* boxes: [n_operands + 1], those of the operands and, last, the target, whose buffers hold them densely. The
 * operands are set already. They, and what this allocates, belong to the gather. */
iso_status iso_gather_plan(iso_gather *gather, const iso_box *region, const iso_box *const *boxes);
void iso_gather_free(iso_gather *gather);

/* True if the region is one run in every operand. */
bool iso_gather_is_run(const iso_gather *gather);

#endif
