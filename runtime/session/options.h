/* The options that every program with Isogrid in it understands, declared once: iso_init takes them, and programs with a
 * table of their own take name, help and limits of these rows from here. */
#ifndef ISO_SESSION_OPTIONS_H
#define ISO_SESSION_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"

typedef struct iso_session_option {
    const char *name; /* without the dashes */
    bool same;        /* on all ranks */
    bool number;      /* a whole number in [low, high]; else a text that is not empty */
    uint64_t low, high;
    const char *value; /* what a help calls the value */
    const char *help;
    const char *wants; /* what it must be, for messages */
} iso_session_option;

/* The row of a name of `length` characters; NULL: there is none. */
const iso_session_option *iso_session_option_find(const char *name, size_t length);
/* Checks a value; *number is set for numbers. ISO_INVALID names the option and the value. */
iso_status iso_session_option_check(const iso_session_option *option, const char *text, uint64_t *number);

#endif
