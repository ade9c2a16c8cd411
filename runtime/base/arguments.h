/* Checks of the arguments of public functions. For the library only. */
#ifndef ISO_BASE_ARGUMENTS_H
#define ISO_BASE_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/status.h"

/* True if one of the pointers is NULL. The message then names the enclosing function and the parameter:
 * "iso_fit: data is NULL". */
#define ISO_ANY_NULL(...) ISO_ANY_NULL_AS(#__VA_ARGS__, __VA_ARGS__)
/* The same, for variables whose names differ from the header's parameters. names: those of the parameters,
 * separated by ", ". */
#define ISO_ANY_NULL_AS(names, ...)                                                                          \
    iso_any_null_(__func__, names, (const void *const[]){__VA_ARGS__},                                       \
                  sizeof((const void *const[]){__VA_ARGS__}) / sizeof(const void *))

/* Returns ISO_INVALID from the enclosing function if one of the pointers is NULL. */
#define ISO_NEED(...) ISO_NEED_AS(#__VA_ARGS__, __VA_ARGS__)
#define ISO_NEED_AS(names, ...)                                                                              \
    do {                                                                                                     \
        if (ISO_ANY_NULL_AS(names, __VA_ARGS__))                                                             \
            return ISO_INVALID;                                                                              \
    } while (0)

/* Records that parameter number `index` of `names` is NULL. The function's suffix "_with" is left out:
 * users call the macro without it. Returns ISO_INVALID. */
iso_status iso_null_argument(const char *function, const char *names, size_t index);

static inline bool iso_any_null_(const char *function, const char *names, const void *const *pointers,
                                 size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!pointers[i])
            return iso_null_argument(function, names, i) != ISO_OK;
    return false;
}

/* Copies the options of a call into `own` (`own_size` bytes). Members that the caller's struct of `size`
 * bytes lacks, because it was compiled with an older header, become zero. Members that only a newer header
 * has must be zero, otherwise the next iso_options_check() returns an error. options NULL: every member is
 * zero. */
#define iso_options_copy(own, own_size, options, size)                                                       \
    iso_options_copy_of(__func__, own, own_size, options, size)
void iso_options_copy_of(const char *function, void *own, size_t own_size, const void *options, size_t size);
/* ISO_INVALID if, since the last check, a call of this process was given options that this library does not
 * know: the program was built for a newer Isogrid. iso_agree() returns it, so the collective call that was
 * given them, or the next one, fails on every rank. */
iso_status iso_options_check(void);

#endif
