/* The checkpoints that a folder holds. */
#ifndef ISO_CHECKPOINT_READ_LISTING_IMPL_H
#define ISO_CHECKPOINT_READ_LISTING_IMPL_H

#include <stdint.h>
#include <time.h>

#include "runtime/base/status.h"

typedef struct iso_listed {
    char *path;
    uint64_t number;
    struct timespec time; /* of the last change */
} iso_listed;

typedef struct iso_listing {
    int count;
    iso_listed *items; /* oldest first: by number, then time, then name, so that it is always the same */
} iso_listing;

/* What becomes of a file that is none: ISO_INVALID where it is no checkpoint, ISO_IO where it cannot be read;
 * iso_error_message() tells of it. */
typedef void (*iso_listing_pass)(void *user, iso_status status);

/* Lists the files that carry a commit record and whose names fit the pattern (iso_file_name_fits). The others
 * are passed over, by name. A folder that is missing has no files. listing: zero before; iso_listing_free
 * also after an error. ISO_IO, ISO_NO_MEMORY. Not collective. */
iso_status iso_listing_make(const char *folder, const char *pattern, iso_listing *listing,
                            iso_listing_pass pass_over, void *user);
void iso_listing_free(iso_listing *listing);

#endif
