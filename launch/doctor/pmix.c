/* PMIx, by which a launcher tells each process its rank and how to reach the others. */
#include <stdlib.h>

#include "launch/doctor/list.h"

enum { FOUND, PMI, MISSING };
static const iso_doctor_outcome outcomes[] = {
    [FOUND] = {"found", ISO_DOCTOR_OK, NULL},
    [PMI] = {"pmi", ISO_DOCTOR_WARNING,
             "with Slurm: srun --mpi=pmix (srun --mpi=list shows what there is); otherwise use the mpirun of "
             "this MPI"},
    [MISSING] =
        {"missing", ISO_DOCTOR_ERROR,
         "srun --mpi=pmix (srun --mpi=list shows what there is); the MPI library needs support for PMIx"},
};

/* The number of tasks of an srun, 0 outside. The batch script and the shell of salloc have step numbers from
 * 0xfffffff0 up. */
static long step_tasks(void)
{
    const char *step = iso_doctor_variable("SLURM_STEP_ID"),
               *tasks = iso_doctor_variable("SLURM_STEP_NUM_TASKS");
    return step && tasks && iso_doctor_variable("SLURM_PROCID") && strtol(step, NULL, 10) < 0xfffffff0L
               ? strtol(tasks, NULL, 10)
               : 0;
}

static iso_status run(const iso_doctor *doctor, iso_doctor_finding *finding)
{
    const char *launcher = iso_doctor_variable("OMPI_COMM_WORLD_RANK") ? "mpirun"
                           : step_tasks()                              ? "srun"
                                                                       : "a launcher";
    const char *version = iso_doctor_variable("PMIX_VERSION");
    if (step_tasks() > 1 && iso_ranks(doctor->ctx) == 1)
        return iso_doctor_find(finding, MISSING, 0,
                               "srun started %ld tasks, but each is an MPI job of its own", step_tasks());
    if (iso_doctor_variable("PMIX_RANK"))
        return iso_doctor_find(finding, FOUND, 0, "PMIx%s%s, from %s", version ? " " : "",
                               version ? version : "", launcher);
    if (iso_doctor_variable("PMI_RANK"))
        return iso_doctor_find(finding, PMI, 0, "%s gives PMI-1 or PMI-2, not PMIx", launcher);
    return iso_doctor_find(finding, ISO_DOCTOR_NOT_CHECKED, 0, "no launcher");
}

const iso_doctor_check iso_doctor_check_pmix = {
    .name = "pmix",
    .looks_at = "whether the launcher tells processes their ranks by PMIx",
    .scope = ISO_DOCTOR_RANKS,
    .run = run,
    ISO_DOCTOR_OUTCOMES(outcomes),
};
