/* The cores of each host, and whether there is one for each rank. */
#include <stdlib.h>
#include <string.h>

#include "launch/doctor/list.h"

enum { ENOUGH, QUOTA, OVERSUBSCRIBED, NO_YIELD };
static const iso_doctor_outcome outcomes[] = {
    [ENOUGH] = {"enough", ISO_DOCTOR_OK, NULL},
    [QUOTA] = {"quota", ISO_DOCTOR_WARNING,
               "threads are stopped when the quota is used up: give the container whole cores (docker run "
               "--cpuset-cpus), or set "
               "--threads and the number of ranks to what the quota allows"},
    [OVERSUBSCRIBED] = {"oversubscribed", ISO_DOCTOR_WARNING,
                        "ranks take turns on the cores: use fewer ranks (the mesh may stay), or more hosts"},
    [NO_YIELD] = {"no-yield", ISO_DOCTOR_WARNING,
                  "waiting ranks keep the cores that others need, and messages take milliseconds: use "
                  "launch/mpirun, or export OMPI_MCA_mpi_yield_when_idle=1"},
};

/* Whether ranks that wait for a message leave their core to others. */
static bool yields(const iso_doctor *doctor)
{
    char value[32];
    return !doctor->mpi.running || !iso_mpi_setting("mpi_yield_when_idle", value, sizeof value) ||
           atoi(value) != 0;
}

/* The cores that the container may use at a time, by the kernel's control groups (version 2, then 1); 0: there is no
 * limit. */
static double find_quota(void)
{
    char quota[64], period[64];
    iso_doctor_read("/sys/fs/cgroup/cpu.max", quota, sizeof quota);
    const char *second = strchr(quota, ' ');
    if (!second) {
        iso_doctor_read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota, sizeof quota);
        iso_doctor_read("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period, sizeof period);
        second = period;
    }
    double used = atof(quota), of = atof(second); /* "max" and -1 are no limit */
    return used > 0 && of > 0 ? used / of : 0;
}

static iso_status run(const iso_doctor *doctor, iso_doctor_finding *finding)
{
    int ranks = iso_host_ranks(doctor->ctx), counts[ISO_MAX_CORES];
    int cores = iso_doctor_host_cores(doctor, iso_doctor_host(doctor), counts);
    double quota = find_quota();
    if (quota > 0 && quota < cores - 0.01)
        return iso_doctor_find(finding, QUOTA, -quota,
                               "%d rank%s on %d core%s, but a quota allows only %.3g at a time", ranks,
                               ranks == 1 ? "" : "s", cores, cores == 1 ? "" : "s", quota);
    int outcome = ranks <= cores ? ENOUGH : yields(doctor) ? OVERSUBSCRIBED : NO_YIELD;
    return iso_doctor_find(finding, outcome, (double)ranks / cores, "%d rank%s on %d core%s", ranks,
                           ranks == 1 ? "" : "s", cores, cores == 1 ? "" : "s");
}

const iso_doctor_check iso_doctor_check_cores = {
    .name = "cores",
    .looks_at = "whether each host has a core for each of its ranks",
    .scope = ISO_DOCTOR_HOSTS,
    .run = run,
    ISO_DOCTOR_OUTCOMES(outcomes),
};
