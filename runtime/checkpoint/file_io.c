#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "runtime/base/file.h"
#include "runtime/checkpoint/file_io_impl.h"
#include "runtime/checkpoint/file_names.h"

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

/* ---- names of files ---- */

enum { LONGEST_NAME = 255 };

/* reached.at[i]: the part of the pattern that has been read can match the first i characters of the name. */
typedef struct reached {
    bool at[LONGEST_NAME + 1];
} reached;

static size_t mark_digits(const char *name, size_t at, reached *next)
{
    while (isdigit((unsigned char)name[at]))
        next->at[++at] = true;
    return at;
}

/* Marks the ends of all numbers that begin here, as printf writes them for d or, if `real`, for e, f and g; spaces
 * may fill them up on the left. */
static void mark_numbers(const char *name, size_t at, bool real, reached *next)
{
    at += strspn(name + at, " ");
    at += name[at] == '-';
    if (real && (!strncasecmp(name + at, "nan", 3) || !strncasecmp(name + at, "inf", 3)))
        next->at[at + 3] = true;
    size_t end = mark_digits(name, at, next);
    if (!real || end == at)
        return;
    if (name[end] == '.')
        end = mark_digits(name, end + 1, next);
    if ((name[end] == 'e' || name[end] == 'E') && (name[end + 1] == '-' || name[end + 1] == '+'))
        mark_digits(name, end + 2, next);
}

/* Whether "epoch:02d" is a whole number: one of the two that are counted, without a format of real numbers. */
static bool is_whole(const char *field, size_t length)
{
    size_t named = strcspn(field, ":}");
    bool counted = named == 5 && (!strncmp(field, "epoch", 5) || !strncmp(field, "batch", 5));
    return counted && (named == length || !strchr("efgEFG", field[length - 1]));
}

/* Matches a field "{...}"; `field` is what is between the braces. */
static void match_field(const char *name, const char *field, size_t length, const reached *from, reached *to)
{
    bool any = false;
    for (size_t i = 0, end = strlen(name); i <= end; i++) {
        any |= from->at[i];
        if (length == 0)
            to->at[i] = any;
        else if (from->at[i])
            mark_numbers(name, i, !is_whole(field, length), to);
    }
}

static void match_character(const char *name, char c, const reached *from, reached *to)
{
    for (size_t i = 0; name[i]; i++)
        to->at[i + 1] = from->at[i] && name[i] == c;
}

bool iso_file_name_fits(const char *name, const char *pattern)
{
    const char *p = pattern ? pattern : "{}.weights.h5";
    size_t length = strlen(name);
    reached from = {.at[0] = true};
    if (*name == '.' || length > LONGEST_NAME)
        return false;
    while (*p) {
        reached to = {0};
        bool doubled = (*p == '{' || *p == '}') && p[1] == *p; /* stands for one brace */
        const char *close = *p == '{' && !doubled ? strchr(p, '}') : NULL;
        if (close)
            match_field(name, p + 1, (size_t)(close - p - 1), &from, &to);
        else
            match_character(name, *p, &from, &to);
        p = close ? close + 1 : p + 1 + doubled;
        from = to;
    }
    return from.at[length];
}
