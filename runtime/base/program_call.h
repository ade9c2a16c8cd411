/* Errors of the functions that a program gives to the library: callbacks, generators, maps. For this library; no
 * public header includes it. Local. */
#ifndef ISO_BASE_PROGRAM_CALL_H
#define ISO_BASE_PROGRAM_CALL_H

#include "runtime/base/status.h"

/* Before such a call: forgets this thread's message, which would be taken for one of that function. */
void iso_error_forget(void);
/* After it: returns its status. If it failed without a message, records "WHAT returned ISO_FAILED and recorded no
 * message"; the format gives WHAT. */
iso_status iso_error_of_call(iso_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* "ISO_FAILED". */
const char *iso_status_name(iso_status status);

#endif
