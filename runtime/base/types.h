/* Element types, shapes and boxes. */
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
} iso_dtype;

/* Bytes of one element; 0 for ISO_DTYPE_NONE and for what is no type. */
size_t iso_dtype_size(iso_dtype dtype);
const char *iso_dtype_name(iso_dtype dtype);
bool iso_dtype_is_float(iso_dtype dtype);
/* Element i of a dense array as a double, and from one (integers are cut off). For set-up, not for kernels.
 */
double iso_element_get(const void *data, iso_dtype dtype, int64_t i);
void iso_element_set(void *data, iso_dtype dtype, int64_t i, double value);

/* A shape. In a graph the value ISO_BATCH stands for the rows of the batch, whose number a plan fixes. */
typedef struct iso_shape {
    int rank;
    int64_t dim[ISO_MAX_RANK];
} iso_shape;

enum { ISO_BATCH = -1 };

#define ISO_COUNT_ARGS_(...) ((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))
/* A shape from its dimensions, outermost first: ISO_SHAPE(28, 28, 1). */
#define ISO_SHAPE(...) ((iso_shape){ISO_COUNT_ARGS_(__VA_ARGS__), {__VA_ARGS__}})
#define ISO_SCALAR ((iso_shape){0, {0}})

/* "[batch, 28, 28, 1]" into text (of `size` bytes, always terminated); returns text. */
char *iso_shape_text(const iso_shape *shape, char *text, size_t size);
bool iso_shape_equal(const iso_shape *a, const iso_shape *b);

/* Elements of a shape without ISO_BATCH; ISO_INVALID where the product overflows or a dimension is negative.
 */
iso_status iso_shape_count(const iso_shape *shape, int64_t *count);

/* The shape with ISO_BATCH replaced by rows. */
iso_shape iso_shape_with_rows(const iso_shape *shape, int64_t rows);

/* A part of a tensor: offset and extent in each dimension, possibly empty. */
typedef struct iso_box {
    int rank;
    int64_t offset[ISO_MAX_RANK];
    int64_t extent[ISO_MAX_RANK];
} iso_box;

int64_t iso_box_count(const iso_box *box);
iso_box iso_box_whole(const iso_shape *shape);
/* [begin, begin + count) of one dimension. */
iso_box iso_box_range(int64_t begin, int64_t count);
/* The common part of two boxes of one rank (possibly empty: some extent is 0). */
iso_box iso_box_intersect(const iso_box *a, const iso_box *b);
bool iso_box_equal(const iso_box *a, const iso_box *b);
/* The place in the whole tensor's row-major order of the element that is number i in the box's. */
int64_t iso_box_global_index(const iso_box *box, const iso_shape *shape, int64_t i);

/* A range [begin, begin + count) of a dimension of n elements cut into `parts`: ceil(n / parts) elements
 * each, the last parts shorter or empty. */
void iso_cut(int64_t n, int64_t parts, int64_t part, int64_t *begin, int64_t *count);

/* A window that slides over a dimension, with zeros around it, as a convolution's: place p reads the elements
 * p * stride - before + i * dilation, i in 0..size-1, that exist. size 0: no window. */
typedef struct iso_sliding_window {
    int64_t places, size, stride, dilation, before;
} iso_sliding_window;

/* The range of the dimension's n elements that places [first, first + count) read, from the first to the last
 * of them; possibly empty. */
void iso_sliding_window_reads(const iso_sliding_window *window, int64_t n, int64_t first, int64_t count,
                              int64_t *begin, int64_t *extent);
/* The same with what nobody reads between it and the next place's, so that the ranges of all parts cover the
 * dimension. */
void iso_sliding_window_covers(const iso_sliding_window *window, int64_t n, int64_t first, int64_t count,
                               int64_t *begin, int64_t *extent);
bool iso_sliding_window_equal(const iso_sliding_window *a, const iso_sliding_window *b);

#ifdef __cplusplus
}
#endif
#endif
