/* Locks of files. Temporary files of checkpoints are locked while they are written; a job that starts removes
 * those that nobody has locked. HDF5 locks the files that it opens. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "launch/doctor/list.h"
#include "runtime/base/memory.h"

enum { GOOD, NONE, NO_RECORD_LOCKS, NOT_HELD, HOST_ONLY };
static const iso_doctor_outcome outcomes[] = {
    [GOOD] = {"good", ISO_DOCTOR_OK, NULL},
    [NONE] = {"none", ISO_DOCTOR_WARNING,
              "what a killed job leaves is removed only after a day, and HDF5 may refuse to open files: "
              "mount the file system "
              "with locks (Lustre: -o flock), or export HDF5_USE_FILE_LOCKING=FALSE"},
    [NO_RECORD_LOCKS] = {"no-record-locks", ISO_DOCTOR_WARNING,
                         "--checkpoint-io mpio may fail on this file system: use the default, direct"},
    [NOT_HELD] = {"not-held", ISO_DOCTOR_ERROR,
                  "a job that starts may remove files that another job is saving: choose another file system "
                  "(--folder)"},
    [HOST_ONLY] = {"host-only", ISO_DOCTOR_ERROR,
                   "a job that starts may remove files that a job on another host is saving: mount the file "
                   "system with locks "
                   "between hosts (Lustre: -o flock instead of -o localflock; NFS: without nolock)"},
};

/* Opens a file and locks it: 0, or the error; EWOULDBLOCK: somebody else has locked it. */
static int try_lock(const char *path)
{
    int file = open(path, O_RDWR | O_CLOEXEC), error = 0;
    if (file < 0 || flock(file, LOCK_EX | LOCK_NB))
        error = errno;
    if (file >= 0)
        close(file);
    return error;
}

/* Locks the file on the chief, which has made it. */
static iso_status lock_on_chief(const char *path, int file, iso_doctor_finding *finding)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (flock(file, LOCK_EX | LOCK_NB))
        return iso_doctor_find(finding, NONE, 0, "files cannot be locked: %s", strerror(errno));
    if (try_lock(path) == 0)
        return iso_doctor_find(finding, NOT_HELD, 0, "a locked file can be locked once more");
    if (fcntl(file, F_SETLK, &whole))
        return iso_doctor_find(finding, NO_RECORD_LOCKS, 0, "parts of files cannot be locked (fcntl): %s",
                               strerror(errno));
    return iso_doctor_find(finding, GOOD, 0, "a locked file stays locked");
}

static iso_status lock_elsewhere(const char *path, iso_doctor_finding *finding)
{
    int error = try_lock(path);
    if (error == 0)
        return iso_doctor_find(finding, HOST_ONLY, 0,
                               "a file that rank 0 has locked can be locked here once more");
    if (error == EWOULDBLOCK)
        return iso_doctor_find(finding, GOOD, 0, "a locked file stays locked");
    if (error == ENOENT || error == EACCES)
        return iso_doctor_find(finding, ISO_DOCTOR_NOT_CHECKED, 0, "rank 0's file is not there");
    return iso_doctor_find(finding, NONE, 0, "files cannot be locked: %s", strerror(error));
}

static iso_status run(const iso_doctor *doctor, iso_doctor_finding *finding)
{
    char *path;
    int file;
    bool chief = iso_is_chief(doctor->ctx);
    iso_status status;
    ISO_TRY(iso_doctor_probe_create(doctor, "lock", &path, &file));
    iso_doctor_find(finding, ISO_DOCTOR_NOT_CHECKED, 0, "no file can be made in the folder");
    if (path && chief)
        lock_on_chief(path, file, finding);
    int locked = chief && path && (finding->outcome == GOOD || finding->outcome == NO_RECORD_LOCKS);
    ISO_TRY(
        iso_broadcast(doctor->ctx, &locked, sizeof locked)); /* the others try when the chief has the lock */
    if (path && !chief && locked && iso_doctor_is_lowest(doctor))
        lock_elsewhere(path, finding);
    status = iso_doctor_probe_destroy(doctor, path, file);
done:
    iso_free(path);
    return status;
}

const iso_doctor_check iso_doctor_check_locks = {
    .name = "locks",
    .looks_at = "whether a locked file of --folder is locked on all hosts",
    .scope = ISO_DOCTOR_HOSTS,
    .collective = true,
    .run = run,
    ISO_DOCTOR_OUTCOMES(outcomes),
};
