/* Descriptors. An optimizer, schedule, loss, metric, activation or initializer has one descriptor: its names, its
 * settings, and functions. Files, the command line, reports and checkpoints iterate over the descriptors and over
 * their settings.
 *
 * The descriptor type of a family begins with an iso_descriptor. The family is a NULL-terminated array of
 * iso_descriptor pointers. */
#ifndef ISO_BASE_DESCRIPTOR_H
#define ISO_BASE_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/status.h"
#include "runtime/base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The type of the struct member that holds a setting. */
typedef enum iso_setting_kind {
    ISO_SETTING_REAL,     /* double */
    ISO_SETTING_OPTIONAL, /* double; 0: none, which is null in Keras's files */
    ISO_SETTING_COUNT,    /* int64_t */
    ISO_SETTING_INT,      /* int */
    ISO_SETTING_NULLABLE, /* double; 0: none, which is null in Keras's files; ISO_ZERO: 0 */
    ISO_SETTING_INDEX,    /* int, likewise */
    ISO_SETTING_CHOICE,   /* an enum or int: the number of one of the setting's words */
    ISO_SETTING_BITS,     /* uint64_t: a set of numbers below ISO_SETTING_BITS_END, a list in Keras's files */
    ISO_SETTING_FLAG,     /* bool */
    ISO_SETTING_NOT,      /* bool, whose opposite Keras has; the fallback is that of Keras's */
} iso_setting_kind;

enum { ISO_SETTING_BITS_END = 53 }; /* a set is a whole number that a double holds */

/* A number that can be set, and the member of a struct that holds it. */
typedef struct iso_setting {
    const char *name; /* NULL ends a list of settings */
    iso_setting_kind kind;
    size_t offset;            /* of the member, in bytes */
    double fallback;          /* the value if nothing is set, which is Keras's default */
    const char *keras;        /* its name in Keras; NULL: the same name */
    const char *const *words; /* of a CHOICE, at their numbers, then NULL */
    bool not_keras;           /* Keras's class has no such argument */
} iso_setting;

/* A setting that has the name of its member, and no words. */
#define ISO_SETTING(type, kind, member, fallback)                                                            \
    {                                                                                                        \
#member, ISO_SETTING_##kind, offsetof(type, member), fallback, NULL, NULL, false                     \
    }

/* The setting of this name in a list; NULL if there is none. */
const iso_setting *iso_setting_of(const iso_setting *settings, const char *name);
/* The name in Keras's files. */
const char *iso_setting_keras(const iso_setting *setting);
/* The member's value, as a number; values: the struct. */
double iso_setting_get(const iso_setting *setting, const void *values);
/* The same for a struct of options, in which zero means the default and ISO_ZERO the number zero. A flag, a set, a
 * NULLABLE and an INDEX are returned as they are. */
double iso_setting_option(const iso_setting *setting, const void *options);
/* Stores the value into the member. A whole-number member gets it rounded toward zero and clamped to its
 * range. */
void iso_setting_set(const iso_setting *setting, void *values, double value);

/* Members that are ISO_ZERO become 0: for a struct whose defaults are all 0. */
void iso_settings_zero(const iso_setting *settings, void *values);

enum { ISO_MAX_ROWS = 64 }; /* of one family */

typedef struct iso_descriptor {
    const char *name;           /* on the command line, in messages and checkpoints: "adam" */
    const char *keras;          /* the class in Keras's files: "Adam"; NULL: Keras has none */
    const iso_setting *setting; /* ends with a name of NULL; NULL: no settings */
} iso_descriptor;

/* Adds the names, or those of Keras's classes, separated by ", ". */
void iso_descriptor_add_names(const iso_descriptor *const *rows, bool keras, iso_text *text);
/* The row of this name; NULL if there is none. */
const iso_descriptor *iso_descriptor_of(const iso_descriptor *const *rows, const char *name);
/* The row of this class, or of the class's name in snake case ("Adam", "adam"); NULL if there is none. */
const iso_descriptor *iso_descriptor_of_keras(const iso_descriptor *const *rows, const char *class_name);
/* ISO_INVALID "unknown optimizer 'adm'; did you mean 'adam'?": what: the kind of row; names: all spellings, of which
 * the nearest are offered; listed: the names to be listed if none is near. */
iso_status iso_descriptor_unknown(const char *what, const char *name, const char *const *names, int count,
                                  const char *const *listed, int n_listed);
/* Stores the row of this name in *row. ISO_INVALID names the kind of row (`what`: "optimizer"), the name,
 * and the names nearest to it. */
iso_status iso_descriptor_find(const iso_descriptor *const *rows, const char *what, const char *name,
                               const iso_descriptor **row);

#ifdef __cplusplus
}
#endif
#endif
