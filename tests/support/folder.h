/* A folder for the files of a test. */
#ifndef ISO_TESTS_SUPPORT_FOLDER_H
#define ISO_TESTS_SUPPORT_FOLDER_H

#include "runtime/base/status.h"

/* Makes a new folder below /tmp, the same on all ranks (ctx NULL: of this process alone); removes it with its
 * contents, once no rank reads it. Collective. */
iso_status make_test_folder(iso_context *ctx, char folder[64]);
iso_status remove_test_folder(iso_context *ctx, const char *folder);
/* "FOLDER/NAME", valid for the next three calls. */
const char *in_folder(const char *folder, const char *name);
/* The names in a folder, hidden ones too, sorted, with blanks between; the same kind of memory. */
const char *names_in(const char *folder);

#endif
