/* Members of iso_backend: sequences of instructions.
 * Functions are local; one thread at a time uses a stream. */
#ifndef ISO_BACKEND_CUDA_SEQUENCE_H
#define ISO_BACKEND_CUDA_SEQUENCE_H

#include "runtime/backend/backend.h"

/* ISO_FAILED: CUDA refuses to capture them. ISO_NO_MEMORY. */
iso_status iso_cuda_capture(const iso_work *work, int count, iso_stream *stream, iso_sequence **sequence);
void iso_cuda_launch(const iso_sequence *sequence, int first, int count);
void iso_cuda_discard(iso_sequence *sequence);

#endif
