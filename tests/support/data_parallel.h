/* The beginning and end of test programs that train on one mesh. */
#ifndef ISO_TESTS_SUPPORT_DATA_PARALLEL_H
#define ISO_TESTS_SUPPORT_DATA_PARALLEL_H

#include "runtime/isogrid.h"

/* A session, a mesh of these axes and data parallelism over it. */
iso_status data_parallel_begin(const char *axes, iso_context **ctx, iso_mesh **mesh,
                               iso_distribution **distribution);
/* Ends all of it with the status, also if beginning failed; returns the exit code of the program. */
int data_parallel_end(iso_context *ctx, iso_mesh *mesh, iso_distribution *distribution, iso_status status);

/* Where the slots of a mesh are: in blocks, as usual; all on the last rank; or each on another rank than the
 * one before, in no order. */
typedef enum placing { IN_BLOCKS, ON_THE_LAST_RANK, SCATTERED, PLACINGS } placing;
/* A mesh of at most 16 slots placed so, and data parallelism over it. With ON_THE_LAST_RANK and SCATTERED
 * ranks may be without slots. Collective. */
iso_status data_parallel_place(iso_context *ctx, const char *axes, placing how, iso_mesh **mesh,
                               iso_distribution **distribution);

#endif
