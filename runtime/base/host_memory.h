/* The memory of this machine that its processes may use. */
#ifndef ISO_BASE_HOST_MEMORY_H
#define ISO_BASE_HOST_MEMORY_H

#include <stdint.h>

/* Bytes; INT64_MAX where the system does not say. */
typedef struct iso_host_memory {
    int64_t limit;     /* memory and swap of the machine, or less, as a control group (cgroup) allows */
    int64_t available; /* of it, without what is in use and cannot be given back */
    char group[200];   /* the control group that sets the limit: "/slurm/job_7"; "": the machine does */
} iso_host_memory;

/* Reads /proc/meminfo, and the limits of this process's control groups, version 1 or 2, and of those above them.
 * root: before all of these paths; "" but in tests. Never fails. Local. */
void iso_host_memory_find(const char *root, iso_host_memory *memory);

#endif
