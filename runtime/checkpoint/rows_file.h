/* HDF5 files of arrays [rows, ...] that all ranks write together, each rank its own parts. */
#ifndef ISO_CHECKPOINT_ROWS_FILE_H
#define ISO_CHECKPOINT_ROWS_FILE_H

#include "runtime/base/batch.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iso_rows_file iso_rows_file;

typedef struct iso_rows_array {
    const char *name; /* HDF5 path of its dataset; '/' makes groups; lent for the call */
    iso_dtype dtype;  /* ISO_BOOL becomes uint8 */
    iso_shape shape;  /* global */
} iso_rows_array;

/* Lays a file out beside `path` (hidden until it is committed) and reserves its space; removes from the
 * folder what killed runs left there. At most ISO_MAX_COMPONENTS arrays. Every rank must see the folder.
 * ISO_IO names the path. Collective. */
iso_status iso_rows_file_create(iso_context *ctx, const char *path, const iso_rows_array *arrays, int count,
                                iso_rows_file **file);
/* Writes a box of an array from `data`, dense. Parts that no rank writes are zero. Local; one thread at a
 * time. */
iso_status iso_rows_file_write(iso_rows_file *file, int array, const iso_box *box, const void *data);
/* Ends and frees the file. If `status` is ISO_OK on all ranks, all bytes are on the disk and the file has its
 * final name, replacing any previous file of that name; otherwise it is removed and nothing has changed.
 * Exception: if only the sync of the folder fails, the file is there and the status reports the failure.
 * Returns the agreed status. Collective. */
iso_status iso_rows_file_finish(iso_rows_file *file, iso_status status);

#ifdef __cplusplus
}
#endif
#endif
