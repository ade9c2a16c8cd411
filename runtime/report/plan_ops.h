/* The ops of a step: what one slot does, in the order in which it does it, with keys that name no layer. Whoever
 * measures ops and whoever adds their times uses this list. */
#ifndef ISO_REPORT_PLAN_OPS_H
#define ISO_REPORT_PLAN_OPS_H

#include "runtime/plan/plan.h"

typedef enum iso_plan_op_kind {
    ISO_PLAN_OP_READ,     /* rows of the batch */
    ISO_PLAN_OP_KERNEL,   /* an instruction's */
    ISO_PLAN_OP_COPY,     /* an instruction's */
    ISO_PLAN_OP_BEGIN,    /* an instruction that begins an exchange */
    ISO_PLAN_OP_EXCHANGE, /* an instruction that ends one */
    ISO_PLAN_OP_PREPARE,  /* gradients are copied into their buckets */
    ISO_PLAN_OP_END,      /* the exchange of the end of a step */
    ISO_PLAN_OP_PRODUCT, /* the optimizer computes a gradient part by part, and updates the part of its weights */
    ISO_PLAN_OP_UPDATE, /* the optimizer adds the gradients of a bucket and updates the slot's part of its weights */
} iso_plan_op_kind;

typedef struct iso_plan_op {
    iso_plan_op_kind kind;
    int index;           /* of the instruction, the fused update, the bucket */
    char *key;           /* NULL: it has no time of its own (exchanges) */
    const char *type;    /* the op's type, "read", "copy", "update" */
    double flops, bytes; /* operations; bytes of inputs and outputs */
} iso_plan_op;

typedef struct iso_plan_ops {
    int count;
    iso_plan_op *op;
} iso_plan_ops;

/* The ops of a slot, while `busy` threads of its host work. ISO_NO_MEMORY. The caller frees them. */
iso_status iso_plan_ops_list(const iso_plan *plan, int slot, int busy, iso_plan_ops *ops);
void iso_plan_ops_free(iso_plan_ops *ops);

/* The slots of `slot`'s group that share the update of a bucket: how many are on its host, and how many partial sums
 * arrive from other hosts. */
void iso_plan_operands(const iso_plan *plan, int bucket, int slot, int *here, int *away);

#endif
