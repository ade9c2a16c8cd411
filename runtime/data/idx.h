/* IDX, the file format of MNIST: two zero bytes, the element type, the number of dimensions, the dimensions
 * as big-endian 32-bit numbers, the elements in big-endian, row-major order; possibly all of it gzip'd. */
#ifndef ISO_DATA_IDX_H
#define ISO_DATA_IDX_H

#include "runtime/base/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iso_idx {
    iso_dtype dtype; /* int8 and int16 become ISO_I32; the others keep their type */
    iso_shape shape; /* [rows, ...], at least one row */
    void *data;      /* in this machine's byte order; owned: iso_free */
} iso_idx;

/* Reads the content of an IDX file (gzip'd or not) from memory; `name` is for messages. ISO_INVALID, with
 * name and numbers: not IDX, an unknown element type, no dimension or more than ISO_MAX_RANK, a dimension of
 * zero, sizes that overflow, fewer or more bytes than the header says. */
iso_status iso_idx_parse(const void *bytes, size_t size, const char *name, iso_idx *idx);
/* The same for a file, read in blocks. A missing file is ISO_INVALID too. */
iso_status iso_idx_load(const char *path, iso_idx *idx);

/* Whether a data set's folder may have its rows in a file of this name: "train-images-idx3-ubyte.gz". */
bool iso_idx_is_folder_name(const char *name);
/* *folder: where the files of a built-in data set are, the caller's (iso_free). NULL: this is the name of none that
 * has files. ISO_NO_MEMORY. */
iso_status iso_builtin_folder(const char *name, char **folder);

#ifdef __cplusplus
}
#endif
#endif
