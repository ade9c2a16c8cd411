/* The runtime of a graph, which executes its functions: the fabric, the threads, the copies of variables, the
 * slots' memory. For runtime/exec only. */
#ifndef ISO_EXEC_MEMORY_RUNTIME_IMPL_H
#define ISO_EXEC_MEMORY_RUNTIME_IMPL_H

#include "runtime/base/shards.h"
#include "runtime/base/table.h"
#include "runtime/base/thread_pool.h"
#include "runtime/exec/memory/domains.h"
#include "runtime/plan/plan.h"

/* Which slots use which copies of a variable of this shape and layout: slots of a domain with the same box share a
 * copy. */
typedef struct iso_copy_map {
    iso_shape shape;
    iso_layout layout;
    int *box_of; /* [n_slots] the first slot of all that has the same box */
    int *copy;   /* [n_slots] the number of the copy that it uses */
    int n_copies;
    int *first; /* [n_copies] the first slot that uses it; they increase */
} iso_copy_map;

/* A variable in all domains. */
typedef struct iso_variable_storage {
    bool allocated;
    bool inherited; /* memory and value are those of a saved variable (recompile.h) */
    iso_layout layout;
    iso_layout *shown;       /* the same for users; created on the first request */
    const iso_copy_map *map; /* the runtime's */
    size_t *offset;          /* [n_copies] of a copy in the area that its domain shares */
} iso_variable_storage;

/* The memory of a variable that was freed, for the next one of its shape, type and layout. */
typedef struct iso_free_block {
    iso_dtype dtype;
    const iso_copy_map *map;
    size_t *offset; /* [n_copies] */
} iso_free_block;

/* A slot that this rank hosts. */
typedef struct iso_local_slot {
    int slot;
    int thread;
    const iso_device *device;
    void *arena;              /* large enough for the largest plan */
    iso_stream *stream;       /* its work in steps, and the host's copies and fills of its memory */
    iso_stream *side;         /* the rates of a step, which the host computes while the step goes on */
    iso_stream *input;        /* copies of batches to the device, beside the step before */
    iso_device_event *copied; /* the last of them */
    iso_device_event *begun, *prepared; /* of the running step: `stream` has begun it, `side` has its rates */
    double flops;
    double taken;            /* bytes that it read from other slots for fused products */
    iso_step_info *info;     /* of the running step, in the device's memory */
    iso_fault *kernel_fault; /* what its kernels raised in the running step, in the device's memory */
    iso_fault fault;         /* of the last step: the host's, or else its kernels' */
    bool lost;        /* the step's last copies failed, after its faults were counted: `fault` says why */
    bool fault_known; /* the other slots of the step know that the host raised `fault` */
    /* The status of the failed call if the host raised the fault; ISO_OK: the data are wrong. */
    iso_status fault_status;
} iso_local_slot;

/* An optimizer's state for one bucket: the part of each local slot. */
typedef struct iso_bucket_state {
    int n_slots; /* slots of the optimizer: momentum, velocity */
    const char *name[ISO_MAX_OPTIMIZER_SLOTS];
    void **data; /* [local slots * n_slots] */
    /* [members of the bucket * n_slots] "optimizer/adam/dense/kernel/momentum", the graph's; NULL until needed */
    const char **paths;
    const iso_optimizer_rule *rule;
    iso_rule_run run;     /* the rule on the device */
    iso_rule_run average; /* the kernel of averages, which the last slot holds; NULL: there are none */
} iso_bucket_state;

/* The state of one set of updates; functions with the same updates share it. */
typedef struct iso_update_state {
    struct iso_update_state *next;
    int n_applies;
    iso_op **applies; /* the optimizers' ops, in order: they identify the state */
    int n_buckets;
    iso_bucket *buckets;     /* [n_buckets] a copy of the first function's buckets, with their own members */
    iso_bucket_state *state; /* [n_buckets] */
} iso_update_state;

/* A variable of 8 bytes whose value, after all steps that have begun, the host knows (function/rates.c). */
typedef struct iso_known_scalar {
    const iso_variable *variable;
    bool computed; /* by a step: then the host does not know it */
    union {
        int64_t count;
        double number;
    } value;
} iso_known_scalar;
enum { ISO_MOST_KNOWN = 8 };

/* The shards that the replica check compares. */
typedef struct iso_replicas {
    bool listed;
    unsigned generation; /* of the memory, when they were listed */
    iso_state_shards shards;
} iso_replicas;

/* Memory in which kernels compute. */
typedef struct iso_scratch {
    void *memory;
    size_t bytes; /* that may be used */
} iso_scratch;

typedef struct iso_runtime {
    iso_graph *graph;
    iso_context *ctx;
    iso_distribution *distribution;
    iso_distribution *own_distribution; /* if the graph was given none */
    const iso_mesh *mesh;
    iso_fabric *fabric;
    const iso_backend *backend;
    const iso_device *device; /* of the first slot; all are of its kind */
    iso_site site;
    iso_thread_pool *pool;
    iso_thread_pool *
        *readers;  /* [n_threads] what reads large batches with each of them; NULL: nothing does */
    int n_readers; /* threads of each, the caller's included */
    iso_thread_pool *
        *intra_op; /* [n_threads] with which each divides the work of an op (division.h); NULL: alone */
    int n_threads;
    int n_locals;
    iso_local_slot *locals;
    int *first_local;  /* [n_threads + 1] a thread's slots are first_local[t] .. first_local[t + 1] - 1 */
    int *host_of_slot; /* [n_slots] */
    iso_stream **stream_of_slot; /* [n_slots] of the local ones */
    iso_domains domains;
    int n_variables;
    iso_variable_storage *variables;
    int n_copy_maps;
    iso_copy_map **copy_maps; /* one for each shape and layout */
    iso_table copy_map_index;
    size_t *domain_bytes; /* [domains.count] used in the area that each domain shares */
    size_t arena_bytes, shared_bytes;
    double host_bytes; /* of this rank's host: all that its slots have, as it was last checked */
    int n_scratch;
    iso_scratch *scratch; /* [n_scratch] */
    unsigned generation;  /* counts moves of the memory above: plans are then bound again */
    unsigned functions_made;
    int uncounted; /* for so many plans steps have yet to count the batches that are kept; the same on all ranks */
    uint64_t steps;        /* of training so far */
    int failures_reported; /* failed messages that the last step reported to all slots as a fault */
    bool idle_ranks;       /* some rank hosts no slot */
    bool device_failed;    /* after the faults of a step were counted: the next step tells the other ranks */
    iso_update_state *updates;
    int n_known;
    iso_known_scalar known[ISO_MOST_KNOWN];
    struct iso_function *functions;                 /* list of all functions */
    void (*detach)(struct iso_function *functions); /* called before the runtime is destroyed */
    struct iso_executable *deferred;                /* whose new weights the next step sends; NULL: none */
    struct iso_recompile *recompile; /* see recompile.h; NULL unless a model is being compiled again */
    int n_free_blocks;
    iso_free_block *free_blocks;
    iso_replicas replicas;
} iso_runtime;

/* Memory for a local slot on its device, or pinned. */
static inline iso_status iso_local_allocate(const iso_local_slot *slot, size_t bytes, const char *what,
                                            void **memory)
{
    return slot->device->allocate(slot->device, bytes, what, memory);
}
static inline void iso_local_release(const iso_local_slot *slot, void *memory)
{
    slot->device->release(slot->device, memory);
}
static inline iso_status iso_local_allocate_pinned(const iso_local_slot *slot, size_t bytes, const char *what,
                                                   void **memory)
{
    return slot->device->allocate_pinned(slot->device, bytes, what, memory);
}
static inline void iso_local_release_pinned(const iso_local_slot *slot, void *memory)
{
    slot->device->release_pinned(slot->device, memory);
}

/* The graph's runtime, made with its first function. Collective. */
iso_status iso_runtime_get(iso_graph *graph, iso_runtime **runtime);
/* iso_topology.chunk_bytes, by ISOGRID_CHUNK_BYTES and --cuda-aware. ISO_INVALID names the variable. Local. */
iso_status iso_chunk_bytes(const iso_context *ctx, size_t *bytes);
/* Whether --collectives is `name`. */
bool iso_collectives_are(const iso_context *ctx, const char *name);
/* ISO_INVALID if the program gives a variable that already has memory another layout. Local. */
iso_status iso_runtime_check_placed(const iso_runtime *runtime, const iso_program *program);
/* Allocates and initializes every variable that has no memory yet. Collective. */
iso_status iso_runtime_place_variables(iso_runtime *runtime, const iso_program *program);
/* Number of the scratch memory of a local slot's kernels: that of its thread; or its own where the kernels of a
 * thread's slots run at the same time, because a device executes them. */
static inline int iso_runtime_scratch_of(const iso_runtime *runtime, int local)
{
    return runtime->device->host_access ? runtime->locals[local].thread : local;
}
static inline void *iso_runtime_scratch(const iso_runtime *runtime, int local)
{
    return runtime->scratch[iso_runtime_scratch_of(runtime, local)].memory;
}
/* check_memory.c: before slots get this much memory, or data sets keep batches. ISO_NO_MEMORY: a host has less, by
 * the system or by a control group (host_memory.h). Warns if a host has less available. Collective. */
iso_status iso_runtime_check_memory(iso_runtime *runtime, size_t arena, size_t shared, const size_t *scratch);
/* Makes sure that slots have at least this much memory. scratch: [n_scratch]; NULL: none. Memory moves: plans must be
 * bound again, after an error too. Collective. */
typedef iso_status iso_runtime_reserver(iso_runtime *runtime, size_t arena, size_t shared,
                                        const size_t *scratch);
iso_runtime_reserver iso_runtime_reserve;
/* The same only if a rank has less: where it has all, no memory moves. Collective. */
iso_runtime_reserver iso_runtime_reserve_again;
/* The threads that divide the work of an op with thread `thread` of the slots; NULL: none does. */
static inline iso_thread_pool *iso_runtime_intra_op(const iso_runtime *runtime, int thread)
{
    return runtime->intra_op ? runtime->intra_op[thread] : NULL;
}
/* readers.c: makes the threads that read batches of at least ISO_LARGE_READ bytes, if this rank has cores for them
 * and there are none yet. Local. */
enum { ISO_LARGE_READ = 1 << 20, ISO_MOST_READERS = 8 };
iso_status iso_runtime_start_readers(iso_runtime *runtime);
void iso_runtime_end_readers(iso_runtime *runtime);
/* Waits until all that was queued in the slots' memory is done. Local. */
iso_status iso_runtime_finish(const iso_runtime *runtime);
/* To be called before the host changes variables, and after steps that have changed nothing: the host reads what it
 * must know of them again. Local. */
static inline void iso_runtime_forget_known(iso_runtime *runtime)
{
    runtime->n_known = 0;
}
/* The state of a program's updates: an existing one over the same updates, or a new one. */
iso_status iso_runtime_update_state(iso_runtime *runtime, const iso_program *program,
                                    const iso_bucket_list *buckets, iso_update_state **state);
void iso_runtime_free_updates(const iso_runtime *runtime, iso_update_state *updates);
/* recompile.c: gives a variable, whose layout and arrays are made, the memory that it had before the model
 * was compiled again, or the memory of a variable that is gone; false if there is none. */
bool iso_runtime_reuse_variable(iso_runtime *runtime, const iso_variable *variable,
                                iso_variable_storage *storage, iso_status *status);
/* shards.c: adds this rank's shards of the state of updates. */
iso_status iso_runtime_add_updates(const iso_runtime *runtime, const iso_update_state *updates,
                                   iso_state_shards *shards);
/* copy_map.c: how slots share copies of variables of this shape and layout, found once; NULL: no memory. */
const iso_copy_map *iso_runtime_copy_map(iso_runtime *runtime, const iso_shape *shape,
                                         const iso_layout *layout);
void iso_runtime_free_copy_maps(iso_runtime *runtime);
/* The offset of the copy of a variable that a slot of any rank uses, in the area that its domain shares. */
size_t iso_runtime_variable_offset(const iso_runtime *runtime, const iso_variable *variable, int slot);
/* The copy of a variable that a local slot uses, and whether this slot is the first of its domain (of all
 * slots) that uses the copy. */
void *iso_runtime_variable(const iso_runtime *runtime, const iso_variable *variable, int slot);
/* Maps this copy for the host, to read it or to write all of it. Ended by iso_unmap. */
iso_status iso_runtime_map_variable(const iso_runtime *runtime, const iso_variable *variable, int slot,
                                    bool write, iso_mapping *mapping);
/* Agrees on the status of copies from the slots' memory. Needs no exchange if the copies cannot fail, because the
 * host may access the memory. Collective. */
iso_status iso_runtime_agree_copied(const iso_runtime *runtime, iso_status status);
bool iso_runtime_first_in_domain(const iso_runtime *runtime, const iso_variable *variable, int slot);
bool iso_runtime_first_of_all(const iso_runtime *runtime, const iso_variable *variable, int slot);
iso_box iso_runtime_variable_box(const iso_runtime *runtime, const iso_variable *variable, int slot);
/* shards.c: adds this rank's shards of all variables. */
iso_status iso_runtime_add_variables(const iso_runtime *runtime, iso_state_shards *shards);

/* variables.c: gives every rank each element from the one rank that has it; on all other ranks its bits are
 * zero. Collective. */
iso_status iso_elements_all_gather(iso_context *ctx, double *values, int64_t count);
/* variables.c: the elements that this rank writes, at their global indices; all others are not written. And stores
 * this rank's parts of the global array in its copies. */
iso_status iso_variable_get_own(const iso_runtime *runtime, const iso_variable *variable, double *values);
iso_status iso_variable_set_own(const iso_runtime *runtime, const iso_variable *variable,
                                const double *values);
/* shards.c: the same for the shards of one path. */
iso_status iso_shards_get_elements(const iso_state_shards *shards, const char *path, double *values);
iso_status iso_shards_set_elements(const iso_state_shards *shards, const char *path, const double *values);
/* shards.c: the path of an optimizer's slot. */
void iso_optimizer_slot_path(const char *rule, const iso_variable *variable, const char *slot,
                             char path[ISO_MAX_SLOT_PATH]);

/* initialize.c: fills a box of a variable with its initial values. ISO_NO_MEMORY: only with the orthogonal
 * initializer. */
iso_status iso_initialize(const iso_variable *variable, uint64_t seed, const iso_box *box, void *data);
/* initialize.c: fills this rank's parts of all copies of the variables from number `first` on. The copies are
 * complete when all ranks of the host have returned. Local. */
iso_status iso_runtime_initialize(const iso_runtime *runtime, int first);
/* orthogonal.c: q [rows, columns]: its rows or its columns, whichever are fewer, are orthonormal. A random
 * rotation that depends on key, rows and columns alone. */
iso_status iso_orthogonal(uint64_t key, int64_t rows, int64_t columns, double **q);

#endif
