/* What test programs that train on one mesh begin and end with. */
#ifndef ISO_TESTS_SUPPORT_DATA_PARALLEL_H
#define ISO_TESTS_SUPPORT_DATA_PARALLEL_H

#include "runtime/isogrid.h"

/* A session, a mesh of these axes and data parallelism over it. */
iso_status data_parallel_begin(const char *axes, iso_context **ctx, iso_mesh **mesh,
                               iso_distribution **distribution);
/* Ends all of it, also where beginning failed, with its status; returns the exit code of the program. */
int data_parallel_end(iso_context *ctx, iso_mesh *mesh, iso_distribution *distribution, iso_status status);

#endif
