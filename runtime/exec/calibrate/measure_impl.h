/* The measurements of a machine. For runtime/exec only. */
#ifndef ISO_EXEC_CALIBRATE_MEASURE_IMPL_H
#define ISO_EXEC_CALIBRATE_MEASURE_IMPL_H

#include "runtime/backend/backend.h"
#include "runtime/base/thread_pool.h"
#include "runtime/exec/calibrate/calibrate.h"

/* Returns the shortest time in seconds of several runs of a job on all threads. */
double iso_measure_least(iso_thread_pool *pool, iso_job job, void *arg);
/* measure_exchanges.c: measures a barrier and a pull. Local. */
iso_status iso_measure_exchanges(const iso_backend *backend, iso_thread_pool *pool, int threads,
                                 iso_machine_rates *rates);
/* Measures the network between the hosts of the job while `threads` threads of each compute. Collective. */
iso_status iso_measure_network(iso_context *ctx, const iso_backend *backend, iso_thread_pool *pool,
                               int threads, iso_network *network);

#endif
