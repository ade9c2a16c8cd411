#include "runtime/train/tensorboard/trace_file.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "runtime/base/file.h"
#include "runtime/base/memory.h"
#include "runtime/train/tensorboard/planes.h"

/* Makes <folder>/plugins/profile/<date and time>. */
static iso_status make_folder(const char *folder, char *path, size_t size)
{
    time_t seconds = time(NULL);
    struct tm local;
    char name[32];
    localtime_r(&seconds, &local);
    strftime(name, sizeof name, "%Y_%m_%d_%H_%M_%S", &local);
    const char *const parts[] = {"/plugins", "/profile", "/", name};
    size_t at = (size_t)snprintf(path, size, "%s", folder);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && at < size; i++) {
        at += (size_t)snprintf(path + at, size - at, "%s", parts[i]);
        if (i != 2 && at < size && mkdir(path, 0777) != 0 && errno != EEXIST)
            return iso_error(ISO_IO, "TensorBoard's %s: %s", path, strerror(errno));
    }
    return at < size ? ISO_OK : iso_error(ISO_IO, "TensorBoard's %s: the name is too long", path);
}

/* Compresses as gzip does; the caller owns *packed. */
static iso_status pack(const iso_text *json, unsigned char **packed, size_t *bytes)
{
    enum { GZIP = 16 };
    if (json->length > UINT32_MAX)
        return iso_error(ISO_FAILED, "a trace of %zu bytes is too long to be compressed", json->length);
    z_stream stream = {.next_in = (unsigned char *)iso_text_get(json), .avail_in = (uInt)json->length};
    if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) !=
        Z_OK)
        return iso_error(ISO_NO_MEMORY, "no memory to compress a trace");
    size_t room = deflateBound(&stream, (uLong)json->length);
    iso_status status = ISO_OK;
    *packed = iso_new(room);
    stream.next_out = *packed;
    stream.avail_out = (uInt)room;
    if (!*packed || deflate(&stream, Z_FINISH) != Z_STREAM_END)
        status = iso_error(ISO_NO_MEMORY, "no memory to compress a trace of %zu bytes", json->length);
    *bytes = room - stream.avail_out;
    deflateEnd(&stream);
    return status;
}

iso_status iso_trace_file_write(const char *folder, const iso_text *json)
{
    char path[4096], host[256] = "localhost";
    unsigned char *packed = NULL, *planes = NULL;
    size_t bytes = 0, plane_bytes = 0;
    iso_status status = ISO_OK;
    ISO_TRY(make_folder(folder, path, sizeof path - sizeof host - 32));
    gethostname(host, sizeof host - 1);
    size_t length = strlen(path);
    ISO_TRY(pack(json, &packed, &bytes));
    snprintf(path + length, sizeof host + 32, "/%s.trace.json.gz", host);
    ISO_TRY(iso_file_replace(path, packed, bytes));
    ISO_TRY(iso_planes_pack(json, host, &planes, &plane_bytes));
    snprintf(path + length, sizeof host + 32, "/%s.xplane.pb", host);
    ISO_TRY(iso_file_replace(path, planes, plane_bytes));
done:
    iso_free(packed);
    iso_free(planes);
    return status;
}
