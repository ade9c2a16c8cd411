/* The free space of the folder's file system. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "launch/doctor/list.h"
#include "runtime/base/memory.h"

enum { GOOD, LOW, FULL };
static const iso_doctor_outcome outcomes[] = {
    [GOOD] = {"good", ISO_DOCTOR_OK, NULL},
    [LOW] = {"low", ISO_DOCTOR_WARNING,
             "a checkpoint needs room for a second one while it is saved: make room, or keep fewer of them "
             "(--keep)"},
    [FULL] = {"full", ISO_DOCTOR_ERROR, "make room, or ask for a larger quota: nothing can be written"},
};
static const double low = 1 << 30; /* bytes */

/* Writes and syncs 64 KiB: the error, 0 if that works. A quota may be full while the disk is not. */
static int try_to_write(const char *path)
{
    static const char bytes[1 << 16];
    int error = 0, file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0)
        return errno;
    ssize_t written = pwrite(file, bytes, sizeof bytes, 0);
    if (written < 0)
        error = errno;
    else if (written < (ssize_t)sizeof bytes)
        error = ENOSPC;
    if (!error && fsync(file) && (errno == ENOSPC || errno == EDQUOT))
        error = errno;
    unlink(path);
    close(file);
    return error;
}

static iso_status run(const iso_doctor *doctor, iso_doctor_finding *finding)
{
    struct statvfs room;
    char left[32], *path = iso_doctor_probe_path(doctor, "space");
    int error = path ? try_to_write(path) : ENOMEM;
    iso_free(path);
    bool full = error == ENOSPC || error == EDQUOT;
    if ((error && !full) || statvfs(doctor->folder, &room))
        return iso_doctor_find(finding, ISO_DOCTOR_NOT_CHECKED, 0, "no file can be made in the folder");
    double bytes = (double)room.f_bavail * (double)room.f_frsize;
    iso_doctor_bytes(bytes, left, sizeof left);
    if (full)
        return iso_doctor_find(finding, FULL, 0,
                               "64 KiB cannot be written: %s; %s of the file system are free",
                               strerror(error), left);
    return iso_doctor_find(finding, bytes < low ? LOW : GOOD, -bytes, "%s free", left);
}

const iso_doctor_check iso_doctor_check_free_space = {
    .name = "free-space",
    .looks_at = "the free space of the file system of --folder",
    .scope = ISO_DOCTOR_HOSTS,
    .run = run,
    ISO_DOCTOR_OUTCOMES(outcomes),
};
