/* Arrays [rows, c] with few channels c: a few rows together, a pattern, fill whole vectors. */
#ifndef ISO_CPU_CHANNELS_H
#define ISO_CPU_CHANNELS_H

#include <stdint.h>

enum { ISO_LONGEST_PATTERN = 2048, ISO_LEAST_PATTERN = 64 };

/* Elements of a pattern: a multiple of c and of 16 unless that is too long, else c itself. c > 0. */
static inline int64_t iso_pattern(int64_t c)
{
    int64_t pattern = c;
    for (int64_t odd = 16; odd > 1 && pattern % 16 != 0; odd /= 2)
        pattern *= 2;
    if (pattern > ISO_LONGEST_PATTERN)
        return c;
    while (pattern < ISO_LEAST_PATTERN)
        pattern *= 2;
    return pattern;
}

/* Patterns of batch normalisation, y = (x - mean) scale + shift. In gradients, scale and shift tell where the
 * ReLU that follows, whose largest result is `largest`, passes dy; NULL: no ReLU follows. */
typedef struct iso_channels {
    const float *mean, *scale, *shift;
    float largest;
} iso_channels;

/* dx = scale dy + slope (x - mean) + shift */
typedef struct iso_gradient_channels {
    const float *scale, *slope, *shift;
} iso_gradient_channels;

#endif
