/* Transposes of many matrices, whose rows may have other elements between them. */
#ifndef ISO_BACKEND_CUDA_TRANSPOSE_H
#define ISO_BACKEND_CUDA_TRANSPOSE_H

#include "runtime/backend/cuda/walk.h"

namespace iso_cuda
{

/* Matrices [rows, columns], with the distance of two rows, whose transposes are [columns, rows]. `each` has the
 * places of the first elements of each matrix and of its transpose. */
struct matrices {
    int64_t rows, columns, from_stride, to_stride;
    walk<2> each;
};

/* Queues the transposes on a stream. Local; one thread at a time uses a stream. */
void transpose_matrices(iso_dtype dtype, const matrices &m, const void *from, void *to,
                        const iso_stream *stream);

} // namespace iso_cuda

#endif
