#include "runtime/data/stream_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "runtime/base/file.h"
#include "runtime/base/memory.h"

enum { CHUNK = 256 * 1024, MOST_AT_ONCE = 1 << 30 };
/* One byte inflates to at most 1032 (zlib, "Technical details": maximum compression factor); a little more
 * for tiny files. */
enum { DEFLATE_FACTOR = 1032, DEFLATE_SLACK = 4096 };

struct iso_byte_stream {
    const char *name;
    int fd; /* -1: in memory */
    size_t size;
    const unsigned char *bytes; /* in memory: bytes that have not been read yet */
    size_t left;
    unsigned char *buffer;
    const unsigned char *in; /* raw bytes that have been read */
    size_t in_left;
    bool gzip, ended; /* ended: the last gzip member has been read to its end */
    bool inflating;
    z_stream z;
};

static iso_status stream_read_file(iso_byte_stream *s)
{
    ssize_t count;
    do
        count = read(s->fd, s->buffer, CHUNK);
    while (count < 0 && errno == EINTR);
    if (count < 0)
        return iso_error(ISO_IO, "cannot read '%s': %s", s->name, strerror(errno));
    s->in = s->buffer;
    s->in_left = (size_t)count;
    return ISO_OK;
}

/* Reads more raw bytes if none are left. At the end of the file there are still none. */
static iso_status refill(iso_byte_stream *s)
{
    if (s->in_left > 0)
        return ISO_OK;
    if (s->fd >= 0)
        return stream_read_file(s);
    s->in = s->bytes;
    s->in_left = s->left < MOST_AT_ONCE ? s->left : MOST_AT_ONCE;
    s->bytes += s->in_left;
    s->left -= s->in_left;
    return ISO_OK;
}

static iso_status stream_open_file(iso_byte_stream *s)
{
    struct stat about;
    s->fd = open(s->name, O_RDONLY | O_CLOEXEC);
    if (s->fd < 0)
        return iso_file_cannot_open(s->name);
    if (fstat(s->fd, &about) != 0)
        return iso_error(ISO_IO, "cannot read the attributes of '%s': %s", s->name, strerror(errno));
    if (!S_ISREG(about.st_mode))
        return iso_error(ISO_INVALID, "'%s' is not a file", s->name);
    s->size = (size_t)about.st_size;
    return iso_alloc(CHUNK, "a file's buffer", (void **)&s->buffer);
}

static iso_status stream_begin(iso_byte_stream *s)
{
    iso_status status = refill(s);
    if (status != ISO_OK)
        return status;
    s->gzip = s->in_left >= 2 && s->in[0] == 0x1f && s->in[1] == 0x8b;
    if (s->gzip && inflateInit2(&s->z, MAX_WBITS + 16) != Z_OK)
        return iso_error(ISO_NO_MEMORY, "no memory to inflate '%s'", s->name);
    s->inflating = s->gzip;
    return ISO_OK;
}

iso_status iso_byte_stream_open(const char *name, const void *bytes, size_t size, iso_byte_stream **stream)
{
    iso_byte_stream *s = iso_new(sizeof *s);
    if (!s)
        return iso_error(ISO_NO_MEMORY, "no memory to read '%s'", name);
    *s = (iso_byte_stream){.name = name, .fd = -1, .bytes = bytes, .size = size, .left = size};
    iso_status status = bytes ? ISO_OK : stream_open_file(s);
    if (status == ISO_OK)
        status = stream_begin(s);
    if (status != ISO_OK) {
        iso_byte_stream_close(s);
        return status;
    }
    *stream = s;
    return ISO_OK;
}

void iso_byte_stream_close(iso_byte_stream *s)
{
    if (!s)
        return;
    if (s->inflating)
        inflateEnd(&s->z);
    if (s->fd >= 0)
        close(s->fd);
    iso_free(s->buffer);
    iso_free(s);
}

/* After a gzip member there may be another one. Other bytes are an error. */
static iso_status next_member(iso_byte_stream *s)
{
    iso_status status = refill(s);
    if (status != ISO_OK)
        return status;
    if (s->in_left == 0)
        s->ended = true;
    else if (s->in[0] != 0x1f)
        return iso_error(ISO_INVALID, "'%s': bytes after the end of the gzip data", s->name);
    else
        inflateReset(&s->z);
    return ISO_OK;
}

static iso_status inflate_some(iso_byte_stream *s, unsigned char *out, size_t count, size_t *got)
{
    size_t most = count < MOST_AT_ONCE ? count : MOST_AT_ONCE;
    iso_status status = refill(s);
    if (status != ISO_OK)
        return status;
    if (s->in_left == 0)
        return iso_error(ISO_INVALID,
                         "'%s' is truncated: its gzip data ends after %zu bytes of file, %lu inflated",
                         s->name, s->size, s->z.total_out);
    s->z.next_in = (unsigned char *)(uintptr_t)s->in;
    s->z.avail_in = (unsigned)s->in_left;
    s->z.next_out = out;
    s->z.avail_out = (unsigned)most;
    int code = inflate(&s->z, Z_NO_FLUSH);
    s->in = s->z.next_in;
    s->in_left = s->z.avail_in;
    *got = most - s->z.avail_out;
    if (code == Z_STREAM_END)
        return next_member(s);
    if (code == Z_MEM_ERROR)
        return iso_error(ISO_NO_MEMORY, "no memory to inflate '%s'", s->name);
    if (code != Z_OK && code != Z_BUF_ERROR)
        return iso_error(ISO_INVALID, "'%s': broken gzip data after %lu inflated bytes: %s", s->name,
                         s->z.total_out, s->z.msg ? s->z.msg : "no gzip data");
    return ISO_OK;
}

static iso_status copy_some(iso_byte_stream *s, unsigned char *out, size_t count, size_t *got)
{
    iso_status status = refill(s);
    if (status != ISO_OK)
        return status;
    *got = count < s->in_left ? count : s->in_left;
    memcpy(out, s->in, *got);
    s->in += *got;
    s->in_left -= *got;
    s->ended = *got == 0;
    return ISO_OK;
}

iso_status iso_byte_stream_read(iso_byte_stream *s, void *out, size_t count, size_t *got)
{
    size_t done = 0;
    while (done < count && !s->ended) {
        size_t some = 0;
        unsigned char *to = (unsigned char *)out + done;
        iso_status status =
            s->gzip ? inflate_some(s, to, count - done, &some) : copy_some(s, to, count - done, &some);
        if (status != ISO_OK)
            return status;
        done += some;
    }
    *got = done;
    return ISO_OK;
}

size_t iso_byte_stream_limit(const iso_byte_stream *s)
{
    size_t limit;
    if (!s->gzip)
        return s->size;
    return __builtin_mul_overflow(s->size, (size_t)DEFLATE_FACTOR, &limit) ? SIZE_MAX : limit + DEFLATE_SLACK;
}

bool iso_byte_stream_is_gzip(const iso_byte_stream *s)
{
    return s->gzip;
}
