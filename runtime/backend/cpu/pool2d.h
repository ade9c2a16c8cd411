/* Pools, for the loops of pool_body.h. */
#ifndef ISO_CPU_POOL2D_H
#define ISO_CPU_POOL2D_H

#include <stdint.h>

/* x [n, h, w, c], y [n, oh, ow, c]; index 0: height, 1: width. Every window has an element inside x. */
typedef struct iso_pool2d {
    int64_t n, c;
    int64_t in[2], out[2], size[2], stride[2], pad[2]; /* pad: before */
} iso_pool2d;

#endif
