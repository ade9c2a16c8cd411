/* Names of checkpoints. For Isogrid's own folders; no public header includes it. */
#ifndef ISO_CHECKPOINT_FILE_NAMES_H
#define ISO_CHECKPOINT_FILE_NAMES_H

#include <stdbool.h>

#include "runtime/base/status.h"

/* Whether a pattern can yield the name of a file: "3-0.25.weights.h5" and "{epoch}-{val_loss:.2f}.weights.h5".
 * {epoch} and {batch} match decimal digits, {another} any number that can be printed, whatever the format's width and
 * digits are; {} matches anything, {{ and }} a brace. Hidden files never match. NULL: any name that ends in
 * ".weights.h5". */
bool iso_file_name_fits(const char *name, const char *pattern);
/* Whether it is the name of a file that tells of the checkpoints beside it: "latest", "best", "finished". */
bool iso_is_pointer_name(const char *name);
/* *folder: that of a checkpoint that is named by its folder, FOLDER/latest or FOLDER/best; the caller's (iso_free).
 * NULL: the path is that of a file. ISO_NO_MEMORY. Local. */
iso_status iso_checkpoint_folder(const char *path, char **folder);

#endif
