/* Values of options that hold several: "patience=3,monitor=val_loss". */
#ifndef ISO_LAUNCH_SETTINGS_H
#define ISO_LAUNCH_SETTINGS_H

#include "launch/command_line.h"

enum { ISO_LONGEST_SETTING = 64 };

/* A name, and where its value goes (one of the four). Numbers are from 0 on. */
typedef struct iso_named_value {
    const char *name;
    double *real;
    int64_t *count;
    bool *flag; /* 0 or 1 */
    char *text; /* [ISO_LONGEST_SETTING] */
    bool given;
} iso_named_value;

/* Reads "name=value,...", of which the first `needed` settings must be given. option ("schedule") and
 * `whole`, its value, are for messages; rest: the part of it that is read. ISO_INVALID. */
iso_status iso_settings_read(const char *option, const char *whole, const char *rest,
                             iso_named_value *settings, int count, int needed);
/* Takes "name=value" off the front of *rest, for lists whose names are not known; both have room for
 * ISO_LONGEST_SETTING. */
iso_status iso_settings_take(const char *option, const char *whole, const char **rest, char *name,
                             char *value);

#endif
