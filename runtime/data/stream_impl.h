/* Bytes of a file or of memory, in order; gzip'd data is inflated. */
#ifndef ISO_DATA_STREAM_IMPL_H
#define ISO_DATA_STREAM_IMPL_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/status.h"

typedef struct iso_byte_stream iso_byte_stream;

/* name: for messages; if bytes is NULL, the path of a file. Both lent. ISO_INVALID: a missing file, or one
 * that is not regular. */
iso_status iso_byte_stream_open(const char *name, const void *bytes, size_t size, iso_byte_stream **stream);
void iso_byte_stream_close(iso_byte_stream *stream);
/* Reads `count` bytes, fewer only at the end: *got. ISO_INVALID: broken or truncated gzip data; ISO_IO. */
iso_status iso_byte_stream_read(iso_byte_stream *stream, void *out, size_t count, size_t *got);
/* Upper bound of the uncompressed bytes: the size, or for gzip'd data the most to which it can inflate. */
size_t iso_byte_stream_limit(const iso_byte_stream *stream);
bool iso_byte_stream_is_gzip(const iso_byte_stream *stream);

#endif
