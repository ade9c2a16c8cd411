/* Convolutions of each channel by itself, for the loops of depthwise_body.h. */
#ifndef ISO_CPU_DEPTHWISE_H
#define ISO_CPU_DEPTHWISE_H

#include <stdint.h>

enum { ISO_DEPTHWISE_TAPS = 32 }; /* at most, along one dimension */

/* One image: x [h, w, c], kernel [r, s, c], y [oh, ow, c]; index 0: height, 1: width */
typedef struct iso_depthwise {
    int64_t c;
    int64_t in[2], out[2], taps[2], stride[2], dilation[2], pad[2]; /* pad: before; may be negative */
} iso_depthwise;

#endif
