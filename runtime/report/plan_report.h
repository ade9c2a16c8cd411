/* Reports on plans: the layout of every variable and the key that gave it, what each op computes on a slot,
 * what moves between slots and why, and the memory that it takes. Plain data, the same at run time and in a
 * dry run.
 * Functions are local unless their comment says otherwise. */
#ifndef ISO_REPORT_PLAN_REPORT_H
#define ISO_REPORT_PLAN_REPORT_H

#include "runtime/base/text.h"
#include "runtime/base/types.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ISO_REPORT_TEXT = 384 }; /* six axes of the longest names fit */

/* The op that computes something, and its layer. */
typedef struct iso_report_origin {
    const char *op;    /* the op's type, "matmul"; NULL: an input, a variable or a result of the step */
    const char *layer; /* the layer of the op; "" for ops outside of layers */
    bool backward;     /* part of the gradient */
    bool again;        /* and it computes an activation again (iso_recompute_begin) */
} iso_report_origin;

typedef struct iso_report_variable {
    const char *path;
    const char *reason; /* source of its layout: "key", "own" (given to the variable itself),
                           "distribution" (the user's), "zero" (weights sharded by ZeRO 3), "accumulation"
                           (sums of gradients, sharded at every level), "optimizer" (its state, where its rule is
                           built from ops, likewise), "default": none, so it is replicated */
    const char *key;    /* of the layout map, if that is the reason; else NULL */
    iso_dtype dtype;
    bool trainable;
    iso_shape shape, local; /* local: of slot 0, whose part is the largest */
    char layout[ISO_REPORT_TEXT];
    int split;                        /* number of slots that share its update; 0: no optimizer updates it */
    char split_axes[ISO_REPORT_TEXT]; /* "data, model": along which */
    int64_t bytes, gradient_bytes, state_bytes; /* of slot 0 */
} iso_report_variable;

typedef enum iso_report_kind {
    ISO_REPORT_READ,     /* rows of the batch */
    ISO_REPORT_OP,       /* a kernel */
    ISO_REPORT_PRODUCT,  /* a gradient that the optimizer computes part by part at the end of the step */
    ISO_REPORT_COPY,     /* a slot takes a part of what it holds */
    ISO_REPORT_BEGIN,    /* begins collectives that end with a later exchange */
    ISO_REPORT_EXCHANGE, /* collectives, which are listed separately */
    ISO_REPORT_END,      /* the end of the step: the last collectives, the optimizers, new weights */
} iso_report_kind;

/* An instruction of a slot. */
typedef struct iso_report_op {
    iso_report_kind kind;
    iso_report_origin origin;
    const char *tensor; /* its first output; NULL for exchanges and the end */
    const char *kernel; /* on slot 0; NULL if there is none */
    iso_shape shape, local;
    char layout[ISO_REPORT_TEXT];
    double flops;    /* on all slots */
    double repeated; /* slots that do the same work */
    int64_t live;    /* bytes of activations and gradients that a slot must keep while it runs */
    double
        taken; /* of an exchange, or at the end of the step: bytes that a slot takes from others, the mean */
    double arrives; /* of what begins or is an exchange: bytes that a host receives from other hosts */
    int senders;    /* how many hosts they come from */
} iso_report_op;

typedef struct iso_report_collective {
    char kind[ISO_REPORT_TEXT]; /* "all-gather", "reduce-scatter + all-gather" */
    char axes[ISO_REPORT_TEXT]; /* "data, model" */
    char tensor[ISO_REPORT_TEXT];
    iso_report_origin from, to; /* the op that computes it, and the first that waits for it */
    double bytes;   /* received from other slots in a step, in all; a slot receives bytes / slots */
    int begin, end; /* ops: at which it begins, and at which it must be complete */
    int overlaps;   /* ops that run between */
    bool next_step; /* new weights that a training loop sends in the next step; begin and end are ops of it */
} iso_report_collective;

/* Ops of one kind, and their time in a step of slot 0. */
typedef struct iso_report_op_time {
    const char *type;         /* the op's type, "read", "copy", "update" */
    iso_report_origin origin; /* of the first of them, if it is an op */
    int count;
    double seconds; /* of all of them */
    bool measured;  /* on these shapes; else estimated from other ones */
} iso_report_op_time;

enum { ISO_REPORT_LARGEST = 10 };

/* The parts of the time of a step, in seconds. step = computation + update + intra_host + exposed. */
typedef struct iso_report_time {
    double step;
    double computation; /* of kernels and copies */
    double update;      /* of the optimizers, with the sums of gradients */
    double intra_host;  /* exchanges within a host: waiting for each other, and taking what others hold */
    double exposed;     /* waits for messages of other hosts, and sending them */
    double in_flight;   /* messages of the host are on their way; hidden is what is not waited for */
    double hidden;
    double measured; /* the part of computation and update that was measured on the same shapes, in [0, 1] */
    int n_ops;
    iso_report_op_time ops[ISO_REPORT_LARGEST];              /* the largest first */
    char machine[ISO_REPORT_TEXT], network[ISO_REPORT_TEXT]; /* what was measured, and when; "" on one host */
    char processor[ISO_REPORT_TEXT]; /* this machine's, if another one was measured; else "" */
    /* The plan's backend and the measured one, if they differ; else "". */
    char backend[ISO_REPORT_TEXT], measured_backend[ISO_REPORT_TEXT];
    /* This build of Isogrid and the one that measured, if they differ; else "". */
    char build[ISO_REPORT_TEXT], measured_build[ISO_REPORT_TEXT];
} iso_report_time;

/* Bytes by use. */
typedef struct iso_report_memory {
    int64_t weights;     /* all variables but the optimizers' state */
    int64_t gradients;   /* the buckets that the optimizers read */
    int64_t optimizer;   /* state such as momentum */
    int64_t activations; /* everything else that ops compute, including backward */
    int64_t buffers;     /* scratch of kernels, constants, messages, the plan itself */
    int64_t total;
} iso_report_memory;

/* A variable with its gradient and state, or an activation. */
typedef struct iso_report_weight {
    const char *name;
    bool variable;
    iso_report_origin from; /* of an activation: the op that computes it */
    int64_t bytes;          /* of slot 0 */
} iso_report_weight;

enum { ISO_REPORT_HEAVIEST = 3 };

typedef struct iso_plan_report {
    char mesh[256];
    bool training;
    int n_slots, n_hosts, n_host_slots; /* n_host_slots: of the fullest host */
    int n_domains;                      /* memory domains of all hosts; a variable has a copy in each */
    const int *rank_of_slot; /* [n_slots] if the caller listed them, lent from the mesh; NULL: in blocks */
    int64_t rows;
    const char *backend;
    int n_variables, n_ops, n_collectives;
    iso_report_variable *variables;
    iso_report_op *ops; /* in the order in which a slot runs them; the last is the end of the step */
    iso_report_collective *collectives;
    /* Of the slot alone on a host that needs the most; of the fullest host. */
    iso_report_memory slot, host;
    /* If slots compute on GPUs (n_gpu_slots > 0), `slot` is memory of the GPU, of a slot alone on one; `gpu` is
     * that of the fullest GPU, which n_gpu_slots share; `host` is memory of the host. */
    iso_report_memory gpu;
    int n_gpu_slots;
    /* Other GPUs of its host with which it exchanges by NCCL, and the bytes, not in `gpu`, that NCCL takes there for
     * itself: at least, over PCIe, and at most, over NVLink switches. */
    int nccl_peers;
    int64_t nccl_least, nccl_most;
    /* With --collectives nccl: bytes of `gpu` for what NCCL adds, and the sets of GPUs that add together. On many
     * GPUs the sets of one of them alone are counted. */
    int64_t nccl_sums;
    int nccl_sets;
    int peak;           /* the op at which most memory is live */
    int64_t peak_bytes; /* of a slot at that op, including weights */
    int heaviest;
    iso_report_weight heavy[ISO_REPORT_HEAVIEST]; /* of a slot, the heaviest first */
    int64_t parameters;                           /* elements of trainable variables, global */
    double flops, bytes;                          /* of a step, of all slots; without the optimizers' */
    double hidden;                                /* of these bytes, those that travel while slots compute */
    double accumulation_bytes; /* of a step that only accumulates gradients; `bytes` if there is none */
    double flops_again;        /* of `flops`, those that compute activations again (iso_recompute_begin) */
    int64_t
        activations_kept;  /* slot.activations if they were kept instead; 0: nothing is computed again, or the
                                 report is of a run */
    iso_report_time *time; /* the time of a step, if it was asked for; else NULL */
} iso_plan_report;

ISO_API void iso_plan_report_destroy(iso_plan_report *report);
/* Prints tables of variables, ops, collectives and memory. */
ISO_API void iso_plan_report_print(const iso_plan_report *report, iso_text *text);
/* Prints one JSON object, as docs/plan.md describes it. ISO_NO_MEMORY. Local. */
ISO_API iso_status iso_plan_report_json(const iso_plan_report *report, iso_text *text);

#ifdef __cplusplus
}
#endif
#endif
