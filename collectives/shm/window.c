/* Shared memory without MPI's windows: freeing an MPI window is collective, so a rank that fails alone and
 * cleans up would wait for ranks that wait for it. Here every rank maps a file of the first rank, and can
 * unmap it at any time.
 *
 * The file is a memfd. It has no name that could be left behind, and does not count against /dev/shm (64 MB
 * in many containers). The other ranks open it through /proc. If that is forbidden or not visible (a PID
 * namespace for each rank), the file is in /dev/shm, and its name is removed as soon as all ranks have opened
 * it. */
#include "collectives/shm/window_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "collectives/coll.h"
#include "runtime/base/memory.h"
#include "runtime/base/remote_error.h"

enum { PAGE = 4096, PATH_BYTES = 80 };
static const size_t huge_page = (size_t)2 << 20, move_block = (size_t)16 << 20;

/* Maps `bytes` of a file (-1: private memory), on huge pages if there are enough of them. */
static iso_status map(int file, size_t bytes, const char *what, iso_window *window)
{
    size_t align = bytes >= huge_page ? huge_page : PAGE, mapped;
    if (__builtin_add_overflow(bytes, align, &mapped) || mapped > PTRDIFF_MAX)
        return iso_error(ISO_INVALID, "%s: %zu bytes overflow", what, bytes);
    void *mapping =
        mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED)
        return iso_no_memory("%s (%zu bytes)", what, bytes);
    char *base = (char *)(((uintptr_t)mapping + align - 1) / align * align);
    int sharing = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    if (bytes > 0 && mmap(base, bytes, PROT_READ | PROT_WRITE, sharing | MAP_FIXED, file, 0) == MAP_FAILED) {
        munmap(mapping, mapped);
        return iso_no_memory("%s (%zu bytes): %s", what, bytes, strerror(errno));
    }
    if (align == huge_page)
        madvise(base, bytes, MADV_HUGEPAGE); /* only a hint */
    *window = (iso_window){.base = base, .bytes = bytes, .mapping = mapping, .mapped = mapped};
    return ISO_OK;
}

/* ---- files ---- */

static int create_memfd(size_t bytes, char path[PATH_BYTES])
{
    int file = memfd_create("isogrid", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, (off_t)bytes)) {
        close(file);
        return -1;
    }
    snprintf(path, PATH_BYTES, "/proc/%ld/fd/%d", (long)getpid(), file);
    return file;
}

/* Returns 0, or the error. */
static int allocate_space(int file, size_t bytes)
{
    int error;
    do
        error = posix_fallocate(file, 0, (off_t)bytes);
    while (error == EINTR);
    return error;
}

/* Space is allocated now: later a lack of space would end the process by a signal. */
static int create_named(size_t bytes, char path[PATH_BYTES])
{
    struct statvfs room;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(path, PATH_BYTES, "/dev/shm/isogrid.%ld.%lld.%ld", (long)getpid(), (long long)now.tv_sec,
             now.tv_nsec);
    if (statvfs("/dev/shm", &room) || (uint64_t)room.f_bavail * room.f_frsize < bytes)
        return -1;
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file >= 0 && allocate_space(file, bytes)) {
        unlink(path);
        close(file);
        return -1;
    }
    return file;
}

static int window_close_file(int file)
{
    if (file >= 0)
        close(file);
    return -1;
}

/* Rank 0 of the host creates the file, the others open it: *file is a file of `bytes` bytes on each rank, or
 * -1 on all of them. Fails if MPI fails. Another process may have the path's number by chance, so the file's
 * identity is compared. */
static iso_status open_on_all(const iso_comm *host, size_t bytes, int (*create)(size_t, char *), int *file)
{
    struct {
        char path[PATH_BYTES];
        dev_t device;
        ino_t node;
    } first = {{0}, 0, 0};
    struct stat about;
    bool good = false;
    int here = iso_comm_rank(host) == 0 ? create(bytes, first.path) : -1;
    if (iso_comm_rank(host) == 0 && here >= 0 && fstat(here, &about) == 0) {
        first.device = about.st_dev;
        first.node = about.st_ino;
    }
    iso_status status = iso_comm_broadcast(host, 0, &first, sizeof first);
    if (status == ISO_OK && iso_comm_rank(host) > 0)
        here = open(first.path, O_RDWR | O_CLOEXEC);
    if (status == ISO_OK) {
        bool mine = here >= 0 && fstat(here, &about) == 0 && about.st_dev == first.device &&
                    about.st_ino == first.node && (uint64_t)about.st_size == bytes;
        status = iso_comm_all(host, mine, &good);
    }
    if (iso_comm_rank(host) == 0 && create == create_named)
        unlink(first.path);
    *file = good ? here : window_close_file(here);
    return status;
}

/* The kernel would grant more memory than the machine has, and end the process when it is touched. */
static bool is_too_much(size_t bytes)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 && bytes / (size_t)page > (size_t)pages;
}

/* Tries a memfd, then a file in /dev/shm: *file is open on each rank, or -1 on all of them. */
static iso_status open_shared(const iso_comm *host, size_t bytes, iso_shared_memory *kind, int *file)
{
    const char *named = getenv("ISOGRID_SHM_FILES");
    iso_status status = ISO_OK;
    *file = -1;
    *kind = ISO_SHARED_MEMFD;
    if (!named || *named != '1')
        status = open_on_all(host, bytes, create_memfd, file);
    if (status == ISO_OK && *file < 0) {
        *kind = ISO_SHARED_FILES;
        status = open_on_all(host, bytes, create_named, file);
    }
    if (status == ISO_OK && *file < 0)
        *kind = ISO_SHARED_NONE;
    return status;
}

iso_status iso_shared_memory_find(const iso_comm *host, iso_shared_memory *kind)
{
    int file = -1;
    *kind = ISO_SHARED_PRIVATE;
    iso_status status = iso_comm_size(host) > 1 ? open_shared(host, PAGE, kind, &file) : ISO_OK;
    window_close_file(file);
    return status;
}

static iso_status create_shared(const iso_comm *host, size_t bytes, const char *what, iso_window *window)
{
    int file;
    iso_shared_memory kind;
    iso_status status = open_shared(host, bytes, &kind, &file);
    if (status != ISO_OK)
        return status;
    if (file < 0)
        return iso_error(ISO_NO_MEMORY,
                         "no memory that ranks can share for %s (%zu bytes): /dev/shm has too little room, "
                         "or the ranks are not on one machine",
                         what, bytes);
    status = map(file, bytes, what, window);
    close(file);
    bool mapped;
    iso_status met = iso_comm_all(host, status == ISO_OK, &mapped);
    if (status != ISO_OK || mapped)
        return status;
    iso_window_destroy(window);
    if (met != ISO_OK)
        return met;
    return iso_error_remote(iso_no_memory("%s (%zu bytes) on another rank of this host", what, bytes));
}

iso_status iso_window_create(const iso_comm *host, size_t bytes, const char *what, iso_window *window)
{
    iso_status status = ISO_OK;
    *window = (iso_window){0};
    if (is_too_much(bytes))
        return iso_no_memory("%s: %zu bytes are more than this machine has", what, bytes);
    ISO_TRY(iso_comm_size(host) > 1 ? create_shared(host, bytes, what, window)
                                    : map(-1, bytes, what, window));
    if (iso_comm_rank(host) == 0) {
        window->counted = bytes;
        iso_memory_count(bytes);
    }
done:
    return status;
}

void iso_window_move(const iso_window *from, size_t bytes, const iso_window *to)
{
    for (size_t at = 0; at < bytes; at += move_block) {
        size_t count = bytes - at < move_block ? bytes - at : move_block;
        memcpy(to->base + at, from->base + at, count);
        if (madvise(from->base + at, count, MADV_REMOVE)) /* of shared memory; only a hint */
            madvise(from->base + at, count, MADV_DONTNEED);
    }
}

void iso_window_destroy(iso_window *window)
{
    iso_memory_uncount(window->counted);
    if (window->mapping)
        munmap(window->mapping, window->mapped);
    *window = (iso_window){0};
}
