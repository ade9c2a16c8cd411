#include "runtime/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "runtime/base/memory.h"
#include "runtime/base/text.h"

iso_status iso_file_failed(const char *path, const char *what)
{
    return iso_error(ISO_IO, "'%s': %s: %s", path, what, strerror(errno));
}

bool iso_file_is_of_caller(int error)
{
    return error == ENOENT || error == ENOTDIR || error == EISDIR || error == EACCES || error == EPERM;
}

iso_status iso_file_cannot_open(const char *path)
{
    return iso_error(iso_file_is_of_caller(errno) ? ISO_INVALID : ISO_IO, "cannot open '%s': %s", path,
                     strerror(errno));
}

char *iso_file_join(const char *folder, const char *name)
{
    iso_text text = {0};
    iso_text_add(&text, "%s/%s", folder, name);
    return text.data;
}

const char *iso_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *iso_file_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = iso_strdup(slash ? path : ".");
    if (folder && slash)
        folder[slash == path ? 1 : slash - path] = 0;
    return folder;
}

bool iso_file_name_ends(const char *path, const char *end)
{
    const char *name = iso_file_name(path);
    size_t length = strlen(name), tail = strlen(end);
    return length > tail && strcmp(name + length - tail, end) == 0;
}

bool iso_file_is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool iso_file_write(int file, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t written = write(file, at, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return false;
        at += written;
        bytes -= (size_t)written;
    }
    return true;
}

enum { MOST_AT_ONCE = 1 << 30 }; /* Linux transfers less than 2 GiB per call */

bool iso_file_read(int file, void *data, size_t bytes, uint64_t offset, size_t *got)
{
    for (*got = 0; *got < bytes;) {
        size_t left = bytes - *got;
        ssize_t count = pread(file, (char *)data + *got, left < MOST_AT_ONCE ? left : MOST_AT_ONCE,
                              (off_t)(offset + *got));
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return false;
        if (count == 0)
            break;
        *got += (size_t)count;
    }
    return true;
}

/* False: errno has the reason. */
static bool read_on(FILE *file, size_t most, char **text, size_t *size)
{
    size_t room = 1 << 16;
    *size = 0;
    for (*text = iso_new(room); *text; room *= 2) {
        *size += fread(*text + *size, 1, room - *size, file);
        if (ferror(file))
            return false;
        errno = EFBIG;
        if (*size < room || room >= most)
            return *size < room && *size < most;
        char *more = iso_grow(*text, room, 2 * room, 1);
        if (!more)
            break;
        *text = more;
    }
    errno = ENOMEM;
    return false;
}

bool iso_file_read_all(FILE *file, size_t most, char **text, size_t *size)
{
    if (read_on(file, most, text, size))
        return true;
    int reason = errno;
    iso_free(*text);
    *text = NULL;
    errno = reason;
    return false;
}

static iso_status write_durably(int file, const char *path, const void *data, size_t bytes)
{
    return iso_file_write(file, data, bytes) && fsync(file) == 0 ? ISO_OK
                                                                 : iso_file_failed(path, "writing failed");
}

/* `target`: the file to replace; `path`: the name for messages. */
static iso_status replace(const char *target, const char *path, const void *data, size_t bytes)
{
    iso_text beside = {0};
    iso_text_add(&beside, "%s.%ld.new", target, (long)getpid());
    if (beside.failed) {
        iso_text_free(&beside);
        return iso_no_memory("the name of '%s'", path);
    }
    const char *name = iso_text_get(&beside);
    int file = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    iso_status status =
        file < 0 ? iso_file_failed(path, "it cannot be written") : write_durably(file, path, data, bytes);
    if (file >= 0 && close(file) && status == ISO_OK)
        status = iso_file_failed(path, "writing failed");
    if (status == ISO_OK && rename(name, target))
        status = iso_file_failed(path, "it cannot be replaced");
    if (status != ISO_OK && file >= 0)
        unlink(name);
    iso_text_free(&beside);
    return status;
}

static iso_status write_in_place(const char *path, const void *data, size_t bytes)
{
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return iso_file_failed(path, "it cannot be written");
    iso_status status = iso_file_write(file, data, bytes) ? ISO_OK : iso_file_failed(path, "writing failed");
    if (close(file) && status == ISO_OK)
        status = iso_file_failed(path, "writing failed");
    return status;
}

/* The file that a link names, which is made if it is not there. Allocated; NULL: errno says why there is none. */
static char *target_of(const char *link)
{
    char *target = realpath(link, NULL);
    if (target || errno != ENOENT)
        return target;
    int file = open(link, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0)
        return NULL;
    close(file);
    return realpath(link, NULL);
}

iso_status iso_file_replace(const char *path, const void *data, size_t bytes)
{
    struct stat about;
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode))
        return write_in_place(path, data, bytes);
    if (lstat(path, &about) != 0 || !S_ISLNK(about.st_mode))
        return replace(path, path, data, bytes);
    char *target = target_of(path);
    iso_status status = target ? replace(target, path, data, bytes)
                               : iso_file_failed(path, "the file that this link names cannot be written");
    free(target);
    return status;
}

/* ---- folders ---- */

/* Whether a file can be created in the folder; it is removed at once. errno says why not. */
static bool takes_files(const char *folder)
{
    char *name = iso_file_join(folder, ".isogrid-XXXXXX");
    int file = -1, error = ENOMEM;
    if (name) {
        file = mkostemp(name, O_CLOEXEC);
        error = errno;
    }
    if (file >= 0) {
        close(file);
        unlink(name);
    }
    iso_free(name);
    errno = error;
    return file >= 0;
}

bool iso_folder_is_writable(const char *folder)
{
    struct stat about;
    struct statvfs space;
    if (stat(folder, &about) != 0)
        return false;
    if (!S_ISDIR(about.st_mode)) {
        errno = ENOTDIR;
        return false;
    }
    if (access(folder, W_OK | X_OK) != 0)
        return false;
    bool known = statvfs(folder, &space) == 0;
    if (known && space.f_blocks == 0) /* such as /proc, which root may write to, but which takes no files */
        return takes_files(folder);
    bool full = known && space.f_bfree == 0;
    if (full)
        errno = ENOSPC;
    return !full;
}

iso_status iso_folder_sync(const char *folder)
{
    int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0)
        return iso_file_failed(folder, "it cannot be opened to be synced");
    int result;
    do
        result = fsync(file);
    while (result && errno == EINTR);
    iso_status status = result && errno != EINVAL ? iso_file_failed(folder, "it cannot be synced") : ISO_OK;
    close(file);
    return status;
}

static iso_status make_one(const char *folder, const char *parent)
{
    if (mkdir(folder, 0777) == 0)
        return iso_folder_sync(parent);
    struct stat about;
    int error = errno;
    if (stat(folder, &about) == 0 && S_ISDIR(about.st_mode))
        return ISO_OK; /* it exists: made in the meantime, or on a read-only file system */
    errno = error;
    return iso_file_failed(folder, "the folder cannot be made");
}

iso_status iso_folder_make(const char *folder)
{
    struct stat about;
    iso_status status = ISO_OK;
    if (stat(folder, &about) == 0 && S_ISDIR(about.st_mode))
        return ISO_OK;
    char *part = iso_strdup(folder), *parent = iso_strdup(*folder == '/' ? "/" : ".");
    if (!part || !parent)
        status = iso_no_memory("the name '%s'", folder);
    for (char *at = part; at && status == ISO_OK;) {
        at = strchr(at + 1, '/');
        if (at)
            *at = 0;
        status = make_one(part, parent);
        iso_free(parent);
        parent = iso_strdup(part);
        if (!parent)
            status = iso_no_memory("the name '%s'", folder);
        if (at)
            *at = '/';
    }
    iso_free(part);
    iso_free(parent);
    return status;
}

/* ---- names ---- */

/* Whether the folder lets only the owners of its files replace them, and the file is another user's. */
static bool is_protected(const char *path, const struct stat *file)
{
    struct stat folder;
    char *name = iso_file_folder(path);
    bool there = name && stat(name, &folder) == 0;
    iso_free(name);
    uid_t user = geteuid();
    return there && user != 0 && (folder.st_mode & S_ISVTX) && folder.st_uid != user && file->st_uid != user;
}

/* Whether a rename would put a file in the place of a device, a pipe or a link. */
static bool is_special(const struct stat *about)
{
    return !S_ISREG(about->st_mode) && !S_ISDIR(about->st_mode);
}

iso_status iso_file_check_name(const char *path)
{
    struct stat about;
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode))
        return iso_error(ISO_INVALID, "'%s': there is a folder of this name", path);
    if (lstat(path, &about) != 0)
        return ISO_OK;
    if (is_special(&about))
        return iso_error(
            ISO_INVALID, "'%s': %s", path,
            S_ISLNK(about.st_mode)
                ? "it is a symbolic link, which the file would replace; name the file it leads to"
                : "it exists and is not a regular file");
    if (is_protected(path, &about))
        return iso_error(ISO_INVALID,
                         "'%s': it cannot be replaced: it belongs to another user, and its folder is sticky",
                         path);
    return ISO_OK;
}

/* The first free name of "a-2.keras", "a-3.keras", ... */
static bool keep_beside(const char *temporary, const char *path, iso_text *name)
{
    struct stat about;
    size_t length = strlen(path);
    const char *dot = strrchr(path, '.');
    const char *end = iso_file_name_ends(path, ".weights.h5") ? path + length - strlen(".weights.h5")
                      : dot && !strchr(dot, '/')              ? dot
                                                              : path + length;
    for (int i = 2; i < 1000; i++) {
        iso_text_free(name);
        iso_text_add(name, "%.*s-%d%s", (int)(end - path), path, i, end);
        if (!name->failed && lstat(iso_text_get(name), &about) != 0)
            return rename(temporary, iso_text_get(name)) == 0;
    }
    return false;
}

/* Whether it is the name that cannot be had, and not the file system that fails. */
static bool is_name_refused(int error)
{
    return error == EISDIR || error == EPERM || error == EACCES || error == ENOTEMPTY || error == EEXIST;
}

iso_status iso_file_take_name(const char *temporary, const char *path, bool keeps)
{
    struct stat about;
    const bool special = lstat(path, &about) == 0 && is_special(&about);
    if (!special && rename(temporary, path) == 0)
        return ISO_OK;
    int error = special ? EEXIST : errno;
    iso_text name = {0};
    bool kept = keeps && is_name_refused(error) && keep_beside(temporary, path, &name);
    iso_status status = iso_error(ISO_IO, "'%s': the file cannot be given this name: %s%s%s%s", path,
                                  strerror(error), kept ? "; it is complete and is now '" : "",
                                  kept ? iso_text_get(&name) : "", kept ? "'" : "");
    iso_text_free(&name);
    return status;
}
