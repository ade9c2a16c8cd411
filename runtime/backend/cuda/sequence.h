/* Members of iso_backend: sequences of instructions.
 * Functions are local; one thread at a time uses a stream. */
#ifndef ISO_BACKEND_CUDA_SEQUENCE_H
#define ISO_BACKEND_CUDA_SEQUENCE_H

#include "runtime/backend/backend.h"

iso_status iso_cuda_sequence(const iso_thunk *thunks, int count, iso_stream *stream, iso_sequence **sequence);
iso_status iso_cuda_capture(iso_sequence *sequence);
iso_status iso_cuda_launch(const iso_sequence *sequence, int first, int count);
void iso_cuda_discard(iso_sequence *sequence);

#endif
