#include "runtime/checkpoint/read/direct_io_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "runtime/base/memory.h"
#include "runtime/checkpoint/file_io_impl.h"

enum {
    LARGE = 2 << 20,  /* bytes below which direct reads do not pay */
    WINDOW = 8 << 20, /* bytes of one read; large enough to be in huge pages, so that the disk gets few
                         segments */
    ALIGNED = 4096,   /* of memory and file offsets: no disk wants more */
};

/* Network file systems, and those in memory, have no device of their own. */
static bool is_on_a_disk(int file)
{
    struct stat about;
    return fstat(file, &about) == 0 && major(about.st_dev) != 0;
}

/* Reopens the file itself, even if its name has been given to another file. */
static int open_again(int file)
{
    char name[40];
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    return open(name, O_RDONLY | O_DIRECT | O_CLOEXEC);
}

static bool is_open(iso_direct_io *d, int file)
{
    if (!d->tried) {
        d->tried = true;
        d->file = is_on_a_disk(file) ? open_again(file) : -1;
    }
    return d->file >= 0;
}

/* Tests one byte in the middle. If the file system cannot tell, the bytes count as cached. */
static bool is_cached(int file, uint64_t offset, size_t bytes)
{
    char byte;
    struct iovec part = {&byte, 1};
    return preadv2(file, &part, 1, (off_t)(offset + bytes / 2), RWF_NOWAIT) >= 0 || errno != EAGAIN;
}

static iso_status make_window(iso_direct_io *d)
{
    if (d->window)
        return ISO_OK;
    iso_status status = iso_alloc(WINDOW + ALIGNED, "a part of a checkpoint", &d->memory);
    if (status == ISO_OK)
        d->window = (char *)d->memory + (ALIGNED - (uintptr_t)d->memory % ALIGNED);
    return status;
}

/* Reads as many of the bytes wanted at `offset` as one read gets; 0: the read failed. */
static size_t read_some(const iso_direct_io *d, char *data, size_t bytes, uint64_t offset)
{
    size_t before = (size_t)(offset % ALIGNED);
    size_t wanted = bytes + before < WINDOW ? (bytes + before + ALIGNED - 1) / ALIGNED * ALIGNED : WINDOW;
    ssize_t got = pread(d->file, d->window, wanted, (off_t)(offset - before));
    if (got <= (ssize_t)before)
        return 0;
    size_t useful = (size_t)got - before < bytes ? (size_t)got - before : bytes;
    memcpy(data, d->window + before, useful);
    return useful;
}

iso_status iso_direct_io_read(iso_direct_io *d, int file, const char *name, void *data, size_t bytes,
                              uint64_t offset)
{
    size_t done = 0, more = 1;
    if (bytes >= LARGE && is_open(d, file) && !is_cached(file, offset, bytes)) {
        iso_status status = make_window(d);
        if (status != ISO_OK)
            return status;
        for (; done < bytes && more > 0; done += more)
            more = read_some(d, (char *)data + done, bytes - done, offset + done);
    }
    return iso_file_read_at(file, name, (char *)data + done, bytes - done, offset + done);
}

void iso_direct_io_end(iso_direct_io *d)
{
    if (d->tried && d->file >= 0)
        close(d->file);
    iso_free(d->memory);
    *d = (iso_direct_io){0};
}
