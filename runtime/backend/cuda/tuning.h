/* Choices of algorithms that were measured (iso_backend_tuning). An op is a product or a convolution of one
 * shape, and has a text that tells it apart, which may be read again on another rank; a choice is the text by
 * which a library's proposal is found again. Functions are local; any thread may call them, unless their comment
 * says otherwise. */
#ifndef ISO_BACKEND_CUDA_TUNING_H
#define ISO_BACKEND_CUDA_TUNING_H

#include <cuda_runtime_api.h>

#include "runtime/backend/backend.h"

enum { ISO_CUDA_WORK = 400, ISO_CUDA_CHOICE = 100 };

/* The choice for an op into `choice`; false: there is none. */
bool iso_cuda_choice_of(const char *op, char choice[ISO_CUDA_CHOICE]);
/* The choice for an op cannot be used here: it is open again. */
void iso_cuda_forget_choice(const char *op);
/* A library found how to do an op, which may be measured unless there is a choice. */
void iso_cuda_note_op(const char *op);

/* The seconds of what `queue` queues on a stream, which it does several times: the least. An error that the
 * library or CUDA gives ends it. One thread at a time. */
bool iso_cuda_time(iso_stream *stream, void (*queue)(void *argument), void *argument, double *seconds);
/* Memory of the stream's GPU for arrays of what is timed, filled with small numbers. The caller frees it
 * (cudaFree), also after an error, NULL then. ISO_NO_MEMORY. */
iso_status iso_cuda_timed_memory(iso_stream *stream, size_t bytes, void **memory);
/* Adds the seconds of a choice: the first one is that by rule, and the fastest is kept. */
void iso_cuda_add_timed(iso_tuning_result *tuned, const char *choice, double seconds);

/* The table of the backend. */
extern const iso_backend_tuning iso_cuda_tuning;

#endif
