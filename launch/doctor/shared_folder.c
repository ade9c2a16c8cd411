/* Whether all hosts see one folder: all ranks write the parts of a checkpoint to one file. */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "launch/doctor/list.h"
#include "runtime/base/clock.h"
#include "runtime/base/memory.h"

enum { SEEN, LATE, OTHER };
static const iso_doctor_outcome outcomes[] = {
    [SEEN] = {"seen", ISO_DOCTOR_OK, NULL},
    [LATE] = {"late", ISO_DOCTOR_WARNING,
              "an evaluator and a job that continues may miss the newest checkpoint for so long: for NFS, "
              "mount with lookupcache=none "
              "or a short actimeo"},
    [OTHER] = {"other-folder", ISO_DOCTOR_ERROR,
               "checkpoints of a job on these hosts cannot be saved there: choose a folder of a file system "
               "that all hosts share "
               "(--folder)"},
};
static const double late = 0.5, patience = 5; /* seconds */

/* The time until the file was seen; above `patience`: it was not. */
static double wait_for(const char *path)
{
    double begin = iso_clock();
    while (access(path, F_OK) != 0) {
        if (iso_clock() - begin > patience)
            return 2 * patience;
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    }
    return iso_clock() - begin;
}

static iso_status look(const char *path, iso_doctor_finding *finding)
{
    char time[32];
    double seconds = wait_for(path);
    iso_doctor_seconds(seconds > patience ? patience : seconds, time, sizeof time);
    if (seconds > patience)
        return iso_doctor_find(finding, OTHER, 0,
                               "a file that rank 0 made in the folder is not there (after %s)", time);
    if (seconds > late)
        return iso_doctor_find(finding, LATE, seconds,
                               "a file that rank 0 made in the folder is seen after %s", time);
    return iso_doctor_find(finding, SEEN, 0, "all hosts see the folder's files");
}

static iso_status run(const iso_doctor *doctor, iso_doctor_finding *finding)
{
    char *path;
    int file;
    if (iso_hosts(doctor->ctx) == 1)
        return iso_doctor_find(finding, ISO_DOCTOR_NOT_CHECKED, 0, "one host");
    iso_status status = iso_doctor_probe_create(doctor, "seen", &path, &file);
    if (status != ISO_OK)
        return status;
    iso_doctor_find(finding, ISO_DOCTOR_NOT_CHECKED, 0, "no file can be made in the folder");
    if (path && iso_doctor_is_lowest(doctor))
        look(path, finding);
    status = iso_doctor_probe_destroy(doctor, path, file);
    iso_free(path);
    return status;
}

const iso_doctor_check iso_doctor_check_shared_folder = {
    .name = "shared-folder",
    .looks_at = "whether --folder is one folder on all hosts",
    .scope = ISO_DOCTOR_HOSTS,
    .collective = true,
    .run = run,
    ISO_DOCTOR_OUTCOMES(outcomes),
};
