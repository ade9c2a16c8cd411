/* Whether files and the folder can be synced to the disk. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "launch/doctor/list.h"
#include "runtime/base/clock.h"
#include "runtime/base/memory.h"

enum { GOOD, SLOW, FOLDER, FAILED };
static const iso_doctor_outcome outcomes[] = {
    [GOOD] = {"good", ISO_DOCTOR_OK, NULL},
    [SLOW] = {"slow", ISO_DOCTOR_WARNING,
              "each checkpoint syncs several times: save less often (--save-freq), or choose a faster file "
              "system (--folder)"},
    [FOLDER] = {"folder", ISO_DOCTOR_WARNING,
                "after a power failure the newest checkpoint may be gone: choose a folder on another file "
                "system (--folder)"},
    [FAILED] = {"failed", ISO_DOCTOR_ERROR,
                "no checkpoint can be saved in this folder: choose one on another file system (--folder)"},
};
static const double slow = 1; /* seconds */

/* 0, or the error. */
static int sync_file(const char *path)
{
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0)
        return ENOENT;
    int error = write(file, "isogrid", 7) == 7 && fsync(file) == 0 ? 0 : errno;
    unlink(path);
    close(file);
    return error;
}

static int sync_folder(const char *path)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = folder >= 0 && fsync(folder) == 0 ? 0 : errno;
    if (folder >= 0)
        close(folder);
    return error;
}

static iso_status run(const iso_doctor *doctor, iso_doctor_finding *finding)
{
    char time[32], *path = iso_doctor_probe_path(doctor, "sync");
    double begin = iso_clock();
    int error = path ? sync_file(path) : ENOENT;
    double seconds = iso_clock() - begin;
    int folder = sync_folder(doctor->folder);
    iso_free(path);
    if (error == ENOENT || error == ENOSPC || error == EDQUOT)
        return iso_doctor_find(finding, ISO_DOCTOR_NOT_CHECKED, 0, "no file can be written in the folder");
    if (error)
        return iso_doctor_find(finding, FAILED, 0, "a file cannot be synced: %s", strerror(error));
    if (folder)
        return iso_doctor_find(finding, FOLDER, 0, "the folder cannot be synced: %s", strerror(folder));
    if (seconds > slow)
        return iso_doctor_find(finding, SLOW, seconds, "syncing a file takes %s",
                               iso_doctor_seconds(seconds, time, sizeof time));
    return iso_doctor_find(finding, GOOD, 0, "files and the folder can be synced");
}

const iso_doctor_check iso_doctor_check_fsync = {
    .name = "fsync",
    .looks_at = "whether files and the folder can be synced to the disk",
    .scope = ISO_DOCTOR_HOSTS,
    .run = run,
    ISO_DOCTOR_OUTCOMES(outcomes),
};
