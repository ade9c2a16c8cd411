/* Files that are there as a whole or not at all. */
#ifndef ISO_BASE_FILE_H
#define ISO_BASE_FILE_H

#include <stddef.h>

#include "runtime/base/status.h"

/* Writes a file beside `path`, syncs it and gives it the name, in the place of what had it: who reads sees
 * the old file or the new one. ISO_IO names the path; the old file is then as it was. */
iso_status iso_file_replace(const char *path, const void *data, size_t bytes);

#endif
