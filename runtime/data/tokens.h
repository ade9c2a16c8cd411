/* Files of text and of tokens. */
#ifndef ISO_DATA_TOKENS_H
#define ISO_DATA_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

/* Whether iso_dataset_open() reads this file as text or tokens: a .bin or .txt file, and with a context any other
 * that is not HDF5. Local. */
bool iso_is_token_file(const char *path, int64_t context);
/* Whether such a file is text: it is not named .bin and has no header of tokens. False also if it cannot be read.
 * Local. */
bool iso_is_text_file(const char *path, int64_t context);

#endif
