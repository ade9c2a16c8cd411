/* Files of the checks in the folder that is checked. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "launch/doctor/doctor_impl.h"
#include "runtime/base/file.h"
#include "runtime/base/memory.h"

enum { PATH_BYTES = 4096 };

char *iso_doctor_probe_path(const iso_doctor *doctor, const char *what)
{
    iso_text name = {0};
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    iso_text_add(&name, ".isogrid-doctor-%s.%ld.%lld.%ld", what, (long)getpid(), (long long)now.tv_sec,
                 now.tv_nsec);
    char *path = name.failed ? NULL : iso_file_join(doctor->folder, iso_text_get(&name));
    iso_text_free(&name);
    return path;
}

/* Makes the file on the chief; text is "" if it cannot be made. */
static void make_file(const iso_doctor *doctor, const char *what, char text[PATH_BYTES], int *file)
{
    char *path = iso_doctor_probe_path(doctor, what);
    text[0] = 0;
    if (path && strlen(path) < PATH_BYTES)
        *file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (*file >= 0)
        memcpy(text, path, strlen(path) + 1);
    iso_free(path);
}

iso_status iso_doctor_probe_create(const iso_doctor *doctor, const char *what, char **path, int *file)
{
    char text[PATH_BYTES] = "";
    *path = NULL;
    *file = -1;
    if (iso_is_chief(doctor->ctx))
        make_file(doctor, what, text, file);
    iso_status status = iso_broadcast(doctor->ctx, text, sizeof text);
    if (status == ISO_OK && *text) {
        *path = iso_strdup(text);
        status = iso_agree(doctor->ctx, *path ? ISO_OK : iso_no_memory("the name '%s'", text));
    }
    if (status != ISO_OK && *file >= 0) {
        unlink(text);
        close(*file);
        *file = -1;
    }
    return status;
}

iso_status iso_doctor_probe_destroy(const iso_doctor *doctor, char *path, int file)
{
    iso_status status = path ? iso_agree(doctor->ctx, ISO_OK) : ISO_OK;
    if (file >= 0) {
        unlink(path);
        close(file);
    }
    return status;
}
