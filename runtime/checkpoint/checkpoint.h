/* Checkpoints: one HDF5 file, written in parallel, committed whole or not at all, which Keras opens as it is.
 *
 * A file holds tensors under the HDF5 paths that Keras uses, groups with the attribute `name` that Keras
 * writes, and in addition the group /isogrid:
 *   /isogrid/state   a JSON text: the state that the caller saves
 *   /isogrid/index   a JSON text: for each tensor its HDF5 path and its path in Isogrid
 *   /isogrid/crc32   uint32 [tensors], in the index's order: the CRC-32 (zlib's) of each tensor's bytes
 * The commit record (commit_record.h) follows the last byte of the HDF5 file. It has the offsets of the
 * tensors' bytes, their checksums, the checksum of all other bytes, and the checkpoint's number. A file
 * without a valid record is not a checkpoint, but it may be a weights file of Keras.
 *
 * Checkpoints take shards (runtime/base/shards.h) and do not depend on graphs, plans or layouts.
 * Functions are local unless their comment says otherwise. */
#ifndef ISO_CHECKPOINT_CHECKPOINT_H
#define ISO_CHECKPOINT_CHECKPOINT_H

#include "runtime/base/shards.h"
#include "runtime/base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A tensor in a file. Texts are lent. */
typedef struct iso_saved_tensor {
    const char *h5_path; /* HDF5 path of its dataset: "/layers/dense/vars/0" */
    const char *path;    /* in Isogrid: "d1/kernel", "optimizer/adam/d1/kernel/momentum"; NULL: unknown */
    iso_dtype dtype;
    iso_shape shape;
} iso_saved_tensor;

/* A group, which the file has even if it is empty, and its attribute `name`; NULL: it has none. */
typedef struct iso_saved_group {
    const char *h5_path; /* "/layers/dense/vars" */
    const char *name;
} iso_saved_group;

typedef struct iso_saved_file iso_saved_file;

/* Opens a checkpoint, or any .weights.h5 that Keras wrote. A file without a commit record is first checked by
 * a child process under limits of memory and time. Links, external and virtual datasets are refused.
 * A file whose name ends in .safetensors is read as one (safetensors.h).
 * ISO_INVALID, ISO_IO name the file and what is wrong with it; ISO_IO also if a rank does not see the file that rank
 * 0 sees. Does not verify all bytes: see iso_saved_file_verify. *file is owned by the caller (iso_saved_file_close).
 * Collective. */
ISO_API iso_status iso_saved_file_open(iso_context *ctx, const char *path, iso_saved_file **file);
/* Closes the file and frees it. NULL is ignored. Local. */
ISO_API void iso_saved_file_close(iso_saved_file *file);
/* Whether the file has a commit record; *number is the record's. */
ISO_API bool iso_saved_file_committed(const iso_saved_file *file, uint64_t *number);
/* Whether the file has checksums of its tensors: it has a commit record, or it is a checkpoint that was cut off, or
 * to which another program has written. */
ISO_API bool iso_saved_file_has_checksums(const iso_saved_file *file);
/* What messages call the file: its path, or the name that it was given. Lent. */
ISO_API const char *iso_saved_file_path(const iso_saved_file *file);
/* Names the archive that the file was unpacked from. ISO_NO_MEMORY. Local. */
ISO_API iso_status iso_saved_file_set_path(iso_saved_file *file, const char *path);
/* The JSON text of /isogrid/state; NULL: the file has none. Lent. */
ISO_API const char *iso_saved_file_state(const iso_saved_file *file);
/* The tensors of a file, and below its groups: their number, and each by index; NULL outside [0, count). Lent. */
ISO_API int iso_saved_file_tensors(const iso_saved_file *file);
ISO_API const iso_saved_tensor *iso_saved_file_tensor(const iso_saved_file *file, int index);
/* The name of the type that stores its elements: "float16", which is read as float32. *bytes: the size of one
 * element (may be NULL). */
ISO_API const char *iso_saved_file_stored(const iso_saved_file *file, int index, uint64_t *bytes);
/* The index of the tensor with an HDF5 path (iso_saved_file_at) or a path in Isogrid (iso_saved_file_of); -1:
 * none. */
ISO_API int iso_saved_file_at(const iso_saved_file *file, const char *h5_path);
ISO_API int iso_saved_file_of(const iso_saved_file *file, const char *path);
/* The attribute `name` of a group; NULL: there is no such attribute or group. Lent. */
ISO_API const char *iso_saved_file_name(const iso_saved_file *file, const char *group);
ISO_API int iso_saved_file_groups(const iso_saved_file *file);
ISO_API const iso_saved_group *iso_saved_file_group(const iso_saved_file *file, int index);
/* Reads the elements of `box` (global coordinates) into `out`, dense, converted to dtype. ISO_IO. Local. */
ISO_API iso_status iso_saved_file_read(iso_saved_file *file, int tensor, const iso_box *box, iso_dtype dtype,
                                       void *out);
/* Fills a shard (its elements [begin, begin + count) of its box) from a tensor. ISO_INVALID: their
 * shapes differ; ISO_IO. Not collective. */
ISO_API iso_status iso_saved_file_read_shard(iso_saved_file *file, int tensor, const iso_state_shard *shard);
/* Reads all bytes, shared among the ranks, and compares them with the checksums. Does nothing if the file was
 * verified before and has not changed since. ISO_INVALID names the first tensor that is not what was written;
 * ISO_OK for files without checksums. Collective. */
ISO_API iso_status iso_saved_file_verify(iso_saved_file *file);

/* Finds the newest checkpoint of a folder (by number, then by time) that opens and verifies, and whose name
 * matches the pattern (NULL: any name). *file is open, verified and owned by the caller; NULL if there is
 * none or the folder does not exist. For each file that was skipped, because it is damaged or no checkpoint, a line
 * with the reason is added to `passed_over` (may be NULL). ISO_INVALID: the folder cannot be listed. ISO_IO: the
 * folder or a file that may be the newest cannot be read, or not by all ranks. Collective. */
ISO_API iso_status iso_checkpoint_find(iso_context *ctx, const char *folder, const char *pattern,
                                       iso_saved_file **file, iso_text *passed_over);
/* The same as iso_checkpoint_find, but the chief warns of the skipped files: "<what> skips", and a line on
 * each. Collective. */
ISO_API iso_status iso_checkpoint_newest(iso_context *ctx, const char *what, const char *folder,
                                         const char *pattern, iso_saved_file **file);
/* The file of a checkpoint that is named by its folder or by FOLDER/latest (the newest complete one), or by
 * FOLDER/best: *found is the caller's (iso_free); NULL: path is a file itself. use: for messages ("--resume").
 * ISO_INVALID if there is no such checkpoint, or the file may not be read; ISO_IO; ISO_NO_MEMORY. Collective. */
ISO_API iso_status iso_checkpoint_resolve(iso_context *ctx, const char *use, const char *path, char **found);
/* Opens the file of a checkpoint that is named so, as iso_saved_file_open does, which has the errors; messages
 * begin with `use`. Collective. */
ISO_API iso_status iso_checkpoint_open(iso_context *ctx, const char *use, const char *path,
                                       iso_saved_file **file);
/* Reads the name in the pointer file ("latest", "best") of a folder: *name is the caller's (iso_free), NULL
 * if the pointer does not exist. ISO_IO. Local. */
ISO_API iso_status iso_checkpoint_pointed(const char *folder, const char *pointer, char **name);

#ifdef __cplusplus
}
#endif
#endif
