/* Convolutions without groups and dilation, for the loops of conv_body.h. */
#ifndef ISO_CPU_CONV_H
#define ISO_CPU_CONV_H

#include <stddef.h>
#include <stdint.h>

/* x [n, h, w, c], kernel [r, s, c, f], y [n, oh, ow, f]; index 0: height, 1: width */
typedef struct iso_conv {
    int64_t n, c, f;
    int64_t in[2], out[2], kernel[2], stride[2], pad[2]; /* pad: before */
} iso_conv;

/* The depth of convolved volumes [n, in, h, w, c] -> [n, out, oh, ow, f]: position p has slices p - pad + t dilation,
 * t = 0 .. taps - 1. The kernel is [r, s, taps, c, f]. */
typedef struct iso_conv_depth {
    int64_t in, out, taps, dilation, pad;
} iso_conv_depth;

#endif
