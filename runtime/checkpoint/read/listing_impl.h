/* The checkpoints that a folder holds. */
#ifndef ISO_CHECKPOINT_READ_LISTING_IMPL_H
#define ISO_CHECKPOINT_READ_LISTING_IMPL_H

#include <stdint.h>
#include <time.h>

#include "runtime/base/status.h"

typedef struct iso_listed {
    char *path;
    uint64_t number;
    struct timespec time; /* of the last modification */
} iso_listed;

typedef struct iso_listing {
    int count;
    iso_listed *items; /* oldest first: by number, then time, then name, so that the order is deterministic */
} iso_listing;

/* Called for each file that is not listed: ISO_INVALID if it is not a checkpoint, ISO_IO if it cannot be read.
 * iso_error_message() says why. ISO_OK: the file is passed over; otherwise the listing ends with this status. */
typedef iso_status (*iso_listing_pass)(void *user, iso_status status);

/* Lists the files that have a commit record and whose names match the pattern (iso_file_name_fits).
 * `pass_over` is called for the others, in the order of their names. A folder that does not exist has no
 * files. listing: zero before; call iso_listing_free after an error too. ISO_IO, ISO_NO_MEMORY. Not
 * collective. */
iso_status iso_listing_make(const char *folder, const char *pattern, iso_listing *listing,
                            iso_listing_pass pass_over, void *user);
void iso_listing_free(iso_listing *listing);

#endif
