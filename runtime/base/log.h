/* Warnings and information for people. Errors are reported as statuses, not here.
 * Functions are local unless their comment says otherwise. */
#ifndef ISO_BASE_LOG_H
#define ISO_BASE_LOG_H

#include "runtime/base/build.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Prints one or more lines of any length to stderr, "isogrid: warning: ...". Callers ensure that only one
 * rank prints it. Any thread may call it. */
ISO_API void iso_warn(const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 1, 2)))
#endif
    ;

/* Gives each warning of the process to `take` instead, without the prefix and the newline; NULL: to stderr
 * again. Call it while no other thread uses Isogrid. `take` is called by the thread that warns, which may be one
 * of Isogrid's own (the watchdog, the writer of checkpoints), and by several at once. */
ISO_API void iso_set_warning_handler(void (*take)(void *user, const char *text), void *user);

#ifdef __cplusplus
}
#endif
#endif
