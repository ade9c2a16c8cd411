#include "runtime/checkpoint/storage_type.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/bf16.h"
#include "runtime/base/convert.h"

static const struct {
    const char *name;
    size_t size;
    iso_dtype dtype;
} elements[ISO_STORAGE_TYPES] = {
    [ISO_STORAGE_F16] = {"float16", 2, ISO_F32}, [ISO_STORAGE_BF16] = {"bfloat16", 2, ISO_F32},
    [ISO_STORAGE_F32] = {"float32", 4, ISO_F32}, [ISO_STORAGE_F64] = {"float64", 8, ISO_F64},
    [ISO_STORAGE_I8] = {"int8", 1, ISO_I32},     [ISO_STORAGE_I16] = {"int16", 2, ISO_I32},
    [ISO_STORAGE_I32] = {"int32", 4, ISO_I32},   [ISO_STORAGE_I64] = {"int64", 8, ISO_I64},
    [ISO_STORAGE_U8] = {"uint8", 1, ISO_U8},     [ISO_STORAGE_U16] = {"uint16", 2, ISO_I32},
    [ISO_STORAGE_U32] = {"uint32", 4, ISO_I64},  [ISO_STORAGE_U64] = {"uint64", 8, ISO_I64},
    [ISO_STORAGE_BOOL] = {"bool", 1, ISO_BOOL},
};

size_t iso_storage_type_size(iso_storage_type element)
{
    return elements[element].size;
}

const char *iso_storage_type_name(iso_storage_type element)
{
    return elements[element].name;
}

iso_dtype iso_storage_type_dtype(iso_storage_type element)
{
    return elements[element].dtype;
}

iso_storage_type iso_storage_type_of(iso_dtype dtype)
{
    static const iso_storage_type same[] = {
        [ISO_F32] = ISO_STORAGE_F32, [ISO_F64] = ISO_STORAGE_F64, [ISO_I32] = ISO_STORAGE_I32,
        [ISO_I64] = ISO_STORAGE_I64, [ISO_U8] = ISO_STORAGE_U8,   [ISO_BOOL] = ISO_STORAGE_BOOL,
    };
    return same[dtype];
}

/* ---- from the file: floats as double, integers as int64_t; both exact ---- */

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* IEEE 754 binary16: 1 sign, 5 exponent (bias 15), 10 fraction. */
static float half(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    float sign = bits >> 15 ? -1.0F : 1.0F;
    if (exponent == 31)
        return float_of_bits((uint32_t)(bits >> 15) << 31 | 0x7F800000U | (uint32_t)fraction << 13);
    return sign * (exponent ? ldexpf((float)(1024 + fraction), exponent - 25) : ldexpf((float)fraction, -24));
}

static bool is_float(iso_storage_type element)
{
    return element <= ISO_STORAGE_F64;
}

/* Loads element i of an array of any alignment. */
#define LOAD(type, in, i)                                                                                    \
    __extension__({                                                                                          \
        type value_;                                                                                         \
        memcpy(&value_, (const char *)(in) + (size_t)(i) * sizeof value_, sizeof value_);                    \
        value_;                                                                                              \
    })

static double load_float(iso_storage_type from, const void *in, int64_t i)
{
    switch (from) {
    case ISO_STORAGE_F16:
        return (double)half(LOAD(uint16_t, in, i));
    case ISO_STORAGE_BF16:
        return (double)float_of_bits((uint32_t)LOAD(uint16_t, in, i) << 16);
    case ISO_STORAGE_F32:
        return (double)LOAD(float, in, i);
    default:
        return LOAD(double, in, i);
    }
}

/* False if the value is 2^63 or more. */
static bool load_integer(iso_storage_type from, const void *in, int64_t i, int64_t *value)
{
    switch (from) {
    case ISO_STORAGE_I8:
        *value = LOAD(int8_t, in, i);
        break;
    case ISO_STORAGE_I16:
        *value = LOAD(int16_t, in, i);
        break;
    case ISO_STORAGE_I32:
        *value = LOAD(int32_t, in, i);
        break;
    case ISO_STORAGE_U16:
        *value = LOAD(uint16_t, in, i);
        break;
    case ISO_STORAGE_U32:
        *value = LOAD(uint32_t, in, i);
        break;
    case ISO_STORAGE_I64:
    case ISO_STORAGE_U64:
        *value = LOAD(int64_t, in, i);
        return from == ISO_STORAGE_I64 || *value >= 0;
    default:
        *value = LOAD(uint8_t, in, i);
    }
    return true;
}

iso_storage_type iso_storage_type_float(const char *name)
{
    for (int i = 0; name && is_float((iso_storage_type)i); i++)
        if (strcmp(elements[i].name, name) == 0)
            return (iso_storage_type)i;
    return ISO_STORAGE_TYPES;
}

bool iso_storage_type_beyond(iso_storage_type type, const void *element)
{
    int64_t value;
    return !is_float(type) && !load_integer(type, element, 0, &value);
}

char *iso_storage_type_text(iso_storage_type type, const void *element, char *text, size_t size)
{
    int64_t value;
    if (is_float(type))
        snprintf(text, size, "%.17g", load_float(type, element, 0));
    else if (load_integer(type, element, 0, &value))
        snprintf(text, size, "%" PRId64, value);
    else
        snprintf(text, size, "%" PRIu64, (uint64_t)value);
    return text;
}

/* ---- to memory ---- */

enum { BLOCK = 256 };
typedef union block {
    double real[BLOCK];
    int64_t whole[BLOCK];
} block;

/* Loads n elements; returns how many come before the first that does not fit. */
static int64_t load(iso_storage_type from, const char *in, int64_t n, block *out)
{
    for (int64_t i = 0; i < n; i++)
        if (is_float(from))
            out->real[i] = load_float(from, in, i);
        else if (!load_integer(from, in, i, &out->whole[i]))
            return i;
    return n;
}

/* The first of n numbers that is finite, but not as a float; n: there is none. */
static int64_t first_too_large(const double *in, const float *out, int64_t n)
{
    int64_t i = 0;
    while (i < n && (isfinite(out[i]) || !isfinite(in[i])))
        i++;
    return i;
}

int64_t iso_storage_type_convert(iso_storage_type from, const void *in, int64_t n, iso_dtype to, void *out)
{
    if (from == iso_storage_type_of(to) && from != ISO_STORAGE_BOOL) {
        memcpy(out, in, (size_t)n * iso_storage_type_size(from));
        return -1;
    }
    for (int64_t at = 0; at < n; at += BLOCK) {
        block wide;
        int64_t count = n - at < BLOCK ? n - at : BLOCK;
        void *here = (char *)out + (size_t)at * iso_dtype_size(to);
        int64_t loaded =
            load(from, (const char *)in + (size_t)at * iso_storage_type_size(from), count, &wide);
        int64_t bad = iso_convert(is_float(from) ? ISO_F64 : ISO_I64, &wide, to, here, loaded);
        if (bad >= 0)
            return at + bad;
        if (is_float(from) && to == ISO_F32)
            loaded = first_too_large(wide.real, here, loaded);
        if (loaded < count)
            return at + loaded;
    }
    return -1;
}

/* ---- to the file ---- */

/* The inverse of half(). */
static uint16_t half_of_float(float value)
{
    enum { INFINITE = 0x7C00 };
    uint32_t bits, magnitude;
    memcpy(&bits, &value, sizeof bits);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000)
        return sign | INFINITE | 0x200;
    if (magnitude >= 0x477FF000) /* 65520: the first that is nearer to 65536 */
        return sign | INFINITE;
    if (magnitude < 0x38800000) /* 2^-14: below it are multiples of 2^-24 */
        return (uint16_t)(sign | (uint16_t)rintf(ldexpf(fabsf(value), 24)));
    return (uint16_t)(sign | (magnitude - 0x38000000 + 0xFFF + (magnitude >> 13 & 1)) >> 13);
}

/* A float that rounds to the same half as the double does. */
static float narrow(double value)
{
    const float nearest = (float)value;
    return nearest == 0 ? nearest : iso_bf16_sticky(nearest, value - (double)nearest);
}

static void store_float(iso_storage_type to, double value, void *out, int64_t i)
{
    uint16_t *narrowest = (uint16_t *)out;
    switch (to) {
    case ISO_STORAGE_F16:
        narrowest[i] = half_of_float(narrow(value));
        break;
    case ISO_STORAGE_BF16:
        narrowest[i] = iso_bf16_of_double(value);
        break;
    case ISO_STORAGE_F32:
        ((float *)out)[i] = (float)value;
        break;
    default:
        ((double *)out)[i] = value;
    }
}

int64_t iso_storage_type_store(iso_dtype from, const void *in, int64_t n, iso_storage_type to, void *out)
{
    if (to == iso_storage_type_of(from)) {
        memcpy(out, in, (size_t)n * iso_storage_type_size(to));
        return -1;
    }
    for (int64_t i = 0; i < n; i++) {
        const double value = from == ISO_F32 ? (double)((const float *)in)[i] : ((const double *)in)[i];
        store_float(to, value, out, i);
        if (isfinite(value) && !isfinite(load_float(to, out, i)))
            return i;
    }
    return -1;
}
