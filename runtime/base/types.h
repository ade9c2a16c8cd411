/* Element types, shapes and boxes.
 * Functions are local unless their comment says otherwise. */
#ifndef ISO_BASE_TYPES_H
#define ISO_BASE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/limits.h"
#include "runtime/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum iso_dtype {
    ISO_DTYPE_NONE = 0,
    ISO_F32,
    ISO_F64,
    ISO_I32,
    ISO_I64,
    ISO_U8,
    ISO_BOOL, /* one byte, 0 or 1 */
    ISO_BF16, /* bfloat16: the upper half of a float32 (8 bits of exponent, 7 of fraction) */
} iso_dtype;

/* How devices of one host, such as its GPUs, exchange: by a library's messages from the memory of one to that of
 * another (NCCL); by reading each other's memory; or through memory of the host. */
typedef enum iso_device_exchange {
    ISO_DEVICE_EXCHANGE_LINKS,
    ISO_DEVICE_EXCHANGE_PEERS,
    ISO_DEVICE_EXCHANGE_HOST
} iso_device_exchange;

/* Bytes of one element; 0 for ISO_DTYPE_NONE and invalid values. */
ISO_API size_t iso_dtype_size(iso_dtype dtype);
/* "float32"; constant. */
ISO_API const char *iso_dtype_name(iso_dtype dtype);
/* The type of this name; ISO_DTYPE_NONE: there is none. */
ISO_API iso_dtype iso_dtype_named(const char *name);
ISO_API bool iso_dtype_is_float(iso_dtype dtype);
/* The type of a result of both in Keras: the wider one, where any real type is wider than any integer. */
ISO_API iso_dtype iso_dtype_promoted(iso_dtype a, iso_dtype b);
/* Gets element i of a dense array as a double, and sets it from one (integers are truncated; a bool
 * becomes 1 unless the number is 0). For set-up, not for kernels. */
ISO_API double iso_element_get(const void *data, iso_dtype dtype, int64_t i);
ISO_API void iso_element_set(void *data, iso_dtype dtype, int64_t i, double value);

/* A shape. In a graph, a dimension ISO_BATCH means the rows of the batch, whose number the plan fixes. */
typedef struct iso_shape {
    int rank;
    int64_t dim[ISO_MAX_RANK];
} iso_shape;

enum { ISO_BATCH = -1 };

/* A shape from its dimensions, outermost first: ISO_SHAPE(28, 28, 1). */
#ifndef __cplusplus
#define ISO_COUNT_ARGS_(...) ((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))
#define ISO_SHAPE(...) ((iso_shape){ISO_COUNT_ARGS_(__VA_ARGS__), {__VA_ARGS__}})
#define ISO_SCALAR ((iso_shape){0, {0}})
#else
#define ISO_SHAPE(...) iso_shape_of_(__VA_ARGS__)
#define ISO_SCALAR iso_shape()
extern "C++" template <class... dim_types> inline iso_shape iso_shape_of_(dim_types... dims)
{
    iso_shape shape = {static_cast<int>(sizeof...(dims)), {static_cast<int64_t>(dims)...}};
    return shape;
}
#endif

/* Writes "[batch, 28, 28, 1]" into text (of `size` bytes, always terminated), which stays the caller's own, and
 * returns it. A rank outside [0, ISO_MAX_RANK]: "[rank 99]". */
ISO_API char *iso_shape_text(const iso_shape *shape, char *text, size_t size);
ISO_API bool iso_shape_equal(const iso_shape *a, const iso_shape *b);

/* The number of elements of a shape without ISO_BATCH. ISO_INVALID: the product overflows, a dimension is
 * negative, or the rank is not from 0 to ISO_MAX_RANK. */
ISO_API iso_status iso_shape_count(const iso_shape *shape, int64_t *count);

/* The shape with ISO_BATCH replaced by rows. */
ISO_API iso_shape iso_shape_with_rows(const iso_shape *shape, int64_t rows);

/* A part of a tensor: offset and extent in each dimension, possibly empty. Functions take a box, or a shape,
 * whose rank is not from 0 to ISO_MAX_RANK as empty. */
typedef struct iso_box {
    int rank;
    int64_t offset[ISO_MAX_RANK];
    int64_t extent[ISO_MAX_RANK];
} iso_box;

ISO_API int64_t iso_box_count(const iso_box *box);
ISO_API iso_box iso_box_whole(const iso_shape *shape);
/* [begin, begin + count) of one dimension. */
ISO_API iso_box iso_box_range(int64_t begin, int64_t count);
/* The intersection of two boxes of the same rank, possibly empty (some extent is 0). */
ISO_API iso_box iso_box_intersect(const iso_box *a, const iso_box *b);
ISO_API bool iso_box_equal(const iso_box *a, const iso_box *b);
/* The index, in the whole tensor's row-major order, of the element with index i in the box's. */
ISO_API int64_t iso_box_global_index(const iso_box *box, const iso_shape *shape, int64_t i);

/* A dimension of n elements is split into `parts` of ceil(n / parts) elements each, the last parts shorter
 * or empty: the range [begin, begin + count) of one part. Empty if n or part is negative or parts below 1. */
ISO_API void iso_part_range(int64_t n, int64_t parts, int64_t part, int64_t *begin, int64_t *count);

#ifdef __cplusplus
}
#endif
#endif
