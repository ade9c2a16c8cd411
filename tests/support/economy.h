/* Finds out whether a program gathers, or computes repeatedly, tensors that could stay sharded by the rules of its
 * ops. Uses the program alone and none of the partitioner's code. */
#ifndef ISO_TESTS_SUPPORT_ECONOMY_H
#define ISO_TESTS_SUPPORT_ECONOMY_H

#include "runtime/spmd/program.h"

/* Fails the test, with `what` in the message, if along some axis of more than one slot all slots do the same work
 * for an op, although one of its inputs was sharded along that axis in a dimension that the op's rule allows to be
 * sharded, or over which the op can be decomposed. */
void check_economy(const iso_program *program, const char *what);

/* Which types of ops have been seen in programs (one count for each type in the list). */
void count_op_types(const iso_program *program, int *counts);

#endif
