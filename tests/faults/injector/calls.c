/* The calls that are stood in for: those that open, read, write, sync and name files, with the variants that
 * the C library's headers send programs to. glibc's own calls (inside scandir, say; of streams: streams.c) do
 * not come by here: tests/faults/test_injector compares with what the kernel sees. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "tests/faults/injector/injector.h"

/* The real function's result where it is called, `failed` where not; `args` may use the call `c`. */
#define REAL(function)                                                                                       \
    ({                                                                                                       \
        static __typeof__(function) *real;                                                                   \
        if (!real)                                                                                           \
            real = (__typeof__(function) *)real_function(#function);                                         \
        real;                                                                                                \
    })
#define STAND_IN(function, begin, args)                                                                      \
    call c = begin;                                                                                          \
    return (__typeof__(function args))call_done(&c, call_goes(&c) ? (long)REAL(function) args : -1)

#define PUBLIC __attribute__((visibility("default")))

/* ---- opening ---- */

static mode_t mode_of(int flags, va_list arguments)
{
    return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, mode_t) : 0;
}

#define DEFINE_OPEN(name)                                                                                    \
    PUBLIC int name(const char *path, int flags, ...)                                                        \
    {                                                                                                        \
        va_list arguments;                                                                                   \
        va_start(arguments, flags);                                                                          \
        mode_t mode = mode_of(flags, arguments);                                                             \
        va_end(arguments);                                                                                   \
        STAND_IN(name, call_on_path("open", OPENS, AT_FDCWD, path), (path, flags, mode));                    \
    }
#define DEFINE_OPENAT(name)                                                                                  \
    PUBLIC int name(int folder, const char *path, int flags, ...)                                            \
    {                                                                                                        \
        va_list arguments;                                                                                   \
        va_start(arguments, flags);                                                                          \
        mode_t mode = mode_of(flags, arguments);                                                             \
        va_end(arguments);                                                                                   \
        STAND_IN(name, call_on_path("open", OPENS, folder, path), (folder, path, flags, mode));              \
    }
DEFINE_OPEN(open)
DEFINE_OPEN(open64)
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)

/* What fortified programs call where no file can come to be. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int folder, const char *path, int flags);
int __openat64_2(int folder, const char *path, int flags);
PUBLIC int __open_2(const char *path, int flags)
{
    return open(path, flags);
}
PUBLIC int __open64_2(const char *path, int flags)
{
    return open64(path, flags);
}
PUBLIC int __openat_2(int folder, const char *path, int flags)
{
    return openat(folder, path, flags);
}
PUBLIC int __openat64_2(int folder, const char *path, int flags)
{
    return openat64(folder, path, flags);
}

PUBLIC int creat(const char *path, mode_t mode)
{
    STAND_IN(creat, call_on_path("open", OPENS, AT_FDCWD, path), (path, mode));
}
PUBLIC int creat64(const char *path, mode_t mode)
{
    STAND_IN(creat64, call_on_path("open", OPENS, AT_FDCWD, path), (path, mode));
}

PUBLIC int mkstemp(char *path)
{
    STAND_IN(mkstemp, call_on_path("open", OPENS, AT_FDCWD, path), (path));
}
PUBLIC int mkstemp64(char *path)
{
    STAND_IN(mkstemp64, call_on_path("open", OPENS, AT_FDCWD, path), (path));
}

/* What is read through it is not seen, but by readdir(). */
#define DEFINE_POINTER(type, name, shown, parameter, begin)                                                  \
    PUBLIC type *name parameter                                                                              \
    {                                                                                                        \
        call c = begin;                                                                                      \
        type *result = call_goes(&c) ? REAL(name)(path) : NULL;                                              \
        call_done(&c, result ? 0 : -1);                                                                      \
        return result;                                                                                       \
    }
DEFINE_POINTER(DIR, opendir, "opendir", (const char *path), call_on_path("opendir", OPENS, AT_FDCWD, path))
#define path fd
DEFINE_POINTER(DIR, fdopendir, "fdopendir", (int path), call_on_fd("fdopendir", OPENS, path, 0, -1))
#undef path

/* A close that fails has closed. */
PUBLIC int closedir(DIR *directory)
{
    call c = call_on_fd("close", OPENS, dirfd(directory), 0, -1);
    bool goes = call_goes(&c);
    int error = errno, result = REAL(closedir)(directory);
    if (!goes) {
        errno = error;
        result = -1;
    }
    return (int)call_done(&c, result);
}
PUBLIC int close(int fd)
{
    call c = call_on_fd("close", OPENS, fd, 0, -1);
    bool goes = call_goes(&c);
    int error = errno, result = REAL(close)(fd);
    if (!goes) {
        errno = error;
        result = -1;
    }
    return (int)call_done(&c, result);
}

/* At the end of the folder nothing has failed: errno is left as it was, which callers set to 0. */
#define DEFINE_READDIR(name, type)                                                                           \
    PUBLIC struct type *name(DIR *directory)                                                                 \
    {                                                                                                        \
        call c = call_on_fd("readdir", LOOKS, dirfd(directory), 0, -1);                                      \
        bool goes = call_goes(&c);                                                                           \
        struct type *result = goes ? REAL(name)(directory) : NULL;                                           \
        call_done(&c, !goes ? -1 : result != NULL);                                                          \
        return result;                                                                                       \
    }
DEFINE_READDIR(readdir, dirent)
DEFINE_READDIR(readdir64, dirent64)

/* ---- reading and writing ---- */

PUBLIC ssize_t read(int fd, void *data, size_t bytes)
{
    STAND_IN(read, call_on_fd("read", READS, fd, bytes, -1), (fd, data, c.bytes));
}
PUBLIC ssize_t pread(int fd, void *data, size_t bytes, off_t at)
{
    STAND_IN(pread, call_on_fd("pread", READS, fd, bytes, at), (fd, data, c.bytes, at));
}
PUBLIC ssize_t pread64(int fd, void *data, size_t bytes, off64_t at)
{
    STAND_IN(pread64, call_on_fd("pread", READS, fd, bytes, at), (fd, data, c.bytes, at));
}
ssize_t __read_chk(int fd, void *data, size_t bytes, size_t room);
ssize_t __pread_chk(int fd, void *data, size_t bytes, off_t at, size_t room);
ssize_t __pread64_chk(int fd, void *data, size_t bytes, off64_t at, size_t room);
PUBLIC ssize_t __read_chk(int fd, void *data, size_t bytes, size_t room)
{
    (void)room;
    return read(fd, data, bytes);
}
PUBLIC ssize_t __pread_chk(int fd, void *data, size_t bytes, off_t at, size_t room)
{
    (void)room;
    return pread(fd, data, bytes, at);
}
PUBLIC ssize_t __pread64_chk(int fd, void *data, size_t bytes, off64_t at, size_t room)
{
    (void)room;
    return pread64(fd, data, bytes, at);
}
PUBLIC ssize_t write(int fd, const void *data, size_t bytes)
{
    STAND_IN(write, call_on_fd("write", WRITES, fd, bytes, -1), (fd, data, c.bytes));
}
PUBLIC ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
    STAND_IN(pwrite, call_on_fd("pwrite", WRITES, fd, bytes, at), (fd, data, c.bytes, at));
}
PUBLIC ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t at)
{
    STAND_IN(pwrite64, call_on_fd("pwrite", WRITES, fd, bytes, at), (fd, data, c.bytes, at));
}

static size_t total(const struct iovec *parts, int count)
{
    size_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += parts[i].iov_len;
    return bytes;
}
/* So many parts as do not exceed what is to be done: where the first already does, that part alone, cut. */
static int shorten(const struct iovec *parts, int count, size_t bytes, struct iovec *cut)
{
    int n = 0;
    while (n < count && parts[n].iov_len <= bytes)
        bytes -= parts[n++].iov_len;
    *cut = (struct iovec){parts[0].iov_base, bytes};
    return n;
}
#define DEFINE_VECTOR(name, kind, parameters, at, ...)                                                       \
    PUBLIC ssize_t name parameters                                                                           \
    {                                                                                                        \
        call c = call_on_fd(#name, kind, fd, total(parts, count), at);                                       \
        struct iovec cut;                                                                                    \
        ssize_t result = -1;                                                                                 \
        if (call_goes(&c)) {                                                                                 \
            int n = shorten(parts, count, c.bytes, &cut);                                                    \
            result = REAL(name)(fd, n ? parts : &cut, n || !count ? n : 1 __VA_ARGS__);                      \
        }                                                                                                    \
        return call_done(&c, result);                                                                        \
    }
#define AND , at
DEFINE_VECTOR(readv, READS, (int fd, const struct iovec *parts, int count), -1)
DEFINE_VECTOR(writev, WRITES, (int fd, const struct iovec *parts, int count), -1)
DEFINE_VECTOR(preadv, READS, (int fd, const struct iovec *parts, int count, off_t at), at, AND)
DEFINE_VECTOR(preadv64, READS, (int fd, const struct iovec *parts, int count, off64_t at), at, AND)
DEFINE_VECTOR(pwritev, WRITES, (int fd, const struct iovec *parts, int count, off_t at), at, AND)
DEFINE_VECTOR(pwritev64, WRITES, (int fd, const struct iovec *parts, int count, off64_t at), at, AND)

/* ---- sizes ---- */

PUBLIC int fallocate(int fd, int mode, off_t at, off_t bytes)
{
    STAND_IN(fallocate, call_on_fd("fallocate", NAMES, fd, (size_t)bytes, at), (fd, mode, at, bytes));
}
PUBLIC int fallocate64(int fd, int mode, off64_t at, off64_t bytes)
{
    STAND_IN(fallocate64, call_on_fd("fallocate", NAMES, fd, (size_t)bytes, at), (fd, mode, at, bytes));
}
/* These two return the error instead of setting errno. */
#define DEFINE_RESERVE(name, type)                                                                           \
    PUBLIC int name(int fd, type at, type bytes)                                                             \
    {                                                                                                        \
        call c = call_on_fd("posix_fallocate", NAMES, fd, (size_t)bytes, at);                                \
        int before = errno, error = call_goes(&c) ? REAL(name)(fd, at, bytes) : errno;                       \
        errno = error;                                                                                       \
        call_done(&c, error ? -1 : 0);                                                                       \
        errno = before;                                                                                      \
        return error;                                                                                        \
    }
DEFINE_RESERVE(posix_fallocate, off_t)
DEFINE_RESERVE(posix_fallocate64, off64_t)
PUBLIC int ftruncate(int fd, off_t bytes)
{
    STAND_IN(ftruncate, call_on_fd("ftruncate", NAMES, fd, (size_t)bytes, 0), (fd, bytes));
}
PUBLIC int ftruncate64(int fd, off64_t bytes)
{
    STAND_IN(ftruncate64, call_on_fd("ftruncate", NAMES, fd, (size_t)bytes, 0), (fd, bytes));
}
PUBLIC int truncate(const char *path, off_t bytes)
{
    STAND_IN(truncate, call_on_path("truncate", NAMES, AT_FDCWD, path), (path, bytes));
}

/* ---- syncing ---- */

PUBLIC int fsync(int fd)
{
    STAND_IN(fsync, call_on_fd("fsync", SYNCS, fd, 0, -1), (fd));
}
PUBLIC int fdatasync(int fd)
{
    STAND_IN(fdatasync, call_on_fd("fdatasync", SYNCS, fd, 0, -1), (fd));
}
PUBLIC int syncfs(int fd)
{
    STAND_IN(syncfs, call_on_fd("syncfs", SYNCS, fd, 0, -1), (fd));
}
PUBLIC int sync_file_range(int fd, off64_t at, off64_t bytes, unsigned flags)
{
    STAND_IN(sync_file_range, call_on_fd("sync_file_range", SYNCS, fd, (size_t)bytes, at),
             (fd, at, bytes, flags));
}

/* ---- names; a call with two paths is known by the one that it makes ---- */

PUBLIC int rename(const char *from, const char *to)
{
    STAND_IN(rename, call_on_path("rename", NAMES, AT_FDCWD, to), (from, to));
}
PUBLIC int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    STAND_IN(renameat, call_on_path("rename", NAMES, to_folder, to), (from_folder, from, to_folder, to));
}
PUBLIC int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    STAND_IN(renameat2, call_on_path("rename", NAMES, to_folder, to),
             (from_folder, from, to_folder, to, flags));
}
PUBLIC int link(const char *from, const char *to)
{
    STAND_IN(link, call_on_path("link", NAMES, AT_FDCWD, to), (from, to));
}
PUBLIC int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags)
{
    STAND_IN(linkat, call_on_path("link", NAMES, to_folder, to), (from_folder, from, to_folder, to, flags));
}
PUBLIC int symlink(const char *target, const char *path)
{
    STAND_IN(symlink, call_on_path("symlink", NAMES, AT_FDCWD, path), (target, path));
}
PUBLIC int symlinkat(const char *target, int folder, const char *path)
{
    STAND_IN(symlinkat, call_on_path("symlink", NAMES, folder, path), (target, folder, path));
}
PUBLIC ssize_t readlink(const char *path, char *text, size_t size)
{
    STAND_IN(readlink, call_on_path("readlink", LOOKS, AT_FDCWD, path), (path, text, size));
}
PUBLIC int unlink(const char *path)
{
    STAND_IN(unlink, call_on_path("unlink", NAMES, AT_FDCWD, path), (path));
}
PUBLIC int unlinkat(int folder, const char *path, int flags)
{
    STAND_IN(unlinkat, call_on_path("unlink", NAMES, folder, path), (folder, path, flags));
}
PUBLIC int remove(const char *path)
{
    STAND_IN(remove, call_on_path("unlink", NAMES, AT_FDCWD, path), (path));
}
PUBLIC int rmdir(const char *path)
{
    STAND_IN(rmdir, call_on_path("rmdir", NAMES, AT_FDCWD, path), (path));
}
PUBLIC int chmod(const char *path, mode_t mode)
{
    STAND_IN(chmod, call_on_path("chmod", NAMES, AT_FDCWD, path), (path, mode));
}
PUBLIC int mkdir(const char *path, mode_t mode)
{
    STAND_IN(mkdir, call_on_path("mkdir", NAMES, AT_FDCWD, path), (path, mode));
}
PUBLIC int mkdirat(int folder, const char *path, mode_t mode)
{
    STAND_IN(mkdirat, call_on_path("mkdir", NAMES, folder, path), (folder, path, mode));
}

/* ---- looking ---- */

#define DEFINE_STAT(name, type)                                                                              \
    PUBLIC int name(const char *path, struct type *out)                                                      \
    {                                                                                                        \
        STAND_IN(name, call_on_path("stat", LOOKS, AT_FDCWD, path), (path, out));                            \
    }
#define DEFINE_FSTAT(name, type)                                                                             \
    PUBLIC int name(int fd, struct type *out)                                                                \
    {                                                                                                        \
        STAND_IN(name, call_on_fd("fstat", LOOKS, fd, 0, -1), (fd, out));                                    \
    }
#define DEFINE_FSTATAT(name, type)                                                                           \
    PUBLIC int name(int folder, const char *path, struct type *out, int flags)                               \
    {                                                                                                        \
        STAND_IN(name, call_on_path("stat", LOOKS, folder, path), (folder, path, out, flags));               \
    }
DEFINE_STAT(stat, stat)
DEFINE_STAT(stat64, stat64)
DEFINE_STAT(lstat, stat)
DEFINE_STAT(lstat64, stat64)
DEFINE_FSTAT(fstat, stat)
DEFINE_FSTAT(fstat64, stat64)
DEFINE_FSTATAT(fstatat, stat)
DEFINE_FSTATAT(fstatat64, stat64)
PUBLIC int statfs(const char *path, struct statfs *out)
{
    STAND_IN(statfs, call_on_path("statfs", LOOKS, AT_FDCWD, path), (path, out));
}
PUBLIC int statfs64(const char *path, struct statfs64 *out)
{
    STAND_IN(statfs64, call_on_path("statfs", LOOKS, AT_FDCWD, path), (path, out));
}
PUBLIC int statvfs(const char *path, struct statvfs *out)
{
    STAND_IN(statvfs, call_on_path("statfs", LOOKS, AT_FDCWD, path), (path, out));
}
PUBLIC int flock(int fd, int operation)
{
    STAND_IN(flock, call_on_fd("flock", LOOKS, fd, 0, -1), (fd, operation));
}
PUBLIC int access(const char *path, int mode)
{
    STAND_IN(access, call_on_path("access", LOOKS, AT_FDCWD, path), (path, mode));
}
PUBLIC int faccessat(int folder, const char *path, int mode, int flags)
{
    STAND_IN(faccessat, call_on_path("access", LOOKS, folder, path), (folder, path, mode, flags));
}
