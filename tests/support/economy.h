/* Whether a program gathers, or computes twice, what the rules of its ops let stay sharded: found out from
 * the program alone, by none of the partitioner's code. */
#ifndef ISO_TESTS_SUPPORT_ECONOMY_H
#define ISO_TESTS_SUPPORT_ECONOMY_H

#include "runtime/spmd/program.h"

/* Ends the test, with `what` in the message, where along some axis of more than one slot an op is done alike
 * by all slots although one of its inputs was sharded along that axis in a dimension that the op's rule lets
 * be sharded, or that the op can be split over. */
void check_economy(const iso_program *program, const char *what);

/* Which types of ops have been seen in programs (one count for each type in the list). */
void count_op_types(const iso_program *program, int *counts);

#endif
