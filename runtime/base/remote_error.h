/* Errors of this rank that another rank's error has caused, or that ranks have agreed on. */
#ifndef ISO_BASE_REMOTE_ERROR_H
#define ISO_BASE_REMOTE_ERROR_H

#include <stdbool.h>

#include "runtime/base/status.h"

/* Marks this thread's recorded error: it happened on another rank, whose message says more. An agreement takes the
 * message of a rank that has an error of its own, if there is one. Returns the code unchanged. */
iso_status iso_error_remote(iso_status code);
/* Whether this thread's last recorded error has this mark. */
bool iso_error_is_remote(void);
/* Whether a message names the rank that it is from, "rank 2: no disk" or "the step failed: rank 2: no disk", as an
 * agreement of ranks does. */
bool iso_error_names_rank(const char *text);

#endif
