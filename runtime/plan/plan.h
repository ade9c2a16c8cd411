/* Plans: a program for one batch size as a list of instructions over preallocated buffers, the same list on
 * every slot. */
#ifndef ISO_PLAN_PLAN_H
#define ISO_PLAN_PLAN_H

#include "collectives/coll.h"
#include "runtime/backend/backend.h"
#include "runtime/base/text.h"
#include "runtime/base/thread_pool.h"
#include "runtime/plan/bucket.h"
#include "runtime/spmd/program.h"

/* The location of a value. */
typedef enum iso_location_kind {
    ISO_LOCATION_NONE,
    ISO_LOCATION_ARENA,    /* the slot's arena, which no other slot reads */
    ISO_LOCATION_SHARED,   /* the slot's area in its domain's window */
    ISO_LOCATION_VARIABLE, /* the domain's copy of a variable */
    ISO_LOCATION_CONSTANT, /* the slot's block of constants */
} iso_location_kind;

typedef struct iso_location {
    iso_location_kind kind;
    size_t offset;
    iso_variable *variable;
} iso_location;

/* The first and the last instruction at which a value owns its memory. */
typedef struct iso_live_range {
    int begin, end; /* number n_instructions means the end of the step; end -1: it has no memory of its own */
} iso_live_range;

typedef enum iso_instruction_kind {
    ISO_READ, /* rows of the batch into an input */
    ISO_KERNEL,
    ISO_COPY,     /* a reshard that every slot computes from its own part */
    ISO_BEGIN,    /* starts an exchange that ends later */
    ISO_EXCHANGE, /* reshards between slots; ends them if they were begun before */
} iso_instruction_kind;

/* The way in which an exchange does a reshard. */
typedef enum iso_move_kind {
    ISO_MOVE_BOXES, /* every slot takes the boxes it needs and adds partial sums: one exchange */
    /* all-reduce in place: every slot of a group adds its chunk, and writes it into the copies of its domain */
    ISO_MOVE_SCATTER,
    ISO_MOVE_GATHER, /* then every slot takes the chunks that it has not been given */
} iso_move_kind;

typedef struct iso_move {
    iso_move_kind kind;
    int from, to; /* values */
    bool
        own_sum; /* SCATTER, GATHER: the sum is in memory of its own, because the partial sums are read later */
    bool gathered; /* SCATTER: a GATHER follows */
} iso_move;

/* Whether both values of a move are in the same memory. */
static inline bool iso_move_in_place(const iso_move *move)
{
    return move->kind != ISO_MOVE_BOXES && !move->own_sum;
}

/* The axes along which a move of a program's values adds partial sums. */
static inline uint32_t iso_move_summed_axes(const iso_program *program, const iso_move *move)
{
    const iso_program_value *values = program->values;
    return values[move->from].layout.partial & ~values[move->to].layout.partial;
}

/* The data that the exchange of an instruction moves. */
typedef enum iso_payload {
    ISO_PAYLOAD_MOVES,     /* `moves` */
    ISO_PAYLOAD_GRADIENTS, /* BEGIN: a bucket's, which the end of the step awaits */
    ISO_PAYLOAD_WEIGHTS,   /* a bucket's new weights of the step before, if that has left them */
} iso_payload;

typedef struct iso_instruction {
    iso_instruction_kind kind;
    iso_payload payload;
    int bucket;              /* of another payload than MOVES */
    int step;                /* KERNEL, COPY: of the program */
    int input;               /* READ: which */
    int first_move, n_moves; /* EXCHANGE, and its BEGIN */
    int begin, end;          /* EXCHANGE: instruction that begins it, may be itself; BEGIN: that ends it, or
                                n_instructions: the end of the step */
    bool constant;           /* EXCHANGE: it reads variables, which change only at the end of a step */
    iso_exchange *exchange;
} iso_instruction;

/* The locations of slots and variables, on which plans depend. Lent; must outlive the plan. */
struct iso_plan;
typedef struct iso_site {
    iso_fabric *fabric; /* for iso_plan_connect; NULL for a dry run */
    const iso_backend *backend;
    const iso_device *device;                 /* of this rank, for which kernels are looked for */
    const int *host_of_slot, *domain_of_slot; /* [n_slots] */
    bool one_host, one_domain;                /* all slots are on one host, in one memory domain */
    /* Where slots are on GPUs: how those of a host exchange, and iso_topology.chunk_bytes. */
    iso_device_exchange device_exchange;
    size_t chunk_bytes;
    bool nccl_adds;       /* --collectives nccl */
    int intra_op_threads; /* that divide the work of a slot's ops, for memory; 0: one */
    /* Bytes that the executor needs for each slot to run a plan, in addition to what the plan places;
     * NULL: unknown. */
    size_t (*slot_tables)(const struct iso_plan *plan);
    /* The offset in the area that its domain shares, in bytes, of the copy of a variable that this slot (of any
     * domain) uses. */
    size_t (*variable_offset)(const void *arg, const iso_variable *variable, int slot);
    const void *arg;
} iso_site;

/* A gradient that is not computed as a whole: the optimizer computes the parts that it uses from the
 * inputs of all slots of the group. */
enum { ISO_FUSED_TERMS = 2 };
typedef struct iso_fused_update {
    int bucket, member;
    int n_terms;
    int term
        [ISO_FUSED_TERMS]; /* steps of the program: a product; the gradient of a look-up, perhaps added to it */
} iso_fused_update;

/* The scratch memory in which the optimizer computes it: what the calls of each slot of the group prepare; then a
 * thread's own: blocks of whole rows, as many as are in use at once, and the scratch memory of a part. */
typedef struct iso_fused_update_room {
    int64_t rows;                   /* rows of a block */
    size_t block, slot_calls, part; /* bytes of each, multiples of ISO_ALIGN */
    size_t call[ISO_FUSED_TERMS];   /* offset of a term's call within those of its slot */
    size_t thread;                  /* bytes of a thread's own; the last are the part's */
    size_t bytes;                   /* bytes in all, for one thread */
} iso_fused_update_room;

/* The bytes for several threads of a slot. */
static inline size_t iso_fused_update_bytes(const iso_fused_update_room *room, int threads)
{
    return room->bytes + (size_t)(threads - 1) * (room->thread + ISO_THREAD_GAP);
}

/* A plan. Targets of the exchange that ends a step, other than the values of its moves, are numbered after
 * the program's values. */
typedef struct iso_plan {
    const iso_program *program;
    const iso_bucket_list *buckets;
    const iso_site *site;
    int64_t rows;
    int n_instructions;
    iso_instruction *instructions;
    int n_moves;
    iso_move *moves;
    iso_location *location; /* [n_values] */
    int *root;              /* [n_values] the value that owns its memory */
    iso_live_range
        *live_range; /* [n_values] for roots in the arena and the shared area, except gradients in buckets */
    /* Of each slot. The shared area has everything that other slots read, and private values where it has free memory
     * for them. */
    size_t arena_bytes, shared_bytes, constant_bytes;
    /* the end of a step */
    iso_exchange *epilogue; /* scalars, faults and the gradients of buckets that do not begin earlier */
    int *bucket_begin;      /* [n_buckets] the instruction that begins the exchange of its gradients;
                               n_instructions: the end of the step */
    iso_exchange **bucket_exchange; /* [n_buckets] that exchange; set by iso_plan_connect */
    int epilogue_first_move, n_epilogue_moves;
    iso_exchange *faults; /* before it, if slots are many: slot 0 adds their faults, and all take the sum
                             in `epilogue`; else NULL */
    size_t fault_offset;  /* in the shared area: two doubles, what the slot adds to the faults and the sum */
    int fault_target;     /* number of the target that gets the sum of the faults of all slots */
    int n_fused_updates;
    iso_fused_update *fused_updates;
    bool *step_fused; /* [n_steps] */
    /* Where gradients are stored: those of fused updates are not. Of a bucket's flat range its storage has the other
     * members, in the same order. */
    size_t *bucket_offset;  /* [n_buckets] of the storage in the shared area */
    int64_t *bucket_stored; /* [n_buckets] elements of the storage */
    int64_t **
        member_stored; /* [n_buckets][n_members] where a member begins in the storage; fused: where it would */
    bool **member_copied; /* [n_buckets][n_members] gradients computed elsewhere, which the end of the step
                              copies into the bucket */
    int **
        member_live; /* [n_buckets][n_members] the first instruction that writes a gradient where it is stored;
                             n_instructions: the end of the step */
    int *bucket_pull;            /* [n_buckets * n_slots] the pull of a local slot; set by iso_plan_connect */
    iso_exchange *weight_gather; /* sends new parts of weights to other domains; NULL in one domain */
    /* [n_buckets] the same for one bucket, in the next step, for a step that leaves out weight_gather: EXCHANGE with
     * payload WEIGHTS; -1: other domains need none of its weights. The exchanges are set by iso_plan_connect. */
    int *bucket_gather_end;
    iso_exchange **bucket_gather;
    uint64_t
        owners_visited; /* slots that were looked at to find the new weights, as a measure of the time to connect */
    double *step_flops; /* [program's n_steps] on all slots; 0 where there is no op */
    double flops;       /* of one step on all slots */
} iso_plan;

/* Schedules all instructions and assigns all memory. */
iso_status iso_plan_create(const iso_program *program, const iso_bucket_list *buckets, const iso_site *site,
                           int64_t rows, iso_plan **plan);
iso_fused_update_room iso_plan_fused_update_room(const struct iso_plan *plan, const iso_fused_update *fused,
                                                 int slot);
/* The elements of a bucket's storage that hold the gradients of a slot's part. */
void iso_plan_stored_part(const iso_plan *plan, int bucket, int slot, int64_t *begin, int64_t *count);
/* Bytes of a bucket's storage in each slot. */
size_t iso_plan_stored_bytes(const iso_plan *plan, int bucket);
/* The fused update of a bucket's member; -1: none. */
int iso_plan_fused_of(const iso_plan *plan, int bucket, int member);
/* Whether a value, an input of a term, is the term before it, which is not computed as a whole. */
bool iso_plan_reads_term(const iso_plan *plan, int value);
/* Floating-point operations of a slot's share of it. */
double iso_plan_fused_flops(const iso_plan *plan, const iso_fused_update *fused, int slot);
/* Bytes of the other slots' inputs that a slot reads to compute elements [first, first + count) of its gradient. */
double iso_plan_fused_bytes(const iso_plan *plan, const iso_fused_update *fused, int slot, int64_t first,
                            int64_t count);
/* Makes the exchanges, after the fabric has room for the plan's shared_bytes. Collective. */
iso_status iso_plan_connect(iso_plan *plan);
void iso_plan_destroy(iso_plan *plan);
/* Whether operations are so many of a step's that they hide an exchange: at least a hundredth. */
static inline bool iso_plan_hides(double flops, double all)
{
    return flops >= all / 100;
}
/* Whether the exchange of a bucket's gradients begins while slots compute. */
bool iso_plan_overlaps(const iso_plan *plan, int bucket);
/* The shape of a value's tensor with the plan's rows; the box of it that a slot holds. */
iso_shape iso_plan_shape(const iso_plan *plan, int value);
iso_box iso_plan_box(const iso_plan *plan, int value, int slot);
/* A slot's part of a value, without data. */
iso_array iso_plan_array(const iso_plan *plan, int value, int slot);
/* Whether a device whose memory the host cannot access has buffers for the slot's part of an input, which takes so
 * many bytes. Kernels read less than that in pinned memory. */
static inline bool iso_plan_buffers_input(size_t bytes)
{
    enum { READ_BY_KERNELS = 1 << 14 };
    return bytes > READ_BY_KERNELS;
}
/* The call of a step's op for a slot, without data. in and out have room for ISO_MAX_INPUTS and
 * ISO_MAX_OUTPUTS. */
void iso_plan_call(const iso_plan *plan, int step, int slot, iso_array *in, iso_array *out,
                   iso_kernel_call *call);
/* Bytes of one copy of this many elements of a variable: each copy has cache lines of its own. */
size_t iso_plan_copy_bytes(const iso_variable *variable, int64_t elements);
/* Floating-point operations of a kernel instruction: of a slot, and of all slots. */
double iso_plan_flops(const iso_plan *plan, const iso_program_step *step, int slot);
double iso_plan_flops_of_all(const iso_plan *plan, const iso_program_step *step);

#endif
