/* Windows that slide over a dimension.
 * Functions are local unless their comment says otherwise. */
#ifndef ISO_BASE_WINDOW_H
#define ISO_BASE_WINDOW_H

#include "runtime/base/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A window that slides over a dimension, with zeros around it, as in a convolution: position p reads those
 * of the elements p * stride - before + i * dilation, i in 0..size-1, that exist. size 0: no window. */
typedef struct iso_sliding_window {
    int64_t positions, size, stride, dilation, before;
} iso_sliding_window;

/* The range of the dimension's n elements that positions [first, first + count) read, from the first to
 * the last of them; possibly empty. */
ISO_API void iso_sliding_window_reads(const iso_sliding_window *window, int64_t n, int64_t first,
                                      int64_t count, int64_t *begin, int64_t *extent);
/* The same, extended by elements up to the next position's that no position reads, so that the ranges of
 * all parts cover the dimension. */
ISO_API void iso_sliding_window_covers(const iso_sliding_window *window, int64_t n, int64_t first,
                                       int64_t count, int64_t *begin, int64_t *extent);
ISO_API bool iso_sliding_window_equal(const iso_sliding_window *a, const iso_sliding_window *b);

#ifdef __cplusplus
}
#endif
#endif
