/* Shared memory: what ranks of a host share, and the room in /dev/shm.
 *
 * Open MPI's transport within a host (vader) makes a file of btl_vader_segment_size bytes (4 MiB) in /dev/shm
 * for each rank. Isogrid's windows are files without a name, which do not count there; only where the ranks may
 * not open each other's files they are in /dev/shm, and hold the weights, gradients and optimizer state of all
 * slots of the host. What this job has there already is part of what a job needs, so it counts as free. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "launch/doctor/list.h"
#include "runtime/base/file.h"
#include "runtime/base/memory.h"

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

/* The bytes that Open MPI needs there for each rank. */
static double bytes_of_rank(const iso_doctor *doctor)
{
    char value[32];
    bool known = doctor->mpi.running && iso_mpi_setting("btl_vader_segment_size", value, sizeof value);
    return known && atof(value) > 0 ? atof(value) : segment;
}

/* The folder of Open MPI's files. */
static void find_folder(const iso_doctor *doctor, char *folder, size_t size)
{
    bool known = doctor->mpi.running && iso_mpi_setting("btl_vader_backing_directory", folder, size);
    if (!known || !*folder)
        snprintf(folder, size, "%s", "/dev/shm");
}

/* launch/mpirun gives each job a folder, usually below /dev/shm: then only that is named. */
static const char *shown_folder(const char *folder)
{
    return strncmp(folder, "/dev/shm/", 9) == 0 ? "/dev/shm" : folder;
}

/* ---- what this job has there ---- */

static const char segment_name[] = "vader_segment.";

/* "vader_segment.HOST.USER.JOB." of this rank's own segment, which it has mapped; "": it has none. */
static void find_prefix(char *prefix, size_t size)
{
    char line[600];
    FILE *maps = fopen("/proc/self/maps", "re");
    *prefix = 0;
    while (maps && !*prefix && fgets(line, sizeof line, maps)) {
        const char *name = strstr(line, segment_name), *end = name ? strrchr(name, '.') : NULL;
        if (end)
            snprintf(prefix, size, "%.*s", (int)(end + 1 - name), name);
    }
    if (maps)
        fclose(maps);
}

/* The bytes that the files below a folder take, or those of them whose names begin with `prefix`. */
static double bytes_below(const char *folder, const char *prefix)
{
    double bytes = 0;
    DIR *all = opendir(folder);
    for (struct dirent *entry; all && (entry = readdir(all));) {
        struct stat about;
        char *path = strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")
                         ? iso_file_join(folder, entry->d_name)
                         : NULL;
        if (path && lstat(path, &about) == 0) {
            if (S_ISDIR(about.st_mode) && !*prefix)
                bytes += bytes_below(path, prefix);
            else if (S_ISREG(about.st_mode) && strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
                bytes += (double)about.st_blocks * 512;
        }
        iso_free(path);
    }
    if (all)
        closedir(all);
    return bytes;
}

typedef struct shared_room {
    double all, unused; /* unused: by others than this job */
    double needed;      /* by Open MPI, for a job of this size */
} shared_room;

/* Counts the files that Open MPI's PMIx has in the folder of a job, which are needed besides the segments;
 * otherwise they are not in /dev/shm. */
static void count_own(const iso_doctor *doctor, const char *folder, shared_room *room)
{
    char prefix[200];
    bool private = strncmp(iso_file_name(folder), "isogrid-job-", 12) == 0;
    find_prefix(prefix, sizeof prefix);
    double segments = *prefix ? bytes_below(folder, prefix) : 0;
    double own = private ? bytes_below(folder, "") : segments;
    room->unused += own;
    room->needed = bytes_of_rank(doctor) * iso_host_ranks(doctor->ctx) + own - segments;
}

static bool measure(const iso_doctor *doctor, const char *folder, const char *shown, shared_room *room)
{
    struct statvfs about;
    if (statvfs(shown, &about))
        return false;
    room->all = (double)about.f_blocks * (double)about.f_frsize;
    room->unused = (double)about.f_bavail * (double)about.f_frsize;
    count_own(doctor, folder, room);
    return true;
}

static iso_status run(const iso_doctor *doctor, iso_doctor_finding *finding)
{
    iso_shared_memory kind;
    shared_room room;
    char folder[128], size[32], left[32], need[32];
    iso_status status = iso_host_shared_memory(doctor->ctx, &kind);
    if (status != ISO_OK)
        return status;
    if (kind == ISO_SHARED_NONE)
        return iso_doctor_find(finding, FULL, 0,
                               "the ranks cannot share memory, by files without a name or in /dev/shm");
    find_folder(doctor, folder, sizeof folder);
    const char *shown = kind == ISO_SHARED_FILES ? "/dev/shm" : shown_folder(folder);
    if (!measure(doctor, folder, shown, &room))
        return iso_doctor_find(finding, FULL, 0, "there is no %s", shown);
    iso_doctor_bytes(room.all, size, sizeof size);
    iso_doctor_bytes(room.unused, left, sizeof left);
    iso_doctor_bytes(room.needed, need, sizeof need);
    if (kind == ISO_SHARED_FILES)
        return iso_doctor_find(finding, FILES, -room.unused,
                               "the ranks share memory by files in %s, which has %s free of %s", shown, left,
                               size);
    if (room.unused < room.needed)
        return iso_doctor_find(finding, FULL, -room.unused,
                               "%s has %s free of %s; Open MPI needs %s for a job of this size", shown, left,
                               size, need);
    return iso_doctor_find(finding, room.all <= small ? CONTAINER : GOOD, -room.unused,
                           "%s has %s free of %s; Open MPI needs %s, Isogrid needs none", shown, left, size,
                           need);
}

const iso_doctor_check iso_doctor_check_shared_memory = {
    .name = "shared-memory",
    .looks_at = "how ranks share memory, and the room in /dev/shm",
    .scope = ISO_DOCTOR_HOSTS,
    .collective = true,
    .run = run,
    ISO_DOCTOR_OUTCOMES(outcomes),
};
