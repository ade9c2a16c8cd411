/* Elements of the device's arrays, for the loops of the stand-ins. */
#ifndef ISO_TESTS_STANDIN_ELEMENTS_H
#define ISO_TESTS_STANDIN_ELEMENTS_H

#include <library_types.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline size_t standin_size(int32_t type)
{
    return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

static inline double standin_element(const void *at, int32_t type, int64_t i)
{
    uint32_t bits;
    float value;
    if (type == CUDA_R_64F)
        return ((const double *)at)[i];
    if (type == CUDA_R_32F)
        return ((const float *)at)[i];
    bits = (uint32_t)((const uint16_t *)at)[i] << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline void standin_store(void *at, int32_t type, int64_t i, double value)
{
    float narrow = (float)value;
    uint32_t bits;
    if (type == CUDA_R_64F) {
        ((double *)at)[i] = value;
        return;
    }
    if (type == CUDA_R_32F) {
        ((float *)at)[i] = narrow;
        return;
    }
    memcpy(&bits, &narrow, sizeof bits);
    bits += 0x7fff + (bits >> 16 & 1); /* to the nearest, ties to even */
    ((uint16_t *)at)[i] = narrow != narrow ? 0x7fc0 : (uint16_t)(bits >> 16);
}

/* With 10 bits of the fraction, as TF32. */
static inline double standin_shortened(double x)
{
    float value = (float)x;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits &= 0xffffe000u;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#endif
