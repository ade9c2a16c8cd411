/* How reports are made. For runtime/report only. */
#ifndef ISO_REPORT_PLAN_REPORT_IMPL_H
#define ISO_REPORT_PLAN_REPORT_IMPL_H

#include "runtime/plan/plan_impl.h"
#include "runtime/report/report.h"

/* The copies of variables that are sharded over a set of axes: each memory domain has one of every box that its
 * slots hold. */
typedef struct iso_copies {
    int n_holders; /* of all domains */
    int *holders;  /* [n_holders] the first slot in its domain that holds a copy, domain by domain; NULL: no
                     variable has this layout */
    int *first;    /* [n_domains + 1] the range of a domain's holders */
    double even; /* number of domains that have a copy of each box, if it is the same for every box; else 0 */
} iso_copies;

typedef struct iso_reporter {
    const iso_plan *plan;
    const iso_program *program;
    const iso_mesh *mesh;
    iso_plan_report *report;
    int *user;                  /* [n_values] the first step that reads it, skipping reshapes; -1: none */
    int *update_of;             /* [n_values] the change whose gradient it is; -1: none */
    int *kernels_before;        /* [n_instructions + 1] kernels among the instructions before */
    int *instruction_of;        /* [n_steps] -1: the step has none of its own */
    int *bucket_of, *member_of; /* [graph->variables] bucket -1: no optimizer updates it */
    double update_bytes;        /* that slots take only in a step that changes weights */
    double *bucket_weights;     /* [n_buckets] those of each bucket */
    int n_domains;
    int *domain_begin, *by_domain;        /* [n_domains + 1], [n_slots]: the slots of each domain, in order */
    int *domain_host, *host_slots;        /* [n_domains]: its host, the slots of that */
    int64_t *scratch;                     /* [n_slots] bytes that its kernels need; -1: not counted yet */
    iso_copies copies[1 << ISO_MAX_AXES]; /* by the axes that shard */
} iso_reporter;

enum { ISO_REPORT_FEW_DOMAINS = 8 }; /* each of which is examined */

/* plan_report.c */
iso_report_origin iso_report_origin_of(const iso_reporter *r, const iso_op *op);
/* "data, model" of the axes whose bits are set. */
void iso_report_axes(const iso_mesh *mesh, uint32_t axes, char *text, size_t size);
int64_t iso_report_value_bytes(const iso_reporter *r, int value);
/* Slots of state that the optimizer of a bucket keeps. */
int iso_report_state_slots(const iso_bucket *bucket);
/* plan_hosts.c: which slots are on which host and in which domain, and what they hold */
iso_status iso_report_hosts(iso_reporter *r);
void iso_report_free_hosts(iso_reporter *r);
/* plan_moves.c: what moves between slots */
/* The axes whose slots share the update of a bucket, so that each takes new weights from the others. */
uint32_t iso_report_update_axes(const iso_reporter *r, int number);
iso_status iso_report_moves(iso_reporter *r);
/* plan_messages.c: buffers for messages of a domain and its host, in bytes */
typedef struct iso_report_buffers {
    double gpu;  /* in the memory of the domain's GPU */
    double host; /* in that of its host, for all domains of it */
    double sums; /* of those in the memory of the GPU: of the sums that NCCL adds */
    int sets;    /* of GPUs that add together */
} iso_report_buffers;
iso_status iso_report_messages(const iso_reporter *r, int domain, iso_report_buffers *buffers);
/* plan_sums.c: areas of the sums that NCCL adds */
typedef struct iso_report_sums iso_report_sums;
/* A sum that a slot reads. */
typedef struct iso_summed_region {
    uint64_t key;      /* of the sum, in its exchange */
    const int *source; /* [count] slots */
    int count;
    int domain;  /* of the slot that reads it */
    bool shared; /* domains that are not counted read it too */
    iso_dtype dtype;
    iso_reduce reduce;
    int64_t elements;
} iso_summed_region;
/* domain_of_slot is lent. only: the one domain whose sets are counted; -1: all are. *sums is to be freed, also after
 * an error. */
iso_status iso_report_sums_create(const int *domain_of_slot, int n_domains, int only, iso_report_sums **sums);
void iso_report_sums_free(iso_report_sums *sums);
/* Adds a sum to the exchange. *taken: NCCL adds it, since its sources are in several domains, one of which reads. */
iso_status iso_report_sums_add(iso_report_sums *sums, const iso_summed_region *region, bool *taken);
/* The bytes of the exchange's area in each domain. The sums that are added next are those of another exchange. */
size_t iso_report_sums_end(iso_report_sums *sums);
/* The number of sets so far. NULL: 0. */
int iso_report_sums_sets(const iso_report_sums *sums);
/* plan_memory.c: memory by use, and its peak; whether what slots share is in the memory of GPUs too */
bool iso_report_is_on_gpus(const iso_reporter *r);
iso_status iso_report_memory_of(iso_reporter *r);

#endif
