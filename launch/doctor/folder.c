/* The folder, and the kind of its file system. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "launch/doctor/list.h"
#include "runtime/base/memory.h"

enum { GOOD, IN_MEMORY, LAYER, NETWORK, MISSING, NOT_WRITABLE };
static const iso_doctor_outcome outcomes[] = {
    [GOOD] = {"good", ISO_DOCTOR_OK, NULL},
    [IN_MEMORY] = {"memory", ISO_DOCTOR_WARNING,
                   "its files are lost when the machine stops, and take memory from training: keep "
                   "checkpoints on a disk"},
    [LAYER] = {"container", ISO_DOCTOR_WARNING,
               "its files are lost with the container: mount a folder of the host there (docker run -v)"},
    [NETWORK] = {"network", ISO_DOCTOR_WARNING,
                 "hosts may see each other's files and locks late: keep checkpoints of jobs on several hosts "
                 "on a parallel "
                 "file system (Lustre, GPFS, BeeGFS), if there is one"},
    [MISSING] = {"missing", ISO_DOCTOR_ERROR, "make the folder on this host, or mount its file system there"},
    [NOT_WRITABLE] =
        {"not-writable", ISO_DOCTOR_ERROR,
         "choose a folder that you may write to (--folder), or change its owner, its mode or its mount"},
};

static const struct {
    unsigned long type; /* statfs(2), linux/magic.h */
    int outcome;
    const char *name;
} kinds[] = {
    {0xEF53, GOOD, "ext4"},       {0x58465342, GOOD, "xfs"},        {0x9123683E, GOOD, "btrfs"},
    {0x2FC12FC1, GOOD, "zfs"},    {0x794C7630, LAYER, "overlayfs"}, {0xF2F52010, GOOD, "f2fs"},
    {0x0BD00BD0, GOOD, "Lustre"}, {0x47504653, GOOD, "GPFS"},       {0x19830326, GOOD, "BeeGFS"},
    {0x00C36400, GOOD, "CephFS"}, {0x01021994, IN_MEMORY, "tmpfs"}, {0x858458F6, IN_MEMORY, "ramfs"},
    {0x6969, NETWORK, "NFS"},     {0xFF534D42, NETWORK, "CIFS"},    {0xFE534D42, NETWORK, "SMB2"},
    {0x01021997, NETWORK, "9p"},  {0x65735546, NETWORK, "FUSE"},    {0x5346414F, NETWORK, "AFS"},
};

static int find_kind(const char *folder, char *name, size_t size)
{
    struct statfs about;
    if (statfs(folder, &about)) {
        snprintf(name, size, "an unknown file system (%s)", strerror(errno));
        return GOOD;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].type == (unsigned long)about.f_type) {
            snprintf(name, size, "%s", kinds[i].name);
            return kinds[i].outcome;
        }
    snprintf(name, size, "file system type 0x%lx", (unsigned long)about.f_type);
    return GOOD;
}

/* Whether a file can be made in the folder; errno. */
static bool can_write(const iso_doctor *doctor)
{
    char *path = iso_doctor_probe_path(doctor, "folder");
    int file = path ? open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666) : -1,
        error = path ? errno : ENOMEM;
    if (file >= 0) {
        unlink(path);
        close(file);
    }
    iso_free(path);
    errno = error;
    return file >= 0;
}

static iso_status run(const iso_doctor *doctor, iso_doctor_finding *finding)
{
    struct stat about;
    char kind[64];
    const char *folder = doctor->folder;
    if (stat(folder, &about))
        return iso_doctor_find(finding, MISSING, 0, "'%s': %s", folder, strerror(errno));
    if (!S_ISDIR(about.st_mode))
        return iso_doctor_find(finding, MISSING, 0, "'%s': %s", folder, strerror(ENOTDIR));
    if (!can_write(doctor) && errno != ENOSPC) /* free-space tells that */
        return iso_doctor_find(finding, NOT_WRITABLE, 0, "no file can be made in '%s': %s", folder,
                               strerror(errno));
    int outcome = find_kind(folder, kind, sizeof kind);
    return iso_doctor_find(finding, outcome, 0, "'%s' is on %s", folder, kind);
}

const iso_doctor_check iso_doctor_check_folder = {
    .name = "folder",
    .looks_at = "whether files can be made in --folder, and its file system",
    .scope = ISO_DOCTOR_HOSTS,
    .run = run,
    ISO_DOCTOR_OUTCOMES(outcomes),
};
