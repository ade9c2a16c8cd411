/* Whether a rename replaces a file: checkpoints are committed so. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "launch/doctor/list.h"
#include "runtime/base/memory.h"

enum { GOOD, FAILED, WRONG };
static const iso_doctor_outcome outcomes[] = {
    [GOOD] = {"good", ISO_DOCTOR_OK, NULL},
    [FAILED] =
        {"failed", ISO_DOCTOR_ERROR,
         "no checkpoint can be committed in this folder: choose one on another file system (--folder)"},
    [WRONG] = {"wrong", ISO_DOCTOR_ERROR,
               "a rename says that it replaced a file and did not: choose a folder on another file system "
               "(--folder)"},
};

static bool make_file(const char *path, const char *contents)
{
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    size_t bytes = strlen(contents);
    bool good = file >= 0 && write(file, contents, bytes) == (ssize_t)bytes;
    if (file >= 0)
        close(file);
    return good;
}

/* Renames `from` to `to`, which exists. */
static iso_status try_rename(const char *from, const char *to, iso_doctor_finding *finding)
{
    char now[16];
    if (!make_file(to, "old") || !make_file(from, "new"))
        return iso_doctor_find(finding, ISO_DOCTOR_NOT_CHECKED, 0, "no file can be written in the folder");
    if (rename(from, to))
        return iso_doctor_find(finding, FAILED, 0, "a file cannot replace another by a rename: %s",
                               strerror(errno));
    iso_doctor_read(to, now, sizeof now);
    bool replaced = strcmp(now, "new") == 0;
    if (!replaced || access(from, F_OK) == 0)
        return iso_doctor_find(finding, WRONG, 0,
                               replaced ? "after a rename, the old name is still there"
                                        : "after a rename, the new name has the old file");
    return iso_doctor_find(finding, GOOD, 0, "a rename replaces a file");
}

static iso_status run(const iso_doctor *doctor, iso_doctor_finding *finding)
{
    char *from = iso_doctor_probe_path(doctor, "from"), *to = iso_doctor_probe_path(doctor, "to");
    iso_status status = from && to ? try_rename(from, to, finding)
                                   : iso_no_memory("the names of files in '%s'", doctor->folder);
    if (from)
        unlink(from);
    if (to)
        unlink(to);
    iso_free(from);
    iso_free(to);
    return status;
}

const iso_doctor_check iso_doctor_check_rename = {
    .name = "rename",
    .looks_at = "whether a rename replaces a file, as each checkpoint does",
    .scope = ISO_DOCTOR_HOSTS,
    .run = run,
    ISO_DOCTOR_OUTCOMES(outcomes),
};
