/* bfloat16: the upper 16 bits of an IEEE 754 binary32. Conversion to float32 is exact; wider types are rounded to
 * nearest, ties to even. A NaN stays a NaN (quiet, with its sign and the upper bits of its payload); a value that
 * is too large becomes infinite. */
#ifndef ISO_BASE_BF16_H
#define ISO_BASE_BF16_H

#include <stdint.h>
#include <string.h>

#include "runtime/base/host_device.h"

ISO_HOST_DEVICE static inline float iso_bf16_to_float(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

ISO_HOST_DEVICE static inline uint16_t iso_bf16_of_float(float value)
{
    uint32_t wide;
    memcpy(&wide, &value, sizeof wide);
    if (value != value)
        return (uint16_t)(wide >> 16 | 0x40);
    return (uint16_t)((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
}

/* A float32 on the value's own side of every tie between two bfloat16: `nearest`, whose distance to the exact
 * value has the sign of `rest`, with its last bit set if there is a distance (rounding to odd). So that the
 * value is rounded once. */
ISO_HOST_DEVICE static inline float iso_bf16_sticky(float nearest, double rest)
{
    uint32_t wide;
    memcpy(&wide, &nearest, sizeof wide);
    if (rest == 0 || wide & 1 || nearest != nearest || (wide & 0x7f800000) == 0x7f800000)
        return nearest;
    wide += (rest > 0) == !(wide >> 31) ? 1 : UINT32_MAX; /* away from zero, or towards it */
    memcpy(&nearest, &wide, sizeof nearest);
    return nearest;
}

ISO_HOST_DEVICE static inline uint16_t iso_bf16_of_double(double value)
{
    float nearest = (float)value;
    if (nearest == 0) /* below the smallest float32, and so below half of the smallest bfloat16 */
        return iso_bf16_of_float(nearest);
    return iso_bf16_of_float(iso_bf16_sticky(nearest, value - (double)nearest));
}

ISO_HOST_DEVICE static inline uint16_t iso_bf16_of_i64(int64_t value)
{
    float nearest = (float)value;
    int64_t back = nearest < 0x1p63f ? (int64_t)nearest : INT64_MAX;
    return iso_bf16_of_float(iso_bf16_sticky(nearest, value > back ? 1 : value < back ? -1 : 0));
}

#endif
