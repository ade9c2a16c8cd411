#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/file.h"
#include "runtime/checkpoint/file_io_impl.h"

enum { MOST_AT_ONCE = 1 << 30 }; /* Linux transfers less than 2 GiB per call */

static iso_status file_io_failed(const char *name, const char *what, size_t bytes, uint64_t offset)
{
    return iso_error(ISO_IO, "'%s': %s %zu bytes at %" PRIu64 " failed: %s", name, what, bytes, offset,
                     strerror(errno));
}

iso_status iso_file_write_at(int file, const char *name, const void *data, size_t bytes, uint64_t offset)
{
    const char *from = data;
    while (bytes > 0) {
        ssize_t written = pwrite(file, from, bytes < MOST_AT_ONCE ? bytes : MOST_AT_ONCE, (off_t)offset);
        if (written < 0 && errno == EINTR)
            continue;
        if (written == 0)
            errno = ENOSPC; /* the only other reason for a short write */
        if (written <= 0)
            return file_io_failed(name, "writing", bytes, offset);
        from += written;
        offset += (uint64_t)written;
        bytes -= (size_t)written;
    }
    return ISO_OK;
}

iso_status iso_file_read_at(int file, const char *name, void *data, size_t bytes, uint64_t offset)
{
    size_t got;
    if (!iso_file_read(file, data, bytes, offset, &got))
        return file_io_failed(name, "reading", bytes - got, offset + got);
    return got == bytes ? ISO_OK
                        : iso_error(ISO_INVALID, "'%s' ends at %" PRIu64 ", %zu bytes too early", name,
                                    offset + got, bytes - got);
}

iso_status iso_file_reserve(int file, const char *name, uint64_t bytes)
{
    while (fallocate(file, 0, 0, (off_t)bytes)) {
        if (errno == EOPNOTSUPP || errno == ENOSYS)
            return ISO_OK;
        if (errno != EINTR)
            return iso_file_failed(name, "its space cannot be reserved");
    }
    return ISO_OK;
}

iso_status iso_file_end_at(int file, const char *name, uint64_t bytes)
{
    while (ftruncate(file, (off_t)bytes))
        if (errno != EINTR)
            return iso_file_failed(name, "its end cannot be set");
    return ISO_OK;
}

iso_status iso_file_sync(int file, const char *name)
{
    while (fsync(file))
        if (errno != EINTR)
            return iso_file_failed(name, "syncing failed");
    return ISO_OK;
}

bool iso_file_name_fits(const char *name, const char *pattern)
{
    const char *begin = pattern ? pattern : "{}.weights.h5";
    const char *star = NULL, *from = NULL; /* star: after the last {...}; from: the rest of the name that
                                              {...} has not matched yet */
    if (*name == '.')
        return false;
    for (const char *p = begin; *name || *p;) {
        const char *close = *p == '{' ? strchr(p, '}') : NULL;
        if (close) {
            star = p = close + 1;
            from = name;
        } else if (*name && *p == *name) {
            p++;
            name++;
        } else if (star && *from) {
            p = star;
            name = ++from;
        } else
            return false;
    }
    return true;
}
