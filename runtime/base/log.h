/* Warnings and information for people. Errors travel as statuses, not through here.
 * Functions are local unless their comment says otherwise. */
#ifndef ISO_BASE_LOG_H
#define ISO_BASE_LOG_H

#include "runtime/base/build.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A line to stderr, "isogrid: warning: ...", or several, of any length. Callers see to it that one rank says
 * it. */
ISO_API void iso_warn(const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 1, 2)))
#endif
    ;

#ifdef __cplusplus
}
#endif
#endif
