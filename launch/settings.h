/* Values of options that hold several: "patience=3,monitor=val_loss". */
#ifndef ISO_LAUNCH_SETTINGS_H
#define ISO_LAUNCH_SETTINGS_H

#include "launch/command_line.h"
#include "runtime/base/descriptor.h"

enum { ISO_LONGEST_SETTING = 64 };

/* The range of whole numbers. */
typedef struct iso_count_range {
    int64_t least, most;
} iso_count_range;

/* A name and the destination of its value (one of the five). */
typedef struct iso_named_value {
    const char *name;
    double *real;          /* from 0 to 1e9 */
    int64_t *count;        /* from 0 to 2^40 */
    iso_count_range range; /* of `count`, if `most` is not 0 */
    bool any_number;       /* the caller checks `real`, and `count` if it has no range */
    bool *flag;            /* 0 or 1 */
    char *text;            /* [ISO_LONGEST_SETTING] */
    int *choice;           /* the number of one of `words`, which end with NULL */
    const char *const *words;
    bool given;
} iso_named_value;

/* Reads "name=value,...", of which the first `needed` settings must be given. option ("schedule") and
 * `whole`, its value, are for messages; rest: the part of it that is read. ISO_INVALID. */
iso_status iso_settings_read(const char *option, const char *whole, const char *rest,
                             iso_named_value *settings, int count, int needed);
/* The same for numbers that are members of the struct `values`, as `rows` describes them; NULL: none. counts: the
 * range of all whole numbers; most 0: the caller checks them, as it does the other numbers. */
iso_status iso_settings_read_rows(const char *option, const char *whole, const char *rest,
                                  const iso_setting *rows, iso_count_range counts, int needed, void *values);
/* Removes "name=value" from the front of *rest, for lists with unknown names. name and value have
 * ISO_LONGEST_SETTING bytes each. */
iso_status iso_settings_take(const char *option, const char *whole, const char **rest, char *name,
                             char *value);

#endif
