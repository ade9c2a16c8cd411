/* The weights of a .keras file as a separate file while they are read. If a job is killed, the next one removes its
 * file, which is no longer locked. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "models/keras/archive.h"
#include "models/keras/keras.h"
#include "runtime/base/arguments.h"
#include "runtime/base/file.h"
#include "runtime/base/thread_modes.h"

static const char prefix[] = ".isogrid-unpacked-";

static const char *temporary_folder(void)
{
    const char *folder = getenv("TMPDIR");
    return folder && *folder ? folder : "/tmp";
}

static void remove_one_stale(int folder, const char *name)
{
    struct stat about;
    int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return;
    if (fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_uid == geteuid() &&
        flock(file, LOCK_EX | LOCK_NB) == 0)
        unlinkat(folder, name, 0);
    close(file);
}

static void remove_stale(void)
{
    DIR *folder = opendir(temporary_folder());
    if (!folder)
        return;
    for (struct dirent *entry; (entry = readdir(folder));)
        if (strncmp(entry->d_name, prefix, sizeof prefix - 1) == 0)
            remove_one_stale(dirfd(folder), entry->d_name);
    closedir(folder);
}

/* Locks a new file, if files can be locked. False if another job that removes old files locked it first. */
static bool lock(int file)
{
    struct stat about;
    if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return false;
    return fstat(file, &about) == 0 && about.st_nlink > 0;
}

/* "/tmp/.isogrid-unpacked-ab12cd-net.weights.h5" for "models/net.keras": messages may name it. */
static iso_status make_file(const char *archive, iso_keras_unpacked *t)
{
    char end[100];
    const char *name = iso_file_name(archive);
    size_t length = strlen(name);
    if (iso_file_name_ends(archive, ".keras"))
        length -= strlen(".keras");
    snprintf(end, sizeof end, "-%.*s.weights.h5", length < 60 ? (int)length : 60, name);
    for (int i = 0; i < 10; i++) {
        int wanted = snprintf(t->path, sizeof t->path, "%s/%sXXXXXX%s", temporary_folder(), prefix, end);
        if (wanted >= (int)sizeof t->path || (t->file = mkostemps(t->path, (int)strlen(end), O_CLOEXEC)) < 0)
            break;
        if (lock(t->file))
            return ISO_OK;
        unlink(t->path);
        close(t->file);
        t->file = -1;
    }
    return iso_error(ISO_IO, "cannot make a file in '%s' (TMPDIR names another folder): %s",
                     temporary_folder(), strerror(errno));
}

void iso_keras_unpacked_remove(iso_keras_unpacked *t)
{
    if (!t || t->file < 0)
        return;
    unlink(t->path);
    close(t->file);
    t->file = -1;
}

iso_status iso_keras_unpack_weights(const char *path, iso_keras_unpacked *t)
{
    ISO_DEFAULT_MODES();
    ISO_NEED_AS("path, unpacked", path, t);
    iso_keras_archive *archive = NULL;
    iso_status status;
    *t = (iso_keras_unpacked){.file = -1};
    ISO_TRY(iso_keras_archive_open(path, &archive));
    remove_stale();
    ISO_TRY(make_file(path, t));
    ISO_TRY(iso_keras_archive_unpack(archive, ISO_KERAS_WEIGHTS, t->file, t->path));
done:
    iso_keras_archive_close(archive);
    return status;
}

iso_status iso_keras_read_member(const char *path, const char *member, char **text, size_t *bytes)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(path, member, text, bytes);
    iso_keras_archive *archive = NULL;
    iso_status status;
    ISO_TRY(iso_keras_archive_open(path, &archive));
    *text = NULL;
    *bytes = 0;
    if (iso_keras_archive_has(archive, member))
        ISO_TRY(iso_keras_archive_read(archive, member, text, bytes));
done:
    iso_keras_archive_close(archive);
    return status;
}
