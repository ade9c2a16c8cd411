/* The steps of making a plan. */
#ifndef ISO_PLAN_PLAN_IMPL_H
#define ISO_PLAN_PLAN_IMPL_H

#include "runtime/plan/plan.h"

/* Groups of more than this many slots do every all-reduce in place, whatever its size: the work of one exchange
 * grows with the number of slots. A slot does not write its chunk into so many copies: the others take it. */
enum { ISO_PLAN_MANY = 64 };

/* fused_update.c: chooses the gradients that are left to the optimizer */
iso_status iso_plan_fuse_updates(iso_plan *plan);
/* schedule.c: instructions and moves from the program's steps */
iso_status iso_plan_schedule(iso_plan *plan);
/* early_buckets.c: begins the exchanges of buckets while slots compute */
iso_status iso_plan_begin_buckets(iso_plan *plan);
/* buffer_assignment.c: finds the values that own memory, but for kernels that work in place */
void iso_plan_find_roots(iso_plan *plan);
/* then assigns memory to every value */
iso_status iso_plan_assign_buffers(iso_plan *plan);
/* slot_classes.c: whether there is a kernel for a step's op on every slot, and each of these kernels passes the
 * test `is`. */
typedef bool (*iso_kernel_test)(const iso_kernel *kernel, const iso_kernel_call *call);
bool iso_plan_all_kernels(const iso_plan *plan, int step, iso_kernel_test is);
/* The memory domain of a slot; whether all slots are in one. */
int iso_plan_domain_of(const iso_plan *plan, int slot);
bool iso_plan_in_one_domain(const iso_plan *plan);
/* A reshape passes on the memory of its input. */
bool iso_plan_is_alias(const iso_op *op);

#endif
