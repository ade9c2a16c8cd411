/* Errors of the functions that a program gives to the library: callbacks, generators, maps. For this library; no
 * public header includes it. Local. */
#ifndef ISO_BASE_PROGRAM_CALL_H
#define ISO_BASE_PROGRAM_CALL_H

#include "runtime/base/status.h"

/* Makes such a call, and returns its status. An earlier message is forgotten first, since it would be taken for one
 * of this call. If the call fails without a message, "WHAT returned ISO_FAILED and recorded no message" is recorded;
 * the format, which follows the call, gives WHAT. */
#define ISO_PROGRAM_CALL(call, ...) (iso_error_forget(), iso_error_of_call((call), __VA_ARGS__))
void iso_error_forget(void);
iso_status iso_error_of_call(iso_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* "ISO_FAILED". */
const char *iso_status_name(iso_status status);

#endif
