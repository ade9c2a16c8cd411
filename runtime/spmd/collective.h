/* Describes a reshard as a collective, counts what it moves, and finds the path that moves the least. */
#ifndef ISO_SPMD_COLLECTIVE_H
#define ISO_SPMD_COLLECTIVE_H

#include "runtime/spmd/layout.h"

typedef enum iso_collective_kind {
    ISO_COLLECTIVE_LOCAL, /* every slot keeps what it has, or part of it among zeros */
    ISO_COLLECTIVE_SLICE, /* every slot keeps a part of what it has */
    ISO_COLLECTIVE_ALL_GATHER,
    ISO_COLLECTIVE_ALL_TO_ALL,
    ISO_COLLECTIVE_ALL_REDUCE,
    ISO_COLLECTIVE_REDUCE_SCATTER,
    ISO_COLLECTIVE_HALO,     /* every slot receives what its windows read beyond its part */
    ISO_COLLECTIVE_HALO_SUM, /* every slot adds up what the windows of other slots left in its part */
    ISO_COLLECTIVE_MIXED,    /* several of these at once */
    ISO_COLLECTIVE_KINDS
} iso_collective_kind;

typedef struct iso_collective {
    iso_collective_kind kind;
    uint32_t axes;                            /* of the mesh, along which elements move: those of all parts */
    uint32_t part_axes[ISO_COLLECTIVE_KINDS]; /* the axes of each kind that is part of it */
    int64_t most;                             /* elements that the busiest slot receives from other slots */
    double total;                             /* elements that all slots receive; exact below 2^53 */
} iso_collective;

/* The exchange that converts `from` to `to` on a tensor of this shape (rows fixed). halves: an all-reduce
 * is done as two exchanges: the first adds one chunk on each slot, the second sends it to the others. The
 * time depends on axes and rank, not on the number of slots, unless an axis changes its position within a
 * dimension; then also on the sizes of those axes. */
iso_collective iso_collective_of(const iso_mesh *mesh, const iso_layout *from, const iso_layout *to,
                                 const iso_shape *shape, bool halves);
/* Elements that one slot receives from others in that exchange (halves: in both). */
int64_t iso_collective_taken(const iso_mesh *mesh, const iso_layout *from, const iso_layout *to,
                             const iso_shape *shape, bool halves, int slot);
/* "all-gather", ... */
const char *iso_collective_name(iso_collective_kind kind);
/* "all-gather(data)", "reduce-scatter(model) + all-gather(data)", "local" into text; returns text. */
char *iso_collective_text(const iso_mesh *mesh, const iso_collective *collective, char *text, size_t size);

enum {
    ISO_MAX_RESHARD_PATH = 3,
    ISO_SMALL_SUM = 4096, /* a sum of fewer elements is one exchange: the number of exchanges matters more */
};

/* The sequence of exchanges that converts `from` to `to` and moves the fewest elements; among equals, the
 * one with the fewest exchanges. stop[0 .. count - 1] receive their layouts, the last of which is `to`.
 * Returns count, at most ISO_MAX_RESHARD_PATH; 0 if the layouts are equal. */
int iso_reshard_path(const iso_mesh *mesh, const iso_layout *from, const iso_layout *to,
                     const iso_shape *shape, iso_layout stop[ISO_MAX_RESHARD_PATH]);

#endif
