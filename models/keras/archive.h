/* The zip container of a .keras file. For models/keras only. */
#ifndef ISO_MODELS_KERAS_ARCHIVE_H
#define ISO_MODELS_KERAS_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/status.h"

typedef struct iso_keras_archive iso_keras_archive;

#define ISO_KERAS_METADATA "metadata.json"
#define ISO_KERAS_CONFIG "config.json"
#define ISO_KERAS_WEIGHTS "model.weights.h5"

enum { ISO_KERAS_MOST_CONFIG = 64 << 20 }; /* bytes of config.json; a layer takes about 1000 */

/* Opens a file, or bytes in memory, which must stay valid until it is closed and which messages call `name`.
 * ISO_INVALID if it is not a zip, or has a member other than these three, or one that is there twice,
 * encrypted or too large. ISO_IO if the file cannot be read. */
iso_status iso_keras_archive_open(const char *path, iso_keras_archive **archive);
iso_status iso_keras_archive_open_memory(const char *name, const void *data, size_t bytes,
                                         iso_keras_archive **archive);
void iso_keras_archive_close(iso_keras_archive *archive);
bool iso_keras_archive_has(const iso_keras_archive *archive, const char *member);
/* A member as a new text (iso_free) of *bytes and a zero. Its CRC is checked. */
iso_status iso_keras_archive_read(iso_keras_archive *archive, const char *member, char **text, size_t *bytes);
/* Writes a member to a file that is open for writing; `path` is its name in messages. */
iso_status iso_keras_archive_unpack(iso_keras_archive *archive, const char *member, int file,
                                    const char *path);

#endif
