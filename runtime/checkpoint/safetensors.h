/* .safetensors files, the format of Hugging Face: a JSON header with names, types and shapes, and the tensors' bytes.
 * iso_saved_file_open reads them: a tensor's HDF5 path is its name after a '/'. Here they are written by all ranks
 * together, each its own parts. */
#ifndef ISO_CHECKPOINT_SAFETENSORS_H
#define ISO_CHECKPOINT_SAFETENSORS_H

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/storage_type.h"

typedef struct iso_safetensors iso_safetensors;

/* Lays a file out beside `path` (hidden until it is committed) and reserves its space; removes from the folder what
 * killed runs left there. tensors: `count` of them, of which dtype and shape are stored, and h5_path as the name,
 * without its '/'; lent until the file is finished. floats: the type in which ISO_F32 and ISO_F64 are stored;
 * ISO_STORAGE_TYPES: their own. ISO_INVALID, ISO_IO name the path. Collective. */
iso_status iso_safetensors_create(iso_context *ctx, const char *path, const iso_saved_tensor *tensors,
                                  int count, iso_storage_type floats, iso_safetensors **file);
/* Writes `count` elements of a tensor from `begin` on, in its row-major order, from `data` of its dtype. Elements
 * that no rank writes are zero. ISO_INVALID names the file, the tensor, the element and the number if it is too large
 * for the type in which it is stored; ISO_IO. Local; one thread at a time. */
iso_status iso_safetensors_write(iso_safetensors *file, int tensor, int64_t begin, int64_t count,
                                 const void *data);
/* Returns when what this rank has written is on the disk. Before several files get their names one after the other.
 * ISO_IO. Local. */
iso_status iso_safetensors_sync(const iso_safetensors *file);
/* Ends and frees the file as iso_rows_file_finish does. Collective. */
iso_status iso_safetensors_finish(iso_safetensors *file, iso_status status);

/* The name of an element type in such files: "BF16". */
const char *iso_safetensors_type(iso_storage_type type);

#endif
