/* The command line as a table: each option is a row, and its value goes to a member of a struct. */
#ifndef ISO_LAUNCH_COMMAND_LINE_H
#define ISO_LAUNCH_COMMAND_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"
#include "runtime/base/text.h"
#include "runtime/base/types.h"

/* The kind of an option's value, and the type of its member. */
typedef enum iso_argument_kind {
    ISO_ARGUMENT_TEXT,    /* const char *, not empty */
    ISO_ARGUMENT_CHOICE,  /* const char *, one of `choices` */
    ISO_ARGUMENT_COUNT,   /* int64_t in [low, high] */
    ISO_ARGUMENT_REAL,    /* double in [low, high], finite */
    ISO_ARGUMENT_SESSION, /* uint64_t or const char *: a row of runtime/session/options.h, with its help */
    ISO_ARGUMENT_FLAG,    /* bool; the option has no value */
    ISO_ARGUMENT_LIST,    /* iso_argument_list: the option may be repeated */
} iso_argument_kind;

enum { ISO_MAX_ARGUMENTS = 80, ISO_MAX_LISTED = 64 };

typedef struct iso_argument_list {
    int count;
    const char *item[ISO_MAX_LISTED];
} iso_argument_list;

typedef struct iso_argument {
    const char *name; /* without the dashes */
    iso_argument_kind kind;
    size_t offset;     /* of the member in the struct */
    const char *value; /* the name of the value in the help */
    const char *help;  /* "%s" in it is replaced by the choices; NULL: the help of the session's row */
    double low, high;  /* numbers: the least and the greatest value (|limits| below 2^53 for counts) */
    const char *const *choices; /* ends with NULL; for a text only shown in the help */
} iso_argument;

/* Reads argv[1..argc) by the table (at most ISO_MAX_ARGUMENTS rows) into the struct `values`: `--name value`
 * or `--name=value`, never abbreviated. Texts point into argv, which is not changed. ISO_INVALID names option
 * and value, and the options with names similar to an unknown one; *values may then be partly filled.
 * Uses getopt_long: one thread at a time. */
iso_status iso_arguments_parse(const iso_argument *table, int rows, int argc, char *const *argv,
                               void *values);

/* Adds a paragraph of help for each row, and one for --help, which every command has and no table. */
void iso_arguments_help(const iso_argument *table, int rows, iso_text *text);

/* A number from text, all of it: ISO_INVALID names `what` and the text. */
iso_status iso_argument_count(const char *what, const char *text, double low, double high, int64_t *value);
/* "28,28,1": up to `rank` sizes of at least `low`. */
iso_status iso_argument_shape(const char *what, const char *text, double low, int rank, iso_shape *shape);
/* A size in bytes from the first `length` characters of a text: "16GiB", "1.5GB". False: it is none. */
bool iso_argument_size(const char *text, size_t length, double *bytes);
iso_status iso_argument_real(const char *what, const char *text, double low, double high, double *value);

#endif
