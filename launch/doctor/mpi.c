/* The MPI library. */
#include <string.h>

#include "launch/doctor/list.h"

enum { STARTED, NOT_STARTED, OTHER_VERSION, DIFFERS };
static const iso_doctor_outcome outcomes[] = {
    [STARTED] = {"started", ISO_DOCTOR_OK, NULL},
    [NOT_STARTED] = {"not-started", ISO_DOCTOR_OK, NULL},
    [OTHER_VERSION] = {"other-version", ISO_DOCTOR_WARNING,
                       "load the MPI that Isogrid was compiled with (module load, LD_LIBRARY_PATH), or "
                       "compile Isogrid again"},
    [DIFFERS] = {"differs", ISO_DOCTOR_ERROR,
                 "use one MPI library on all hosts (module load, LD_LIBRARY_PATH)"},
};

/* Whether two versions have the same text up to their second dot: "Open MPI v4.1". Where the headers' version is not
 * known, it counts as the same. */
static bool is_same_series(const char *compiled, const char *library)
{
    const char *dot = strchr(compiled, '.'), *second = dot ? strchr(dot + 1, '.') : NULL;
    return !second || !strncmp(compiled, library, (size_t)(second - compiled) + 1);
}

static iso_status run(const iso_doctor *doctor, iso_doctor_finding *finding)
{
    const iso_mpi_facts *mpi = &doctor->mpi;
    if (!is_same_series(mpi->compiled, mpi->library))
        return iso_doctor_find(finding, OTHER_VERSION, 0, "%s is loaded, but Isogrid was compiled with %s",
                               mpi->library, mpi->compiled);
    if (!mpi->running)
        return iso_doctor_find(
            finding, NOT_STARTED, 0,
            "%s; not started, because no launcher started this process: run the doctor with mpirun "
            "or srun too",
            mpi->library);
    return iso_doctor_find(finding, STARTED, 0, "%s", mpi->library);
}

const iso_doctor_check iso_doctor_check_mpi = {
    .name = "mpi",
    .looks_at = "the MPI library: its version, on each host",
    .scope = ISO_DOCTOR_RANKS,
    .differs = DIFFERS,
    .run = run,
    ISO_DOCTOR_OUTCOMES(outcomes),
};
