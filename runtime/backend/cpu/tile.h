/* The inner loop of all products and convolutions: a tile of C, a few rows by a few vectors, stays in
 * registers while it is summed over planes, segments and k:
 *
 *     C(i, j) (+)= sum over p, s, k of a[p a_plane + s a_segment + i a_row + k a_k] * b[p b_plane + s
 * b_segment + k b_k + j]
 *
 * In a matrix product there is one plane of one segment; in a convolution a segment is a row of the
 * kernel. */
#ifndef ISO_CPU_TILE_H
#define ISO_CPU_TILE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct iso_tile {
    const float *a, *b;
    float *c;
    int64_t a_row, a_k, b_k, c_row; /* strides in elements */
    int64_t k;
    int64_t segments, a_segment, b_segment;
    int64_t planes, a_plane, b_plane;
    int last;   /* lanes of the last vector that are stored, 1 to VL */
    bool add;   /* adds to C instead of overwriting it */
    bool start; /* the sums begin with C: the bits are those of one sum over all such calls */
} iso_tile;

#endif
