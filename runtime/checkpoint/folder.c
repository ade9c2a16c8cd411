/* Folders of checkpoints and the temporary files in them. */
#include "runtime/base/file.h"
#include "runtime/checkpoint/folder_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/arguments.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/file_io_impl.h"

enum { DIGITS = 8, MOST_NAME = 4096 };

static const char saving[] = ".saving-";

/* ---- names ---- */

static char *temporary_of(const char *folder, const char *name, uint32_t saver)
{
    iso_text text = {0};
    iso_text_add(&text, "%s/.%s%s%08x", folder, name, saving, (unsigned)saver);
    return text.failed ? NULL : text.data;
}

/* "." + anything + ".saving-" + eight digits. */
static bool is_temporary(const char *name)
{
    size_t length = strlen(name), tail = sizeof saving - 1 + DIGITS;
    return name[0] == '.' && length > tail + 1 && !strncmp(name + length - tail, saving, sizeof saving - 1) &&
           strspn(name + length - DIGITS, "0123456789abcdef") == DIGITS;
}

iso_status iso_path_split(const char *path, uint32_t saver, iso_path *parts)
{
    iso_path fresh = {.whole = iso_strdup(path)};
    fresh.name = fresh.whole ? iso_file_name(fresh.whole) : NULL;
    fresh.folder = fresh.whole ? iso_file_folder(fresh.whole) : NULL;
    fresh.temporary = fresh.folder ? temporary_of(fresh.folder, fresh.name, saver) : NULL;
    if (!fresh.temporary) {
        iso_path_free(&fresh);
        return iso_no_memory("the name '%s'", path);
    }
    *parts = fresh;
    return ISO_OK;
}

void iso_path_free(iso_path *parts)
{
    iso_free(parts->whole);
    iso_free(parts->folder);
    iso_free(parts->temporary);
    *parts = (iso_path){0};
}

/* ---- temporary files ---- */

/* Locks a file. For file systems without locks see is_left_behind: there only old files are removed. */
static bool lock(int file, int how)
{
    int result;
    do
        result = flock(file, how);
    while (result && errno == EINTR);
    return result == 0;
}

/* Locks a file that has just been opened. *removed: it had lost its name before. Closes it unless it has a name. */
static iso_status lock_named(int file, const char *temporary, bool *removed)
{
    struct stat about;
    iso_status status = ISO_OK;
    lock(file, LOCK_SH);
    if (fstat(file, &about))
        status = iso_file_failed(temporary, "its size and times cannot be read");
    *removed = status == ISO_OK && about.st_nlink == 0;
    if (status != ISO_OK || *removed)
        close(file);
    return status;
}

/* A file of this name is left from an earlier try, whose file could not be removed. */
static bool is_taken(const char *temporary)
{
    return errno == EEXIST && (unlink(temporary) == 0 || errno == ENOENT);
}

iso_status iso_temporary_make(const char *temporary, int *file)
{
    for (;;) {
        bool removed = false;
        int fresh = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fresh < 0 && is_taken(temporary))
            continue;
        if (fresh < 0)
            return iso_file_failed(temporary, "it cannot be made");
        iso_status status = lock_named(fresh, temporary, &removed);
        if (status != ISO_OK)
            unlink(temporary);
        if (removed)
            continue;
        *file = status == ISO_OK ? fresh : -1;
        return status;
    }
}

static iso_status not_seen(const char *temporary)
{
    return iso_error(
        ISO_IO,
        "'%s': this rank does not see the file that rank 0 has made: it was removed, or the folder "
        "is not one that all hosts share",
        temporary);
}

iso_status iso_temporary_open(const char *temporary, int *file)
{
    bool removed = false;
    int fresh = open(temporary, O_RDWR | O_CLOEXEC);
    if (fresh < 0)
        return errno == ENOENT ? not_seen(temporary) : iso_file_failed(temporary, "it cannot be opened");
    iso_status status = lock_named(fresh, temporary, &removed);
    if (status == ISO_OK && removed)
        status = not_seen(temporary);
    *file = status == ISO_OK ? fresh : -1;
    return status;
}

iso_status iso_temporary_check(const char *temporary, int file)
{
    struct stat by_name, ours;
    bool known = fstat(file, &ours) == 0;
    bool named = known && lstat(temporary, &by_name) == 0; /* the last call before the rename */
    if (!known || (!named && errno != ENOENT))
        return iso_file_failed(temporary, "its size and times cannot be read");
    if (!named || !iso_file_is_same(&by_name, &ours))
        return iso_error(ISO_IO, "'%s': it was removed or replaced while it was written", temporary);
    return ISO_OK;
}

static iso_status cannot_write(const char *folder)
{
    return iso_error(ISO_IO, "checkpoints cannot be written into the folder '%s': %s", folder,
                     strerror(errno));
}

static bool write_page(int file)
{
    static const char page[4096];
    ssize_t written;
    do
        written = pwrite(file, page, sizeof page, 0);
    while (written < 0 && errno == EINTR);
    if (written >= 0 && written < (ssize_t)sizeof page)
        errno = ENOSPC;
    return written == (ssize_t)sizeof page && (fsync(file) == 0 || errno == EINVAL);
}

iso_status iso_folder_try(const char *folder, uint32_t saver)
{
    char *name = temporary_of(folder, "isogrid", saver);
    if (!name)
        return iso_no_memory("a name in '%s'", folder);
    int file = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    iso_status status = file >= 0 && write_page(file) ? ISO_OK : cannot_write(folder);
    if (file >= 0) {
        unlink(name); /* fails if another process has removed it already */
        close(file);
    }
    iso_free(name);
    return status;
}

/* Whether no process writes the file of this name: none holds its lock or, without locks, none has written it for a
 * day. Before the lock was taken, the file may have been removed or renamed, and its name given to another file. */
static bool is_left_behind(int folder, const char *name, int file)
{
    struct stat about, by_name;
    bool locked = lock(file, LOCK_EX | LOCK_NB);
    if (!locked && errno == EWOULDBLOCK)
        return false;
    if (fstat(file, &about) || fstatat(folder, name, &by_name, AT_SYMLINK_NOFOLLOW) ||
        !iso_file_is_same(&about, &by_name))
        return false;
    return locked || time(NULL) - about.st_mtime > 86400;
}

void iso_folder_remove_stale(const char *folder)
{
    DIR *all = opendir(folder);
    const struct dirent *entry;
    while (all && (entry = readdir(all))) {
        if (!is_temporary(entry->d_name))
            continue;
        int file = openat(dirfd(all), entry->d_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (file >= 0 && is_left_behind(dirfd(all), entry->d_name, file))
            unlinkat(dirfd(all), entry->d_name, 0);
        if (file >= 0)
            close(file);
    }
    if (all)
        closedir(all);
}

/* ---- pointers ---- */

static iso_status replace(const iso_path *pointer, const char *line)
{
    int file = -1;
    size_t bytes = strlen(line);
    iso_status status = iso_temporary_make(pointer->temporary, &file);
    if (status != ISO_OK)
        return status;
    ISO_TRY(iso_file_write_at(file, pointer->whole, line, bytes, 0));
    ISO_TRY(iso_file_sync(file, pointer->whole));
    ISO_TRY(iso_temporary_check(pointer->temporary, file));
    if (rename(pointer->temporary, pointer->whole))
        ISO_TRY(iso_file_failed(pointer->whole, "it cannot be replaced"));
done:
    if (status != ISO_OK)
        unlink(pointer->temporary);
    close(file);
    return status == ISO_OK ? iso_folder_sync(pointer->folder) : status;
}

iso_status iso_folder_point(const char *folder, const char *pointer, uint32_t saver, const char *name)
{
    iso_path parts = {0};
    char *path = iso_file_join(folder, pointer);
    iso_text line = {0};
    iso_text_add(&line, "%s\n", name);
    iso_status status = path && !line.failed ? ISO_OK : iso_no_memory("the name '%s'", name);
    if (status == ISO_OK)
        status = iso_path_split(path, saver, &parts);
    if (status == ISO_OK)
        status = replace(&parts, iso_text_get(&line));
    iso_path_free(&parts);
    iso_free(path);
    iso_text_free(&line);
    return status;
}

/* Reads the first line of an open file. */
static iso_status read_line(int file, const char *path, char **line)
{
    char text[MOST_NAME + 1];
    ssize_t got = read(file, text, MOST_NAME);
    if (got < 0)
        return iso_file_failed(path, "it cannot be read");
    text[got] = 0;
    text[strcspn(text, "\n")] = 0;
    *line = iso_strdup(text);
    return *line ? ISO_OK : iso_no_memory("the name in '%s'", path);
}

iso_status iso_checkpoint_pointed(const char *folder, const char *pointer, char **name)
{
    ISO_NEED(folder, pointer, name);
    iso_status status = ISO_OK;
    char *path = iso_file_join(folder, pointer);
    *name = NULL;
    if (!path)
        return iso_no_memory("the name '%s'", pointer);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 && errno != ENOENT)
        status = iso_file_failed(path, "it cannot be read");
    if (file >= 0)
        status = read_line(file, path, name);
    if (file >= 0)
        close(file);
    iso_free(path);
    return status;
}
