/* The CUDA backend at the end of a step and between slots: members of iso_backend. Functions are local; one thread
 * at a time uses a stream. */
#ifndef ISO_BACKEND_CUDA_STEP_END_H
#define ISO_BACKEND_CUDA_STEP_END_H

#include "runtime/backend/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

void iso_cuda_prepare(const iso_rates_call *call, iso_stream *stream);
/* One kernel for all calls of a type. stream NULL, for tests: CUDA's default stream, and table->device is not used
 * since kernels read the host's memory. */
void iso_cuda_optimize(const iso_optimizer_call *calls, int n_calls, iso_optimizer_table *table,
                       iso_stream *stream);
enum { ISO_CUDA_TABLE_ENTRY = 80 };
iso_rule_run iso_cuda_optimizer(const char *rule, iso_dtype dtype);
void iso_cuda_copy_bytes(const iso_bytes_copy *list, int count, const double *faults, iso_stream *stream);
void iso_cuda_count_fault(const iso_fault *fault, const double *host, double *out, iso_stream *stream);
void iso_cuda_sum_slots(iso_dtype dtype, int64_t n, const void *a, const void *b, void *out,
                        iso_stream *stream);
void iso_cuda_maximum_slots(iso_dtype dtype, int64_t n, const void *a, const void *b, void *out,
                            iso_stream *stream);
void iso_cuda_copy_box(const iso_box_copy *copy, iso_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
