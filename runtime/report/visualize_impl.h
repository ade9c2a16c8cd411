/* Pictures of layouts, independent of how they are drawn. */
#ifndef ISO_REPORT_VISUALIZE_IMPL_H
#define ISO_REPORT_VISUALIZE_IMPL_H

#include "runtime/base/text.h"
#include "runtime/report/visualize.h"
#include "runtime/spmd/spmd_impl.h"

/* A part of a dimension that is drawn. If there are many, the middle ones are left out: `skipped` are left
 * out before this one. */
typedef struct iso_picture_part {
    int64_t begin, count;
    int64_t number; /* among all parts of the dimension, in the order of its axes */
    int64_t skipped;
} iso_picture_part;

/* A direction of the grid. */
typedef struct iso_picture_side {
    int dim;   /* of the tensor; -1: none, one part of one element */
    int shown; /* number of parts */
    iso_picture_part *part;
} iso_picture_side;

/* The text of a cell. */
typedef struct iso_picture_cell {
    char slots[64], ranks[64], hosts[64]; /* "0, 4", "0+1, 4+5", "0-7": numbers only */
    bool several_slots, several_ranks, several_hosts;
} iso_picture_cell;

typedef struct iso_picture {
    const iso_layout *layout;
    const iso_mesh *mesh;
    iso_shape shape;
    iso_visualize_options options;
    iso_picture_side side[2];     /* rows, columns */
    int64_t filled[ISO_MAX_RANK]; /* number of parts of each dimension that hold something */
    int64_t n_slices;             /* number of parts of the other dimensions, each a grid of its own */
    int n_shown_slices;
    int64_t *slices;        /* [n_shown_slices] their numbers */
    iso_picture_cell *cell; /* [n_shown_slices][rows shown][columns shown] */
    int *host;              /* [n_slots] for an abstract mesh whose ranks were listed; else NULL */
    int64_t idle;           /* number of slots that hold nothing */
    char idle_slots[64];
} iso_picture;

/* rows, columns: the largest numbers to show. */
iso_status iso_picture_create(const iso_layout *layout, const iso_shape *shape,
                              const iso_visualize_options *options, int rows, int columns,
                              iso_picture **picture);
void iso_picture_destroy(iso_picture *picture);
const iso_picture_cell *iso_picture_at(const iso_picture *picture, int slice, int row, int column);
/* A part of a dimension by its number. */
void iso_picture_part_range(const iso_picture *picture, int dim, int64_t number, int64_t *begin,
                            int64_t *count);
/* "0, 4, 8-15, ..., 31" of increasing numbers. */
void iso_picture_list(const int *number, int64_t count, char *text, size_t size);
/* Describes the cell of these slots. Sorts `slot`; room has as many. */
iso_status iso_picture_describe(const iso_picture *picture, int *slot, int64_t count, int *room,
                                iso_picture_cell *cell);
/* "layout 'data, model' of [16, 8] on mesh data=2,model=4"; what a slice is: "[0:8, :, 4:8, :]". */
void iso_picture_title(const iso_picture *picture, iso_text *text);
void iso_picture_slice_title(const iso_picture *picture, int slice, iso_text *text);
/* The notes below the grids, one per line: what signs mean, slots without elements, what is left out, and,
 * with `hosts`, which slots are on which rank and host. */
void iso_picture_notes(const iso_picture *picture, bool hosts, iso_text *text);

#endif
