/* Names of checkpoints. For Isogrid's own folders; no public header includes it. */
#ifndef ISO_CHECKPOINT_FILE_NAMES_H
#define ISO_CHECKPOINT_FILE_NAMES_H

#include <stdbool.h>

/* Whether a pattern can yield the name of a file: "3-0.25.weights.h5" and "{epoch}-{val_loss:.2f}.weights.h5".
 * {epoch} and {batch} match decimal digits, {another} any number that can be printed, whatever the format's width and
 * digits are; {} matches anything, {{ and }} a brace. Hidden files never match. NULL: any name that ends in
 * ".weights.h5". */
bool iso_file_name_fits(const char *name, const char *pattern);

#endif
