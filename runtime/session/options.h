/* The options of every Isogrid program, declared once. iso_init takes them; programs with an option table of
 * their own read names, help and limits from these rows. */
#ifndef ISO_SESSION_OPTIONS_H
#define ISO_SESSION_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"

typedef struct iso_session_option {
    const char *name; /* without the dashes */
    bool same;        /* must be the same on all ranks */
    bool number;      /* an integer in [low, high]; otherwise a text that is not empty */
    bool flag;        /* has no value on the command line, and the text "1" here */
    uint64_t low, high;
    const char *value; /* the name of the value in help texts */
    const char *help;
    const char *wants;          /* the valid values, for messages */
    const char *const *choices; /* the valid texts, ended by NULL; NULL: any */
} iso_session_option;

/* The row whose name is these `length` characters; NULL: there is none. */
const iso_session_option *iso_session_option_find(const char *name, size_t length);
/* Checks a value; *number is set for numbers. ISO_INVALID names the option and the value. */
iso_status iso_session_option_check(const iso_session_option *option, const char *text, uint64_t *number);

#endif
