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

/* Images with more or fewer rows and columns around: to [n, to_h, to_w, c] (i, j) = from [n, from_h, from_w, c]
 * (i + down, j + right), or 0 outside of it. */
typedef struct iso_cuda_frame {
    int64_t n, c, from_h, from_w, to_h, to_w, down, right;
} iso_cuda_frame;
void iso_cuda_reframe(iso_dtype dtype, const iso_cuda_frame *frame, const void *from, void *to,
                      const iso_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
