/* The first of several errors, with its message, for work that continues after an error. A zeroed one has
 * no error. */
#ifndef ISO_BASE_FIRST_ERROR_H
#define ISO_BASE_FIRST_ERROR_H

#include <stdio.h>

#include "runtime/base/remote_error.h"

typedef struct iso_first_error {
    iso_status status;
    bool remote;
    char message[4096];
} iso_first_error;

/* Keeps the status and this thread's message of it, unless it is ISO_OK or there was an error before. */
static inline void iso_first_error_keep(iso_first_error *first, iso_status status)
{
    if (status == ISO_OK || first->status != ISO_OK)
        return;
    first->status = status;
    first->remote = iso_error_is_remote();
    snprintf(first->message, sizeof first->message, "%s", iso_error_message());
}

/* Returns ISO_OK or the error, whose message becomes this thread's, with the mark of remote_error.h. */
static inline iso_status iso_first_error_get(const iso_first_error *first)
{
    if (first->status == ISO_OK)
        return ISO_OK;
    iso_error(first->status, "%s", first->message);
    return first->remote ? iso_error_remote(first->status) : first->status;
}

#endif
