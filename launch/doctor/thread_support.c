/* The level of thread support of MPI. */
#include "launch/doctor/list.h"

enum { ENOUGH, SINGLE };
static const iso_doctor_outcome outcomes[] = {
    [ENOUGH] = {"enough", ISO_DOCTOR_OK, NULL},
    [SINGLE] = {"single", ISO_DOCTOR_ERROR,
                "use an MPI library that was built with support for threads, or one thread for each rank "
                "(--threads 1)"},
};

static iso_status run(const iso_doctor *doctor, iso_doctor_finding *finding)
{
    iso_thread_support level = doctor->mpi.level;
    const char *name = iso_thread_support_name(level);
    if (!doctor->mpi.running)
        return iso_doctor_find(finding, ISO_DOCTOR_NOT_CHECKED, 0, "MPI is not started");
    if (level == ISO_THREAD_SINGLE && iso_threads(doctor->ctx) > 1)
        return iso_doctor_find(finding, SINGLE, 0, "%s, and ranks have %d threads", name,
                               iso_threads(doctor->ctx));
    return iso_doctor_find(finding, ENOUGH, 0, "%s", name);
}

const iso_doctor_check iso_doctor_check_thread_support = {
    .name = "thread-level",
    .looks_at = "the level of thread support that MPI provides",
    .scope = ISO_DOCTOR_RANKS,
    .run = run,
    ISO_DOCTOR_OUTCOMES(outcomes),
};
