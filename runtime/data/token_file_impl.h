/* Files of tokens that are too large for memory: rows are read when they are needed. */
#ifndef ISO_DATA_TOKEN_FILE_IMPL_H
#define ISO_DATA_TOKEN_FILE_IMPL_H

#include "runtime/data/node_impl.h"

typedef struct iso_token_file {
    int file; /* a descriptor: a file that takes the path later does not change the rows */
    const char *path;
    size_t begin; /* byte of the first token */
    int width;    /* bytes of a token, lowest first: 1, 2 or 4 */
    size_t size;  /* bytes of the file when it was opened */
} iso_token_file;

/* Reads tokens [first, first + count). ISO_IO: the file cannot be read, or is shorter than when it was opened. */
iso_status iso_token_file_read(const iso_token_file *from, int64_t first, int64_t count, int32_t *tokens);

/* A source of rows of spec->shape[0] tokens, and of those one further on. It copies the path, and closes the file
 * when it is destroyed; after an error the caller closes it. */
iso_status iso_token_file_node(const iso_token_file *from, const iso_spec *spec, int64_t rows,
                               iso_node **node);

#endif
