/* Pictures of layouts: which slot holds which part of a tensor.
 * Functions are local unless their comment says otherwise. */
#ifndef ISO_REPORT_VISUALIZE_H
#define ISO_REPORT_VISUALIZE_H

#include "runtime/spmd/spmd.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum iso_colors { ISO_COLORS_AUTO, ISO_COLORS_NEVER, ISO_COLORS_ALWAYS } iso_colors;

typedef struct iso_visualize_options {
    iso_colors colors; /* AUTO: on a terminal, unless the environment's NO_COLOR is set and not empty */
    int width;         /* characters of a line; 0: the terminal's, else 80 */
    /* Assumed placement: contiguous blocks of this many slots; 0: the mesh's own placement. For a mesh
     * with a list of ranks (iso_mesh_abstract_on), slots_per_host counts slots in the order of their
     * ranks. */
    int64_t slots_per_rank, slots_per_host;
} iso_visualize_options;

/* Draws a tensor of this shape (all dimensions fixed) as a grid in the terminal: one cell per part, to
 * scale as far as characters allow, with the slots that hold it and their ranks and hosts. Two dimensions
 * are drawn, if possible those that are sharded; if more are sharded, one grid for each part of the
 * others. Slots that hold copies are listed with ',', those that hold partial sums are joined by '+' (or,
 * for a partial maximum, by '|'). The middle of large meshes is left out. ISO_INVALID if the shape does
 * not fit the layout. Any rank may draw. */
ISO_API iso_status iso_layout_visualize(const iso_layout *layout, iso_shape shape, FILE *out);
ISO_API iso_status iso_layout_visualize_with(const iso_layout *layout, iso_shape shape, FILE *out,
                                             const iso_visualize_options *options, size_t size);
/* Writes the same as an SVG file, to scale. An existing file of this name is replaced as a whole. ISO_IO
 * names the path. */
ISO_API iso_status iso_layout_visualize_svg(const iso_layout *layout, iso_shape shape, const char *path,
                                            const iso_visualize_options *options, size_t size);

#ifdef __cplusplus
}
#endif
#endif
