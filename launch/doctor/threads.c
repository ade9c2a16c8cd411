/* The threads of each rank, and the cores for them. */
#include "launch/doctor/list.h"

enum { GOOD, MANY };
static const iso_doctor_outcome outcomes[] = {
    [GOOD] = {"good", ISO_DOCTOR_OK, NULL},
    [MANY] =
        {"many", ISO_DOCTOR_WARNING,
         "omit --threads and ISOGRID_THREADS: the default divides the cores between the ranks of a host"},
};

static iso_status run(const iso_doctor *doctor, iso_doctor_finding *finding)
{
    int threads = iso_threads(doctor->ctx), ranks = iso_host_ranks(doctor->ctx), counts[ISO_MAX_CORES];
    int cores = iso_doctor_host_cores(doctor, iso_doctor_host(doctor), counts);
    bool many = threads > 1 && threads * ranks > cores;
    return iso_doctor_find(
        finding, many ? MANY : GOOD, threads, "%d thread%s for each of %d rank%s, on %d core%s", threads,
        threads == 1 ? "" : "s", ranks, ranks == 1 ? "" : "s", cores, cores == 1 ? "" : "s");
}

const iso_doctor_check iso_doctor_check_threads = {
    .name = "threads",
    .looks_at = "the threads of each rank, and the cores for them",
    .scope = ISO_DOCTOR_RANKS,
    .run = run,
    ISO_DOCTOR_OUTCOMES(outcomes),
};
