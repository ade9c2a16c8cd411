/* Files' names and errors, and files that are there as a whole or not at all. */
#ifndef ISO_BASE_FILE_H
#define ISO_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/status.h"

/* Writes a file beside `path`, syncs it and gives it the name, in the place of what had it: who reads sees
 * the old file or the new one. ISO_IO names the path; the old file is then as it was. */
iso_status iso_file_replace(const char *path, const void *data, size_t bytes);

/* What a system call left in errno, as ISO_IO: "'ckpt/3.weights.h5': it cannot be opened: Permission denied".
 */
iso_status iso_file_failed(const char *path, const char *what);

/* "FOLDER/NAME": iso_free; NULL: there is no memory for it. */
char *iso_file_join(const char *folder, const char *name);
/* Whether a file's name, after the path's last slash, ends so and has something before that: "net.keras"
 * ends in ".keras", "net/.keras" does not. */
bool iso_file_name_ends(const char *path, const char *end);

#endif
