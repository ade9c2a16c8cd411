/* Calibration: the measurements for the time of a step. For `launch` and tests.
 * Functions are local unless their comment says otherwise. */
#ifndef ISO_EXEC_CALIBRATE_CALIBRATE_H
#define ISO_EXEC_CALIBRATE_CALIBRATE_H

#include "runtime/exec/function/function.h"
#include "runtime/report/plan_time.h"

/* Benchmarks a step of the plan that iso_function_plan would make: the ops of the slots of the first host, in
 * order, `threads` at a time, without exchanges and on made-up values, `repetitions` times (0: for about two
 * seconds). Adds the times to `into`. Without the time in which other programs had the cores, if `shared`. The
 * memory is that of the host's slots in the plan; beyond `memory` bytes tensors share memory. ISO_INVALID: what
 * iso_function_plan refuses, the backend's memory is not the host's, or a tensor is larger than `memory`. */
typedef struct iso_benchmark_options {
    int64_t rows;
    int slots_per_host, threads, repetitions;
    double memory;
    bool shared; /* hosts are measured at the same time, and may be simulated on the same cores */
} iso_benchmark_options;
iso_status iso_function_benchmark(iso_graph *graph, const iso_function_options *function,
                                  const iso_benchmark_options *options, iso_calibration *into);

/* Measures the rates of this machine with `threads` threads, and, if the job has several hosts, the network between
 * the first two. Collective. */
iso_status iso_machine_measure(iso_context *ctx, int threads, iso_calibration *into);

#endif
