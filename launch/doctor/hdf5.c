/* HDF5, which reads and writes checkpoints and data. */
#include "launch/doctor/list.h"
#include "runtime/checkpoint/facts.h"

enum { GOOD, NOT_PARALLEL, OTHER_VERSION };
static const iso_doctor_outcome outcomes[] = {
    [GOOD] = {"good", ISO_DOCTOR_OK, NULL},
    [NOT_PARALLEL] = {"not-parallel", ISO_DOCTOR_WARNING,
                      "--checkpoint-io mpio does not work; the default, direct, does. Load an HDF5 that was "
                      "built with MPI "
                      "(libhdf5-openmpi)"},
    [OTHER_VERSION] = {"other-version", ISO_DOCTOR_ERROR,
                       "HDF5 ends a program at its first file: load the library that Isogrid was compiled "
                       "with (module load, "
                       "LD_LIBRARY_PATH), or compile Isogrid again"},
};

static iso_status run(const iso_doctor *doctor, iso_doctor_finding *finding)
{
    iso_hdf5_facts facts;
    (void)doctor;
    iso_hdf5_facts_find(&facts);
    if (!facts.same)
        return iso_doctor_find(finding, OTHER_VERSION, 0,
                               "HDF5 %s is loaded, but Isogrid was compiled with %s", facts.loaded,
                               facts.compiled);
    if (!facts.parallel)
        return iso_doctor_find(finding, NOT_PARALLEL, 0, "HDF5 %s refuses its driver for MPI-IO",
                               facts.loaded);
    return iso_doctor_find(finding, GOOD, 0, "HDF5 %s, built with MPI", facts.loaded);
}

const iso_doctor_check iso_doctor_check_hdf5 = {
    .name = "hdf5",
    .looks_at = "HDF5: its version, and whether its driver for MPI-IO works",
    .scope = ISO_DOCTOR_RANKS,
    .run = run,
    ISO_DOCTOR_OUTCOMES(outcomes),
};
