/* Buckets: the variables that one optimizer updates together.
 *
 * The gradients of a bucket are stored in one flat buffer in each slot's shared area. The slots that hold
 * the same parts of these variables form a group, and the flat range is split among them: each slot adds
 * its part of all gradients, updates that part of the weights with its part of the optimizer's state, and
 * writes it where all slots read it (Xu et al. 2020, arXiv 2004.13336). */
#ifndef ISO_PLAN_BUCKET_H
#define ISO_PLAN_BUCKET_H

#include "runtime/spmd/program.h"

typedef struct iso_bucket_member {
    int change; /* of the program */
    iso_variable *variable;
    iso_layout layout, update; /* of the variable; of its gradient and slots: the same or finer */
    int64_t offset;            /* of its gradient in the flat range, in elements */
    int64_t capacity;          /* elements reserved: the largest box */
} iso_bucket_member;

typedef struct iso_bucket {
    iso_dtype dtype;
    const iso_optimizer *optimizer;
    uint32_t axes; /* along which the updates' layouts are replicated: these slots share the update */
    int group;     /* number of slots that share it */
    int kind;      /* buckets of one kind are parts of one: they have the same optimizer, type and axes */
    int n_members;
    iso_bucket_member *members;
    int64_t total; /* elements of the flat range */
    int64_t part;  /* elements of each slot's part; the last may be shorter or empty */
} iso_bucket;

typedef struct iso_bucket_list {
    int count;
    iso_bucket *buckets;
    int kinds; /* of variables that one kernel updates: as many buckets unless they are split */
} iso_bucket_list;

/* Splitting, for meshes that cross hosts. A bucket is full with ISO_BUCKET_BYTES of gradients, or with this part
 * of the gradients of its kind if that is more, so that the number of buckets is bounded. A bucket adds a message
 * to each host and costs about the latency of one. On a network of 10 Gbit/s with a latency of 50 us, the product
 * of both is 64 kB: a bucket of that size spends as much time on the wire as it adds. Slower networks gain more
 * by smaller buckets than they lose. */
enum { ISO_BUCKET_BYTES = 1 << 16, ISO_BUCKETS_OF_A_KIND = 32 };

/* split: buckets are split by size; their members are in the order in which the gradients are computed. */
iso_status iso_buckets_create(const iso_program *program, bool split, iso_bucket_list *list);
void iso_buckets_destroy(iso_bucket_list *list);
/* Whether there are steps that change no weight: every optimizer accumulates gradients. */
bool iso_buckets_accumulate(const iso_bucket_list *list);
/* Adds "dense_1/kernel and 3 more", the variable whose gradient is the last one first. */
void iso_bucket_add_name(const iso_bucket *bucket, iso_text *text);
/* The slots that differ from `slot` along `axes` only, in increasing order, including `slot`; returns
 * their number. */
int iso_group_slots(const iso_mesh *mesh, uint32_t axes, int slot, int *slots);
/* The number of these slots, and the position of `slot` among them (*index). */
int iso_group_count(const iso_mesh *mesh, uint32_t axes, int slot, int *index);
/* The slot at position `index` among them. */
int iso_group_slot(const iso_mesh *mesh, uint32_t axes, int slot, int index);
/* The part of the flat range that a slot updates. */
void iso_bucket_part(const iso_bucket *bucket, const iso_mesh *mesh, int slot, int64_t *begin,
                     int64_t *count);

/* Elements that a slot updates and that are contiguous in its copy of the variable. */
typedef struct iso_bucket_run {
    int64_t begin, count; /* of the bucket's flat range */
    int64_t first;        /* in the slot's box of the update, row-major */
    int64_t at;           /* in the slot's box of the variable */
} iso_bucket_run;
typedef iso_status (*iso_bucket_run_visit)(void *arg, const iso_bucket_run *run);
/* Visits the runs of one member that a slot updates, in order. */
iso_status iso_bucket_visit_runs(const iso_bucket *bucket, const iso_bucket_member *member,
                                 const iso_mesh *mesh, int slot, iso_bucket_run_visit visit, void *arg);

#endif
