/* MPI-IO: which implementation Open MPI uses, and locks that killed jobs left behind. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "launch/doctor/list.h"

enum { GOOD, OMPIO, LEFT_LOCKS };
static const iso_doctor_outcome outcomes[] = {
    [GOOD] = {"good", ISO_DOCTOR_OK, NULL},
    [OMPIO] = {"ompio", ISO_DOCTOR_WARNING,
               "a job that is killed while it opens a file leaves a lock, and the next open hangs: unset "
               "OMPI_MCA_io, or set it to romio321"},
    [LEFT_LOCKS] = {"left-locks", ISO_DOCTOR_WARNING,
                    "if none of your jobs runs there, remove these files: rm /dev/shm/sem.OMPIO_*"},
};

static const char folder[] = "/dev/shm", lock_name[] = "sem.OMPIO_";

/* The number of locks in /dev/shm, and the name of one. */
static int count_locks(char *name, size_t size)
{
    int count = 0;
    DIR *all = opendir(folder);
    for (const struct dirent *entry; all && (entry = readdir(all));)
        if (!strncmp(entry->d_name, lock_name, sizeof lock_name - 1) && count++ == 0)
            snprintf(name, size, "%s", entry->d_name);
    if (all)
        closedir(all);
    return count;
}

static iso_status run(const iso_doctor *doctor, iso_doctor_finding *finding)
{
    char io[64] = "", name[256];
    if (!doctor->mpi.running)
        return iso_doctor_find(finding, ISO_DOCTOR_NOT_CHECKED, 0, "MPI is not started");
    if (!iso_mpi_setting("io", io, sizeof io))
        return iso_doctor_find(finding, GOOD, 0, "that of this MPI, which is not Open MPI");
    bool romio = !strncmp(io, "romio", 5) || strstr(io, "^ompio");
    int locks = romio ? 0 : count_locks(name, sizeof name);
    if (locks)
        return iso_doctor_find(finding, LEFT_LOCKS, locks,
                               "OMPIO is used, and %d lock%s of it %s there: %s/%s", locks,
                               locks == 1 ? "" : "s", locks == 1 ? "is" : "are", folder, name);
    return iso_doctor_find(finding, romio ? GOOD : OMPIO, 0,
                           romio ? "%s" : "%s is used, which leaves locks behind", romio ? io : "OMPIO");
}

const iso_doctor_check iso_doctor_check_mpi_io = {
    .name = "mpi-io",
    .looks_at = "the implementation of MPI-IO, for --checkpoint-io mpio",
    .scope = ISO_DOCTOR_HOSTS,
    .run = run,
    ISO_DOCTOR_OUTCOMES(outcomes),
};
