/* Shared memory: what ranks of a host share, and the room in /dev/shm.
 *
 * Open MPI's transport within a host (vader) makes a file of btl_vader_segment_size bytes (4 MiB) in /dev/shm
 * for each rank. Isogrid's windows are files without a name, which do not count there; only where the ranks may
 * not open each other's files they are in /dev/shm, and hold the weights, gradients and optimizer state of all
 * slots of the host. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "launch/doctor/list.h"

enum { GOOD, CONTAINER, FILES, FULL };
static const iso_doctor_outcome outcomes[] = {
    [GOOD] = {"good", ISO_DOCTOR_OK, NULL},
    [CONTAINER] = {"small", ISO_DOCTOR_WARNING,
                   "a container's default of 64 MB is soon full: docker run --shm-size=1g (or --ipc=host), "
                   "else mount -o "
                   "remount,size=1g /dev/shm"},
    [FILES] = {"files", ISO_DOCTOR_WARNING,
               "weights, gradients and optimizer state of the host must fit into /dev/shm: start the ranks "
               "of a host in one "
               "container as one user, and unset ISOGRID_SHM_FILES if it is set"},
    [FULL] = {"full", ISO_DOCTOR_ERROR,
              "jobs may not start: remove what is left in /dev/shm (ls -l /dev/shm), or make it larger: "
              "docker run --shm-size=1g, mount -o remount,size=1g /dev/shm"},
};

static const double small = 64 << 20, segment = 4 << 20; /* bytes */

/* What Open MPI puts there for each rank. */
static double bytes_of_rank(const iso_doctor *doctor)
{
    char value[32];
    bool known = doctor->mpi.running && iso_mpi_setting("btl_vader_segment_size", value, sizeof value);
    return known && atof(value) > 0 ? atof(value) : segment;
}

/* The folder of Open MPI's files. launch/mpirun gives each job one, usually below /dev/shm: then only that is
 * named. */
static void find_folder(const iso_doctor *doctor, char *folder, size_t size)
{
    bool known = doctor->mpi.running && iso_mpi_setting("btl_vader_backing_directory", folder, size);
    if (!known || !*folder || !strncmp(folder, "/dev/shm/", 9))
        snprintf(folder, size, "%s", "/dev/shm");
}

static iso_status run(const iso_doctor *doctor, iso_doctor_finding *finding)
{
    iso_shared_memory kind;
    struct statvfs room;
    char folder[128], size[32], left[32], need[32];
    iso_status status = iso_host_shared_memory(doctor->ctx, &kind);
    if (status != ISO_OK)
        return status;
    if (kind == ISO_SHARED_NONE)
        return iso_doctor_find(finding, FULL, 0,
                               "the ranks cannot share memory, by files without a name or in /dev/shm");
    find_folder(doctor, folder, sizeof folder);
    const char *shown = kind == ISO_SHARED_FILES ? "/dev/shm" : folder;
    if (statvfs(shown, &room))
        return iso_doctor_find(finding, FULL, 0, "there is no %s", shown);
    double all = (double)room.f_blocks * (double)room.f_frsize;
    double free_bytes = (double)room.f_bavail * (double)room.f_frsize;
    double needed = bytes_of_rank(doctor) * iso_host_ranks(doctor->ctx);
    iso_doctor_bytes(all, size, sizeof size);
    iso_doctor_bytes(free_bytes, left, sizeof left);
    iso_doctor_bytes(needed, need, sizeof need);
    if (kind == ISO_SHARED_FILES)
        return iso_doctor_find(finding, FILES, -free_bytes,
                               "the ranks share memory by files in %s, which has %s free of %s", shown, left,
                               size);
    if (free_bytes < needed)
        return iso_doctor_find(finding, FULL, -free_bytes,
                               "%s has %s free of %s; Open MPI needs %s for a job of this size", shown, left,
                               size, need);
    return iso_doctor_find(finding, all <= small ? CONTAINER : GOOD, -free_bytes,
                           "%s has %s free of %s; Open MPI needs %s, Isogrid's windows are not there", shown,
                           left, size, need);
}

const iso_doctor_check iso_doctor_check_shared_memory = {
    .name = "shared-memory",
    .looks_at = "how ranks share memory, and the room in /dev/shm",
    .scope = ISO_DOCTOR_HOSTS,
    .collective = true,
    .run = run,
    ISO_DOCTOR_OUTCOMES(outcomes),
};
