/* Arrays in the arrangements that libraries take. What is done is queued on a stream.
 * Functions are local; one thread at a time uses a stream. */
#ifndef ISO_BACKEND_CUDA_REARRANGE_H
#define ISO_BACKEND_CUDA_REARRANGE_H

#include "runtime/backend/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* to [columns, rows] = the transpose of from [rows, columns] */
void iso_cuda_transpose_matrix(iso_dtype dtype, int64_t rows, int64_t columns, const void *from, void *to,
                               const iso_stream *stream);

/* to [count] in float32 = from in bfloat16 */
void iso_cuda_widen(int64_t count, const void *from, void *to, const iso_stream *stream);

/* Images with more or fewer rows and columns around: to [n, to_h, to_w, c] (i, j) = from [n, from_h, from_w, c]
 * (i + down, j + right), or 0 outside of it. */
typedef struct iso_cuda_frame {
    int64_t n, c, from_h, from_w, to_h, to_w, down, right;
} iso_cuda_frame;
void iso_cuda_reframe(iso_dtype dtype, const iso_cuda_frame *frame, const void *from, void *to,
                      const iso_stream *stream);

/* The windows of images x [n, h, w, c] side by side: columns [n, p, q, r, s, c]. `before` rows and columns of
 * zeros are before x; negative: as many are left out. */
typedef struct iso_cuda_windows {
    int64_t n, h, w, c, r, s, p, q, stride[2], dilation[2], before[2];
} iso_cuda_windows;
void iso_cuda_copy_windows(iso_dtype dtype, const iso_cuda_windows *windows, const void *x, void *columns,
                           const iso_stream *stream);
/* x = the sums, in the order of the taps, of what the columns have for each element of x. Columns are of x's type,
 * float32 for bfloat16. */
void iso_cuda_add_windows(iso_dtype dtype, const iso_cuda_windows *windows, const void *columns, void *x,
                          const iso_stream *stream);
/* out [count] = the sums of from [parts], in order, of which each has `count` elements and begins `stride` elements
 * after the one before; from is of out's type, float32 for bfloat16. */
void iso_cuda_add_parts(iso_dtype dtype, int64_t parts, int64_t stride, int64_t count, const void *from,
                        void *out, const iso_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
