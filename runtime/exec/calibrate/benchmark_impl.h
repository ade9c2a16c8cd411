/* The memory and the ops of a benchmark. For runtime/exec only. */
#ifndef ISO_EXEC_CALIBRATE_BENCHMARK_IMPL_H
#define ISO_EXEC_CALIBRATE_BENCHMARK_IMPL_H

#include "runtime/backend/fault.h"
#include "runtime/base/wait.h"
#include "runtime/exec/calibrate/calibrate.h"
#include "runtime/exec/function/bind_impl.h"
#include "runtime/exec/function/dry_run_impl.h"
#include "runtime/report/plan_ops.h"

/* Memory of `bytes` bytes for arrays whose planned offsets go up to `planned`. If that is more, several arrays
 * share memory. */
typedef struct benchmark_room {
    void *memory;
    size_t bytes, planned, largest; /* largest: of the things */
} benchmark_room;

typedef struct benchmark_instruction {
    const iso_kernel *kernel;
    iso_kernel_call call;
    iso_array *array; /* inputs, then outputs; owned */
    iso_box_copy copy;
    bool divided;
    iso_division division; /* if the slot's threads divide the kernel's work */
} benchmark_instruction;

typedef struct benchmark_slot {
    int slot;
    iso_plan_ops ops;
    double *seconds; /* [ops] of the last round */
    benchmark_room arena, shared, state;
    void *constants, *scratch, *incoming;
    benchmark_instruction *bound; /* [n_instructions] */
    iso_slot_product *products;   /* [n_fused_updates] */
    size_t *variable;             /* [n_variables] offset in the variables' room */
    size_t *state_at;             /* [n_buckets] offset in the state's room */
    iso_step_rates *rates;        /* [n_buckets] */
    iso_fault fault;
    iso_thread_pool *intra_op; /* its thread's, lent; NULL: it is alone */
    int64_t n_read;            /* rows of the batches of all rounds */
} benchmark_slot;

typedef struct benchmark {
    const iso_plan *plan;
    const iso_backend *backend;
    int n_slots, threads; /* slots of the first host */
    int intra_op_threads; /* of each of the threads */
    bool crowded, shared;
    benchmark_slot *slot;
    benchmark_room variables;
    size_t incoming_bytes;
    iso_step_info info;
    int64_t bound;               /* made-up indices are below */
    bool whole;                  /* real inputs are indices too */
    void *made_up[ISO_BF16 + 1]; /* by dtype: made-up values */
    int64_t n_rows;              /* of the made-up data set */
    void *rows[ISO_MAX_FUNCTION_INPUTS];
    int n_barriers, n_until_end;
    int round;
    uint32_t passed; /* barriers of earlier rounds */
    iso_count arrived;
} benchmark;

/* benchmark_memory.c: allocates, binds and fills. Freed also after an error. */
iso_status iso_benchmark_make(const iso_dry_plan *dry, const iso_graph *graph,
                              const iso_benchmark_options *options, benchmark *r);
void iso_benchmark_free(benchmark *r);
/* Makes indices that are filled in later be below `bound`. */
void iso_benchmark_set_bound(benchmark *r, int64_t bound);
/* Fills a slot's part of a value with made-up elements, as an exchange would. */
void iso_benchmark_pull(const benchmark *r, const benchmark_slot *s, int value);
/* Fills `count` elements with made-up ones that are valid for this value. */
void iso_benchmark_fill(const benchmark *r, int value, void *to, int64_t count);
/* The address of a slot's part of a value; of the slot's copy of a variable. */
void *iso_benchmark_value(const benchmark *r, const benchmark_slot *s, int value);
char *iso_benchmark_variable(const benchmark *r, const benchmark_slot *s, const iso_variable *variable);
/* The address of a thing of this planned offset. */
char *iso_benchmark_address(const benchmark_room *room, size_t offset);

/* benchmark_read.c: a made-up data set of at most `memory` bytes for each input, but at least one batch; freed with
 * the benchmark. A slot reads its part of the next batch of it. */
iso_status iso_benchmark_allocate_rows(benchmark *r, double memory);
void iso_benchmark_fill_rows(const benchmark *r);
void iso_benchmark_read(const benchmark *r, benchmark_slot *s, int input);

/* benchmark_update.c: the ops of the end of a step. */
void iso_benchmark_end_op(const benchmark *r, benchmark_slot *s, const iso_plan_op *op);

#endif
