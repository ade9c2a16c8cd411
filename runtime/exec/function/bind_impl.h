/* Plans bound to a rank's slots: kernels chosen, addresses filled in. */
#ifndef ISO_EXEC_FUNCTION_BIND_IMPL_H
#define ISO_EXEC_FUNCTION_BIND_IMPL_H

#include "runtime/backend/division.h"
#include "runtime/exec/function/async_steps.h"
#include "runtime/exec/memory/runtime_impl.h"

/* Bytes up to the next line of the cache. */
static inline size_t iso_aligned(size_t bytes)
{
    return (bytes + ISO_ALIGN - 1) / ISO_ALIGN * ISO_ALIGN;
}

/* The elements that are summed and updated at a time: they stay in the L1 cache. Threads take chunks of a run, of
 * many blocks. */
enum { ISO_UPDATE_BLOCK = 3072, ISO_UPDATE_CHUNK = 21 * ISO_UPDATE_BLOCK };
static inline int64_t iso_update_chunks(int64_t elements)
{
    return (elements + ISO_UPDATE_CHUNK - 1) / ISO_UPDATE_CHUNK;
}

/* An instruction for one slot. */
typedef struct iso_slot_instruction {
    iso_instruction_kind kind;
    const iso_kernel *kernel;
    iso_kernel_call call;
    double flops;
    iso_division *division; /* KERNEL: how threads divide its work; NULL: they do not */
    iso_sequence *sequence; /* KERNEL, COPY: to which it belongs; lent */
    int in_sequence,
        rest;         /* its number there, and how many instructions of the sequence there are from it on */
    int input;        /* READ: component of the batch */
    int64_t turn;     /* READ: the row of its part with which it begins */
    iso_array *array; /* KERNEL: inputs, then outputs; READ: the array that is written */
    /* READ, for steps that go ahead: pinned memory that the batch writes; NULL: it writes the array. And memory of
     * the device, to which large parts are copied before the step; NULL: kernels read the pinned memory. */
    void *staging[ISO_ASYNC_STEPS], *device_buffer[ISO_ASYNC_STEPS];
    iso_box_copy *copy;
} iso_slot_instruction;

/* A run of one variable's elements that a slot updates: [begin, begin + count) of its bucket's flat range. */
typedef struct iso_weight_run {
    int bucket;
    int64_t begin, count;
    int64_t stored; /* where its gradient begins in what the slot sums of the bucket's storage */
    char *weights;
    bool shared;         /* other slots read these weights in the same memory */
    int product;         /* the fused product that computes its gradient; -1: the gradient is stored */
    int64_t chunks;      /* of all runs before it (iso_update_chunks) */
    int64_t first;       /* index of the run's first element in the product, row-major */
    double flops, taken; /* of its part of the product: operations, bytes read from other slots */
} iso_weight_run;

/* A term of a fused product: the calls of all slots of the group, in order. */
typedef struct iso_product_term {
    const iso_kernel **kernel; /* [group] */
    iso_kernel_call *call;     /* [group] */
    iso_array *array;          /* [group * (n_inputs + 1)] */
} iso_product_term;

/* A fused product (plan/fused_update.c). */
typedef struct iso_slot_product {
    int group;
    int64_t columns;
    iso_fused_update_room room;
    char *blocks; /* of thread 0, in the scratch memory */
    int n_terms;
    iso_product_term term[ISO_FUSED_TERMS];
} iso_slot_product;

/* The calls of a fused product for a slot, without data; freed also after an error. ISO_NO_MEMORY. */
iso_status iso_product_make(const iso_plan *plan, const iso_fused_update *fused, int slot,
                            iso_slot_product *product);
void iso_product_free(iso_slot_product *product);
/* Prepares its kernels for their parts, once the inputs are there. */
void iso_product_prepare(const iso_slot_product *product);
/* Gives it its scratch memory; the blocks of a thread, and the scratch memory of its parts. */
void iso_product_address(iso_slot_product *product, void *scratch);
char *iso_fused_blocks(const iso_slot_product *product, int thread);
void *iso_fused_part_scratch(const iso_slot_product *product, int thread);

/* The sums of the slot's part of a bucket's gradients, on a device whose memory the host cannot use. */
typedef struct iso_slot_sums {
    void *staging, *memory; /* pinned (NULL if the device gathers); the device's */
    iso_optimizer_run *runs, *average_runs;
    iso_optimizer_call *calls, *average_calls; /* [buckets] */
    iso_optimizer_table table, average_table;
} iso_slot_sums;

typedef struct iso_slot_plan {
    iso_local_slot *local;
    iso_slot_instruction *instruction; /* [n_instructions] */
    iso_array *arrays;                 /* of all kernels */
    iso_box_copy *copies;              /* of the instructions that copy */
    iso_thunk *thunks;                 /* [n_instructions] what the sequences are made of */
    iso_sequence **sequences;
    int n_sequences;
    void *constants;
    iso_step_rates *rates; /* [kinds of buckets] of the running step, in the device's memory */
    double *fault; /* in the shared area: what the slot adds to the total; then the sum, if slot 0 adds up */
    double *fault_total; /* of the step, see fault.h: a result of the last exchange */
    int n_runs, n_assigns, n_gradients, n_products;
    iso_weight_run *runs;
    iso_slot_product *products;          /* [n_fused_updates] */
    iso_bytes_copy *assigns, *gradients; /* of variables; of gradients into their buckets */
    iso_slot_sums sums;
} iso_slot_plan;

/* What a slot does in a step. */
typedef struct iso_slot_work {
    double flops;
    iso_traffic traffic;
} iso_slot_work;

/* What a step does, in bits. Each kernel of what a step does is loaded when such a step has been run in parts. */
enum {
    ISO_STEP_COMPUTES = 1,
    ISO_STEP_UPDATES = 2,       /* weights */
    ISO_STEP_TAKES_WEIGHTS = 4, /* of the step before */
    ISO_STEP_SENDS_WEIGHTS = 8, /* at its end, to other domains */
    ISO_STEP_GIVES_RESULTS = 16 /* all outputs */
};

/* A step of a plan that a device does by one launch. */
typedef struct iso_step_graph {
    struct iso_step_graph *next;
    unsigned does; /* in bits */
    int buffer;    /* of the results */
    iso_device_graph *graph;
    iso_slot_work work[]; /* [n_locals] */
} iso_step_graph;

/* The number of a plan has that of its function and its own among those of the function, each modulo 256. */
enum { ISO_FUNCTION_NUMBERS = 256, ISO_PLAN_NUMBERS = 256 };

/* A function's plan for one batch size. */
typedef struct iso_executable {
    struct iso_executable *next;
    iso_plan *plan;
    unsigned number;        /* the same on all ranks */
    iso_slot_plan *slot;    /* [n_locals] */
    size_t *scratch;        /* [n_scratch] bytes; see iso_executable_count_scratch */
    unsigned generation;    /* of the memory to which it is bound */
    unsigned ran;           /* what its steps have done in parts since it was bound, in bits */
    bool in_parts;          /* a step cannot be one launch */
    iso_step_graph *graphs; /* that are captured */
    iso_row_range *reads;   /* the rows of a batch that local slots read; found when first needed */
    int n_reads;
    bool kept_counted; /* the batches that the data set of its first step keeps */
} iso_executable;

/* Chooses kernels; addresses are filled in by iso_executable_bind. */
iso_status iso_executable_create(iso_runtime *runtime, iso_plan *plan, iso_executable **executable);
void iso_executable_destroy(iso_runtime *runtime, iso_executable *executable);
/* Fills in the boxes of a program step that a slot computes by a copy. The addresses stay as they are. */
iso_status iso_bind_copy(const iso_plan *plan, int slot, int step_number, iso_box_copy *copy);
/* Writes a slot's constants to `data`, of the plan's constant_bytes. */
void iso_bind_constants(const iso_plan *plan, int slot, void *data);
/* Approximate bytes of the tables that a slot has for a plan. */
size_t iso_executable_table_bytes(const iso_plan *plan);
/* Counts how much of each scratch memory the kernels of its slots need. */
void iso_executable_count_scratch(const iso_runtime *runtime, const iso_executable *executable);
/* Fills in all addresses after memory has moved, also those of the exchanges, and makes the sequences. */
iso_status iso_executable_bind(iso_runtime *runtime, iso_executable *executable);
/* Makes the sequences of a local slot's instructions, whose addresses are filled in. Those that it replaces are done
 * (iso_runtime_finish). timer: records the begin and end of each instruction from its first moment on; NULL: they are
 * not timed. */
iso_status iso_executable_sequence(const iso_runtime *runtime, const iso_executable *executable, int local,
                                   iso_device_timer *timer);
/* Captures the sequences of a local slot (iso_backend.capture), after a run of the plan. Does nothing with those that
 * are captured. */
iso_status iso_executable_capture(const iso_runtime *runtime, const iso_executable *executable, int local);
/* step_graph.c: destroys what was captured of whole steps. They are done (iso_runtime_finish). */
void iso_step_drop_graphs(const iso_runtime *runtime, iso_executable *executable);
static inline int iso_instruction_moment(int instruction)
{
    return 2 * instruction;
}
/* The address at which a local slot stores a value. */
void *iso_executable_value(const iso_runtime *runtime, const iso_executable *executable, int local,
                           int value);

/* bind_updates.c: what a slot changes at the end of a step: allocates the tables, fills in the addresses. */
iso_status iso_executable_make_updates(const iso_runtime *runtime, const iso_plan *plan, iso_slot_plan *sp);
/* Approximate bytes of the tables of a slot. */
size_t iso_executable_update_bytes(const iso_plan *plan);
void iso_executable_free_updates(iso_slot_plan *sp);
void iso_executable_bind_updates(const iso_runtime *runtime, iso_executable *executable, int local);

/* apply_updates.c: the optimizer's part of a step for one local slot, between begin and end of the last exchange
 * and those of the buckets. */
/* Queues, on the slot's side stream, the computation of its rates for one kind of bucket from iteration and learning
 * rate. Must be called before the step changes anything. */
void iso_updates_prepare(const iso_runtime *runtime, const iso_bucket *bucket, const iso_bucket_state *state,
                         const iso_program *program, int local, iso_step_rates *rates);
/* Queues the update of the slot's part of every bucket, and of its averages. */
void iso_updates_apply(iso_runtime *runtime, iso_executable *executable, const iso_update_state *updates,
                       int local);
/* Queues the copies of bytes that a slot makes at the end of a step; nothing is copied after faults (NULL: none). */
void iso_updates_copy(const iso_runtime *runtime, int local, const iso_bytes_copy *list, int count,
                      const double *faults);
/* Queues that of the averages alone, in a step that only accumulates gradients. */
void iso_updates_average(const iso_runtime *runtime, iso_executable *executable,
                         const iso_update_state *updates, int local);

#endif
