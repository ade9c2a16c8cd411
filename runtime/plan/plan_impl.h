/* The steps of making a plan. */
#ifndef ISO_PLAN_PLAN_IMPL_H
#define ISO_PLAN_PLAN_IMPL_H

#include "runtime/plan/plan.h"

/* Slots of a group from which on an all-reduce of any size goes in two halves: what each of them adds grows
 * with their number. */
enum { ISO_PLAN_MANY = 64 };

/* fused_update.c: which gradients are left to the optimizer */
iso_status iso_plan_fuse_updates(iso_plan *plan);
/* schedule.c: instructions and moves from the program's steps */
iso_status iso_plan_schedule(iso_plan *plan);
/* buffer_assignment.c: a place for every value */
iso_status iso_plan_assign_buffers(iso_plan *plan);
/* classes.c: whether a kernel fits a step's op on every slot, and each of these kernels is as `is` wants it.
 */
typedef bool (*iso_kernel_test)(const iso_kernel *kernel, const iso_kernel_call *call);
bool iso_plan_all_kernels(const iso_plan *plan, int step, iso_kernel_test is);
/* The host of a slot; whether all slots are on one. */
int iso_plan_host_of(const iso_plan *plan, int slot);
bool iso_plan_on_one_host(const iso_plan *plan);
/* A reshape passes its memory on. */
bool iso_plan_is_alias(const iso_op *op);

#endif
