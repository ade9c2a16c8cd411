/* Functions that the backends with kernels on the host have in common: work is done at once, and streams are not
 * used. */
#ifndef ISO_CPU_HOST_H
#define ISO_CPU_HOST_H

#include "runtime/backend/backend.h"

const iso_device *iso_host_device(int turn);
iso_status iso_host_sequence(const iso_thunk *thunks, int count, iso_stream *stream, iso_sequence **sequence);
iso_status iso_host_launch(const iso_sequence *sequence, int first, int count);
void iso_host_discard(iso_sequence *sequence);
void iso_host_prepare(const iso_rates_call *call, iso_stream *stream);
void iso_host_optimize(const iso_optimizer_call *calls, int n_calls, iso_optimizer_table *table,
                       iso_stream *stream);
void iso_host_copy_bytes(const iso_bytes_copy *list, int count, const double *faults, iso_stream *stream);
void iso_host_count_fault(const iso_fault *fault, const double *host, double *out, iso_stream *stream);

/* The members of iso_backend. */
#define ISO_HOST_BACKEND                                                                                     \
    .device = iso_host_device, .sequence = iso_host_sequence, .launch = iso_host_launch,                     \
    .discard = iso_host_discard, .prepare = iso_host_prepare, .optimize = iso_host_optimize,                 \
    .copy_bytes = iso_host_copy_bytes, .count_fault = iso_host_count_fault

#endif
