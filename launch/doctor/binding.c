/* Which cores each rank may use. */
#include "launch/doctor/list.h"

enum { GOOD, SHARED };
static const iso_doctor_outcome outcomes[] = {
    [GOOD] = {"good", ISO_DOCTOR_OK, NULL},
    [SHARED] = {"shared", ISO_DOCTOR_WARNING,
                "ranks are bound to the same cores while others are idle: --bind-to none, as launch/mpirun "
                "does, or srun "
                "--cpu-bind=none"},
};

/* The part of cores that the rank has where each core is divided between the ranks that may use it. */
static double share_of(const iso_doctor *doctor, int rank, const int *counts)
{
    double share = 0;
    for (int cpu = 0; cpu < ISO_MAX_CORES; cpu++)
        if (iso_cores_have(&doctor->facts[rank].mask, cpu))
            share += 1.0 / counts[cpu];
    return share;
}

static double least_share(const iso_doctor *doctor, int host, const int *counts)
{
    double least = ISO_MAX_CORES;
    for (int rank = 0; rank < iso_ranks(doctor->ctx); rank++) {
        double share = iso_host_of_rank(doctor->ctx, rank) == host ? share_of(doctor, rank, counts) : least;
        least = share < least ? share : least;
    }
    return least;
}

static bool are_disjoint(const int *counts)
{
    for (int cpu = 0; cpu < ISO_MAX_CORES; cpu++)
        if (counts[cpu] > 1)
            return false;
    return true;
}

static iso_status run(const iso_doctor *doctor, iso_doctor_finding *finding)
{
    int host = iso_doctor_host(doctor), ranks = iso_host_ranks(doctor->ctx), counts[ISO_MAX_CORES];
    int cores = iso_doctor_host_cores(doctor, host, counts),
        online = doctor->facts[iso_rank(doctor->ctx)].cores;
    double share = least_share(doctor, host, counts), fair = ranks < online ? 1 : (double)online / ranks;
    if (share < 0.99 * fair)
        return iso_doctor_find(finding, SHARED, -share,
                               "%d ranks are bound to %d of %d cores: one has %.2g of a core", ranks, cores,
                               online, share);
    if (are_disjoint(counts) && ranks > 1)
        return iso_doctor_find(finding, GOOD, 0, "each rank has cores of its own, %d of %d together", cores,
                               online);
    if (cores < online)
        return iso_doctor_find(finding, GOOD, 0, "bound to %d of %d cores", cores, online);
    return iso_doctor_find(finding, GOOD, 0, "not bound");
}

const iso_doctor_check iso_doctor_check_binding = {
    .name = "binding",
    .looks_at = "the cores that the ranks may use",
    .scope = ISO_DOCTOR_HOSTS,
    .run = run,
    ISO_DOCTOR_OUTCOMES(outcomes),
};
